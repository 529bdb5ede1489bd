"""Boolean values."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgwire_gateway.wire_types.buffers import fixed, numbers, validity
from pgwire_gateway.wire_types.settings import EncodingSettings


def text(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Write ``t`` or ``f``."""
    bits = numbers(values.cast(pa.uint8()), np.uint8)
    letters = np.where(bits, np.uint8(ord("t")), np.uint8(ord("f")))
    return fixed(letters.reshape(-1, 1), validity(values))


def binary(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Write one byte, 1 or 0."""
    bits = numbers(pc.cast(values, pa.uint8()), np.uint8)
    return fixed(bits.reshape(-1, 1), validity(values))
