"""One running statement: who runs it may be told by anyone to stop."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pgwire_gateway.spark.api import Driver
from pgwire_gateway.spark.errors import QueryCanceledError

USER_REQUEST = "canceling statement due to user request"

_AGAIN_S: Final = 0.05
_AGAIN_AT_LEAST_S: Final = 1.0
"""How long it takes, growing from the first to the second, until Spark is told again to stop."""


class RunningStatement:
    """One statement of a session, as seen by those who may cancel it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._message: str | None = None
        self._job: tuple[Driver, str] | None = None
        self._cancels_again = False
        self._others: list[Callable[[], None]] = []
        self.begun_s = time.monotonic()
        """When it has begun, or gone on, by the monotonic clock: time-outs count from then."""

    @property
    def job(self) -> tuple[Driver, str] | None:
        """The driver and the group of the jobs that run for it now; None for none."""
        with self._lock:
            return self._job

    @property
    def cancelled(self) -> bool:
        """Tell whether cancel() was called."""
        return self._message is not None

    def cancel(self, message: str = USER_REQUEST) -> None:
        """Cancel it, whether it has not started, runs, or is over; callable from any thread."""
        with self._lock:
            if self._message is None:
                self._message = message
            job = self._job
            others = list(self._others)
            begins = job is not None and not self._cancels_again
            self._cancels_again |= begins
        for other in others:
            other()
        if job is not None:
            driver, group = job
            with suppress(Exception):  # a driver that does not answer runs nothing
                driver.cancel(group)
                if begins:
                    threading.Thread(target=self._cancel_again, args=job, daemon=True).start()

    def _cancel_again(self, driver: Driver, group: str) -> None:
        """Cancel the jobs of a group until its work is over.

        Who cancels between two stages of an adaptive plan finds no job that runs, and Spark begins
        the next stage all the same, also in a group that it was told to begin no job in. What is
        computed without a job is not known either before it is about to begin.
        """
        pause_s = _AGAIN_S
        with suppress(Exception):  # a driver that does not answer runs nothing
            while True:
                time.sleep(pause_s)
                if self.job != (driver, group):
                    return
                driver.cancel(group)
                pause_s = min(2 * pause_s, _AGAIN_AT_LEAST_S)

    @contextmanager
    def stopping(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Have a cancellation stop something else, too, that works for the statement.

        Raises:
            QueryCanceledError: 57014 when it was cancelled already.
        """
        with self._lock:
            self.check()
            self._others.append(cancel)
        try:
            yield
        finally:
            with self._lock:
                self._others.remove(cancel)

    def check(self) -> None:
        """Raise QueryCanceledError (57014) when it was cancelled."""
        if self._message is not None:
            raise QueryCanceledError(self._message)

    def begin(self, driver: Driver) -> str:
        """Return a new job group; jobs started in it are cancelled with the statement.

        Raises:
            QueryCanceledError: 57014 when it was cancelled already.
        """
        group = uuid.uuid4().hex
        with self._lock:
            self.check()
            self._job = (driver, group)
        return group

    def fail(self) -> None:
        """Note that its work on Spark has failed: no job of it runs."""
        with self._lock:
            self._job = None

    def end(self, group: str) -> None:
        """Note that the work of a job group is over."""
        with self._lock:
            if self._job is not None and self._job[1] == group:
                self._job = None
