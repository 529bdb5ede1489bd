"""Parquet files of others that are to be a table's data files as they are: whether they can be.

What a footer tells is believed: types, numbers of rows, statistics of whole numbers and dates. What
it does not tell is read, column by column: whether text is text, and whether keys ascend.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from catalog.errors import GatewayError
from catalog.model import JournalTable
from catalog.pg import sqlstate as codes
from pgwire_gateway.spark.borrowed_files import Borrowed, BorrowedFile
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.file_sources import DATES, MOMENTS, WIDTHS
from pgwire_gateway.spark.row_sizes import bytes_at_least, require_size
from pgwire_gateway.spark.source_types import OTHER_TYPE, SourceColumn, columns_of
from rewrite.errors import UnsupportedError

HINT: Final = "Leave IN PLACE out: the rows are copied then."
MOST_GROUP_BYTES: Final = 512 << 20
"""Largest row group, before compression: a task of Spark holds the rows of one."""
MOST_UNKEYED_FILES: Final = 64
"""Without a key each file is a scan of its own, which numbers its rows."""

_BATCH_ROWS: Final = 65_536
_MOST_COUNTED: Final = 20_000_000
"""Keys up to this number are compared in memory, 8 bytes each; more by Spark."""
_CODECS: Final = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
_ENCODINGS: Final = frozenset(
    {
        "PLAIN",
        "RLE",
        "BIT_PACKED",
        "PLAIN_DICTIONARY",
        "RLE_DICTIONARY",
        "DELTA_BINARY_PACKED",
        "DELTA_BYTE_ARRAY",
        "DELTA_LENGTH_BYTE_ARRAY",
    }
)
"""What both Spark and Arrow decode."""
_PHYSICAL: Final = {
    "BOOLEAN": "boolean",
    "INT32": "integer",
    "INT64": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BYTE_ARRAY": "binary",
}
_WHOLE: Final = {("INT32", 16): "short", ("INT32", 32): "integer", ("INT64", 64): "long"}
_DECIMALS: Final = frozenset({"INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"})
_MOST_DIGITS: Final = 38
_WHOLE_KEYS: Final = frozenset({"short", "integer", "long"})
_RANGES: Final = {"date": DATES, "timestamp": MOMENTS, "timestamp_ntz": MOMENTS}
_OLD_CALENDAR: Final = b"org.apache.spark.legacyDateTime"
_SPARK: Final = b"org.apache.spark.version"
_OLD_SPARKS: Final = frozenset({b"1", b"2"})
"""Major versions that wrote dates of that calendar without a note."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What has been found out about all rows of files."""

    value_bytes: int
    """About how large they are in memory."""
    ascending: bool
    """Whether the rows of each file ascend by their key, a single integer."""
    is_unique: bool
    """Whether it is known that no two rows have the same key."""


class Watch(Protocol):
    """Who wants to know how far an inspection is."""

    def begin(self, phase: str, rows_total: int) -> None:
        """Take note of what is done now, and with how many rows."""

    def seen(self, rows: int) -> None:
        """Take note of rows that have been read; raises when the statement was cancelled."""


