"""Results of the JVM as Arrow record batches: collected when small, else streamed by parts."""

import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, Final

import pyarrow as pa

from pgwire_gateway.spark.api import Delivery, Rows
from pgwire_gateway.spark.arrow_schemas import arrow_schema
from pgwire_gateway.spark.batch_stores import BatchStore
from pgwire_gateway.spark.internals.large_parts import LargeParts, StoredParts, sliced
from pgwire_gateway.spark.internals.machine import Entered, Machine
from pgwire_gateway.spark.internals.part_bounds import PartBound, PlannedRows
from pgwire_gateway.spark.internals.row_batches import RowBatches

END_OF_PART: Final = -1
_NEXT_PART: Final = struct.pack(">i", 1)
_STOP: Final = struct.pack(">i", 0)
_INT: Final = struct.Struct(">i")
_MAX_MESSAGE: Final = 1 << 30
_PEEKED: Final = 9
"""A result of fewer batches is small, whatever could be proven about it."""

FIRST_BYTES: Final = 1 << 20
GROUP_BYTES: Final = 8 << 20
"""How much the parts of one job are taken to have together, by what those before had."""
MOST_PARTS: Final = 16
JOB_BYTES: Final = 256 << 20
"""How much the parts of one job have together at most, whatever those before had."""
MOST: Final = 4
"""How many times as many rows as it is taken to have a part may have in memory."""
STREAM_BYTES: Final = 64 << 20
"""How much a part may have in memory where each has a job of its own."""


def rows(
    machine: Machine,
    frame: Any,
    delivery: Delivery,
    check: Callable[[], None] | None,
    enter: Callable[[], None] | None,
) -> Rows:
    """Compute the rows of a Dataset, or begin with it; see `pgwire_gateway.spark.api.Frame`."""
    structure = frame.schema()
    schema = arrow_schema(str(structure.json()))
    if delivery.matches_patterns:
        # Once it is planned, the plan is there for whatever asks for it.
        machine.planned(frame.queryExecution().executedPlan)
    if delivery.collected:
        packed = RowBatches(machine, structure, schema, delivery.batch_rows)
        found = _all(machine, frame, packed, delivery, check)
        return Collected(schema, found, found.close)

    return _streamed(machine, frame, schema, delivery, check, enter)


def _streamed(  # noqa: PLR0913, PLR0917 - as of `rows`, and what is known of them
    machine: Machine,
    frame: Any,
    schema: pa.Schema,
    delivery: Delivery,
    check: Callable[[], None] | None,
    enter: Callable[[], None] | None,
) -> Rows:
    """Begin with rows that may be many: as much of them at once as fits in memory."""
    rows = PlannedRows.of(machine, frame, schema)
    if delivery.most_rows is not None:
        rows = rows.limited(delivery.most_rows)
    stored = StoredParts(rows, delivery.batch_rows, enter)

    def most(size_bytes: int, rows: int) -> PartBound:
        return PartBound(size_bytes, rows if delivery.may_multiply else None)

    bound = most(STREAM_BYTES, delivery.part_rows * MOST)
    rdd = rows.bounded(bound).batches()
    if check is not None:
        check()
    if delivery.may_exceed_part and int(rdd.getNumPartitions()) == 1:
        found = begin(rdd, schema, _PEEKED)
        has_more = len(found) == _PEEKED or bound.is_exceeded_by(found)
        pieces = (piece for batch in found for piece in sliced(batch, delivery.batch_rows))
        return stored if has_more else Collected(schema, pieces)
    if delivery.may_be_few:
        # A job has several parts.
        few = most(JOB_BYTES // max(machine.cores, MOST_PARTS), delivery.part_rows)
        groups = PartGroups(machine, rows.bounded(few).batches(), schema, few, enter)
        if groups.is_small:
            return LargeParts(groups, few, stored, delivery.batch_rows)
    return LargeParts(PartStream(machine, rdd, schema), bound, stored, delivery.batch_rows)


class Collected:
    """A result that is at hand."""

    is_complete = True

    def __init__(
        self,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        forget: Callable[[], None] | None = None,
    ) -> None:
        """Hand out batches.

        Args:
            schema: Their schema.
            batches: The batches.
            forget: Gives up those that have not been read.
        """
        self.schema = schema
        self._batches = batches
        self._forget = forget

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self._batches)

    def close(self) -> None:
        """Forget what has not been read; no job runs."""
        if self._forget is not None:
            self._forget()


