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
        found = _interpolated(values, float_literal(fraction))
        return b.case((_is_empty(values), b.null_of("DOUBLE")), otherwise=found)

    return call.result(b.let([_sorted(call, call.args[0])], place))


def _several_continuous(call: Aggregation) -> Value:
    """Map ``percentile_cont`` of an array of fractions: an array of what each of them gives."""
    fractions = call.direct_args[0].sql

    def each(values: b.Tree) -> b.Tree:
        def one(name: str) -> b.Tree:
            fraction = b.variable(name)
            return b.case((b.is_not_null(fraction), _checked(values, fraction)))

        found = b.fresh_variable(
            lambda name: b.call("transform", fractions, b.lambda_function(one(name), name))
        )
        nothing = b.null_of("ARRAY<DOUBLE>")
        return b.case((_is_empty(values), nothing), otherwise=found)

    return call.result(b.let([_sorted(call, call.args[0])], each))


def _checked(values: b.Tree, fraction: b.Tree) -> b.Tree:
    """Return an interpolated value; fails for a fraction that is none."""
    written = b.call("regexp_replace", b.cast(fraction, "STRING"), b.string("[.]0$"), b.string(""))
    told = b.call(
        "concat", b.string("percentile value "), written, b.string(" is not between 0 and 1")
    )
    inside = exp.Between(this=fraction, low=float_literal(0.0), high=float_literal(1.0))
    return b.checked(
        _interpolated(values, fraction), (b.negation(inside), b.raise_error("22003", told))
    )


def _interpolated(values: b.Tree, fraction: b.Tree) -> b.Tree:
    """Return what lies at a fraction of the way from the first of some values to the last."""
    count = b.cast(b.call("size", values), "DOUBLE")
    rank = b.infix(exp.Mul, fraction, b.infix(exp.Sub, count, float_literal(1.0)))

    def between(rank: b.Tree) -> b.Tree:
        first = b.cast(b.call("floor", rank), "INT")
        second = b.cast(b.call("ceil", rank), "INT")
        low = _position(values, b.infix(exp.Add, first, b.integer(1)))
        high = _position(values, b.infix(exp.Add, second, b.integer(1)))
        share = b.infix(exp.Sub, rank, b.cast(first, "DOUBLE"))
        risen = b.infix(exp.Mul, share, b.group(b.infix(exp.Sub, high, low)))
        same = b.infix(exp.EQ, first, second)
        return b.case((same, low), otherwise=b.infix(exp.Add, low, risen))

    return b.let([rank], between)


def _is_empty(values: b.Tree) -> b.Tree:
    return b.infix(exp.EQ, b.call("size", values), b.integer(0))


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
        return b.case((_is_empty(values), b.NULL), otherwise=_position(values, first))

    sql = b.let([_sorted(call, value)], place)
    return Value(sql, value.type_oid, value.typmod, value.scale, value.decimal)


FUNCTIONS: Final[dict[str, Handler]] = {
    "percentile_cont(float8,float8)": _continuous,
    "percentile_cont(_float8,float8)": _several_continuous,
    "percentile_disc(float8,anyelement)": _discrete,
}
