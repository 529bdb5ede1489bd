"""Rows in the driver as Arrow record batches of bounded size, each of which is fetched for itself.

Tasks of jobs pack rows by their number alone, which is chosen by how large those are that a query
reads. It may make far larger ones of them.
"""

from collections.abc import Generator
from contextlib import closing
from typing import Any, Final

import pyarrow as pa

from pgwire_gateway.spark.internals.machine import Machine

MOST_BYTES: Final = 2 << 20
"""A batch that has so many bytes gets no more rows."""


class RowBatches:
    """Makes batches of the rows of a result."""

    def __init__(self, machine: Machine, structure: Any, schema: pa.Schema, rows: int) -> None:
        """Prepare it.

        Args:
            machine: Where the rows are.
            structure: Their schema, as an object of the JVM.
            schema: The schema of the batches.
            rows: How many rows a batch has at most.
        """
        self._converters = machine.converters
        self._structure = structure
        self._schema = schema
        self._rows = rows

    def pack(self, rows: Any) -> Generator[pa.RecordBatch]:
        """Yield batches of an iterator over rows, as Spark's operators return them.

        Raises:
            Py4JError: What the evaluation met.
        """
        batches = self._converters.toBatchWithSchemaIterator(
            rows, self._structure, self._rows, MOST_BYTES, "UTC", False, False
        )
        with closing(batches):
            while batches.hasNext():
                yield self._decoded(batches.next())

    def _decoded(self, data: bytes) -> pa.RecordBatch:
        messages = pa.ipc.MessageReader.open_stream(data)
        messages.read_next_message()  # their schema as Spark has it
        return pa.ipc.read_record_batch(messages.read_next_message(), self._schema)
