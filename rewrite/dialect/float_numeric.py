"""Casts of real and double precision to numeric: the number as ``%.15g`` or ``%.6g`` prints it.

PostgreSQL casts by way of that text, correctly rounded from the binary value. Spark shows at most
the digits that tell a double from its neighbours; where these are more than 15, the last one kept
is found by comparing the double with the middle of its two candidates, in arithmetic without error.
"""

from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import Call, Handler
from rewrite.dialect.literals import float_literal
from rewrite.dialect.numerics import WHOLE, floating, scaled_up
from rewrite.values import Value

_DIGITS: Final = {oids.FLOAT4: 6, oids.FLOAT8: 15}
"""FLT_DIG and DBL_DIG of C."""
_LARGEST_POWER: Final = 22
"""Powers of ten up to this are exact in double precision."""
_LARGEST_WHOLE: Final = 9e18
"""Doubles below this are exact as BIGINT, once they are whole."""
_SMALLEST_NORMAL: Final = 2.0**-1022
"""Doubles below this have fewer digits."""
_SPLITTER: Final = float_literal(134_217_729.0)
"""2**27 + 1: splits a double into halves whose products are exact (Veltkamp)."""

_ZERO: Final = b.integer(0)
_ONE: Final = b.integer(1)


def _unfit() -> b.Tree:
    return b.raise_error(
        sqlstate.FEATURE_NOT_SUPPORTED, "this floating-point value as numeric is not supported"
    )


def _minus(left: b.Tree, right: b.Tree) -> b.Tree:
    return b.infix(exp.Sub, left, right)


def _plus(left: b.Tree, right: b.Tree) -> b.Tree:
    return b.infix(exp.Add, left, right)


def _times(left: b.Tree, right: b.Tree) -> b.Tree:
    return b.infix(exp.Mul, left, right)


def _trimmed(text: b.Tree, position: str) -> b.Tree:
    return exp.Trim(this=text, position=position, expression=b.string("0"))


def _shown(magnitude: b.Tree) -> b.Tree:
    """Return the digits Spark shows for a double, and the power of ten they are multiplied by."""

    def parts(text: b.Tree) -> b.Tree:
        mantissa = b.call("substring_index", text, b.string("E"), _ONE)
        marked = b.infix(exp.GT, b.call("instr", text, b.string("E")), _ZERO)
        power = b.cast(b.call("substring_index", text, b.string("E"), b.integer(-1)), "INT")
        exponent = b.case((marked, power), otherwise=_ZERO)
        places = _minus(b.call("length", mantissa), b.call("instr", mantissa, b.string(".")))
        digits = _trimmed(b.call("replace", mantissa, b.string("."), b.string("")), "LEADING")
        return b.struct(digits=digits, exponent=_minus(exponent, places))

    def without_zeros(shown: b.Tree) -> b.Tree:
        digits = _trimmed(b.field(shown, "digits"), "TRAILING")
        dropped = _minus(b.call("length", b.field(shown, "digits")), b.call("length", digits))
        return b.struct(digits=digits, exponent=_plus(b.field(shown, "exponent"), dropped))

    text = b.cast(magnitude, "STRING")
    return b.let([b.let([text], parts)], without_zeros)


def _product_error(left: b.Tree, right: b.Tree, product: b.Tree) -> b.Tree:
    """Return by how much a product of doubles falls short of the true one (Dekker)."""

    def halves(value: b.Tree) -> b.Tree:
        scaled = _times(_SPLITTER, value)
        high = _minus(scaled, b.group(_minus(scaled, value)))
        return b.struct(high=high, low=_minus(value, b.group(high)))

    def error(one: b.Tree, other: b.Tree) -> b.Tree:
        high1, low1 = b.field(one, "high"), b.field(one, "low")
        high2, low2 = b.field(other, "high"), b.field(other, "low")
        rest = _minus(_times(high1, high2), product)
        return _plus(
            _plus(_plus(rest, _times(high1, low2)), _times(low1, high2)), _times(low1, low2)
        )

    return b.let([halves(left), halves(right)], error)


def _distance(number: b.Tree, middle: b.Tree) -> b.Tree:
    """Return ``number - middle`` of a double and a BIGINT that are close, without error."""
    whole = b.cast(number, "BIGINT")
    fraction = _minus(number, b.cast(whole, "DOUBLE"))
    return _plus(b.cast(_minus(whole, middle), "DOUBLE"), fraction)


