"""json and jsonb; both are stored as the text PostgreSQL prints."""

import pyarrow as pa

from pgwire_gateway.wire_types.buffers import join
from pgwire_gateway.wire_types.client_encodings import converted
from pgwire_gateway.wire_types.settings import EncodingSettings

JSONB_VERSION = b"\x01"
"""Version byte in front of the binary form of jsonb."""


def text(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Return the text as it is."""
    return values


def json_binary(values: pa.Array, settings: EncodingSettings) -> pa.Array:
    """Return the text in the client's encoding."""
    return converted(values, settings.client_encoding)


def jsonb_binary(values: pa.Array, settings: EncodingSettings) -> pa.Array:
    """Write the version byte and the text, in the client's encoding."""
    return join(JSONB_VERSION, json_binary(values, settings))
