"""LIMIT, where it tells how many rows of a table a query can do with, whichever these are.

    DELETE FROM t WHERE k IN (SELECT k FROM t WHERE v > 3 LIMIT 100)

needs a hundred of the rows with ``v > 3`` for its subquery, and nothing says which. They are still
enough when the statement runs if nobody has written the table since they were counted.

Not so where an order, a lock that another session may have, or a number of rows to be left out
makes the others matter; nor where rows are joined, sorted out, grouped or told apart afterwards.
"""

from collections.abc import Sequence

from rewrite.needs.definitions import Definitions
from rewrite.needs.levels import Level, is_plain
from rewrite.needs.steady import is_constant
from rewrite.tree import Node


def enough(
    level: Level, own: Sequence[Node], conditions: Sequence[Node], definitions: Definitions
) -> Node | None:
    """Return how many rows of a relation a query can do with; None where it may need all.

    Args:
        level: The query, which reads the relation.
        own: The conditions that are told of the relation's rows.
        conditions: All that these have to satisfy.
        definitions: What is known of functions.
    """
    query = level.query
    limit = query.optional("limitCount")
    if limit is None or limit.get("constisnull") or not is_constant(limit, definitions.volatility):
        return None
    if query.get("sortClause") or not is_plain(query.replace(limitCount=None)):
        return None
    read = query.node("jointree").nodes("fromlist")
    if len(read) != 1 or read[0].tag != "RANGETBLREF" or len(own) != len(conditions):
        return None
    # Nor do the conditions tell what policies leave of the rows.
    policed = level.entry(read[0].integer("rtindex")).get("securityQuals")
    return None if policed else limit
