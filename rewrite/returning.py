"""RETURNING as a query of its own over the rows a statement has written."""

from rewrite.errors import UnsupportedError
from rewrite.tree import Node, walk


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
