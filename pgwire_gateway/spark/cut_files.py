"""Rows that are sorted by partition, cut into files of each partition in this process.

A file costs Spark ten milliseconds besides its rows: writers, directories, checksums, a process
for each that changes permissions, two renames.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from catalog.model import JournalTable
from pgwire_gateway.spark.small_files import MAX_BYTES, Form
from pgwire_gateway.spark.sorting import Volume, group_rows


@dataclass(frozen=True, slots=True)
class CutPartition:
    """The files of one partition."""

    marks: tuple[Any, ...]
    """What tells it from others."""
    directory: Path
    footers: tuple[pq.FileMetaData, ...]


def cut(
    tables: Iterable[pa.Table], marks: Sequence[str], table: JournalTable, directory: Path
) -> tuple[CutPartition, ...]:
    """Write rows as files, in a directory for each partition.

    Args:
        tables: The rows, in the columns of files, sorted by partition and then by key. Rows of one
            partition may be in several tables.
        marks: Names of further columns there, which tell the partition.
        table: Whose rows they are.
        directory: Where the directories are made.

    Raises:
        OSError: Storage failed.
    """
    cutter = _Cutter(Form.of(table), directory)
    for rows in tables:
        for found, part in _parts(rows, marks):
            cutter.take(found, part)
    cutter.end()
    return tuple(cutter.finished)


def sorted_rows(files: Sequence[Path]) -> Iterator[pa.Table]:
    """Yield the rows of files whose names are in the order of their rows, a row group at a time.

    Raises:
        OSError: Storage failed.
    """
    for path in files:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, use_threads=False)


class _Cutter:
    """Holds rows until all of a partition are there, or as many as a file may have."""

    def __init__(self, form: Form, directory: Path) -> None:
        self.finished: list[CutPartition] = []
        self._form = form
        self._directory = directory
        self._marks: tuple[Any, ...] | None = None
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._footers: list[pq.FileMetaData] = []

    def take(self, marks: tuple[Any, ...], rows: pa.Table) -> None:
        if marks != self._marks:
            self.end()
            self._marks = marks
        rows = rows.select(self._form.schema.names).cast(self._form.schema)
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > MAX_BYTES:
            self._write()

    def end(self) -> None:
        """Finish the partition, if there is one."""
        if self._marks is None:
            return
        if self._held:
            self._write()
        self.finished.append(CutPartition(self._marks, self._place(), tuple(self._footers)))
        self._footers = []

    def _write(self) -> None:
        place = self._place()
        if not self._footers:
            place.mkdir(parents=True)
        rows = pa.concat_tables(self._held)
        in_group = group_rows(Volume(rows.num_rows, self._held_bytes))
        _, footer = self._form.write(rows, place, in_group, len(self._footers))
        self._footers.append(footer)
        self._held, self._held_bytes = [], 0

    def _place(self) -> Path:
        return self._directory / str(len(self.finished))


def _parts(rows: pa.Table, marks: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """Yield the rows of each partition, in order."""
    starts = np.zeros(rows.num_rows, dtype=bool)
    starts[:1] = True
    columns = [rows.column(name).combine_chunks() for name in marks]
    for column in columns:
        codes = column.dictionary_encode().indices.to_numpy()
        starts[1:] |= codes[1:] != codes[:-1]
    places = [*np.flatnonzero(starts).tolist(), rows.num_rows]
    told = [column.take(pa.array(places[:-1])).to_pylist() for column in columns]
    for place, values in enumerate(zip(*told, strict=True)):
        yield values, rows.slice(places[place], places[place + 1] - places[place])
