"""Values that columns of keys are compared with, where they are known before a statement runs."""

from decimal import Decimal
from typing import Final

from catalog.pg.nodes import ParamKind
from rewrite.context import ParameterValue, UnreadValue
from rewrite.dialect import oids
from rewrite.dialect.constants import decode
from rewrite.dialect.literals import normalised
from rewrite.key_types import COMPARED, rounded, rounded_time
from rewrite.query.row_bounds import EQUALITIES
from rewrite.tree import Node

_OF_TWO_TYPES = frozenset({2347, 2360, 2373, 2386, 2536, 2542})
"""Operators "=" (pg_operator) of dates and timestamps with those of another type."""

SAME_TYPE: Final = EQUALITIES - _OF_TWO_TYPES
"""Operators "=" that compare values as Python does, where they are of types in ``COMPARED``."""

_EXTERNAL = ParamKind.EXTERN
RELABELLED: Final = frozenset({oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.OID})
"""Types that values of others are taken as, without a function, and stay what they are: of
character(n) blanks at the end do not count, and oid has negative integers as large numbers."""
WIDENING = frozenset({313, 481, 754, 1740, 1781, 1782})
"""Casts (pg_cast) from smallint to integer, integer to bigint, smallint to bigint, and from each to
numeric."""
NARROWING: Final = {
    314: range(-(2**15), 2**15),
    480: range(-(2**31), 2**31),
    714: range(-(2**15), 2**15),
    1287: range(2**32),
}
"""The casts the other way, and from bigint to oid, each with the values that it leaves as they
are."""
PADDING = 668
LIMITING = frozenset({PADDING, 669})
"""The functions that cut a character(n) and a varchar to its length (pg_cast)."""
ROUNDING: Final = {
    1703: oids.NUMERIC,
    1961: oids.TIMESTAMP,
    1967: oids.TIMESTAMPTZ,
    1968: oids.TIME,
}
"""The functions that round to a scale, or to digits of seconds, and their types (pg_cast)."""
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
    if node.tag == "RELABELTYPE" and node["resulttype"] in RELABELLED:
        return constant(node.node("arg"), parameters)
    if node.tag == "FUNCEXPR":
        return _cast(node, parameters)
    if node.tag == "PARAM" and node["paramkind"] == _EXTERNAL and node["paramtype"] in COMPARED:
        return normalised(_read(parameters[node.integer("paramid") - 1]))
    if node.tag != "CONST" or node["consttype"] not in COMPARED:
        raise UnknownValueError
    datum = node["constvalue"]
    return decode(node.integer("consttype"), datum) if isinstance(datum, bytes) else None


def _read(parameter: ParameterValue) -> object:
    if isinstance(parameter.value, UnreadValue):
        raise UnknownValueError
    return parameter.value


def is_readable(node: Node) -> bool:
    """Return whether `constant` can tell the value of a node, whatever parameters are."""
    if node.tag == "RELABELTYPE" and node["resulttype"] in RELABELLED:
        return is_readable(node.node("arg"))
    if node.tag == "FUNCEXPR":
        known = node["funcid"] in WIDENING.union(NARROWING, LIMITING, ROUNDING)
        return known and all(map(is_readable, node.nodes("args")))
    if node.tag == "PARAM":
        return node["paramkind"] == _EXTERNAL and node["paramtype"] in COMPARED
    return node.tag == "CONST" and node["consttype"] in COMPARED


def _cast(node: Node, parameters: tuple[ParameterValue, ...]) -> object:
    function = node.integer("funcid")
    if function in LIMITING:
        return _limited(node, parameters)
    if function in ROUNDING:
        value, modifier = (constant(argument, parameters) for argument in node.nodes("args"))
        return fitted(value, ROUNDING[node.integer("funcid")], modifier)
    if function not in WIDENING and function not in NARROWING:
        raise UnknownValueError
    value = constant(node.nodes("args")[0], parameters)
    if function in NARROWING and value is not None and value not in NARROWING[function]:
        raise UnknownValueError
    return value


def _limited(node: Node, parameters: tuple[ParameterValue, ...]) -> object:
    value, modifier, is_explicit = (constant(part, parameters) for part in node.nodes("args"))
    if not isinstance(value, str) or not isinstance(modifier, int):
        return value
    most = modifier - VARHDRSZ
    return limited(value[:most] if is_explicit else value, most, padded=node["funcid"] == PADDING)


def limited(value: str, most: int, *, padded: bool) -> str:
    """Return a text that is no longer than this, without the blanks at its end if it is `padded`.

    Raises:
        UnknownValueError: It would be cut.
    """
    text = value.rstrip(" ") if padded else value
    if len(text) > most:
        raise UnknownValueError
    return text


def fitted(value: object, type_oid: int, modifier: object) -> object:
    """Return a value of a type in ``ROUNDING`` as it is rounded; None for NULL.

    Raises:
        UnknownValueError: It has no place, or is of another type.
    """
    found: object = None
    if value is None:
        return None
    if isinstance(modifier, int) and type_oid == oids.NUMERIC and isinstance(value, Decimal | int):
        found = rounded(Decimal(value), modifier)
    elif isinstance(modifier, int) and type_oid != oids.NUMERIC and isinstance(value, int):
        found = rounded_time(value, type_oid, modifier)
    if found is None:
        raise UnknownValueError
    return found


def elements(node: Node, parameters: tuple[ParameterValue, ...]) -> list[object]:
    """Return the values in a constant array or a parameter that is one; none for NULL.

    Raises:
        UnknownValueError: It is something else, or an array of other types.
    """
    if node.tag in _ARRAY_CASTS and _keeps_elements(node):
        return elements(node.node("arg"), parameters)
    if node.tag == "ARRAYEXPR" and not node.get("multidims"):
        return [constant(element, parameters) for element in node.nodes("elements")]
    if node.tag == "PARAM" and node["paramkind"] == _EXTERNAL:
        type_oid, value = node.integer("paramtype"), _read(parameters[node.integer("paramid") - 1])
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


def _keeps_elements(node: Node) -> bool:
    """Return whether a cast of an array leaves its elements what they are."""
    inner = node.optional("elemexpr")
    if inner is not None and inner.tag == "FUNCEXPR":
        return inner["funcid"] in WIDENING and inner.nodes("args")[0].tag == "CASETESTEXPR"
    known = oids.ELEMENTS.get(node.integer("resulttype")) in RELABELLED
    return known and (inner is None or inner.tag == "RELABELTYPE")
