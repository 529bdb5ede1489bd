"""The jobs of PySpark by groups, and what cancels them.

A group is cancelled by telling Spark to end its running jobs. What the public interface lacks is to
begin no others in it: whoever is about to begin one asks.
"""

import threading
from typing import Final

from pyspark import SparkContext

from pgwire_gateway.spark.errors import QueryCanceledError

_MOST_CANCELLED: Final = 10_000
"""So many groups are known to be cancelled; no work begins in one that was long ago."""


class Groups:
    """The groups of one Spark context."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._entered = threading.local()
        self._cancelled: dict[str, None] = {}

    def enter(self, group: str) -> None:
        """Make this thread's jobs those of a group."""
        self._context.setJobGroup(group, "statement")
        self._entered.group = group

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
        self._context.cancelJobGroup(group)
