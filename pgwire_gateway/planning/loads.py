"""Which statements could fill an empty table with many rows."""

from collections.abc import Mapping, Sequence

from catalog.results import Relation, RelationKind
from rewrite.command import Command, command, inserted_rows, target_relation
from rewrite.tree import Node


def loaded(queries: Sequence[Node], relations: Mapping[int, Relation]) -> int | None:
    """Return the resident table that an INSERT could fill with many rows; None where it does not.

    Args:
        queries: What PostgreSQL makes of the statement.
        relations: The relations in it.
    """
    if len(queries) != 1 or command(queries[0]) is not Command.INSERT:
        return None
    (query,) = queries
    if query.get("onConflict") is not None or query.get("hasModifyingCTE"):
        return None
    target = relations.get(target_relation(query))
    if target is None or target.kind is not RelationKind.RESIDENT or target.tree is not None:
        return None
    return target.relid if inserted_rows(query) is None and not target.is_leaf else None
