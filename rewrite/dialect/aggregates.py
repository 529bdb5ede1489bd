"""Aggregate functions, as aggregates of groups and over windows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.arrays import text_of
from rewrite.dialect.bindings import bind
from rewrite.dialect.calls import is_null_constant, known_text
from rewrite.dialect.comparisons import equality_key, ordering_key
from rewrite.dialect.intervals import quotient as interval_quotient
from rewrite.dialect.intervals import within_range
from rewrite.dialect.numeric_division import divide
from rewrite.dialect.numeric_functions import INTEGER_DIGITS
from rewrite.dialect.numeric_quotients import plan, quotient
from rewrite.dialect.numerics import (
    WHOLE,
    as_fixed,
    as_floating,
    as_number,
    as_text,
    fixed,
    floating,
    is_fixed,
    scale_of,
    settled,
    shape_of,
    too_many_digits,
)
from rewrite.errors import UnsupportedError
from rewrite.values import DecimalShape, Value, WindowDefinition


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One call of an aggregate function."""

    signature: str
    args: tuple[Value, ...]
    result_oid: int
    result_typmod: int = -1
    distinct: bool = False
    order_by: tuple[exp.Ordered, ...] = ()
    """ORDER BY inside the call; its keys are not NULL-safe copies of the arguments."""
    condition: b.Tree | None = None
    """FILTER clause."""
    window: WindowDefinition | None = None
    """OVER clause."""
    direct_args: tuple[Value, ...] = ()
    """Arguments before WITHIN GROUP."""

    def spark(self, name: str, *arguments: b.Tree, distinct: bool | None = None) -> b.Tree:
        """Return a Spark aggregate with the call's DISTINCT, FILTER and OVER."""
        listed: list[b.Tree] = list(arguments)
        if self.distinct if distinct is None else distinct:
            listed = [exp.Distinct(expressions=listed)]
        return self.decorated(exp.Anonymous(this=name, expressions=listed))

    def decorated(self, aggregate: b.Tree) -> b.Tree:
        """Return a Spark aggregate with the call's FILTER and OVER."""
        if self.condition is not None:
            aggregate = exp.Filter(this=aggregate, expression=exp.Where(this=self.condition))
        return over(aggregate, self.window) if self.window is not None else aggregate

    def result(self, sql: b.Tree) -> Value:
        """Return a value of the call's result type."""
        return Value(sql, self.result_oid, self.result_typmod)

    def refuse(self, what: str) -> UnsupportedError:
        """Return the error for a form of the call that has no exact mapping."""
        return UnsupportedError(f"aggregate function {self.signature} {what} is not supported")


Handler: TypeAlias = Callable[[Aggregation], Value]


def over(function: b.Tree, window: WindowDefinition, *, frame: bool = True) -> b.Tree:
    """Return ``function OVER (window)``."""
    order = exp.Order(expressions=list(window.order_by)) if window.order_by else None
    return exp.Window(
        this=function,
        partition_by=list(window.partition_by),
        order=order,
        spec=window.frame if frame else None,
    )


def _count_all(call: Aggregation) -> Value:
    return call.result(call.spark("count", b.integer(1), distinct=False))


def _count(call: Aggregation) -> Value:
    value = call.args[0]
    counted = equality_key(value) if call.distinct else value.sql
    return call.result(call.spark("count", counted))


def _sum_integers(call: Aggregation) -> Value:
    value = call.args[0]
    if value.type_oid == oids.INT8:
        number = b.cast(value.sql, b.decimal_type(INTEGER_DIGITS[oids.INT8], 0))
        return fixed(call.spark("sum", number), INTEGER_DIGITS[oids.INT8] + 10, 0)
    return call.result(call.spark("sum", value.sql))


