"""Variance and standard deviation of integers and numerics, exact as in numeric.c.

PostgreSQL computes them of three sums (``numeric_stddev_internal``); so does this, in decimals.
"""

from collections.abc import Callable
from typing import Final

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.aggregates import COUNT, Aggregation, Handler
from rewrite.dialect.bindings import bind
from rewrite.dialect.numeric_division import divide
from rewrite.dialect.numeric_functions import INTEGER_DIGITS
from rewrite.dialect.numeric_roots import square_root
from rewrite.dialect.numerics import (
    ONE,
    fixed,
    floating,
    is_fixed,
    is_zero,
    multiply,
    scale_of,
    shape_of,
    subtract,
)
from rewrite.dialect.type_mapping import MAX_PRECISION
from rewrite.values import Value


def _number(call: Aggregation) -> Value:
    """Return the argument as a fixed numeric."""
    value = call.args[0]
    if value.type_oid == oids.NUMERIC:
        if not is_fixed(value):
            raise call.refuse("of values whose scale may differ from row to row")
        if 2 * shape_of(value).scale > MAX_PRECISION:
            raise call.refuse(f"of values of more than {MAX_PRECISION // 2} decimal places")
        return value
    digits = INTEGER_DIGITS[value.type_oid]
    return fixed(b.cast(value.sql, b.decimal_type(digits, 0)), digits, 0)


def _total(call: Aggregation, value: Value) -> Value:
    shape = shape_of(value)
    return fixed(call.spark("sum", value.sql), shape.precision + 10, shape.scale)


def _variance(call: Aggregation, *, sample: bool) -> Value:
    """Return ``(N * sum(X * X) - sum(X) ** 2) / (N * M)``, where M is N or one less.

    It is NULL of less than two rows of a sample, and a zero without decimal places is exact.
    """
    if call.distinct:
        raise call.refuse("of DISTINCT values")
    number = _number(call)
    count = fixed(b.cast(call.spark("count", number.sql), b.decimal_type(*COUNT)), *COUNT)
    total, squares = _total(call, number), _total(call, multiply(number, number))

    def quotient(count: Value, total: Value, squares: Value) -> Value:
        dividend = subtract(multiply(count, squares), multiply(total, total))
        divisor = multiply(count, subtract(count, fixed(ONE, 1, 0)) if sample else count)
        zero = b.cast(b.integer(0), b.decimal_type(*shape_of(divisor)))
        some = fixed(b.call("nullif", divisor.sql, zero), *shape_of(divisor))
        return bind([divide(dividend, some)], _without_places_of_zero)

    return bind([count, total, squares], quotient)


def _without_places_of_zero(value: Value) -> Value:
    scale = b.case((is_zero(value.sql), b.integer(0)), otherwise=scale_of(value))
    return floating(value.sql, scale)


def _deviation(call: Aggregation, *, sample: bool) -> Value:
    """Return the square root of the variance, with as many decimal places as that has."""
    return square_root(_variance(call, sample=sample))


def _handler(compute: Callable[..., Value], *, sample: bool) -> Handler:
    return lambda call: compute(call, sample=sample)


_KINDS: Final[dict[str, Handler]] = {
    "var_pop": _handler(_variance, sample=False),
    "var_samp": _handler(_variance, sample=True),
    "variance": _handler(_variance, sample=True),
    "stddev_pop": _handler(_deviation, sample=False),
    "stddev_samp": _handler(_deviation, sample=True),
    "stddev": _handler(_deviation, sample=True),
}

FUNCTIONS: Final[dict[str, Handler]] = {
    f"{name}({type_})": handler
    for name, handler in _KINDS.items()
    for type_ in ("int2", "int4", "int8", "numeric")
}
