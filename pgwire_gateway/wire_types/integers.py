"""Integers and object identifiers."""

from collections.abc import Callable

import pyarrow as pa

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.wire_types.buffers import big_endian, fixed, numbers, validity
from pgwire_gateway.wire_types.settings import EncodingSettings


def text(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Write decimal digits."""
    return values.cast(pa.string())


def no_text(_values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Refuse object identifiers that are shown as names (0A000)."""
    raise GatewayError(
        "object identifiers of journaled data cannot be returned by name",
        sqlstate=codes.FEATURE_NOT_SUPPORTED,
        hint="Cast the value to oid.",
    )


def binary(stored: str, sent: str) -> Callable[[pa.Array, EncodingSettings], pa.Array]:
    """Return the binary encoder of integers stored as one numpy type and sent as another."""

    def encode(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
        return fixed(big_endian(numbers(values, stored), sent), validity(values))

    return encode
