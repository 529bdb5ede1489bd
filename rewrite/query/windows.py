"""Window clauses: partitioning, order and frame.

Not handled (0A000): GROUPS frames with offsets, EXCLUDE.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from catalog.pg.nodes import FrameOption
from rewrite.errors import RewriteError, UnsupportedError
from rewrite.expressions import compile_sort_key, grouping_key
from rewrite.query.constant_values import constant_integer
from rewrite.query.sql import cast, literal
from rewrite.query.window_distances import Distances, distances
from rewrite.tree import Node
from rewrite.values import Value, WindowDefinition

if TYPE_CHECKING:
    from rewrite.query.scopes import QueryScope

_ROWS, _GROUPS = FrameOption.ROWS, FrameOption.GROUPS
_START_UNBOUNDED = FrameOption.START_UNBOUNDED_PRECEDING
_END_UNBOUNDED = FrameOption.END_UNBOUNDED_FOLLOWING
_START_CURRENT, _END_CURRENT = FrameOption.START_CURRENT_ROW, FrameOption.END_CURRENT_ROW
_START_PRECEDING = FrameOption.START_OFFSET_PRECEDING
_END_PRECEDING = FrameOption.END_OFFSET_PRECEDING
_START_FOLLOWING = FrameOption.START_OFFSET_FOLLOWING
_END_FOLLOWING = FrameOption.END_OFFSET_FOLLOWING
_EXCLUSION = FrameOption.EXCLUDE_CURRENT_ROW | FrameOption.EXCLUDE_GROUP | FrameOption.EXCLUDE_TIES
_OFFSETS = _START_PRECEDING | _END_PRECEDING | _START_FOLLOWING | _END_FOLLOWING

_INVALID_FRAME_OFFSET = "22013"

_UNBOUNDED = 2**100
"""Further than any offset."""
_MOST_ROWS = 2**31 - 1
"""Spark counts the rows of a partition in an INT."""


def window_definition(clause: Node, scope: "QueryScope") -> WindowDefinition:
    """Compile a WindowClause."""
    partition_by = []
    for item in clause.nodes("partitionClause"):
        entry = scope.target(item.integer("tleSortGroupRef"))
        partition_by.append(grouping_key(scope.compile(entry.node("expr"))))
    order_by = []
    values = []
    for item in clause.nodes("orderClause"):
        value = scope.compile(scope.target(item.integer("tleSortGroupRef")).node("expr"))
        values.append(value)
        order_by.append(sort_key(value, item))
    apart = _distances(clause.integer("frameOptions"), values, scope)
    if apart is not None:
        order_by[0].set("this", apart.key)
    frame = _frame(clause, scope, apart)
    return WindowDefinition(tuple(partition_by), tuple(order_by), frame)


def sort_key(value: Value, clause: Node) -> exp.Ordered:
    """Return the ORDER BY element of a SortGroupClause."""
    return compile_sort_key(
        value,
        clause.integer("sortop"),
        nulls_first=bool(clause["nulls_first"]),
    )


def _distances(options: int, values: list[Value], scope: "QueryScope") -> Distances | None:
    """Return what a RANGE frame with offsets measures in; None for other frames."""
    if options & _EXCLUSION:
        raise UnsupportedError("frame exclusion (EXCLUDE) in a window is not supported")
    if options & _ROWS or not options & _OFFSETS:
        return None
    if options & _GROUPS:
        raise UnsupportedError("GROUPS frame with offsets is not supported")
    # PostgreSQL's grammar wants one column then.
    return distances(values[0], scope)


def _frame(clause: Node, scope: "QueryScope", apart: Distances | None) -> exp.WindowSpec | None:
    options = clause.integer("frameOptions")
    if not options & (_ROWS | _OFFSETS):
        if not clause.nodes("orderClause"):
            # Without an order all rows of a partition are peers: the frame is the partition.
            return None
        if options & _START_UNBOUNDED and options & _END_CURRENT:
            return None
    context = scope.compilation.context
    offset = apart.offset if apart else lambda node: constant_integer(node, context)
    start, end = (_position(clause, offset, options, side) for side in ("start", "end"))
    if apart is not None:
        start, end = _within(start, end, apart.beyond)
        return _spec("RANGE", start, end, apart.spark_type)
    if options & _ROWS:
        return _spec("ROWS", *_of_rows(start, end), "INT")
    return _spec("RANGE", start, end, "INT")


def _within(start: int, end: int, beyond: int) -> tuple[int, int]:
    """Return a frame of values with no offset further than the values lie apart."""
    start, end = (
        at if abs(at) == _UNBOUNDED else max(-beyond, min(at, beyond)) for at in (start, end)
    )
    # Spark refuses frames that end before they start; that of NULL is its peers in any case.
    return (-beyond, -beyond) if start > end else (start, end)


def _of_rows(start: int, end: int) -> tuple[int, int]:
    """Return a frame of rows with no offset further than a partition is long."""
    if start > end or start > _MOST_ROWS or end < -_MOST_ROWS:
        return -_MOST_ROWS, -_MOST_ROWS  # no row has so many before it
    return (
        -_UNBOUNDED if start < -_MOST_ROWS else start,
        _UNBOUNDED if end > _MOST_ROWS else end,
    )


def _spec(kind: str, start: int, end: int, spark_type: str) -> exp.WindowSpec:
    first, first_side = _bound(start, spark_type)
    last, last_side = _bound(end, spark_type)
    return exp.WindowSpec(
        kind=kind, start=first, start_side=first_side, end=last, end_side=last_side
    )


def _bound(position: int, spark_type: str) -> tuple[exp.Expression | str, str | None]:
    if position == 0:
        return "CURRENT ROW", None
    side = "PRECEDING" if position < 0 else "FOLLOWING"
    if abs(position) == _UNBOUNDED:
        return "UNBOUNDED", side
    offset = literal(abs(position))
    return (offset if spark_type == "INT" else cast(offset, spark_type)), side


def _position(clause: Node, read: Callable[[Node], int | None], options: int, side: str) -> int:
    """Return where a frame begins or ends, counted from the current row."""
    first = side == "start"
    if options & (_START_UNBOUNDED if first else _END_UNBOUNDED):
        return -_UNBOUNDED if first else _UNBOUNDED
    if options & (_START_CURRENT if first else _END_CURRENT):
        return 0
    offset = read(clause.node(f"{side}Offset"))
    if offset is None or offset < 0:
        quality = "null" if offset is None else "negative"
        raise RewriteError(
            f"frame {'starting' if first else 'ending'} offset must not be {quality}",
            sqlstate=_INVALID_FRAME_OFFSET if offset is not None else "22004",
        )
    return -offset if options & (_START_PRECEDING if first else _END_PRECEDING) else offset
