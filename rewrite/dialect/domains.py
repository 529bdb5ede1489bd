"""Casts to domains: what PostgreSQL looks at when a value becomes one of a domain.

What is cast has been cast to the type that the domain is made of before. The value is of that type
for everything else.
"""

from dataclasses import replace
from typing import Final

from catalog.model import Domain
from catalog.pg import sqlstate as codes
from rewrite.dialect import builders as b
from rewrite.dialect.compiler import Compiler, NodeHandler
from rewrite.errors import UnsupportedError
from rewrite.tree import Node, parse_item
from rewrite.values import Value


def _cast(compiler: Compiler, node: Node) -> Value:
    domain = compiler.scope.domain(node.integer("resulttype"))
    if domain is None:
        raise UnsupportedError("a cast to a domain in this place is not supported")
    value = replace(compiler.compile_settled(node.node("arg")), constant=None, mixed=None)
    if not domain.is_not_null and not domain.checks:
        return value

    def checked(item: b.Tree) -> b.Tree:
        inner = replace(compiler, domain_value=replace(value, sql=item))
        return b.checked(item, *_failures(inner, domain, item))

    return replace(value, sql=b.let([value.sql], checked))


def _failures(compiler: Compiler, domain: Domain, item: b.Tree) -> list[tuple[b.Tree, b.Tree]]:
    """Return conditions and what they fail with, in the order in which PostgreSQL looks at them."""
    fields = {"s": domain.schema, "d": domain.name}
    failures = []
    if domain.is_not_null:
        message = f"domain {domain.spelled} does not allow null values"
        error = b.raise_error(codes.NOT_NULL_VIOLATION, message, fields=fields)
        failures.append((b.is_null(item), error))
    for check in domain.checks:
        tree = parse_item(check.expression)
        if not isinstance(tree, Node):
            raise TypeError(check.expression)
        message = f'value for domain {domain.spelled} violates check constraint "{check.name}"'
        error = b.raise_error(codes.CHECK_VIOLATION, message, fields={**fields, "n": check.name})
        failures.append((b.negation(compiler.compile(tree).sql), error))
    return failures


def _value(compiler: Compiler, _node: Node) -> Value:
    if compiler.domain_value is None:
        raise UnsupportedError("CoerceToDomainValue outside a check is not supported")
    return compiler.domain_value


NODES: Final[dict[str, NodeHandler]] = {
    "COERCETODOMAIN": _cast,
    "COERCETODOMAINVALUE": _value,
}
