"""What the offsets of RANGE frames are measured in, by the type they are ordered by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.intervals import known_parts
from rewrite.dialect.literals import DAY, TIMESTAMP_END, TIMESTAMP_MIN
from rewrite.dialect.time_zones import micros_of_timestamp, session_zone
from rewrite.dialect.timestamp_range import midnight
from rewrite.errors import UnsupportedError
from rewrite.query.constant_values import constant_integer
from rewrite.tree import Node
from rewrite.values import Value

if TYPE_CHECKING:
    from rewrite.query.scopes import QueryScope

_INTEGERS: Final = {
    oids.INT2: ("BIGINT", 2**32),
    oids.INT4: ("BIGINT", 2**32),
    oids.INT8: ("DECIMAL(20, 0)", 2**64),
}
_TIMES: Final = frozenset({oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ})

_MOST_DAYS: Final = 10_000
"""Of an offset; timestamps further than this from the ends of all time are within, wherever it
leads."""


@dataclass(frozen=True, slots=True)
class Distances:
    """How the values of an order lie apart."""

    key: b.Tree
    """What rows are ordered by: a number. Spark adds the offset to it, and fails where the sum does
    not fit its type."""
    spark_type: str
    """The key's."""
    beyond: int
    """Further than any two values lie apart."""
    offset: Callable[[Node], int | None]
    """Reads an offset; None for NULL."""


def distances(value: Value, scope: "QueryScope") -> Distances:
    """Return how values of a type lie apart.

    Raises:
        UnsupportedError: Not in numbers.
    """
    if value.type_oid in _INTEGERS:
        spark_type, beyond = _INTEGERS[value.type_oid]
        context = scope.compilation.context
        key = b.cast(value.sql, spark_type)
        return Distances(key, spark_type, beyond, lambda node: constant_integer(node, context))
    if value.type_oid in _TIMES:
        spark_type, beyond = "DECIMAL(20, 0)", 2**64
        zone = session_zone(scope.compilation.context.constants)
        has_days = value.type_oid != oids.TIMESTAMPTZ or zone.is_utc
        key = b.cast(_microseconds(value), spark_type)
        return Distances(
            key, spark_type, beyond, lambda node: _time(scope.compile(node), has_days=has_days)
        )
    raise UnsupportedError(
        "RANGE frame with offsets over a type other than integers, dates and timestamps is not"
        " supported"
    )


def _microseconds(value: Value) -> b.Tree:
    """Return a date or timestamp as a number; fails near the ends of all time."""
    if value.type_oid == oids.TIMESTAMPTZ:
        micros = b.call("unix_micros", value.sql)
    else:
        is_day = value.type_oid == oids.DATE
        micros = micros_of_timestamp(midnight(value.sql) if is_day else value.sql)
    refusal = b.raise_error(
        sqlstate.FEATURE_NOT_SUPPORTED,
        "RANGE frame with offsets near the first or last timestamp is not supported",
    )

    def checked(number: b.Tree) -> b.Tree:
        margin = _MOST_DAYS * DAY
        early = b.infix(exp.LT, number, b.bigint(TIMESTAMP_MIN + margin))
        late = b.infix(exp.GT, number, b.bigint(TIMESTAMP_END - margin))
        return b.checked(number, (b.either(early, late), refusal))

    return b.let([micros], checked)


def _time(offset: Value, *, has_days: bool) -> int:
    """Return an interval in microseconds."""
    parts = known_parts(offset)
    if parts is None:
        raise UnsupportedError(
            "a window frame whose offset is an expression instead of a constant is not supported"
        )
    months, days, rest = parts
    micros = days * DAY + rest
    if months or (days and not has_days) or not 0 <= micros <= _MOST_DAYS * DAY:
        raise UnsupportedError(
            "a window frame whose offset is of months, of days where clocks change, negative or"
            f" more than {_MOST_DAYS} days, is not supported"
        )
    return micros
