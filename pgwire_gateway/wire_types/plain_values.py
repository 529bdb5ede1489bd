"""Values of parameters that are written so plainly that PostgreSQL need not be asked what they say.

Whatever PostgreSQL could read in another way, or would refuse, is left to it: forms that settings
of the session decide about, blanks, other digits, values out of range.
"""

import re
import struct
from collections.abc import Callable, Sequence
from datetime import date
from typing import Final

from pgwire_gateway.wire_types import type_oids

_INTEGER: Final = re.compile(rb"[+-]?[0-9]{1,19}")
_DECIMAL: Final = re.compile(rb"(-?)([0-9]{1,300})(?:\.([0-9]{1,300}))?")
_FLOAT: Final = re.compile(rb"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_DATE: Final = re.compile(rb"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP: Final = re.compile(
    _DATE.pattern + rb"[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?"
)
_ZONED: Final = re.compile(
    b"(" + _TIMESTAMP.pattern + rb")(?:Z|([+-])(0[0-9]|1[0-4])(?::?([0-5][0-9]))?)"
)
_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_BYTES: Final = re.compile(rb"\\x((?:[0-9a-fA-F]{2})*)")
_BOOLEANS: Final = {b"t": b"\1", b"true": b"\1", b"f": b"\0", b"false": b"\0"}

_EPOCH: Final = date(2000, 1, 1).toordinal()
_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND
_MOST_DAYS: Final = 2_000_000
"""From 2000-01-01 to either side: PostgreSQL has such dates and timestamps."""

Reader = Callable[[bytes], bytes | None]


def read(
    types: Sequence[int],
    values: Sequence[bytes | None],
    formats: Sequence[int],
    *,
    is_utf8: bool,
) -> tuple[bytes | None, ...] | None:
    """Return values in binary; None where PostgreSQL is to be asked about one of them.

    Args:
        types: Their types.
        values: As they came; None for NULL.
        formats: The format code of each.
        is_utf8: Whether texts are in UTF-8 for both the client and the database.
    """
    read_values: list[bytes | None] = []
    for oid, value, code in zip(types, values, formats, strict=True):
        if value is None:
            read_values.append(None)
            continue
        reader = _READERS[code].get(oid)
        found = None if reader is None else reader(value)
        if found is None or (oid in _TEXTS and not (is_utf8 or value.isascii())):
            return None
        read_values.append(found)
    return tuple(read_values)


def _integer(layout: str) -> Reader:
    bound = 1 << (8 * struct.calcsize(layout) - 1)

    def read_integer(text: bytes) -> bytes | None:
        if _INTEGER.fullmatch(text) is None:
            return None
        number = int(text)
        return struct.pack(layout, number) if -bound <= number < bound else None

    return read_integer


def _numeric(text: bytes) -> bytes | None:
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return None
    sign, whole, fraction = match[1], match[2], match[3] or b""
    digits = whole.rjust(-(-len(whole) // 4) * 4, b"0")
    digits += fraction.ljust(-(-len(fraction) // 4) * 4, b"0")
    groups = [int(digits[place : place + 4]) for place in range(0, len(digits), 4)]
    weight = (len(whole) + 3) // 4 - 1
    while groups and groups[0] == 0:
        del groups[0]
        weight -= 1
    while groups and groups[-1] == 0:
        del groups[-1]
    if not groups:
        weight, sign = 0, b""
    negative = 0x4000 if sign else 0
    head = struct.pack("!HhHH", len(groups), weight, negative, len(fraction))
    return head + struct.pack(f"!{len(groups)}H", *groups)


def _float8(text: bytes) -> bytes | None:
    return struct.pack("!d", float(text)) if _FLOAT.fullmatch(text) else None


def _days(year: bytes, month: bytes, day: bytes) -> int | None:
    """Return days from 2000-01-01; None where there is no such day."""
    try:
        return date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        return None


def _date(text: bytes) -> bytes | None:
    match = _DATE.fullmatch(text)
    days = None if match is None else _days(*match.groups())
    return None if days is None else struct.pack("!i", days)


def _microseconds(text: bytes) -> int | None:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    *day, hours, minutes, seconds, fraction = match.groups()
    days = _days(*day)
    if days is None or int(hours) > 23 or int(minutes) > 59 or int(seconds) > 59:
        return None
    clock = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    return days * _DAY + clock * _SECOND + int((fraction or b"0").ljust(6, b"0"))


def _timestamp(text: bytes) -> bytes | None:
    found = _microseconds(text)
    return None if found is None else struct.pack("!q", found)


def _timestamptz(text: bytes) -> bytes | None:
    match = _ZONED.fullmatch(text)
    found = None if match is None else _microseconds(match[1])
    if match is None or found is None:
        return None
    sign, hours, minutes = match.groups()[-3:]
    east = (int(hours or b"0") * 60 + int(minutes or b"0")) * 60 * _SECOND
    return struct.pack("!q", found + east if sign == b"-" else found - east)


def _uuid(text: bytes) -> bytes | None:
    return bytes.fromhex(text.replace(b"-", b"").decode()) if _UUID.fullmatch(text) else None


def _bytea(text: bytes) -> bytes | None:
    match = _BYTES.fullmatch(text)
    return None if match is None else bytes.fromhex(match[1].decode())


def _text(text: bytes) -> bytes | None:
    if b"\0" in text:
        return None
    try:
        text.decode()
    except UnicodeDecodeError:
        return None
    return text


def _sized(size: int) -> Reader:
    return lambda value: value if len(value) == size else None


def _between(layout: str, bound: int) -> Reader:
    size = struct.calcsize(layout)

    def read_bounded(value: bytes) -> bytes | None:
        if len(value) != size:
            return None
        return value if abs(struct.unpack(layout, value)[0]) <= bound else None

    return read_bounded


_TEXTS: Final = frozenset({type_oids.TEXT, type_oids.VARCHAR, type_oids.BPCHAR})

_PLAIN: Final[dict[int, Reader]] = {
    type_oids.BOOL: _BOOLEANS.get,
    type_oids.INT2: _integer("!h"),
    type_oids.INT4: _integer("!i"),
    type_oids.INT8: _integer("!q"),
    type_oids.NUMERIC: _numeric,
    type_oids.FLOAT8: _float8,
    type_oids.DATE: _date,
    type_oids.TIMESTAMP: _timestamp,
    type_oids.TIMESTAMPTZ: _timestamptz,
    type_oids.UUID: _uuid,
    type_oids.BYTEA: _bytea,
    **dict.fromkeys(_TEXTS, _text),
}

_BINARY: Final[dict[int, Reader]] = {
    type_oids.BOOL: lambda value: value if value in {b"\0", b"\1"} else None,
    type_oids.INT2: _sized(2),
    type_oids.INT4: _sized(4),
    type_oids.INT8: _sized(8),
    type_oids.FLOAT4: _sized(4),
    type_oids.FLOAT8: _sized(8),
    type_oids.DATE: _between("!i", _MOST_DAYS),
    type_oids.TIMESTAMP: _between("!q", _MOST_DAYS * _DAY),
    type_oids.TIMESTAMPTZ: _between("!q", _MOST_DAYS * _DAY),
    type_oids.UUID: _sized(16),
    type_oids.BYTEA: lambda value: value,
    **dict.fromkeys(_TEXTS, _text),
}

_READERS: Final = (_PLAIN, _BINARY)
"""By format code."""
