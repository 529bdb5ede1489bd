"""The types of expressions' values, as their nodes tell them (nodeFuncs.c, exprType)."""

from typing import Final

from rewrite.tree import Node

_FIELDS: Final = (
    *("vartype", "consttype", "paramtype", "resulttype", "funcresulttype", "opresulttype"),
    *("array_typeid", "casetype", "coalescetype", "minmaxtype"),
)


def type_of(node: Node) -> int:
    """Return the OID of an expression's type; 0 where it is told otherwise, as of aggregates."""
    return next((node.integer(name) for name in _FIELDS if name in node.fields), 0)
