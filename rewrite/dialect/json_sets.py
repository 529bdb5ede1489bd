"""Functions that return the parts of a jsonb value as rows (jsonfuncs.c)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.json_values import begins, elements_of, invalid, members_of, text_of
from rewrite.values import Value

_TEXTS: Final = "ARRAY<STRING>"
_PAIRS: Final = "ARRAY<STRUCT<key: STRING, value: STRING>>"


@dataclass(frozen=True, slots=True)
class Parts:
    """One such function."""

    array: Callable[[b.Tree], b.Tree]
    """From a value to the array of its parts, which is NULL of NULL."""
    read: Callable[[b.Tree], list[Value]]
    """From a part to the columns of its row."""


def _each(array: b.Tree, change: Callable[[b.Tree], b.Tree]) -> b.Tree:
    return b.fresh_variable(
        lambda name: b.call("transform", array, b.lambda_function(change(b.variable(name)), name))
    )


def _elements(change: Callable[[b.Tree], b.Tree] | None, value: b.Tree) -> b.Tree:
    def found(value: b.Tree) -> b.Tree:
        elements = elements_of(value)
        return b.case(
            (begins(value, "["), elements if change is None else _each(elements, change)),
            (begins(value, "{"), invalid("cannot extract elements from an object")),
            (b.is_not_null(value), invalid("cannot extract elements from a scalar")),
            otherwise=b.null_of(_TEXTS),
        )

    return b.let([value], found)


def _keys(value: b.Tree) -> b.Tree:
    def found(value: b.Tree) -> b.Tree:
        return b.case(
            (begins(value, "{"), _each(members_of(value)[0], text_of)),
            (begins(value, "["), invalid("cannot call jsonb_object_keys on an array")),
            (b.is_not_null(value), invalid("cannot call jsonb_object_keys on a scalar")),
            otherwise=b.null_of(_TEXTS),
        )

    return b.let([value], found)


def _pairs(name: str, change: Callable[[b.Tree], b.Tree], value: b.Tree) -> b.Tree:
    def pair(of: b.Tree) -> b.Tree:
        key, item = b.field(of, "key"), b.field(of, "item")
        return b.struct(key=text_of(key), value=change(item))

    def found(value: b.Tree) -> b.Tree:
        keys, items = members_of(value)
        zipped = b.call("arrays_zip", keys, items)
        named = b.cast(zipped, "ARRAY<STRUCT<key: STRING, item: STRING>>")
        return b.case(
            (begins(value, "{"), _each(named, pair)),
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


FUNCTIONS: Final[Mapping[str, Parts]] = {
    "jsonb_array_elements": Parts(partial(_elements, None), _one(oids.JSONB)),
    "jsonb_array_elements_text": Parts(partial(_elements, text_of), _one(oids.TEXT)),
    "jsonb_object_keys": Parts(_keys, _one(oids.TEXT)),
    "jsonb_each": Parts(partial(_pairs, "jsonb_each", lambda item: item), _two(oids.JSONB)),
    "jsonb_each_text": Parts(partial(_pairs, "jsonb_each_text", text_of), _two(oids.TEXT)),
}
"""By key, as in `catalog/pg/functions.py`."""
