"""PostgreSQL's numeric on Spark's DECIMAL: a value and its display scale travel together.

A numeric is in one of three forms (see ``Value``): scale known (a DECIMAL of exactly that scale), scale
computed per row (a DECIMAL whose scale is an upper bound, and an INT expression), or PostgreSQL's text.
What needs more digits than a DECIMAL has fails at run time; nothing is ever rounded silently.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from catalog import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.bindings import bind
from rewrite.dialect.type_mapping import MAX_PRECISION
from rewrite.errors import UnsupportedError
from rewrite.values import DecimalShape, Value

TEXT_SCALE: Final = 18
"""Digits after the point a numeric stored as text may have when it is computed with."""

_PRODUCT_SCALE: Final = 28
"""Digits after the point of products whose scale is only known per row."""


def numeric(sql: b.Tree, precision: int, scale: int, display: int | b.Tree | None = None) -> Value:
    """Return a numeric held by a DECIMAL of this precision and scale."""
    if scale > MAX_PRECISION:
        raise UnsupportedError(f"numeric results of more than {MAX_PRECISION} decimal places")
    shape = DecimalShape(min(precision, MAX_PRECISION), scale)
    return Value(sql, oids.NUMERIC, -1, scale if display is None else display, shape)


def shape_of(value: Value) -> DecimalShape:
    """Return the DECIMAL that holds a numeric which is not text."""
    if value.decimal is None:
        raise TypeError("numeric in text form has no decimal shape")
    return value.decimal


def display_scale(value: Value) -> b.Tree:
    """Return the display scale of a numeric as an INT expression."""
    if isinstance(value.scale, int):
        return b.integer(value.scale)
    if value.scale is None:
        raise TypeError("numeric in text form has no scale expression")
    return value.scale


def as_decimal(value: Value) -> Value:
    """Return a numeric as DECIMAL; text that a DECIMAL cannot hold fails at run time."""
    if value.decimal is not None:
        return value

    def parse(text: Value) -> Value:
        fits = b.call("rlike", text.sql, b.string(rf"^-?[0-9]{{1,20}}([.][0-9]{{1,{TEXT_SCALE}}})?$"))
        unfit = b.raise_error(
            sqlstate.FEATURE_NOT_SUPPORTED, "numeric value exceeds the supported precision"
        )
        decimal = b.cast(text.sql, b.decimal_type(MAX_PRECISION, TEXT_SCALE))
        point = b.call("instr", text.sql, b.string("."))
        digits = b.case(
            (b.infix(exp.GT, point, b.integer(0)), b.infix(exp.Sub, b.call("length", text.sql), point)),
            otherwise=b.integer(0),
        )
        checked = b.checked(decimal, (b.negation(fits), unfit))
        return numeric(checked, MAX_PRECISION, TEXT_SCALE, digits)

    return bind([value], parse)


def as_text(value: Value) -> b.Tree:
    """Return PostgreSQL's text of a numeric."""
    if value.decimal is None:
        return value.sql
    if isinstance(value.scale, int):
        return b.cast(value.sql, "STRING")

    def trim(bound: Value) -> Value:
        text = b.cast(bound.sql, "STRING")
        places = shape_of(bound).scale
        surplus = b.infix(exp.Sub, b.integer(places), display_scale(bound))
        # Without decimal places the point goes, too.
        point = b.case(
            (b.infix(exp.EQ, display_scale(bound), b.integer(0)), b.integer(1)), otherwise=b.integer(0)
        )
        length = b.infix(exp.Sub, b.infix(exp.Sub, b.call("length", text), surplus), point)
        return Value(b.call("left", text, length), oids.TEXT)

    return bind([value], trim).sql


def rescaled(value: Value, shape: DecimalShape) -> b.Tree:
    """Return the number as another DECIMAL; rounds half away from zero, fails when it does not fit."""
    if value.decimal == shape:
        return value.sql
    return b.cast(value.sql, b.decimal_type(*shape))


def widest(values: Sequence[Value]) -> DecimalShape:
    """Return a DECIMAL that holds all the numerics, or the nearest to it that Spark has."""
    shapes = [shape_of(value) for value in values]
    scale = max(shape.scale for shape in shapes)
    whole = max(shape.precision - shape.scale for shape in shapes)
    return DecimalShape(min(whole + scale, MAX_PRECISION), scale)