def _all(
    machine: Machine,
    frame: Any,
    packed: RowBatches,
    delivery: Delivery,
    check: Callable[[], None] | None,
) -> BatchStore:
    """Return all rows of a Dataset, in order."""
    plan = frame.queryExecution().executedPlan()
    rows = plan.execute()  # stages the result depends on are run
    if check is not None:
        check()
    few = _few(machine, rows, packed) if delivery.is_small else None
    if few is not None:
        return few
    # The driver holds them as operators have them, compressed, and no more than Spark lets it.
    with closing(packed.pack(plan.executeCollectIterator().productElement(1))) as batches:
        return _stored(batches, check)


def _stored(batches: Iterable[pa.RecordBatch], check: Callable[[], None] | None) -> BatchStore:
    """Return all batches; between them nothing but a check ends it: no job runs any more."""
    found = BatchStore()
    try:
        for batch in batches:
            if check is not None:
                check()
            found.add(batch)
    except BaseException:
        found.close()  # the failure may hold it for long
        raise
    return found


def _few(machine: Machine, rdd: Any, packed: RowBatches) -> BatchStore | None:
    """Return the rows of an RDD; None where nothing was computed."""
    entered: Entered | None = getattr(machine.local, "entered", None)
    if entered is None:
        return None
    return machine.tasks.run(rdd, packed.pack, entered.properties, entered.group)


def begin(rdd: Any, schema: pa.Schema, count: int) -> list[pa.RecordBatch]:
    """Run the job of an RDD of Arrow batches only as far as its first batches."""
    return [_decoded(data, schema) for data in rdd.toJavaRDD().take(count)]


def _decoded(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)


