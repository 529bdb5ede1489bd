"""PostgreSQL's numeric on Spark: a number and its display scale.

A numeric value is in one of three forms (see ``Value``):

- *fixed*: a DECIMAL whose scale is the display scale. Columns with precision and scale,
  constants, and what is computed from them by addition and multiplication.
- *text*: PostgreSQL's own text in a STRING. Columns without precision, and every numeric whose
  scale depends on the row where it leaves an expression.
- *floating*: the digits as DECIMAL(38, 0) and the scale as INT. Only inside expressions.

What needs more than 38 digits fails at run time; nothing is ever rounded silently.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.bindings import bind, consume
from rewrite.dialect.type_mapping import MAX_PRECISION
from rewrite.errors import UnsupportedError
from rewrite.values import DecimalShape, Mixed, Value

WHOLE: Final = f"DECIMAL({MAX_PRECISION}, 0)"
"""Spark type of the digits of a floating numeric."""

WHOLE_SHAPE: Final = DecimalShape(MAX_PRECISION, 0)
"""The same."""

ONE: Final = b.cast(b.integer(1), "DECIMAL(1, 0)")
"""The number one in its shortest type."""

_SPARK_KEEPS: Final = 34
"""Digits that Spark's minus and ``abs`` of a DECIMAL keep."""

_ZERO: Final = b.integer(0)
_EXPONENT_BIAS: Final = 100_000


def fixed(sql: b.Tree, precision: int, scale: int, typmod: int = -1) -> Value:
    """Return a numeric held by a DECIMAL of this precision and scale."""
    if scale > MAX_PRECISION:
        raise UnsupportedError(f"numeric results of more than {MAX_PRECISION} decimal places")
    shape = DecimalShape(min(precision, MAX_PRECISION), scale)
    return Value(sql, oids.NUMERIC, typmod, scale, shape)


def floating(digits: b.Tree, scale: b.Tree) -> Value:
    """Return a numeric of digits and a scale that depends on the row."""
    return Value(digits, oids.NUMERIC, -1, scale)


def textual(sql: b.Tree) -> Value:
    """Return a numeric held by PostgreSQL's text."""
    return Value(sql, oids.NUMERIC)


def is_fixed(value: Value) -> bool:
    """Tell whether a numeric is a DECIMAL of known scale."""
    return value.decimal is not None


def shape_of(value: Value) -> DecimalShape:
    """Return the DECIMAL that holds a fixed numeric."""
    if value.decimal is None:
        raise TypeError("not a fixed numeric")
    return value.decimal


def scale_of(value: Value) -> b.Tree:
    """Return the display scale of a numeric that is not text."""
    if isinstance(value.scale, int):
        return b.integer(value.scale)
    if value.scale is None:
        raise TypeError("numeric in text form")
    return value.scale


def too_many_digits() -> b.Tree:
    """Return the error for numbers of more digits than a DECIMAL has."""
    return b.raise_error(
        sqlstate.FEATURE_NOT_SUPPORTED,
        f"numeric values of more than {MAX_PRECISION} digits are not supported",
    )


# -- between the forms ---------------------------------------------------------------------------


def as_floating(value: Value) -> Value:
    """Return a numeric as digits and scale."""
    if isinstance(value.scale, exp.Expression):
        return value
    if value.decimal is None:
        return bind([value], _parsed)
    shape = value.decimal
    if shape.scale == 0:
        return floating(b.cast(value.sql, WHOLE), _ZERO)
    if shape.precision + shape.scale <= MAX_PRECISION:
        power = b.cast(b.string(f"1{'0' * shape.scale}"), b.decimal_type(shape.scale + 1, 0))
        return floating(b.cast(b.infix(exp.Mul, value.sql, power), WHOLE), b.integer(shape.scale))
    text = b.call("replace", b.cast(value.sql, "STRING"), b.string("."), b.string(""))
    return floating(b.cast(text, WHOLE), b.integer(shape.scale))


def _parsed(value: Value) -> Value:
    text = value.sql
    fits = b.call("rlike", text, b.string(r"^-?(?=[0-9.]{1,39}\z)[0-9]{1,38}([.][0-9]+)?\z"))
    digits = b.cast(b.call("replace", text, b.string("."), b.string("")), WHOLE)
    point = b.call("instr", text, b.string("."))
    scale = b.case(
        (b.infix(exp.GT, point, _ZERO), b.infix(exp.Sub, b.call("length", text), point)),
        otherwise=_ZERO,
    )
    return floating(b.checked(digits, (b.negation(fits), too_many_digits())), scale)