def _above_middle(magnitude: b.Tree, kept: b.Tree, shift: b.Tree) -> b.Tree:
    """Return ``magnitude * 10**shift - (kept * 10 + 5)``, of the right sign.

    The product with a power of ten may be rounded; what it lost is added. Doubles beyond 10**16,
    whose shift is negative, are whole, and the middle is multiplied instead.
    """
    middle = _plus(_times(kept, b.bigint(10)), b.bigint(5))

    def scaled(power: b.Tree) -> b.Tree:
        return b.let(
            [_times(magnitude, power)],
            lambda product: _plus(
                _distance(product, middle), _product_error(magnitude, power, product)
            ),
        )

    def power(exponent: b.Tree, spark_type: str) -> b.Tree:
        return b.cast(b.call("concat", b.string("1e"), b.cast(exponent, "STRING")), spark_type)

    factor = b.cast(power(b.negate(shift), WHOLE), "BIGINT")
    inside = exp.Between(this=b.group(shift), low=_ZERO, high=b.integer(_LARGEST_POWER))
    whole = b.both(
        b.infix(exp.LT, shift, _ZERO), b.infix(exp.LT, magnitude, float_literal(_LARGEST_WHOLE))
    )
    return b.case(
        (inside, b.let([power(shift, "DOUBLE")], scaled)),
        (whole, _distance(magnitude, _times(middle, factor))),
        otherwise=_unfit(),
    )


def _rounds_up(magnitude: b.Tree, kept: b.Tree, shift: b.Tree) -> b.Tree:
    """Tell whether a double is nearer to the next number than to ``kept``; a tie goes to even."""

    def decided(difference: b.Tree) -> b.Tree:
        zero = float_literal(0.0)
        odd = b.infix(exp.EQ, b.infix(exp.Mod, kept, b.bigint(2)), b.bigint(1))
        tie = b.both(b.infix(exp.EQ, difference, zero), odd)
        return b.either(b.infix(exp.GT, difference, zero), tie)

    return b.let([_above_middle(magnitude, kept, shift)], decided)


def _rounded(magnitude: b.Tree, digits: int) -> b.Tree:
    """Return digits and power of ten of a positive double, rounded to a number of digits."""

    def body(shown: b.Tree) -> b.Tree:
        text, exponent = b.field(shown, "digits"), b.field(shown, "exponent")
        length = b.call("length", text)
        kept = b.cast(b.call("left", text, b.integer(digits)), "BIGINT")
        power = _plus(exponent, _minus(length, b.integer(digits)))
        up = _rounds_up(magnitude, kept, _minus(_ONE, power))
        larger = b.case((up, _plus(kept, b.bigint(1))), otherwise=kept)
        return b.case(
            (
                b.infix(exp.LTE, length, b.integer(digits)),
                b.struct(digits=text, exponent=exponent),
            ),
            otherwise=b.struct(digits=b.cast(larger, "STRING"), exponent=power),
        )

    return b.let([_shown(magnitude)], body)


def _to_numeric(call: Call) -> Value:
    digits = _DIGITS[call.args[0].type_oid]

    def pair(value: b.Tree) -> b.Tree:
        def number(rounded: b.Tree) -> b.Tree:
            text = _trimmed(b.field(rounded, "digits"), "TRAILING")
            dropped = _minus(b.call("length", b.field(rounded, "digits")), b.call("length", text))

            def placed(significant: b.Tree, power: b.Tree) -> b.Tree:
                whole = scaled_up(b.cast(significant, WHOLE), b.call("greatest", power, _ZERO))
                negative = b.infix(exp.LT, value, float_literal(0.0))
                signed = b.case((negative, b.negate(whole)), otherwise=whole)
                scale = b.call("greatest", b.negate(power), _ZERO)
                return b.struct(value=b.cast(signed, WHOLE), scale=scale)

            return b.let([text, _plus(b.field(rounded, "exponent"), dropped)], placed)

        magnitude = b.call("abs", value)
        infinite = b.infix(exp.EQ, magnitude, float_literal(float("inf")))
        # Fewer digits than are asked for tell these from their neighbours.
        subnormal = b.infix(exp.LT, magnitude, float_literal(_SMALLEST_NORMAL))
        nothing = b.struct(value=b.null_of(WHOLE), scale=_ZERO)
        zero = b.struct(value=b.cast(_ZERO, WHOLE), scale=_ZERO)
        return b.case(
            (b.is_null(value), nothing),
            (b.infix(exp.EQ, value, float_literal(0.0)), zero),
            (b.either(b.call("isnan", value), infinite, subnormal), _unfit()),
            otherwise=b.let([_rounded(magnitude, digits)], number),
        )

    tree = b.let([b.cast(call.trees[0], "DOUBLE")], pair)
    return floating(b.field(tree, "value"), b.field(tree, "scale"))


FUNCTIONS: Final[dict[str, Handler]] = {
    "float4_numeric": _to_numeric,
    "float8_numeric": _to_numeric,
}
