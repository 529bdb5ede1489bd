"""The jobs of PySpark by groups, and what cancels them.

A group is cancelled by telling Spark to end its running jobs. What the public interface lacks is to
end those that it starts later, as each stage of an adaptive plan may be: Spark is told again until
the work of the group is over.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark import SparkContext

from pgwire_gateway.spark.errors import QueryCanceledError

_AGAIN_S: Final = 0.05
_MOST_CANCELLED: Final = 10_000
"""So many groups are known to be cancelled; no work begins in one that was long ago."""


class Groups:
    """The groups of one Spark context."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._entered = threading.local()
        self._working: Counter[str] = Counter()
        self._cancelled: dict[str, None] = {}

    def enter(self, group: str) -> None:
        """Make this thread's jobs those of a group."""
        self._context.setJobGroup(group, "statement")
        self._entered.group = group

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let a cancellation end the jobs that this thread starts while the context lasts.

        Raises:
            QueryCanceledError: 57014 when its group has been cancelled.
        """
        group: str | None = getattr(self._entered, "group", None)
        if group is None:
            yield
            return
        with self._lock:
            if group in self._cancelled:
                raise QueryCanceledError("canceling statement due to user request")
            self._working[group] += 1
        try:
            yield
        finally:
            with self._lock:
                self._working[group] -= 1
                if not self._working[group]:
                    del self._working[group]

    def cancel(self, group: str) -> None:
        """End the jobs of a group, and let it have no others."""
        with self._lock:
            self._cancelled[group] = None
            while len(self._cancelled) > _MOST_CANCELLED:
                del self._cancelled[next(iter(self._cancelled))]
            works = group in self._working
        self._context.cancelJobGroup(group)
        if works:
            threading.Thread(target=self._cancel_again, args=(group,), daemon=True).start()

    def _cancel_again(self, group: str) -> None:
        over = threading.Event()
        while not over.wait(_AGAIN_S):
            with self._lock:
                if group not in self._working:
                    return
            try:
                self._context.cancelJobGroup(group)
            except Exception:  # noqa: BLE001 - a driver that does not answer runs nothing
                return
