"""Time zone rules in POSIX form, such as ``CET-1CEST,M3.5.0,M10.5.0/3`` or ``<+05>-05``."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400
_NAME = r"<([^<>]+)>|([A-Za-z]{3,}|(?=[+-]))"
"""PostgreSQL also takes a distance from Greenwich without a name: ``-03:30``."""
_TIME = r"([+-]?\d{1,3})(?::(\d{1,2}))?(?::(\d{1,2}))?"
_ZONE = re.compile(rf"(?:{_NAME})(?:{_TIME})?")
_DATE = re.compile(rf",(?:M(\d{{1,2}})\.(\d)\.(\d)|(J?)(\d{{1,3}}))(?:/{_TIME})?")
_DEFAULT_DATES = ",M3.2.0,M11.1.0"
"""TZDEFRULESTRING of the IANA code: rules of the United States."""


@dataclass(frozen=True, slots=True)
class _ChangeDate:
    """The day and local time of a change."""

    month: int
    week: int
    day: int
    """Day of the week after a month; else day of the year, from 1 with ``julian``."""
    julian: bool
    seconds: int
    """Local time of the change, which may be negative or beyond one day."""

    def in_year(self, year: int) -> int:
        """Return the local time of the change as seconds since 1970."""
        return self._day_in(year) * _DAY + self.seconds

    def _day_in(self, year: int) -> int:
        if not self.month:
            first = date(year, 1, 1).toordinal() - _EPOCH
            leap = date(year, 12, 31).timetuple().tm_yday == 366
            if self.julian:
                return first + self.day - 1 + (leap and self.day >= 60)
            return first + self.day
        first = date(year, self.month, 1).toordinal()
        after = date(year + self.month // 12, self.month % 12 + 1, 1).toordinal()
        day = first + (self.day - first) % 7 + (self.week - 1) * 7
        return (day if day < after else day - 7) - _EPOCH


@dataclass(frozen=True, slots=True)
class DaylightRule:
    """Standard time, and summer time with its dates when the rule has it."""

    name: str
    offset: int
    """Seconds east of Greenwich."""
    summer_name: str = ""
    summer_offset: int = 0
    begins: _ChangeDate | None = None
    ends: _ChangeDate | None = None

    @property
    def has_daylight(self) -> bool:
        """Tell whether the rule has summer time."""
        return self.begins is not None

    def transitions(self, first: int, last: int) -> Iterator[tuple[int, int, str]]:
        """Yield (instant, new offset, new abbreviation) of all years in ``first..last``."""
        if self.begins is None or self.ends is None:
            return
        for year in range(first, last + 1):
            changes = [
                (self.begins.in_year(year) - self.offset, self.summer_offset, self.summer_name),
                (self.ends.in_year(year) - self.summer_offset, self.offset, self.name),
            ]
            yield from sorted(changes)


def parse(specification: str) -> DaylightRule:
    """Parse a POSIX time zone.

    Raises:
        ValueError: when it is none.
    """
    standard = _ZONE.match(specification)
    if standard is None or standard[3] is None:
        raise ValueError(specification)
    name, offset = _zone(standard)
    rest = specification[standard.end() :]
    if not rest:
        return DaylightRule(name, offset)
    summer = _ZONE.match(rest)
    if summer is None:
        raise ValueError(specification)
    summer_name, summer_offset = _zone(summer)
    if summer[3] is None:
        summer_offset = offset + 3600
    dates = rest[summer.end() :] or _DEFAULT_DATES
    begins = _DATE.match(dates)
    ends = _DATE.match(dates, begins.end()) if begins else None
    if begins is None or ends is None or ends.end() != len(dates):
        raise ValueError(specification)
    return DaylightRule(
        name, offset, summer_name, summer_offset, _change_date(begins), _change_date(ends)
    )


def seconds_of_year(year: int) -> int:
    """Return the first instant of a year, seconds since 1970 UTC."""
    return (date(year, 1, 1).toordinal() - _EPOCH) * _DAY


def _zone(match: re.Match[str]) -> tuple[str, int]:
    # POSIX counts west of Greenwich as positive.
    return match[1] or match[2], -_seconds(match, 3) if match[3] else 0


def _change_date(match: re.Match[str]) -> _ChangeDate:
    seconds = _seconds(match, 6) if match[6] else 2 * 3600
    if match[1]:
        return _ChangeDate(int(match[1]), int(match[2]), int(match[3]), False, seconds)
    return _ChangeDate(0, 0, int(match[5]), match[4] == "J", seconds)


def _seconds(match: re.Match[str], group: int) -> int:
    hours, minutes, seconds = match[group], match[group + 1], match[group + 2]
    size = abs(int(hours)) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return -size if hours.startswith("-") else size
