"""Ordered-set aggregates: percentiles of the sorted values of a group."""

from dataclasses import replace
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect.aggregates import Aggregation, Handler, collected
from rewrite.dialect.calls import is_null_constant
from rewrite.dialect.literals import float_literal, typed_null
from rewrite.dialect.numerics import settled
from rewrite.values import Value


def _fraction(call: Aggregation) -> float | None:
    """Return the fraction, which has to be known; None for NULL."""
    direct = call.direct_args[0]
    if is_null_constant(direct):
        return None
    if direct.constant is None or not isinstance(direct.constant.value, float):
        raise call.refuse("of a fraction that is not a constant")
    return direct.constant.value


def _outside(fraction: float) -> b.Tree:
    """Return what fails once for each group."""
    error = b.raise_error("22003", f"percentile value {fraction:g} is not between 0 and 1")
    never = b.infix(exp.LT, b.call("count", b.integer(1)), b.integer(0))
    return b.case((never, b.null_of("DOUBLE")), otherwise=b.cast(error, "DOUBLE"))


def _null(call: Aggregation) -> Value:
    """Return NULL for each group."""
    value = typed_null(call.result_oid)
    return replace(value, sql=b.call("max", value.sql))


def _sorted(call: Aggregation, value: Value) -> b.Tree:
    return collected(call, value.sql, b.is_not_null(value.sql))


def _position(values: b.Tree, index: b.Tree) -> b.Tree:
    return b.call("element_at", values, index)


def _continuous(call: Aggregation) -> Value:
    """Map ``percentile_cont``, which interpolates between neighbours as orderedsetaggs.c does."""
    fraction = _fraction(call)
    if fraction is None:
        return _null(call)
    if not 0 <= fraction <= 1:
        return call.result(_outside(fraction))

    def place(values: b.Tree) -> b.Tree:
        count = b.cast(b.call("size", values), "DOUBLE")
        steps = b.infix(exp.Sub, count, float_literal(1.0))
        rank = b.infix(exp.Mul, float_literal(fraction), steps)

        def between(rank: b.Tree) -> b.Tree:
            first = b.cast(b.call("floor", rank), "INT")
            second = b.cast(b.call("ceil", rank), "INT")
            low = _position(values, b.infix(exp.Add, first, b.integer(1)))
            high = _position(values, b.infix(exp.Add, second, b.integer(1)))
            share = b.infix(exp.Sub, rank, b.cast(first, "DOUBLE"))
            risen = b.infix(exp.Mul, share, b.group(b.infix(exp.Sub, high, low)))
            same = b.infix(exp.EQ, first, second)
            return b.case((same, low), otherwise=b.infix(exp.Add, low, risen))

        empty = b.infix(exp.EQ, b.call("size", values), b.integer(0))
        return b.case((empty, b.null_of("DOUBLE")), otherwise=b.let([rank], between))

    return call.result(b.let([_sorted(call, call.args[0])], place))


def _discrete(call: Aggregation) -> Value:
    """Map ``percentile_disc``: the first value whose place is not before the fraction."""
    fraction = _fraction(call)
    value = settled(call.args[0])
    if fraction is None:
        return _null(call)
    if not 0 <= fraction <= 1:
        raise call.refuse("of a fraction that is not between 0 and 1")

    def place(values: b.Tree) -> b.Tree:
        count = b.cast(b.call("size", values), "DOUBLE")
        row = b.cast(b.call("ceil", b.infix(exp.Mul, float_literal(fraction), count)), "INT")
        first = b.call("greatest", row, b.integer(1))
        empty = b.infix(exp.EQ, b.call("size", values), b.integer(0))
        return b.case((empty, b.NULL), otherwise=_position(values, first))

    sql = b.let([_sorted(call, value)], place)
    return Value(sql, value.type_oid, value.typmod, value.scale, value.decimal)


FUNCTIONS: Final[dict[str, Handler]] = {
    "percentile_cont(float8,float8)": _continuous,
    "percentile_disc(float8,anyelement)": _discrete,
}
