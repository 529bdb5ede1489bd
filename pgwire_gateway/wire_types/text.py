"""Character types, and every type that is carried as PostgreSQL's own text."""

import pyarrow as pa

from pgwire_gateway.wire_types.client_encodings import converted
from pgwire_gateway.wire_types.settings import EncodingSettings


def text(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Return the text as it is."""
    return values


def sent(values: pa.Array, settings: EncodingSettings) -> pa.Array:
    """Return the text in the client's encoding, which is its binary form."""
    return converted(values, settings.client_encoding)


def char_binary(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    r"""Write the single byte of a ``"char"``: empty text is 0, ``\ooo`` an octal code."""
    return pa.array([_char_byte(value) for value in values.to_pylist()], pa.binary())


def _char_byte(value: str | None) -> bytes | None:
    if value is None:
        return None
    data = value.encode()
    if len(data) == 4 and data[:1] == b"\\":
        return bytes([int(data[1:], 8)])
    return data[:1] or b"\0"
