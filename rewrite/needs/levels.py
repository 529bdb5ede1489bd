"""The queries of a statement, each with the one around it."""

from collections.abc import Iterator
from dataclasses import dataclass

from catalog.pg.nodes import CmdType
from rewrite.query.range_table import CTE, SUBQUERY
from rewrite.tree import Item, Node

_SELECT = CmdType.SELECT
_SHAPING = (
    *("setOperations", "groupClause", "groupingSets", "havingQual", "hasAggs", "distinctClause"),
    *("hasWindowFuncs", "hasTargetSRFs", "limitCount", "limitOffset", "rowMarks"),
)
_LEAVES = frozenset({"CONST", "PARAM", "VAR"})
"""Nodes that hold no others, most of a tree."""


@dataclass(frozen=True, slots=True)
class Level:
    """A query, and the query it stands in."""

    query: Node
    outer: "Level | None" = None

    def up(self, levels: int) -> "Level | None":
        """Return the query so many levels further out."""
        level: Level | None = self
        for _ in range(levels):
            level = level.outer if level else None
        return level

    def entry(self, varno: int) -> Node:
        """Return a range table entry."""
        return self.query.nodes("rtable")[varno - 1]


def is_plain(query: Node) -> bool:
    """Return whether each row of a query is made of one row of its FROM clause, on its own."""
    return query["commandType"] == _SELECT and not any(query.get(name) for name in _SHAPING)


def joined_query(level: Level, varno: int) -> Node | None:
    """Return the SELECT that a range table entry of FROM is: a subquery, a view or one of WITH."""
    entry = level.entry(varno)
    if entry["rtekind"] == SUBQUERY:
        return entry.node("subquery")
    found = common_table(level, entry) if entry["rtekind"] == CTE else None
    return found.query if found and found.query["commandType"] == _SELECT else None


def common_table(level: Level, entry: Node) -> Level | None:
    """Return the query of WITH that a range table entry names; None for a recursive one."""
    owner = level.up(entry.integer("ctelevelsup"))
    for definition in owner.query.nodes("cteList") if owner else ():
        if definition.text("ctename") == entry.text("ctename"):
            recursive = definition.get("cterecursive")
            return None if recursive else Level(definition.node("ctequery"), owner)
    return None


def levels(query: Node, outer: Level | None = None) -> Iterator[Level]:
    """Yield a query and all queries in it, wherever they stand: FROM, WITH, sublinks, policies."""
    level = Level(query, outer)
    yield level
    for nested in _nested(query):
        yield from levels(nested, level)


def _nested(query: Node) -> Iterator[Node]:
    pending: list[Item] = list(query.fields.values())
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, Node):
            if item.tag == "QUERY":
                yield item
            elif item.tag not in _LEAVES:
                pending.extend(item.fields.values())
