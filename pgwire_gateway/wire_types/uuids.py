"""uuid, stored as lower-case canonical text."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgwire_gateway.wire_types.binary import NIBBLE
from pgwire_gateway.wire_types.buffers import fixed, octets_of, validity
from pgwire_gateway.wire_types.settings import EncodingSettings

_NIL = "00000000-0000-0000-0000-000000000000"
_DIGITS = np.array([place for place, letter in enumerate(_NIL) if letter != "-"])


def text(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Return the canonical text."""
    return values


def binary(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Write the 16 bytes."""
    valid = validity(values)
    filled = pc.fill_null(values, _NIL) if valid is not None else values
    nibbles = NIBBLE[octets_of(filled).reshape(len(values), len(_NIL))[:, _DIGITS]]
    octets = (nibbles[:, 0::2] << 4 | nibbles[:, 1::2]).astype(np.uint8)
    return fixed(octets, valid)
