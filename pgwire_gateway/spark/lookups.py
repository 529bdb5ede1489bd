"""Row versions of single keys, read from the files of segments without Spark.

The rows of a file are sorted by key (:mod:`.sorting`): the smallest and largest key of each row
group tell which ones can have a key, and of those only what is before its rows is decoded, unless
such a group is asked for again (:mod:`.decoded_groups`). Files of others need not be sorted, and
then all keys of such a row group are looked at.
"""

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from catalog.divisions import PartitionValue
from catalog.journal.layout import IDENTITY
from catalog.model import JournalTable, Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark.decoded_groups import DecodedGroups
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.layouts import Layout
from pgwire_gateway.spark.row_groups import RowGroup, row_groups
from pgwire_gateway.spark.small_files import told_names, with_missing_columns, with_told_columns
from pgwire_gateway.spark.value_indexes import ValueIndexes
from pgwire_gateway.spark.warehouse import DataFile, Warehouse
from pgwire_gateway.wire_types.plain_keys import plain
from pgwire_gateway.wire_types.tails import indices_of_keys, of_key
from pgwire_gateway.wire_types.versions import storage_schema

MOST_SEGMENTS: Final = 64
"""More segments than these that can have a key are read by Spark, several at a time.

One costs as much as decoding half a row group, and next to nothing once that is kept decoded.
"""
MOST_PARTITIONS: Final = 1_000
"""So it is with more partitions, whose bounds of keys often tell that they have none."""

_KEPT_FILES: Final = 2_000
_KEPT_AHEAD: Final = 64
_MOST_AHEAD_BYTES: Final = 1 << 20
_BATCH_ROWS: Final = 4_096
"""Rows that are decoded at once: on the way to one row, half of them in vain."""

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _File:
    data: DataFile
    footer: pq.FileMetaData
    names: frozenset[str]
    """Names of its columns."""
    groups: tuple[RowGroup, ...]


