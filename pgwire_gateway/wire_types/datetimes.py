"""date, time, timestamp and timestamptz columns.

In ISO style the years 1 to 9999 are written by Arrow's own kernels; other styles and years one
by one. The smallest and the largest stored number stand for -infinity and infinity, as in
PostgreSQL.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pgwire_gateway.wire_types.buffers import (
    Flags,
    Numbers,
    as_text,
    big_endian,
    fixed,
    join,
    numbers,
    validity,
    validity_buffer,
)
from pgwire_gateway.wire_types.datetime_text import (
    DAY,
    DateStyle,
    OutputStyle,
    date_text,
    offset_text,
    parse_date_style,
    time_text,
    timestamp_text,
)
from pgwire_gateway.wire_types.settings import EncodingSettings
from pgwire_gateway.wire_types.time_zones import TimeZone, load

_POSTGRES_EPOCH_DAYS = 10_957
"""2000-01-01, from which PostgreSQL counts on the wire."""
_POSTGRES_EPOCH = _POSTGRES_EPOCH_DAYS * DAY
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31."""
_SECOND = 1_000_000


def date_column(values: pa.Array, settings: EncodingSettings) -> pa.Array:
    """Write dates as text."""
    style = parse_date_style(settings.date_style)
    days, valid = numbers(values, np.int32), validity(values)
    unusual = (days < _FIRST_DAY) | (days > _LAST_DAY)
    if style.output is not OutputStyle.ISO:
        unusual[:] = True

    def write(value: int) -> str:
        return _infinity(value, np.int32) or date_text(value, style)

    def regular(days: Numbers) -> pa.Array:
        return _array(days, pa.date32(), valid).cast(pa.string())

    return _merged(days, unusual, valid, regular, write)


def date_binary(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Write days since 2000."""
    return _since_2000(values, np.int32, _POSTGRES_EPOCH_DAYS, ">i4")


def time_column(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Write times of day, given in microseconds, as text."""
    times, valid = numbers(values, np.int64), validity(values)

    def regular(times: Numbers) -> pa.Array:
        return _trimmed(times, pa.time64("us"), pa.time32("s"), valid)

    return _merged(times, (times < 0) | (times >= DAY), valid, regular, time_text)


def timestamp_column(values: pa.Array, settings: EncodingSettings) -> pa.Array:
    """Write timestamps without time zone as text."""
    style = parse_date_style(settings.date_style)
    return _timestamps(numbers(values, np.int64), validity(values), style, None)


def timestamptz_column(values: pa.Array, settings: EncodingSettings) -> pa.Array:
    """Write timestamps as text in the session's time zone."""
    style = parse_date_style(settings.date_style)
    zone = load(settings.time_zone, settings.time_zone_directory)
    return _timestamps(numbers(values, np.int64), validity(values), style, zone)


def timestamp_binary(values: pa.Array, _settings: EncodingSettings) -> pa.Array:
    """Write microseconds since 2000, for timestamps with and without time zone."""
    return _since_2000(values, np.int64, _POSTGRES_EPOCH, ">i8")


def _timestamps(
    instants: Numbers, valid: Flags | None, style: DateStyle, zone: TimeZone | None
) -> pa.Array:
    # A margin of two days keeps local time within the years Arrow writes.
    unusual = (instants < (_FIRST_DAY + 2) * DAY) | (instants > (_LAST_DAY - 2) * DAY)
    if style.output is not OutputStyle.ISO:
        unusual[:] = True

    def write(instant: int) -> str:
        special = _infinity(instant, np.int64)
        if special or zone is None:
            return special or timestamp_text(instant, style)
        kind = zone.kinds_at(np.array([instant // _SECOND]))[0]
        offset = int(zone.offsets[kind])
        local = instant + offset * _SECOND
        return timestamp_text(local, style, offset, zone.abbreviations[kind])

    def regular(instants: Numbers) -> pa.Array:
        if zone is None:
            return _trimmed(instants, pa.timestamp("us"), pa.timestamp("s"), valid)
        kinds = zone.kinds_at(instants // _SECOND)
        local = instants + zone.offsets[kinds] * _SECOND
        written = _trimmed(local, pa.timestamp("us"), pa.timestamp("s"), valid)
        suffixes = [offset_text(int(offset)) for offset in zone.offsets]
        if len(suffixes) == 1:
            return as_text(join(written, suffixes[0].encode()))
        return as_text(join(written, pa.array(suffixes).take(pa.array(kinds))))

    return _merged(instants, unusual, valid, regular, write)


def _merged(
    stored: Numbers,
    unusual: Flags,
    valid: Flags | None,
    regular: Callable[[Numbers], pa.Array],
    write: Callable[[int], str],
) -> pa.Array:
    """Write a column by kernels, and the unusual values among it, or a single one, one by one."""
    if len(stored) == 1:
        is_there = valid is None or valid[0]
        return pa.array([write(int(stored[0])) if is_there else None], pa.string())
    if valid is not None:
        # What is under a NULL is arbitrary and must not disturb the kernels.
        stored = np.where(valid, stored, 0)
        unusual = unusual & valid
    if not unusual.any():
        return regular(stored)
    written = pa.array([write(value) for value in stored[unusual].tolist()], pa.string())
    mask = pa.array(unusual)
    return pc.replace_with_mask(regular(np.where(unusual, 0, stored)), mask, written)


def _trimmed(
    stored: Numbers, exact: pa.DataType, seconds: pa.DataType, valid: Flags | None
) -> pa.Array:
    """Write values in microseconds without trailing zeros of the fraction."""
    whole, fractions = np.divmod(stored, _SECOND)
    if not fractions.any():
        narrow = whole.astype(np.int32) if seconds.bit_width == 32 else whole
        return _array(narrow, seconds, valid).cast(pa.string())
    written = _array(stored, exact, valid).cast(pa.string())
    return pc.ascii_rtrim(pc.ascii_rtrim(written, "0"), ".")


def countable(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return dates and timestamps, or arrays of them, as the numbers they are stored as.

    Python has no values for years before 1 and after 9999. Other columns are returned as they are.
    """
    return values.cast(_counting(values.type))


def _counting(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_counting(kind.value_type))
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def _array(stored: Numbers, kind: pa.DataType, valid: Flags | None) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(stored))
    return pa.Array.from_buffers(kind, len(stored), [validity_buffer(valid), data])


def _since_2000(values: pa.Array, dtype: type[np.signedinteger], epoch: int, sent: str) -> pa.Array:
    stored = numbers(values, dtype)
    limits = np.iinfo(dtype)
    infinite = (stored == limits.min) | (stored == limits.max)
    with np.errstate(over="ignore"):
        counted = np.where(infinite, stored, stored - dtype(epoch))
    return fixed(big_endian(counted, sent), validity(values))


def _infinity(value: int, dtype: type[np.signedinteger]) -> str:
    limits = np.iinfo(dtype)
    if value == limits.max:
        return "infinity"
    return "-infinity" if value == limits.min else ""
