"""The numbers of a series, all in one array of Spark's."""

from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b

_LONGEST: Final = 1_000_000
"""Numbers of a series that is made as one array."""


def numbers(start: b.Tree, stop: b.Tree, step: b.Tree, spark_type: str = "BIGINT") -> b.Tree:
    """Return the array of numbers from one to another; an empty one where these are NULL."""
    zero = b.integer(0)
    # Spark's sequence counts down by itself and refuses a step in the wrong direction.
    upwards = b.both(b.infix(exp.GT, step, zero), b.infix(exp.LTE, start, stop))
    downwards = b.both(b.infix(exp.LT, step, zero), b.infix(exp.GTE, start, stop))
    runs = b.either(upwards, downwards)
    # All numbers are made at once, and never more than these, also where Spark folds constants.
    wide = [b.cast(part, "DECIMAL(20, 0)") for part in (stop, start, step)]
    steps = b.infix(exp.IntDiv, b.infix(exp.Sub, wide[0], wide[1]), wide[2])
    long = b.infix(exp.GTE, steps, b.integer(_LONGEST))
    end = b.case((long, start), otherwise=stop)
    sequence = b.call("sequence", start, end, b.cast(step, spark_type))
    failure = b.raise_error(sqlstate.INVALID_PARAMETER_VALUE, "step size cannot equal zero")
    too_long = b.raise_error(
        sqlstate.FEATURE_NOT_SUPPORTED,
        f"generate_series() of more than {_LONGEST} rows, but for integers between constants,"
        " is not supported",
    )
    known = b.both(b.is_not_null(start), b.is_not_null(stop))
    return b.case(
        (b.both(b.infix(exp.EQ, step, zero), known), failure),
        (b.both(runs, long), too_long),
        (runs, sequence),
        otherwise=b.cast(b.array(), f"ARRAY<{spark_type}>"),
    )
