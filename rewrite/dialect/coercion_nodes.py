"""Casts that are not calls of functions."""

from dataclasses import replace
from typing import Final

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.arrays import array_of, element_value
from rewrite.dialect.compiler import Compiler, NodeHandler
from rewrite.dialect.integers import object_id
from rewrite.dialect.text_input import input_value
from rewrite.dialect.text_output import output_text
from rewrite.dialect.type_mapping import storage_type
from rewrite.errors import UnsupportedError
from rewrite.tree import Node
from rewrite.values import Value


def _relabel(compiler: Compiler, node: Node) -> Value:
    value = compiler.compile(node.node("arg"))
    target, typmod = node.integer("resulttype"), node.integer("resulttypmod")
    return relabelled(value, target, typmod)


def _via_text(compiler: Compiler, node: Node) -> Value:
    value = compiler.compile(node.node("arg"))
    target = node.integer("resulttype")
    if target in oids.STRINGS - {oids.CHAR, oids.NAME}:
        return Value(output_text(value, compiler.scope.constants), target)
    if value.type_oid not in oids.STRINGS:
        source, name = oids.type_name(value.type_oid), oids.type_name(target)
        raise UnsupportedError(f"casting {source} to {name} is not supported")
    return input_value(value, target)


def _array_coercion(compiler: Compiler, node: Node) -> Value:
    array = compiler.compile(node.node("arg"))
    target = node.integer("resulttype")
    source_element, target_element = (
        oids.ELEMENTS.get(array.type_oid),
        oids.ELEMENTS.get(target),
    )
    if source_element is None or target_element is None:
        raise UnsupportedError(f"casting arrays to {oids.type_name(target)} is not supported")

    def element(name: str) -> b.Tree:
        item = element_value(b.variable(name), source_element)
        inner = replace(compiler, case_value=item)
        converted = array_of([inner.compile(node.node("elemexpr"))], target)
        body = b.call("element_at", converted.sql, b.integer(1))
        return b.call("transform", array.sql, b.lambda_function(body, name))

    return Value(b.fresh_variable(element), target, node.integer("resulttypmod", -1))


def _collate(compiler: Compiler, node: Node) -> Value:
    return compiler.compile(node.node("arg"))


def relabelled(value: Value, type_oid: int, typmod: int) -> Value:
    """Return a value as another type of the same representation in PostgreSQL."""
    source, target = storage_type(value.type_oid, -1), storage_type(type_oid, -1)
    sql = value.sql
    if source == "INT" and type_oid in oids.OBJECT_IDS:
        sql = object_id(sql)
    elif source != target:
        names = oids.type_name(value.type_oid), oids.type_name(type_oid)
        raise UnsupportedError(f"casting {names[0]} to {names[1]} is not supported")
    return replace(value, sql=sql, type_oid=type_oid, typmod=typmod)


NODES: Final[dict[str, NodeHandler]] = {
    "RELABELTYPE": _relabel,
    "COERCEVIAIO": _via_text,
    "ARRAYCOERCEEXPR": _array_coercion,
    "COLLATEEXPR": _collate,
}
