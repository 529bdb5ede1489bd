"""How the rows of one table are divided into partitions: directories of its base, col=value.

Values only. The value of a partition is computed here from a plain one (dates are days and
timestamps microseconds since 1970): Spark computes the same, and conditions are compared with it.
"""

import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import Enum
from typing import Any, Final

PartitionValue = int | str | None

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The directory of NULL."""
LONGEST_TEXT: Final = 64
"""Texts of more bytes have the digest of their bytes for a value: directories have short names."""
DIGEST: Final = "sha256:"
MICROS_PER_HOUR: Final = 3_600_000_000
MICROS_PER_DAY: Final = 24 * MICROS_PER_HOUR
MOST_BUCKETS: Final = 10_000
MOST_PARTITIONS: Final = 10_000
"""So many directories one write makes at most; a base of more partitions stays undivided."""

_LONGEST_NAME: Final = 200
_EPOCH: Final = date(1970, 1, 1)
_ERA_DAYS: Final = 146_097
"""Days of the four centuries after which the calendar is the same again."""
_PLAIN: Final = re.compile(rb"[0-9A-Za-z_-]")


class Transform(Enum):
    """What makes the value of a partition of that of a column; NULL has a partition of its own."""

    IDENTITY = "identity"
    """The value."""
    BUCKET = "bucket"
    """CRC-32 of the value's text, modulo a number of buckets."""
    TRUNCATE = "truncate"
    """The first characters of a text; of an integer, which multiple of a number is not larger."""
    YEAR = "year"
    """Years since 1970, in UTC; so are the others of times."""
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"


@dataclass(frozen=True, slots=True)
class DivisionField:
    """One of the values that partitions are told apart by."""

    transform: Transform
    attnum: int
    """The column."""
    type_oid: int
    """Its type when the table was divided."""
    argument: int = 0
    """Number of buckets, or width."""

    def value(self, plain: Any) -> PartitionValue:
        """Return the value of the partition that a row with this plain value is in."""
        if plain is None:
            return None
        if isinstance(plain, str) and self.transform is not Transform.BUCKET:
            return short(plain[: self.argument or None])
        return self._number(plain)

    def _number(self, plain: Any) -> int:
        match self.transform:
            case Transform.IDENTITY:
                return int(plain)
            case Transform.BUCKET:
                text = plain if isinstance(plain, str) else str(int(plain))
                return zlib.crc32(text.encode()) % self.argument
            case Transform.TRUNCATE:
                return int(plain) // self.argument
            case Transform.HOUR:
                return int(plain) // MICROS_PER_HOUR
            case _:
                return self._of_day(self._day(int(plain)))

    def _day(self, plain: int) -> int:
        return plain if self.type_oid == _DATE else plain // MICROS_PER_DAY

    def _of_day(self, days: int) -> int:
        if self.transform is Transform.DAY:
            return days
        year, month, _ = calendar(days)
        return year - 1970 if self.transform is Transform.YEAR else (year - 1970) * 12 + month - 1

    def text(self, value: PartitionValue) -> str:
        """Return a value as people read it; NULL is ``__HIVE_DEFAULT_PARTITION__``."""
        if value is None or value == "":
            return NO_VALUE
        if isinstance(value, str):
            return value
        return self._number_text(value)

    def _number_text(self, value: int) -> str:
        match self.transform:
            case Transform.TRUNCATE:
                return str(value * self.argument)
            case Transform.YEAR:
                return f"{1970 + value:04}"
            case Transform.MONTH:
                return f"{1970 + value // 12:04}-{value % 12 + 1:02}"
            case Transform.HOUR:
                return f"{_day_text(value // 24)}-{value % 24:02}"
            case Transform.DAY:
                return _day_text(value)
            case _:
                return self._identity_text(value)

    def _identity_text(self, value: int) -> str:
        if self.transform is Transform.IDENTITY and self.type_oid == _DATE:
            return _day_text(value)
        if self.transform is Transform.IDENTITY and self.type_oid == _BOOL:
            return "true" if value else "false"
        return str(value)

    @property
    def ascends(self) -> bool:
        """Whether larger values of the column never have smaller values of partitions.

        The order of texts depends on their collation.
        """
        return self.transform is not Transform.BUCKET and self.type_oid in _ORDERED

    def suffix(self) -> str:
        """Return what is appended to the column's name in directories."""
        return _SUFFIXES[self.transform]


