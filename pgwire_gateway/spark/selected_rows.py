"""Selections over current rows, answered from data files and the newest versions beside them.

Spark needs a tenth of a second before it reads a row, and a job or two. Here row groups are read
by a few threads: first the columns of the condition, the others only where rows satisfy it. Rows
that have a newer version are left out afterwards.
"""

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from catalog.journal.layout import SUBSEQUENT, column_name
from catalog.model import JournalTable, Segment
from pgwire_gateway.spark import row_values
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.relations import Relation
from pgwire_gateway.spark.row_values import NotEvaluatedError
from pgwire_gateway.spark.warehouse import Warehouse
from pgwire_gateway.wire_types.row_differences import occur
from pgwire_gateway.wire_types.versions import storage_schema
from rewrite.results import Selection, SourcePart
from rewrite.row_expressions import can_fail, stored_names

MOST_ROWS: Final = 10_000_000
"""Of more rows Spark's tasks read parts at the same time, on many machines maybe."""
MOST_SEGMENTS: Final = 256
MOST_ROW_BYTES: Final = 4 << 10
"""Larger rows are many bytes in a row group."""
HELD_BYTES: Final = 64 << 20
"""How much of a result is held until no row can be an error any more."""

_KEPT_SEGMENTS: Final = 2 * MOST_SEGMENTS
_GATHERED_ROWS: Final = 1 << 16
_GATHERED_BYTES: Final = 8 << 20
_THREADS: Final = min(os.cpu_count() or 1, 8)


class TooManyRowsError(Exception):
    """The rows of a selection that can fail are too many to be held."""


@dataclass(frozen=True, slots=True)
class _RowGroup:
    file: Path
    footer: pq.FileMetaData
    number: int


class SelectedRows:
    """The rows of one selection."""

    def __init__(
        self,
        selection: Selection,
        table: JournalTable,
        groups: Sequence[_RowGroup],
        recent: pa.Table | None,
    ) -> None:
        self._selection = selection
        self._columns = _by_name(table)
        self._recent = recent
        self._groups = groups
        schema = storage_schema(table)
        used = stored_names(selection.condition, *selection.columns.values())
        identity = frozenset(selection.identity if recent is not None else ())
        tested = stored_names(selection.condition)
        self._tested = pa.schema([field for field in schema if field.name in tested])
        rest = (used | identity) - tested
        self._rest = pa.schema([field for field in schema if field.name in rest])
        nothing = pa.schema([*self._tested, *self._rest]).empty_table()
        if not used or (selection.condition is not None and not tested):
            raise NotEvaluatedError("what is the same for all rows")
        if selection.condition is not None:
            row_values.true_places(selection.condition, nothing)
        self.schema = row_values.columns(selection.columns, nothing).schema

    @property
    def can_fail(self) -> bool:
        """Whether rows can be met that are an error."""
        expressions = self._selection.columns.values()
        condition = self._selection.condition
        return any(map(can_fail, expressions)) or (condition is not None and can_fail(condition))

    @property
    def count(self) -> int:
        """Number of data files."""
        return len({group.file for group in self._groups})

    def batches(self, check: Callable[[], None]) -> Iterator[pa.RecordBatch]:
        """Yield what is computed of the rows.

        Args:
            check: Raises where the statement has been cancelled; called time and again.

        Raises:
            NotEvaluatedError: A row has been met that Spark has to look at.
            GatewayError: 58P01 or 58030 for files that cannot be read.
        """
        with storage_failures():
            for rows in _gathered(self._stored(check)):
                kept = self._without_superseded(rows)
                if kept.num_rows:
                    yield row_values.columns(self._selection.columns, kept)
        newer = self._newer()
        if newer is not None and newer.num_rows:
            yield row_values.columns(self._selection.columns, newer)

    def held(self, check: Callable[[], None]) -> list[pa.RecordBatch]:
        """Return all that `batches` yields.

        Raises:
            TooManyRowsError: That is too much.
        """
        found, size = [], 0
        for batch in self.batches(check):
            found.append(batch)
            size += batch.nbytes
            if size > HELD_BYTES:
                raise TooManyRowsError
        return found

    def _stored(self, check: Callable[[], None]) -> Iterator[pa.Table]:
        """Yield the rows of files that satisfy the condition, read ahead by threads, in order."""
        waiting: deque[Future[pa.Table | None]] = deque()
        pool = ThreadPoolExecutor(_THREADS, "selected rows")
        try:
            for group in self._groups:
                waiting.append(pool.submit(self._read, group))
                if len(waiting) > 2 * _THREADS:
                    check()
                    yield from _some(waiting.popleft().result())
            while waiting:
                check()
                yield from _some(waiting.popleft().result())
        finally:
            pool.shutdown(cancel_futures=True)

    def _read(self, group: _RowGroup) -> pa.Table | None:
        """Return the rows of a row group that satisfy the condition; None where there are none."""
        condition = self._selection.condition
        with pq.ParquetFile(group.file, metadata=group.footer, memory_map=True) as opened:
            decode = partial(self._decoded, opened, group.number)
            if condition is None:
                return decode(self._rest)
            tested = decode(self._tested)
            places = row_values.true_places(condition, tested)
            if places is not None and not len(places):
                return None
            rest = [decode(self._rest)] if len(self._rest) else []
        parts = [tested, *rest]
        if places is not None and len(places) < tested.num_rows:
            parts = [part.take(places) for part in parts]
        return _beside(parts)

    def _decoded(self, opened: pq.ParquetFile, number: int, schema: pa.Schema) -> pa.Table:
        names = [self._columns.get(field.name, field.name) for field in schema]
        rows = opened.read_row_group(number, names, use_threads=False)
        return rows.select(names).rename_columns(schema.names).cast(schema)

    def _without_superseded(self, rows: pa.Table) -> pa.Table:
        if self._recent is None:
            return rows
        names = list(self._selection.identity)
        return rows.filter(pc.invert(occur(rows.select(names), self._recent.select(names))))

    def _newer(self) -> pa.Table | None:
        """Return the newest versions that satisfy the condition, of rows that have not gone."""
        if self._recent is None:
            return None
        living = self._recent.filter(pc.is_null(self._recent.column(SUBSEQUENT)))
        if self._selection.condition is None:
            return living
        places = row_values.true_places(self._selection.condition, living)
        return living if places is None else living.take(places)


