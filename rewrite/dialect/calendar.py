"""Days and moments that are known, computed as PostgreSQL does: shifted, and cut to units.

All of PostgreSQL's range is covered, which is more than Python's dates. Days are counted from
1970-01-01, moments are microseconds from then, both by the Gregorian calendar at any time.
"""

from typing import Final

from rewrite.dialect.literals import DATE_TIMESTAMP_END, DAY, TIMESTAMP_END, TIMESTAMP_MIN

CLOCK_UNITS: Final[dict[str, int]] = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
}
"""Units that all have the same length, in microseconds."""

_MONTHS: Final[dict[str, int]] = {"month": 1, "quarter": 3, "year": 12}
"""Units that begin with a month of the first year, in months."""
_YEARS: Final[dict[str, tuple[int, int]]] = {
    "decade": (10, 0),
    "century": (100, 1),
    "millennium": (1000, 1),
}
"""Unit → years in it, and the year of its first one."""
_ERA_DAYS: Final = 146_097
"""Days of 400 years."""
_ERA_START: Final = 719_468
"""Days from 0000-03-01 to 1970-01-01."""
_MONDAY: Final = 4
"""1970-01-05 was one."""


def day_number(year: int, month: int, day: int) -> int:
    """Return the number of a day; year 0 is 1 BC.

    >>> day_number(1970, 1, 1), day_number(2000, 1, 1), day_number(-4713, 11, 24)
    (0, 10957, -2440588)
    """
    years = year - (month <= 2)
    era, year_of_era = divmod(years, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * _ERA_DAYS + day_of_era - _ERA_START


def year_month_day(number: int) -> tuple[int, int, int]:
    """Return year, month and day of a day's number.

    >>> year_month_day(day_number(2024, 2, 29)), year_month_day(-2440588)
    ((2024, 2, 29), (-4713, 11, 24))
    """
    era, day_of_era = divmod(number + _ERA_START, _ERA_DAYS)
    leaps = day_of_era // 1460 - day_of_era // 36_524 + day_of_era // 146_096
    year_of_era = (day_of_era - leaps) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = (month_from_march + 2) % 12 + 1
    return year_of_era + era * 400 + (month <= 2), month, day


def is_moment(micros: int) -> bool:
    """Tell whether there is such a timestamp, here and in PostgreSQL."""
    return TIMESTAMP_MIN <= micros < TIMESTAMP_END


def midnight(day: int) -> int | None:
    """Return the moment with which a day begins; None where there is none."""
    return day * DAY if day < DATE_TIMESTAMP_END and is_moment(day * DAY) else None


def shifted(micros: int, months: int, days: int, rest: int) -> int | None:
    """Return a local time moved by the fields of an interval; None where that leads out of range.

    Months come first, then days, then the rest; each result has to be in range.

    >>> shifted(day_number(2024, 3, 31) * DAY, -1, 0, 0) == day_number(2024, 2, 29) * DAY
    True
    """
    if months:
        day, clock = divmod(micros, DAY)
        year, month, of_month = year_month_day(day)
        number = year * 12 + month - 1 + months
        first = day_number(number // 12, number % 12 + 1, 1)
        length = day_number((number + 1) // 12, (number + 1) % 12 + 1, 1) - first
        micros = (first + min(of_month, length) - 1) * DAY + clock
    if not is_moment(micros) or not is_moment(micros + days * DAY):
        return None
    micros += days * DAY + rest
    return micros if is_moment(micros) else None


def unit_start(unit: str, micros: int) -> int | None:
    """Return the beginning of the unit in which a local time is; None for what is no such unit.

    It may be before the first moment there is.

    >>> unit_start("week", day_number(2024, 2, 29) * DAY) == day_number(2024, 2, 26) * DAY
    True
    """
    if unit in CLOCK_UNITS:
        return micros - micros % CLOCK_UNITS[unit]
    day = micros // DAY
    if unit == "day":
        return day * DAY
    if unit == "week":
        return (day - (day - _MONDAY) % 7) * DAY
    year, month, _ = year_month_day(day)
    if unit in _MONTHS:
        first = month - 1 - (month - 1) % _MONTHS[unit]
        return day_number(year, first + 1, 1) * DAY
    if unit in _YEARS:
        size, origin = _YEARS[unit]
        return day_number(year - (year - origin) % size, 1, 1) * DAY
    return None


def next_unit(unit: str, start: int) -> int:
    """Return the beginning of the unit after one that begins with a local time."""
    if unit in CLOCK_UNITS:
        return start + CLOCK_UNITS[unit]
    if unit in {"day", "week"}:
        return start + (DAY if unit == "day" else 7 * DAY)
    months = _MONTHS[unit] if unit in _MONTHS else _YEARS[unit][0] * 12
    year, month, _ = year_month_day(start // DAY)
    number = year * 12 + month - 1 + months
    return day_number(number // 12, number % 12 + 1, 1) * DAY
