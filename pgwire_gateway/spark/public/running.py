"""The jobs of PySpark by groups, and what cancels them.

A group is cancelled by telling Spark to end its running jobs. What the public interface lacks is to
begin no others in it: whoever is about to begin one asks.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from pyspark import SparkContext

from pgwire_gateway.spark.errors import QueryCanceledError
from pgwire_gateway.spark.planning_threads import PlanningThreads

T = TypeVar("T")

_POOL: Final = "spark.scheduler.pool"
_AGAIN_S: Final = 0.5
_MOST_CANCELLED: Final = 10_000
"""So many groups are known to be cancelled; no work begins in one that was long ago."""


class Groups:
    """The groups of one Spark context."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._entered = threading.local()
        self._cancelled: dict[str, None] = {}
        self.planning = PlanningThreads()

    def enter(self, group: str, pool: str) -> None:
        """Make this thread's jobs those of a group, in one of the scheduler's pools."""
        self._context.setLocalProperty(_POOL, pool)
        self._context.setJobGroup(group, "statement")
        self._entered.group, self._entered.pool = group, pool

    def planned(self, plan: Callable[[], T]) -> T:
        """Return what is planned, and perhaps computed, as the work of this thread.

        Raises:
            QueryCanceledError: 57014 when its group is cancelled, whether Spark stops or not.
        """
        self.check()
        group: str | None = getattr(self._entered, "group", None)
        if group is None:
            return plan()
        pool: str = self._entered.pool

        def part_of_it() -> T:
            self.enter(group, pool)
            return plan()

        return self.planning.run(group, part_of_it)

    def check(self) -> None:
        """Make sure that this thread may start jobs.

        Raises:
            QueryCanceledError: 57014 when its group has been cancelled.
        """
        group: str | None = getattr(self._entered, "group", None)
        with self._lock:
            if group in self._cancelled:
                raise QueryCanceledError("canceling statement due to user request")

    def cancel(self, group: str) -> None:
        """End the jobs of a group, and let it have no others."""
        with self._lock:
            self._cancelled[group] = None
            while len(self._cancelled) > _MOST_CANCELLED:
                del self._cancelled[next(iter(self._cancelled))]
        goes_on = self.planning.cancel(group)
        self._context.cancelJobGroup(group)
        if goes_on:
            threading.Thread(target=self._cancel_again, args=[group], daemon=True).start()

    def _cancel_again(self, group: str) -> None:
        """Cancel the jobs that a call begins which nobody waits for, until it is over.

        Spark plans first, and begins jobs then, also in a group whose jobs were cancelled.
        """
        with suppress(Exception):  # a driver that does not answer runs nothing
            while self.planning.goes_on(group):
                time.sleep(_AGAIN_S)
                self._context.cancelJobGroup(group)
