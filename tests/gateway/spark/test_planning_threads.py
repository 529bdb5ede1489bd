"""Plans are made in threads of their own: nobody waits for one that is not wanted any more."""

import threading
from collections.abc import Iterator

import pytest

from pgwire_gateway.spark.errors import QueryCanceledError
from pgwire_gateway.spark.planning_threads import PlanningThreads
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.fixture
def threads() -> Iterator[PlanningThreads]:
    threads = PlanningThreads()
    yield threads
    threads.close()
    assert wait_until(lambda: not alive())


others: set[threading.Thread] = set()
"""Threads that were there before."""


@pytest.fixture(autouse=True)
def _others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "others", set(threading.enumerate()))


def alive() -> list[str]:
    """Return the threads that plan."""
    own = set(threading.enumerate()) - others
    return [thread.name for thread in own if thread.name == "planning"]


def test_what_is_planned_is_returned_or_raised(threads: PlanningThreads):
    assert threads.run("g", lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        threads.run("g", lambda: 1 // 0)
    assert threads.run("h", threading.get_ident) != threading.get_ident()
    assert wait_until(lambda: threads.busy == 0)
    assert len(alive()) == 1


def test_who_waits_is_sent_away(threads: PlanningThreads):
    begun, may_end = threading.Event(), threading.Event()
    caught: list[Exception] = []

    def endless() -> None:
        begun.set()
        assert may_end.wait(PATIENCE_S)

    def wait() -> None:
        try:
            threads.run("g", endless)
        except QueryCanceledError as error:
            caught.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(PATIENCE_S)
    threads.cancel("of another one")
    assert waiting.is_alive()
    threads.cancel("g")
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
    assert [str(error) for error in caught] == ["canceling statement due to user request"]
    # What nobody waits for goes on, and keeps nobody from planning.
    assert threads.busy == 1
    assert threads.run("g", lambda: 2) == 2
    may_end.set()
    assert wait_until(lambda: threads.busy == 0)


def test_threads_are_no_more_than_are_needed(threads: PlanningThreads):
    may_end = threading.Event()
    waiting = [
        threading.Thread(target=threads.run, args=("g", lambda: may_end.wait(PATIENCE_S)))
        for _ in range(12)
    ]
    for thread in waiting:
        thread.start()
    assert wait_until(lambda: threads.busy == 12)
    may_end.set()
    for thread in waiting:
        thread.join(PATIENCE_S)
    assert wait_until(lambda: len(alive()) == 8)
