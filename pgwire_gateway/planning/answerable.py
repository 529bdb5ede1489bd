"""Tables that PostgreSQL answers for in a statement, and whether it still did when it ran them.

A table may become tiered between the moment a statement is planned and that of the snapshot it is
run with; PostgreSQL would find no rows in it. So what it answered for is compared afterwards.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from catalog.errors import OutdatedAnswerError
from catalog.results import Relation, RelationKind
from catalog.session.connections import CatalogSession


@dataclass(frozen=True, slots=True)
class Answerable:
    """Resident tables as a plan found them."""

    definitions: int
    """Fingerprint of the definitions they were found by."""
    relations: frozenset[Relation]

    @classmethod
    def of(cls, definitions: int, relations: Iterable[Relation]) -> "Answerable | None":
        """Return the resident tables among these relations; None when there are none."""
        found = frozenset(r for r in relations if r.kind is RelationKind.RESIDENT)
        return cls(definitions, found) if found else None

    def agrees(self, later: "Answerable | None") -> bool:
        """Return whether no table in both has been tiered between them."""
        turns = {relation.relid: relation.turns for relation in later.relations} if later else {}
        return all(turns.get(r.relid, r.turns) == r.turns for r in self.relations)


def prove(catalog: CatalogSession, found: Answerable | None) -> None:
    """Make sure that PostgreSQL has answered for these tables until now.

    Raises:
        OutdatedAnswerError: It has not.
    """
    if found is None or catalog.transaction_status == "E":
        return
    if catalog.observations.definitions() == found.definitions:
        return
    now = catalog.observations.relations([relation.relid for relation in found.relations])
    if any(
        now[r.relid].kind is not r.kind or now[r.relid].turns != r.turns for r in found.relations
    ):
        raise OutdatedAnswerError(
            "could not serialize access due to a concurrent change of residency",
            hint="The transaction might succeed if retried.",
        )
