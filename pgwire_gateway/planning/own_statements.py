"""Statements about the gateway itself: which they are, and what their results look like."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import NoneType
from typing import Final

from catalog import boolean_text
from catalog.errors import GatewayError
from catalog.pg.sqlstate import FEATURE_NOT_SUPPORTED, UNDEFINED_FUNCTION, UNDEFINED_SCHEMA
from catalog.results import Analysis, ResultColumn
from catalog.statements import call_arguments
from catalog.statements.call_arguments import Argument, Parameter, Value
from catalog.statements.splitting import Statement, StatementKind
from pgwire_gateway.wire_types import type_oids

LAST_DECISION: Final = "gateway.last_decision"
"""SHOW tells who evaluated the statement before, and why."""

CHECK: Final = "check"
"""SELECT gateway.check('t') counts rows in which a resident table differs from its journal."""

ROLLBACK_COMMIT: Final = "rollback_commit"
"""SELECT gateway.rollback_commit('…' [, 't' [, cascade]]) takes a commit back."""

CREATE_SAVEPOINT: Final = "create_savepoint"
"""SELECT gateway.create_savepoint('t', '…') keeps a commit to go back to."""

ROLLBACK_TO_SAVEPOINT: Final = "rollback_to_savepoint"
"""SELECT gateway.rollback_to_savepoint('t', …) makes a table what it was after a commit."""

DELETE_SAVEPOINT: Final = "delete_savepoint"
"""SELECT gateway.delete_savepoint('t', …) forgets a savepoint."""

FUNCTIONS: Final[dict[str, tuple[int, dict[str, type]]]] = {
    CHECK: (1, {"table": str}),
    ROLLBACK_COMMIT: (1, {"commit": str, "table": str, "cascade": bool}),
    CREATE_SAVEPOINT: (2, {"table": str, "commit": str}),
    ROLLBACK_TO_SAVEPOINT: (2, {"table": str, "commit": str}),
    DELETE_SAVEPOINT: (2, {"table": str, "commit": str}),
}
"""How many arguments functions have at least, and names and types of all.

They return numbers of rows.
"""

_CALL: Final = re.compile(rf'\bgateway"?\s*\.\s*"?({"|".join(FUNCTIONS)})"?\s*\(', re.IGNORECASE)


def is_own(statement: Statement) -> bool:
    """Return whether the gateway answers a statement itself.

    Raises:
        GatewayError: 42883 for a function of the gateway's that does not exist, 22P02 for a text
            that is no boolean where one is expected.
    """
    if statement.kind is StatementKind.SHOW:
        return bool(statement.details["name"] == LAST_DECISION)
    call = statement.details.get("own_call")
    if call is not None and _values(*call) is None:
        raise GatewayError(
            f"function gateway.{call[0]} does not exist",
            sqlstate=UNDEFINED_FUNCTION,
            hint="There are gateway.check(table), rollback_commit(commit, table, cascade),"
            " create_savepoint(table, commit), rollback_to_savepoint(table, commit) and"
            " delete_savepoint(table, commit), with constants or parameters.",
        )
    return call is not None


def called(statement: Statement) -> tuple[str, list[Value]]:
    """Return the name of a function that an own statement calls, and values for its parameters.

    A value is a constant, or a parameter of the statement; None too where none is given.
    """
    name, given = statement.details["own_call"]
    return name, _values(name, given) or []


def _values(name: str, given: Sequence[Argument]) -> list[Value] | None:
    """Return what the parameters of a function are given; None where it has no such parameters."""
    least, types = FUNCTIONS.get(name, (0, {}))
    found = call_arguments.by_parameter(given, list(types), least)
    if not types or found is None:
        return None
    values = {parameter: argument.value for parameter, argument in found.items()}
    for parameter, value in values.items():
        if types[parameter] is bool and isinstance(value, str):
            values[parameter] = boolean_text.parse(value)
        elif not isinstance(value, (types[parameter], Parameter, NoneType)):
            return None
    return [values.get(parameter) for parameter in types]


def analysis(statement: Statement) -> Analysis:
    """Return the types of what an own statement answers, and of its parameters."""
    if statement.kind is StatementKind.SHOW:
        return Analysis((), (ResultColumn(LAST_DECISION, 0, 0, type_oids.TEXT, -1, -1),), None)
    name, arguments = called(statement)
    column = ResultColumn(name, 0, 0, type_oids.INT8, 8, -1)
    found = dict.fromkeys(range(1, statement.parameter_count + 1), type_oids.TEXT)
    for argument, kind in zip(arguments, FUNCTIONS[name][1].values(), strict=True):
        if isinstance(argument, Parameter):
            found[argument.number] = type_oids.BOOL if kind is bool else type_oids.TEXT
    return Analysis(tuple(found.values()), (column,), None)


@contextmanager
def refused_elsewhere(statement: Statement) -> Iterator[None]:
    """Say of a function of the gateway's that it stands where PostgreSQL would have to run it.

    Raises:
        GatewayError: 0A000 in place of PostgreSQL's error that there is no such schema.
    """
    try:
        yield
    except GatewayError as error:
        missing = error.sqlstate == UNDEFINED_SCHEMA and '"gateway"' in error.message
        called = _CALL.search(statement.text) if missing else None
        if called is None:
            raise
        name = called[1].lower()
        raise GatewayError(
            f"gateway.{name} in this place is not supported",
            sqlstate=FEATURE_NOT_SUPPORTED,
            hint=f"Call gateway.{name} alone, in SELECT or in SELECT * FROM, with constants or"
            " parameters.",
            position=error.position,
        ) from error