COUNT: Final = DecimalShape(15, 0)
"""What rows are counted in: nothing has 10**15, and a short divisor makes for a short division."""
_SHORT_CALL: Final = 30
"""Nodes of an argument up to which writing it twice is cheaper to plan than binding it."""
_ARITHMETIC: Final = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Cast, exp.DataType, exp.DataTypeParam),
    *(exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Predicate, exp.Connector, exp.Not),
    *(exp.Null, exp.Boolean),
)
_SUMMANDS: Final = DecimalShape(38, 20)
"""What numerics of differing scale are summed as: 18 digits before the point, 20 behind it."""


def _sum_numeric(call: Aggregation) -> Value:
    value = call.args[0]
    if is_fixed(value):
        shape = shape_of(value)
        return fixed(call.spark("sum", value.sql), shape.precision + 10, shape.scale)
    if call.distinct:
        raise call.refuse("of DISTINCT values of differing scale")
    number = as_number(value)
    if value.mixed is not None and is_fixed(number):
        known = b.case((b.is_not_null(number.sql), value.mixed.scale))
        total, largest = call.spark("sum", number.sql), call.spark("max", known)
        return _shortened_to(total, largest, shape_of(number).scale)

    def summand(number: Value) -> Value:
        too_fine = b.infix(exp.GT, scale_of(number), b.integer(_SUMMANDS.scale))
        return Value(
            b.checked(as_fixed(number, _SUMMANDS), (too_fine, too_many_digits())), oids.TEXT
        )

    def scale(number: Value) -> Value:
        return Value(b.case((b.is_not_null(number.sql), scale_of(number))), oids.INT4)

    number = as_floating(value)
    total = call.spark("sum", bind([number], summand).sql)
    largest = call.spark("max", bind([number], scale).sql)
    return _shortened_to(total, largest, _SUMMANDS.scale)


def _shortened_to(total: b.Tree, scale: b.Tree, places: int) -> Value:
    """Drop the zeros a sum, which has so many decimal places, has behind its scale."""

    def shortened(total: Value, scale: Value) -> Value:
        digits = b.call("replace", b.cast(total.sql, "STRING"), b.string("."), b.string(""))
        surplus = b.infix(exp.Sub, b.integer(places), scale.sql)
        kept = b.call("left", digits, b.infix(exp.Sub, b.call("length", digits), surplus))
        return floating(b.cast(kept, WHOLE), scale.sql)

    return bind([Value(total, oids.TEXT), Value(scale, oids.INT4)], shortened)


def _average(call: Aggregation) -> Value:
    total, whole = _averaged_total(call)
    value = as_number(call.args[0])
    counted = call.spark("count", equality_key(value) if call.distinct else value.sql)
    way = plan(shape_of(total), COUNT, whole) if is_fixed(total) else None
    if way is not None:
        count = fixed(counted, *COUNT)
        if call.window is None and _is_arithmetic(call):
            total, count = (replace(part, sql=b.repeatable(part.sql)) for part in (total, count))
        return quotient(total, count, way, nonzero=True)
    # No rows give NULL.
    decimal = b.decimal_type(*COUNT)
    present = b.call("nullif", b.cast(counted, decimal), b.cast(b.integer(0), decimal))
    return divide(total, fixed(present, *COUNT))


def _averaged_total(call: Aggregation) -> tuple[Value, int]:
    """Return the sum that is divided, and how many digits the average has before the point."""
    value = call.args[0]
    if value.type_oid == oids.NUMERIC:
        shape = shape_of(value) if is_fixed(value) else DecimalShape(0, 0)
        return _sum_numeric(call), shape.precision - shape.scale
    digits = INTEGER_DIGITS[value.type_oid]
    if value.type_oid == oids.INT8:
        return _sum_integers(call), digits
    # As in PostgreSQL, a BIGINT; it takes 2**32 of the largest values to fail.
    return fixed(call.spark("sum", value.sql), INTEGER_DIGITS[oids.INT8], 0), digits


