"""Variance, correlation and linear regression of double precision.

PostgreSQL adds deviations from the mean (float.c, after Youngs and Cramer), as Spark does. Their
last digits depend on the order of the rows in both.
"""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.aggregates import Aggregation, Handler
from rewrite.dialect.float_aggregates import without_overflow
from rewrite.values import Value

_ZERO: Final = b.double(0.0)
_ONE: Final = b.double(1.0)


def _of_one(function: str) -> Handler:
    def handle(call: Aggregation) -> Value:
        if call.distinct:
            raise call.refuse("of DISTINCT values")
        argument = call.args[0]
        if argument.type_oid == oids.FLOAT4:
            return call.result(call.spark(function, b.cast(argument.sql, "DOUBLE")))
        value = argument.sql
        return call.result(without_overflow(call, [value], call.spark(function, value)))

    return handle


class _Pairs:
    """What is summed of the pairs of which neither value is NULL."""

    def __init__(self, call: Aggregation) -> None:
        if call.distinct:
            raise call.refuse("of DISTINCT values")
        self._call = call
        self._values = [value.sql for value in call.args]

    def spark(self, name: str) -> b.Tree:
        """Return a Spark aggregate of the pairs."""
        return self._call.spark(name, *self._values)

    def total(self, place: int) -> b.Tree:
        """Return the sum of the values at a place."""
        present = b.both(*(b.is_not_null(value) for value in self._values))
        return self._call.spark("sum", b.case((present, self._values[place])))

    @property
    def count(self) -> b.Tree:
        """The number of pairs; NULL of none."""
        return b.call("nullif", b.cast(self.spark("regr_count"), "DOUBLE"), _ZERO)

    def result(self, parts: list[b.Tree], body: Callable[..., b.Tree]) -> Value:
        """Return the result of the call; fails where something in it may have overflowed."""
        found = b.let(parts, body)
        return self._call.result(without_overflow(self._call, self._values, found))


def _quotient(dividend: b.Tree, divisor: b.Tree) -> b.Tree:
    """Return a quotient; NULL for a zero divisor."""
    return b.case((b.infix(exp.NEQ, divisor, _ZERO), b.divide(dividend, divisor)))


def _count(call: Aggregation) -> Value:
    return call.result(_Pairs(call).spark("regr_count"))


def _same(name: str) -> Handler:
    """Return the handler of an aggregate that Spark has under its name; NULL of no pairs."""

    def handle(call: Aggregation) -> Value:
        pairs = _Pairs(call)
        some = [pairs.count, pairs.spark(name)]
        return pairs.result(some, lambda n, found: b.case((b.is_not_null(n), found)))

    return handle


def _covariance(fewer: float) -> Handler:
    def handle(call: Aggregation) -> Value:
        pairs = _Pairs(call)
        parts = [pairs.count, pairs.spark("regr_sxy")]
        return pairs.result(
            parts, lambda n, sxy: _quotient(sxy, b.infix(exp.Sub, n, b.double(fewer)))
        )

    return handle


def _correlation(call: Aggregation) -> Value:
    pairs = _Pairs(call)

    def body(sxx: b.Tree, syy: b.Tree, sxy: b.Tree) -> b.Tree:
        vary = b.both(b.infix(exp.NEQ, sxx, _ZERO), b.infix(exp.NEQ, syy, _ZERO))
        return b.case((vary, _quotient(sxy, b.call("sqrt", b.infix(exp.Mul, sxx, syy)))))

    return pairs.result([pairs.spark(name) for name in ("regr_sxx", "regr_syy", "regr_sxy")], body)


def _determination(call: Aggregation) -> Value:
    pairs = _Pairs(call)

    def body(sxx: b.Tree, syy: b.Tree, sxy: b.Tree) -> b.Tree:
        explained = _quotient(b.infix(exp.Mul, sxy, sxy), b.infix(exp.Mul, sxx, syy))
        varies = b.infix(exp.NEQ, sxx, _ZERO)
        constant = b.both(varies, b.infix(exp.EQ, syy, _ZERO))
        return b.case((constant, _ONE), (varies, explained))

    return pairs.result([pairs.spark(name) for name in ("regr_sxx", "regr_syy", "regr_sxy")], body)


def _slope(call: Aggregation) -> Value:
    pairs = _Pairs(call)
    return pairs.result([pairs.spark("regr_sxy"), pairs.spark("regr_sxx")], _quotient)


def _intercept(call: Aggregation) -> Value:
    pairs = _Pairs(call)
    parts = [pairs.count, pairs.total(0), pairs.total(1)]
    parts += [pairs.spark("regr_sxx"), pairs.spark("regr_sxy")]

    def body(n: b.Tree, sy: b.Tree, sx: b.Tree, sxx: b.Tree, sxy: b.Tree) -> b.Tree:
        explained = b.infix(exp.Mul, sx, b.divide(sxy, sxx))
        found = b.divide(b.infix(exp.Sub, sy, explained), n)
        return b.case((b.infix(exp.NEQ, sxx, _ZERO), found))

    return pairs.result(parts, body)


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
            **{f"regr_{one}": _same(f"regr_{one}") for one in ("sxx", "syy", "sxy")},
            **{f"regr_{one}": _same(f"regr_{one}") for one in ("avgx", "avgy")},
            "covar_pop": _covariance(0.0),
            "covar_samp": _covariance(1.0),
            "corr": _correlation,
            "regr_r2": _determination,
            "regr_slope": _slope,
            "regr_intercept": _intercept,
        }.items()
    },
}