class Inspection:
    """The files of one statement; what others make of them meanwhile is found out at the end."""

    def __init__(self, files: Sequence[Path], watch: Watch) -> None:
        """Read the footers.

        Args:
            files: The files.
            watch: Is told of what is read.

        Raises:
            GatewayError: 22P04 for what is no Parquet file.
            UnsupportedError: 0A000 for what has to be copied.
        """
        self._watch = watch
        footers = []
        for file in files:
            with storage_failures():
                found = BorrowedFile.of(file)
            footers.append((file, found, _footer(file)))
        self.files = tuple((found, footer) for _, found, footer in footers if footer.num_rows)
        """Those with rows, as they were before anything was read."""
        self.columns = _columns(files[0], footers[0][-1])
        """The columns that all of them have."""
        for file, _, footer in footers:
            _require_storage(file, footer)
            if set(_columns(file, footer)) != set(self.columns):
                raise UnsupportedError(
                    f'files with different columns are not supported in place: "{file.name}"',
                    hint=HINT,
                )

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(footer.num_rows for _, footer in self.files)

    def borrowed(self, version: int, contents: Contents, first_block: int | None) -> Borrowed:
        """Return what becomes a segment.

        Args:
            version: Version number of the rows, in microseconds.
            contents: What was found out about them.
            first_block: The first of the blocks of identities, one for each file; None where rows
                have a key.

        Raises:
            GatewayError: 58P01, XX001 for files that have changed since they were looked at.
        """
        found = [
            replace(
                file,
                rows=footer.num_rows,
                identity=None if first_block is None else (first_block + number) << 32,
            )
            for number, (file, footer) in enumerate(self.files)
        ]
        borrowed = Borrowed(version, contents.ascending, tuple(found))
        borrowed.require_unchanged()
        return borrowed

    def examine(self, key: Sequence[str], required: Sequence[str]) -> Contents:
        """Find out what footers do not tell.

        Args:
            key: Columns of the primary key.
            required: Columns that have a value in each row; key columns among them.

        Raises:
            GatewayError: 22021 for text with a zero byte or that is no UTF-8, 22008 for dates and
                timestamps that PostgreSQL has not; ``NullValueError`` for NULL.
        """
        size = self.rows * sum(WIDTHS.get(column.kind, 8) for column in self.columns)
        with storage_failures():
            self._watch.begin("looking for NULL and dates out of range", self.rows)
            for column in self.columns:
                if column.name in required:
                    self._require_values(column.name)
                if column.kind in _RANGES:
                    self._require_range(column)
            size += self._text_bytes() + self._binary_bytes()
            ascending, is_unique = self._examine_key(key)
        return Contents(size, ascending, is_unique)

    def require_sizes(self, table: JournalTable) -> None:
        """Refuse rows that are too large for the journal of a table.

        Values are read only of row groups that are large enough for such a row.

        Raises:
            GatewayError: 54000.
        """
        most = table.row_bytes
        times = {"string": 1, "binary": 2}
        names = {c.name: times[c.kind] for c in self.columns if c.kind in times}
        if most is None or not names:
            return
        fixed = bytes_at_least(len(self.columns))
        for file, footer in self.files:
            if fixed + 2 * _largest_group(footer, names) <= most:
                continue
            with storage_failures():
                for batch in self._batches(file, list(names)):
                    sizes = sum(_lengths(batch.column(name)) * n for name, n in names.items())
                    require_size(table, fixed + int(np.max(sizes)))

    def _batches(self, file: BorrowedFile, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(file.path) as opened:
            for batch in opened.iter_batches(_BATCH_ROWS, columns=list(names)):
                self._watch.seen(batch.num_rows)
                yield batch

    def _require_values(self, name: str) -> None:
        for file, footer in self.files:
            counts = [
                found.null_count if found is not None and found.has_null_count else None
                for found in _statistics(footer, name)
            ]
            if None in counts:
                counts = [batch.column(name).null_count for batch in self._batches(file, [name])]
            if any(counts):
                raise NullValueError(name)

    def _require_range(self, column: SourceColumn) -> None:
        first, last = _RANGES[column.kind]
        for file, footer in self.files:
            bounds: list[Any] = []
            for found in _statistics(footer, column.name):
                if found is None or not found.has_min_max:
                    bounds = self._bounds(file, column)
                    break
                bounds += [found.min_raw, found.max_raw]
            if any(bound is not None and not first <= bound <= last for bound in bounds):
                kind = "date" if column.kind == "date" else "timestamp"
                raise GatewayError(
                    f"{kind} out of range",
                    sqlstate=codes.DATETIME_FIELD_OVERFLOW,
                    detail=f'Column "{column.name}".',
                )

    def _bounds(self, file: BorrowedFile, column: SourceColumn) -> list[int | None]:
        whole = pa.int32() if column.kind == "date" else pa.int64()
        bounds: list[int | None] = []
        for batch in self._batches(file, [column.name]):
            found = pc.min_max(batch.column(column.name).view(whole)).as_py()
            bounds += found.values()
        return bounds

    def _text_bytes(self) -> int:
        """Read all text; return how large it is."""
        names = [column.name for column in self.columns if column.kind == "string"]
        size = 0
        self._watch.begin("reading text", self.rows)
        for file, _ in self.files if names else ():
            for batch in self._batches(file, names):
                for name in names:
                    values = batch.column(name)
                    if pa.types.is_dictionary(values.type):
                        values = values.cast(values.type.value_type)
                    size += _require_text(values.cast(pa.large_string()), name)
        return size

    def _binary_bytes(self) -> int:
        """Return about how large binary values are, by what they take in files."""
        names = [column.name for column in self.columns if column.kind == "binary"]
        return sum(
            footer.row_group(group).column(_leaf(footer, name)).total_uncompressed_size
            for _, footer in self.files
            for name in names
            for group in range(footer.num_row_groups)
        )

    def _examine_key(self, key: Sequence[str]) -> tuple[bool, bool]:
        """Return whether the key ascends in each file, and whether it is known to be unique."""
        kinds = {column.name: column.kind for column in self.columns}
        if len(key) != 1 or kinds[key[0]] not in _WHOLE_KEYS:
            return False, False
        self._watch.begin("reading keys", self.rows)
        ends = [self._ends(file, key[0]) for file, _ in self.files]
        known = [found for found in ends if found is not None]
        ascending = len(known) == len(ends)
        if ascending and all(one[1] < other[0] for one, other in pairwise(sorted(known))):
            return True, True
        if self.rows > _MOST_COUNTED:
            return ascending, False
        self._watch.begin("comparing keys", self.rows)
        values = [
            batch.column(key[0]) for file, _ in self.files for batch in self._batches(file, key)
        ]
        return ascending, pc.count_distinct(pa.chunked_array(values)).as_py() == self.rows

    def _ends(self, file: BorrowedFile, name: str) -> tuple[int, int] | None:
        """Return the first and the last value of a column that ascends in a file; else None."""
        first = last = None
        for batch in self._batches(file, [name]):
            values = batch.column(name)
            if values.null_count:
                raise NullValueError(name)
            begin = values[0].as_py()
            if (last is not None and last >= begin) or not _ascends(values):
                return None
            first, last = begin if first is None else first, values[-1].as_py()
        return None if first is None or last is None else (first, last)


class NullValueError(Exception):
    """A column without value in some row."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


def require_readable(files: Iterable[Path]) -> None:
    """Refuse Parquet files with columns of types that Spark does not read.

    Raises:
        UnsupportedError: 0A000, with the name of one of these.
    """
    for file in files:
        for field in _footer(file).schema.to_arrow_schema():
            kind = _unread(field.type)
            if kind is not None:
                raise UnsupportedError(
                    f'column "{field.name}" of type {kind} is not supported', hint=OTHER_TYPE
                )


def _unread(kind: pa.DataType) -> pa.DataType | None:
    """Return what Spark does not read of a type, which may be one with others in it."""
    nanoseconds = pa.types.is_timestamp(kind) and kind.unit == "ns"
    if nanoseconds or pa.types.is_time(kind) or pa.types.is_float16(kind):
        return kind
    inner = (_unread(kind.field(number).type) for number in range(kind.num_fields))
    return next((found for found in inner if found is not None), None)


def _footer(file: Path) -> pq.FileMetaData:
    try:
        return pq.read_metadata(file)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise GatewayError(
            f'could not read "{file.name}" as parquet', sqlstate=codes.BAD_COPY_FILE_FORMAT
        ) from error
    except OSError as error:
        raise GatewayError(
            f'could not read "{file.name}": {error.strerror or error}', sqlstate=codes.IO_ERROR
        ) from error


def _columns(file: Path, footer: pq.FileMetaData) -> tuple[SourceColumn, ...]:
    """Return the columns of a file.

    Raises:
        GatewayError: As ``columns_of``.
        UnsupportedError: 0A000 for types that files of ours do not have.
    """
    fields = []
    for place in range(footer.num_columns):
        leaf = footer.schema.column(place)
        name = leaf.path.partition(".")[0] if leaf.path != leaf.name else leaf.name
        kind = _kind(leaf) if leaf.path == leaf.name and not leaf.max_repetition_level else None
        if kind is None:
            raise UnsupportedError(
                f'column "{name}" of file "{file.name}" has a type that is not supported in place',
                hint=HINT,
            )
        fields.append({"name": name, "type": kind})
    columns = columns_of({"fields": fields})
    names = [column.name.lower() for column in columns]
    for column in columns:
        if names.count(column.name.lower()) > 1 or column.name == "_metadata":
            raise UnsupportedError(
                f'a column named "{column.name}" is not supported in place', hint=HINT
            )
    return columns


def _kind(leaf: Any) -> str | None:
    """Return the type of a column as Spark's JSON schemas have it; None where ours differ.

    Types are those that Spark gives to data files of ours, so that both readers know them.
    """
    physical = leaf.physical_type
    logical = json.loads(leaf.logical_type.to_json())
    match logical["Type"]:
        case "None":
            kind = _PHYSICAL.get(physical)
        case "Int" if logical["isSigned"]:
            kind = _WHOLE.get((physical, logical["bitWidth"]))
        case "Timestamp" if logical["timeUnit"] == "microseconds":
            kind = "timestamp" if logical["isAdjustedToUTC"] else "timestamp_ntz"
        case "Decimal" if physical in _DECIMALS and logical["precision"] <= _MOST_DIGITS:
            kind = f"decimal({logical['precision']},{logical['scale']})"
        case other:
            kind = {"String": "string", "Date": "date"}.get(other)
    return kind


def _require_storage(file: Path, footer: pq.FileMetaData) -> None:
    """Refuse files that not both readers can read, or that mean something else to one (0A000)."""
    notes = footer.metadata or {}
    if _OLD_CALENDAR in notes or notes.get(_SPARK, b"3").split(b".")[0] in _OLD_SPARKS:
        raise UnsupportedError(
            f'file "{file.name}" with dates of the Julian calendar is not supported in place',
            hint=HINT,
        )
    for group in map(footer.row_group, range(footer.num_row_groups)):
        if group.total_byte_size > MOST_GROUP_BYTES:
            raise UnsupportedError(
                f"row groups of more than {MOST_GROUP_BYTES >> 20} MB are not supported in place:"
                f' "{file.name}"',
                hint=HINT,
            )
        for column in map(group.column, range(group.num_columns)):
            if column.compression not in _CODECS or not _ENCODINGS.issuperset(column.encodings):
                raise UnsupportedError(
                    f'compression or encoding of file "{file.name}" is not supported in place',
                    detail=f"{column.compression}, {', '.join(column.encodings)}",
                    hint=HINT,
                )


def _leaf(footer: pq.FileMetaData, name: str) -> int:
    return next(n for n in range(footer.num_columns) if footer.schema.column(n).name == name)


def _largest_group(footer: pq.FileMetaData, names: Iterable[str]) -> int:
    """Return how large the values of columns are in a row group, before compression."""
    places = [_leaf(footer, name) for name in names]
    groups = map(footer.row_group, range(footer.num_row_groups))
    sizes = (sum(g.column(n).total_uncompressed_size for n in places) for g in groups)
    return int(max(sizes))


def _lengths(values: pa.Array) -> Any:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    lengths = pc.fill_null(pc.binary_length(values), 0)
    return lengths.to_numpy(zero_copy_only=False).astype(np.int64)


def _statistics(footer: pq.FileMetaData, name: str) -> Iterator[Any]:
    """Yield the statistics of a column in each row group; None where there are none."""
    place = _leaf(footer, name)
    for group in range(footer.num_row_groups):
        yield footer.row_group(group).column(place).statistics


def _ascends(values: pa.Array) -> bool:
    following = pc.greater(values.slice(1), values.slice(0, len(values) - 1))
    return pc.all(following).as_py() is not False


def _require_text(values: pa.Array, column: str) -> int:
    """Refuse what is no text to PostgreSQL; return how large it is."""
    message = 'invalid byte sequence for encoding "UTF8"'
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _not_text(message, column) from error
    start, end = _extent(values)
    if end > start:
        contents = pa.Array.from_buffers(pa.uint8(), end, [None, values.buffers()[2]])
        if pc.min(contents.slice(start)).as_py() == 0:
            raise _not_text(f"{message}: 0x00", column)
    return end - start


def _extent(values: pa.Array) -> tuple[int, int]:
    """Return where the bytes of long strings begin and end in their buffer."""
    offsets = pa.Array.from_buffers(
        pa.int64(), values.offset + len(values) + 1, [None, values.buffers()[1]]
    )
    return offsets[values.offset].as_py(), offsets[values.offset + len(values)].as_py()


def _not_text(message: str, column: str) -> GatewayError:
    return GatewayError(
        message, sqlstate=codes.CHARACTER_NOT_IN_REPERTOIRE, detail=f'Column "{column}".'
    )
