"""Variance, correlation and linear regression of double precision.

PostgreSQL adds deviations from the mean (float.c, after Youngs and Cramer), as Spark does. Their
last digits depend on the order of the rows in both.
"""

import math
from collections.abc import Callable
from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.aggregates import Aggregation, Handler
from rewrite.dialect.float_aggregates import magnitude, overflow, without_overflow
from rewrite.dialect.floats import is_nan
from rewrite.dialect.literals import float_literal
from rewrite.values import Value

_ZERO: Final = b.double(0.0)
_ONE: Final = b.double(1.0)
_MOST_DEVIATIONS: Final = 1e6
"""How many standard deviations values may be in magnitude: a millionth costs six digits of 16."""
_NAN: Final = float_literal(math.nan)


def _values(call: Aggregation) -> list[b.Tree]:
    """Return the arguments as doubles."""
    if call.distinct:
        raise call.refuse("of DISTINCT values")
    if call.order_by:
        raise call.refuse("with ORDER BY")
    return [
        b.cast(value.sql, "DOUBLE") if value.type_oid == oids.FLOAT4 else value.sql
        for value in call.args
    ]


def _checked(call: Aggregation, values: list[b.Tree], found: b.Tree) -> b.Tree:
    """Return what is found by deviations, unless these may have overflowed, or have few digits."""
    parts = [found]
    for value in values:
        parts += [*magnitude(call, value), call.spark("var_pop", value)]

    def body(found: b.Tree, *parts: b.Tree) -> b.Tree:
        triples = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
        failures = [
            failure
            for largest, count, variance in triples
            for failure in (overflow(call, largest, count), _imprecise(call, largest, variance))
        ]
        return b.checked(found, *failures)

    return b.let(parts, body)


def _imprecise(call: Aggregation, largest: b.Tree, variance: b.Tree) -> tuple[b.Tree, b.Tree]:
    """Return whether values lie too closely together for their magnitude, and the error for that.

    The mean, from which Spark measures deviations, is a double.
    """
    bound = _times(b.double(_MOST_DEVIATIONS**2), variance)
    far = b.infix(exp.GT, _times(largest, largest), bound)
    refusal = b.raise_error(
        sqlstate.FEATURE_NOT_SUPPORTED,
        f"{call.signature} of floating-point values that lie so closely together is not supported",
    )
    return b.both(b.infix(exp.GT, variance, _ZERO), far), refusal


def _of_one(function: str) -> Handler:
    def handle(call: Aggregation) -> Value:
        values = _values(call)
        return call.result(_checked(call, values, call.spark(function, *values)))

    return handle


class _Pairs:
    """What is summed of the pairs of which neither value is NULL, by names as in float.c."""

    def __init__(self, call: Aggregation) -> None:
        self._call = call
        self._values = _values(call)
        present = b.both(*(b.is_not_null(value) for value in self._values))
        self._paired = [b.case((present, value)) for value in self._values]

    def spark(self, name: str) -> b.Tree:
        """Return a Spark aggregate of the pairs."""
        return self._call.spark(name, *self._values)

    def total(self, place: int) -> b.Tree:
        """Return the sum of the values at a place."""
        return self._call.spark("sum", self._paired[place])

    @property
    def count(self) -> b.Tree:
        """The number of pairs; NULL of none."""
        return b.call("nullif", b.cast(self.spark("regr_count"), "DOUBLE"), _ZERO)

    @property
    def sums(self) -> list[b.Tree]:
        """The sums of squares of both, and of products, of their deviations from their means."""
        return [self.spark(name) for name in ("regr_sxx", "regr_syy", "regr_sxy")]

    def mean(self, found: b.Tree) -> Value:
        """Return what is found of the pairs without their deviations; NULL of none."""
        some = b.let([self.count, found], lambda n, found: b.case((b.is_not_null(n), found)))
        return self._call.result(without_overflow(self._call, self._paired, some))

    def result(self, parts: list[b.Tree], body: Callable[..., b.Tree]) -> Value:
        """Return what is found by the deviations of the values in pairs."""
        return self._call.result(_checked(self._call, self._paired, b.let(parts, body)))


def _products(sxx: b.Tree, syy: b.Tree, sxy: b.Tree) -> b.Tree:
    """Return the sum of products, which Spark finds infinite where one value is."""
    return b.case((b.either(is_nan(sxx), is_nan(syy)), _NAN), otherwise=sxy)


def _quotient(dividend: b.Tree, divisor: b.Tree) -> b.Tree:
    """Return a quotient; NULL for a zero divisor."""
    return b.case((b.infix(exp.NEQ, divisor, _ZERO), b.divide(dividend, divisor)))


def _times(left: b.Tree, right: b.Tree) -> b.Tree:
    return b.infix(exp.Mul, left, right)


