"""Where timestamps begin and end: PostgreSQL's limits, and Spark's, which end 30 years before."""

from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect.calls import known_integer
from rewrite.dialect.literals import (
    DATE_MIN,
    DATE_TIMESTAMP_END,
    DAY,
    LAST_TIMESTAMP_DAY,
    TIMESTAMP_END,
    TIMESTAMP_MIN,
    timestamp_literal,
    timestamptz_literal,
)
from rewrite.dialect.time_zones import Zone, instant
from rewrite.values import Value

OUT_OF_RANGE: Final = b.raise_error(sqlstate.DATETIME_FIELD_OVERFLOW, "timestamp out of range")
INTERVAL_OUT_OF_RANGE: Final = b.raise_error(
    sqlstate.DATETIME_FIELD_OVERFLOW, "interval out of range"
)
_DATE_OUT_OF_RANGE: Final = b.raise_error(
    sqlstate.DATETIME_FIELD_OVERFLOW, "date out of range for timestamp"
)
_TOO_LATE: Final = b.raise_error(
    sqlstate.FEATURE_NOT_SUPPORTED,
    "timestamps after 294247-01-10 04:00:54.775806 are not supported",
)
_LAST_DAY: Final = b.call("date_from_unix_date", b.integer(LAST_TIMESTAMP_DAY))
_POSTGRES_END: Final = b.call("date_from_unix_date", b.integer(DATE_TIMESTAMP_END))
_UNTIL_END: Final = 9
_QUIET_DAY: Final = LAST_TIMESTAMP_DAY - _UNTIL_END + 2
"""A day so long before the end that its beginning, and a day more, is a time in all zones."""
_FIRST_DAY: Final = b.call("date_from_unix_date", b.integer(DATE_MIN))


def _is_of_timestamp(day: b.Tree) -> bool:
    """Tell whether a day is a literal's or a timestamp's, which all begin with a timestamp.

    Of the latter Spark compares the timestamp in place of the day, which fails for days beyond.
    """
    return isinstance(day, exp.Cast) and isinstance(day.this, exp.Literal | exp.Column)


def midnight(day: b.Tree) -> b.Tree:
    """Return the TIMESTAMP_NTZ with which a DATE begins; fails where there is none."""
    if _is_of_timestamp(day):
        return b.cast(day, "TIMESTAMP_NTZ")

    def body(bound: b.Tree) -> b.Tree:
        return b.checked(
            b.cast(bound, "TIMESTAMP_NTZ"),
            (b.infix(exp.GTE, bound, _POSTGRES_END), _DATE_OUT_OF_RANGE),
            (b.infix(exp.GT, bound, _LAST_DAY), _TOO_LATE),
        )

    return b.let([day], body)


def midnight_to_compare(day: b.Tree) -> b.Tree:
    """Return the TIMESTAMP_NTZ with which a DATE begins, the last there is for all days after."""
    if _is_of_timestamp(day):
        return b.cast(day, "TIMESTAMP_NTZ")

    def body(bound: b.Tree) -> b.Tree:
        last = timestamp_literal(TIMESTAMP_END - 1)
        return b.case(
            (b.infix(exp.GT, bound, _LAST_DAY), last), otherwise=b.cast(bound, "TIMESTAMP_NTZ")
        )

    return b.let([day], body)


def start_to_compare(day: Value, zone: Zone) -> b.Tree:
    """Return the TIMESTAMP at which a DATE begins in a zone, the last there is for all days after.

    Clocks are read some days before the end, as there are no times to read them by then.
    """
    known = known_integer(day)
    if zone.is_utc or (known is not None and known < _QUIET_DAY):
        return instant(midnight_to_compare(day.sql), zone)

    def body(bound: b.Tree) -> b.Tree:
        quiet = b.call("least", bound, b.call("date_from_unix_date", b.integer(_QUIET_DAY)))
        start = b.call("unix_micros", instant(b.cast(quiet, "TIMESTAMP_NTZ"), zone))
        later = b.call("least", b.call("datediff", bound, quiet), b.integer(_UNTIL_END))
        span = b.infix(exp.Mul, b.cast(later, "BIGINT"), b.bigint(DAY))

        def clamped(rest: b.Tree) -> b.Tree:
            last = b.infix(exp.Sub, b.bigint(TIMESTAMP_END - 1), rest)
            return b.infix(exp.Add, b.call("least", start, last), rest)

        moment = b.call("timestamp_micros", b.let([span], clamped))
        return b.case((b.is_not_null(bound), moment))

    return b.let([day.sql], body)


def within_all_time(timestamp: b.Tree, *, aware: bool) -> b.Tree:
    """Return a timestamp, unless it is before the first PostgreSQL has.

    Nor can it be the last one that Spark has: its number stands for infinity.
    """
    literal = timestamptz_literal if aware else timestamp_literal
    first, last = literal(TIMESTAMP_MIN), literal(TIMESTAMP_END - 1)

    def body(moment: b.Tree) -> b.Tree:
        return b.checked(
            moment,
            (b.infix(exp.LT, moment, first), OUT_OF_RANGE),
            (b.infix(exp.GT, moment, last), _TOO_LATE),
        )

    # Spark folds constants, but not what is bound.
    return body(timestamp) if _is_constant(timestamp) else b.let([timestamp], body)


def start_not_before_all_time(day: b.Tree) -> b.Tree:
    """Return a DATE at which a timestamp is to begin, unless that is before the first one."""
    return b.let(
        [day], lambda bound: b.checked(bound, (b.infix(exp.LT, bound, _FIRST_DAY), OUT_OF_RANGE))
    )


def _is_constant(tree: b.Tree) -> bool:
    return not any(isinstance(node, exp.Column | exp.Lambda) for node in tree.walk())
