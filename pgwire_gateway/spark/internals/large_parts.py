"""Parts of a result that do not fit in memory: the JVM writes them to files, which are read then.

How many rows a join returns is known when it has been computed: a product has far more than it is
made of. So no more of a part is computed than fits. Where it has more it is computed once more, as
a whole, and written.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from pgwire_gateway.spark.internals.machine import Machine

MOST: Final = 4
"""How many times as many rows as it is taken to have a part may have in memory."""

_NUMBERS: Final = count(1)
"""Tell directories of results apart."""

_OPTIONS: Final = {
    "parquet.block.size": str(16 << 20),
    "parquet.block.size.row.check.min": "1",
    "parquet.page.size.row.check.min": "1",
    "compression": "lz4_raw",
}
"""A value is a batch of rows, so a few of them are much."""


class Parts(Protocol):
    """A result that is read part by part."""

    schema: pa.Schema

    def parts(self) -> Iterator[tuple[range, Iterator[pa.RecordBatch]]]:
        """Yield parts that are read together, and their batches, which have to be taken."""

    def close(self) -> None:
        """Take no more."""


def limited(machine: Machine, frame: Any, rows: int) -> Any:
    """Return a Dataset of the same parts, each with no more rows than that.

    What its parts depend on is computed once for both.
    """
    session, execution = frame.sparkSession(), machine.jvm.org.apache.spark.sql.execution
    machine.activate(session)  # plans belong to the active one
    plan = execution.LocalLimitExec(rows, frame.queryExecution().executedPlan())
    return session.internalCreateDataFrame(plan.execute(), frame.schema(), False)


class StoredParts:
    """Reads parts of a result from files that are written for that, and removed afterwards."""

    is_complete = False

    def __init__(
        self,
        machine: Machine,
        frame: Any,
        rdd: Callable[[], Any],
        schema: pa.Schema,
        enter: Callable[[], None] | None,
    ) -> None:
        """Prepare it.

        Args:
            machine: Where the RDD lives.
            frame: The Dataset it is made of.
            rdd: Returns the result as Arrow batches.
            schema: Its schema.
            enter: Makes the jobs of this thread those of the statement, which others may have had.
        """
        self.schema = schema
        self._machine = machine
        self._session = frame.sparkSession()
        self._rdd = rdd
        self._enter = enter
        self._directory = machine.scratch / f"parts-{next(_NUMBERS)}"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.of(range(int(self._rdd().getNumPartitions())))

    def of(self, parts: range) -> Iterator[pa.RecordBatch]:
        """Yield the batches of some parts."""
        try:
            self._write(parts)
            for file in _files(self._directory):
                yield from _read(file, self.schema)
                file.unlink()
        finally:
            self.close()

    def close(self) -> None:
        """Remove the files; harmless a second time."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _write(self, parts: range) -> None:
        if self._enter is not None:
            self._enter()
        spark, rdd = self._machine.jvm.org.apache.spark, self._rdd()
        listed = self._machine.jvm.java.util.ArrayList()
        for number in parts:
            listed.add(number)
        # A set is a function that tells what is in it.
        asked = spark.api.python.PythonUtils.toSeq(listed).toSet()
        some = spark.rdd.PartitionPruningRDD.create(rdd, asked)
        writer = self._session.createDataset(some, spark.sql.Encoders.BINARY()).write()
        for name, value in _OPTIONS.items():
            writer.option(name, value)
        writer.parquet(str(self._directory))


class LargeParts:
    """Reads parts from memory where they fit, else from files."""

    is_complete = False

    def __init__(self, few: Parts, most_rows: int, stored: StoredParts) -> None:
        """Begin with parts in memory.

        Args:
            few: The parts, of which none has more rows than one beyond the most.
            most_rows: How many rows of parts that are read together fit.
            stored: The same parts, as a whole.
        """
        self.schema = few.schema
        self._few = few
        self._most_rows = most_rows
        self._stored = stored

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for parts, batches in self._few.parts():
            held = list(batches)
            if sum(batch.num_rows for batch in held) <= self._most_rows:
                yield from held
            else:
                held.clear()
                yield from self._stored.of(parts)

    def close(self) -> None:
        """Take no more."""
        self._few.close()
        self._stored.close()


def _files(directory: Path) -> Sequence[Path]:
    """Return the files of parts in their order; there may be none of parts without rows."""
    return sorted(directory.glob("part-*"), key=lambda file: int(file.name.split("-")[1]))


def _read(file: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(file, pre_buffer=False) as stored:
        for values in stored.iter_batches(batch_size=1, use_threads=False):
            for value in values.column(0):
                yield pa.ipc.read_record_batch(value.as_buffer(), schema)
