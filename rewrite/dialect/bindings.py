"""Evaluate operands once: ``let`` for values, some of which consist of two expressions."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.values import Value


def _pair(value: Value) -> b.Tree | None:
    """Return the struct of which a numeric's value and scale are the fields, if there is one."""
    sql, scale = value.sql, value.scale
    if not isinstance(sql, exp.Dot) or not isinstance(scale, exp.Dot):
        return None
    if (sql.name, scale.name) != ("value", "scale") or sql.this != scale.this:
        return None
    pair = sql.this
    return pair if isinstance(pair, exp.Expression) else None


def _trees(value: Value) -> list[b.Tree]:
    pair = _pair(value)
    return [pair] if pair is not None else list(value.parts)


def _rebind(value: Value, trees: Sequence[b.Tree]) -> Value:
    if _pair(value) is None:
        bound = value.with_parts(trees)
    else:
        bound = value.with_parts([b.field(trees[0], "value"), b.field(trees[0], "scale")])
    return replace(bound, constant=value.constant)


def bind(values: Sequence[Value], body: Callable[..., Value]) -> Value:
    """Return ``body(*values)`` with every operand evaluated once."""
    trees = [_trees(value) for value in values]
    flat = [tree for group in trees for tree in group]
    if all(b.is_simple(tree) for tree in flat):
        return body(*values)
    result: list[Value] = []

    def build(*bound: b.Tree) -> b.Tree:
        rest = list(bound)
        operands = []
        for value, group in zip(values, trees, strict=True):
            operands.append(_rebind(value, rest[: len(group)]))
            del rest[: len(group)]
        result.append(body(*operands))
        outcome = result[0]
        if isinstance(outcome.scale, exp.Expression):
            pair = _pair(outcome)
            return pair if pair is not None else b.struct(value=outcome.sql, scale=outcome.scale)
        return outcome.sql

    tree = b.let(flat, build)
    outcome = replace(result[0], constant=None)
    if isinstance(outcome.scale, exp.Expression):
        return outcome.with_parts([b.field(tree, "value"), b.field(tree, "scale")])
    return replace(outcome, sql=tree)


def consume(value: Value, body: Callable[[Value], b.Tree]) -> b.Tree:
    """Return ``body(value)`` of a body that has its operand's digits once and binds nothing.

    A floating numeric that is the result of a ``let`` is consumed inside it: no struct is made.
    """
    pair = _pair(value)
    if pair is None:
        return _consumed(value, body)

    def change(result: b.Tree) -> b.Tree | None:
        parts = _parts(result)
        if parts is None or not b.is_simple(parts[1]):
            return None
        return body(value.with_parts(parts))

    return b.in_let(pair, change) or _consumed(value, body)


def _consumed(value: Value, body: Callable[[Value], b.Tree]) -> b.Tree:
    *digits, scale = value.parts
    if digits and b.is_simple(scale):
        return body(value)
    return bind([value], lambda bound: Value(body(bound), bound.type_oid)).sql


def _parts(tree: b.Tree) -> tuple[b.Tree, b.Tree] | None:
    """Return value and scale of a struct of them."""
    if not (isinstance(tree, exp.Anonymous) and tree.name == "named_struct"):
        return None
    names, parts = tree.expressions[::2], tree.expressions[1::2]
    if [name.name for name in names] != ["value", "scale"]:
        return None
    return parts[0], parts[1]