class Lookups:
    """Finds the row versions of keys; remembers the footers of files, which never change."""

    def __init__(self, warehouse: Warehouse, *, keeps_groups: bool = True) -> None:
        """Know no file yet.

        Args:
            warehouse: Where they are.
            keeps_groups: Whether rows are likely to be asked for that are next to each other.
        """
        self.values = ValueIndexes(warehouse)
        self._warehouse = warehouse
        self._lock = threading.Lock()
        self._files: OrderedDict[tuple[DataFile, str], _File] = OrderedDict()
        self._decoded = DecodedGroups() if keeps_groups else None
        self._ahead: OrderedDict[tuple[Path, int, Key], Sequence[pa.Table]] = OrderedDict()

    def versions(
        self, snapshot: TableSnapshot, keys: Sequence[Key], *, ahead: bool = False
    ) -> pa.Table | None:
        """Return the row versions that segments have of some keys, the archive left out.

        Args:
            snapshot: The table.
            keys: Plain values of the columns of its key.
            ahead: Whether they are read for whoever asks next.

        Returns:
            Rows in storage layout; None where the segments are not to be read this way.

        Raises:
            GatewayError: 58P01 for a missing file, 58030 for one that cannot be read.
        """
        table = snapshot.table
        told = [(key, _told(table, key)) for key in keys]
        wanted = {
            segment: found
            for segment in snapshot.segments
            if segment.kind is not SegmentKind.ARCHIVE
            and (
                found := [
                    key
                    for key, values in told
                    if _may_have(segment, key[0]) and _may_be_in(segment, values)
                ]
            )
        }
        whole = sum(segment.partition is None for segment in wanted)
        if whole > MOST_SEGMENTS or len(wanted) > MOST_PARTITIONS:
            return None
        schema = storage_schema(table)
        parts = [schema.empty_table()]
        with storage_failures():
            for segment, found in wanted.items():
                for data in self._warehouse.data_files(segment):
                    file = self._file(data, table)
                    if file is None:
                        return None
                    read = self._read(file, segment, table, found, ahead=ahead)
                    parts += (_cast(part, schema) for part in read)
        return pa.concat_tables(parts)

    def read_ahead(self, snapshot: TableSnapshot, key: Key) -> None:
        """Read what `versions` is about to be asked for; the next one who asks need not.

        Whatever fails then fails as well when it is asked for.
        """
        with suppress(Exception):
            self.versions(snapshot, [key], ahead=True)

    def _read(
        self,
        file: _File,
        segment: Segment,
        table: JournalTable,
        keys: Sequence[Key],
        *,
        ahead: bool,
    ) -> Sequence[pa.Table]:
        """Return the row versions that a file has of some keys; what is read ahead is kept."""
        place = (file.data.path, table.definition_version, keys[0])
        if not ahead:
            with self._lock:
                known = self._ahead.pop(place, None) if len(keys) == 1 else None
            return self._versions(file, segment, table, keys) if known is None else known
        # A part of a batch would hold all of it.
        rows = [_copied(part) for part in self._versions(file, segment, table, keys)]
        if sum(part.nbytes for part in rows) > _MOST_AHEAD_BYTES:
            return rows
        with self._lock:
            self._ahead[place] = rows
            while len(self._ahead) > _KEPT_AHEAD:
                self._ahead.popitem(last=False)
        return rows

    def _file(self, data: DataFile, table: JournalTable) -> _File | None:
        """Return what is known of a file; None where it is not sorted by the table's key."""
        names = _key_names(table)
        key = names[0]
        with self._lock:
            known = self._files.get((data, key))
            if known is not None:
                self._files.move_to_end((data, key))
        file = known or _opened(data, key)
        if known is None:
            with self._lock:
                self._files[data, key] = file
                while len(self._files) > _KEPT_FILES:
                    self._files.popitem(last=False)
        # With an identity it is sorted by what told rows apart before the table had a key.
        return file if IDENTITY not in file.names and file.names.issuperset(names) else None

    def _versions(
        self, file: _File, segment: Segment, table: JournalTable, keys: Sequence[Key]
    ) -> Sequence[pa.Table]:
        layout, names = Layout.of(table), _key_names(table)
        told = told_names(file.data)
        present = [name for name in layout.file_names if name in file.names]
        columns = [name for name in present if name not in told]
        groups = [
            (group.number, found)
            for group in file.groups
            if (found := [key for key in keys if group.may_have(key[0])])
        ]
        parts: list[pa.Table] = []
        if not groups:
            return parts
        is_own = file.data.borrowed is None
        kept = self._decoded if is_own else None
        with ExitStack() as ends:

            @cache
            def opened() -> pq.ParquetFile:
                data, footer = file.data, file.footer
                # What is mapped other threads need not bring.
                found = pq.ParquetFile(
                    data.path, metadata=footer, memory_map=is_own, pre_buffer=not is_own
                )
                return ends.enter_context(found)

            def decoded(number: int) -> pa.Table:
                # All of them: the table may lose some, and get them back when that is rolled back.
                return opened().read_row_group(number, use_threads=False)

            for number, found in groups:
                place = (file.data.path, number)
                whole = kept.find(place, partial(decoded, number)) if kept is not None else None
                if whole is not None:
                    rows = _of_keys(whole, names, found, is_sorted=file.data.ascending)
                    rows = rows.select(columns)
                elif len(found) == 1 and file.data.ascending:
                    places = _places(opened(), number, names, found[0])
                    rows = None if places is None else _rows(opened(), number, columns, *places)
                else:
                    rows = _rows_of(opened(), number, names, columns, found)
                if rows is not None and rows.num_rows:
                    rows = with_told_columns(rows, file.data, table)
                    if len(present) < len(layout.file_names):
                        rows = with_missing_columns(rows, table.columns, segment.attnums)
                    rows = rows.select(list(layout.file_names)).rename_columns(list(layout.names))
                    parts.append(rows)
        return parts


def _copied(rows: pa.Table) -> pa.Table:
    return rows.take(pa.array(range(rows.num_rows), pa.int64()))


