"""Division of numerics with PostgreSQL's result scale (``select_div_scale`` of numeric.c)."""

from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.bindings import bind
from rewrite.dialect.calls import known_decimal
from rewrite.dialect.numeric_quotients import (
    MIN_SIGNIFICANT_DIGITS,
    WORD,
    plan,
    quotient,
)
from rewrite.dialect.numerics import (
    ONE,
    WHOLE,
    WHOLE_SHAPE,
    absolute,
    as_floating,
    floating,
    is_fixed,
    negated,
    scale_of,
    scaled_up,
    shape_of,
    unsigned_text,
)
from rewrite.dialect.type_mapping import MAX_PRECISION
from rewrite.values import Value

_ZERO: Final = b.integer(0)


def divide(left: Value, right: Value) -> Value:
    """Return the quotient of two numerics; fails for a zero divisor."""
    if is_fixed(left) and is_fixed(right):
        way = plan(shape_of(left), shape_of(right))
        if way is not None:
            return quotient(left, right, way)
    operands = [as_floating(left), as_floating(right)]
    return bind(operands, lambda one, other: _long_division(one, other, left, right))


# -- the scale -----------------------------------------------------------------------------------


def _lead(text: b.Tree, scale: b.Tree) -> b.Tree:
    """Return weight * 10000 + first digit of a number in base 10000, as PostgreSQL stores it.

    Args:
        text: The number's digits.
        scale: How many of them stand behind the decimal point.
    """
    place = b.infix(exp.Sub, b.infix(exp.Sub, b.call("length", text), scale), b.integer(1))
    within = b.call("pmod", place, b.integer(WORD))
    size = b.infix(exp.Add, within, b.integer(1))
    digit = b.cast(b.call("rpad", b.call("left", text, size), size, b.string("0")), "INT")
    weight = b.infix(exp.Mul, b.infix(exp.Sub, place, within), b.integer(10_000 // WORD))
    zero = b.infix(exp.EQ, text, b.string("0"))
    return b.case((zero, _ZERO), otherwise=b.infix(exp.Add, weight, digit))


def _known_lead(value: Value) -> b.Tree | None:
    """Return the same of a constant.

    >>> from decimal import Decimal
    >>> from rewrite.dialect.literals import numeric_literal
    >>> [_known_lead(numeric_literal(Decimal(x))).sql() for x in ("12345.6", "0.05", "0")]
    ['10001', '(-9500)', '0']
    """
    number = known_decimal(value)
    if number is None:
        return None
    if not number:
        return _ZERO
    place = number.adjusted()
    size = place % WORD + 1
    digits = "".join(map(str, number.as_tuple().digits)).lstrip("0")
    return b.integer(place // WORD * 10_000 + int(digits[:size].ljust(size, "0")))


def _result_scale(left: Value, right: Value, originals: tuple[Value, Value]) -> b.Tree:
    """Return a quotient's scale: no less than 16 significant digits and the operands' scales."""
    known = [_known_lead(value) for value in originals]
    texts = [unsigned_text(value.sql) for value in (left, right)]

    def scale(*bound: b.Tree) -> b.Tree:
        one, other = (
            lead if lead is not None else _lead(text, scale_of(value))
            for lead, text, value in zip(known, bound, (left, right), strict=True)
        )
        # The weight of the quotient, one less unless the dividend's first digit is the larger
        # one, is ceil((lead1 - lead2) / 10000) - 1.
        ratio = b.divide(
            b.cast(b.infix(exp.Sub, one, other), "DOUBLE"), b.cast(b.integer(10_000), "DOUBLE")
        )
        weight = b.cast(b.call("ceil", ratio), "INT")
        significant = b.infix(
            exp.Sub,
            b.integer(MIN_SIGNIFICANT_DIGITS + WORD),
            b.infix(exp.Mul, weight, b.integer(WORD)),
        )
        return b.call("greatest", significant, scale_of(left), scale_of(right), _ZERO)

    used = [b.NULL if lead is not None else text for lead, text in zip(known, texts, strict=True)]
    return b.let(used, scale)


def _shift(left: Value, right: Value, scale: Value) -> b.Tree:
    """Return by how many places the dividend's digits move so that the quotient is whole."""
    return b.infix(exp.Add, b.infix(exp.Sub, scale.sql, scale_of(left)), scale_of(right))


# -- the digits ----------------------------------------------------------------------------------


def _whole_quotient(dividend: b.Tree, divisor: b.Tree) -> b.Tree:
    """Return the integer part of a quotient of DECIMAL(38, 0) that are not negative.

    Spark gives a quotient the more digits before the point, the shorter the divisor's type is.
    """
    branches = []
    for digits in (5, 10, 20):
        limit = b.cast(b.string(f"1{'0' * digits}"), WHOLE)
        narrow = b.cast(divisor, b.decimal_type(digits, 0))
        branches.append(
            (b.infix(exp.LT, divisor, limit), b.cast(b.divide(dividend, narrow), WHOLE))
        )
    rounded = b.case(*branches, otherwise=b.cast(b.divide(dividend, divisor), WHOLE))

    def down(quotient: b.Tree) -> b.Tree:
        too_large = b.infix(exp.GT, b.infix(exp.Mul, quotient, divisor), dividend)
        return b.case(
            (too_large, b.cast(b.infix(exp.Sub, quotient, ONE), WHOLE)), otherwise=quotient
        )

    return b.let([rounded], down)


def _rest(dividend: b.Tree, quotient: b.Tree, divisor: b.Tree) -> b.Tree:
    return b.cast(b.infix(exp.Sub, dividend, b.infix(exp.Mul, quotient, divisor)), WHOLE)


def _rounded_quotient(dividend: b.Tree, divisor: b.Tree) -> b.Tree:
    """Return the quotient rounded half up, of numbers that are not negative."""

    def rounded(quotient: b.Tree) -> b.Tree:
        rest = _rest(dividend, quotient, divisor)
        half = b.infix(exp.GTE, b.infix(exp.Add, rest, rest), divisor)
        return b.case((half, b.cast(b.infix(exp.Add, quotient, ONE), WHOLE)), otherwise=quotient)

    return b.let([_whole_quotient(dividend, divisor)], rounded)


def _long_division(left: Value, right: Value, *originals: Value) -> Value:
    """Divide numbers of any number of digits: long division on paper, in two steps."""
    one, other = originals

    def magnitude(dividend: b.Tree, divisor: b.Tree, places: b.Tree) -> b.Tree:
        length = b.call("length", b.cast(dividend, "STRING"))
        now = b.call("least", places, b.infix(exp.Sub, b.integer(MAX_PRECISION), length))

        def first_step(now: b.Tree) -> b.Tree:
            return b.let(
                [b.cast(scaled_up(dividend, now), WHOLE)],
                lambda number: b.let(
                    [_whole_quotient(number, divisor)],
                    lambda quotient: second_step(number, quotient, b.infix(exp.Sub, places, now)),
                ),
            )

        def second_step(number: b.Tree, quotient: b.Tree, later: b.Tree) -> b.Tree:
            rest = b.cast(scaled_up(_rest(number, quotient, divisor), later), WHOLE)
            tail = b.let([rest], lambda remaining: _rounded_quotient(remaining, divisor))
            return b.cast(b.infix(exp.Add, scaled_up(quotient, later), tail), WHOLE)

        return b.let([now], first_step)

    def digits(scale: Value) -> Value:
        sign = b.infix(exp.Mul, b.call("sign", left.sql), b.call("sign", right.sql))
        negative = b.infix(exp.LT, sign, _ZERO)
        magnitudes = [absolute(value.sql, WHOLE_SHAPE) for value in (left, right)]
        operands = [*magnitudes, _shift(left, right, scale)]
        signed = b.let(
            [b.let(operands, magnitude)],
            lambda number: b.case((negative, negated(number, WHOLE_SHAPE)), otherwise=number),
        )
        return floating(signed, scale.sql)

    return bind([Value(_result_scale(left, right, (one, other)), oids.INT4)], digits)
