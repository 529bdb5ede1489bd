"""ORDER BY, LIMIT and OFFSET.

Not handled (0A000): counts that are neither constants nor parameters.
"""

from sqlglot import exp

from catalog.pg.nodes import LimitOption
from rewrite.errors import RewriteError, UnsupportedError
from rewrite.query.constant_values import constant_integer
from rewrite.query.scopes import QueryScope
from rewrite.query.sql import (
    aliased,
    call,
    column,
    conjunction,
    literal,
    named,
    row_number,
    select,
    windowed,
)
from rewrite.query.windows import sort_key
from rewrite.tree import Node, walk
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


def is_limited_by_place(query: Node) -> bool:
    """Return whether the rows of a query are numbered, as Spark's own LIMIT would keep others."""
    return _has_ties(query) or _is_limited_apart(query)


def _has_ties(query: Node) -> bool:
    return query.get("limitOption") == _WITH_TIES and query.optional("limitCount") is not None


def _is_limited_apart(query: Node) -> bool:
    """Return whether a query is limited for each row of one around it.

    Spark does so by itself where columns of both are equal and of one type, or none are equal.
    Where columns are cast to be compared, or computed, it limits the rows of all together.
    """
    if query.get("setOperations") is not None:
        return False
    if query.optional("limitOffset") is None and query.optional("limitCount") is None:
        return False
    return any(
        node.tag == "VAR" and node.integer("varlevelsup") >= depth > 0
        for node, depth in walk(query)
    )


def limit_rows(
    query: Node, rows: exp.Select, bound: int | None, scope: QueryScope
) -> tuple[exp.Select, int | None]:
    """Add LIMIT and OFFSET to a SELECT; return it, and the proven bound of its rows."""
    context = scope.compilation.context
    offset_node, count_node = query.optional("limitOffset"), query.optional("limitCount")
    offset = (offset_node is not None and constant_integer(offset_node, context)) or 0
    _check(offset, "OFFSET", _INVALID_OFFSET)
    before = bound
    bound = None if bound is None else max(bound - offset, 0)
    count = None if count_node is None else constant_integer(count_node, context)
    if count is not None:
        _check(count, "LIMIT", _INVALID_LIMIT)
        count = count if bound is None or count < bound else None
    if not offset and count is None:
        return rows, bound
    ties = bool(count) and _has_ties(query)
    if ties or _is_limited_apart(query):
        rows = _numbered(rows, offset, count, scope, ties=ties)
    else:
        if offset:
            rows.set("offset", exp.Offset(expression=_count(offset, before)))
        if count is not None:
            rows.set("limit", exp.Limit(expression=_count(count, bound)))
    return rows, bound if ties or count is None else count


def _numbered(
    limited: exp.Select, offset: int, count: int | None, scope: QueryScope, *, ties: bool
) -> exp.Select:
    """Limit the rows of a SELECT, sorted by columns of its FROM clause, by their numbers.

    With ties, those that are equal to the last row are among them: no more rows come before such
    ones than are counted.
    """
    order = limited.args.pop("order", None)
    keys = order.expressions if order is not None else []
    names = [item.alias for item in limited.expressions]
    alias = scope.compilation.name("q")
    place = last = f"{alias}_place"
    limited.append("expressions", named(row_number([], keys), place))
    if ties:
        last = f"{alias}_rank"
        rank = windowed(call("rank"), [], [key.copy() for key in keys])
        limited.append("expressions", named(rank, last))
    conditions: list[exp.Expression] = [
        exp.GT(this=column(place, alias), expression=literal(offset))
    ]
    if count is not None:
        conditions.append(exp.LTE(this=column(last, alias), expression=literal(offset + count)))
    items = [named(column(name, alias), name) for name in names]
    rows = select(items, aliased(limited, alias), conjunction(conditions))
    if ties:
        rows.set("order", exp.Order(expressions=[exp.Ordered(this=column(place, alias))]))
    return rows


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
