"""ORDER BY, LIMIT and OFFSET.

Not handled (0A000): WITH TIES, counts that are neither constants nor parameters.
"""

from sqlglot import exp

from catalog.pg.nodes import LimitOption
from rewrite.errors import RewriteError, UnsupportedError
from rewrite.query.constant_values import constant_integer
from rewrite.query.scopes import QueryScope
from rewrite.query.sql import literal
from rewrite.query.windows import sort_key
from rewrite.tree import Node
from rewrite.values import Value

_WITH_TIES = LimitOption.WITH_TIES
_MAX_INT = 2**31 - 1
_INVALID_LIMIT = "2201W"
_INVALID_OFFSET = "2201X"


def order_by(query: Node, sorted_values: dict[int, Value]) -> exp.Order | None:
    """Return ORDER BY over values known by their ``ressortgroupref``."""
    keys = [
        sort_key(sorted_values[item.integer("tleSortGroupRef")], item)
        for item in query.nodes("sortClause")
    ]
    return exp.Order(expressions=keys) if keys else None


def limit_rows(
    query: Node, select: exp.Expression, bound: int | None, scope: QueryScope
) -> int | None:
    """Add LIMIT and OFFSET to a SELECT and return the proven bound of its rows."""
    if query.get("limitOption") == _WITH_TIES:
        raise UnsupportedError("FETCH FIRST … WITH TIES is not supported")
    context = scope.compilation.context
    offset_node, count_node = query.optional("limitOffset"), query.optional("limitCount")
    if offset_node is not None:
        offset = constant_integer(offset_node, context) or 0
        _check(offset, "OFFSET", _INVALID_OFFSET)
        if offset:
            select.set("offset", exp.Offset(expression=_count(offset, bound)))
        bound = None if bound is None else max(bound - offset, 0)
    if count_node is not None:
        count = constant_integer(count_node, context)
        if count is None:
            return bound
        _check(count, "LIMIT", _INVALID_LIMIT)
        if bound is None or count < bound:
            select.set("limit", exp.Limit(expression=_count(count, bound)))
            return count
    return bound


def _check(count: int, clause: str, sqlstate: str) -> None:
    if count < 0:
        raise RewriteError(f"{clause} must not be negative", sqlstate=sqlstate)


def _count(count: int, bound: int | None) -> exp.Expression:
    """Return a count as Spark takes it: an INT; a larger one only where it cannot matter."""
    if count <= _MAX_INT:
        return literal(count)
    if bound is not None and bound <= _MAX_INT:
        return literal(_MAX_INT)
    raise UnsupportedError("LIMIT or OFFSET beyond 2147483647 is not supported")
