"""Walks PostgreSQL's expression nodes; the mapping of each kind is in a table it is given."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rewrite.dialect import oids
from rewrite.dialect.numerics import settled
from rewrite.dialect.type_mapping import depends_on_session
from rewrite.errors import UnsupportedCollationError, UnsupportedError
from rewrite.tree import Node
from rewrite.values import Scope, Value

NodeHandler: TypeAlias = "Callable[[Compiler, Node], Value]"

# Fields in which nodes name the collation of what they return.
_COLLATIONS: Final = (
    "varcollid",
    "constcollid",
    "paramcollid",
    "funccollid",
    "opcollid",
    "resultcollid",
    "casecollid",
    "coalescecollid",
    "minmaxcollid",
    "array_collid",
    "aggcollid",
    "wincollid",
    "collOid",
    "refcollid",
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """Compiles the nodes of one expression."""

    scope: Scope
    handlers: Mapping[str, NodeHandler]
    """What to do with each kind of node."""
    case_value: Value | None = None
    """What CaseTestExpr stands for."""
    domain_value: Value | None = None
    """What CoerceToDomainValue stands for."""

    def compile(self, node: Node) -> Value:
        """Compile a node; UnsupportedError naming it when there is no mapping."""
        handler = self.handlers.get(node.tag)
        if handler is None:
            raise UnsupportedError(f"expressions of kind {node.tag} are not supported")
        for name in _COLLATIONS:
            collation = node.integer(name, 0)
            if collation and collation not in oids.BYTEWISE_COLLATIONS:
                raise UnsupportedCollationError(collation)
        value = handler(self, node)
        if depends_on_session(value.type_oid):
            raise UnsupportedError(f"values of {oids.type_name(value.type_oid)} are not supported")
        return value

    def compile_settled(self, node: Node) -> Value:
        """Compile a node to a value in a form that other parts of the rewriter know."""
        return settled(self.compile(node))

    def compile_all(self, nodes: Sequence[Node]) -> list[Value]:
        """Compile several nodes."""
        return [self.compile(node) for node in nodes]
