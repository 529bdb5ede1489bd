"""Values that columns of keys are compared with, where they are known before a statement runs."""

from typing import Final
from uuid import UUID

from rewrite.context import ParameterValue
from rewrite.dialect import oids
from rewrite.dialect.constants import decode
from rewrite.tree import Node

COMPARED: Final = {
    **dict.fromkeys(oids.INTEGERS, int),
    **dict.fromkeys((oids.TEXT, oids.VARCHAR, oids.UUID), str),
}
"""Types whose values are equal where their Python values are; those of uuid are text here."""

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
        return _plain(parameters[node.integer("paramid") - 1].value)
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
    return [_plain(element) for element in value]


def _plain(value: object) -> object:
    return str(value) if isinstance(value, UUID) else value