_BOOL, _INT8, _INT2, _INT4, _TEXT = 16, 20, 21, 23, 25
_VARCHAR, _DATE, _TIMESTAMP, _TIMESTAMPTZ, _UUID = 1043, 1082, 1114, 1184, 2950
_INTEGERS: Final = frozenset({_INT2, _INT4, _INT8})
_TEXTS: Final = frozenset({_TEXT, _VARCHAR})
_TIMES: Final = frozenset({_TIMESTAMP, _TIMESTAMPTZ})
_ORDERED: Final = _INTEGERS | _TIMES | {_BOOL, _DATE}

COUNTED: Final = frozenset({Transform.BUCKET, Transform.TRUNCATE})
"""Transforms with a number before the column."""

TYPES: Final[Mapping[Transform, frozenset[int]]] = {
    Transform.IDENTITY: _INTEGERS | _TEXTS | {_BOOL, _DATE, _UUID},
    Transform.BUCKET: _INTEGERS | _TEXTS | {_DATE, _UUID},
    Transform.TRUNCATE: _INTEGERS | _TEXTS,
    Transform.YEAR: _TIMES | {_DATE},
    Transform.MONTH: _TIMES | {_DATE},
    Transform.DAY: _TIMES | {_DATE},
    Transform.HOUR: _TIMES,
}
"""Types of the columns that each is for."""

_SUFFIXES: Final[Mapping[Transform, str]] = {
    Transform.IDENTITY: "",
    Transform.TRUNCATE: "_trunc",
    **{
        transform: f"_{transform.value}"
        for transform in Transform
        if transform not in {Transform.IDENTITY, Transform.TRUNCATE}
    },
}


@dataclass(frozen=True, slots=True)
class Division:
    """How a table is divided."""

    number: int
    """Tells it from those that the table had before."""
    fields: tuple[DivisionField, ...]

    @property
    def attnums(self) -> frozenset[int]:
        """The columns that decide on the partition of a row."""
        return frozenset(field.attnum for field in self.fields)

    def values(self, plain: Sequence[Any]) -> tuple[PartitionValue, ...]:
        """Return the values of the partition of a row, given the plain value of each column."""
        return tuple(field.value(value) for field, value in zip(self.fields, plain, strict=True))

    def directory(self, names: Sequence[str], values: Sequence[PartitionValue]) -> str:
        """Return where a partition is below its table, with the names of the columns."""
        return "/".join(
            _component(escaped(name + field.suffix()), escaped(field.text(value)))
            for field, name, value in zip(self.fields, names, values, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Partition:
    """What a segment tells of its rows: they are in one partition."""

    division: int
    """Number of the division."""
    value_bytes: int
    """Size of the rows in memory."""
    values: tuple[PartitionValue, ...]


def short(text: str) -> str:
    """Return a text, or its digest where it is long.

    >>> short("DE"), short("x" * 65)[:14]
    ('DE', 'sha256:9537c5f')
    """
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= LONGEST_TEXT:
        return text
    return DIGEST + hashlib.sha256(encoded).hexdigest()


def escaped(text: str) -> str:
    """Return a text as the name of a directory: all but letters, digits, - and _ as bytes.

    >>> escaped("a b/ü.."), escaped("2024-01")
    ('a%20b%2F%C3%BC%2E%2E', '2024-01')
    """
    return "".join(
        chr(byte) if _PLAIN.fullmatch(bytes((byte,))) else f"%{byte:02X}"
        for byte in text.encode("utf-8", "surrogatepass")
    )


def calendar(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day since 1970, before the year 1 too.

    >>> calendar(0), calendar(-719163), calendar(2932897)
    ((1970, 1, 1), (0, 12, 31), (10000, 1, 1))
    """
    shifted = days - (date(2000, 1, 1) - _EPOCH).days
    eras, rest = divmod(shifted, _ERA_DAYS)
    found = date(2000, 1, 1) + timedelta(days=rest)
    return found.year + 400 * eras, found.month, found.day


def _component(name: str, value: str) -> str:
    """Return the name of a directory, no longer than file systems have them."""
    if len(name) + len(value) < _LONGEST_NAME:
        return f"{name}={value}"
    return f"{name[:100]}={hashlib.sha256(f'{name}={value}'.encode()).hexdigest()}"


def _day_text(days: int) -> str:
    year, month, day = calendar(days)
    return f"{year:04}-{month:02}-{day:02}"
