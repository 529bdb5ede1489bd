"""Small results computed by threads of the driver: what a job does, without a job.

Planning a job, packing its task and reporting its end take Spark several times as long as the task
of a query of few rows. A result of one part that depends on no exchange needs none of it: a thread
becomes a task, as Spark's executors make one (``Executor.TaskRunner`` and ``Task.run``), and reads
the part. Whoever waits for it can be told to stop although it goes on; it stops where Spark's tasks
look whether they were killed.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from pgwire_gateway.spark.internals.process import DriverProcess
from pgwire_gateway.spark.internals.task_contexts import TaskContexts

MAX_BYTES: Final = 64 << 20
"""Results that turn out to be larger are left to a job."""

_FIRST_NUMBER: Final = 1 << 40
"""Tasks are told apart by number; those of jobs never come so far."""
_EXCHANGE: Final = "+-"
"""Stands before what comes through an exchange where Spark tells what a result depends on."""


class StoppedError(Exception):
    """Who waited for a task was told to stop."""


@dataclass(frozen=True, slots=True)
class Work:
    """A result to be computed."""

    rdd: Any
    """One part of Arrow batches."""
    properties: Any
    """Settings of the session, as of the thread that would begin the job."""
    group: str
    """What it is stopped by."""
    found: "Future[list[bytes] | None]" = field(default_factory=Future)
    """The batches, as Spark has packed them; None when there is too much of them."""


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
        self._closed = False

    def run(self, rdd: Any, properties: Any, group: str) -> list[bytes] | None:
        """Return the Arrow batches of an RDD; None where that takes a job.

        Args:
            rdd: A result.
            properties: Settings of its session.
            group: The job group it belongs to.

        Raises:
            StoppedError: The group was cancelled.
            Py4JError: What the evaluation met.
        """
        if int(rdd.getNumPartitions()) != 1 or _EXCHANGE in str(rdd.toDebugString()):
            return None
        worker = self._taken()
        if worker is None:
            return None
        work = Work(rdd, properties, group)
        worker.begin(work)
        return work.found.result()

    @property
    def busy(self) -> int:
        """How many results are computed now, also such that nobody waits for any more."""
        with self._lock:
            return len(self._all) - len(self._idle)

    def cancel(self, group: str) -> None:
        """Stop what runs for a group."""
        with self._lock:
            workers = list(self._all)
        for worker in workers:
            worker.cancel(group)

    def close(self) -> None:
        """End the threads as soon as they have nothing to do."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    def _taken(self) -> "_Worker | None":
        """Return a worker that has nothing to do; None when all are busy."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._closed or len(self._all) >= self._most:
                return None
            number = _FIRST_NUMBER + len(self._all)
            contexts = partial(TaskContexts, self._process, self._context, number)
            worker = _Worker(contexts, self._returned)
            self._all.append(worker)
            return worker

    def _returned(self, worker: "_Worker") -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(worker)
                return
        worker.end()


class _Worker:
    """A thread that is one task after another."""

    def __init__(
        self, contexts: Callable[[], TaskContexts], returned: Callable[["_Worker"], None]
    ) -> None:
        self._contexts = contexts
        self._returned = returned
        self._works: SimpleQueue[Work | None] = SimpleQueue()
        self._running: tuple[Work, Any] | None = None
        """What is computed now, and as which task."""
        threading.Thread(target=self._work, name="driver task", daemon=True).start()

    def begin(self, work: Work) -> None:
        """Compute a result."""
        self._works.put(work)

    def end(self) -> None:
        """Compute nothing more."""
        self._works.put(None)

    def cancel(self, group: str) -> None:
        """Stop what runs, if it runs for a group."""
        running = self._running
        if running is None or running[0].group != group:
            return
        work, context = running
        with suppress(InvalidStateError):
            work.found.set_exception(StoppedError("canceled"))
            context.markInterrupted("canceled")

    def _work(self) -> None:
        contexts = None
        while (work := self._works.get()) is not None:
            try:
                if contexts is None:
                    contexts = self._contexts()
                found = self._computed(work, contexts)
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                outcome = partial(work.found.set_exception, error)
            else:
                outcome = partial(work.found.set_result, found)
            # Who waited may begin the next at once.
            self._returned(self)
            with suppress(InvalidStateError):
                outcome()

    def _computed(self, work: Work, contexts: TaskContexts) -> list[bytes] | None:
        with contexts.task(work.properties) as context:
            self._running = (work, context)
            try:
                return _read(work.rdd, context)
            finally:
                self._running = None


def _read(rdd: Any, context: Any) -> list[bytes] | None:
    found, size = [], 0
    batches = rdd.iterator(rdd.partitions()[0], context)
    while batches.hasNext():
        batch = batches.next()
        size += len(batch)
        if size > MAX_BYTES:
            return None
        found.append(batch)
    return found
