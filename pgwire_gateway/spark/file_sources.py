"""Files of others as DataFrames: how they are read, and what is asked of all their rows first."""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.spark import csv_files
from pgwire_gateway.spark.api import Frame, Reading, Session
from pgwire_gateway.spark.row_sizes import bytes_at_least
from pgwire_gateway.spark.source_types import SourceColumn, columns_of
from rewrite.errors import UnsupportedError

_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    # A column that only some of the files have is NULL in the others, and two types are an error.
    "parquet": {"mergeSchema": "true"},
    "orc": {"mergeSchema": "true"},
    # As PostgreSQL's COPY: an unquoted empty field is NULL, a quote is doubled.
    "csv": {
        "header": "true",
        "enforceSchema": "false",
        "multiLine": "true",
        "escape": '"',
        "mode": "FAILFAST",
    },
    "json": {"mode": "FAILFAST", "lineSep": "\n"},
}
"""Options of Spark's readers by format. Nothing is guessed from CSV: its columns are text."""

_MOMENT_OPTIONS: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Moments with all their digits; Spark writes milliseconds else."""

_WRITE_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "csv": {
        "header": "true",
        "escape": '"',
        "nullValue": "",
        "emptyValue": '""',
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
        **_MOMENT_OPTIONS,
    },
    "json": _MOMENT_OPTIONS,
}
"""Options of Spark's writers by format."""

WIDTHS: Final = {"boolean": 1, "byte": 2, "short": 2, "integer": 4, "float": 4, "date": 4}
DATES: Final = (-2_440_588, 2_145_042_905)
"""First and last day of PostgreSQL's dates, counted from 1970."""
MOMENTS: Final = (-210_866_803_200_000_000, 2**63 - 2)
"""Begin of PostgreSQL's timestamps, and Spark's last; the number after it stands for infinity."""
_FIRST_GREGORIAN_DAY: Final = -141_427
_TIMESTAMPS: Final = frozenset({"timestamp", "timestamp_ntz"})


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files of one format."""

    format: str
    files: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """What has been found out about all rows of a source."""

    rows: int
    value_bytes: int
    """About how large they are in memory."""
    without: tuple[str, ...]
    """Columns that are NULL in some row, of those that were asked for."""
    longest: int = 0
    """How large the largest row is, its values counted as text."""


def open_files(session: Session, source: FileSource) -> Frame:
    """Return the DataFrame of files, with the columns that are found in them."""
    return reader_of(session, source)


def reader_of(session: Session, source: FileSource, schema: str | None = None) -> Frame:
    """Return the DataFrame of files, with the columns of a schema of Spark where it is given.

    Of CSV and JSON they are files that have been looked at, see `csv_files` and `json_files`.
    """
    if source.format != "csv":
        return _read(session, source.format, source.files, schema, {})
    # Left to itself, Spark changes line ends in values to those of the first line.
    groups: dict[str, list[Path]] = {}
    for file in source.files:
        header = csv_files.header_of(file)
        if header.columns:
            groups.setdefault(header.line_end, []).append(file)
    if not groups:
        return _read(session, "csv", source.files, schema, {})
    frames = [
        _read(session, "csv", files, schema, {"lineSep": line_end})
        for line_end, files in groups.items()
    ]
    return reduce(lambda one, other: one.union(other), frames)


def _read(
    session: Session,
    form: str,
    files: Iterable[Path],
    schema: str | None,
    options: Mapping[str, str],
) -> Frame:
    given = {**_OPTIONS[form], **options}
    if form in {"csv", "json"}:
        # No column of theirs has this name, which would be NULL.
        given["columnNameOfCorruptRecord"] = uuid.uuid4().hex
    if form == "csv":
        # What stands for NULL is never there, so that quoted empty text stays text.
        given["nullValue"] = uuid.uuid4().hex
    paths = tuple(f"file://{file}" for file in files)
    return session.read(Reading(form, paths, given, schema=schema))


def write_options(form: str) -> Mapping[str, str]:
    """Return the options by which what is written is read again as it was."""
    return _WRITE_OPTIONS.get(form, {})


def described(frame: Frame, source: FileSource) -> tuple[SourceColumn, ...]:
    """Return the columns of the DataFrame of files.

    Raises:
        GatewayError: As ``columns_of``.
        UnsupportedError: 0A000 for timestamps in ORC files.
    """
    columns = columns_of(json.loads(frame.schema()))
    for column in columns if source.format == "orc" else ():
        if _element(column) in _TIMESTAMPS:
            raise UnsupportedError(
                f'column "{column.name}" with timestamps in ORC files is not supported',
                hint="Which moments they mean depends on who wrote them. Parquet files tell.",
            )
    return columns


def quoted(name: str) -> str:
    """Return the name of a column as Spark's SQL.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def examine(
    frame: Frame,
    source: FileSource,
    columns: Iterable[SourceColumn],
    required: Iterable[str],
) -> Contents:
    """Read all rows once: count them, and look for values that PostgreSQL's types do not have.

    Args:
        frame: The DataFrame of the files.
        source: The files.
        columns: The columns of both.
        required: Columns that are looked at for NULL.

    Raises:
        GatewayError: 22021 for text with a zero byte or that is no UTF-8, 22008 for a date or a
            timestamp that is out of range, 0A000 for dates of ORC files before 1582-10-15.
    """
    listed, needed = tuple(columns), tuple(required)
    items = ["count(*)", *(f"count({quoted(name)})" for name in needed)]
    sizes = [_size(column) for column in listed]
    checks = [check for column in listed for check in _checks(column)]
    if source.format == "orc":
        checks += [_in_two_calendars(column) for column in listed if _element(column) == "date"]
    lengths = " + ".join(["0L", *filter(None, map(_text_size, listed))])
    items += [size for size in sizes if size] + [f"max({lengths})"]
    items += [check.sql for check in checks]
    values: Iterator[Any] = iter(frame.select(items).first())
    rows = int(next(values))
    missing = tuple([name for name in needed if int(next(values)) < rows])
    size = sum(int(next(values) or 0) for found in sizes if found)
    size += rows * sum(_width(column) for column in listed)
    longest = int(next(values) or 0) + bytes_at_least(len(listed))
    for check in checks:
        if next(values):
            raise GatewayError(
                check.message, sqlstate=check.sqlstate, detail=f'Column "{check.column}".'
            )
    return Contents(rows, size, missing, longest)


