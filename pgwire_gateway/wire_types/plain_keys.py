"""Values of keys as plain Python values: dates and times are numbers, as in transfer forms.

Equal values are equal as Python's, whatever column, text or session they come from
(`rewrite.key_types`): numbers have the scale of their column, characters its length.
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.model import Column, JournalTable
from pgwire_gateway.wire_types import input_text, type_oids
from pgwire_gateway.wire_types.datetime_text import (
    DateStyle,
    OutputStyle,
    date_text,
    time_text,
    timestamp_text,
)
from rewrite import key_types

Plain = tuple[Any, ...]

_ISO: Final = DateStyle(OutputStyle.ISO, day_first=False)
_LOGICAL_TIMES: Final = frozenset({"DATE", "TIMESTAMP"})


def plain(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return a column of a key in a type that has plain values.

    >>> plain(pa.array([1], pa.date32())).to_pylist()
    [1]
    """
    kind = values.type
    if pa.types.is_date32(kind):
        return values.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    return values.cast(pa.int64()) if pa.types.is_integer(kind) else values


def tuples(rows: pa.Table | pa.RecordBatch, names: Sequence[str]) -> list[Plain]:
    """Return what each row has in some columns."""
    return list(zip(*(plain(rows.column(name)).to_pylist() for name in names), strict=True))


def bounds(statistics: pq.Statistics | None) -> tuple[Any, Any] | None:
    """Return the smallest and largest value that statistics of a column tell; None for none.

    Python has no dates for all of them.
    """
    if statistics is None or not statistics.has_min_max:
        return None
    logical = statistics.logical_type
    if logical.type == "TIMESTAMP" and "timeUnit=microseconds" not in str(logical):
        return None
    if logical.type in _LOGICAL_TIMES:
        return statistics.min_raw, statistics.max_raw
    return statistics.min, statistics.max


def has_one_form(table: JournalTable, attnums: Iterable[int]) -> bool:
    """Return whether columns of a table have values that are equal where plain ones are."""
    columns = (table.column(attnum) for attnum in attnums)
    return all(key_types.has_one_form(column.type_oid, column.typmod) for column in columns)


def read(columns: Sequence[Column], texts: Iterable[str]) -> Plain:
    """Return values of columns that are given as PostgreSQL's texts; None for what no row has."""
    return tuple(
        key_types.one_form(_reader(column.type_oid)(text), column.type_oid, column.typmod)
        for column, text in zip(columns, texts, strict=True)
    )


def _reader(type_oid: int) -> Callable[[str], Any]:
    return Decimal if type_oid == type_oids.NUMERIC else input_text.parser(type_oid)


def written(types: Sequence[int], values: Iterable[Any]) -> tuple[str, ...]:
    """Return PostgreSQL's texts of values, which do not depend on settings.

    >>> written([1082, 1184, 23], [-719163, 1, 7])
    ('0001-12-31 BC', '1970-01-01 00:00:00.000001+00', '7')
    """
    return tuple(
        _WRITERS.get(type_oid, str)(value) for type_oid, value in zip(types, values, strict=True)
    )


_WRITERS: Final[dict[int, Callable[[Any], str]]] = {
    type_oids.BOOL: lambda value: "t" if value else "f",
    type_oids.BYTEA: lambda value: f"\\x{value.hex()}",
    type_oids.DATE: lambda days: date_text(days, _ISO),
    type_oids.NUMERIC: lambda number: f"{number:f}",
    type_oids.TIME: time_text,
    type_oids.TIMESTAMP: lambda micros: timestamp_text(micros, _ISO),
    type_oids.TIMESTAMPTZ: lambda micros: timestamp_text(micros, _ISO, 0),
}
