"""Calls of functions and operators, and comparisons made of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import Call
from rewrite.dialect.comparisons import COMPARISONS, not_distinct
from rewrite.dialect.compiler import Compiler, NodeHandler
from rewrite.dialect.conditionals import null_if
from rewrite.dialect.constants import decode
from rewrite.dialect.functions import call_function, procedure
from rewrite.dialect.image_conditions import condition_of_any, condition_on_column
from rewrite.dialect.literals import literal
from rewrite.dialect.membership import Membership
from rewrite.errors import UnsupportedError
from rewrite.tree import Node
from rewrite.values import Value


def _call(compiler: Compiler, node: Node, oid: int, args: Sequence[Value], result: int) -> Value:
    key, signature = procedure(oid)
    return call_function(
        Call(
            key=key,
            signature=signature,
            args=tuple(args),
            result_oid=result,
            result_typmod=-1,
            collation=node.integer("inputcollid", 0),
            constants=compiler.scope.constants,
            variadic=bool(node.get("funcvariadic", False)),
        )
    )


def _function(compiler: Compiler, node: Node) -> Value:
    if node["funcretset"]:
        raise UnsupportedError(
            f"set-returning function {procedure(node.integer('funcid'))[1]} is not supported here"
        )
    args = compiler.compile_all(node.nodes("args"))
    result = _call(compiler, node, node.integer("funcid"), args, node.integer("funcresulttype"))
    return replace(result, type_oid=node.integer("funcresulttype"))


def _operator(compiler: Compiler, node: Node) -> Value:
    args = compiler.compile_all(node.nodes("args"))
    oid = node.integer("opfuncid")
    result = _call(compiler, node, oid, args, node.integer("opresulttype"))
    operator = COMPARISONS.get(procedure(oid)[0])
    if operator is None:
        return result
    left, right = node.nodes("args")
    condition = condition_on_column(compiler, operator, (left, right), result.sql)
    return result if condition is None else replace(result, sql=condition)


def _distinct(compiler: Compiler, node: Node) -> Value:
    left, right = _comparable(compiler, node)
    return Value(b.negation(not_distinct(left, right, compiler.scope.constants)), oids.BOOL)


def _comparable(compiler: Compiler, node: Node) -> list[Value]:
    """Compile the operands of a node that compares them by an equality operator."""
    key, signature = procedure(node.integer("opfuncid"))
    if COMPARISONS.get(key) is not exp.EQ:
        raise UnsupportedError(f"comparing by {signature} is not supported")
    return compiler.compile_all(node.nodes("args"))


def _null_if(compiler: Compiler, node: Node) -> Value:
    left, right = _comparable(compiler, node)
    return null_if(left, right, compiler.scope.constants)


def _scalar_array(compiler: Compiler, node: Node) -> Value:
    scalar, array = node.nodes("args")
    left = compiler.compile(scalar)
    oid = node.integer("opfuncid")

    def operate(one: Value, other: Value) -> b.Tree:
        return _call(compiler, node, oid, [one, other], oids.BOOL).sql

    membership = Membership(
        left=left,
        operate=operate,
        comparison=COMPARISONS.get(procedure(oid)[0]),
        any_=bool(node["useOr"]),
        constants=compiler.scope.constants,
    )
    elements = _elements(compiler, array)
    if elements is None:
        return membership.of_array(compiler.compile(array))
    if membership.any_ and membership.comparison is exp.EQ:
        condition = condition_of_any(compiler, scalar, elements)
        if condition is not None:
            return Value(condition, oids.BOOL)
    return membership.of_elements(elements)


def _elements(compiler: Compiler, array: Node) -> list[Value] | None:
    """Return the elements of an array that is written out, a constant or a parameter."""
    while array.tag == "RELABELTYPE":
        array = array.node("arg")
    if array.tag == "ARRAYEXPR" and not array["multidims"]:
        return compiler.compile_all(array.nodes("elements"))
    if array.tag == "CONST" and isinstance(datum := array["constvalue"], bytes):
        element = oids.ELEMENTS.get(array.integer("consttype"))
        items = decode(array.integer("consttype"), datum)
        if element is not None and isinstance(items, list) and not array["constisnull"]:
            return [literal(item, element) for item in items]
    if array.tag == "PARAM":
        value = compiler.compile(array)
        element = oids.ELEMENTS.get(value.type_oid)
        if element is not None and value.constant and isinstance(value.constant.value, list):
            return [literal(item, element) for item in value.constant.value]
    return None


NODES: Final[dict[str, NodeHandler]] = {
    "FUNCEXPR": _function,
    "OPEXPR": _operator,
    "DISTINCTEXPR": _distinct,
    "NULLIFEXPR": _null_if,
    "SCALARARRAYOPEXPR": _scalar_array,
}
