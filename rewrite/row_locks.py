"""FOR UPDATE, FOR SHARE and the like: what a query locks of the rows it reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from catalog.pg.nodes import LockClauseStrength, LockWaitPolicy
from rewrite.errors import UnsupportedError
from rewrite.query.range_table import RELATION
from rewrite.tree import Item, Node, transform, walk

_STRENGTHS: Final[dict[int, str]] = {
    LockClauseStrength.FORKEYSHARE: "FOR KEY SHARE",
    LockClauseStrength.FORSHARE: "FOR SHARE",
    LockClauseStrength.FORNOKEYUPDATE: "FOR NO KEY UPDATE",
    LockClauseStrength.FORUPDATE: "FOR UPDATE",
}


class WaitPolicy(Enum):
    """What becomes of rows that others have locked: LockWaitPolicy of PostgreSQL's nodes."""

    BLOCK = LockWaitPolicy.BLOCK.value
    """They are waited for."""
    SKIP = LockWaitPolicy.SKIP.value
    """They are left out."""
    ERROR = LockWaitPolicy.ERROR.value
    """The statement fails."""


@dataclass(frozen=True, slots=True)
class RowLocks:
    """The row locks of one statement."""

    relids: frozenset[int]
    """OIDs of the tables whose rows are locked, of which Spark reads."""
    strength: str
    """The strongest of them, as SQL."""
    waits: bool
    """Whether the statement waits for rows that others have locked."""
    resident: frozenset[int] = frozenset()
    """OIDs of further tables, whose rows PostgreSQL has."""


def row_locks(query: Node) -> RowLocks | None:
    """Return what a query locks; None for nothing."""
    found = list(_marks(query))
    if not found:
        return None
    return RowLocks(
        frozenset(relid for relid, _ in found),
        _STRENGTHS[max(mark.integer("strength") for _, mark in found)],
        all(mark["waitPolicy"] == WaitPolicy.BLOCK.value for _, mark in found),
    )


def _marks(query: Node) -> Iterator[tuple[int, Node]]:
    for node, _ in walk(query):
        for mark in node.nodes("rowMarks") if node.tag == "QUERY" else ():
            entry = node.nodes("rtable")[mark.integer("rti") - 1]
            if entry["rtekind"] == RELATION:  # of views and subqueries those inside have marks
                yield entry.integer("relid"), mark


def wait_policy(query: Node, relid: int) -> WaitPolicy | None:
    """Return what becomes of rows that others have locked, wherever a query reads a table.

    None where the places differ, or one of them locks nothing.
    """
    policies = [mark.integer("waitPolicy") for locked, mark in _marks(query) if locked == relid]
    places = sum(
        entry["rtekind"] == RELATION and entry.integer("relid") == relid
        for node, _ in walk(query)
        if node.tag == "QUERY"
        for entry in node.nodes("rtable")
    )
    if len(set(policies)) != 1 or len(policies) != places:
        return None
    return WaitPolicy(policies[0])


def has_limit(query: Node) -> bool:
    """Return whether a query may leave rows unlocked that it could lock."""
    return any(node.tag == "QUERY" and node.optional("limitCount") for node, _ in walk(query))


def runs_once(query: Node) -> bool:
    """Return whether a subquery of a statement has to run once, as it takes other rows each time.

    ``DELETE FROM t WHERE k IN (SELECT k FROM t LIMIT 1 FOR UPDATE)``: rows that the statement has
    changed already it locks no more. PostgreSQL runs it for each row of ``t`` where it takes ``t``
    for tiny, which it does of a table that holds hot rows alone.
    """
    return any(
        nested is not query and has_limit(nested) and next(_marks(nested), None) is not None
        for nested, _ in walk(query)
        if nested.tag == "QUERY"
    )


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
