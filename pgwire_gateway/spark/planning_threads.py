"""Threads in which Spark plans queries, so that nobody has to wait for one that has no end.

The planner evaluates what it can: expressions over constants, and over the rows of the tail, which
it has at hand. Tasks stop where they look whether they are to; a regular expression that backtracks
looks nowhere. So whoever waits for a plan is sent away when the statement is cancelled. The thread
ends when what it evaluates does.
"""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from pgwire_gateway.spark.errors import QueryCanceledError

T = TypeVar("T")

_MOST_IDLE: Final = 8
"""So many threads are kept for the next calls."""


class PlanningThreads:
    """Runs calls of Spark, each in a thread that has nothing else to do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Thread] = []
        self._waited_for: dict[Future[Any], str] = {}
        self._busy: Counter[str] = Counter()
        self._closed = False

    def run(self, group: str, call: Callable[[], T]) -> T:
        """Return what a call returns, or raise what it raises.

        Args:
            group: The group of jobs it is part of.
            call: Enters this group, as it is the thread that counts; then plans.

        Raises:
            QueryCanceledError: 57014 when the group was cancelled meanwhile; the call goes on.
        """
        result: Future[T] = Future()
        with self._lock:
            self._waited_for[result] = group
            self._busy[group] += 1
            thread = self._idle.pop() if self._idle else None
        try:
            (thread or _Thread(self._release)).begin(group, call, result)
            return result.result()
        finally:
            with self._lock:
                del self._waited_for[result]

    @property
    def busy(self) -> int:
        """How many calls go on, also such that nobody waits for any more."""
        return self._busy.total()

    def goes_on(self, group: str) -> bool:
        """Return whether a call of a group goes on, also when nobody waits for it any more."""
        return group in self._busy

    def cancel(self, group: str) -> bool:
        """Let nobody wait any more for calls of a group; return whether somebody did."""
        with self._lock:
            given_up = [result for result, of in self._waited_for.items() if of == group]
        for result in given_up:
            with suppress(InvalidStateError):  # it is there
                result.set_exception(QueryCanceledError("canceling statement due to user request"))
        return bool(given_up)

    def close(self) -> None:
        """End the threads as soon as they have nothing to do."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for thread in idle:
            thread.end()

    def _release(self, thread: "_Thread", group: str) -> None:
        with self._lock:
            self._busy[group] -= 1
            if not self._busy[group]:
                del self._busy[group]
            if not self._closed and len(self._idle) < _MOST_IDLE:
                self._idle.append(thread)
                return
        thread.end()


class _Thread:
    """A thread that makes one call after another."""

    def __init__(self, release: Callable[["_Thread", str], None]) -> None:
        self._release = release
        self._given: SimpleQueue[tuple[str, Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        threading.Thread(target=self._run, name="planning", daemon=True).start()

    def begin(self, group: str, call: Callable[[], T], result: "Future[T]") -> None:
        """Begin with a call of a group."""
        self._given.put((group, call, result))

    def end(self) -> None:
        """Make no other call."""
        self._given.put(None)

    def _run(self) -> None:
        while self._next():
            pass

    def _next(self) -> bool:
        """Wait for a call and make it; nothing of it is kept here while the next is waited for."""
        given = self._given.get()
        if given is None:
            return False
        group, call, result = given
        found: Any = None
        failure: Exception | None = None
        try:
            found = call()
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            failure = error
        # Who waited may begin the next at once.
        self._release(self, group)
        with suppress(InvalidStateError):  # nobody waits any more
            if failure is None:
                result.set_result(found)
            else:
                result.set_exception(failure)
        return True