def aligned(values: Sequence[Value]) -> list[Value]:
    """Give numerics one form: all text, all of one known scale, or all with a computed scale."""
    if all(value.decimal is None or b.is_null_literal(value.sql) for value in values):
        return [
            value
            if value.decimal is None
            else replace(value, sql=b.null_of("STRING"), scale=None, decimal=None)
            for value in values
        ]
    decimals = [as_decimal(value) for value in values]
    real = [value for value in decimals if not b.is_null_literal(value.sql)]
    shape = widest(real or decimals)
    scales = {value.scale for value in real if isinstance(value.scale, int)}
    static = len(scales) == 1 and all(isinstance(value.scale, int) for value in real)
    result = []
    for value in decimals:
        if b.is_null_literal(value.sql):
            scale: int | b.Tree | None = shape.scale if static else b.integer(0)
            value = replace(value, sql=b.null_of(b.decimal_type(*shape)), scale=scale, decimal=shape)
        else:
            scale = value.scale if static else display_scale(value)
            value = replace(value, sql=rescaled(value, shape), scale=scale, decimal=shape)
        result.append(value)
    return result


def larger_scale(left: Value, right: Value) -> int | b.Tree:
    """Return the larger of two display scales."""
    if isinstance(left.scale, int) and isinstance(right.scale, int):
        return max(left.scale, right.scale)
    for one, other in ((left, right), (right, left)):
        if isinstance(one.scale, int) and one.scale >= shape_of(other).scale:
            return one.scale
    return b.call("greatest", display_scale(left), display_scale(right))


def _two(body: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """Make an operation on DECIMALs one on numerics of any form, its operands evaluated once if dynamic."""

    def operate(left: Value, right: Value) -> Value:
        left, right = as_decimal(left), as_decimal(right)
        if isinstance(left.scale, int) and isinstance(right.scale, int):
            return body(left, right)
        return bind([left, right], body)

    return operate


def _sum_like(operator: type[exp.Binary]) -> Callable[[Value, Value], Value]:
    def body(left: Value, right: Value) -> Value:
        one, other = shape_of(left), shape_of(right)
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        sql = b.infix(operator, left.sql, right.sql)
        return numeric(sql, whole + scale + 1, scale, larger_scale(left, right))

    return _two(body)


add = _sum_like(exp.Add)
subtract = _sum_like(exp.Sub)


def _multiply(left: Value, right: Value) -> Value:
    one, other = shape_of(left), shape_of(right)
    scale = one.scale + other.scale
    if isinstance(left.scale, int) and isinstance(right.scale, int):
        display: int | b.Tree = scale
    else:
        display = b.infix(exp.Add, display_scale(left), display_scale(right))
    if scale > _PRODUCT_SCALE and not isinstance(display, int):
        return _multiply_unscaled(left, right, display)
    sql = b.infix(exp.Mul, left.sql, right.sql)
    return numeric(sql, one.precision + other.precision + 1, scale, display)


def unscaled(value: Value) -> b.Tree:
    """Return the digits of a numeric without its decimal point, as DECIMAL(38, 0)."""
    return b.cast(b.call("replace", as_text(value), b.string("."), b.string("")), "DECIMAL(38, 0)")


def _multiply_unscaled(left: Value, right: Value, display: b.Tree) -> Value:
    """Multiply where the bounds of both scales are too large for one DECIMAL, but the digits may not be."""

    def place(product: Value, places: Value) -> Value:
        unfit = b.raise_error(
            sqlstate.FEATURE_NOT_SUPPORTED, "numeric result exceeds the supported precision"
        )
        text = b.cast(b.call("abs", product.sql), "STRING")
        least = b.infix(exp.Add, places.sql, b.integer(1))
        length = b.call("greatest", b.call("length", text), least)
        padded = b.call("lpad", text, length, b.string("0"))
        whole = b.infix(exp.Sub, length, places.sql)
        negative = b.infix(exp.LT, product.sql, b.integer(0))
        joined = b.call(
            "concat",
            b.case((negative, b.string("-")), otherwise=b.string("")),
            b.call("left", padded, whole),
            b.string("."),
            b.call("substring", padded, b.infix(exp.Add, whole, b.integer(1))),
        )
        sql = b.cast(joined, b.decimal_type(MAX_PRECISION, _PRODUCT_SCALE))
        too_many = b.infix(exp.GT, places.sql, b.integer(_PRODUCT_SCALE))
        checked = b.checked(sql, (too_many, unfit))
        return numeric(checked, MAX_PRECISION, _PRODUCT_SCALE, places.sql)

    product = b.infix(exp.Mul, unscaled(left), unscaled(right))
    return bind([Value(product, oids.TEXT), Value(display, oids.INT4)], place)


multiply = _two(_multiply)


def _remainder(left: Value, right: Value) -> Value:
    shape = widest([left, right])
    sql = b.infix(exp.Mod, rescaled(left, shape), rescaled(right, shape))
    return numeric(sql, shape.precision, shape.scale, larger_scale(left, right))


remainder = _two(_remainder)