def as_text(value: Value) -> b.Tree:
    """Return PostgreSQL's text of a numeric."""
    if value.scale is None:
        return value.sql
    if isinstance(value.scale, int):
        return b.cast(value.sql, "STRING")
    return consume(value, _printed)


_BEFORE_DIGITS: Final = "(?<![0-9])(?=[0-9])"


def _printed(value: Value) -> b.Tree:
    """Put zeros before the digits, then drop those that no place needs and set the point."""
    digits, scale = b.cast(value.sql, "STRING"), scale_of(value)
    zeros = b.call("repeat", b.string("0"), scale)
    padded = b.call("regexp_replace", digits, b.string(_BEFORE_DIGITS), zeros)
    pattern = b.call("concat", b.string("^(-?)0*([0-9]+)([0-9]{"), scale, b.string("})$"))
    pointed = b.call("regexp_replace", padded, pattern, b.string("$1$2.$3"))
    return b.call("rtrim", b.string("."), pointed)


def settled(value: Value) -> Value:
    """Return a value in a form that may leave its expression: floating numerics become text."""
    if isinstance(value.scale, exp.Expression):
        return textual(as_text(value))
    return value


def as_fixed(value: Value, shape: DecimalShape) -> b.Tree:
    """Return a numeric as a DECIMAL; rounds half away from zero, fails when it does not fit."""
    if value.decimal == shape:
        return value.sql
    spark_type = b.decimal_type(*shape)
    if value.decimal is not None:
        return b.cast(value.sql, spark_type)
    if value.scale is None:
        # Checks the text, which might be NaN.
        return as_fixed(as_floating(value), shape)
    return b.cast(as_text(value), spark_type)


def aligned(values: Sequence[Value]) -> list[Value]:
    """Give numerics one form: fixed with one scale where all are, else text."""
    real = [value for value in values if not b.is_null_literal(value.sql)]
    scales = {value.scale if isinstance(value.scale, int) else None for value in real}
    if not real:
        return list(values)
    if len(scales) == 1 and None not in scales:
        shape = DecimalShape(
            max(shape_of(value).precision for value in real), shape_of(real[0]).scale
        )
        return [
            replace(value, sql=_null_or(value, shape), scale=shape.scale, decimal=shape)
            for value in values
        ]
    return [
        textual(b.null_of("STRING") if b.is_null_literal(value.sql) else as_text(value))
        for value in values
    ]


def mixed_of(values: Sequence[Value], choose: Callable[[Sequence[b.Tree]], b.Tree]) -> Mixed | None:
    """Return one of several values, chosen by Spark, as a number that is no text, if it can be.

    Args:
        values: What is chosen from.
        choose: Returns an expression that chooses from others as it does from the values.
    """
    real = [value for value in values if not b.is_null_literal(value.sql)]
    if not real or not all(is_fixed(value) for value in real):
        return None
    shapes = [shape_of(value) for value in real]
    scale = max(shape.scale for shape in shapes)
    shape = DecimalShape(max(one.precision - one.scale for one in shapes) + scale, scale)
    if shape.precision > MAX_PRECISION:
        return None
    scales = [b.integer(value.scale if isinstance(value.scale, int) else 0) for value in values]
    number = choose([_null_or(value, shape) for value in values])
    return Mixed(b.NULL, number, shape, choose(scales))


def as_number(value: Value) -> Value:
    """Return a numeric as a DECIMAL where that is known to have all its digits.

    Its display scale may be another one, which makes no difference where values are compared.
    """
    if value.mixed is None or value.mixed.text is not value.sql:
        return value
    return fixed(value.mixed.number, *value.mixed.shape)


def _null_or(value: Value, shape: DecimalShape) -> b.Tree:
    if b.is_null_literal(value.sql):
        return b.null_of(b.decimal_type(*shape))
    return as_fixed(value, shape)


def comparison_key(value: Value) -> b.Tree:
    """Return a struct that orders numerics of any scale and magnitude: exponent, then digits."""

    def key(bound: Value) -> Value:
        digits, scale = bound.sql, scale_of(bound)
        count = b.call("length", unsigned_text(digits))
        exponent = b.infix(exp.Add, b.infix(exp.Sub, count, scale), b.integer(_EXPONENT_BIAS))
        signed = b.infix(exp.Mul, b.cast(b.call("sign", digits), "INT"), exponent)
        mantissa = b.infix(
            exp.Mul, digits, power_of_ten(b.infix(exp.Sub, b.integer(MAX_PRECISION), count))
        )
        parts = b.struct(exponent=signed, digits=mantissa)
        return Value(b.case((b.is_not_null(digits), parts)), oids.TEXT)

    return bind([as_floating(value)], key).sql


