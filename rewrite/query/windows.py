"""Window clauses: partitioning, order and frame.

Not handled (0A000): GROUPS frames, EXCLUDE, RANGE frames with offsets that are not integers.
"""

from typing import TYPE_CHECKING

from sqlglot import exp

from rewrite.errors import RewriteError, UnsupportedError
from rewrite.expressions import compile_sort_key, grouping_key
from rewrite.query.constant_values import constant_integer
from rewrite.query.sql import literal
from rewrite.tree import Node
from rewrite.values import Value, WindowDefinition

if TYPE_CHECKING:
    from rewrite.query.scopes import QueryScope

# Bits of WindowClause.frameOptions (parsenodes.h, FRAMEOPTION_*).
_RANGE = 0x2
_ROWS = 0x4
_GROUPS = 0x8
_START_UNBOUNDED = 0x20
_END_UNBOUNDED = 0x100
_START_CURRENT = 0x200
_END_CURRENT = 0x400
_START_PRECEDING = 0x800
_END_PRECEDING = 0x1000
_START_FOLLOWING = 0x2000
_END_FOLLOWING = 0x4000
_EXCLUSION = 0x8000 | 0x10000 | 0x20000
_OFFSETS = _START_PRECEDING | _END_PRECEDING | _START_FOLLOWING | _END_FOLLOWING

_INTEGERS = frozenset({20, 21, 23})
_INVALID_FRAME_OFFSET = "22013"


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
    frame = _frame(clause, scope, order_types)
    return WindowDefinition(tuple(partition_by), tuple(order_by), frame)


def sort_key(value: Value, clause: Node) -> exp.Ordered:
    """Return the ORDER BY element of a SortGroupClause."""
    return compile_sort_key(
        value,
        clause.integer("sortop"),
        nulls_first=bool(clause["nulls_first"]),
    )


def _frame(clause: Node, scope: "QueryScope", order_types: list[int]) -> exp.WindowSpec | None:
    options = clause.integer("frameOptions")
    if options & _EXCLUSION:
        raise UnsupportedError("frame exclusion (EXCLUDE) in a window is not supported")
    if not options & _ROWS:
        if options & _OFFSETS:
            _check_range(options, order_types)
        elif not order_types:
            # Without an order all rows of a partition are peers: the frame is the partition.
            return None
        elif options & _START_UNBOUNDED and options & _END_CURRENT:
            return None
    start, start_side = _bound(clause, scope, options, "start")
    end, end_side = _bound(clause, scope, options, "end")
    return exp.WindowSpec(
        kind="ROWS" if options & _ROWS else "RANGE",
        start=start,
        start_side=start_side,
        end=end,
        end_side=end_side,
    )


def _check_range(options: int, order_types: list[int]) -> None:
    if options & _GROUPS:
        raise UnsupportedError("GROUPS frame with offsets is not supported")
    if len(order_types) != 1 or order_types[0] not in _INTEGERS:
        raise UnsupportedError(
            "RANGE frame with offsets over a type other than integer is not supported"
        )


def _bound(
    clause: Node, scope: "QueryScope", options: int, side: str
) -> tuple[exp.Expression | str, str | None]:
    first = side == "start"
    if options & (_START_UNBOUNDED if first else _END_UNBOUNDED):
        return "UNBOUNDED", "PRECEDING" if first else "FOLLOWING"
    if options & (_START_CURRENT if first else _END_CURRENT):
        return "CURRENT ROW", None
    offset = constant_integer(clause.node(f"{side}Offset"), scope.compilation.context)
    if offset is None or offset < 0:
        quality = "null" if offset is None else "negative"
        raise RewriteError(
            f"frame {'starting' if first else 'ending'} offset must not be {quality}",
            sqlstate=_INVALID_FRAME_OFFSET if offset is not None else "22004",
        )
    preceding = _START_PRECEDING if first else _END_PRECEDING
    return literal(offset), "PRECEDING" if options & preceding else "FOLLOWING"
