"""Which keys of tiered tables are expected to be hot.

A statement that is tried in one trip, in the hope that its rows are hot, costs a cold row a trip in
vain; one that is not costs a hot row the trips that were not needed. Nothing rests on the guess.
"""

import threading
from collections.abc import Iterable
from typing import Final, TypeAlias

MOST_KEYS: Final = 100_000
"""Keys that are remembered, of all tables; then all are forgotten."""

Key: TypeAlias = tuple[str, ...]
"""PostgreSQL's text of each column of a key."""


class ExpectedKeys:
    """What was found of keys when they were written last, and of the latest new one of a table."""

    def __init__(self) -> None:
        """Expect the first key of each table to be cold."""
        self._hot: set[tuple[int, Key]] = set()
        self._new_are_hot: dict[int, bool] = {}
        self._lock = threading.Lock()

    def are_hot(self, relid: int, keys: Iterable[Key]) -> bool:
        """Return whether keys of a table are probably all hot."""
        if self._new_are_hot.get(relid, False):
            return True
        return all((relid, key) in self._hot for key in keys)

    def note(self, relid: int, keys: Iterable[Key], *, were_hot: bool) -> None:
        """Note that keys are hot, and whether they were before they were asked for."""
        with self._lock:
            if len(self._hot) > MOST_KEYS:
                self._hot.clear()
            known = len(self._hot)
            self._hot.update((relid, key) for key in keys)
            if len(self._hot) > known:
                self._new_are_hot[relid] = were_hot

    def forget(self, relid: int, keys: Iterable[Key]) -> None:
        """Note that some of these keys were found not to be hot."""
        with self._lock:
            self._hot.difference_update((relid, key) for key in keys)
            self._new_are_hot[relid] = False