def is_zero(number: b.Tree) -> b.Tree:
    """Return whether a DECIMAL, or its digits, are zero."""
    return b.infix(exp.EQ, number, b.integer(0))


def negated(number: b.Tree, shape: DecimalShape) -> b.Tree:
    """Return a DECIMAL with the other sign. Spark's own minus rounds to 34 digits."""
    if shape.precision <= _SPARK_KEEPS:
        return b.negate(number)
    zero = b.cast(b.integer(0), "DECIMAL(1, 0)")
    return b.cast(b.infix(exp.Sub, zero, number), b.decimal_type(*shape))


def absolute(number: b.Tree, shape: DecimalShape) -> b.Tree:
    """Return a DECIMAL without its sign. Spark's own ``abs`` rounds to 34 digits."""
    if shape.precision <= _SPARK_KEEPS:
        return b.call("abs", number)

    def body(bound: b.Tree) -> b.Tree:
        is_negative = b.infix(exp.LT, bound, b.integer(0))
        return b.case((is_negative, negated(bound, shape)), otherwise=bound)

    return b.let([number], body)


def unsigned_text(number: b.Tree) -> b.Tree:
    """Return the digits, and the point, of a DECIMAL."""
    return b.call("replace", b.cast(number, "STRING"), b.string("-"), b.string(""))


def power_of_ten(exponent: b.Tree) -> b.Tree:
    """Return ``10 ** exponent`` as DECIMAL(38, 0); the exponent is an INT from 0 to 37."""
    length = b.infix(exp.Add, exponent, b.integer(1))
    return b.cast(b.call("rpad", b.string("1"), length, b.string("0")), WHOLE)


def scaled_up(digits: b.Tree, exponent: b.Tree) -> b.Tree:
    """Return ``digits * 10 ** exponent``; fails beyond 38 digits."""
    return b.infix(exp.Mul, digits, power_of_ten(exponent))


# -- arithmetic ----------------------------------------------------------------------------------

Operation = Callable[[Value, Value], Value]


def _arithmetic(fixed_case: Operation, floating_case: Operation) -> Operation:
    def operate(left: Value, right: Value) -> Value:
        if is_fixed(left) and is_fixed(right):
            return fixed_case(left, right)
        return bind([as_floating(left), as_floating(right)], floating_case)

    return operate


def _sum_like(operator: type[exp.Binary]) -> Operation:
    def fixed_case(left: Value, right: Value) -> Value:
        one, other = shape_of(left), shape_of(right)
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        return fixed(b.infix(operator, left.sql, right.sql), whole + scale + 1, scale)

    return _arithmetic(fixed_case, _at_common_scale(operator))


def _at_common_scale(operator: type[exp.Binary]) -> Operation:
    def floating_case(left: Value, right: Value) -> Value:
        one, other = scale_of(left), scale_of(right)

        def combine(scale: b.Tree) -> b.Tree:
            return b.infix(
                operator,
                scaled_up(left.sql, b.infix(exp.Sub, scale, one)),
                scaled_up(right.sql, b.infix(exp.Sub, scale, other)),
            )

        scale = b.call("greatest", one, other)
        return floating(b.cast(combine(scale), WHOLE), scale)

    return floating_case


add = _sum_like(exp.Add)
subtract = _sum_like(exp.Sub)


def _product(left: Value, right: Value) -> Value:
    one, other = shape_of(left), shape_of(right)
    if one.scale + other.scale > MAX_PRECISION:
        return _floating_product(as_floating(left), as_floating(right))
    sql = b.infix(exp.Mul, left.sql, right.sql)
    return fixed(sql, one.precision + other.precision + 1, one.scale + other.scale)


def _floating_product(left: Value, right: Value) -> Value:
    scale = b.infix(exp.Add, scale_of(left), scale_of(right))
    return floating(b.cast(b.infix(exp.Mul, left.sql, right.sql), WHOLE), scale)


multiply = _arithmetic(_product, _floating_product)


def _remainder(left: Value, right: Value) -> Value:
    one, other = shape_of(left), shape_of(right)
    scale = max(one.scale, other.scale)
    whole = max(one.precision - one.scale, other.precision - other.scale)
    if whole + scale > MAX_PRECISION:
        floating_case = _at_common_scale(exp.Mod)
        return bind([as_floating(left), as_floating(right)], floating_case)
    shape = DecimalShape(whole + scale, scale)
    return fixed(b.infix(exp.Mod, as_fixed(left, shape), as_fixed(right, shape)), *shape)


remainder = _arithmetic(_remainder, _at_common_scale(exp.Mod))
