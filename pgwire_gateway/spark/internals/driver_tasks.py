"""Small results computed by threads of the driver: what a job does, without a job.

Planning a job, packing its task and reporting its end take Spark several times as long as the task
of a query of few rows. A result of one part that depends on no exchange needs none of it: a thread
becomes a task (:mod:`.task_contexts`) and reads the part, a batch after the other: its rows may be
larger than those they are made of. Whoever waits for it can be told to stop although it goes on; it
stops where Spark's tasks look whether they were killed.
"""

import logging
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from contextlib import closing, suppress
from queue import SimpleQueue
from typing import Any, Final

import pyarrow as pa

from pgwire_gateway.spark.batch_stores import BatchStore
from pgwire_gateway.spark.internals.process import DriverProcess
from pgwire_gateway.spark.internals.task_contexts import TaskContexts

logger = logging.getLogger(__name__)

Pack = Callable[[Any], Generator[pa.RecordBatch]]
"""Makes batches of an iterator over rows, which is Scala's."""

_FIRST_ATTEMPT: Final = 1 << 40
"""Numbers of task attempts tell tasks apart; those of jobs never come so far."""
_EXCHANGE: Final = "+-"
"""Stands before what comes through an exchange where Spark tells what a result depends on."""


class StoppedError(Exception):
    """Who waited for a task was told to stop."""


class DriverTasks:
    """A few threads that compute results, each one at a time."""

    def __init__(self, process: DriverProcess, context: Any, most: int) -> None:
        """Prepare it.

        Args:
            process: The driver.
            context: Its Spark context.
            most: How many results are computed at the same time.
        """
        self._process = process
        self._context = context
        self._most = most
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._all: list[_Worker] = []
        self._made = 0
        self._closed = False

    def run(self, rdd: Any, pack: Pack, properties: Any, group: str) -> BatchStore | None:
        """Return the rows of an RDD, all of which are there; None where a job has to compute them.

        Once it has been run, no job can run this RDD any more: operators keep what they work with,
        which cannot be packed.

        Args:
            rdd: The rows of a result.
            pack: Makes batches of them.
            properties: Settings of its session, as the thread has them that would begin the job.
            group: The job group it belongs to.

        Raises:
            StoppedError: The group was cancelled.
            GatewayError: 53100 or 58030 when storage fails.
            Py4JError: What the evaluation met.
        """
        if int(rdd.getNumPartitions()) != 1 or _EXCHANGE in str(rdd.toDebugString()):
            return None
        worker = self._take()
        if worker is None:
            return None
        return worker.begin(_Work(rdd, pack, properties, group)).result()

    @property
    def busy(self) -> int:
        """How many results are computed now, also such that nobody waits for any more."""
        with self._lock:
            return len(self._all) - len(self._idle)

    def cancel(self, group: str) -> None:
        """Stop what runs for a group, and what has just been given to a thread."""
        with self._lock:
            workers = list(self._all)
        for worker in workers:
            worker.cancel(group)

    def close(self) -> None:
        """End the threads as soon as they have nothing to do."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._all = [worker for worker in self._all if worker not in idle]
        for worker in idle:
            worker.end()

    def _take(self) -> "_Worker | None":
        """Return a worker that has nothing to do; None when all are busy."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._closed or self._made >= self._most:
                return None
            attempt = _FIRST_ATTEMPT + self._made
            self._made += 1
        try:
            contexts = TaskContexts(self._process, self._context, attempt)
        except Exception:
            # Internals of another Spark may be missing in any way.
            logger.warning("small results are computed by jobs", exc_info=True)
            self._most = 0
            return None
        worker = _Worker(contexts, self._release)
        with self._lock:
            self._all.append(worker)
        return worker

    def _release(self, worker: "_Worker") -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(worker)
                return
            self._all.remove(worker)
        worker.end()


class _Work:
    """A result of one part to be computed, and who waits for it."""

    def __init__(self, rdd: Any, pack: Pack, properties: Any, group: str) -> None:
        self.rdd = rdd
        self.pack = pack
        self.properties = properties
        self.group = group
        self.batches: Future[BatchStore] = Future()
        self.context: Any = None
        """As which task it is computed, once it is."""

    def cancel(self) -> None:
        """Let nobody wait any more, and the task stop."""
        with suppress(InvalidStateError):
            self.batches.set_exception(StoppedError("canceled"))
        # Who sets the context looks afterwards whether somebody waits.
        if self.context is not None:
            self.context.markInterrupted("canceled")


class _Worker:
    """A thread that is one task after another."""

    def __init__(self, contexts: TaskContexts, release: Callable[["_Worker"], None]) -> None:
        self._contexts = contexts
        self._release = release
        self._given: SimpleQueue[_Work | None] = SimpleQueue()
        self._work: _Work | None = None
        """What is computed now."""
        threading.Thread(target=self._run, name="driver task", daemon=True).start()

    def begin(self, work: _Work) -> "Future[BatchStore]":
        """Begin with a result."""
        self._work = work
        self._given.put(work)
        return work.batches

    def end(self) -> None:
        """Compute nothing more."""
        self._given.put(None)

    def cancel(self, group: str) -> None:
        """Stop what runs, if it runs for a group."""
        work = self._work
        if work is not None and work.group == group:
            work.cancel()

    def _run(self) -> None:
        while self._next():
            pass

    def _next(self) -> bool:
        """Wait for a result to compute, and compute it; return whether more may come.

        Nothing of it is kept here while the next one is waited for.
        """
        work = self._given.get()
        if work is None:
            return False
        batches = BatchStore()
        failure: Exception | None = None
        try:
            self._compute(work, batches)
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            failure = error
            # The failure holds all that is here until it is collected as garbage.
            batches.close()
        self._work = None
        # Who waited may begin the next at once.
        self._release(self)
        with suppress(InvalidStateError):
            if failure is None:
                work.batches.set_result(batches)
            else:
                work.batches.set_exception(failure)
        return True

    def _compute(self, work: _Work, batches: BatchStore) -> None:
        with self._contexts.task(work.properties) as context:
            work.context = context
            if work.batches.done():
                return
            rows = work.rdd.iterator(work.rdd.partitions()[0], context)
            with closing(work.pack(rows)) as packed:
                for batch in packed:
                    if work.batches.done():
                        return
                    batches.add(batch)
