"""Rows that wait until they can be written: held in memory, or in a file when they are many."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa

from catalog.model import JournalTable
from pgwire_gateway.spark.conservation import require_returned
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.small_files import MAX_BYTES
from pgwire_gateway.spark.staging import StagedSegment
from pgwire_gateway.spark.warehouse import Warehouse

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Spool:
    """Batches of one schema, in the order they came in; close() forgets them."""

    def __init__(self, warehouse: Warehouse, table: JournalTable) -> None:
        """Keep a file, should one be needed, where segments of a table are staged."""
        self._warehouse = warehouse
        self._table = table
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._staged: StagedSegment | None = None
        self._sink: pa.RecordBatchWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch.

        Raises:
            GatewayError: 53100 when the disk is full, 58030 for other failures of storage.
        """
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._bytes <= MAX_BYTES:
            return
        held, self._held = self._held, []
        with storage_failures():
            if self._sink is None:
                self._staged = self._warehouse.staging.begin()
                self._sink = pa.ipc.new_stream(self._file, batch.schema, options=_OPTIONS)
            for one in held:
                self._sink.write_batch(one)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches; none can be added any more.

        Raises:
            GatewayError: 53100 when the disk is full, 58030 for other failures of storage, XX001 in
                the end when other rows have come out than were put in.
        """
        returned = 0
        for batch in chain(self._stored(), self._held):
            returned += batch.num_rows
            yield batch
        require_returned(self._table, self._rows, returned)

    def _stored(self) -> Iterator[pa.RecordBatch]:
        """Yield what is in the file, if there is one."""
        if self._sink is not None:
            with storage_failures():
                self._sink.close()
                with pa.ipc.open_stream(self._file) as stored:
                    yield from stored

    def close(self) -> None:
        """Remove the file, if there is one; harmless a second time."""
        try:
            if self._sink is not None:
                with storage_failures():
                    self._sink.close()
        finally:
            if self._staged is not None:
                self._staged.discard()

    @property
    def _file(self) -> Path:
        if self._staged is None:
            raise ValueError(self._table.name)
        return self._staged.incoming / "rows.arrow"
