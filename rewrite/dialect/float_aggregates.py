"""sum and avg of real and double precision, added in their type and in the order asked for."""

from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.aggregates import Aggregation, Handler, collected
from rewrite.dialect.floats import INFINITY, OVERFLOW, SPARK_TYPES, is_minus_zero
from rewrite.dialect.literals import float_literal
from rewrite.values import Value

_LARGEST_SUM: Final = float_literal(5e152)
"""Number times magnitude of doubles up to which no square that avg adds can overflow."""


def _is_finite(value: b.Tree) -> b.Tree:
    """Return whether a float is finite; Spark takes NaN for larger than infinity."""
    return b.infix(exp.LT, b.call("abs", value), INFINITY)


def _in_order(call: Aggregation, value: b.Tree, body: Callable[[b.Tree], b.Tree]) -> b.Tree:
    """Return ``body`` of the array of values as ORDER BY or DISTINCT sorts them; NULL of none."""
    found = collected(call, value, b.is_not_null(value))

    def of_some(values: b.Tree) -> b.Tree:
        some = b.infix(exp.GT, b.call("size", values), b.integer(0))
        return b.case((some, body(values)))

    return b.let([found], of_some)


def _added(values: b.Tree, start: b.Tree) -> b.Tree:
    step = b.infix(exp.Add, b.variable("l"), b.variable("r"))
    return b.call("aggregate", values, start, b.lambda_function(step, "l", "r"))


def _is_sorted(call: Aggregation) -> bool:
    """Tell whether the rows have an order; PostgreSQL sorts for DISTINCT too."""
    return bool(call.order_by) or call.distinct


def _sum(call: Aggregation) -> Value:
    value = call.args[0].sql
    spark_type = SPARK_TYPES[call.result_oid]
    largest = call.spark("max", b.call("abs", value), distinct=False)
    parts = [_total(call, value, spark_type), largest]
    if spark_type == "DOUBLE" and not _is_sorted(call):
        parts.append(call.spark("bool_and", is_minus_zero(value)))

    def body(total: b.Tree, largest: b.Tree, only_minus_zero: b.Tree | None = None) -> b.Tree:
        overflow = b.both(b.negation(_is_finite(total)), _is_finite(largest))
        if only_minus_zero is None:
            return b.checked(total, (overflow, OVERFLOW))
        # Spark begins with zero, to which minus zero makes no difference.
        return b.checked(total, (overflow, OVERFLOW), (only_minus_zero, float_literal(-0.0)))

    return call.result(b.let(parts, body))


def _total(call: Aggregation, value: b.Tree, spark_type: str) -> b.Tree:
    if _is_sorted(call):
        start = float_literal(-0.0, spark_type)
        return _in_order(call, value, lambda values: _added(values, start))
    if spark_type == "DOUBLE":
        return call.spark("sum", value)
    # Spark's SUM adds in double precision; that of vectors, here of one number, does not.
    vector = b.case((b.is_not_null(value), b.array(value)))
    return b.call("element_at", call.spark("vector_sum", vector), b.integer(1))


def _average(call: Aggregation) -> Value:
    argument = call.args[0]
    value = argument.sql
    if argument.type_oid == oids.FLOAT4:
        return call.result(_mean(call, b.cast(value, "DOUBLE")))
    # PostgreSQL also adds the squares of differences, in whose overflow it fails.
    return call.result(without_overflow(call, [value], _mean(call, value)))


def without_overflow(call: Aggregation, values: Sequence[b.Tree], found: b.Tree) -> b.Tree:
    """Return what is found of doubles, unless a sum of squares of differences may overflow."""
    parts = [found, *(part for value in values for part in magnitude(call, value))]

    def body(found: b.Tree, *parts: b.Tree) -> b.Tree:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        return b.checked(found, *(overflow(call, *pair) for pair in pairs))

    return b.let(parts, body)


def magnitude(call: Aggregation, value: b.Tree) -> list[b.Tree]:
    """Return the largest finite magnitude of doubles, and their number."""
    finite = b.case((_is_finite(value), b.call("abs", value)))
    return [call.spark("max", finite, distinct=False), call.spark("count", value)]


def overflow(call: Aggregation, largest: b.Tree, count: b.Tree) -> tuple[b.Tree, b.Tree]:
    """Return whether a sum of squares of differences may overflow, and the error for that."""
    sum_ = b.infix(exp.Mul, largest, b.cast(count, "DOUBLE"))
    several = b.infix(exp.GT, count, b.integer(1))
    refusal = b.raise_error(
        sqlstate.FEATURE_NOT_SUPPORTED,
        f"{call.signature} of floating-point values of this magnitude is not supported",
    )
    return b.both(several, b.infix(exp.GT, sum_, _LARGEST_SUM)), refusal


def _mean(call: Aggregation, value: b.Tree) -> b.Tree:
    if not _is_sorted(call):
        return call.spark("avg", value)

    def of_all(values: b.Tree) -> b.Tree:
        count = b.cast(b.call("size", values), "DOUBLE")
        return b.divide(_added(values, float_literal(0.0)), count)

    return _in_order(call, value, of_all)


FUNCTIONS: Final[dict[str, Handler]] = {
    "sum(float4)": _sum,
    "sum(float8)": _sum,
    "avg(float4)": _average,
    "avg(float8)": _average,
}
