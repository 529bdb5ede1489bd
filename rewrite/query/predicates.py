"""Filters: WHERE, HAVING and ON, where a condition counts only when it is true."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.query import sublinks
from rewrite.query.failing import can_fail
from rewrite.query.sql import conjunction, disjunction
from rewrite.tree import Item, Node

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
            found.append(_Part(condition, can_fail=False))
        elif can_fail(qual):
            found += [
                _Part(bare(part), can_fail=False)
                if b.is_certain(part)
                else _Part(part, can_fail=True)
                for part in _parts(condition)
            ]
        else:
            found.append(_Part(bare(condition), can_fail=False))
    return conjunction([part.condition for part in _in_order(found)])


@dataclass(frozen=True, slots=True)
class _Part:
    """One of the conditions of a filter."""

    condition: exp.Expression
    can_fail: bool
    """For values of the columns of one row; with a sublink it is not known."""

    @property
    def moves_back(self) -> bool:
        """Whether Spark evaluates others first: it thinks that raising errors is not repeatable."""
        return self.can_fail and any(
            call.name.lower() == "raise_error" for call in self.condition.find_all(exp.Anonymous)
        )

    @property
    def relations(self) -> set[str]:
        """Where the columns come from; a variable of a lambda comes from nowhere."""
        return {found.table for found in self.condition.find_all(exp.Column)} - {""}


def _in_order(parts: list[_Part]) -> list[_Part]:
    """Return conditions of which none fails for a row that one before it has left out."""
    ordered: list[_Part] = []
    for part in reversed(parts):
        guarded = [one for one in ordered if part.moves_back and one.can_fail]
        guarded = [one for one in guarded if one.relations == part.relations]
        rest = conjunction([one.condition for one in guarded])
        if rest is not None:
            ordered = [one for one in ordered if one not in guarded]
            part = _Part(b.case((part.condition, rest)), can_fail=True)  # noqa: PLW2901
        ordered.insert(0, part)
    return ordered


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
