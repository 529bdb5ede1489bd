"""Types by OID: how they are held in Arrow and how they are encoded."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.wire_types import (
    arrays,
    binary,
    booleans,
    datetimes,
    decimals,
    decimals_binary,
    floats,
    integers,
    intervals,
    json_values,
    text,
    type_oids,
    uuids,
)
from pgwire_gateway.wire_types.arrays import Encode

_MAX_DECIMAL_DIGITS: Final = 38
_TYPMOD_HEADER: Final = 4
"""VARHDRSZ, added to every type modifier that holds a size."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Encoders of one type."""

    text: Encode
    binary: Encode | None
    """None when values are carried as text only."""


INTERVAL_TYPE = pa.struct(
    [("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())]
)
"""Storage of an interval."""

_TEXT = Codec(text.text, text.sent)
_OPAQUE = Codec(text.text, None)
_TIMESTAMP_BINARY = datetimes.timestamp_binary

_CODECS: dict[int, Codec] = {
    type_oids.BOOL: Codec(booleans.text, booleans.binary),
    type_oids.BYTEA: Codec(binary.text, binary.binary),
    type_oids.CHAR: Codec(text.text, text.char_binary),
    type_oids.NAME: _TEXT,
    type_oids.INT8: Codec(integers.text, integers.binary("i8", ">i8")),
    type_oids.INT2: Codec(integers.text, integers.binary("i2", ">i2")),
    type_oids.INT4: Codec(integers.text, integers.binary("i4", ">i4")),
    type_oids.TEXT: _TEXT,
    type_oids.OID: Codec(integers.text, integers.binary("i8", ">u4")),
    **dict.fromkeys(
        type_oids.OBJECT_ALIASES, Codec(integers.no_text, integers.binary("i8", ">u4"))
    ),
    type_oids.JSON: Codec(json_values.text, json_values.json_binary),
    type_oids.FLOAT4: Codec(floats.text("f4"), floats.binary("f4")),
    type_oids.FLOAT8: Codec(floats.text("f8"), floats.binary("f8")),
    **dict.fromkeys(type_oids.GEOMETRIC, Codec(floats.geometric_text, None)),
    type_oids.UNKNOWN: _TEXT,
    type_oids.BPCHAR: _TEXT,
    type_oids.VARCHAR: _TEXT,
    type_oids.DATE: Codec(datetimes.date_column, datetimes.date_binary),
    type_oids.TIME: Codec(datetimes.time_column, integers.binary("i8", ">i8")),
    type_oids.TIMESTAMP: Codec(datetimes.timestamp_column, _TIMESTAMP_BINARY),
    type_oids.TIMESTAMPTZ: Codec(datetimes.timestamptz_column, _TIMESTAMP_BINARY),
    type_oids.INTERVAL: Codec(intervals.text, intervals.binary),
    type_oids.NUMERIC: Codec(decimals.text, decimals_binary.binary),
    type_oids.UUID: Codec(uuids.text, uuids.binary),
    type_oids.JSONB: Codec(json_values.text, json_values.jsonb_binary),
}

_ARROW_TYPES: dict[int, pa.DataType] = {
    type_oids.BOOL: pa.bool_(),
    type_oids.BYTEA: pa.binary(),
    type_oids.INT8: pa.int64(),
    type_oids.INT2: pa.int16(),
    type_oids.INT4: pa.int32(),
    type_oids.OID: pa.int64(),
    **dict.fromkeys(type_oids.OBJECT_ALIASES, pa.int64()),
    type_oids.FLOAT4: pa.float32(),
    type_oids.FLOAT8: pa.float64(),
    type_oids.DATE: pa.date32(),
    type_oids.TIME: pa.int64(),
    type_oids.TIMESTAMP: pa.timestamp("us"),
    type_oids.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    type_oids.INTERVAL: INTERVAL_TYPE,
}


def codec(type_oid: int) -> Codec:
    """Return the encoders of a type; types not known here are carried as text."""
    element = type_oids.ELEMENT_OF_ARRAY.get(type_oid)
    if element is None:
        return _CODECS.get(type_oid, _OPAQUE)
    of_element = _CODECS[element]
    if of_element.binary is None:
        return Codec(arrays.text(of_element.text), None)
    return Codec(arrays.text(of_element.text), arrays.binary(of_element.binary, element))


def encoder(type_oid: int, format_code: int) -> Encode:
    """Return the encoder of a type in a format.

    Raises:
        GatewayError: 0A000 when the type has no binary encoder, 22023 for an unknown format code.
    """
    if format_code == 0:
        return codec(type_oid).text
    if format_code != 1:
        raise GatewayError(
            f"unsupported format code: {format_code}", sqlstate=codes.INVALID_PARAMETER_VALUE
        )
    encode = codec(type_oid).binary
    if encode is None:
        raise GatewayError(
            f"binary format is not supported for results of type with OID {type_oid}",
            sqlstate=codes.FEATURE_NOT_SUPPORTED,
        )
    return encode


def arrow_type(type_oid: int, typmod: int = -1) -> pa.DataType:
    """Return the Arrow type in which values of a PostgreSQL type are stored."""
    element = type_oids.ELEMENT_OF_ARRAY.get(type_oid)
    if element is not None:
        return pa.list_(arrow_type(element, typmod))
    if type_oid == type_oids.NUMERIC:
        return _decimal_type(typmod)
    return _ARROW_TYPES.get(type_oid, pa.string())


def declared_scale(typmod: int) -> int | None:
    """Return the scale of ``numeric(p,s)`` held as DECIMAL; None for any other numeric."""
    stored = _decimal_type(typmod)
    return stored.scale if pa.types.is_decimal(stored) else None


def _decimal_type(typmod: int) -> pa.DataType:
    """Return DECIMAL where it can hold the precision and scale, text otherwise."""
    if typmod < _TYPMOD_HEADER:
        return pa.string()
    precision = (typmod - _TYPMOD_HEADER) >> 16 & 0xFFFF
    # The scale is a signed number of eleven bits.
    scale = ((typmod - _TYPMOD_HEADER & 0x7FF) ^ 1024) - 1024
    if precision <= _MAX_DECIMAL_DIGITS and 0 <= scale <= precision:
        return pa.decimal128(precision, scale)
    return pa.string()
