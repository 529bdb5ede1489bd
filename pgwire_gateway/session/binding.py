"""Values of a statement's parameters, as they were bound."""

from collections.abc import Sequence
from typing import Final

from catalog.errors import GatewayError
from catalog.pg import sqlstate, types
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import format_codes
from pgwire_gateway.wire_types import parameters as wire_parameters
from pgwire_gateway.wire_types.client_values import in_utf8
from rewrite.context import ParameterValue, UnreadValue

BINARY = 1
"""Format code of values in binary."""
READ_AT_BIND: Final = frozenset(
    {
        *(types.BOOL, types.BYTEA, types.INT8, types.INT2, types.INT4, types.TEXT, types.JSON),
        *(types.FLOAT4, types.FLOAT8, types.BPCHAR, types.VARCHAR, types.DATE, types.TIME),
        *(types.TIMESTAMP, types.TIMESTAMPTZ, types.INTERVAL, types.NUMERIC, types.UUID),
        types.JSONB,
    }
)
"""Types whose values PostgreSQL has read when they are bound, if there are no others."""
_FREE_FORMS: Final = frozenset({types.JSONB, types.JSONB_ARRAY})
"""Types whose binary form is the client's text, which PostgreSQL prints in another way."""


def bind(call: Invocation) -> tuple[ParameterValue, ...]:
    """Turn the values of a Bind message into typed ones; PostgreSQL reads those given as text.

    A value of jsonb is read by it in either format.

    Values without a form of Python's remain unread.

    Raises:
        GatewayError: 22P02 or 22P03 for a value that is none of its type.
    """
    if not call.values:
        return ()
    oids = call.parameter_oids
    codes = format_codes(call.formats, len(call.values))
    binary: Sequence[bytes | None] = call.values
    if any(code != BINARY for code in codes) or _is_as_spelled(oids):
        binary = call.session.catalog.canonical_parameters(oids, call.values, codes)
    encoding = call.session.encoding
    return tuple(
        ParameterValue(oid, _read(oid, in_utf8(data, oid, encoding)))
        for oid, data in zip(oids, binary, strict=True)
    )


def _is_as_spelled(oids: Sequence[int]) -> bool:
    """Tell whether there are values in binary as the client has written them, and not yet read."""
    return not (READ_AT_BIND.issuperset(oids) or _FREE_FORMS.isdisjoint(oids))


def _read(type_oid: int, data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return wire_parameters.decode(type_oid, data)
    except GatewayError as error:
        if error.sqlstate != sqlstate.FEATURE_NOT_SUPPORTED:
            raise
        return UnreadValue(data, error.message)
