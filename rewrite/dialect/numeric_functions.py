"""Operators and functions of numeric that a DECIMAL computes exactly."""

from collections.abc import Callable
from dataclasses import replace
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
    WHOLE,
    WHOLE_SHAPE,
    absolute,
    add,
    as_fixed,
    as_floating,
    as_text,
    fixed,
    is_fixed,
    multiply,
    negated,
    remainder,
    scale_of,
    shape_of,
    subtract,
)
from rewrite.dialect.type_mapping import MAX_PRECISION
from rewrite.values import DecimalShape, Value


def _binary(operation: Callable[[Value, Value], Value]) -> Handler:
    def handle(call: Call) -> Value:
        left, right = call.args
        return operation(left, right)

    return handle


def _keeping_scale(function: Callable[[b.Tree, DecimalShape], b.Tree]) -> Handler:
    """Map a function of the digits alone, whose result has its argument's scale."""

    def handle(call: Call) -> Value:
        value = call.args[0]
        if is_fixed(value):
            return fixed(function(value.sql, shape_of(value)), *shape_of(value))
        return bind(
            [as_floating(value)],
            lambda number: replace(number, sql=function(number.sql, WHOLE_SHAPE)),
        )

    return handle


def _minus(call: Call) -> Value:
    constant = known_decimal(call.args[0])
    if constant is not None:
        return numeric_literal(constant.copy_negate() if constant else constant)
    return _keeping_scale(negated)(call)


def _whole(function: str) -> Handler:
    def handle(call: Call) -> Value:
        value = call.args[0]
        if is_fixed(value):
            shape = shape_of(value)
            precision = min(shape.precision - shape.scale + 1, MAX_PRECISION)
            return fixed(
                b.cast(b.call(function, value.sql), b.decimal_type(precision, 0)), precision, 0
            )

        def body(text: b.Tree) -> b.Tree:
            truncated = _cut(text, 0, MAX_PRECISION)
            affected = b.call("startswith", text, b.string("-"))
            if function == "ceil":
                affected = b.negation(affected)
            fraction = b.call("rlike", text, b.string("[.].*[1-9]"))
            operator = exp.Add if function == "ceil" else exp.Sub
            one = b.cast(b.integer(1), "DECIMAL(1, 0)")
            moved = b.cast(b.infix(operator, truncated, one), WHOLE)
            return b.case((b.both(affected, fraction), moved), otherwise=truncated)

        return fixed(b.let([as_text(as_floating(value))], body), MAX_PRECISION, 0)

    return handle


def _sign(call: Call) -> Value:
    value = call.args[0]
    number = value if is_fixed(value) else as_floating(value)
    return fixed(b.cast(b.call("sign", number.sql), "DECIMAL(1, 0)"), 1, 0)


def _places(call: Call) -> int:
    places = call.integer_constant(1) if len(call.args) == 2 else 0
    if not -MAX_PRECISION < places < MAX_PRECISION:
        raise call.refuse(f"to {places} decimal places")
    return places


def _rounded_shape(value: Value, places: int) -> DecimalShape:
    scale = max(places, 0)
    if not is_fixed(value):
        return DecimalShape(MAX_PRECISION, scale)
    shape = shape_of(value)
    return DecimalShape(min(shape.precision - shape.scale + 1 + scale, MAX_PRECISION), scale)


def _round(call: Call) -> Value:
    places = _places(call)
    value = call.args[0]
    shape = _rounded_shape(value, places)
    if places >= 0:
        return fixed(as_fixed(value, shape), *shape)
    number = value.sql if is_fixed(value) else _integer_part(value)
    return fixed(b.cast(b.call("round", number, b.integer(places)), b.decimal_type(*shape)), *shape)


def _integer_part(value: Value) -> b.Tree:
    return b.let([as_text(as_floating(value))], lambda text: _cut_or_null(text, 0))


def _cut(text: b.Tree, places: int, precision: int) -> b.Tree:
    """Return the number a text begins with, up to some decimal places."""
    pattern = r"^-?[0-9]+" + (rf"([.][0-9]{{0,{places}}})?" if places else "")
    return b.cast(
        b.call("regexp_extract", text, b.string(pattern), b.integer(0)),
        b.decimal_type(precision, places),
    )


def _truncate(call: Call) -> Value:
    places = _places(call)
    value = call.args[0]
    shape = _rounded_shape(value, places)
    if not is_fixed(value) and places >= 0:
        cut = b.let([as_text(as_floating(value))], lambda text: _cut_or_null(text, places))
        return fixed(cut, MAX_PRECISION, places)
    if is_fixed(value) and places >= shape_of(value).scale:
        return fixed(as_fixed(value, shape), *shape)
    whole = value.sql if is_fixed(value) else _integer_part(value)

    def toward_zero(number: b.Tree) -> b.Tree:
        digits = b.integer(places)
        return b.case(
            (b.infix(exp.LT, number, b.integer(0)), b.call("ceil", number, digits)),
            otherwise=b.call("floor", number, digits),
        )

    return fixed(b.cast(b.let([whole], toward_zero), b.decimal_type(*shape)), *shape)


def _cut_or_null(text: b.Tree, places: int) -> b.Tree:
    return b.case((b.is_not_null(text), _cut(text, places, MAX_PRECISION)))


def _scale(call: Call) -> Value:
    value = call.args[0]
    number = value if is_fixed(value) else as_floating(value)
    return bind(
        [number],
        lambda bound: Value(b.case((b.is_not_null(bound.sql), scale_of(bound))), oids.INT4),
    )


FUNCTIONS: Final[dict[str, Handler]] = {
    "numeric_add": _binary(add),
    "numeric_sub": _binary(subtract),
    "numeric_mul": _binary(multiply),
    "numeric_div": _binary(divide),
    "numeric_mod": _binary(remainder),
    "numeric_uminus": _minus,
    "numeric_uplus": lambda call: call.args[0],
    "numeric_abs": _keeping_scale(absolute),
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
    return fixed(b.cast(value.sql, b.decimal_type(digits, 0)), digits, 0)
