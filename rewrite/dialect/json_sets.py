"""Functions that return the parts of a jsonb value as rows (jsonfuncs.c)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.json_parts import begins, elements, invalid, items, keys, unquoted
from rewrite.values import Value

_TEXTS: Final = "ARRAY<STRING>"
_PAIRS: Final = "ARRAY<STRUCT<key: STRING, value: STRING>>"

_Change = Callable[[b.Tree], b.Tree]


@dataclass(frozen=True, slots=True)
class Parts:
    """One such function."""

    array: Callable[[b.Tree], b.Tree]
    """From a value to the array of its parts, which is NULL of NULL."""
    read: Callable[[b.Tree], list[Value]]
    """From a part to the columns of its row."""


def _itself(part: b.Tree) -> b.Tree:
    return part


def _each(array: b.Tree, change: _Change) -> b.Tree:
    """Return an array of what the elements of one are changed to."""
    return b.fresh_variable(
        lambda name: b.call("transform", array, b.lambda_function(change(b.variable(name)), name))
    )


def _elements(change: _Change, value: b.Tree) -> b.Tree:
    def found(value: b.Tree) -> b.Tree:
        return b.case(
            (begins(value, "["), _each(elements(value), change)),
            (begins(value, "{"), invalid("cannot extract elements from an object")),
            (b.is_not_null(value), invalid("cannot extract elements from a scalar")),
            otherwise=b.null_of(_TEXTS),
        )

    return b.let([value], found)


def _keys(value: b.Tree) -> b.Tree:
    def found(value: b.Tree) -> b.Tree:
        return b.case(
            (begins(value, "{"), _each(keys(value), unquoted)),
            (begins(value, "["), invalid("cannot call jsonb_object_keys on an array")),
            (b.is_not_null(value), invalid("cannot call jsonb_object_keys on a scalar")),
            otherwise=b.null_of(_TEXTS),
        )

    return b.let([value], found)


def _pairs(name: str, change: _Change, value: b.Tree) -> b.Tree:
    def pair(of: b.Tree) -> b.Tree:
        key, item = b.field(of, "key"), b.field(of, "value")
        return b.struct(key=unquoted(key), value=change(item))

    def found(value: b.Tree) -> b.Tree:
        zipped = b.cast(b.call("arrays_zip", keys(value), items(value)), _PAIRS)
        return b.case(
            (begins(value, "{"), _each(zipped, pair)),
            (b.is_not_null(value), invalid(f"cannot call {name} on a non-object")),
            otherwise=b.null_of(_PAIRS),
        )

    return b.let([value], found)


def _one(type_oid: int) -> Callable[[b.Tree], list[Value]]:
    return lambda part: [Value(part, type_oid)]


def _two(type_oid: int) -> Callable[[b.Tree], list[Value]]:
    def columns(part: b.Tree) -> list[Value]:
        return [Value(b.field(part, "key"), oids.TEXT), Value(b.field(part, "value"), type_oid)]

    return columns


SETS: Final[Mapping[str, Parts]] = {
    "jsonb_array_elements": Parts(partial(_elements, _itself), _one(oids.JSONB)),
    "jsonb_array_elements_text": Parts(partial(_elements, unquoted), _one(oids.TEXT)),
    "jsonb_object_keys": Parts(_keys, _one(oids.TEXT)),
    "jsonb_each": Parts(partial(_pairs, "jsonb_each", _itself), _two(oids.JSONB)),
    "jsonb_each_text": Parts(partial(_pairs, "jsonb_each_text", unquoted), _two(oids.TEXT)),
}
"""By key, as in `catalog/pg/functions.py`."""
