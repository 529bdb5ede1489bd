"""Threads that compute results: who waits for them is told to stop at any moment."""

import gc
import sys
import threading
import weakref
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO, ClassVar

import pyarrow as pa
import pytest

from pgwire_gateway.spark import batch_stores
from pgwire_gateway.spark.internals import driver_tasks
from pgwire_gateway.spark.internals.driver_tasks import DriverTasks, StoppedError
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

    def packed(self) -> Generator[pa.RecordBatch]:
        """Yield them."""
        if self._context is not None:
            assert self._context.interrupted.wait(PATIENCE_S)
        for value in self._left:
            yield pa.record_batch({"v": [value]})


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


def run(tasks: DriverTasks, result: Result, group: str) -> list[bytes] | None:
    """Return the values of a result."""
    found = tasks.run(result, Batches.packed, None, group)
    return None if found is None else [batch["v"][0].as_py() for batch in found]


others: set[threading.Thread] = set()
"""Threads that were there before."""


def alive() -> list[str]:
    """Return the threads that compute results."""
    own = set(threading.enumerate()) - others
    return [thread.name for thread in own if thread.name == "driver task"]


def waiting(tasks: DriverTasks, result: Result, group: str) -> tuple[threading.Thread, list]:
    """Begin to wait for a result; return who waits, and what comes of it."""
    outcomes: list[object] = []

    def wait() -> None:
        try:
            outcomes.append(run(tasks, result, group))
        except StoppedError:
            outcomes.append("stopped")

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, outcomes


def test_batches_come_in_order(tasks: DriverTasks):
    for _ in range(3):
        assert run(tasks, Result(b"a", b"b"), "g") == [b"a", b"b"]
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
    assert run(tasks, Result(b"a"), "more") is None
    tasks.cancel("g")
    for thread in threads:
        thread.join(PATIENCE_S)
    assert wait_until(lambda: tasks.busy == 0)
    assert run(tasks, Result(b"a"), "more") == [b"a"]


def test_threads_end_when_they_have_nothing_to_do(tasks: DriverTasks):
    assert run(tasks, Result(), "g") == []
    thread, _ = waiting(tasks, Result(endless=True), "g")
    assert wait_until(lambda: len(Contexts.made) == 2)
    tasks.close()
    assert run(tasks, Result(b"a"), "more") is None
    tasks.cancel("g")
    thread.join(PATIENCE_S)
    assert wait_until(lambda: not alive())


def test_nothing_is_kept_of_a_result(tasks: DriverTasks):
    result = Result(b"a")
    kept = weakref.ref(result)
    assert run(tasks, result, "g") == [b"a"]
    del result

    def is_gone() -> bool:
        gc.collect()
        return kept() is None

    assert wait_until(is_gone)


class Endless:
    """A result whose batches have no end; it tells how many have been made."""

    made = 0

    def getNumPartitions(self) -> int:  # noqa: N802 - Spark's name
        return 1

    def toDebugString(self) -> str:  # noqa: N802 - Spark's name
        return "(1) Endless"

    def partitions(self) -> list[None]:
        return [None]

    def iterator(self, *_: object) -> "Endless":
        return self

    def packed(self) -> Generator[pa.RecordBatch]:
        while True:
            self.made += 1
            yield pa.record_batch({"v": [b"a" * 1000]})


def test_larger_results_are_in_a_file(tasks: DriverTasks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch_stores, "MOST_BYTES", 40)
    expected = [bytes([number]) * 30 for number in range(9)]
    found = tasks.run(Result(*expected), Batches.packed, None, "g")
    assert found is not None
    assert found.is_filed
    assert [batch["v"][0].as_py() for batch in found] == expected
    assert run(tasks, Result(b"a"), "g") == [b"a"]


def test_a_task_ends_between_two_batches(tasks: DriverTasks):
    result, told = Endless(), []

    def wait() -> None:
        with pytest.raises(StoppedError):
            tasks.run(result, Endless.packed, None, "g")
        told.append("stopped")

    thread = threading.Thread(target=wait)
    thread.start()
    assert wait_until(lambda: result.made > 3)
    tasks.cancel("g")
    thread.join(PATIENCE_S)
    assert told == ["stopped"]
    assert wait_until(lambda: tasks.busy == 0)


class Broken(Result):
    """A result whose last rows cannot be computed."""

    def packed(self) -> Generator[pa.RecordBatch]:
        yield pa.record_batch({"v": [b"a" * 1000]})
        raise ZeroDivisionError

    def iterator(self, *_: object) -> "Broken":  # type: ignore[override]
        return self


def test_the_file_of_a_result_that_fails_is_given_up_at_once(
    tasks: DriverTasks, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(batch_stores, "MOST_BYTES", 40)
    made: list[IO[bytes]] = []

    def noted() -> IO[bytes]:
        made.append(TemporaryFile())  # noqa: SIM115 - closed by its writers
        return made[-1]

    monkeypatch.setattr(batch_stores, "TemporaryFile", noted)
    with pytest.raises(ZeroDivisionError):
        tasks.run(Broken(), Broken.packed, None, "g")
    assert [file.closed for file in made] == [True]
