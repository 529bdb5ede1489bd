"""Sublinks, aggregates, window functions and arrays."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rewrite.dialect import (
    aggregates,
    float_aggregates,
    float_statistics,
    numeric_statistics,
    oids,
    ordered_sets,
    window_functions,
)
from rewrite.dialect import builders as b
from rewrite.dialect.arrays import array_of, subscript
from rewrite.dialect.compiler import Compiler, NodeHandler
from rewrite.dialect.functions import procedure
from rewrite.dialect.json_paths import subscripted
from rewrite.dialect.sort_keys import compile_sort_key
from rewrite.errors import UnsupportedError
from rewrite.tree import Node
from rewrite.values import Value


def _array(compiler: Compiler, node: Node) -> Value:
    if node["multidims"]:
        raise UnsupportedError("arrays of more than one dimension are not supported")
    elements, array = compiler.compile_all(node.nodes("elements")), node.integer("array_typeid")
    if array >= oids.FIRST_USER_OID and all(
        value.type_oid < oids.FIRST_USER_OID for value in elements
    ):
        raise UnsupportedError("arrays of values of domains are not supported")
    return array_of(elements, array)


def _subscript(compiler: Compiler, node: Node) -> Value:
    indexes = node.nodes("refupperindexpr")
    container = node.integer("refcontainertype")
    element = oids.ELEMENTS.get(container)
    is_plain = not (node.get("reflowerindexpr") or node.get("refassgnexpr"))
    if is_plain and container == oids.JSONB:
        document = compiler.compile(node.node("refexpr"))
        return subscripted(document, compiler.compile_all(indexes))
    if not is_plain or len(indexes) != 1 or element is None:
        raise UnsupportedError("this form of subscripting is not supported")
    return subscript(compiler.compile(node.node("refexpr")), compiler.compile(indexes[0]), element)


def _sublink(compiler: Compiler, node: Node) -> Value:
    return compiler.scope.sublink(node, compiler.compile_settled)


def _grouping(compiler: Compiler, node: Node) -> Value:
    return compiler.scope.grouping(node)


def _aggregate(compiler: Compiler, node: Node) -> Value:
    signature = procedure(node.integer("aggfnoid"))[1]
    if node.integer("agglevelsup"):
        raise UnsupportedError("aggregates of an outer query are not supported")
    if node["aggvariadic"] or node.text("aggkind") not in ("n", "o", None):
        raise UnsupportedError(f"aggregate function {signature} is not supported")
    entries = [(entry, compiler.compile(entry.node("expr"))) for entry in node.nodes("args")]
    args = [value for entry, value in entries if not entry["resjunk"]]
    values = {entry.integer("ressortgroupref"): value for entry, value in entries}
    order = [
        compile_sort_key(
            values[clause.integer("tleSortGroupRef")],
            clause.integer("sortop"),
            nulls_first=bool(clause["nulls_first"]),
        )
        for clause in node.nodes("aggorder")
    ]
    return _aggregation(
        aggregates.Aggregation(
            signature=signature,
            args=tuple(args),
            result_oid=_result_type(signature, node.integer("aggtype"), args),
            distinct=bool(node.get("aggdistinct")),
            order_by=tuple(order),
            condition=_filter(compiler, node),
            direct_args=tuple(compiler.compile_all(node.nodes("aggdirectargs"))),
        ),
    )


def _result_type(signature: str, declared: int, args: Sequence[Value]) -> int:
    """Return the type of a result; that of a domain's values is what the domain is made of."""
    if declared < oids.FIRST_USER_OID or any(value.type_oid == declared for value in args):
        return declared
    if not args or signature.startswith("array_agg("):
        raise UnsupportedError(f"{signature} of values of domains is not supported")
    return args[0].type_oid


def _filter(compiler: Compiler, node: Node) -> b.Tree | None:
    condition = node.optional("aggfilter")
    return compiler.compile(condition).sql if condition is not None else None


AGGREGATES: Final[dict[str, aggregates.Handler]] = {
    **aggregates.FUNCTIONS,
    **float_aggregates.FUNCTIONS,
    **float_statistics.FUNCTIONS,
    **numeric_statistics.FUNCTIONS,
    **ordered_sets.FUNCTIONS,
}


def _aggregation(call: aggregates.Aggregation) -> Value:
    handler = AGGREGATES.get(call.signature)
    if handler is None:
        raise UnsupportedError(f"aggregate function {call.signature} is not supported")
    return replace(handler(call), type_oid=call.result_oid)


def _window(compiler: Compiler, node: Node) -> Value:
    signature = procedure(node.integer("winfnoid"))[1]
    args = tuple(compiler.compile_settled(arg) for arg in node.nodes("args"))
    window = compiler.scope.window(node.integer("winref"))
    if node["winagg"]:
        return _aggregation(
            aggregates.Aggregation(
                signature=signature,
                args=args,
                result_oid=_result_type(signature, node.integer("wintype"), args),
                condition=_filter(compiler, node),
                window=window,
            ),
        )
    handler = window_functions.FUNCTIONS.get(signature)
    if handler is None:
        raise UnsupportedError(f"window function {signature} is not supported")
    result_oid = _result_type(signature, node.integer("wintype"), args)
    call = window_functions.WindowCall(signature, args, result_oid, window)
    return replace(handler(call), type_oid=call.result_oid)


NODES: Final[dict[str, NodeHandler]] = {
    "ARRAYEXPR": _array,
    "SUBSCRIPTINGREF": _subscript,
    "SUBLINK": _sublink,
    "GROUPINGFUNC": _grouping,
    "AGGREF": _aggregate,
    "WINDOWFUNC": _window,
}
