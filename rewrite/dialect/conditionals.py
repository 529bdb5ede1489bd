"""CASE, COALESCE, NULLIF, GREATEST and LEAST over values, whatever their representation."""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from rewrite.context import SessionConstants
from rewrite.dialect import builders as b
from rewrite.dialect import numerics, oids
from rewrite.dialect.bindings import bind
from rewrite.dialect.comparisons import compare, ordering_key
from rewrite.values import Value


def align(values: Sequence[Value]) -> list[Value]:
    """Give values of one PostgreSQL type one representation, and a typmod only if all agree."""
    if not values:
        return []
    typmods = {value.typmod for value in values}
    typmod = typmods.pop() if len(typmods) == 1 else -1
    if values[0].type_oid == oids.NUMERIC:
        values = numerics.aligned([numerics.settled(value) for value in values])
    return [replace(value, typmod=typmod) for value in values]


def choose(branches: Sequence[tuple[b.Tree, Value]], otherwise: Value) -> Value:
    """Return the value of the first branch whose condition is true."""
    values = align([*(value for _, value in branches), otherwise])
    arms = [(condition, value.sql) for (condition, _), value in zip(branches, values, strict=False)]
    return _merged(b.case(*arms, otherwise=values[-1].sql), values)


def coalesce(values: Sequence[Value]) -> Value:
    """Return the first value that is not NULL."""
    aligned = align(values)
    if len(aligned) == 1:
        return aligned[0]
    return _merged(b.call("coalesce", *(value.sql for value in aligned)), aligned)


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