def _is_arithmetic(call: Aggregation) -> bool:
    """Tell whether Spark recognises the call as the same where it is written again."""
    trees = [value.sql for value in call.args]
    if call.condition is not None:
        trees.append(call.condition)
    nodes = [node for tree in trees for node in tree.walk()]
    return len(nodes) <= _SHORT_CALL and all(isinstance(node, _ARITHMETIC) for node in nodes)


def _extreme(function: str) -> Handler:
    def handle(call: Aggregation) -> Value:
        value = settled(call.args[0])
        if ordering_key(value) is value.sql:
            return replace(value, sql=call.spark(function, value.sql), constant=None)

        def entry(bound: Value) -> Value:
            known = b.struct(key=ordering_key(bound), value=bound.sql)
            return Value(b.case((b.is_not_null(bound.sql), known)), oids.TEXT)

        found = call.spark(function, bind([value], entry).sql)
        return replace(value, sql=b.field(found, "value"), constant=None)

    return handle


def _same_name(function: str) -> Handler:
    def handle(call: Aggregation) -> Value:
        return call.result(call.spark(function, call.args[0].sql))

    return handle


def _any_value(call: Aggregation) -> Value:
    value = settled(call.args[0])
    return replace(
        value, sql=call.spark("any_value", value.sql, b.TRUE, distinct=False), constant=None
    )


def collected(call: Aggregation, element: b.Tree, condition: b.Tree | None = None) -> b.Tree:
    """Return the array of a call's elements in its order.

    Spark's own aggregates skip NULL, so the elements are collected inside structs; and its
    LISTAGG with ORDER BY cannot be planned beside an aggregate of DISTINCT values, so the array
    is sorted afterwards.
    """
    order = list(call.order_by)
    if call.distinct and not order:
        order = [exp.Ordered(this=ordering_key(call.args[0]), nulls_first=False)]
    keys = {f"k{index}": ordered.this for index, ordered in enumerate(order)}
    entry = b.struct(**keys, element=element)
    if condition is not None:
        entry = b.case((condition, entry))
    entries = call.spark("collect_list", entry, distinct=False)
    signed_zeros = call.distinct and call.args[0].type_oid in oids.FLOATS
    if call.distinct and not signed_zeros:
        entries = b.call("array_distinct", entries)
    if order:
        entries = b.call("array_sort", entries, b.lambda_function(_comparator(order), "l", "r"))
    if signed_zeros:
        # Spark's array_distinct turns minus zero into zero.
        entries = b.let([entries], _without_repetitions)
    return b.fresh_variable(
        lambda name: b.call(
            "transform", entries, b.lambda_function(b.field(b.variable(name), "element"), name)
        )
    )


def _without_repetitions(entries: b.Tree) -> b.Tree:
    """Return sorted entries without those whose first key is that of the one before."""

    def build(name: str) -> b.Tree:
        place = f"{name}_place"
        before = b.call("element_at", entries, b.variable(place))
        keys = (b.field(b.variable(name), "k0"), b.field(before, "k0"))
        first = b.infix(exp.EQ, b.variable(place), b.integer(0))
        new = b.either(first, b.negation(b.infix(exp.NullSafeEQ, *keys)))
        return b.call("filter", entries, b.lambda_function(new, name, place))

    return b.fresh_variable(build)


def _string_agg(call: Aggregation) -> Value:
    value, delimiter = call.args
    separator = known_text(delimiter)
    if separator is None and not is_null_constant(delimiter):
        raise call.refuse("with a delimiter that is not a constant")
    texts = collected(call, value.sql, b.is_not_null(value.sql))

    def joined(found: b.Tree) -> b.Tree:
        return b.case((_not_empty(found), b.call("array_join", found, b.string(separator or ""))))

    return call.result(b.let([texts], joined))


def _array_agg(call: Aggregation) -> Value:
    value = call.args[0]
    if call.distinct and value.type_oid in (oids.BPCHAR, oids.NUMERIC, oids.INTERVAL):
        raise call.refuse(f"of DISTINCT {oids.type_name(value.type_oid)}")
    element = as_text(value) if value.type_oid == oids.NUMERIC else value.sql
    elements = collected(call, element)

    def array(found: b.Tree) -> b.Tree:
        known = call.result_oid in oids.ELEMENTS
        return b.case((_not_empty(found), found if known else text_of(found, value.type_oid)))

    return call.result(b.let([elements], array))


