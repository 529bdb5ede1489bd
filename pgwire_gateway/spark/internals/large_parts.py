"""Parts of a result that do not fit in memory: the JVM writes them to files, which are read then.

How many rows a join returns, and how large those are that a query makes, is known when they have
been computed. So no more of a part is computed than fits (:mod:`.part_bounds`). Where it has more
it is computed once more, as a whole, and written, and so are those after it.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from pgwire_gateway.spark.batch_stores import BatchStore
from pgwire_gateway.spark.internals.part_bounds import PartBound, PlannedRows

SLICE_BYTES: Final = 2 << 20
"""About how much a batch has, and at most twice as much where it is no single row."""

_NUMBERS: Final = count(1)
"""Tell directories of results apart."""

_OPTIONS: Final = {
    "parquet.block.size": str(16 << 20),
    "parquet.enable.dictionary": "false",
    "parquet.block.size.row.check.min": "1",
    "parquet.block.size.row.check.max": "16",
    "parquet.page.size.row.check.min": "1",
    "parquet.page.size.row.check.max": "16",
    # Parquet counts what is compressed by its size then.
    "compression": "uncompressed",
}
"""A group of rows has so much in memory too, however large they are, and however small were those
before them."""


class Parts(Protocol):
    """A result that is read part by part."""

    schema: pa.Schema

    def parts(self) -> Iterator[tuple[range, Iterator[pa.RecordBatch]]]:
        """Yield parts that are read together, and their batches, which have to be taken."""

    def close(self) -> None:
        """Take no more."""


class StoredParts:
    """Reads parts of a result from files that are written for that, and removed afterwards."""

    is_complete = False

    def __init__(
        self, rows: PlannedRows, batch_rows: int, enter: Callable[[], None] | None
    ) -> None:
        """Prepare it.

        Args:
            rows: The result.
            batch_rows: How many rows a batch has at most.
            enter: Makes the jobs of this thread those of the statement, which others may have had.
        """
        self.schema = rows.schema
        self._rows = rows
        self._batch_rows = batch_rows
        self._enter = enter
        self._directory = rows.machine.scratch / f"parts-{next(_NUMBERS)}"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.after(0)

    def after(self, first: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of all parts from one on, as many at a time as there are cores."""
        count, cores = self._rows.count(), self._rows.machine.cores
        for start in range(first, count, cores):
            yield from self._of(range(start, min(start + cores, count)))

    def _of(self, parts: range) -> Iterator[pa.RecordBatch]:
        """Yield the batches of some parts."""
        try:
            self._write(parts)
            for file in _files(self._directory):
                yield from self._read(file)
                file.unlink()
        finally:
            self.close()

    def close(self) -> None:
        """Remove the files; harmless a second time."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _write(self, parts: range) -> None:
        if self._enter is not None:
            self._enter()
        writer = _storable(self._rows.some(parts), self.schema).write()
        for name, value in _OPTIONS.items():
            writer.option(name, value)
        writer.parquet(str(self._directory))

    def _read(self, file: Path) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(file, pre_buffer=False) as stored:
            for number in range(stored.num_row_groups):
                group = stored.read_row_group(number, use_threads=False)
                for batch in _restored(group, self.schema).to_batches():
                    yield from sliced(batch, self._batch_rows)


class LargeParts:
    """Reads parts from memory as long as they fit, from files from the first on that does not."""

    is_complete = False

    def __init__(self, few: Parts, bound: PartBound, stored: StoredParts, batch_rows: int) -> None:
        """Begin with parts in memory.

        Args:
            few: The parts, of which none has more than a bound, but for one row.
            bound: That bound.
            stored: The same parts, as a whole.
            batch_rows: How many rows a batch has at most.
        """
        self.schema = few.schema
        self._few = few
        self._bound = bound
        self._stored = stored
        self._batch_rows = batch_rows

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for parts, batches in self._few.parts():
            with closing(BatchStore()) as held:
                rows = size = 0
                for batch in batches:
                    rows += batch.num_rows
                    size += batch.nbytes
                    held.add(batch)
                if not self._bound.is_exceeded(rows, size):
                    for batch in held:
                        yield from sliced(batch, self._batch_rows)
                    continue
            self._few.close()
            yield from self._stored.after(parts.start)
            return

    def close(self) -> None:
        """Take no more."""
        self._few.close()
        self._stored.close()


def sliced(batch: pa.RecordBatch, most_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in batches of no more rows than that, and of bounded size."""
    fitting = batch.num_rows * SLICE_BYTES // max(batch.nbytes, 1)
    rows = max(min(fitting, most_rows), 1)
    for start in range(0, batch.num_rows, rows):
        piece = batch.slice(start, rows)
        if piece.num_rows > 1 and piece.nbytes > 2 * SLICE_BYTES:  # those before it are shorter
            yield from sliced(piece, (piece.num_rows + 1) // 2)
        else:
            yield piece


def _storable(rows: Any, schema: pa.Schema) -> Any:
    """Return a Dataset in columns that files can have: without a type they cannot."""
    for field in schema:
        if pa.types.is_null(field.type):
            rows = rows.withColumn(field.name, rows.col(field.name).cast("boolean"))
    return rows


def _restored(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows as they were before they were stored."""
    columns = [
        pa.nulls(rows.num_rows) if pa.types.is_null(field.type) else column.cast(field.type)
        for field, column in zip(schema, rows.columns, strict=True)
    ]
    return pa.table(columns, schema)


def _files(directory: Path) -> Sequence[Path]:
    """Return the files of parts in their order; there may be none of parts without rows."""
    return sorted(directory.glob("part-*"), key=lambda file: int(file.name.split("-")[1]))
