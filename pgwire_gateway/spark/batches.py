"""Results as Arrow record batches: collected when small, streamed part by part when not."""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, Self

import pyarrow as pa

from pgwire_gateway.spark.engine import Driver

END_OF_PART: Final = -1
_NEXT_PART: Final = struct.pack(">i", 1)
_STOP: Final = struct.pack(">i", 0)
_INT: Final = struct.Struct(">i")
_MAX_MESSAGE: Final = 1 << 30


class Batches:
    """Iterator over the record batches of a result; closing it early cancels the work."""

    def __init__(
        self,
        schema: pa.Schema,
        source: Iterator[pa.RecordBatch],
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.schema = schema
        self._source = source
        self._on_close = on_close

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._source)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release everything; cancels what still runs."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()
        self._source = iter(())

    def read_all(self) -> pa.Table:
        """Return all rows in memory."""
        return pa.Table.from_batches(list(self), schema=self.schema)


def collect(driver: Driver, rdd: Any, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Run the job of an RDD of Arrow batches and return all of them, in order."""
    count = int(rdd.getNumPartitions())
    if not count:
        return []
    parts = rdd.toJavaRDD().collectPartitions(driver.indices(count))
    return [_decoded(data, schema) for part in parts for data in part]


def begin(rdd: Any, schema: pa.Schema, count: int) -> list[pa.RecordBatch]:
    """Run the job of an RDD of Arrow batches only as far as its first batches."""
    return [_decoded(data, schema) for data in rdd.toJavaRDD().take(count)]


def _decoded(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)


class PartStream:
    """Reads an RDD of Arrow batches one part after another, while the JVM computes the next."""

    def __init__(self, driver: Driver, rdd: Any, schema: pa.Schema) -> None:
        self._schema = schema
        python_rdd = driver.jvm.org.apache.spark.api.python.PythonRDD
        port, secret, self._server = python_rdd.toLocalIteratorAndServe(rdd, True)
        self._socket = socket.create_connection(("127.0.0.1", int(port)), timeout=30)
        self._socket.settimeout(None)
        self._authenticate(str(secret).encode())

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            self._socket.sendall(_NEXT_PART)
            status = self._int()
            if status == 0:
                return
            if status < 0:
                self._server.getResult()
                return
            while (length := self._int()) != END_OF_PART:
                yield pa.ipc.read_record_batch(self._read(length), self._schema)

    def close(self) -> None:
        """Hang up; the JVM stops serving."""
        with suppress(OSError):
            self._socket.sendall(_STOP)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _authenticate(self, secret: bytes) -> None:
        self._socket.sendall(_INT.pack(len(secret)) + secret)
        reply = bytes(self._read(self._int()))
        if reply != b"ok":
            raise ConnectionError("the Spark driver refused the connection for results")

    def _int(self) -> int:
        return int(_INT.unpack(self._read(4))[0])

    def _read(self, length: int) -> pa.Buffer:
        if not 0 <= length <= _MAX_MESSAGE:
            raise ConnectionError(f"the Spark driver announced {length} bytes")
        buffer = pa.allocate_buffer(length)
        view = memoryview(buffer)
        received = 0
        while received < length:
            count = self._socket.recv_into(view[received:])
            if count == 0:
                raise EOFError("the Spark driver closed the connection for results")
            received += count
        return buffer
