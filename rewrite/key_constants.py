"""Values that columns of keys are compared with, where they are known before a statement runs."""

from typing import Final

from rewrite.context import ParameterValue
from rewrite.dialect import oids
from rewrite.dialect.constants import decode
from rewrite.dialect.literals import (
    DATE_END,
    DATE_MIN,
    TIMESTAMP_END,
    TIMESTAMP_MIN,
    normalised,
)
from rewrite.query.row_bounds import EQUALITIES
from rewrite.tree import Node

COMPARED: Final = {
    **dict.fromkeys(oids.INTEGERS, int),
    **dict.fromkeys((oids.TEXT, oids.VARCHAR, oids.UUID), str),
    **dict.fromkeys((oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ), int),
    oids.BOOL: bool,
}
"""Types of keys that may be hot: their values are equal where their Python values are.

Those of uuid are text here, dates are days and timestamps microseconds since 1970. The catalog has
the same list (``pg_journal.is_hot_key_type``).
"""

HELD: Final = {
    oids.INT2: range(-(2**15), 2**15),
    oids.INT4: range(-(2**31), 2**31),
    oids.INT8: range(-(2**63), 2**63),
    oids.DATE: range(DATE_MIN, DATE_END),
    oids.TIMESTAMP: range(TIMESTAMP_MIN, TIMESTAMP_END),
    oids.TIMESTAMPTZ: range(TIMESTAMP_MIN, TIMESTAMP_END),
}
"""Values that rows of journals can have, where constants can be others."""

_OF_TWO_TYPES = frozenset({2347, 2360, 2373, 2386, 2536, 2542})
"""Operators "=" (pg_operator) of dates and timestamps with those of another type."""

SAME_TYPE: Final = EQUALITIES - _OF_TWO_TYPES
"""Operators "=" that compare values as Python does, where they are of types in ``COMPARED``."""

_EXTERNAL = 0
WIDENING = frozenset({313, 481, 754})
"""Casts (pg_cast) from smallint to integer, integer to bigint, smallint to bigint."""
NARROWING: Final = {
    314: range(-(2**15), 2**15),
    480: range(-(2**31), 2**31),
    714: range(-(2**15), 2**15),
}
"""The casts the other way, each with the values that it leaves as they are."""
LIMITING = 669
"""The function that cuts a varchar to its length (pg_cast)."""
VARHDRSZ = 4
_ARRAY_CASTS = frozenset({"RELABELTYPE", "ARRAYCOERCEEXPR"})


class UnknownValueError(Exception):
    """A value is not known before the statement runs, or not as Python's."""


def constant(node: Node, parameters: tuple[ParameterValue, ...]) -> object:
    """Return the value of a constant or a parameter of a type in ``COMPARED``; None for NULL.

    Raises:
        UnknownValueError: It is something else.
    """
    # Where the type is another one, so is the operator, and its idea of what is equal.
    if node.tag == "RELABELTYPE" and node["resulttype"] in COMPARED:
        return constant(node.node("arg"), parameters)
    if node.tag == "FUNCEXPR":
        return _cast(node, parameters)
    if node.tag == "PARAM" and node["paramkind"] == _EXTERNAL and node["paramtype"] in COMPARED:
        return normalised(parameters[node.integer("paramid") - 1].value)
    if node.tag != "CONST" or node["consttype"] not in COMPARED:
        raise UnknownValueError
    datum = node["constvalue"]
    return decode(node.integer("consttype"), datum) if isinstance(datum, bytes) else None


def _cast(node: Node, parameters: tuple[ParameterValue, ...]) -> object:
    function = node.integer("funcid")
    if function == LIMITING:
        return _limited(node, parameters)
    if function not in WIDENING and function not in NARROWING:
        raise UnknownValueError
    value = constant(node.nodes("args")[0], parameters)
    if function in NARROWING and value is not None and value not in NARROWING[function]:
        raise UnknownValueError
    return value


def _limited(node: Node, parameters: tuple[ParameterValue, ...]) -> object:
    text, modifier, _ = node.nodes("args")
    value, limit = constant(text, parameters), constant(modifier, parameters)
    if isinstance(value, str) and isinstance(limit, int) and len(value) > limit - VARHDRSZ:
        raise UnknownValueError
    return value


def elements(node: Node, parameters: tuple[ParameterValue, ...]) -> list[object]:
    """Return the values in a constant array or a parameter that is one; none for NULL.

    Raises:
        UnknownValueError: It is something else, or an array of other types.
    """
    if node.tag in _ARRAY_CASTS and oids.ELEMENTS.get(node.integer("resulttype")) in COMPARED:
        inner = node.optional("elemexpr")
        if inner is not None and inner.tag != "RELABELTYPE":
            raise UnknownValueError
        return elements(node.node("arg"), parameters)
    if node.tag == "ARRAYEXPR" and not node.get("multidims"):
        return [constant(element, parameters) for element in node.nodes("elements")]
    if node.tag == "PARAM" and node["paramkind"] == _EXTERNAL:
        type_oid, value = node.integer("paramtype"), parameters[node.integer("paramid") - 1].value
    elif node.tag == "CONST":
        type_oid, datum = node.integer("consttype"), node["constvalue"]
        value = decode(type_oid, datum) if isinstance(datum, bytes) else None
    else:
        raise UnknownValueError
    if oids.ELEMENTS.get(type_oid) not in COMPARED:
        raise UnknownValueError
    if value is None:
        return []
    if not isinstance(value, list):
        raise UnknownValueError
    return [normalised(element) for element in value]


def is_held(value: object, type_oid: int) -> bool:
    """Return whether rows can have a value in a column that it is compared with."""
    held = HELD.get(type_oid)
    return held is None or value in held
