"""Where timestamps begin and end: PostgreSQL's limits, and Spark's, which end 30 years before."""

from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect.literals import (
    DATE_MIN,
    DATE_TIMESTAMP_END,
    LAST_TIMESTAMP_DAY,
    TIMESTAMP_END,
    TIMESTAMP_MIN,
    timestamp_literal,
    timestamptz_literal,
)

OUT_OF_RANGE: Final = b.raise_error(sqlstate.DATETIME_FIELD_OVERFLOW, "timestamp out of range")
INTERVAL_OUT_OF_RANGE: Final = b.raise_error(
    sqlstate.DATETIME_FIELD_OVERFLOW, "interval out of range"
)
_DATE_OUT_OF_RANGE: Final = b.raise_error(
    sqlstate.DATETIME_FIELD_OVERFLOW, "date out of range for timestamp"
)
_TOO_LATE: Final = b.raise_error(
    sqlstate.FEATURE_NOT_SUPPORTED,
    "timestamps after 294247-01-10 04:00:54.775807 are not supported",
)
_LAST_DAY: Final = b.call("date_from_unix_date", b.integer(LAST_TIMESTAMP_DAY))
_POSTGRES_END: Final = b.call("date_from_unix_date", b.integer(DATE_TIMESTAMP_END))
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


def not_before_all_time(timestamp: b.Tree, *, aware: bool) -> b.Tree:
    """Return a timestamp, unless it is before the first PostgreSQL has."""
    first = timestamptz_literal(TIMESTAMP_MIN) if aware else timestamp_literal(TIMESTAMP_MIN)

    def body(moment: b.Tree) -> b.Tree:
        return b.checked(moment, (b.infix(exp.LT, moment, first), OUT_OF_RANGE))

    # Spark folds constants, but not what is bound.
    return body(timestamp) if _is_constant(timestamp) else b.let([timestamp], body)


def start_not_before_all_time(day: b.Tree) -> b.Tree:
    """Return a DATE at which a timestamp is to begin, unless that is before the first one."""
    return b.let(
        [day], lambda bound: b.checked(bound, (b.infix(exp.LT, bound, _FIRST_DAY), OUT_OF_RANGE))
    )


def _is_constant(tree: b.Tree) -> bool:
    return not any(isinstance(node, exp.Column | exp.Lambda) for node in tree.walk())
