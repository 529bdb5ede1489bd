"""Conversion between timestamps with and without time zone, PostgreSQL's way."""

import re
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect.literals import DAY
from rewrite.errors import UnsupportedError

_UTC_NAMES: Final = frozenset(
    {"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Universal", "Etc/Zulu", "UCT"}
)
_FIXED: Final = re.compile(r"<([+-]\d\d)(?::?(\d\d))?>[+-][\d:]+")
"""How PostgreSQL calls a fixed distance from UTC, given as a number or an interval."""
_REGION: Final = re.compile(r"(?!Etc/GMT|posix|right|SystemV)[A-Z][A-Za-z]+(/[A-Za-z0-9_+-]+){1,2}")

_EPOCH: Final = b.cast(b.string("1970-01-01 00:00:00"), "TIMESTAMP_NTZ")


def is_utc(zone: str) -> bool:
    """Tell whether a time zone never differs from UTC."""
    return zone in _UTC_NAMES


def checked_zone(zone: str) -> str:
    """Return Spark's name of a time zone by which it means the same as PostgreSQL.

    >>> checked_zone("Europe/Berlin"), checked_zone("<-03:30>+03:30")
    ('Europe/Berlin', '-03:30')

    Raises:
        UnsupportedError: For any other.
    """
    fixed = _FIXED.fullmatch(zone)
    if fixed:
        return f"{fixed[1]}:{fixed[2] or '00'}"
    if is_utc(zone) or _REGION.fullmatch(zone):
        return zone
    raise UnsupportedError(f'time zone "{zone}" is not supported')


def micros_of_timestamp(timestamp: b.Tree) -> b.Tree:
    """Return microseconds from 1970-01-01 of a TIMESTAMP_NTZ."""
    return b.call("timestampdiff", b.keyword("MICROSECOND"), _EPOCH, timestamp)


def timestamp_of_micros(micros: b.Tree) -> b.Tree:
    """Return the TIMESTAMP_NTZ of microseconds from 1970-01-01."""
    return b.call("timestampadd", b.keyword("MICROSECOND"), micros, _EPOCH)


def _converted(source: str, target: str, timestamp: b.Tree) -> b.Tree:
    return b.call("convert_timezone", b.string(source), b.string(target), timestamp)


def local_time(instant: b.Tree, zone: str) -> b.Tree:
    """Return the TIMESTAMP_NTZ that clocks in the zone show at an instant."""
    utc = timestamp_of_micros(b.call("unix_micros", instant))
    if is_utc(zone):
        return utc
    return _converted("UTC", checked_zone(zone), utc)


def instant(timestamp: b.Tree, zone: str) -> b.Tree:
    """Return the TIMESTAMP at which clocks in the zone show a time.

    A time shown twice, when clocks go back, is the later one, as PostgreSQL reads it; Spark would
    take the earlier. A time skipped when clocks go forward is read by the offset before, by both.
    """
    if is_utc(zone):
        return b.call("timestamp_micros", micros_of_timestamp(timestamp))
    zone = checked_zone(zone)

    def later(local: b.Tree, first: b.Tree) -> b.Tree:
        tomorrow = timestamp_of_micros(b.infix(exp.Add, micros_of_timestamp(first), b.bigint(DAY)))
        offset_now = _offset(first, zone)
        offset_then = _offset(tomorrow, zone)
        shift = b.infix(exp.Sub, offset_now, offset_then)
        second = timestamp_of_micros(b.infix(exp.Add, micros_of_timestamp(first), shift))
        repeated = b.both(
            b.infix(exp.GT, shift, b.bigint(0)),
            b.infix(exp.EQ, _converted("UTC", zone, second), local),
        )
        return b.call(
            "timestamp_micros", micros_of_timestamp(b.case((repeated, second), otherwise=first))
        )

    def with_local(local: b.Tree) -> b.Tree:
        return b.let([_converted(zone, "UTC", local)], lambda first: later(local, first))

    return b.let([timestamp], with_local)


def _offset(utc: b.Tree, zone: str) -> b.Tree:
    """Return microseconds by which the zone is ahead of UTC at a UTC time."""
    return b.call("timestampdiff", b.keyword("MICROSECOND"), utc, _converted("UTC", zone, utc))
