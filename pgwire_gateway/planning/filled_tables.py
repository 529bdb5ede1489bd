"""Which tables statements could fill with many rows that PostgreSQL computes."""

from collections.abc import Mapping, Sequence

from catalog.results import Relation, RelationKind
from rewrite.command import (
    Command,
    command,
    inserted_rows,
    source_relations,
    target_relation,
)
from rewrite.tree import Node


def filled_table(queries: Sequence[Node], relations: Mapping[int, Relation]) -> int | None:
    """Return the resident table that an INSERT could fill with many rows; None where it does not.

    Nor where it reads that table, too, in which it would find no rows any more.

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
    if target.is_leaf or inserted_rows(query) is not None:
        return None
    return None if target.relid in source_relations(query) else target.relid
