"""FOR UPDATE, FOR SHARE and the like: what a query locks of the rows it reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rewrite.errors import UnsupportedError
from rewrite.query.range_table import RELATION
from rewrite.tree import Item, Node, transform, walk

_STRENGTHS: Final = {1: "FOR KEY SHARE", 2: "FOR SHARE", 3: "FOR NO KEY UPDATE", 4: "FOR UPDATE"}
"""LockClauseStrength of PostgreSQL's nodes/lockoptions.h."""

_BLOCK = 0
"""LockWaitBlock of the same file: who finds a row locked waits."""


@dataclass(frozen=True, slots=True)
class RowLocks:
    """The row locks of one statement."""

    relids: frozenset[int]
    """OIDs of the tables whose rows are locked."""
    strength: str
    """The strongest of them, as SQL."""
    waits: bool
    """Whether the statement waits for rows that others have locked."""


def row_locks(query: Node) -> RowLocks | None:
    """Return what a query locks; None for nothing."""
    found = list(_marks(query))
    if not found:
        return None
    return RowLocks(
        frozenset(relid for relid, _ in found),
        _STRENGTHS[max(mark.integer("strength") for _, mark in found)],
        all(mark["waitPolicy"] == _BLOCK for _, mark in found),
    )


def _marks(query: Node) -> Iterator[tuple[int, Node]]:
    for node, _ in walk(query):
        for mark in node.nodes("rowMarks") if node.tag == "QUERY" else ():
            entry = node.nodes("rtable")[mark.integer("rti") - 1]
            if entry["rtekind"] == RELATION:  # of views and subqueries those inside have marks
                yield entry.integer("relid"), mark


def without_row_locks(query: Node) -> Node:
    """Return a query that reads the same rows and locks none."""
    found = transform(query, _without)
    if not isinstance(found, Node):
        raise UnsupportedError("FOR UPDATE and FOR SHARE are not supported here")
    return found


def _without(node: Node, _: int) -> Item | None:
    if node.tag != "QUERY" or not node.items("rowMarks"):
        return None
    return transform(node.replace(rowMarks=None, hasForUpdate=False), _without)
