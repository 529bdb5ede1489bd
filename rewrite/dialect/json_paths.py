"""What keys, numbers and paths lead to in jsonb values (jsonfuncs.c)."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.calls import Call, Handler, is_null_constant, strict
from rewrite.dialect.json_parts import begins, element, member, unquoted
from rewrite.dialect.literals import typed_null
from rewrite.errors import UnsupportedError
from rewrite.values import Value

_INDEX: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)0*([0-9]{1,10})")
_END: Final = 2**31


def _index(step: str) -> int | None:
    """Return the number of an element that a step of a path names, as ``strtoint`` reads it."""
    found = _INDEX.fullmatch(step)
    if found is None:
        return None
    number = int(found[1] + found[2])
    return number if -_END <= number < _END else None


def _step(key: str, value: b.Tree) -> b.Tree:
    index = _index(key)
    branches = [(begins(value, "{"), member(value, key))]
    if index is not None:
        branches.append((begins(value, "["), element(value, index)))
    return b.case(*branches)


def _at(value: b.Tree, path: Sequence[str]) -> b.Tree:
    """Return what a path leads to, through objects and arrays."""
    for key in path:
        value = b.let([value], partial(_step, key))
    return value


def subscripted(document: Value, subscripts: Sequence[Value]) -> Value:
    """Return what subscripts lead to, which are texts and numbers (``jsonb_subscript_fetch``)."""
    if any(map(is_null_constant, subscripts)):
        return typed_null(oids.JSONB, -1)
    known = [one.constant.value for one in subscripts if one.constant is not None]
    if len(known) < len(subscripts):
        raise UnsupportedError("subscripts of jsonb that are not constant are not supported")
    return Value(_at(document.sql, [str(one) for one in known]), oids.JSONB)


def _field(call: Call) -> b.Tree:
    """Return the value of a key; only objects have keys."""
    key = call.text_constant(1)
    return b.let([call.trees[0]], lambda value: b.case((begins(value, "{"), member(value, key))))


def _element(call: Call) -> b.Tree:
    """Return an element of an array; a scalar is taken for an array of itself."""
    index = call.integer_constant(1)

    def found(value: b.Tree) -> b.Tree:
        itself = [(b.negation(begins(value, "{")), value)] if index in {0, -1} else []
        return b.case((begins(value, "["), element(value, index)), *itself)

    return b.let([call.trees[0]], found)


def _path(call: Call) -> b.Tree:
    path = call.texts_constant(1)
    if None in path:
        return b.null_of("STRING")
    return _at(call.trees[0], [step for step in path if step is not None])


def _part(
    find: Callable[[Call], b.Tree], read: Callable[[b.Tree], b.Tree] = lambda found: found
) -> Handler:
    return strict(lambda call: call.result(read(find(call))))


FUNCTIONS: Final[dict[str, Handler]] = {
    "jsonb_object_field": _part(_field),
    "jsonb_object_field_text": _part(_field, unquoted),
    "jsonb_array_element": _part(_element),
    "jsonb_array_element_text": _part(_element, unquoted),
    "jsonb_extract_path": _part(_path),
    "jsonb_extract_path_text": _part(_path, unquoted),
}
