"""Arithmetic and mathematics on real and double precision with PostgreSQL's checks (float.c)."""

import math
from collections.abc import Callable
from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import Call, Handler
from rewrite.dialect.literals import float_literal
from rewrite.values import Value

SPARK_TYPES: Final[dict[int, str]] = {oids.FLOAT4: "FLOAT", oids.FLOAT8: "DOUBLE"}

INFINITY: Final = float_literal(math.inf)
ZERO: Final = float_literal(0.0)
NAN: Final = float_literal(math.nan)
RADIANS_PER_DEGREE: Final = float_literal(0.0174532925199432957692)

OVERFLOW: Final = b.raise_error(sqlstate.NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
UNDERFLOW: Final = b.raise_error(
    sqlstate.NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow"
)
DIVISION_BY_ZERO: Final = b.raise_error(sqlstate.DIVISION_BY_ZERO, "division by zero")


def is_infinite(value: b.Tree) -> b.Tree:
    """Return whether a float is infinite."""
    return b.infix(exp.EQ, b.call("abs", value), INFINITY)


def is_nan(value: b.Tree) -> b.Tree:
    """Return whether a float is NaN."""
    return b.call("isnan", value)


def is_zero(value: b.Tree) -> b.Tree:
    """Return whether a float is zero of either sign."""
    return b.infix(exp.EQ, value, ZERO)


def is_minus_zero(value: b.Tree) -> b.Tree:
    """Return whether a float is zero with a minus sign, which equals zero."""
    inverse = b.call("power", value, float_literal(-1.0))
    return b.both(is_zero(value), b.infix(exp.LT, inverse, ZERO))


def _widened(call: Call) -> tuple[b.Tree, b.Tree]:
    """Return both operands in the type of the result."""
    spark_type = SPARK_TYPES[call.result_oid]
    left, right = (
        value.sql if value.type_oid == call.result_oid else b.cast(value.sql, spark_type)
        for value in call.args
    )
    return left, right


def _arithmetic(operator: type[exp.Binary], *, underflow: bool) -> Handler:
    def handle(call: Call) -> Value:
        def compute(left: b.Tree, right: b.Tree) -> b.Tree:
            result = b.infix(operator, left, right)
            finite = [b.negation(is_infinite(left)), b.negation(is_infinite(right))]
            failures = [(b.both(is_infinite(result), *finite), OVERFLOW)]
            if underflow:
                nonzero = [b.negation(is_zero(left)), b.negation(is_zero(right))]
                failures.append((b.both(is_zero(result), *nonzero), UNDERFLOW))
            return b.checked(result, *failures)

        return call.result(b.let(_widened(call), compute))

    return handle


def _divide(call: Call) -> Value:
    def compute(left: b.Tree, right: b.Tree) -> b.Tree:
        spark_type = SPARK_TYPES[call.result_oid]
        # Spark gives DOUBLE and refuses every zero divisor; PostgreSQL lets NaN / 0 pass.
        quotient = b.divide(left, right)
        if spark_type == "FLOAT":
            quotient = b.cast(quotient, "FLOAT")
        zero = is_zero(right)
        overflow = b.both(is_infinite(quotient), b.negation(is_infinite(left)), b.negation(zero))
        underflow = b.both(
            is_zero(quotient), b.negation(is_zero(left)), b.negation(is_infinite(right))
        )
        return b.case(
            (b.both(zero, is_nan(left)), b.cast(NAN, spark_type)),
            (b.both(zero, b.is_not_null(left)), DIVISION_BY_ZERO),
            (overflow, OVERFLOW),
            (underflow, UNDERFLOW),
            otherwise=quotient,
        )

    return call.result(b.let(_widened(call), compute))


def _unary(function: Callable[[b.Tree], b.Tree]) -> Handler:
    def handle(call: Call) -> Value:
        return call.result(function(call.trees[0]))

    return handle


def _checked(
    function: Callable[[b.Tree], b.Tree],
    domain: tuple[Callable[[b.Tree], b.Tree], str, str] | None = None,
) -> Handler:
    """Map a function of one double with an error outside its domain and on overflow."""

    def handle(call: Call) -> Value:
        def compute(value: b.Tree) -> b.Tree:
            result = function(value)
            failures = []
            if domain is not None:
                outside, state, message = domain
                failures.append((outside(value), b.raise_error(state, message)))
            failures.append((b.both(is_infinite(result), b.negation(is_infinite(value))), OVERFLOW))
            return b.checked(result, *failures)

        return call.result(b.let(call.trees, compute))

    return handle


def _truncate(value: b.Tree) -> b.Tree:
    def body(x: b.Tree) -> b.Tree:
        positive = b.infix(exp.GTE, x, ZERO)
        return b.case(
            (b.either(is_nan(x), is_infinite(x), is_zero(x)), x),
            (positive, floor_double(x)),
            otherwise=b.negate(floor_double(b.negate(x))),
        )

    return b.let([value], body)


def floor_double(value: b.Tree) -> b.Tree:
    """Return the largest whole double not above a double; Spark's FLOOR makes a BIGINT."""

    def body(x: b.Tree) -> b.Tree:
        nearest = b.call("rint", x)
        return b.case(
            (b.infix(exp.GT, nearest, x), b.infix(exp.Sub, nearest, float_literal(1.0))),
            otherwise=nearest,
        )

    return b.let([value], body)


def _ceiling(value: b.Tree) -> b.Tree:
    def body(x: b.Tree) -> b.Tree:
        nearest = b.call("rint", x)
        return b.case(
            (b.infix(exp.LT, nearest, x), b.negate(floor_double(b.negate(x)))), otherwise=nearest
        )

    return b.let([value], body)


def _sign(value: b.Tree) -> b.Tree:
    return b.let(
        [value],
        lambda x: b.case((b.either(is_nan(x), is_zero(x)), ZERO), otherwise=b.call("sign", x)),
    )


def _power(call: Call) -> Value:
    def compute(base: b.Tree, exponent: b.Tree) -> b.Tree:
        zero_base = b.both(is_zero(base), b.infix(exp.LT, exponent, ZERO))
        complex_result = b.both(
            b.infix(exp.LT, base, ZERO),
            b.negation(is_infinite(exponent)),
            b.negation(is_nan(exponent)),
            b.infix(exp.NEQ, b.call("rint", exponent), exponent),
        )
        result = b.call("power", base, exponent)
        finite = [b.negation(is_infinite(base)), b.negation(is_infinite(exponent))]
        one = float_literal(1.0)
        return b.case(
            # Java gives NaN for 1 ^ NaN and 1 ^ infinity, C gives 1.
            (b.both(b.infix(exp.EQ, base, one), b.is_not_null(exponent)), one),
            (b.both(b.infix(exp.EQ, base, float_literal(-1.0)), is_infinite(exponent)), one),
            (zero_base, b.raise_error("2201F", "zero raised to a negative power is undefined")),
            (
                complex_result,
                b.raise_error(
                    "2201F",
                    "a negative number raised to a non-integer power yields a complex result",
                ),
            ),
            (b.both(is_infinite(result), *finite), OVERFLOW),
            (b.both(is_zero(result), b.negation(is_zero(base)), *finite), UNDERFLOW),
            otherwise=result,
        )

    return call.result(b.let(call.trees, compute))


def _arctangent(call: Call) -> Value:
    """Map atan2; Spark's takes minus zero for zero, where it tells the half-planes apart."""

    def compute(y: b.Tree, x: b.Tree) -> b.Tree:
        behind = b.either(b.infix(exp.LT, x, ZERO), is_minus_zero(x))
        above = b.case((behind, float_literal(math.pi)), otherwise=ZERO)
        below = b.case((behind, float_literal(-math.pi)), otherwise=float_literal(-0.0))
        flat = b.both(is_zero(y), b.is_not_null(x), b.negation(is_nan(x)))
        return b.case(
            (b.both(flat, is_minus_zero(y)), below),
            (flat, above),
            otherwise=b.call("atan2", y, x),
        )

    return call.result(b.let(call.trees, compute))


def _negative(value: b.Tree) -> b.Tree:
    return b.infix(exp.LT, value, ZERO)


def _logarithm(function: str) -> Handler:
    def handle(call: Call) -> Value:
        def compute(value: b.Tree) -> b.Tree:
            return b.checked(
                b.call(function, value),
                (is_zero(value), b.raise_error("2201E", "cannot take logarithm of zero")),
                (
                    _negative(value),
                    b.raise_error("2201E", "cannot take logarithm of a negative number"),
                ),
                (is_nan(value), NAN),
            )

        return call.result(b.let(call.trees, compute))

    return handle


def _exponential(call: Call) -> Value:
    def compute(value: b.Tree) -> b.Tree:
        result = b.call("exp", value)
        finite = b.negation(is_infinite(value))
        return b.checked(
            result,
            (b.both(is_infinite(result), finite), OVERFLOW),
            (b.both(is_zero(result), finite), UNDERFLOW),
        )

    return call.result(b.let(call.trees, compute))


def _trigonometric(function: str) -> Handler:
    """Map a function that has no value at infinity."""
    outside = b.raise_error(sqlstate.NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")

    def handle(call: Call) -> Value:
        def compute(value: b.Tree) -> b.Tree:
            return b.checked(b.call(function, value), (is_infinite(value), outside))

        return call.result(b.let(call.trees, compute))

    return handle


def _inverse(function: str) -> Handler:
    """Map asin and acos, which have values from -1 to 1 only."""
    outside = b.raise_error(sqlstate.NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")

    def handle(call: Call) -> Value:
        def compute(value: b.Tree) -> b.Tree:
            beyond = b.infix(exp.GT, b.call("abs", value), float_literal(1.0))
            return b.checked(
                b.call(function, value), (b.both(beyond, b.negation(is_nan(value))), outside)
            )

        return call.result(b.let(call.trees, compute))

    return handle


_NO_ROOT: Final = (_negative, "2201F", "cannot take square root of a negative number")


def _radians(call: Call) -> Value:
    def compute(value: b.Tree) -> b.Tree:
        result = b.call("radians", value)
        return b.checked(result, (b.both(is_zero(result), b.negation(is_zero(value))), UNDERFLOW))

    return call.result(b.let(call.trees, compute))


FUNCTIONS: Final[dict[str, Handler]] = {
    **{
        f"{family}{name}": handler
        for family in ("float4", "float8", "float48", "float84")
        for name, handler in (
            ("pl", _arithmetic(exp.Add, underflow=False)),
            ("mi", _arithmetic(exp.Sub, underflow=False)),
            ("mul", _arithmetic(exp.Mul, underflow=True)),
            ("div", _divide),
        )
    },
    **{
        f"{family}{name}": handler
        for family in ("float4", "float8")
        for name, handler in (
            ("um", _unary(b.negate)),
            ("up", _unary(lambda value: value)),
            ("abs", _unary(lambda value: b.call("abs", value))),
        )
    },
    "dround": _unary(lambda value: b.call("rint", value)),
    "dtrunc": _unary(_truncate),
    "dfloor": _unary(floor_double),
    "dceil": _unary(_ceiling),
    "dsign": _unary(_sign),
    "dsqrt": _checked(lambda value: b.call("sqrt", value), _NO_ROOT),
    "dpow": _power,
    "dexp": _exponential,
    "dlog1": _logarithm("ln"),
    "dlog10": _logarithm("log10"),
    "dcbrt": _unary(lambda value: b.call("cbrt", value)),
    "dsin": _trigonometric("sin"),
    "dcos": _trigonometric("cos"),
    "dtan": _trigonometric("tan"),
    "dasin": _inverse("asin"),
    "dacos": _inverse("acos"),
    "datan": _unary(lambda value: b.call("atan", value)),
    "datan2": _arctangent,
    # Java's degrees() multiplies, which differs in the last digit.
    "degrees": _checked(lambda value: b.infix(exp.Div, value, RADIANS_PER_DEGREE)),
    "radians": _radians,
    "dpi": lambda call: call.result(float_literal(math.pi)),
}
