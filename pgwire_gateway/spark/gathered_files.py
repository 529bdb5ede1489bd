"""Many small files of a base, copied into one for as long as a compaction reads them.

Opening a file costs Spark some milliseconds, and a compaction reads all it merges two or three
times; this process opens them once.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.journal.layout import IDENTITY, SUBSEQUENT, VERSION
from catalog.model import JournalTable, Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark.frames import PART_BYTES
from pgwire_gateway.spark.layouts import Layout
from pgwire_gateway.spark.sorting import MAX_GROUP_ROWS
from pgwire_gateway.spark.staging import StagedSegment
from pgwire_gateway.spark.warehouse import Warehouse

_MANY: Final = 32
_SMALL: Final = 1 << 20
"""Size of a segment in files from which on Spark reads it as fast where it is."""


class Gathering:
    """Copies of the small segments of one table, in a staged directory."""

    def __init__(self, warehouse: Warehouse, staged: StagedSegment) -> None:
        self._warehouse = warehouse
        self._staged = staged

    def of(
        self,
        snapshot: TableSnapshot,
        check: Callable[[], None],
        attnums: Set[int] | None = None,
    ) -> TableSnapshot:
        """Return a table with copies instead of the small segments of its base, if they are many.

        Args:
            snapshot: The table.
            check: Raises an error when the statement is cancelled.
            attnums: The columns that are wanted, besides those that tell versions and rows apart;
                all where there are none.

        Raises:
            OSError: Storage failed.
        """
        groups: dict[tuple[int, ...], list[Segment]] = {}
        for segment in snapshot.of_kind(SegmentKind.BASE):
            if segment.partition is not None and segment.size_bytes < _SMALL:
                groups.setdefault(segment.attnums, []).append(segment)
        copies: dict[str, Segment | None] = {}
        for present, segments in groups.items():
            if len(segments) < _MANY:
                continue
            copies |= dict.fromkeys((segment.path for segment in segments), None)
            names = _file_names(snapshot.table, present, attnums)
            copies[segments[0].path] = self._copy(segments, names, check)
        found = [copies.get(segment.path, segment) for segment in snapshot.segments]
        return replace(snapshot, segments=tuple(segment for segment in found if segment))

    def _copy(
        self,
        segments: Sequence[Segment],
        names: Set[str],
        check: Callable[[], None],
    ) -> Segment:
        directory = self._staged.root / uuid.uuid4().hex
        directory.mkdir()
        sinks: dict[pa.Schema, _Sink] = {}
        for segment in segments:
            check()
            for rows in self._rows(segment, names):
                sink = sinks.get(rows.schema)
                if sink is None:
                    path = directory / f"part-{len(sinks):05}.parquet"
                    sink = sinks[rows.schema] = _Sink(path, rows.schema)
                sink.take(rows)
        for sink in sinks.values():
            sink.close()
        files = self._warehouse.files(directory)
        value_bytes = sum(self._warehouse.value_bytes(segment) for segment in segments)
        self._warehouse.describe(directory, value_bytes)
        return replace(
            segments[0],
            path=str(directory.relative_to(self._warehouse.root)),
            rows=sum(segment.rows for segment in segments),
            size_bytes=sum(file.stat().st_size for file in files),
            key_min=None,
            key_max=None,
            partition=None,
        )

    def _rows(self, segment: Segment, names: Set[str]) -> Iterator[pa.Table]:
        for path in self._warehouse.own_files(segment):
            with pq.ParquetFile(path) as file:
                present = [name for name in file.schema_arrow.names if name in names]
                yield file.read(present, use_threads=False).replace_schema_metadata()


class _Sink:
    """A file that rows are appended to, some in a row group."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(
            path,
            schema,
            compression="lz4",
            use_dictionary=False,
            # Those of Arrow leave out NaN, which is the largest number here.
            write_statistics=False,
            store_decimal_as_integer=True,
            store_schema=False,
        )
        self._held: list[pa.Table] = []
        self._rows = self._bytes = 0

    def take(self, rows: pa.Table) -> None:
        self._held.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= MAX_GROUP_ROWS or self._bytes >= PART_BYTES:
            self._write()

    def close(self) -> None:
        if self._held:
            self._write()
        self._writer.close()

    def _write(self) -> None:
        self._writer.write_table(pa.concat_tables(self._held).combine_chunks())
        self._held, self._rows, self._bytes = [], 0, 0


def _file_names(table: JournalTable, present: Sequence[int], attnums: Set[int] | None) -> Set[str]:
    """Return the names in files of the columns that are wanted of those that are there."""
    layout = Layout.of(table)
    wanted = {
        name
        for column, name in zip(layout.columns, layout.file_names, strict=False)
        if column.attnum in present and (attnums is None or column.attnum in attnums)
    }
    return wanted | {VERSION, SUBSEQUENT, IDENTITY}
