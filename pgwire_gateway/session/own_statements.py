"""Statements about the gateway itself: which they are, and what their results look like."""

from catalog.errors import GatewayError
from catalog.results import Analysis, ResultColumn
from catalog.sqlstate import UNDEFINED_FUNCTION
from catalog.statements import Statement, StatementKind
from pgwire_gateway.wire_types import type_oids

_INT8 = 20

LAST_DECISION = "gateway.last_decision"
"""SHOW tells who evaluated the statement before, and why."""

CHECK = "check"
"""SELECT gateway.check('t') counts rows in which a resident table differs from its journal."""


def is_own(statement: Statement) -> bool:
    """Return whether the gateway answers a statement itself.

    Raises:
        GatewayError: 42883 for a function of the gateway's that does not exist.
    """
    if statement.kind is StatementKind.SHOW:
        return bool(statement.details["name"] == LAST_DECISION)
    call = statement.details.get("own_call")
    if call is None:
        return False
    name, arguments = call
    if name != CHECK or len(arguments) != 1 or not isinstance(arguments[0], str):
        raise GatewayError(
            f"function gateway.{name} does not exist",
            sqlstate=UNDEFINED_FUNCTION,
            hint="There is gateway.check(table), the name of the table given as a constant.",
        )
    return True


def analysis(statement: Statement) -> Analysis:
    """Return the types of what an own statement answers."""
    if statement.kind is StatementKind.SHOW:
        column = ResultColumn(LAST_DECISION, 0, 0, type_oids.TEXT, -1, -1)
    else:
        column = ResultColumn(CHECK, 0, 0, _INT8, 8, -1)
    return Analysis((), (column,), None)