def _count(call: Aggregation) -> Value:
    return call.result(_Pairs(call).spark("regr_count"))


def _mean(name: str) -> Handler:
    def handle(call: Aggregation) -> Value:
        pairs = _Pairs(call)
        return pairs.mean(pairs.spark(name))

    return handle


def _sum_of_squares(name: str) -> Handler:
    def handle(call: Aggregation) -> Value:
        pairs = _Pairs(call)
        some = [pairs.count, pairs.spark(name)]
        return pairs.result(some, lambda n, found: b.case((b.is_not_null(n), found)))

    return handle


def _sum_of_products(call: Aggregation) -> Value:
    pairs = _Pairs(call)

    def body(n: b.Tree, *sums: b.Tree) -> b.Tree:
        return b.case((b.is_not_null(n), _products(*sums)))

    return pairs.result([pairs.count, *pairs.sums], body)


def _covariance(fewer: float) -> Handler:
    def handle(call: Aggregation) -> Value:
        pairs = _Pairs(call)

        def body(n: b.Tree, *sums: b.Tree) -> b.Tree:
            return _quotient(_products(*sums), b.infix(exp.Sub, n, b.double(fewer)))

        return pairs.result([pairs.count, *pairs.sums], body)

    return handle


def _of_varying(sxx: b.Tree, syy: b.Tree, found: Callable[[b.Tree], b.Tree]) -> b.Tree:
    """Return what is found by the product of two sums, NULL where one is zero.

    Where the product alone is, PostgreSQL divides by zero, which is no error in C.
    """
    vary = b.both(b.infix(exp.NEQ, sxx, _ZERO), b.infix(exp.NEQ, syy, _ZERO))
    tiny = b.raise_error(
        sqlstate.FEATURE_NOT_SUPPORTED,
        "correlation of values whose deviations are this small is not supported",
    )

    def checked(product: b.Tree) -> b.Tree:
        zero = b.infix(exp.EQ, product, _ZERO)
        return b.case((b.both(vary, zero), tiny), (vary, found(product)))

    return b.let([_times(sxx, syy)], checked)


def _correlation(call: Aggregation) -> Value:
    pairs = _Pairs(call)

    def body(sxx: b.Tree, syy: b.Tree, sxy: b.Tree) -> b.Tree:
        return _of_varying(sxx, syy, lambda product: b.divide(sxy, b.call("sqrt", product)))

    return pairs.result(pairs.sums, body)


def _determination(call: Aggregation) -> Value:
    pairs = _Pairs(call)

    def body(sxx: b.Tree, syy: b.Tree, sxy: b.Tree) -> b.Tree:
        explained = _of_varying(sxx, syy, lambda product: b.divide(_times(sxy, sxy), product))
        constant = b.both(b.infix(exp.NEQ, sxx, _ZERO), b.infix(exp.EQ, syy, _ZERO))
        return b.case((constant, _ONE), otherwise=explained)

    return pairs.result(pairs.sums, body)


def _slope(call: Aggregation) -> Value:
    pairs = _Pairs(call)
    return pairs.result(pairs.sums, lambda *sums: _quotient(_products(*sums), sums[0]))


def _intercept(call: Aggregation) -> Value:
    pairs = _Pairs(call)

    def body(n: b.Tree, sy: b.Tree, sx: b.Tree, *sums: b.Tree) -> b.Tree:
        sxx = sums[0]
        explained = b.divide(_times(sx, _products(*sums)), sxx)
        found = b.divide(b.infix(exp.Sub, sy, explained), n)
        return b.case((b.infix(exp.NEQ, sxx, _ZERO), found))

    return pairs.result([pairs.count, pairs.total(0), pairs.total(1), *pairs.sums], body)


_SPARK_NAMES: Final = {
    "var_pop": "var_pop",
    "var_samp": "var_samp",
    "variance": "var_samp",
    "stddev_pop": "stddev_pop",
    "stddev_samp": "stddev_samp",
    "stddev": "stddev_samp",
}

FUNCTIONS: Final[dict[str, Handler]] = {
    **{
        f"{name}({type_})": _of_one(function)
        for name, function in _SPARK_NAMES.items()
        for type_ in ("float4", "float8")
    },
    **{
        f"{name}(float8,float8)": handler
        for name, handler in {
            "regr_count": _count,
            **{name: _mean(name) for name in ("regr_avgx", "regr_avgy")},
            **{name: _sum_of_squares(name) for name in ("regr_sxx", "regr_syy")},
            "regr_sxy": _sum_of_products,
            "covar_pop": _covariance(0.0),
            "covar_samp": _covariance(1.0),
            "corr": _correlation,
            "regr_r2": _determination,
            "regr_slope": _slope,
            "regr_intercept": _intercept,
        }.items()
    },
}
