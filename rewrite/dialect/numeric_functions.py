"""Operators and functions of numeric that a DECIMAL computes exactly."""

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.bindings import bind
from rewrite.dialect.calls import Call, Handler, known_decimal
from rewrite.dialect.literals import numeric_literal
from rewrite.dialect.numeric_division import divide
from rewrite.dialect.numerics import (
    add,
    as_decimal,
    display_scale,
    multiply,
    numeric,
    remainder,
    shape_of,
    subtract,
)
from rewrite.dialect.type_mapping import MAX_PRECISION
from rewrite.values import Value


def _binary(operation: Callable[[Value, Value], Value]) -> Handler:
    def handle(call: Call) -> Value:
        left, right = call.args
        return operation(left, right)

    return handle


def _keeping_scale(function: Callable[[b.Tree], b.Tree]) -> Handler:
    """Map a function whose result has its argument's shape and scale."""

    def handle(call: Call) -> Value:
        def body(value: Value) -> Value:
            shape = shape_of(value)
            return numeric(function(value.sql), *shape, display=value.scale)

        return bind([as_decimal(call.args[0])], body)

    return handle


def _minus(call: Call) -> Value:
    constant = known_decimal(call.args[0])
    if constant is not None:
        return numeric_literal(constant.copy_negate() if constant else constant)
    return _keeping_scale(b.negate)(call)


def _whole(function: str) -> Handler:
    def handle(call: Call) -> Value:
        value = as_decimal(call.args[0])
        shape = shape_of(value)
        precision = min(shape.precision - shape.scale + 1, MAX_PRECISION)
        result = b.cast(b.call(function, value.sql), b.decimal_type(precision, 0))
        return numeric(result, precision, 0)

    return handle


def _sign(call: Call) -> Value:
    value = as_decimal(call.args[0])
    return numeric(b.cast(b.call("sign", value.sql), "DECIMAL(1, 0)"), 1, 0)


def _places(call: Call) -> int:
    places = call.integer_constant(1) if len(call.args) == 2 else 0
    if not -MAX_PRECISION < places <= 24:
        raise call.refuse(f"to {places} decimal places")
    return places


def _round(call: Call) -> Value:
    places = _places(call)
    value = as_decimal(call.args[0])
    shape = shape_of(value)
    scale = max(places, 0)
    precision = min(shape.precision - shape.scale + 1 + scale, MAX_PRECISION)
    sql = value.sql if places >= 0 else b.call("round", value.sql, b.integer(places))
    return numeric(b.cast(sql, b.decimal_type(precision, scale)), precision, scale)


def _truncate(call: Call) -> Value:
    places = _places(call)
    value = as_decimal(call.args[0])
    shape = shape_of(value)
    scale = max(places, 0)
    precision = min(shape.precision - shape.scale + 1 + scale, MAX_PRECISION)
    if places >= shape.scale:
        return numeric(b.cast(value.sql, b.decimal_type(precision, scale)), precision, scale)

    def toward_zero(number: b.Tree) -> b.Tree:
        digits = b.integer(places)
        return b.case(
            (b.infix(exp.LT, number, b.integer(0)), b.call("ceil", number, digits)),
            otherwise=b.call("floor", number, digits),
        )

    sql = b.let([value.sql], toward_zero)
    return numeric(b.cast(sql, b.decimal_type(precision, scale)), precision, scale)


def _scale(call: Call) -> Value:
    value = as_decimal(call.args[0])

    def body(number: Value) -> Value:
        known = b.case((b.is_not_null(number.sql), display_scale(number)))
        return Value(known, oids.INT4)

    return bind([value], body)


FUNCTIONS: Final[dict[str, Handler]] = {
    "numeric_add": _binary(add),
    "numeric_sub": _binary(subtract),
    "numeric_mul": _binary(multiply),
    "numeric_div": _binary(divide),
    "numeric_mod": _binary(remainder),
    "numeric_uminus": _minus,
    "numeric_uplus": lambda call: call.args[0],
    "numeric_abs": _keeping_scale(lambda value: b.call("abs", value)),
    "numeric_ceil": _whole("ceil"),
    "numeric_floor": _whole("floor"),
    "numeric_sign": _sign,
    "numeric_round": _round,
    "round(numeric)": _round,
    "numeric_trunc": _truncate,
    "trunc(numeric)": _truncate,
    "numeric_scale": _scale,
}

INTEGER_DIGITS: Final[dict[int, int]] = {oids.INT2: 5, oids.INT4: 10, oids.INT8: 19}


def from_integer(value: Value) -> Value:
    """Return an integer as numeric of scale 0."""
    if value.constant is not None and isinstance(value.constant.value, int):
        return numeric_literal(Decimal(value.constant.value))
    digits = INTEGER_DIGITS[value.type_oid]
    return numeric(b.cast(value.sql, b.decimal_type(digits, 0)), digits, 0)
