"""Values as clients send them, or as they are sent to them, in another encoding.

Knows which bytes of a value are text: all in text format, and in binary those of character types.
"""

import struct
from collections.abc import Sequence
from typing import Final

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from catalog.pg.text_codecs import UNCONVERTED
from pgwire_gateway.wire_types import type_oids
from pgwire_gateway.wire_types.client_encodings import encoded_text, require_convertible

_TEXTS: Final = frozenset(
    {
        *(type_oids.TEXT, type_oids.VARCHAR, type_oids.BPCHAR, type_oids.NAME),
        *(type_oids.UNKNOWN, type_oids.JSON, type_oids.JSONB),
    }
)
"""Types whose binary form is text; the version of jsonb before it is ASCII."""

_PLAIN: Final = frozenset(
    {
        *(type_oids.BOOL, type_oids.BYTEA, type_oids.CHAR, type_oids.INT8, type_oids.INT2),
        *(type_oids.INT4, type_oids.OID, type_oids.FLOAT4, type_oids.FLOAT8, type_oids.DATE),
        *(type_oids.TIME, type_oids.TIMESTAMP, type_oids.TIMESTAMPTZ, type_oids.INTERVAL),
        *(type_oids.NUMERIC, type_oids.UUID, *type_oids.OBJECT_ALIASES, *type_oids.GEOMETRIC),
    }
)
"""Types whose binary form has no text in it."""

_ARRAY_HEADER: Final = struct.Struct("!iiI")
_DIMENSION: Final = struct.Struct("!ii")
_LENGTH: Final = struct.Struct("!i")

Row = list[bytes | None]


def in_utf8(value: bytes | None, type_oid: int, encoding: str) -> bytes | None:
    """Return a value in binary with its text in UTF-8, as far as it is known where it has any.

    Args:
        value: The value.
        type_oid: Its type.
        encoding: PostgreSQL's name of the encoding that it is in.

    Raises:
        GatewayError: 22P03 for what is no array; 0A000 for an encoding that is not converted.
    """
    if value is None or value.isascii() or encoding in UNCONVERTED:
        return value
    is_known = type_oid in _TEXTS or type_oids.ELEMENT_OF_ARRAY.get(type_oid) in _TEXTS
    return _recoded(value, type_oid, 1, encoding, "UTF8") if is_known else value


def recoded(
    rows: Sequence[Row], types: Sequence[int], formats: Sequence[int], before: str, after: str
) -> list[Row]:
    """Return rows in another encoding.

    Args:
        rows: The rows.
        types: The types of their columns.
        formats: Format codes of the same.
        before: PostgreSQL's name of the encoding that they are in.
        after: The same of the encoding they are to have.

    Raises:
        GatewayError: 22P05 for a character that has no equivalent there; 22P03 for what is no
            array; 0A000 for a type of which it is not known where it has text, and for encodings
            that are not converted.
    """
    columns = list(zip(types, formats, strict=True))
    return [
        [
            value if value is None else _recoded(value, *column, before, after)
            for value, column in zip(row, columns, strict=True)
        ]
        for row in rows
    ]


def _recoded(value: bytes, type_oid: int, code: int, before: str, after: str) -> bytes:
    if code == 0 or type_oid in _TEXTS:
        if value.isascii():
            return value
        text = value.decode(require_convertible(before), "surrogateescape")
        return encoded_text(text, after)
    if type_oid in _PLAIN:
        return value
    element = type_oids.ELEMENT_OF_ARRAY.get(type_oid)
    if element in _PLAIN:
        return value
    if element not in _TEXTS:
        raise GatewayError(
            f"values in binary of type with OID {type_oid} are not converted to another client"
            " encoding",
            sqlstate=codes.FEATURE_NOT_SUPPORTED,
        )
    try:
        return _recoded_array(value, element, before, after)
    except struct.error as error:
        raise GatewayError(
            "incorrect binary data format of an array", sqlstate=codes.INVALID_BINARY_REPRESENTATION
        ) from error


def _recoded_array(value: bytes, element: int, before: str, after: str) -> bytes:
    dimensions, _, _ = _ARRAY_HEADER.unpack_from(value)
    place = _ARRAY_HEADER.size + dimensions * _DIMENSION.size
    parts = [value[:place]]
    while place < len(value):
        (length,) = _LENGTH.unpack_from(value, place)
        place += _LENGTH.size
        if length < 0:
            parts.append(_LENGTH.pack(length))
            continue
        item = _recoded(value[place : place + length], element, 1, before, after)
        parts += (_LENGTH.pack(len(item)), item)
        place += length
    return b"".join(parts)