def _not_empty(elements: b.Tree) -> b.Tree:
    return b.infix(exp.GT, b.call("size", elements), b.integer(0))


def _comparator(order: list[exp.Ordered]) -> b.Tree:
    """Return -1, 0 or 1 for structs ``l`` and ``r`` in the order of their keys."""
    branches: list[tuple[b.Tree, b.Tree]] = []
    before, after = b.integer(-1), b.integer(1)
    for index, ordered in enumerate(order):
        left, right = (b.field(b.variable(side), f"k{index}") for side in ("l", "r"))
        first, last = (before, after) if ordered.args.get("nulls_first") else (after, before)
        low, high = (after, before) if ordered.args.get("desc") else (before, after)
        branches += [
            (b.both(b.is_null(left), b.is_not_null(right)), first),
            (b.both(b.is_not_null(left), b.is_null(right)), last),
            (b.infix(exp.LT, left, right), low),
            (b.infix(exp.GT, left, right), high),
        ]
    return b.case(*branches, otherwise=b.integer(0))


def _sum_intervals(call: Aggregation) -> Value:
    return call.result(_total_interval(call))


def _average_interval(call: Aggregation) -> Value:
    count = b.cast(call.spark("count", call.args[0].sql), "DOUBLE")
    return call.result(b.let([_total_interval(call), count], interval_quotient))


def _total_interval(call: Aggregation) -> b.Tree:
    if call.distinct:
        raise call.refuse("of DISTINCT intervals")
    value = call.args[0].sql
    names = ("months", "days", "microseconds")
    parts = [call.spark("try_sum", b.field(value, name)) for name in names]

    def body(months: b.Tree, days: b.Tree, microseconds: b.Tree) -> b.Tree:
        total = within_range(_integer(months), _integer(days), microseconds)
        return b.case((b.is_not_null(months), total))

    return b.let(parts, body)


def _integer(number: b.Tree) -> b.Tree:
    """Return a BIGINT as INT, NULL where it is beyond."""
    inside = exp.Between(this=number, low=b.bigint(-(2**31)), high=b.bigint(2**31 - 1))
    return b.case((inside, b.cast(number, "INT")))


_EXTREME_TYPES: Final = (
    *(
        "int8",
        "int4",
        "int2",
        "oid",
        "float4",
        "float8",
        "date",
        "time",
        "timestamp",
        "timestamptz",
    ),
    *("interval", "text", "numeric", "bpchar", "bytea"),
)

FUNCTIONS: Final[dict[str, Handler]] = {
    "count()": _count_all,
    "count(any)": _count,
    "sum(int2)": _sum_integers,
    "sum(int4)": _sum_integers,
    "sum(int8)": _sum_integers,
    "sum(numeric)": _sum_numeric,
    "sum(interval)": _sum_intervals,
    "avg(interval)": _average_interval,
    "avg(int2)": _average,
    "avg(int4)": _average,
    "avg(int8)": _average,
    "avg(numeric)": _average,
    **{f"min({name})": _extreme("min") for name in _EXTREME_TYPES},
    **{f"max({name})": _extreme("max") for name in _EXTREME_TYPES},
    "bool_and(bool)": _same_name("bool_and"),
    "every(bool)": _same_name("bool_and"),
    "bool_or(bool)": _same_name("bool_or"),
    **{
        f"{name}({type_})": _same_name(name)
        for name in ("bit_and", "bit_or", "bit_xor")
        for type_ in ("int2", "int4", "int8")
    },
    "any_value(anyelement)": _any_value,
    "string_agg(text,text)": _string_agg,
    "array_agg(anynonarray)": _array_agg,
}
