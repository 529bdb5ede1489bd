"""Decodes the Datum bytes of Const nodes as tree dumps print them (little-endian, 64 bit)."""

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Final
from uuid import UUID

from rewrite.dialect import json_documents, oids
from rewrite.dialect.literals import DAY, POSTGRES_EPOCH_DAYS
from rewrite.errors import UnsupportedError

_NUMERIC_BASE_DIGITS: Final = 4


def varlena(datum: bytes) -> bytes:
    """Return the contents of a variable-length datum with a one- or four-byte header.

    >>> varlena(bytes([20, 0, 0, 0, 120])), varlena(bytes([5, 120]))
    (b'x', b'x')
    """
    if datum[0] & 1:
        if datum[0] == 1:
            raise UnsupportedError("constants stored out of line are not supported")
        return datum[1 : datum[0] >> 1]
    (header,) = struct.unpack_from("<I", datum)
    if header & 2:
        raise UnsupportedError("compressed constants are not supported")
    return datum[4 : header >> 2]


def _fixed(code: str) -> Callable[[bytes], object]:
    def decode(datum: bytes) -> object:
        return struct.unpack_from(code, datum)[0]

    return decode


def _text(datum: bytes) -> str:
    return varlena(datum).decode()


def _name(datum: bytes) -> str:
    return datum.split(b"\0", 1)[0].decode()


def _char(datum: bytes) -> str:
    if datum[0] >= 0x80:
        raise UnsupportedError('"char" values beyond ASCII are not supported')
    return "" if datum[0] == 0 else chr(datum[0])


def _date(datum: bytes) -> int:
    return int(struct.unpack_from("<i", datum)[0]) + POSTGRES_EPOCH_DAYS


def _timestamp(datum: bytes) -> int:
    return int(struct.unpack_from("<q", datum)[0]) + POSTGRES_EPOCH_DAYS * DAY


def _interval(datum: bytes) -> tuple[int, int, int]:
    microseconds, days, months = struct.unpack_from("<qii", datum)
    extremes = (2**31 - 1, -(2**31))
    if months in extremes and days in extremes:
        raise UnsupportedError("infinite intervals are not supported")
    return months, days, microseconds


_MOST_NUMERIC_DIGITS: Final = 1_000
"""Digits of base 10000: Python writes no longer numbers."""


def _numeric(datum: bytes) -> Decimal:
    """Decode ``NumericData`` of numeric.c: short or long header, then digits of base 10000."""
    data = varlena(datum)
    (header,) = struct.unpack_from("<H", data)
    if header & 0xC000 == 0xC000:
        names = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
        return Decimal(names[header & 0xF000])
    if header & 0x8000:
        negative = bool(header & 0x2000)
        scale = (header & 0x1F80) >> 7
        weight = (header & 0x3F) - (0x40 if header & 0x40 else 0)
        digits = data[2:]
    else:
        negative = bool(header & 0x4000)
        scale = header & 0x3FFF
        (weight,) = struct.unpack_from("<h", data, 2)
        digits = data[4:]
    unscaled = 0
    for (digit,) in struct.iter_unpack("<h", digits):
        unscaled = unscaled * 10_000 + digit
    exponent = _NUMERIC_BASE_DIGITS * (weight - len(digits) // 2 + 1)
    shift = exponent + scale
    if len(digits) // 2 + max(shift, 0) // _NUMERIC_BASE_DIGITS > _MOST_NUMERIC_DIGITS:
        raise UnsupportedError("numeric constants of thousands of digits are not supported")
    if shift >= 0:
        unscaled *= 10**shift
    else:
        unscaled //= 10**-shift
    return Decimal((int(negative), tuple(map(int, str(unscaled))), -scale))


def _jsonb(datum: bytes) -> str:
    return json_documents.printed(json_documents.of_datum(varlena(datum), _numeric))


_DECODERS: Final[dict[int, Callable[[bytes], object]]] = {
    oids.BOOL: lambda datum: datum[0] != 0,
    oids.INT2: _fixed("<h"),
    oids.INT4: _fixed("<i"),
    oids.INT8: _fixed("<q"),
    oids.FLOAT4: _fixed("<f"),
    oids.FLOAT8: _fixed("<d"),
    oids.NUMERIC: _numeric,
    oids.TEXT: _text,
    oids.VARCHAR: _text,
    oids.BPCHAR: _text,
    oids.JSON: _text,
    oids.JSONB: _jsonb,
    oids.NAME: _name,
    oids.CHAR: _char,
    oids.UNKNOWN: _name,
    oids.BYTEA: varlena,
    oids.DATE: _date,
    oids.TIME: _fixed("<q"),
    oids.TIMESTAMP: _timestamp,
    oids.TIMESTAMPTZ: _timestamp,
    oids.INTERVAL: _interval,
    oids.UUID: lambda datum: str(UUID(bytes=datum[:16])),
    **dict.fromkeys(oids.OBJECT_IDS, _fixed("<I")),
}

# Size (-1 variable) and alignment of array elements.
_LAYOUT: Final[dict[int, tuple[int, int]]] = {
    oids.BOOL: (1, 1),
    oids.CHAR: (1, 1),
    oids.INT2: (2, 2),
    oids.INT4: (4, 4),
    oids.OID: (4, 4),
    oids.FLOAT4: (4, 4),
    oids.DATE: (4, 4),
    oids.INT8: (8, 8),
    oids.FLOAT8: (8, 8),
    oids.TIME: (8, 8),
    oids.TIMESTAMP: (8, 8),
    oids.TIMESTAMPTZ: (8, 8),
    oids.INTERVAL: (16, 8),
    oids.UUID: (16, 1),
    oids.NAME: (64, 1),
    **dict.fromkeys((oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.BYTEA, oids.NUMERIC), (-1, 4)),
}


def _element_length(data: bytes, offset: int) -> int:
    if data[offset] & 1:
        return data[offset] >> 1
    return int(struct.unpack_from("<I", data, offset)[0]) >> 2


def _array(datum: bytes) -> list[object]:
    """Decode an ``ArrayType`` of at most one dimension (array.h)."""
    data = b"\0\0\0\0" + varlena(datum)
    dimensions, data_offset, element = struct.unpack_from("<iii", data, 4)
    if dimensions == 0:
        return []
    count, lower_bound = struct.unpack_from("<ii", data, 16)
    if dimensions > 1 or lower_bound != 1:
        raise UnsupportedError(
            "arrays of more than one dimension or not counted from 1 are not supported"
        )
    if element not in _LAYOUT:
        raise UnsupportedError(f"constants of {oids.type_name(element)}[] are not supported")
    size, alignment = _LAYOUT[element]
    offset = data_offset or 24
    items: list[object] = []
    for index in range(count):
        if data_offset and not data[24 + index // 8] >> (index % 8) & 1:
            items.append(None)
            continue
        # A one-byte header needs no alignment; padding bytes are zero, which no such header is.
        if size >= 0 or data[offset] == 0:
            offset = -(-offset // alignment) * alignment
        length = size if size >= 0 else _element_length(data, offset)
        items.append(_DECODERS[element](data[offset : offset + length]))
        offset += length
    return items


def decode(type_oid: int, datum: bytes) -> object:
    """Return the Python value of a constant, as ``literals.literal`` takes it."""
    if type_oid in oids.ELEMENTS:
        return _array(datum)
    decoder = _DECODERS.get(type_oid)
    if decoder is None:
        raise UnsupportedError(f"constants of {oids.type_name(type_oid)} are not supported")
    return decoder(datum)
