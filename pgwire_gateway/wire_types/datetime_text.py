"""Dates and times one by one, in any DateStyle and for any year PostgreSQL knows.

Follows EncodeDateOnly, EncodeTimeOnly, EncodeDateTime and EncodeTimezone of PostgreSQL's
datetime.c.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

DAY: Final = 86_400_000_000
"""Microseconds of a day."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WEEKDAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
"""Days of the week from 1970-01-01 on."""
_LONGEST_ABBREVIATION = 10
"""MAXTZLEN."""


class OutputStyle(Enum):
    """First half of DateStyle."""

    ISO = "ISO"
    """1997-12-17 07:37:16-08"""
    SQL = "SQL"
    """12/17/1997 07:37:16.00 PST"""
    POSTGRES = "POSTGRES"
    """Wed Dec 17 07:37:16 1997 PST"""
    GERMAN = "GERMAN"
    """17.12.1997 07:37:16.00 PST"""


@dataclass(frozen=True, slots=True)
class DateStyle:
    """How dates are written."""

    output: OutputStyle
    day_first: bool
    """True when the field order is DMY."""


def parse_date_style(setting: str) -> DateStyle:
    """Read DateStyle as PostgreSQL reports it, for instance ``SQL, DMY``."""
    output, _, order = setting.partition(",")
    return DateStyle(OutputStyle(output.strip().upper()), order.strip().upper() == "DMY")


def date_text(days: int, style: DateStyle) -> str:
    """Write a date given as days since 1970-01-01."""
    year, month, day = civil(days)
    written = _date(f"{shown_year(year):04d}", month, day, style)
    return written + " BC" * (year <= 0)


def time_text(microseconds: int) -> str:
    """Write a time of day given as microseconds since midnight."""
    seconds, fraction = divmod(microseconds, 1_000_000)
    written = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return written + (f".{fraction:06d}".rstrip("0") if fraction else "")


def timestamp_text(
    microseconds: int, style: DateStyle, offset: int | None = None, abbreviation: str = ""
) -> str:
    """Write local time given as microseconds since 1970, with its zone when there is an offset."""
    days, rest = divmod(microseconds, DAY)
    year, month, day = civil(days)
    clock, shown = time_text(rest), f"{shown_year(year):04d}"
    if style.output is OutputStyle.POSTGRES:
        name = _MONTHS[month - 1]
        date = f"{day:02d} {name}" if style.day_first else f"{name} {day:02d}"
        written = f"{_WEEKDAYS[days % 7]} {date} {clock} {shown}"
    else:
        written = f"{_date(shown, month, day, style)} {clock}"
    if offset is not None:
        if style.output is OutputStyle.ISO:
            written += offset_text(offset)
        else:
            written += f" {abbreviation[:_LONGEST_ABBREVIATION]}"
    return written + " BC" * (year <= 0)


def offset_text(offset: int) -> str:
    """Write seconds east of Greenwich, minutes and seconds only where they are not zero."""
    size = abs(offset)
    hours, minutes, seconds = size // 3600, size // 60 % 60, size % 60
    written = f"{'-' if offset < 0 else '+'}{hours:02d}"
    if seconds:
        return f"{written}:{minutes:02d}:{seconds:02d}"
    return f"{written}:{minutes:02d}" if minutes else written


def civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day in the proleptic Gregorian calendar; year 0 is 1 BC."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return era * 400 + year + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def shown_year(year: int) -> int:
    """Return the year as written, with BC years counted from 1."""
    return year if year > 0 else 1 - year


def _date(year: str, month: int, day: int, style: DateStyle) -> str:
    match style.output:
        case OutputStyle.ISO:
            return f"{year}-{month:02d}-{day:02d}"
        case OutputStyle.GERMAN:
            return f"{day:02d}.{month:02d}.{year}"
        case _:
            mark = "/" if style.output is OutputStyle.SQL else "-"
            first, second = (day, month) if style.day_first else (month, day)
            return f"{first:02d}{mark}{second:02d}{mark}{year}"
