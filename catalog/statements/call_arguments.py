"""Arguments of our functions and procedures: constants and parameters, by place or by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from catalog.errors import GatewayError
from catalog.pg.sqlstate import SYNTAX_ERROR

_UNCHANGING: Final = frozenset({"text", "varchar", "name", "bool"})
"""Types by whose casts an argument stays what it is."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the statement, as `$n`, for an argument."""

    number: int


@dataclass(frozen=True, slots=True)
class Computed:
    """An argument that PostgreSQL would have to compute."""


Value: TypeAlias = str | bool | Parameter | Computed | None
"""What an argument is."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call."""

    name: str | None
    """What it is given by, if not by its place."""
    value: Value


def read(nodes: Sequence[Mapping[str, Any]]) -> tuple[Argument, ...]:
    """Return arguments from their raw trees."""
    return tuple(_argument(node) for node in nodes)


def by_parameter(
    given: Sequence[Argument], parameters: Sequence[str], required: int
) -> Mapping[str, Argument] | None:
    """Return arguments by the parameters that they are for; None where they do not fit.

    As in PostgreSQL (chapter 4.3), none is given twice, and the first parameters are required.

    Raises:
        GatewayError: 42601 for one given by place after one given by name.
    """
    placed = next((n for n, argument in enumerate(given) if argument.name), len(given))
    if placed > len(parameters):
        return None
    named = [argument.name for argument in given[placed:]]
    if None in named:
        raise GatewayError(
            "positional argument cannot follow named argument", sqlstate=SYNTAX_ERROR
        )
    listed = [*parameters[:placed], *(name for name in named if name and name in parameters)]
    found = dict(zip(listed, given, strict=False))
    fits = len(found) == len(given) and found.keys() >= set(parameters[:required])
    return found if fits else None


def _argument(node: Mapping[str, Any]) -> Argument:
    named = node.get("NamedArgExpr")
    if named is None:
        return Argument(None, _value(node))
    return Argument(named["name"], _value(named["arg"]))


def _value(node: Mapping[str, Any]) -> Value:
    while "TypeCast" in node and _changes_nothing(node["TypeCast"]["typeName"]):
        node = node["TypeCast"]["arg"]
    if "ParamRef" in node:
        return Parameter(node["ParamRef"]["number"])
    constant = node.get("A_Const", {})
    if "sval" in constant:
        return str(constant["sval"].get("sval", ""))
    if "boolval" in constant:
        return bool(constant["boolval"].get("boolval"))
    return None if constant.get("isnull") else Computed()


def _changes_nothing(named: Mapping[str, Any]) -> bool:
    plain = named.keys() <= {"names", "typemod", "location"} and named.get("typemod") == -1
    *schema, name = (part["String"]["sval"] for part in named["names"])
    return plain and schema in ([], ["pg_catalog"]) and name in _UNCHANGING
