"""Integers and object identifiers."""

from collections.abc import Callable

import pyarrow as pa

from pgwire_gateway.wire_types.buffers import big_endian, fixed, numbers, validity
from pgwire_gateway.wire_types.settings import EncodingSettings


def text(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Write decimal digits."""
    return values.cast(pa.string())


def binary(stored: str, sent: str) -> Callable[[pa.Array, EncodingSettings], pa.Array]:
    """Return the binary encoder of integers stored as one numpy type and sent as another."""

    def encode(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
        return fixed(big_endian(numbers(values, stored), sent), validity(values))

    return encode
