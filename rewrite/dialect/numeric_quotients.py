"""Quotients of numerics of fixed scale, by a single division of Spark's.

PostgreSQL gives a quotient 16 significant digits, counted in digits of base 10000, so its scale
depends on the operands (``select_div_scale`` of numeric.c).
"""

import math
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.bindings import bind
from rewrite.dialect.calls import known_decimal
from rewrite.dialect.numerics import WHOLE, as_floating, floating, shape_of
from rewrite.dialect.type_mapping import MAX_PRECISION
from rewrite.values import DecimalShape, Value

MIN_SIGNIFICANT_DIGITS: Final = 16
"""NUMERIC_MIN_SIG_DIGITS of numeric.h."""
WORD: Final = 4
"""Decimal digits of one digit of PostgreSQL's numeric (DEC_DIGITS)."""
_MOST_SIGNIFICANT_DIGITS: Final = 21
"""Digits a quotient has at most unless an operand's scale gives it more: less than 2 * 10**20."""

_ENGINEERING: Final = "###0." + "#" * MAX_PRECISION + "E0"
"""Java's DecimalFormat with an exponent that is a multiple of 4: ``12345.6`` is ``1.23456E4``."""
_SIGN_AND_FRACTION: Final = "^-|[.][0-9]*"

_OFFSET: Final = 20
"""Exceeds the difference of two leads, so that a cast rounds their difference down."""
_LESS_THAN_A_STEP: Final = 1e-6
"""Leads that differ do so by 1e-5 or more; equal ones may differ by the last bits of a double."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How the digits of a quotient are computed."""

    divisor: DecimalShape
    """What the divisor is cast to; decides on the decimal places of Spark's quotient."""
    shifted: bool
    """Whether the dividend is taken without its decimal point, because digits are scarce."""
    least_scale: int
    """The larger scale of the operands."""
    chosen_scale: int
    """The least scale that 16 significant digits of the quotient make."""


def plan(left: DecimalShape, right: DecimalShape, whole: int | None = None) -> Plan | None:
    """Return how to divide so that Spark's quotient, rounded, is exact; None if there is no way.

    Spark rounds twice, first to the places of the quotient's type. The divisor has no more digits
    than these places, so no quotient is that near to a tie without being one.

    Args:
        left: The dividend's type.
        right: The divisor's type.
        whole: Digits before the point of the quotient, where the types tell less.
    """
    if whole is None:
        whole = left.precision - left.scale + right.scale
    least_scale = max(left.scale, right.scale)
    digits = max(_MOST_SIGNIFICANT_DIGITS, whole + least_scale)
    product = digits + right.precision - right.scale
    if product > MAX_PRECISION:
        return None
    shifted = product + left.scale > MAX_PRECISION
    divisor = _divisor(0 if shifted else left.scale, right, MAX_PRECISION - digits)
    if divisor is None:
        return None
    words = max(-(-whole // WORD), 0)
    chosen_scale = MIN_SIGNIFICANT_DIGITS + WORD - WORD * words
    return Plan(divisor, shifted, least_scale, chosen_scale)


def _divisor(scale: int, right: DecimalShape, most_places: int) -> DecimalShape | None:
    for precision in range(MAX_PRECISION, right.precision - 1, -1):
        places = quotient_places(scale, DecimalShape(precision, right.scale))
        if right.precision <= places <= most_places:
            return DecimalShape(precision, right.scale)
    return None


def quotient_places(scale: int, divisor: DecimalShape) -> int:
    """Return the scale Spark's quotient has when a DECIMAL(38, scale) is divided.

    As in Spark's ``Divide``, with ``spark.sql.decimalOperations.allowPrecisionLoss`` off.

    >>> quotient_places(2, DecimalShape(30, 0))
    17
    """
    whole = min(MAX_PRECISION - scale + divisor.scale, MAX_PRECISION)
    places = min(max(scale + divisor.precision + 1, 6), MAX_PRECISION)
    surplus = whole + places - MAX_PRECISION
    return places - surplus // 2 - 1 if surplus > 0 else places


def quotient(left: Value, right: Value, way: Plan, *, nonzero: bool = False) -> Value:
    """Return a quotient; fails for a zero divisor.

    Args:
        left: The dividend, a fixed numeric.
        right: The divisor, a fixed numeric.
        way: See :func:`plan`.
        nonzero: The divisor is not zero unless the dividend is NULL.
    """

    def with_operands(one: Value, other: Value) -> Value:
        scale = Value(_scale(one, other, way, nonzero=nonzero), oids.INT4)
        return bind([scale], lambda bound: floating(_digits(one, other, bound, way), bound.sql))

    return bind([left, right], with_operands)


def _digits(left: Value, right: Value, scale: Value, way: Plan) -> b.Tree:
    exponent = scale.sql
    dividend = left.sql
    if way.shifted:
        dividend = as_floating(left).sql
        exponent = b.infix(exp.Sub, exponent, b.integer(shape_of(left).scale))
    power = b.cast(b.call("concat", b.string("1E"), exponent), WHOLE)
    divisor = b.cast(right.sql, b.decimal_type(*way.divisor))
    return b.cast(b.divide(b.infix(exp.Mul, dividend, power), divisor), WHOLE)


def _scale(left: Value, right: Value, way: Plan, *, nonzero: bool) -> b.Tree:
    """Return 16 - 4 * weight, where the quotient's weight is that of its first digit or one less.

    PostgreSQL estimates it from the first digits of the operands alone.
    """
    known = _known_lead(right)
    if known is None:
        offset = _OFFSET - _LESS_THAN_A_STEP
        first = b.infix(exp.Sub, _lead_of(left), _lead(right.sql, nonzero=nonzero))
    else:
        offset = _OFFSET - _LESS_THAN_A_STEP - known
        first = _lead_of(left)
    weight = b.cast(b.infix(exp.Add, first, b.double(offset)), "INT")
    scale = b.infix(
        exp.Sub,
        b.integer(MIN_SIGNIFICANT_DIGITS + WORD * _OFFSET),
        b.infix(exp.Mul, weight, b.integer(WORD)),
    )
    if way.chosen_scale >= way.least_scale:
        return scale
    return b.call("greatest", scale, b.integer(way.least_scale))


def _lead_of(value: Value) -> b.Tree:
    known = _known_lead(value)
    return _lead(value.sql) if known is None else b.double(known)


def _lead(value: b.Tree, *, nonzero: bool = False) -> b.Tree:
    """Return the logarithm to base 10000 of a number cut off after its first digit in that base.

    Zero counts as one, whose first digit is no larger than any other.
    """
    written = b.call("format_number", value, b.string(_ENGINEERING))
    cut = b.call("regexp_replace", written, b.string(_SIGN_AND_FRACTION), b.string(""))
    lead = b.call("log", b.integer(10**WORD), b.cast(cut, "DOUBLE"))
    return lead if nonzero else b.call("coalesce", lead, b.double(0))


def _known_lead(value: Value) -> float | None:
    """Return the same of a constant.

    >>> from decimal import Decimal
    >>> from rewrite.dialect.literals import numeric_literal
    >>> [_known_lead(numeric_literal(Decimal(x))) for x in ("19999.5", "0.0001", "-1", "0.0")]
    [1.0, -1.0, 0.0, 0.0]
    """
    number = known_decimal(value)
    if number is None:
        return None
    if not number:
        return 0.0
    place = number.adjusted()
    size = place % WORD + 1
    digits = "".join(map(str, number.as_tuple().digits)).lstrip("0")
    first = int(digits[:size].ljust(size, "0"))
    return place // WORD + math.log(first, 10**WORD)