@dataclass(frozen=True, slots=True)
class _Check:
    """A condition under which some value of a column cannot be kept."""

    column: str
    sql: str
    message: str
    sqlstate: str = codes.DATETIME_FIELD_OVERFLOW


def _checks(column: SourceColumn) -> Iterator[_Check]:
    item = "x" if column.is_array else quoted(column.name)
    for condition, message, code in _conditions(_element(column), item):
        yield _Check(column.name, _of_some_value(column, condition), message, code)


def _in_two_calendars(column: SourceColumn) -> _Check:
    """Return what finds days that are others in the calendar that some writers of ORC keep to."""
    item = "x" if column.is_array else quoted(column.name)
    condition = f"unix_date({item}) < {_FIRST_GREGORIAN_DAY}"
    message = "dates before 1582-10-15 in ORC files are not supported"
    sql = _of_some_value(column, condition)
    return _Check(column.name, sql, message, codes.FEATURE_NOT_SUPPORTED)


def _of_some_value(column: SourceColumn, condition: str) -> str:
    """Return an aggregate: whether a condition, on `x` for elements, holds for some value."""
    sql = f"exists({quoted(column.name)}, x -> {condition})" if column.is_array else condition
    return f"coalesce(bool_or({sql}), false)"


def _element(column: SourceColumn) -> str:
    """Return the type of a column, or of the elements of its arrays; empty for structures."""
    kind = column.kind["elementType"] if column.is_array else column.kind
    return kind if isinstance(kind, str) else ""


def _conditions(kind: Any, item: str) -> Iterator[tuple[str, str, str]]:
    if kind == "string":
        encoding = 'invalid byte sequence for encoding "UTF8"'
        code = codes.CHARACTER_NOT_IN_REPERTOIRE
        yield f"contains({item}, chr(0))", f"{encoding}: 0x00", code
        yield f"NOT is_valid_utf8({item})", encoding, code
    elif kind == "date":
        condition = f"unix_date({item}) NOT BETWEEN {DATES[0]} AND {DATES[1]}"
        yield condition, "date out of range", codes.DATETIME_FIELD_OVERFLOW
    elif kind in _TIMESTAMPS:
        instant = f"CAST({item} AS TIMESTAMP)"
        condition = f"unix_micros({instant}) NOT BETWEEN {MOMENTS[0]}L AND {MOMENTS[1]}L"
        yield condition, "timestamp out of range", codes.DATETIME_FIELD_OVERFLOW


def _size(column: SourceColumn) -> str:
    if column.is_array:
        return f"sum(16L * size({quoted(column.name)}))"
    if column.kind in {"string", "binary"}:
        return f"sum(octet_length({quoted(column.name)}))"
    return ""


def _text_size(column: SourceColumn) -> str:
    """Return how many bytes a value has as text; empty where that does not vary much."""
    name, element = quoted(column.name), _element(column)
    item = "x" if column.is_array else name
    if element in {"string", "binary"}:
        size = f"coalesce(CAST(octet_length({item}) AS BIGINT), 0L)"
        size = f"2L * {size}" if element == "binary" else size
    elif column.is_array:
        size = f"coalesce(CAST(octet_length(CAST({item} AS STRING)) AS BIGINT), 0L)"
    else:
        return ""
    if column.is_array:
        size = f"aggregate(coalesce({name}, array()), 0L, (a, x) -> a + 1L + {size})"
    return size


def _width(column: SourceColumn) -> int:
    return WIDTHS.get(column.kind, 8) if isinstance(column.kind, str) else 8
