"""Division of numerics with PostgreSQL's result scale (``select_div_scale`` of numeric.c)."""

from typing import Final

from sqlglot import exp

from catalog import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.bindings import bind, paired
from rewrite.dialect.numerics import as_decimal, display_scale, numeric, rescaled, shape_of
from rewrite.dialect.type_mapping import MAX_PRECISION
from rewrite.values import DecimalShape, Value

_TARGET_SCALES: Final = (24, 22, 20, 18)
_MIN_SIGNIFICANT_DIGITS: Final = 16
"""NUMERIC_MIN_SIG_DIGITS of numeric.h."""
_WORD: Final = 4
"""Decimal digits of one digit of PostgreSQL's numeric (DEC_DIGITS)."""
_ENOUGH_WHOLE_DIGITS: Final = 15


def quotient_shape(dividend: DecimalShape, divisor: DecimalShape) -> DecimalShape:
    """Return the type Spark gives a quotient (``allowPrecisionLoss=false``).

    >>> quotient_shape(DecimalShape(15, 2), DecimalShape(20, 0))
    DecimalShape(precision=36, scale=23)
    """
    whole = min(MAX_PRECISION, dividend.precision - dividend.scale + divisor.scale)
    places = min(MAX_PRECISION, max(6, dividend.scale + divisor.precision + 1))
    excess = whole + places - MAX_PRECISION
    if excess > 0:
        places -= excess // 2 + 1
        whole = MAX_PRECISION - places
    return DecimalShape(whole + places, places)


def dividend_shape(dividend: DecimalShape, divisor: DecimalShape) -> DecimalShape:
    """Return the type to give the dividend so that the quotient has enough decimal places."""
    wanted = min(dividend.precision - dividend.scale, _ENOUGH_WHOLE_DIGITS)
    best = dividend
    for target in _TARGET_SCALES:
        for scale in range(dividend.scale, MAX_PRECISION - wanted + 1):
            whole = min(dividend.precision - dividend.scale, MAX_PRECISION - scale)
            candidate = DecimalShape(whole + scale, scale)
            quotient = quotient_shape(candidate, divisor)
            if quotient.scale >= target:
                return candidate
            if quotient.scale > quotient_shape(best, divisor).scale:
                best = candidate
    return best


