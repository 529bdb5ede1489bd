"""Writes of resident tables while ``gateway.executor`` keeps PostgreSQL from computing them.

Spark reads what such a statement reads, PostgreSQL applies what was computed. What PostgreSQL would
have to compute of a table itself is refused.
"""

from collections.abc import Mapping

from catalog.pg.nodes import OnConflictAction
from catalog.results import Relation, RelationKind
from pgwire_gateway.planning.plans import Plan
from rewrite.command import (
    Command,
    command,
    source_relations,
    target_relation,
    written_relations,
)
from rewrite.errors import UnsupportedError
from rewrite.tree import Node

SPARK_EXECUTORS = frozenset({"spark", "files"})
"""Values of ``gateway.executor`` that keep PostgreSQL from answering for resident tables."""

HINT = "SET gateway.executor TO auto."

CHANGES = frozenset({Command.UPDATE, Command.DELETE})

_DO_UPDATE = OnConflictAction.UPDATE


def is_forced(plan: Plan) -> bool:
    """Return whether a statement was planned with PostgreSQL kept from answering."""
    return plan.basis is not None and plan.basis.executor in SPARK_EXECUTORS


def is_applied(plan: Plan, relations: Mapping[int, Relation]) -> bool:
    """Return whether Spark is to compute which rows of a resident table change, and how."""
    query = plan.query
    if query is None or not is_forced(plan) or query["commandType"] not in CHANGES:
        return False
    return relations[target_relation(query)].kind is RelationKind.RESIDENT


def require_no_heirs(relations: Mapping[int, Relation]) -> None:
    """Refuse tables from which others inherit, whose rows are theirs, too (0A000).

    Each table has a journal of its own.
    """
    for relation in relations.values():
        if relation.has_heirs and relation.kind is RelationKind.RESIDENT:
            raise UnsupportedError(
                f'"{relation.name}", from which other tables inherit, is not supported by Spark',
                hint=HINT,
            )


def require_applicable(query: Node, relations: Mapping[int, Relation]) -> None:
    """Refuse writes of PostgreSQL's tables for which it would have to read these itself (0A000).

    Temporary tables are its own; it has no journal of them.
    """
    written = [
        relation
        for relation in map(relations.__getitem__, written_relations(query))
        if not relation.is_lasting and relation.kind is not RelationKind.JOURNALED
    ]
    if not written:
        return
    kind = command(query)
    if query.get("hasModifyingCTE"):
        raise _refusal("WITH that modifies data")
    if kind is Command.MERGE:
        raise _refusal("MERGE")
    conflict = query.optional("onConflict")
    if conflict is not None and conflict["action"] == _DO_UPDATE:
        raise _refusal("INSERT ... ON CONFLICT DO UPDATE")
    for relation in map(relations.__getitem__, source_relations(query)):
        if relation.kind is RelationKind.CATALOG and not relation.is_lasting:
            raise _refusal(f'reading "{relation.name}", which has no journal of its own,')
    if kind in CHANGES and written[0].kind in {RelationKind.CATALOG, RelationKind.VIEW}:
        raise _refusal(f'{kind.name} of "{written[0].name}", which is a view or has partitions,')


def _refusal(construct: str) -> UnsupportedError:
    return UnsupportedError(f"{construct} is not supported by gateway.executor = spark", hint=HINT)
