"""Threads that compute results: who waits for them is told to stop at any moment."""

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest

from pgwire_gateway.spark.internals import driver_tasks
from pgwire_gateway.spark.internals.driver_tasks import DriverTasks, StoppedError, TooLargeError
from tests.support.waiting import PATIENCE_S, wait_until


class Context:
    """A task as far as it is known who told it to stop."""

    def __init__(self) -> None:
        self.interrupted = threading.Event()

    def markInterrupted(self, _: str) -> None:  # noqa: N802 - Spark's name
        self.interrupted.set()


class Contexts:
    """Makes tasks, when it is allowed to."""

    may_begin = threading.Event()
    made: ClassVar[list[Context]] = []

    def __init__(self, *_: object) -> None:
        pass

    @contextmanager
    def task(self, _: object) -> Iterator[Context]:
        assert self.may_begin.wait(PATIENCE_S)
        context = Context()
        self.made.append(context)
        yield context


class Batches:
    """Batches that are there, or wait until the task is told to stop."""

    def __init__(self, batches: list[bytes], context: Context | None) -> None:
        self._left = batches
        self._context = context

    def hasNext(self) -> bool:  # noqa: N802 - Scala's name
        if self._context is not None:
            assert self._context.interrupted.wait(PATIENCE_S)
        return bool(self._left)

    def next(self) -> bytes:
        return self._left.pop(0)


class Result:
    """An RDD of one part."""

    def __init__(self, *batches: bytes, endless: bool = False) -> None:
        self._batches = batches
        self._endless = endless
        self.begun = False

    def getNumPartitions(self) -> int:  # noqa: N802 - Spark's name
        return 1

    def toDebugString(self) -> str:  # noqa: N802 - Spark's name
        return "(1) Result"

    def partitions(self) -> list[None]:
        return [None]

    def iterator(self, _: None, context: Context) -> Batches:
        self.begun = True
        return Batches(list(self._batches), context if self._endless else None)


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[DriverTasks]:
    """Threads for two results at the same time."""
    monkeypatch.setattr(driver_tasks, "TaskContexts", Contexts)
    monkeypatch.setattr(Contexts, "made", [])
    monkeypatch.setattr(Contexts, "may_begin", threading.Event())
    Contexts.may_begin.set()
    monkeypatch.setattr(sys.modules[__name__], "others", set(threading.enumerate()))
    tasks = DriverTasks(None, None, 2)  # type: ignore[arg-type]
    yield tasks
    for context in Contexts.made:
        context.interrupted.set()
    Contexts.may_begin.set()
    assert wait_until(lambda: tasks.busy == 0)
    tasks.close()
    assert wait_until(lambda: not alive())


others: set[threading.Thread] = set()
"""Threads that were there before."""


def alive() -> list[str]:
    """Return the threads that compute results."""
    own = set(threading.enumerate()) - others
    return [thread.name for thread in own if thread.name == "driver task"]


def waiting(tasks: DriverTasks, result: Result, group: str) -> tuple[threading.Thread, list]:
    """Begin to wait for a result; return who waits, and what comes of it."""
    outcomes: list[object] = []

    def run() -> None:
        try:
            outcomes.append(tasks.run(result, None, group))
        except StoppedError:
            outcomes.append("stopped")

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcomes


def test_batches_come_in_order(tasks: DriverTasks):
    for _ in range(3):
        assert tasks.run(Result(b"a", b"b"), None, "g") == [b"a", b"b"]
    assert tasks.busy == 0
    assert len(alive()) == 1


def test_who_waits_is_told_to_stop_before_the_task_begins(tasks: DriverTasks):
    Contexts.may_begin.clear()
    result = Result(b"a")
    thread, outcomes = waiting(tasks, result, "g")
    assert wait_until(lambda: tasks.busy == 1)
    tasks.cancel("other")
    assert not outcomes

    def is_told() -> bool:
        tasks.cancel("g")
        return not thread.is_alive()

    assert wait_until(is_told)
    assert outcomes == ["stopped"]
    Contexts.may_begin.set()
    assert wait_until(lambda: tasks.busy == 0)
    assert not result.begun


def test_a_task_is_told_to_stop_with_who_waits(tasks: DriverTasks):
    thread, outcomes = waiting(tasks, Result(endless=True), "one")
    other, others = waiting(tasks, Result(endless=True), "other")
    assert wait_until(lambda: len(Contexts.made) == 2)
    tasks.cancel("one")
    thread.join(PATIENCE_S)
    assert outcomes == ["stopped"]
    assert wait_until(lambda: tasks.busy == 1)
    assert [context.interrupted.is_set() for context in Contexts.made].count(True) == 1
    assert other.is_alive()
    tasks.cancel("other")
    other.join(PATIENCE_S)
    assert others == ["stopped"]


def test_when_all_are_busy_nobody_does_it(tasks: DriverTasks):
    threads = [waiting(tasks, Result(endless=True), "g")[0] for _ in range(2)]
    assert wait_until(lambda: len(Contexts.made) == 2)
    assert tasks.run(Result(b"a"), None, "more") is None
    tasks.cancel("g")
    for thread in threads:
        thread.join(PATIENCE_S)
    assert wait_until(lambda: tasks.busy == 0)
    assert tasks.run(Result(b"a"), None, "more") == [b"a"]


def test_threads_end_when_they_have_nothing_to_do(tasks: DriverTasks):
    assert tasks.run(Result(), None, "g") == []
    thread, _ = waiting(tasks, Result(endless=True), "g")
    assert wait_until(lambda: len(Contexts.made) == 2)
    tasks.close()
    assert tasks.run(Result(b"a"), None, "more") is None
    tasks.cancel("g")
    thread.join(PATIENCE_S)
    assert wait_until(lambda: not alive())


def test_nothing_is_kept_of_a_result(tasks: DriverTasks):
    result = Result(b"a")
    kept = weakref.ref(result)
    assert tasks.run(result, None, "g") == [b"a"]
    del result

    def is_gone() -> bool:
        gc.collect()
        return kept() is None

    assert wait_until(is_gone)


def test_larger_results_are_left(tasks: DriverTasks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(driver_tasks, "MAX_BYTES", 2)
    assert tasks.run(Result(b"a", b"b"), None, "g") == [b"a", b"b"]
    with pytest.raises(TooLargeError):
        tasks.run(Result(b"a", b"b", b"c"), None, "g")
    assert tasks.run(Result(b"a"), None, "g") == [b"a"]
