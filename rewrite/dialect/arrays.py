"""One-dimensional arrays of simple types, counted from 1."""

from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import Call, Handler
from rewrite.dialect.numerics import as_text
from rewrite.dialect.type_mapping import storage_type
from rewrite.errors import UnsupportedError
from rewrite.values import Value


def element_sql(value: Value) -> b.Tree:
    """Return a value as element of an array: its storage representation without modifier."""
    return as_text(value) if value.type_oid == oids.NUMERIC else value.sql


def element_value(sql: b.Tree, type_oid: int) -> Value:
    """Return an element of an array as a value."""
    return Value(sql, type_oid)


def array_of(elements: list[Value], array_oid: int) -> Value:
    """Return ``ARRAY[…]``."""
    if array_oid not in oids.ELEMENTS:
        raise UnsupportedError(f"arrays of {oids.type_name(array_oid)} are not supported")
    sql = b.array(*(element_sql(element) for element in elements))
    return Value(b.cast(sql, storage_type(array_oid, -1)), array_oid)


def subscript(array: Value, index: Value, element_oid: int) -> Value:
    """Return ``array[index]``, NULL outside the array."""
    position = b.infix(exp.Sub, index.sql, b.integer(1))
    return element_value(b.call("get", array.sql, position), element_oid)


def _is_empty(array: b.Tree) -> b.Tree:
    return b.infix(exp.EQ, b.call("cardinality", array), b.integer(0))


def _length(call: Call) -> Value:
    if call.integer_constant(1) != 1:
        raise call.refuse("of other than the first dimension")
    count = b.call("cardinality", call.trees[0])
    return call.result(b.call("nullif", count, b.integer(0)))


def _lower(call: Call) -> Value:
    if call.integer_constant(1) != 1:
        raise call.refuse("of other than the first dimension")
    array = call.trees[0]
    return call.result(b.case((b.negation(_is_empty(array)), b.integer(1))))


def _append(call: Call) -> Value:
    array, element = call.args
    added = b.array(element_sql(element))
    return call.result(b.call("concat", _or_empty(array), added))


def _prepend(call: Call) -> Value:
    element, array = call.args
    return call.result(b.call("concat", b.array(element_sql(element)), _or_empty(array)))


def _or_empty(array: Value) -> b.Tree:
    empty = b.cast(b.array(), storage_type(array.type_oid, -1))
    return b.call("coalesce", array.sql, empty)


def _concatenate(call: Call) -> Value:
    def body(left: b.Tree, right: b.Tree) -> b.Tree:
        return b.call("coalesce", b.call("concat", left, right), left, right)

    return call.result(b.let(call.trees, body))


FUNCTIONS: Final[dict[str, Handler]] = {
    "array_length": _length,
    "array_upper": _length,
    "array_lower": _lower,
    "array_cardinality": lambda call: call.result(b.call("cardinality", call.trees[0])),
    "array_append": _append,
    "array_prepend": _prepend,
    "array_cat": _concatenate,
}
