"""Values PostgreSQL gives as text, as Spark SQL expressions of their storage types."""

import re
from typing import Final

from catalog import sqlstate
from pgwire_gateway.spark.errors import SparkError
from rewrite.dialect import oids
from rewrite.dialect.type_mapping import storage_type

_CLOCK: Final = re.compile(r"([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_UNITS: Final = {"year": 12, "mon": 1, "day": 1}
_HOURS: Final = re.compile(r"([+-]\d\d)$")


def storage_literal(text: str | None, type_oid: int, typmod: int) -> str:
    """Return the SQL expression of a value in its storage type.

    Raises:
        SparkError: 0A000 for a type whose text is not understood.

    >>> storage_literal("t", 16, -1), storage_literal("01:00:00", 1083, -1)
    ("CAST('true' AS BOOLEAN)", 'CAST(3600000000 AS BIGINT)')
    """
    kind = storage_type(type_oid, typmod)
    if text is None:
        return f"CAST(NULL AS {kind})"
    if type_oid in oids.ELEMENTS:
        return _array(text, type_oid, typmod, kind)
    return _scalar(text, type_oid, kind)


def _scalar(text: str, type_oid: int, kind: str) -> str:
    if type_oid == oids.BOOL:
        return f"CAST('{'true' if text in {'t', 'true'} else 'false'}' AS BOOLEAN)"
    if type_oid == oids.BYTEA:
        digits = text.removeprefix("\\x")
        return f"X'{digits}'"
    if type_oid == oids.TIME:
        return f"CAST({_microseconds(text)} AS BIGINT)"
    if type_oid == oids.INTERVAL:
        return _interval(text)
    if type_oid == oids.TIMESTAMPTZ:
        text = _HOURS.sub(r"\1:00", text)
    return f"CAST({_quoted(text)} AS {kind})"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _microseconds(text: str) -> int:
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        raise _unsupported(text)
    sign, hours, minutes, seconds, fraction = clock.groups()
    total = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    micros = total * 1_000_000 + int((fraction or "0").ljust(6, "0"))
    return -micros if sign == "-" else micros


def _interval(text: str) -> str:
    """Return the fields of an interval in PostgreSQL's style, ``1 year 2 mons 3 days 04:05:06``."""
    months = days = micros = 0
    words = text.split()
    if words and _CLOCK.fullmatch(words[-1]):
        micros = _microseconds(words.pop())
    for number, unit in zip(words[::2], words[1::2], strict=False):
        name = unit.removesuffix("s")
        if name not in _UNITS:
            raise _unsupported(text)
        if name == "day":
            days += int(number)
        else:
            months += int(number) * _UNITS[name]
    return (
        f"named_struct('months', CAST({months} AS INT), 'days', CAST({days} AS INT), "
        f"'microseconds', CAST({micros} AS BIGINT))"
    )


def _array(text: str, type_oid: int, typmod: int, kind: str) -> str:
    inner = text[1:-1]
    if not (text.startswith("{") and text.endswith("}")) or any(c in inner for c in '{}"\\'):
        raise _unsupported(text)
    element = oids.ELEMENTS[type_oid]
    items = inner.split(",") if inner else []
    values = [storage_literal(None if item == "NULL" else item, element, typmod) for item in items]
    return f"CAST(ARRAY({', '.join(values)}) AS {kind})"


def _unsupported(text: str) -> SparkError:
    return SparkError(
        f'the default "{text}" of rows older than its column is not supported',
        sqlstate=sqlstate.FEATURE_NOT_SUPPORTED,
    )
