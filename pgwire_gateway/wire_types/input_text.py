"""PostgreSQL's text of values to Arrow storage types.

Reads what PostgreSQL prints under DateStyle ISO, IntervalStyle postgres, TimeZone UTC and
bytea_output hex, and the plain numbers that transfer forms use instead for dates and times.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any, Final

import pyarrow as pa

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.wire_types import type_oids
from pgwire_gateway.wire_types.datetime_text import DAY
from pgwire_gateway.wire_types.registry import arrow_type

_EPOCH: Final = date(1970, 1, 1).toordinal()
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_INTEGER = re.compile(r"-?\d+")
_DATE = re.compile(r"(\d{4,})-(\d\d)-(\d\d)( BC)?")
_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_TIMESTAMP = re.compile(rf"(\d{{4,}}-\d\d-\d\d) ({_CLOCK.pattern})(?:\+00)?( BC)?")
_ZONED = re.compile(r"(.+:\d\d(?:\.\d+)?)([+-])(\d\d)(?::(\d\d)(?::(\d\d))?)?( BC)?")
_INTERVAL_TRANSFER = re.compile(r"(-?\d+) (-?\d+) (-?\d+)")
_INTERVAL = re.compile(
    r"(?:([+-]?\d+) years? ?)?(?:([+-]?\d+) mons? ?)?(?:([+-]?\d+) days? ?)?"
    r"(?:([+-]?)(\d+:\d\d:\d\d(?:\.\d{1,6})?))?"
)
_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^",{}]+)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def text_values(texts: Iterable[str | None], type_oid: int, typmod: int = -1) -> pa.Array:
    """Return values given as PostgreSQL's text in the storage type of their type.

    Raises:
        GatewayError: 0A000 for a value the storage type cannot hold.
    """
    kind = arrow_type(type_oid, typmod)
    parse = parser(type_oid)
    return typed([None if text is None else parse(text) for text in texts], kind)


def typed(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return plain Python values (dates and times as integers) as an Arrow array."""
    try:
        return pa.array(values, _plain(kind)).cast(kind)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise unrepresentable(str(kind), error) from error


def unrepresentable(kind: str, error: BaseException) -> GatewayError:
    """Return the error for a value PostgreSQL has and a storage type has not, such as NaN."""
    return GatewayError(
        f"value cannot be stored as {kind}",
        sqlstate=codes.FEATURE_NOT_SUPPORTED,
        detail=str(error),
    )


def parser(type_oid: int) -> Callable[[str], Any]:
    """Return the function that reads the text of one value."""
    element = type_oids.ELEMENT_OF_ARRAY.get(type_oid)
    if element is None:
        return _PARSERS.get(type_oid, str)
    parse = parser(element)
    return lambda text: [None if item is None else parse(item) for item in array_items(text)]


def array_items(text: str) -> list[str | None]:
    """Return the elements of a one-dimensional array as texts.

    Raises:
        GatewayError: 0A000 for more dimensions or subscripts that do not start at 1.
    """
    if not text.startswith("{") or text.startswith("{{"):
        raise GatewayError(
            "only one-dimensional arrays with subscripts from 1 are supported",
            sqlstate=codes.FEATURE_NOT_SUPPORTED,
            detail=f"Value: {text[:100]}",
        )
    body = text[1:-1]
    if not body:
        return []
    if '"' not in body:
        return [None if item == "NULL" else item for item in body.split(",")]
    return [
        None if match[2] == "NULL" else match[2] or _ESCAPED.sub(r"\1", match[1])
        for match in _ITEM.finditer(body)
    ]


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type plain values are taken in: integers for dates, text for decimals."""
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.string() if pa.types.is_decimal(kind) else kind


def _bool(text: str) -> bool:
    return text in {"t", "true"}


def _bytea(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("\\x"))


def _date(text: str) -> int:
    if _INTEGER.fullmatch(text):
        return int(text)
    if text in {"infinity", "-infinity"}:
        return 2**31 - 1 if text == "infinity" else -(2**31)
    year, month, day, before = _matched(_DATE, text).groups()
    # Python's calendar starts in year 1 and ends in 9999; 400 years are always as many days.
    astronomical = 1 - int(year) if before else int(year)
    cycles, of_cycle = divmod(astronomical - 1, _CYCLE_YEARS)
    ordinal = date(of_cycle + 1, int(month), int(day)).toordinal()
    return cycles * _CYCLE_DAYS + ordinal - _EPOCH


def _time(text: str) -> int:
    if _INTEGER.fullmatch(text):
        return int(text)
    return _microseconds(_matched(_CLOCK, text).groups())


def _timestamp(text: str) -> int:
    if _INTEGER.fullmatch(text):
        return int(text)
    if text in {"infinity", "-infinity"}:
        return 2**63 - 1 if text == "infinity" else -(2**63)
    day, _, *clock, before = _matched(_TIMESTAMP, text).groups()
    return _date(day + (before or "")) * DAY + _microseconds(clock)


def _instant(text: str) -> int:
    """Read a timestamp that is told in any time zone."""
    found = _ZONED.fullmatch(text)
    if found is None:
        return _timestamp(text)
    local, sign, hours, minutes, seconds, before = found.groups()
    ahead = _microseconds((hours, minutes, seconds, None))
    return _timestamp(local + (before or "")) - (-ahead if sign == "-" else ahead)


def _interval(text: str) -> dict[str, int]:
    transfer = _INTERVAL_TRANSFER.fullmatch(text)
    if transfer is not None:
        months, days, microseconds = map(int, transfer.groups())
    elif text in {"infinity", "-infinity"}:
        whole, half = (2**63 - 1, 2**31 - 1) if text == "infinity" else (-(2**63), -(2**31))
        months, days, microseconds = half, half, whole
    else:
        match = _matched(_INTERVAL, text)
        years, mons, day = (int(match[group] or 0) for group in (1, 2, 3))
        months, days = years * 12 + mons, day
        microseconds = _time(match[5]) if match[5] else 0
        if match[4] == "-":
            microseconds = -microseconds
    return {"months": months, "days": days, "microseconds": microseconds}


def _microseconds(clock: Sequence[str | None]) -> int:
    hours, minutes, seconds, fraction = clock
    whole = (int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    return whole * 1_000_000 + int((fraction or "").ljust(6, "0"))


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise GatewayError(f'invalid stored value: "{text[:100]}"', sqlstate=codes.INTERNAL_ERROR)
    return match


_PARSERS: dict[int, Callable[[str], Any]] = {
    type_oids.BOOL: _bool,
    type_oids.BYTEA: _bytea,
    type_oids.INT8: int,
    type_oids.INT2: int,
    type_oids.INT4: int,
    type_oids.OID: int,
    type_oids.FLOAT4: float,
    type_oids.FLOAT8: float,
    type_oids.DATE: _date,
    type_oids.TIME: _time,
    type_oids.TIMESTAMP: _timestamp,
    type_oids.TIMESTAMPTZ: _instant,
    type_oids.INTERVAL: _interval,
}
