"""Failures as clients see them: any exception becomes the fields of an ErrorResponse.

The one place where exceptions turn into messages. Knows no socket and no session.
"""

import logging

from catalog.connection import contexts
from catalog.errors import DATA_TYPE_NAME, CatalogUnavailableError, GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.messages.errors import (
    FramingError,
    InvalidTextError,
    MalformedMessageError,
    UntranslatableTextError,
)
from pgwire_gateway.messages.responses import ErrorResponse

logger = logging.getLogger(__name__)

ERROR = "ERROR"
"""Severity of a failure after which the session goes on."""
FATAL = "FATAL"
"""Severity of a failure that ends the connection."""


class ProtocolError(GatewayError):
    """The frontend broke the protocol (SQLSTATE 08P01); the connection ends."""

    sqlstate = codes.PROTOCOL_VIOLATION


class FatalError(GatewayError):
    """A failure that ends the connection, for instance at startup or shutdown."""


def error_response(error: BaseException, severity: str = ERROR) -> ErrorResponse:
    """Describe an exception with the fields of PostgreSQL's "Error and Notice Message Fields".

    What is nested too deeply for us is 54001, as it is for PostgreSQL. What is not one of ours
    becomes XX000: its traceback goes to the log, not on the wire.
    """
    if isinstance(error, UntranslatableTextError):
        return _response(severity, codes.UNTRANSLATABLE_CHARACTER, str(error))
    if isinstance(error, InvalidTextError):
        return _response(severity, codes.CHARACTER_NOT_IN_REPERTOIRE, str(error))
    if isinstance(error, MalformedMessageError):
        return _response(severity, codes.PROTOCOL_VIOLATION, str(error))
    if isinstance(error, RecursionError):
        return _response(severity, codes.STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
    if not isinstance(error, GatewayError):
        logger.error("internal error", exc_info=error)
        return _response(severity, codes.INTERNAL_ERROR, "internal error in the gateway")
    extra = {
        "D": error.detail,
        "H": error.hint,
        "P": None if error.position is None else str(error.position),
    }
    fields = {code: value for code, value in extra.items() if value is not None}
    fields |= error.fields
    if contexts.is_sealed(fields.get(DATA_TYPE_NAME, "")):
        del fields[DATA_TYPE_NAME]
    return _response(severity, error.sqlstate, error.message, fields)


def is_fatal(error: BaseException) -> bool:
    """Return whether the connection ends after this failure."""
    hung_up = ConnectionError | EOFError
    lost = FatalError | ProtocolError | FramingError | CatalogUnavailableError
    return isinstance(error, lost | hung_up)


def _response(
    severity: str, sqlstate: str, message: str, fields: dict[str, str] | None = None
) -> ErrorResponse:
    head = {"S": severity, "V": severity, "C": sqlstate, "M": message}
    return ErrorResponse.of(head | (fields or {}))
