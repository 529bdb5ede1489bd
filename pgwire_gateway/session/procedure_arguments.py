"""Arguments of our procedures (CALL gateway.…), with the values that are bound to parameters."""

from collections.abc import Mapping

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from catalog.statements import procedure_calls
from pgwire_gateway.session.invocation import Invocation


def read(call: Invocation) -> Mapping[str, str]:
    """Return the arguments of a call that are not NULL, by the names of the parameters.

    Raises:
        GatewayError: 42883 for arguments that are not those of the procedure, 0A000 for an
            expression.
    """
    codec = call.session.catalog.codec
    bound = [None if value is None else bytes(value).decode(codec) for value in call.values]
    return procedure_calls.read(*call.statement.details["procedure_call"]).values(bound)


def require(given: Mapping[str, str], *names: str) -> None:
    """Refuse arguments that are NULL, or empty (22004)."""
    for name in names:
        if not given.get(name):
            raise GatewayError(f'"{name}" must not be NULL', sqlstate=codes.NULL_VALUE_NOT_ALLOWED)
