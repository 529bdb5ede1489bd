"""RETURNING: as a query of its own over the rows a statement has written, and taken apart."""

from dataclasses import dataclass

from catalog.pg.nodes import VarReturningType
from rewrite.errors import UnsupportedError
from rewrite.tree import Item, Node, walk


def returning_query(query: Node) -> Node:
    """Return the SELECT that yields what an INSERT returns, to be compiled over the new rows alone.

    Raises:
        UnsupportedError: 0A000 for subqueries, which would see nothing but the new rows.
    """
    returning = query.items("returningList")
    if any(node.tag == "SUBLINK" for entry in returning for node, _ in walk(entry)):
        raise UnsupportedError("a subquery in RETURNING of an INSERT that reads journaled tables")
    target = Node("RANGETBLREF", {"rtindex": query.integer("resultRelation")})
    return query.replace(
        commandType=1,
        resultRelation=0,
        targetList=returning,
        returningList=None,
        cteList=None,
        hasSubLinks=False,
        jointree=Node("FROMEXPR", {"fromlist": [target], "quals": None}),
    )


OLD, NEW = VarReturningType.OLD, VarReturningType.NEW
"""Values of ``varreturningtype``; 0 is neither."""


@dataclass(frozen=True, slots=True)
class Returned:
    """What an entry of RETURNING is made of."""

    name: str
    column: str | None = None
    """Column of the row that is written; None where the entry has nothing to do with that."""
    state: int = 0
    """Which of its states: ``OLD``, ``NEW`` or 0."""


def returned(query: Node) -> tuple[Returned, ...]:
    """Tell the entries of RETURNING that are columns of the written row from those without it.

    Raises:
        UnsupportedError: 0A000 for what takes both, or computes with the written row.
    """
    target = query.integer("resultRelation")
    columns = query.nodes("rtable")[target - 1].node("eref").items("colnames")
    return tuple(_returned(entry, target, columns) for entry in query.nodes("returningList"))


def without_written(query: Node) -> Node:
    """Return a query that returns no more than what has nothing to do with the written row."""
    target = query.integer("resultRelation")
    kept: list[Item] = [
        entry for entry in query.nodes("returningList") if not _names_written(entry, target)
    ]
    return query.replace(returningList=kept)


def _returned(entry: Node, target: int, columns: list[Item]) -> Returned:
    name = entry.text("resname") or "?column?"
    if not _names_written(entry, target):
        return Returned(name)
    node = entry.node("expr")
    if node.tag != "VAR" or node.integer("varattno") <= 0:
        raise UnsupportedError(
            "RETURNING of expressions over the written row, in a statement on several relations,"
            " is not supported"
        )
    column = str(columns[node.integer("varattno") - 1])
    return Returned(name, column, node.integer("varreturningtype", 0))


def _names_written(entry: Node, target: int) -> bool:
    return any(
        node.tag == "VAR" and node["varno"] == target and node["varlevelsup"] == depth
        for node, depth in walk(entry)
    )