class PartGroups:
    """Reads an RDD of Arrow batches by a few jobs, each of several parts, while these have little.

    A job of its own for each part, as :class:`PartStream` has it, costs more than little rows do.
    """

    is_complete = False

    def __init__(
        self,
        machine: Machine,
        rdd: Any,
        schema: pa.Schema,
        bound: PartBound,
        enter: Callable[[], None] | None,
    ) -> None:
        """Run the first job, of as many parts as there are cores.

        Args:
            machine: Where the RDD lives.
            rdd: The result, of whose parts no more than a bound is computed.
            schema: Its schema.
            bound: That bound.
            enter: Makes the jobs of this thread those of the statement, which others may have had.
        """
        self._machine = machine
        self._rdd = rdd.toJavaRDD()
        self.schema = schema
        self._bound = bound
        self._enter = enter
        self._count = int(rdd.getNumPartitions())
        self._first = range(min(machine.cores, self._count))
        self._begun = self._read(self._first)

    @property
    def is_small(self) -> bool:
        """Whether there is little in the first parts."""
        return _size(self._begun) <= FIRST_BYTES

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for _, batches in self.parts():
            yield from batches

    def parts(self) -> Iterator[tuple[range, Iterator[pa.RecordBatch]]]:
        """Yield the parts of each job, and their batches.

        Which of several parts is not whole cannot be told: where one may be, each has a job.
        """
        done, found = self._first, self._begun
        while found or done.stop < self._count:
            most = self._most_like(found, len(done))
            if len(done) > 1 and self._bound.is_exceeded_by(found):
                found = []
                for number in done:
                    part = range(number, number + 1)
                    yield part, iter(self._read(part))
            else:
                yield done, iter(found)
            done = range(done.stop, min(done.stop + most, self._count))
            found = self._read(done)

    def _most_like(self, found: Sequence[pa.RecordBatch], count: int) -> int:
        """Return how many parts a job has when they have what so many others had."""
        most = min(GROUP_BYTES // (_size(found) // count + 1), MOST_PARTS)
        if self._bound.rows is not None:
            rows = sum(batch.num_rows for batch in found)
            most = min(self._bound.rows // (2 * (rows // count + 1)), most)
        return max(most, 1)

    def close(self) -> None:
        """Do nothing: no job runs while nobody waits for it."""

    def _read(self, parts: range) -> list[pa.RecordBatch]:
        if not parts:
            return []
        if self._enter is not None:
            self._enter()
        jvm = self._machine.jvm
        numbers = jvm.java.util.ArrayList()
        for part in parts:
            numbers.add(part)
        python_rdd = jvm.org.apache.spark.api.python.PythonRDD
        served = python_rdd.runJob(self._machine.context, self._rdd, numbers)
        with closing(_Service(*served)) as service:
            return list(service.all_batches(self.schema))


def _size(batches: Sequence[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)


class PartStream:
    """Reads an RDD of Arrow batches one part after another, while the JVM computes the next."""

    is_complete = False

    def __init__(self, machine: Machine, rdd: Any, schema: pa.Schema) -> None:
        self.schema = schema
        python_rdd = machine.jvm.org.apache.spark.api.python.PythonRDD
        self._service = _Service(*python_rdd.toLocalIteratorAndServe(rdd, True))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for _, batches in self.parts():
            yield from batches

    def parts(self) -> Iterator[tuple[range, Iterator[pa.RecordBatch]]]:
        """Yield each part and its batches, which have to be taken."""
        number = 0
        while True:
            self._service.send(_NEXT_PART)
            status = self._service.number()
            if status == 0:
                return
            if status < 0:
                self._service.raise_failure()
                return
            yield range(number, number + 1), self._service.part(self.schema)
            number += 1

    def close(self) -> None:
        """Hang up; the JVM stops serving."""
        with suppress(OSError):
            self._service.send(_STOP)
        self._service.close()


class _Service:
    """A socket at which the JVM serves results once."""

    def __init__(self, port: Any, secret: Any, server: Any) -> None:
        self._server = server
        self._socket = socket.create_connection(("127.0.0.1", int(port)), timeout=30)
        self._socket.settimeout(None)
        password = str(secret).encode()
        self.send(_INT.pack(len(password)) + password)
        if bytes(self._read(self.number())) != b"ok":
            raise ConnectionError("the Spark driver refused the connection for results")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def number(self) -> int:
        return int(_INT.unpack(self._read(_INT.size))[0])

    def part(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read batches, each after its length, up to what says that there are no more."""
        while (length := self.number()) != END_OF_PART:
            yield pa.ipc.read_record_batch(self._read(length), schema)

    def all_batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read batches, each after its length, until the JVM hangs up, and has nothing to tell."""
        while self._socket.recv(1, socket.MSG_PEEK):
            yield pa.ipc.read_record_batch(self._read(self.number()), schema)
        self.raise_failure()

    def raise_failure(self) -> None:
        """Have the JVM raise what has gone wrong there."""
        self._server.getResult()

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _acknowledge_at_once(self) -> None:
        """Let the JVM go on: it sends small pieces, each when the one before is acknowledged.

        The system comes back to waiting for 40 ms with that whenever it thinks it is worth while.
        """
        if hasattr(socket, "TCP_QUICKACK"):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def _read(self, length: int) -> pa.Buffer:
        if not 0 <= length <= _MAX_MESSAGE:
            raise ConnectionError(f"the Spark driver announced {length} bytes")
        buffer = pa.allocate_buffer(length)
        view = memoryview(buffer)
        received = 0
        while received < length:
            self._acknowledge_at_once()
            count = self._socket.recv_into(view[received:])
            if count == 0:
                raise EOFError("the Spark driver closed the connection for results")
            received += count
        return buffer
