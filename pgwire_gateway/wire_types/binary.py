"""bytea."""

import re

import numpy as np
import pyarrow as pa

from pgwire_gateway.wire_types.buffers import join, lengths_of, octets_of, validity, variable
from pgwire_gateway.wire_types.settings import EncodingSettings

_HEX = np.array(list(bytes(range(256)).hex().encode()), np.uint8).reshape(256, 2)
"""The two hexadecimal digits of each byte."""

NIBBLE = np.zeros(256, np.uint8)
"""The value of each lower-case hexadecimal digit."""
NIBBLE[list(b"0123456789abcdef")] = range(16)

_ESCAPED = re.compile(rb"[^\x20-\x5b\x5d-\x7e]")


def text(values: pa.Array, settings: EncodingSettings) -> pa.Array:
    r"""Write ``\x`` and hexadecimal digits, or the escape format."""
    if settings.bytea_output == "escape":
        return pa.array([_escape(value) for value in values.to_pylist()], pa.binary())
    return join(b"\\x", hexadecimal(values))


def binary(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Return the bytes as they are."""
    return values


def hexadecimal(values: pa.Array) -> pa.Array:
    """Write two lower-case hexadecimal digits per byte."""
    digits = _HEX[octets_of(values)].reshape(-1)
    return variable(digits, lengths_of(values) * 2, validity(values))


def from_hexadecimal(values: pa.Array) -> pa.Array:
    """Read lower-case hexadecimal digits, two per byte."""
    nibbles = NIBBLE[octets_of(values)]
    return variable(nibbles[0::2] << 4 | nibbles[1::2], lengths_of(values) // 2, validity(values))


def _escape(value: bytes | None) -> bytes | None:
    if value is None:
        return None
    return _ESCAPED.sub(_escape_byte, value)


def _escape_byte(match: re.Match[bytes]) -> bytes:
    byte = match.group()[0]
    return b"\\\\" if byte == ord("\\") else b"\\%03o" % byte
