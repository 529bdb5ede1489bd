"""Values of a statement's parameters, as they were bound."""

from collections.abc import Sequence

from catalog.errors import GatewayError
from catalog.pg import sqlstate
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import format_codes
from pgwire_gateway.wire_types import parameters as wire_parameters
from rewrite.context import ParameterValue, UnreadValue

BINARY = 1
"""Format code of values in binary."""


def bind(call: Invocation) -> tuple[ParameterValue, ...]:
    """Turn the values of a Bind message into typed ones; PostgreSQL reads those given as text.

    Values without a form of Python's remain unread.

    Raises:
        GatewayError: 22P02 or 22P03 for a value that is none of its type.
    """
    if not call.values:
        return ()
    oids = call.parameter_oids
    codes = format_codes(call.formats, len(call.values))
    binary: Sequence[bytes | None] = call.values
    if any(code != BINARY for code in codes):
        binary = call.session.catalog.canonical_parameters(oids, call.values, codes)
    return tuple(
        ParameterValue(oid, _read(oid, data)) for oid, data in zip(oids, binary, strict=True)
    )


def _read(type_oid: int, data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return wire_parameters.decode(type_oid, data)
    except GatewayError as error:
        if error.sqlstate != sqlstate.FEATURE_NOT_SUPPORTED:
            raise
        return UnreadValue(data, error.message)
