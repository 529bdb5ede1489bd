"""Conversion between timestamps with and without time zone, PostgreSQL's way."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from catalog.pg import sqlstate
from rewrite.context import ALWAYS, SessionConstants
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


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone clocks are read in; whether Spark can do that is seen when they are."""

    name: str
    constants: SessionConstants

    @property
    def is_utc(self) -> bool:
        """Tell whether the zone never differs from UTC."""
        return is_utc(self.name)

    @property
    def is_missing(self) -> bool:
        """Tell whether PostgreSQL surely knows no such zone."""
        return not self.is_utc and self.constants.time_zones.is_missing(self.name)

    def missing(self) -> b.Tree:
        """Return the error for a zone that does not exist."""
        return b.raise_error(
            sqlstate.INVALID_PARAMETER_VALUE, f'time zone "{self.name}" not recognized'
        )

    def unless_different(
        self, moment: b.Tree, micros: Callable[[b.Tree], b.Tree], read: Callable[[b.Tree], b.Tree]
    ) -> b.Tree:
        """Return ``read(moment)``, which fails at times at which Spark's clocks may differ."""
        fixed = _FIXED.fullmatch(self.name) is not None
        difference = None if fixed else self.constants.time_zones.difference(self.name)
        if difference is None:
            return read(moment)
        if difference == ALWAYS:
            raise UnsupportedError(f'time zone "{self.name}" is not supported')
        first, last = difference
        unequal = b.raise_error(
            sqlstate.FEATURE_NOT_SUPPORTED,
            f'time zone "{self.name}" is not supported at times for which Spark has other rules'
            " than PostgreSQL",
        )

        def body(bound: b.Tree) -> b.Tree:
            low, high = b.bigint(first), b.bigint(last)
            return b.checked(
                read(bound), (exp.Between(this=micros(bound), low=low, high=high), unequal)
            )

        return b.let([moment], body)


def session_zone(constants: SessionConstants) -> Zone:
    """Return the zone of the session's clocks."""
    return Zone(constants.time_zone, constants)


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


def local_time(instant: b.Tree, zone: Zone) -> b.Tree:
    """Return the TIMESTAMP_NTZ that clocks in the zone show at an instant."""
    if zone.is_utc:
        return timestamp_of_micros(b.call("unix_micros", instant))
    name = checked_zone(zone.name)

    def shown(moment: b.Tree) -> b.Tree:
        return _converted("UTC", name, timestamp_of_micros(b.call("unix_micros", moment)))

    return zone.unless_different(instant, lambda moment: b.call("unix_micros", moment), shown)


def instant(timestamp: b.Tree, zone: Zone) -> b.Tree:
    """Return the TIMESTAMP at which clocks in the zone show a time.

    A time shown twice, when clocks go back, is the later one, as PostgreSQL reads it; Spark would
    take the earlier. A time skipped when clocks go forward is read by the offset before, by both.
    """
    if zone.is_utc:
        return b.call("timestamp_micros", micros_of_timestamp(timestamp))
    name = checked_zone(zone.name)

    def later(local: b.Tree, first: b.Tree) -> b.Tree:
        tomorrow = timestamp_of_micros(b.infix(exp.Add, micros_of_timestamp(first), b.bigint(DAY)))
        offset_now = _offset(first, name)
        offset_then = _offset(tomorrow, name)
        shift = b.infix(exp.Sub, offset_now, offset_then)
        second = timestamp_of_micros(b.infix(exp.Add, micros_of_timestamp(first), shift))
        repeated = b.both(
            b.infix(exp.GT, shift, b.bigint(0)),
            b.infix(exp.EQ, _converted("UTC", name, second), local),
        )
        return b.call(
            "timestamp_micros", micros_of_timestamp(b.case((repeated, second), otherwise=first))
        )

    def with_local(local: b.Tree) -> b.Tree:
        return b.let([_converted(name, "UTC", local)], lambda first: later(local, first))

    return zone.unless_different(
        timestamp, micros_of_timestamp, lambda moment: b.let([moment], with_local)
    )


def _offset(utc: b.Tree, zone: str) -> b.Tree:
    """Return microseconds by which the zone is ahead of UTC at a UTC time."""
    return b.call("timestampdiff", b.keyword("MICROSECOND"), utc, _converted("UTC", zone, utc))
