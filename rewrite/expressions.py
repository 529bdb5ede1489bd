"""Compile PostgreSQL's analysed expression nodes into Spark SQL values.

The functions the rest of the rewriter uses; the work is done in ``rewrite.dialect``.
"""

from rewrite.context import ParameterValue, UnreadValue
from rewrite.dialect.builders import raise_error
from rewrite.dialect.compiler import Compiler
from rewrite.dialect.conditionals import align
from rewrite.dialect.literals import literal
from rewrite.dialect.nodes import NODES
from rewrite.dialect.sort_keys import compile_sort_key, distinct_key, grouping_key
from rewrite.dialect.storage import read_stored, to_stored
from rewrite.errors import UnsupportedError
from rewrite.tree import Node
from rewrite.values import Scope, Value

__all__ = [
    "align",
    "compile_expression",
    "compile_parameter",
    "compile_sort_key",
    "distinct_key",
    "grouping_key",
    "literal",
    "raise_error",
    "read_stored",
    "to_stored",
]


def compile_expression(node: Node, scope: Scope) -> Value:
    """Compile one expression node; UnsupportedError (0A000) for what has no exact mapping."""
    return Compiler(scope, NODES).compile_settled(node)


def compile_parameter(parameter: ParameterValue) -> Value:
    """Return the typed literal of a bound parameter; UnsupportedError for one that is not read."""
    if isinstance(parameter.value, UnreadValue):
        raise UnsupportedError(parameter.value.refusal)
    return literal(parameter.value, parameter.type_oid)
