"""Text in the client's encoding, as PostgreSQL converts what it sends.

Follows "Character Set Support" of PostgreSQL's documentation. Values are held in UTF-8; those of
ASCII alone are the same in each encoding a client may have.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from catalog.pg.text_codecs import UNCONVERTED, UTF8, codec_of, encoding_of
from pgwire_gateway.wire_types.buffers import as_binary, octets_of, validity, validity_buffer

_NOT_ASCII = 0x80


class UntranslatableError(GatewayError):
    """A character that has no equivalent in the client's encoding (SQLSTATE 22P05)."""

    sqlstate = codes.UNTRANSLATABLE_CHARACTER


def require_convertible(encoding: str) -> str:
    """Return the codec of a client encoding; PostgreSQL's name of it is given.

    Raises:
        GatewayError: 0A000 for one of which Python has no codec that agrees with PostgreSQL.
    """
    codec = codec_of(encoding)
    if codec is None:
        raise GatewayError(
            f'client encoding "{encoding}" is not supported on journaled tables',
            sqlstate=codes.FEATURE_NOT_SUPPORTED,
            hint="SET client_encoding TO 'UTF8' first.",
        )
    return codec


def converted(values: pa.Array, encoding: str) -> pa.Array:
    """Return text, or what is sent of it, in a client encoding.

    Raises:
        UntranslatableError: A character has no equivalent there.
        GatewayError: 0A000 for an encoding that is not converted to.
    """
    if encoding in UNCONVERTED:
        return values
    codec = require_convertible(encoding)
    texts = as_binary(values)
    octets = octets_of(texts)
    if not len(octets) or int(octets.max()) < _NOT_ASCII:
        return values
    # No text has a zero byte, in whatever encoding: what is between them is found again.
    listed = pa.ListArray.from_arrays([0, len(texts)], pc.fill_null(texts, b""))
    encoded = _encoded(pc.binary_join(listed, b"\0")[0].as_py().decode(), codec)
    data = np.frombuffer(encoded, np.uint8)
    ends = np.flatnonzero(data == 0).astype(np.int64)
    starts = np.concatenate([[0], ends + 1])
    lengths = np.concatenate([ends, [len(data)]]) - starts
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    buffers = [validity_buffer(validity(values)), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(
        pa.binary(), len(values), [*buffers, pa.py_buffer(np.ascontiguousarray(data[data != 0]))]
    )


def encoded_text(text: str, encoding: str) -> bytes:
    """Return one text in a client encoding.

    Raises:
        GatewayError: As of `converted`.
    """
    return _encoded(text, require_convertible(encoding))


def _encoded(text: str, codec: str) -> bytes:
    try:
        return text.encode(codec)
    except UnicodeEncodeError as error:
        letter = text[error.start].encode(UTF8, "surrogatepass")
        shown = " ".join(f"0x{byte:02x}" for byte in letter)
        raise UntranslatableError(
            f'character with byte sequence {shown} in encoding "UTF8" has no equivalent in encoding'
            f' "{encoding_of(codec)}"'
        ) from None
