"""Filters: WHERE, HAVING and ON, where a condition counts only when it is true."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect.functions import procedure
from rewrite.query import sublinks
from rewrite.query.failing import can_fail
from rewrite.query.outer_references import reads_outside
from rewrite.query.sql import conjunction, disjunction, is_not_true
from rewrite.tree import Item, Node, walk

if TYPE_CHECKING:
    from rewrite.query.scopes import QueryScope


def conjuncts(quals: Item) -> list[Node]:
    """Return the conditions that all have to be true."""
    if isinstance(quals, list):
        return [found for qual in quals for found in conjuncts(qual)]
    if not isinstance(quals, Node):
        return []
    if quals.tag == "BOOLEXPR" and quals["boolop"] == "and":
        return [found for argument in quals.nodes("args") for found in conjuncts(argument)]
    return [quals]


def compile_filter(quals: Item, scope: "QueryScope") -> exp.Expression | None:
    """Compile a filter; None when everything passes."""
    found: list[_Part] = []
    for qual in conjuncts(quals):
        condition = _whole(scope.prepare(qual), scope)
        bare = scope.compilation.bare
        if sublinks.holds_sublink(qual):
            found.append(_Part(condition))
        elif can_fail(qual):
            found += [
                _Part(bare(part)) if b.is_certain(part) else _fallible(part)
                for part in _parts(condition)
            ]
        else:
            found.append(_Part(bare(condition)))
    return conjunction(_in_order(found))


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the conditions of a filter."""

    condition: exp.Expression
    is_fallible: bool = False
    """Whether it may fail for values of columns, and needs those before it to be true."""
    moves_back: bool = False
    """Whether Spark evaluates others first: it thinks that raising errors is not repeatable."""
    relations: frozenset[str] = frozenset()
    """Where the columns of a fallible one come from; variables of lambdas come from nowhere."""


def is_join(qual: Node, left: Collection[int], right: Collection[int]) -> bool:
    """Tell whether a condition that can fail equates what is computed of two sides of a join.

    Spark does not move it from a filter to the join, as it does with one that cannot fail.
    """
    if qual.tag != "OPEXPR" or not procedure(qual.integer("opfuncid"))[0].endswith("eq"):
        return False
    if not can_fail(qual) or sublinks.holds_sublink(qual) or reads_outside(qual):
        return False
    one, *others = [_varnos(argument) for argument in qual.nodes("args")]
    other = others[0] if others else set()
    if not one or not other:
        return False
    return (one <= set(left) and other <= set(right)) or (one <= set(right) and other <= set(left))


def _varnos(item: Item) -> set[int]:
    return {node.integer("varno") for node, _ in walk(item) if node.tag == "VAR"}


def _fallible(condition: exp.Expression) -> _Part:
    return _Part(
        condition,
        # By an equality rows are joined, unless it is a part of something else.
        is_fallible=not _joins(condition),
        moves_back=b.can_raise(condition),
        relations=_relations(condition),
    )


def _relations(tree: exp.Expression) -> frozenset[str]:
    return frozenset(found.table for found in tree.find_all(exp.Column)) - {""}


def _joins(condition: exp.Expression) -> bool:
    """Tell whether a condition is an equality between one relation and another."""
    if not isinstance(condition, exp.EQ):
        return False
    one, other = _relations(condition.this), _relations(condition.expression)
    return bool(one and other) and one.isdisjoint(other)


def _in_order(parts: Sequence[_Part]) -> list[exp.Expression]:
    """Return conditions of which none fails for a row that one of the same table has left out."""
    groups: list[list[int]] = []
    for number, part in enumerate(parts):
        before = [
            group for group in groups if any(_comes_before(parts[one], part) for one in group)
        ]
        # They take the place of the last one: what is between may keep that from failing.
        groups = [group for group in groups if group not in before]
        groups.append([*sorted(one for group in before for one in group), number])
    return [_one_by_one([parts[number].condition for number in group]) for group in groups]


def _comes_before(one: _Part, other: _Part) -> bool:
    """Tell whether one condition has to be true for another to be computed."""
    are_fallible = one.is_fallible and other.is_fallible
    return are_fallible and one.moves_back and one.relations <= other.relations


def _one_by_one(conditions: Sequence[exp.Expression]) -> exp.Expression:
    """Return whether all conditions are true, none evaluated after one that is not, even NULL."""
    if len(conditions) == 1:
        return conditions[0]
    failing = [(is_not_true(condition), b.FALSE) for condition in conditions]
    return b.case(*failing, otherwise=b.TRUE)


def _parts(condition: exp.Expression) -> list[exp.Expression]:
    """Return the conditions that one consists of, in order."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, exp.And):
        return [*_parts(condition.this), *_parts(condition.expression)]
    return [condition]


def _whole(node: Node, scope: "QueryScope") -> exp.Expression:
    """Compile one of the conditions of a filter."""
    if node.tag == "BOOLEXPR" and _holds_sublink(node):
        # Spark lifts conditions on columns from further out, and loses the sublinks in them.
        with scope.fetching():
            return _condition(node, scope, negated=False)
    return _condition(node, scope, negated=False)


def _condition(node: Node, scope: "QueryScope", *, negated: bool) -> exp.Expression:
    """Compile a prepared condition, true exactly where the node (or its negation) is true."""
    if node.tag == "BOOLEXPR" and _holds_sublink(node):
        arguments = node.nodes("args")
        if node["boolop"] == "not":
            return _condition(arguments[0], scope, negated=not negated)
        parts = [_condition(argument, scope, negated=negated) for argument in arguments]
        both = (node["boolop"] == "and") is not negated
        joined = conjunction(parts) if both else disjunction(parts)
        return joined if joined is not None else exp.true()
    if sublinks.is_filter_sublink(node):
        return sublinks.condition(node, scope, negated=negated)
    if negated:
        node = Node("BOOLEXPR", {"boolop": "not", "args": [node]})
    return scope.compile_prepared(node).sql


def needs_values(node: Node) -> bool:
    """Whether a condition holds a sublink whose value is computed with."""
    if node.tag == "BOOLEXPR":
        return any(needs_values(argument) for argument in node.nodes("args"))
    if sublinks.is_filter_sublink(node):
        return sublinks.holds_sublink(node["testexpr"])
    return sublinks.holds_sublink(node)


def _holds_sublink(node: Node) -> bool:
    """Whether a sublink is reached through AND, OR and NOT alone."""
    if node.tag == "BOOLEXPR":
        return any(_holds_sublink(argument) for argument in node.nodes("args"))
    return sublinks.is_filter_sublink(node)
