"""Whole columns of base segments, read from their files without Spark.

Nothing supersedes the rows of a base when nothing is newer, so a query that only selects columns
of them asks for no work Spark would do, and its rows need not pass through the JVM.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.journal.layout import column_name
from pgwire_gateway.read_ahead import ReadAhead
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.relations import Relation
from pgwire_gateway.spark.warehouse import Warehouse
from pgwire_gateway.wire_types.registry import arrow_type
from rewrite.results import Scan, SourcePart


class FileScan:
    """The batches of a scan, in the order of the files; a thread reads ahead of the consumer."""

    def __init__(
        self, files: list[Path], columns: Mapping[str, str], schema: pa.Schema, batch_rows: int
    ) -> None:
        """Take names of columns in the files by the names they are to have in the result."""
        self._files = files
        self._columns = columns
        self._batch_rows = batch_rows
        self._ahead: ReadAhead[pa.RecordBatch] | None = None
        self.schema = schema

    @property
    def count(self) -> int:
        """Number of files."""
        return len(self._files)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield batches.

        Raises:
            GatewayError: 58P01 for a missing file, 58030 for one that cannot be read.
        """
        self._ahead = ReadAhead(self._batches(), "file scan")
        with storage_failures():
            yield from self._ahead

    def close(self) -> None:
        """Stop reading."""
        if self._ahead is not None:
            self._ahead.close()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        wanted = list(dict.fromkeys(self._columns.values()))
        for path in self._files:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(self._batch_rows, columns=wanted, use_threads=False):
                    values = [
                        _of_type(batch.column(stored), field.type)
                        for stored, field in zip(self._columns.values(), self.schema, strict=True)
                    ]
                    yield pa.record_batch(values, schema=self.schema)


def _of_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in a type; files of others note for some that they were dictionaries."""
    return values if values.type == kind else values.cast(kind)


def file_scan(
    scan: Scan, relation: Relation, warehouse: Warehouse, batch_rows: int
) -> FileScan | None:
    """Return the batches of a scan; None where its columns are not simply in the files."""
    if scan.source.part is not SourcePart.BASE:
        return None
    stored = {column_name(column.attnum): column for column in relation.snapshot.table.columns}
    segments = relation.segments()
    columns = {}
    kinds = {}
    for output, name in scan.columns.items():
        column = stored.get(name)
        if column is None or any(column.attnum not in segment.attnums for segment in segments):
            return None
        columns[output] = column.storage_name
        kinds[output] = arrow_type(column.type_oid, column.typmod)
    with storage_failures():
        files = [file for segment in segments for file in warehouse.data_files(segment)]
        if any(file.borrowed is not None for file in files):
            schema = pa.schema(list(kinds.items()))
        else:
            found = pq.read_schema(files[0].path)
            schema = pa.schema([found.field(name).with_name(o) for o, name in columns.items()])
        return FileScan([file.path for file in files], columns, schema, batch_rows)
