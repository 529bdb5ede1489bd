"""Filters: WHERE, HAVING and ON, where a condition counts only when it is true."""

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
    found = []
    for qual in conjuncts(quals):
        condition = _whole(scope.prepare(qual), scope)
        if sublinks.holds_sublink(qual):
            found.append(condition)
        elif can_fail(qual):
            parts = _parts(condition)
            bare = scope.compilation.bare
            found += [bare(part) if b.is_certain(part) else part for part in parts]
        else:
            found.append(scope.compilation.bare(condition))
    return conjunction(found)


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
