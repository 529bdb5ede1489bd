"""LIMIT, where it tells how many rows of a table a query can do with, whichever these are.

    DELETE FROM t WHERE k IN (SELECT k FROM t WHERE v > 3 LIMIT 100)

needs a hundred of the rows with ``v > 3`` for its subquery, and nothing says which. They are still
enough when the statement runs if nobody has written the table since they were counted.

Not so where an order, a lock that another session may have, or a number of rows to be left out
makes the others matter; nor where rows are joined, sorted out, grouped or told apart afterwards.

    SELECT k FROM t WHERE v > 3 ORDER BY k LIMIT 1 FOR UPDATE SKIP LOCKED

takes rows in their order, and locks what it takes. So it tells by itself how far it has got.
"""

from collections.abc import Sequence

from catalog.pg.nodes import LimitOption
from rewrite.needs.definitions import Definitions
from rewrite.needs.levels import Level, is_plain
from rewrite.needs.results import Queue
from rewrite.needs.steady import is_constant, is_steady
from rewrite.tree import Node, walk

_WITH_TIES = LimitOption.WITH_TIES


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
    limit = _limit(query, definitions)
    if limit is None or query.get("sortClause") or query.items("rowMarks"):
        return None
    return limit if _reads_one(level, own, conditions, definitions) else None


def queue(
    level: Level, own: Sequence[Node], conditions: Sequence[Node], definitions: Definitions
) -> Queue | None:
    """Return the order in which a query locks rows of a relation until it has enough of them.

    None where it may need all of them. The arguments are those of `enough`.
    """
    query = level.query
    if _limit(query, definitions) is None or query.get("limitOption") == _WITH_TIES:
        return None
    # Of one relation it is the rows of this one that are locked.
    if not query.items("rowMarks") or not _reads_one(level, own, conditions, definitions):
        return None
    sort = tuple(query.nodes("sortClause"))
    references = {clause["tleSortGroupRef"] for clause in sort}
    values = tuple(t for t in query.nodes("targetList") if t.get("ressortgroupref") in references)
    is_of_row = all(_is_of_row(value.node("expr"), definitions) for value in values)
    return Queue(sort, values) if is_of_row else None


def _is_of_row(value: Node, definitions: Definitions) -> bool:
    """Return whether a value is that of a row of the only relation, whenever it is asked."""
    columns = [part for part, _ in walk(value) if part.tag == "VAR"]
    own = all(part["varlevelsup"] == 0 and part.integer("varattno") > 0 for part in columns)
    return own and is_steady(value, definitions.volatility)


def _limit(query: Node, definitions: Definitions) -> Node | None:
    """Return the number of rows that a query stops at, where that is always the same."""
    limit = query.optional("limitCount")
    if limit is None or limit.get("constisnull"):
        return None
    return limit if is_constant(limit, definitions.volatility) else None


def _reads_one(
    level: Level, own: Sequence[Node], conditions: Sequence[Node], definitions: Definitions
) -> bool:
    """Return whether a query shows rows of one relation as they are, and is told which by WHERE."""
    query = level.query
    if not is_plain(query.replace(limitCount=None, rowMarks=None)):
        return False
    read = query.node("jointree").nodes("fromlist")
    if len(read) != 1 or read[0].tag != "RANGETBLREF":
        return False
    # Where what is the same for all rows (1 = 1) does not hold no row is needed.
    told, asked = (
        sum(not is_constant(one, definitions.volatility) for one in some)
        for some in (own, conditions)
    )
    if told != asked:
        return False
    # Nor do the conditions tell what policies leave of the rows.
    return not level.entry(read[0].integer("rtindex")).get("securityQuals")
