"""Batches that wait until a client asks for them: in memory, or in a file when they are many.

Rows of PostgreSQL wait in a :class:`catalog.connection.tuple_stores.TupleStore`.
"""

import os
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from tempfile import TemporaryFile
from typing import IO, Final

import pyarrow as pa

from pgwire_gateway.spark.errors import storage_failures

MOST_BYTES: Final = 16 << 20
"""How much the stores that share a file hold in memory."""

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


class BatchFile:
    """A file without a name for all stores of one statement, opened when one of them needs it.

    It is closed with the last of those that have written to it, or when nobody holds it any more.
    """

    __slots__ = ("__weakref__", "_file", "_writers", "held_bytes")

    def __init__(self) -> None:
        self.held_bytes = 0
        """How much its stores hold in memory."""
        self._file: IO[bytes] | None = None
        self._writers = 0

    def join(self) -> None:
        """Count a store that is going to write."""
        self._writers += 1

    def leave(self) -> None:
        """Count a store no longer: nothing more of it will be read."""
        self._writers -= 1
        if not self._writers and self._file is not None:
            self._file.close()
            self._file = None

    def write(self, batches: Sequence[pa.RecordBatch]) -> int:
        """Append batches of one schema, and return where they are.

        Raises:
            GatewayError: 53100 when the disk is full, 58030 for other failures of storage.
        """
        with storage_failures():
            if self._file is None:
                self._file = TemporaryFile()  # noqa: SIM115 - closed with the last of its writers
                weakref.finalize(self, self._file.close)
            place = self._file.seek(0, os.SEEK_END)
            with pa.ipc.new_stream(self._file, batches[0].schema, options=_OPTIONS) as sink:
                for batch in batches:
                    sink.write_batch(batch)
        return place

    def read(self, place: int) -> Iterator[pa.RecordBatch]:
        """Yield what was appended there; what is elsewhere may be read in between.

        Raises:
            GatewayError: 53100 when the disk is full, 58030 for other failures of storage.
        """
        file = self._file
        if file is None:
            raise ValueError(place)
        with storage_failures():
            file.seek(place)
            stream = pa.ipc.open_stream(file)
            place = file.tell()
        while True:
            with storage_failures():
                file.seek(place)
                batch = next(stream, None)
                place = file.tell()
            if batch is None:
                return
            yield batch


class BatchStore:
    """Batches in the order in which they came, each of which is read once."""

    def __init__(self, file: BatchFile | None = None) -> None:
        """Share a file, and what may be held in memory, with other stores, or have it alone."""
        self._file = BatchFile() if file is None else file
        self._places: list[int] = []
        self._held: deque[pa.RecordBatch] = deque()
        self._held_bytes = 0
        self.is_filed = False
        """Whether some of its batches are in the file."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch.

        Raises:
            GatewayError: 53100 when the disk is full, 58030 for other failures of storage.
        """
        self._held.append(batch)
        self._count(batch.nbytes)
        if self._file.held_bytes <= MOST_BYTES:
            return
        if not self.is_filed:
            self.is_filed = True
            self._file.join()
        # Of equal columns two queries may tell differently whether they can be NULL.
        for _, alike in groupby(self._held, lambda held: held.schema):
            self._places.append(self._file.write(list(alike)))
        self._forget_held()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches; none can be added any more.

        Raises:
            GatewayError: 53100 when the disk is full, 58030 for other failures of storage.
        """
        for place in self._places:
            yield from self._file.read(place)
        while self._held:
            batch = self._held.popleft()
            self._count(-batch.nbytes)
            yield batch
        self.close()

    def close(self) -> None:
        """Forget the batches that have not been read; harmless a second time."""
        self._forget_held()
        self._places = []
        if self.is_filed:
            self.is_filed = False
            self._file.leave()

    def _forget_held(self) -> None:
        self._held.clear()
        self._count(-self._held_bytes)

    def _count(self, size: int) -> None:
        self._held_bytes += size
        self._file.held_bytes += size
