"""interval, stored as months, days and microseconds.

The four styles follow EncodeInterval of PostgreSQL's datetime.c.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from pgwire_gateway.wire_types.buffers import big_endian, fixed, numbers, validity
from pgwire_gateway.wire_types.settings import EncodingSettings

_INFINITY: Final = (2**31 - 1, 2**31 - 1, 2**63 - 1)
_MINUS_INFINITY: Final = (-(2**31), -(2**31), -(2**63))


def text(values: pa.Array, settings: EncodingSettings) -> pa.Array:
    """Write intervals in the session's IntervalStyle."""
    months, days, microseconds = (part.to_pylist() for part in values.flatten())
    style = settings.interval_style
    written = [
        None if month is None else interval_text(month, day, rest, style)
        for month, day, rest in zip(months, days, microseconds, strict=True)
    ]
    return pa.array(written, pa.string())


def binary(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Write microseconds, days and months."""
    months, days, microseconds = values.flatten()
    matrix = np.hstack(
        [
            big_endian(numbers(microseconds, np.int64), ">i8"),
            big_endian(numbers(days, np.int32), ">i4"),
            big_endian(numbers(months, np.int32), ">i4"),
        ]
    )
    return fixed(matrix, validity(values))


@dataclass(frozen=True, slots=True)
class _Fields:
    """An interval split into units, each with its sign, rounded towards zero."""

    year: int
    mon: int
    day: int
    hour: int
    min: int
    microseconds: int

    @property
    def clock(self) -> tuple[int, int, int]:
        """Hours, minutes and microseconds."""
        return self.hour, self.min, self.microseconds

    def values(self) -> Iterator[int]:
        """Yield all units."""
        return (getattr(self, field.name) for field in fields(self))

    def negated(self) -> "_Fields":
        """Return the same interval with the opposite sign."""
        return _Fields(*(-value for value in self.values()))


@lru_cache(maxsize=65_536)
def interval_text(months: int, days: int, microseconds: int, style: str) -> str:
    """Write one interval in a style."""
    if (months, days, microseconds) == _INFINITY:
        return "infinity"
    if (months, days, microseconds) == _MINUS_INFINITY:
        return "-infinity"
    sign = -1 if microseconds < 0 else 1
    minutes, rest = divmod(abs(microseconds), 60_000_000)
    years, month = divmod(abs(months), 12)
    if months < 0:
        years, month = -years, -month
    return _STYLES[style](
        _Fields(years, month, days, sign * (minutes // 60), sign * (minutes % 60), sign * rest)
    )


def _seconds(microseconds: int, width: int) -> str:
    """Write seconds without sign, the whole ones with at least ``width`` digits."""
    whole, fraction = divmod(abs(microseconds), 1_000_000)
    return f"{whole:0{width}d}" + (f".{fraction:06d}".rstrip("0") if fraction else "")


def _postgres(parts: _Fields) -> str:
    words, before = [], False
    for value, unit in ((parts.year, "year"), (parts.mon, "mon"), (parts.day, "day")):
        if value:
            plus = "+" if before and value > 0 else ""
            words.append(f"{plus}{value} {unit}{'' if value == 1 else 's'}")
            before = value < 0
    if any(parts.clock) or not words:
        sign = "-" if min(parts.clock) < 0 else "+" if before else ""
        clock = f"{abs(parts.hour):02d}:{abs(parts.min):02d}:{_seconds(parts.microseconds, 2)}"
        words.append(sign + clock)
    return " ".join(words)


def _postgres_verbose(parts: _Fields) -> str:
    written, before = "@", False
    units = {"year": parts.year, "mon": parts.mon, "day": parts.day}
    for unit, value in (units | {"hour": parts.hour, "min": parts.min}).items():
        if value:
            if written == "@":
                before, value = value < 0, abs(value)  # noqa: PLW2901
            elif before:
                value = -value  # noqa: PLW2901
            written += f" {value} {unit}{'' if value == 1 else 's'}"
    if parts.microseconds:
        negative = parts.microseconds < 0
        if written == "@":
            before = negative
        sign = "-" if negative != before else ""
        plural = "" if abs(parts.microseconds) == 1_000_000 else "s"
        written += f" {sign}{_seconds(parts.microseconds, 1)} sec{plural}"
    return (written if written != "@" else "@ 0") + " ago" * before


def _sql_standard(parts: _Fields) -> str:
    negative, positive = min(parts.values()) < 0, max(parts.values()) > 0
    has_months, has_time = bool(parts.year or parts.mon), bool(parts.day or any(parts.clock))
    if not negative and not positive:
        return "0"
    if (negative and positive) or (has_months and has_time):
        signs = [
            "-" if min(group) < 0 else "+"
            for group in ((parts.year, parts.mon), (parts.day,), parts.clock)
        ]
        return (
            f"{signs[0]}{abs(parts.year)}-{abs(parts.mon)} {signs[1]}{abs(parts.day)} "
            f"{signs[2]}{_clock(parts)}"
        )
    sign = "-" if negative else ""
    if negative:
        parts = parts.negated()
    if has_months:
        return f"{sign}{parts.year}-{parts.mon}"
    return f"{sign}{parts.day} {_clock(parts)}" if parts.day else sign + _clock(parts)


def _clock(parts: _Fields) -> str:
    return f"{abs(parts.hour)}:{abs(parts.min):02d}:{_seconds(parts.microseconds, 2)}"


def _iso_8601(parts: _Fields) -> str:
    dated = {"Y": parts.year, "M": parts.mon, "D": parts.day}
    timed = {"H": parts.hour, "M": parts.min}
    written = "P" + "".join(f"{value}{unit}" for unit, value in dated.items() if value)
    if any(parts.clock):
        written += "T" + "".join(f"{value}{unit}" for unit, value in timed.items() if value)
    if parts.microseconds:
        sign = "-" if parts.microseconds < 0 else ""
        written += f"{sign}{_seconds(parts.microseconds, 1)}S"
    return "PT0S" if written == "P" else written


_STYLES: dict[str, Callable[[_Fields], str]] = {
    "postgres": _postgres,
    "postgres_verbose": _postgres_verbose,
    "sql_standard": _sql_standard,
    "iso_8601": _iso_8601,
}
