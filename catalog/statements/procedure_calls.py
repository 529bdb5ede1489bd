"""CALL gateway.procedure(…): our own procedures, for clients that know PostgreSQL's SQL alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog.errors import GatewayError
from catalog.pg.sqlstate import FEATURE_NOT_SUPPORTED, UNDEFINED_FUNCTION
from catalog.statements import call_arguments
from catalog.statements.call_arguments import Computed, Parameter, Value

CONVERT: Final = "convert"
REGISTER: Final = "register_journal"
REGISTER_TABLE: Final = "register_table"
REGISTER_SCHEMA: Final = "register_schema"
ARCHIVE: Final = "archive"
PARTITION_BY: Final = "partition_by"

PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    CONVERT: ("target", "source", "format", "key", "in_place"),
    REGISTER: (
        "target",
        "location",
        "key",
        "format",
        "version_column",
        "subsequent_column",
        "version_type",
        "columns",
        "connection",
    ),
    REGISTER_TABLE: ("target", "location", "format", "columns", "connection"),
    REGISTER_SCHEMA: ("target", "location", "connection", "without"),
    ARCHIVE: ("target",),
    PARTITION_BY: ("target", "columns"),
}
"""Our procedures with their parameters, which are text, in order."""

REQUIRED: Final[Mapping[str, int]] = {
    CONVERT: 2,
    REGISTER: 3,
    REGISTER_TABLE: 2,
    REGISTER_SCHEMA: 3,
    ARCHIVE: 1,
    PARTITION_BY: 2,
}
"""How many of them have no default."""


@dataclass(frozen=True, slots=True)
class ProcedureCall:
    """One call."""

    procedure: str
    arguments: Mapping[str, str | Parameter | None]
    """By the names of the procedure's parameters; those left out are missing."""

    def values(self, bound: Sequence[str | None]) -> Mapping[str, str]:
        """Return the arguments that are not NULL, with the values bound to parameters."""
        found = {
            name: bound[argument.number - 1] if isinstance(argument, Parameter) else argument
            for name, argument in self.arguments.items()
        }
        return {name: value for name, value in found.items() if value is not None}


def details(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """`procedure_call`: name and trees of the arguments, of a procedure of ours; else nothing."""
    call = fields["funccall"]
    name = [part["String"]["sval"] for part in call["funcname"]]
    if len(name) != 2 or name[0] != "gateway" or name[1] not in PARAMETERS:
        return {}
    return {"procedure_call": (name[1], tuple(call.get("args", ())))}


def calls(details: Mapping[str, Any], procedure: str) -> bool:
    """Tell whether a statement with these details calls one of our procedures."""
    return "procedure_call" in details and details["procedure_call"][0] == procedure


def read(procedure: str, arguments: Sequence[Mapping[str, Any]]) -> ProcedureCall:
    """Return a call from the raw trees of its arguments.

    Raises:
        GatewayError: 42883 for arguments that are not those of the procedure, 0A000 for an
            expression.
    """
    given = call_arguments.read(arguments)
    found = call_arguments.by_parameter(given, PARAMETERS[procedure], REQUIRED[procedure])
    if found is None:
        raise _misfit(procedure)
    told = {name: _text(procedure, argument.value) for name, argument in found.items()}
    return ProcedureCall(procedure, told)


def _misfit(procedure: str) -> GatewayError:
    listed = ", ".join(f"{name} => text" for name in PARAMETERS[procedure])
    return GatewayError(
        f"procedure gateway.{procedure} with these arguments does not exist",
        sqlstate=UNDEFINED_FUNCTION,
        hint=f"There is gateway.{procedure}({listed}).",
    )


def _text(procedure: str, value: Value) -> str | Parameter | None:
    if isinstance(value, Computed):
        raise GatewayError(
            f"arguments of gateway.{procedure} other than constants and parameters"
            " are not supported",
            sqlstate=FEATURE_NOT_SUPPORTED,
        )
    return str(value).lower() if isinstance(value, bool) else value
