"""One-dimensional arrays of simple types, counted from 1."""

import re
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import Call, Handler
from rewrite.dialect.numerics import as_text
from rewrite.dialect.text_output import output_text
from rewrite.dialect.type_mapping import storage_type
from rewrite.errors import UnsupportedError
from rewrite.values import Constant, Value


def element_sql(value: Value) -> b.Tree:
    """Return a value as element of an array: its storage representation without modifier."""
    return as_text(value) if value.type_oid == oids.NUMERIC else value.sql


def element_value(sql: b.Tree, type_oid: int) -> Value:
    """Return an element of an array as a value."""
    return Value(sql, type_oid)


def array_of(elements: list[Value], array_oid: int) -> Value:
    """Return ``ARRAY[…]``, which is a constant where its elements are."""
    if array_oid not in oids.ELEMENTS:
        raise UnsupportedError(f"arrays of {oids.type_name(array_oid)} are not supported")
    sql = b.array(*(element_sql(element) for element in elements))
    known = [element.constant for element in elements]
    values = tuple([one.value for one in known if one is not None])
    constant = Constant(values) if len(values) == len(known) else None
    return Value(b.cast(sql, storage_type(array_oid, -1)), array_oid, constant=constant)


_NEEDS_QUOTES: Final = r'^$|[{}",\\\s\x0b]|^(?i:null)$'
"""What array_out puts in quotes."""
_BOX: Final = 603
"""The only type with another delimiter than a comma."""


def text_of(elements: b.Tree, element_oid: int) -> b.Tree:
    """Return PostgreSQL's text of an array of values that Spark holds as text.

    Arrays of types that are carried as text are carried as text too.
    """
    if storage_type(element_oid, -1) != "STRING" or element_oid == _BOX:
        raise UnsupportedError(f"arrays of {oids.type_name(element_oid)} are not supported")

    def written(name: str) -> b.Tree:
        item = b.variable(name)
        escaped = b.call("regexp_replace", item, b.string(r'(["\\\\])'), b.string(r"\\$1"))
        quoted = b.call("concat", b.string('"'), escaped, b.string('"'))
        needed = b.call("rlike", item, b.string(_NEEDS_QUOTES))
        text = b.case((b.is_null(item), b.string("NULL")), (needed, quoted), otherwise=item)
        return b.call("transform", elements, b.lambda_function(text, name))

    listed = b.call("array_join", b.fresh_variable(written), b.string(","))
    return b.call("concat", b.string("{"), listed, b.string("}"))


def subscript(array: Value, index: Value, element_oid: int) -> Value:
    """Return ``array[index]``, NULL outside the array."""
    # The first of all integers has none before it.
    position = b.infix(exp.Sub, b.call("greatest", index.sql, b.integer(0)), b.integer(1))
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


def _to_string(call: Call) -> Value:
    """Map ``array_to_string``, which skips NULL unless it is given a text for it."""
    array = call.args[0]
    element = oids.ELEMENTS.get(array.type_oid)
    if element is None:
        raise call.refuse()

    def text(name: str) -> b.Tree:
        item = output_text(element_value(b.variable(name), element), call.constants)
        return b.call("transform", array.sql, b.lambda_function(item, name))

    known = b.both(b.is_not_null(array.sql), b.is_not_null(call.trees[1]))
    replacement = call.trees[2] if len(call.args) == 3 else b.null_of("STRING")
    texts = b.fresh_variable(text)
    without = b.call("array_join", texts, call.trees[1])
    joined = b.case(
        (b.is_null(replacement), without),
        otherwise=b.call("array_join", texts, call.trees[1], replacement),
    )
    return call.result(b.case((known, joined if len(call.args) == 3 else without)))


def _to_array(call: Call) -> Value:
    """Map ``string_to_array`` for a delimiter that is a constant and not empty."""
    delimiter = call.text_constant(1)
    if not delimiter or len(call.args) != 2:
        raise call.refuse("with these arguments")

    def body(text: b.Tree) -> b.Tree:
        empty = b.cast(b.array(), "ARRAY<STRING>")
        pattern = b.string(re.escape(delimiter))
        return b.case(
            (b.infix(exp.EQ, text, b.string("")), empty),
            otherwise=b.call("split", text, pattern, b.integer(-1)),
        )

    return call.result(b.let([call.trees[0]], body))


def _of_elements(handler: Handler, index: int) -> Handler:
    """Refuse arrays that are carried as text."""

    def handle(call: Call) -> Value:
        if call.args[index].type_oid not in oids.ELEMENTS:
            raise call.refuse(f"over {oids.type_name(call.args[index].type_oid)}")
        return handler(call)

    return handle


FUNCTIONS: Final[dict[str, Handler]] = {
    "array_to_text": _to_string,
    "array_to_text_null": _to_string,
    "text_to_array": _to_array,
    "array_length": _of_elements(_length, 0),
    "array_upper": _of_elements(_length, 0),
    "array_lower": _of_elements(_lower, 0),
    "array_cardinality": _of_elements(
        lambda call: call.result(b.call("cardinality", call.trees[0])), 0
    ),
    "array_append": _of_elements(_append, 0),
    "array_prepend": _of_elements(_prepend, 1),
    "array_cat": _of_elements(_concatenate, 0),
}
