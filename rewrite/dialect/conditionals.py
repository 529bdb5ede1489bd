"""CASE, COALESCE, NULLIF, GREATEST and LEAST over values, whatever their representation."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from rewrite.context import SessionConstants
from rewrite.dialect import builders as b
from rewrite.dialect import numerics, oids
from rewrite.dialect.bindings import bind
from rewrite.dialect.comparisons import compare, ordering_key
from rewrite.values import Value

_CARRIED_BY_KEY: Final = frozenset({oids.BPCHAR, oids.INTERVAL})
"""Types that Spark orders by something else than their representation."""


def align(values: Sequence[Value]) -> list[Value]:
    """Give values of one PostgreSQL type one representation; the typmod stays only where all agree."""
    if not values:
        return []
    typmods = {value.typmod for value in values}
    typmod = typmods.pop() if len(typmods) == 1 else -1
    if values[0].type_oid == oids.NUMERIC:
        values = numerics.aligned(values)
    return [replace(value, typmod=typmod) for value in values]


def carried(value: Value) -> b.Tree:
    """Return one expression that holds all parts of a value; NULL when the value is."""
    if not isinstance(value.scale, exp.Expression):
        return value.sql

    def body(bound: Value) -> Value:
        pair = b.struct(value=bound.sql, scale=numerics.display_scale(bound))
        return Value(b.case((b.is_not_null(bound.sql), pair)), oids.TEXT)

    return bind([value], body).sql


def restored(tree: b.Tree, like: Value) -> Value:
    """Return the value carried by an expression made of ``carried`` values of the same form."""
    parts = [tree]
    if isinstance(like.scale, exp.Expression):
        parts = [b.field(tree, "value"), b.field(tree, "scale")]
    return like.with_parts(parts)


def choose(branches: Sequence[tuple[b.Tree, Value]], otherwise: Value) -> Value:
    """Return the value of the first branch whose condition is true."""
    values = align([*(value for _, value in branches), otherwise])
    arms = [
        (condition, carried(value)) for (condition, _), value in zip(branches, values, strict=False)
    ]
    like = next((value for value in values if not b.is_null_literal(value.sql)), values[-1])
    return restored(b.case(*arms, otherwise=carried(values[-1])), like)


def coalesce(values: Sequence[Value]) -> Value:
    """Return the first value that is not NULL."""
    aligned = align(values)
    like = next((value for value in aligned if not b.is_null_literal(value.sql)), aligned[0])
    if len(aligned) == 1:
        return aligned[0]
    return restored(b.call("coalesce", *(carried(value) for value in aligned)), like)


def null_if(left: Value, right: Value, constants: SessionConstants) -> Value:
    """Return NULL when both are equal, else the left value."""

    def body(one: Value, other: Value) -> Value:
        same = compare(exp.EQ, one, other, constants)
        return restored(b.case((same, b.NULL), otherwise=carried(one)), one)

    return bind([left, right], body)


def extreme(values: Sequence[Value], *, greatest: bool) -> Value:
    """Return the largest or smallest value that is not NULL; the first one of equal values."""
    aligned = align(values)
    function = "greatest" if greatest else "least"
    like = next((value for value in aligned if not b.is_null_literal(value.sql)), aligned[0])
    if len(aligned) == 1:
        return aligned[0]
    by_key = like.type_oid in _CARRIED_BY_KEY or isinstance(like.scale, exp.Expression) or like.scale is None
    if like.type_oid not in (oids.NUMERIC, *_CARRIED_BY_KEY) or not by_key:
        for value in aligned:
            ordering_key(value)
        return replace(like, sql=b.call(function, *(value.sql for value in aligned)), constant=None)
    candidates = []
    for index, value in enumerate(aligned):
        rank = b.integer(len(aligned) - index if greatest else index)

        def candidate(bound: Value, rank: b.Tree = rank) -> Value:
            entry = b.struct(key=ordering_key(bound), rank=rank, carried=carried(bound))
            return Value(b.case((b.is_not_null(bound.sql), entry)), oids.TEXT)

        candidates.append(bind([value], candidate).sql)
    return restored(b.field(b.call(function, *candidates), "carried"), like)