def _cast(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return rows if rows.schema.equals(schema) else rows.cast(schema)


def _may_have(segment: Segment, value: object) -> bool:
    if segment.key_min is None or segment.key_max is None or not isinstance(value, int):
        return True
    return segment.key_min <= value <= segment.key_max


def _told(table: JournalTable, key: Key) -> tuple[int, Mapping[int, PartitionValue]] | None:
    """Return the division of a table, and the values of partitions that a key tells, by place."""
    division = table.division
    if division is None:
        return None
    values = dict(zip(table.key, key, strict=True))
    return division.number, {
        place: field.value(values[field.attnum])
        for place, field in enumerate(division.fields)
        if field.attnum in values
    }


def _may_be_in(segment: Segment, told: tuple[int, Mapping[int, PartitionValue]] | None) -> bool:
    partition = segment.partition
    if told is None or partition is None or partition.division != told[0]:
        return True
    return all(partition.values[place] == value for place, value in told[1].items())


def _key_names(table: JournalTable) -> list[str]:
    """Return the names of the key's columns in files."""
    return [table.column(attnum).storage_name for attnum in table.key]


def _opened(data: DataFile, key: str) -> _File:
    # A mapped file that others cut off would be the end of the process.
    footer = pq.read_metadata(data.path, memory_map=data.borrowed is None)
    names = frozenset(footer.schema.to_arrow_schema().names) | told_names(data)
    groups = row_groups(footer, key)
    if data.borrowed is not None and not _is_whole_number(footer, key):
        # What others note of text may be cut off.
        groups = (RowGroup(group.number, None, None) for group in groups)
    return _File(data, footer, names, tuple(groups))


def _is_whole_number(footer: pq.FileMetaData, name: str) -> bool:
    kind = footer.schema.to_arrow_schema().field(name).type
    return bool(pa.types.is_integer(kind))


def _rows_of(
    opened: pq.ParquetFile,
    group: int,
    names: Sequence[str],
    columns: list[str],
    keys: Sequence[Key],
) -> pa.Table | None:
    """Return the rows of a row group that have some keys; other columns are decoded for them."""
    tested = opened.read_row_group(group, list(names), use_threads=False)
    places = indices_of_keys(tested, names, keys)
    if not len(places):
        return None
    whole = opened.read_row_group(group, columns, use_threads=False)
    return whole.select(columns).take(places)


def _of_keys(
    group: pa.Table, names: Sequence[str], keys: Sequence[Key], *, is_sorted: bool
) -> pa.Table:
    """Return the rows of a decoded group that have some keys."""
    if is_sorted and len(keys) == 1:
        group = _between(group, names[0], keys[0][0])
        if not group.num_rows:
            return group
    return group.take(indices_of_keys(group, names, keys))


def _between(group: pa.Table, name: str, value: Any) -> pa.Table:
    """Return the rows of a sorted group that have one value, found by halving; all if it has NULLs.

    A column of what was added with the key later has nothing else.
    """
    column = group.column(name)
    if column.null_count:
        return group

    def at(place: int) -> Any:
        return plain(column.slice(place, 1))[0].as_py()

    places = range(group.num_rows)
    first = bisect_left(places, value, key=at)
    return group.slice(first, bisect_right(places, value, lo=first, key=at) - first)


def _places(
    opened: pq.ParquetFile, group: int, names: Sequence[str], key: Key
) -> tuple[int, int] | None:
    """Return the first row of a row group that has a key, and how many follow each other."""
    start, first, count = 0, 0, 0
    for batch in _batches(opened, group, names):
        found = pc.indices_nonzero(of_key(batch, names, key))
        if len(found):
            first = first if count else start + found[0].as_py()
            count += len(found)
        last = plain(batch.column(names[0]).slice(max(batch.num_rows - 1, 0)))
        # What ended when the key's type changed has none.
        if len(last) and last[0].is_valid and last[0].as_py() > key[0]:
            break
        start += batch.num_rows
    return (first, count) if count else None


def _rows(opened: pq.ParquetFile, group: int, names: list[str], first: int, count: int) -> pa.Table:
    """Return rows of a row group; what comes after them is not decoded."""
    parts, start = [], 0
    for batch in _batches(opened, group, names):
        end = start + batch.num_rows
        if end > first:
            skipped = max(first - start, 0)
            parts.append(batch.slice(skipped, first + count - start - skipped))
        if end >= first + count:
            break
        start = end
    return pa.Table.from_batches(parts).select(names)


def _batches(opened: pq.ParquetFile, group: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return iter(
        opened.iter_batches(_BATCH_ROWS, row_groups=[group], columns=list(names), use_threads=False)
    )
