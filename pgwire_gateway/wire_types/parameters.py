"""Values of statement parameters in PostgreSQL's binary format to Python values."""

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias
from uuid import UUID

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.wire_types import type_oids
from pgwire_gateway.wire_types.json_values import JSONB_VERSION

ParameterPython: TypeAlias = (
    "bool | int | float | Decimal | str | bytes | date | datetime | time | UUID"
    " | tuple[int, int, int] | list[ParameterPython] | None"
)
"""Python form of a parameter; an interval is (months, days, microseconds)."""

_EPOCH_DATE: Final = date(2000, 1, 1)
_EPOCH: Final = datetime(2000, 1, 1)  # noqa: DTZ001  timestamps without time zone are naive
_DAY: Final = 86_400_000_000
_NUMERIC_SPECIAL = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
_NUMERIC_NEGATIVE: Final = 0x4000


def decode(type_oid: int, data: bytes | None) -> ParameterPython:
    """Return the Python value of a binary parameter; None is NULL.

    Raises:
        GatewayError: 22P03 for malformed data, 0A000 for a type or value without Python form.
    """
    if data is None:
        return None
    try:
        element = type_oids.ELEMENT_OF_ARRAY.get(type_oid)
        if element is not None:
            return _array(element, data)
        decoder = _DECODERS.get(type_oid)
        if decoder is None:
            raise _unsupported(f"parameters of type with OID {type_oid}")
        value: ParameterPython = decoder(data)
    except (struct.error, IndexError, ValueError) as error:
        raise GatewayError(
            "incorrect binary data format in bind parameter",
            sqlstate=codes.INVALID_BINARY_REPRESENTATION,
        ) from error
    except OverflowError as error:
        raise _unsupported("dates outside the years 1 to 9999 as parameters") from error
    return value


def _unsupported(what: str) -> GatewayError:
    return GatewayError(f"{what} are not supported", sqlstate=codes.FEATURE_NOT_SUPPORTED)


def _number(layout: str) -> Callable[[bytes], Any]:
    return lambda data: struct.unpack(layout, data)[0]


def _bool(data: bytes) -> bool:
    (value,) = struct.unpack("!?", data)
    return bool(value)


def _char(data: bytes) -> str:
    (byte,) = data
    if byte == 0:
        return ""
    return f"\\{byte:03o}" if byte >= 0x80 else chr(byte)


_MOST_GROUPS = 1_000
"""Groups of four digits: Python writes no longer numbers."""


def _numeric(data: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack_from("!HhHH", data)
    if sign in _NUMERIC_SPECIAL:
        return Decimal(_NUMERIC_SPECIAL[sign])
    groups = struct.unpack(f"!{count}H", data[8:])
    unscaled = 0
    for group in groups:
        unscaled = unscaled * 10_000 + group
    # The last group stands for 10000 ** (weight - count + 1).
    shift = 4 * (weight - count + 1) + scale
    if count + max(shift, 0) // 4 > _MOST_GROUPS:
        raise _unsupported("parameters of type numeric with thousands of digits")
    unscaled = unscaled * 10**shift if shift >= 0 else unscaled // 10**-shift
    digits = tuple(map(int, str(unscaled)))
    return Decimal((int(sign == _NUMERIC_NEGATIVE), digits, -scale))


def _date(data: bytes) -> date:
    (days,) = struct.unpack("!i", data)
    if days in {2**31 - 1, -(2**31)}:
        raise _unsupported("infinite dates as parameters")
    return _EPOCH_DATE + timedelta(days=days)


def _time(data: bytes) -> time:
    (microseconds,) = struct.unpack("!q", data)
    if microseconds == _DAY:
        raise _unsupported("parameters of type time with the value 24:00:00")
    return (_EPOCH + timedelta(microseconds=microseconds)).time()


def _timestamp(data: bytes) -> datetime:
    (microseconds,) = struct.unpack("!q", data)
    if microseconds in {2**63 - 1, -(2**63)}:
        raise _unsupported("infinite timestamps as parameters")
    return _EPOCH + timedelta(microseconds=microseconds)


def _timestamptz(data: bytes) -> datetime:
    return _timestamp(data).replace(tzinfo=UTC)


def _interval(data: bytes) -> tuple[int, int, int]:
    microseconds, days, months = struct.unpack("!qii", data)
    return months, days, microseconds


def _uuid(data: bytes) -> UUID:
    return UUID(bytes=data)


def _jsonb(data: bytes) -> str:
    if data[:1] != JSONB_VERSION:
        raise ValueError(data[:1])
    return data[1:].decode()


def _array(element_oid: int, data: bytes) -> list[ParameterPython]:
    dimensions, _, sent_oid = struct.unpack_from("!iiI", data)
    if sent_oid != element_oid:
        raise ValueError(sent_oid)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise _unsupported("multidimensional arrays as parameters")
    count, lower = struct.unpack_from("!ii", data, 12)
    if lower != 1:
        raise _unsupported("arrays whose subscripts do not start at 1 as parameters")
    values: list[ParameterPython] = []
    place = 20
    for _ in range(count):
        (length,) = struct.unpack_from("!i", data, place)
        place += 4
        if length < 0:
            values.append(None)
            continue
        item = data[place : place + length]
        if len(item) != length:
            raise ValueError(length)
        values.append(decode(element_oid, item))
        place += length
    if place != len(data):
        raise ValueError(place)
    return values


_DECODERS: dict[int, Callable[[bytes], Any]] = {
    type_oids.BOOL: _bool,
    type_oids.BYTEA: bytes,
    type_oids.CHAR: _char,
    type_oids.NAME: bytes.decode,
    type_oids.INT8: _number("!q"),
    type_oids.INT2: _number("!h"),
    type_oids.INT4: _number("!i"),
    type_oids.TEXT: bytes.decode,
    type_oids.OID: _number("!I"),
    type_oids.JSON: bytes.decode,
    type_oids.FLOAT4: _number("!f"),
    type_oids.FLOAT8: _number("!d"),
    type_oids.UNKNOWN: bytes.decode,
    type_oids.BPCHAR: bytes.decode,
    type_oids.VARCHAR: bytes.decode,
    type_oids.DATE: _date,
    type_oids.TIME: _time,
    type_oids.TIMESTAMP: _timestamp,
    type_oids.TIMESTAMPTZ: _timestamptz,
    type_oids.INTERVAL: _interval,
    type_oids.NUMERIC: _numeric,
    type_oids.UUID: _uuid,
    type_oids.JSONB: _jsonb,
}
