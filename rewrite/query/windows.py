"""Window clauses: partitioning, order and frame.

Not handled (0A000): GROUPS frames, EXCLUDE, RANGE frames with offsets that are not integers.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from catalog.pg.nodes import FrameOption
from rewrite.errors import RewriteError, UnsupportedError
from rewrite.expressions import compile_sort_key, grouping_key
from rewrite.query.constant_values import constant_integer
from rewrite.query.sql import cast, literal
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


@dataclass(frozen=True, slots=True)
class _Distances:
    """What the offsets of a RANGE frame are measured in."""

    spark_type: str
    """Holds every value with every offset added or taken away."""
    beyond: int
    """Further than any two values lie apart."""


_DISTANCES = {
    21: _Distances("BIGINT", 2**32),
    23: _Distances("BIGINT", 2**32),
    20: _Distances("DECIMAL(20, 0)", 2**64),
}
"""By the type a RANGE frame with offsets is ordered by."""


def window_definition(clause: Node, scope: "QueryScope") -> WindowDefinition:
    """Compile a WindowClause."""
    partition_by = []
    for item in clause.nodes("partitionClause"):
        entry = scope.target(item.integer("tleSortGroupRef"))
        partition_by.append(grouping_key(scope.compile(entry.node("expr"))))
    order_by = []
    order_types = []
    for item in clause.nodes("orderClause"):
        value = scope.compile(scope.target(item.integer("tleSortGroupRef")).node("expr"))
        order_types.append(value.type_oid)
        order_by.append(sort_key(value, item))
    distances = _distances(clause.integer("frameOptions"), order_types)
    if distances is not None:
        # Spark adds the offset to the value, and fails where the sum does not fit.
        order_by[0].set("this", cast(order_by[0].this, distances.spark_type))
    frame = _frame(clause, scope, distances)
    return WindowDefinition(tuple(partition_by), tuple(order_by), frame)


def sort_key(value: Value, clause: Node) -> exp.Ordered:
    """Return the ORDER BY element of a SortGroupClause."""
    return compile_sort_key(
        value,
        clause.integer("sortop"),
        nulls_first=bool(clause["nulls_first"]),
    )


def _distances(options: int, order_types: list[int]) -> _Distances | None:
    """Return what a RANGE frame with offsets measures in; None for other frames."""
    if options & _EXCLUSION:
        raise UnsupportedError("frame exclusion (EXCLUDE) in a window is not supported")
    if options & _ROWS or not options & _OFFSETS:
        return None
    if options & _GROUPS:
        raise UnsupportedError("GROUPS frame with offsets is not supported")
    if len(order_types) != 1 or order_types[0] not in _DISTANCES:
        raise UnsupportedError(
            "RANGE frame with offsets over a type other than integer is not supported"
        )
    return _DISTANCES[order_types[0]]


def _frame(
    clause: Node, scope: "QueryScope", distances: _Distances | None
) -> exp.WindowSpec | None:
    options = clause.integer("frameOptions")
    if not options & (_ROWS | _OFFSETS):
        if not clause.nodes("orderClause"):
            # Without an order all rows of a partition are peers: the frame is the partition.
            return None
        if options & _START_UNBOUNDED and options & _END_CURRENT:
            return None
    start, end = (_position(clause, scope, options, side) for side in ("start", "end"))
    if distances is not None:
        start, end = _within(start, end, distances.beyond)
        return _spec("RANGE", start, end, distances.spark_type)
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


def _position(clause: Node, scope: "QueryScope", options: int, side: str) -> int:
    """Return where a frame begins or ends, counted from the current row."""
    first = side == "start"
    if options & (_START_UNBOUNDED if first else _END_UNBOUNDED):
        return -_UNBOUNDED if first else _UNBOUNDED
    if options & (_START_CURRENT if first else _END_CURRENT):
        return 0
    offset = constant_integer(clause.node(f"{side}Offset"), scope.compilation.context)
    if offset is None or offset < 0:
        quality = "null" if offset is None else "negative"
        raise RewriteError(
            f"frame {'starting' if first else 'ending'} offset must not be {quality}",
            sqlstate=_INVALID_FRAME_OFFSET if offset is not None else "22004",
        )
    return -offset if options & (_START_PRECEDING if first else _END_PRECEDING) else offset