def _leading(value: Value) -> b.Tree:
    """Return weight * 10000 + first digit of a number as PostgreSQL stores it, in base 10000; 0 for zero."""
    shape = shape_of(value)
    magnitude = b.call("abs", value.sql)
    branches = []
    top = max(shape.precision - shape.scale - 1, 0) // _WORD
    bottom = -(-shape.scale // _WORD)
    for weight in range(top, -bottom - 1, -1):
        text = f"1{'0' * (_WORD * weight)}" if weight >= 0 else f"0.{'0' * (-_WORD * weight - 1)}1"
        unit = b.cast(b.string(text), b.decimal_type(max(abs(_WORD * weight), 1) + 1, max(-_WORD * weight, 0)))
        digit = b.infix(exp.IntDiv, magnitude, unit)
        branches.append(
            (
                b.infix(exp.GTE, magnitude, unit),
                b.infix(exp.Add, digit, b.bigint(weight * 10_000)),
            )
        )
    return b.case(*branches, otherwise=b.bigint(0))


def _result_scale(left: Value, right: Value) -> b.Tree:
    """Return the scale of a quotient: at least 16 significant digits, at least the operands' scales."""
    # With lead = weight * 10000 + digit, the weight of the quotient, one less unless the dividend's
    # first digit is the larger one, is ceil((lead1 - lead2) / 10000) - 1.
    difference = b.infix(exp.Sub, _leading(left), _leading(right))
    weight = b.cast(
        b.call("ceil", b.divide(b.cast(difference, "DOUBLE"), b.cast(b.integer(10_000), "DOUBLE"))), "INT"
    )
    significant = b.infix(
        exp.Sub,
        b.integer(_MIN_SIGNIFICANT_DIGITS + _WORD),
        b.infix(exp.Mul, weight, b.integer(_WORD)),
    )
    return b.call("greatest", significant, display_scale(left), display_scale(right), b.integer(0))


def _possible_scales(left: Value, right: Value, limit: int) -> list[int]:
    """Return the scales a quotient may have: multiples of four, or that of an operand."""
    scales = set(range(0, limit + 1, _WORD))
    for value in (left, right):
        if isinstance(value.scale, int):
            scales.add(value.scale)
        else:
            scales.update(range(shape_of(value).scale + 1))
    floor = max((value.scale for value in (left, right) if isinstance(value.scale, int)), default=0)
    return [scale for scale in sorted(scales) if floor <= scale <= limit]


def _rounded(quotient: b.Tree, scale: b.Tree, possible: list[int], shape: DecimalShape) -> b.Tree:
    """Round to a scale known per row only; a scale that is not possible has too many digits."""
    unfit = b.raise_error(sqlstate.FEATURE_NOT_SUPPORTED, "numeric result exceeds the supported precision")
    target = b.decimal_type(*shape)
    branches = []
    for places in possible:
        precision = shape.precision - shape.scale + places
        at_scale = b.cast(quotient, b.decimal_type(min(precision + 1, MAX_PRECISION), places))
        rounded = quotient if places == shape.scale else b.cast(at_scale, target)
        branches.append((b.infix(exp.EQ, scale, b.integer(places)), rounded))
    branches.append((b.is_null(scale), b.null_of(target)))
    return b.case(*branches, otherwise=unfit)


def _corrected(rounded: b.Tree, quotient: b.Tree, left: Value, right: Value, scale: b.Tree, shape: DecimalShape) -> b.Tree:
    """Undo rounding twice: a quotient that only looks like a tie because it was rounded to a tie.

    The quotient has ``shape.scale`` digits, itself rounded. If it lies exactly between two numbers of the
    result's scale, and the true quotient is smaller, the result is one unit too large.
    """
    half = b.call(
        "element_at",
        b.array(*(b.cast(b.string(f"0.{'0' * i}5"), b.decimal_type(shape.scale, shape.scale)) for i in range(shape.scale))),
        b.infix(exp.Add, scale, b.integer(1)),
    )
    distance = b.call("abs", b.infix(exp.Sub, rounded, quotient))
    places = min(shape.scale, MAX_PRECISION - shape_of(right).scale)
    narrow = b.cast(b.call("abs", quotient), b.decimal_type(MAX_PRECISION, places))
    product = b.infix(exp.Mul, narrow, b.call("abs", right.sql))
    too_large = b.infix(exp.GT, product, b.call("abs", left.sql))
    unit = b.infix(exp.Mul, half, b.call("sign", quotient))
    lower = b.cast(b.infix(exp.Sub, b.infix(exp.Sub, rounded, unit), unit), b.decimal_type(*shape))
    looks_tied = b.infix(exp.LT, scale, b.integer(shape.scale))
    return b.case(
        (b.both(looks_tied, b.infix(exp.EQ, distance, half), too_large), lower), otherwise=rounded
    )


def divide(left: Value, right: Value) -> Value:
    """Return the quotient of two numerics; fails for a zero divisor."""
    return bind([as_decimal(left), as_decimal(right)], _divide)


def _divide(left: Value, right: Value) -> Value:
    dividend = dividend_shape(shape_of(left), shape_of(right))
    shape = quotient_shape(dividend, shape_of(right))
    possible = _possible_scales(left, right, shape.scale)
    quotient = Value(b.divide(rescaled(left, dividend), right.sql), oids.TEXT)

    def finish(digits: Value, scale: Value) -> Value:
        rounded = _rounded(digits.sql, scale.sql, possible, shape)

        def correct(result: Value) -> Value:
            tree = _corrected(result.sql, digits.sql, left, right, scale.sql, shape)
            return numeric(tree, shape.precision, shape.scale, scale.sql)

        if shape_of(right).precision <= shape.scale - _significant(possible) - 1:
            return numeric(rounded, shape.precision, shape.scale, scale.sql)
        return bind([Value(rounded, oids.TEXT)], correct)

    return paired(bind([quotient, Value(_result_scale(left, right), oids.INT4)], finish))


def _significant(possible: list[int]) -> int:
    return max(possible, default=0)
