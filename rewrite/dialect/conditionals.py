"""CASE, COALESCE, NULLIF, GREATEST and LEAST over values, whatever their representation."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from catalog.pg import types
from rewrite.context import SessionConstants
from rewrite.dialect import builders as b
from rewrite.dialect import numerics, oids
from rewrite.dialect.bindings import bind
from rewrite.dialect.comparisons import compare, ordering_key
from rewrite.dialect.type_mapping import storage_type
from rewrite.values import Value


def align(values: Sequence[Value]) -> list[Value]:
    """Give values of one PostgreSQL type one representation, and a typmod only if all agree."""
    if not values:
        return []
    typmods = {value.typmod for value in values}
    typmod = typmods.pop() if len(typmods) == 1 else -1
    if values[0].type_oid == types.NUMERIC_ARRAY:
        values = _numeric_arrays(values)
    elif values[0].type_oid == oids.NUMERIC:
        values = numerics.aligned([numerics.settled(value) for value in values])
    return [replace(value, typmod=typmod) for value in values]


def _numeric_arrays(values: Sequence[Value]) -> Sequence[Value]:
    """Give arrays of numerics one form, that without a modifier: Spark's would be of doubles."""
    if len({value.typmod for value in values}) == 1:
        return values
    form = storage_type(types.NUMERIC_ARRAY, -1)
    return [replace(value, sql=b.cast(value.sql, form), typmod=-1) for value in values]


def choose(branches: Sequence[tuple[b.Tree, Value]], otherwise: Value) -> Value:
    """Return the value of the first branch whose condition is true."""
    given = [*(value for _, value in branches), otherwise]
    values = align(given)

    def chosen(trees: Sequence[b.Tree]) -> b.Tree:
        arms = [(condition, tree) for (condition, _), tree in zip(branches, trees, strict=False)]
        return b.case(*arms, otherwise=trees[-1])

    return _mixed(_merged(chosen([value.sql for value in values]), values), given, chosen)


def coalesce(values: Sequence[Value]) -> Value:
    """Return the first value that is not NULL."""
    aligned = align(values)
    if len(aligned) == 1:
        return aligned[0]

    def chosen(trees: Sequence[b.Tree]) -> b.Tree:
        pairs = zip(values, trees, strict=True)
        return b.case(*((b.is_not_null(value.sql), tree) for value, tree in pairs))

    merged = _merged(b.call("coalesce", *(value.sql for value in aligned)), aligned)
    return _mixed(merged, values, chosen) if all(b.is_simple(one.sql) for one in values) else merged


def _mixed(
    merged: Value, values: Sequence[Value], choose: Callable[[Sequence[b.Tree]], b.Tree]
) -> Value:
    """Return a value chosen from numerics of differing scale with its number, if it can be."""
    if merged.type_oid != oids.NUMERIC or numerics.is_fixed(merged):
        return merged
    mixed = numerics.mixed_of(values, choose)
    return merged if mixed is None else replace(merged, mixed=mixed._replace(text=merged.sql))


def _merged(sql: b.Tree, values: Sequence[Value]) -> Value:
    like = next((value for value in values if not b.is_null_literal(value.sql)), values[0])
    return replace(like, sql=sql, constant=None)


def null_if(left: Value, right: Value, constants: SessionConstants) -> Value:
    """Return NULL when both are equal, else the left value."""

    def body(one: Value, other: Value) -> Value:
        same = compare(exp.EQ, one, other, constants)
        return replace(one, sql=b.case((same, b.NULL), otherwise=one.sql), constant=None)

    return bind([numerics.settled(left), right], body)


def extreme(values: Sequence[Value], *, greatest: bool) -> Value:
    """Return the largest or smallest value that is not NULL; the first one of equal values."""
    aligned = align(values)
    function = "greatest" if greatest else "least"
    if len(aligned) == 1:
        return aligned[0]
    if all(ordering_key(value) is value.sql for value in aligned):
        return _merged(b.call(function, *(value.sql for value in aligned)), aligned)
    candidates = []
    for index, value in enumerate(aligned):
        rank = b.integer(len(aligned) - index if greatest else index)

        def candidate(bound: Value, rank: b.Tree = rank) -> Value:
            entry = b.struct(key=ordering_key(bound), rank=rank, value=bound.sql)
            return Value(b.case((b.is_not_null(bound.sql), entry)), oids.TEXT)

        candidates.append(bind([value], candidate).sql)
    return _merged(b.field(b.call(function, *candidates), "value"), aligned)