@dataclass(frozen=True, slots=True)
class _Files:
    """What is known of the files of a segment, which never change."""

    groups: tuple[_RowGroup, ...]
    names: frozenset[str]
    """Columns that all of them have."""
    value_bytes: int


class Selections:
    """Answers selections from the files of a warehouse; remembers footers."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Files] = OrderedDict()

    def rows(self, selection: Selection, relations: Iterable[Relation]) -> SelectedRows | None:
        """Return the rows of a selection; None where they are Spark's to read.

        Raises:
            GatewayError: 58P01 for a missing file, 58030 for one that cannot be read.
        """
        found = {relation.source.part: relation for relation in relations}
        base, recent = found.get(SourcePart.BASE), found.get(SourcePart.RECENT)
        some = base or recent
        if some is None or (recent is not None and recent.segments()):
            return None
        table = some.snapshot.table
        newer = None
        if recent is not None:
            tail = recent.tail() if recent.shows_tail else None
            newer = storage_schema(table).empty_table() if tail is None else tail
        segments = base.segments() if base is not None else ()
        if not _are_alike(table, segments):
            return None
        with storage_failures():
            files = [self._files(segment) for segment in segments]
        needed = _file_names(table, selection)
        for segment, known in zip(segments, files, strict=True):
            is_small = known.value_bytes <= MOST_ROW_BYTES * max(segment.rows, 1)
            # A column whose type has changed has another name.
            if not is_small or not needed <= known.names:
                return None
        groups = [group for known in files for group in known.groups]
        try:
            return SelectedRows(selection, table, groups, newer)
        except NotEvaluatedError:
            return None

    def _files(self, segment: Segment) -> _Files:
        with self._lock:
            known = self._kept.get(segment.path)
            if known is not None:
                self._kept.move_to_end(segment.path)
                return known
        found = [
            (file.path, pq.read_metadata(file.path)) for file in self._warehouse.data_files(segment)
        ]
        names = [set(footer.schema.to_arrow_schema().names) for _, footer in found]
        known = _Files(
            tuple(
                _RowGroup(path, footer, number)
                for path, footer in found
                for number in range(footer.num_row_groups)
            ),
            frozenset(set.intersection(*names)) if names else frozenset(),
            self._warehouse.value_bytes(segment),
        )
        with self._lock:
            self._kept[segment.path] = known
            while len(self._kept) > _KEPT_SEGMENTS:
                self._kept.popitem(last=False)
        return known


def _are_alike(table: JournalTable, segments: Sequence[Segment]) -> bool:
    """Return whether segments are not too much to be read here, and have the table's columns."""
    if sum(segment.rows for segment in segments) > MOST_ROWS or len(segments) > MOST_SEGMENTS:
        return False
    attnums = {column.attnum for column in table.columns}
    return all(not segment.is_borrowed and attnums <= set(segment.attnums) for segment in segments)


def _file_names(table: JournalTable, selection: Selection) -> set[str]:
    """Return the names in files of the columns that a selection needs."""
    stored = _by_name(table)
    looked_at = stored_names(selection.condition, *selection.columns.values())
    return {stored.get(name, name) for name in looked_at | set(selection.identity)}


def _by_name(table: JournalTable) -> Mapping[str, str]:
    """Return the names of columns in files by those in relations."""
    return {column_name(column.attnum): column.storage_name for column in table.columns}


def _some(rows: pa.Table | None) -> Iterator[pa.Table]:
    if rows is not None and rows.num_rows:
        yield rows


def _beside(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the columns of tables of as many rows side by side."""
    whole = parts[0]
    for part in parts[1:]:
        for field in part.schema:
            whole = whole.append_column(field, part.column(field.name))
    return whole


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Put small tables together: what is done with each costs the same for many rows."""
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        held.append(table)
        rows += table.num_rows
        size += table.nbytes
        if rows >= _GATHERED_ROWS or size >= _GATHERED_BYTES:
            yield pa.concat_tables(held).combine_chunks()
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_tables(held).combine_chunks()
