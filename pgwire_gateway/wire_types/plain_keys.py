"""Values of keys as plain Python values: dates and times are numbers, as in transfer forms.

Equal values are equal as Python's, whatever column, text or session they come from.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pgwire_gateway.wire_types import input_text, type_oids
from pgwire_gateway.wire_types.datetime_text import (
    DateStyle,
    OutputStyle,
    date_text,
    timestamp_text,
)

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


def read(types: Sequence[int], texts: Iterable[str]) -> Plain:
    """Return values that are given as PostgreSQL's texts.

    >>> read([1082, 25], ["0001-12-31 BC", "x"])
    (-719163, 'x')
    """
    return tuple(
        input_text.parser(type_oid)(text) for type_oid, text in zip(types, texts, strict=True)
    )


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
    type_oids.DATE: lambda days: date_text(days, _ISO),
    type_oids.TIMESTAMP: lambda micros: timestamp_text(micros, _ISO),
    type_oids.TIMESTAMPTZ: lambda micros: timestamp_text(micros, _ISO, 0),
}
