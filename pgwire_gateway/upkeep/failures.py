"""Upkeep that has failed: what says only that others were there, and what leaves a table alone."""

import time
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Final

from catalog.bookkeeping import calls as bookkeeping
from catalog.pg import sqlstate

PASSING: Final = frozenset(
    {
        sqlstate.LOCK_NOT_AVAILABLE,
        sqlstate.SERIALIZATION_FAILURE,
        sqlstate.DEADLOCK_DETECTED,
        sqlstate.UNDEFINED_TABLE,
        sqlstate.QUERY_CANCELED,
        bookkeeping.OUTDATED,
    }
)
"""Failures that say only that somebody else was there; the next visit tries again."""

OVERTAKEN: Final = frozenset({sqlstate.SERIALIZATION_FAILURE, sqlstate.LOCK_NOT_AVAILABLE})
"""What a compaction meets where others have swapped segments, or write the table as a whole."""

UNSTORABLE: Final = frozenset({sqlstate.FEATURE_NOT_SUPPORTED, "22003", "22008"})
"""What reading a tail meets whose values files cannot hold: infinite dates and the like."""

PAUSE_S: Final = 5.0
"""How long a table is left alone whose upkeep has failed; twice as long when it fails again."""

LONGEST_PAUSE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class _Failure:
    """Upkeep of a table that has failed, for reasons that may be there no more."""

    state: Hashable
    """What the table was like then."""
    count: int
    """How often it has failed since it was like that."""
    until_s: float
    """When it is tried again though nothing has changed, by the monotonic clock."""


class Failures:
    """Tables whose upkeep failed when it was tried last."""

    def __init__(self) -> None:
        """None has failed yet."""
        self._failures: dict[int, _Failure] = {}

    def keep_away(self, relid: int, state: Hashable = None) -> bool:
        """Return whether upkeep of a table in this state is not to be tried again yet."""
        failure = self._failures.get(relid)
        if failure is None or failure.state != state:
            return False
        return time.monotonic() < failure.until_s

    def note(self, relid: int, state: Hashable = None) -> None:
        """Leave a table alone for some time: what has failed may cost much."""
        last = self._failures.get(relid)
        count = last.count + 1 if last is not None and last.state == state else 1
        pause_s = min(PAUSE_S * 2 ** min(count - 1, 16), LONGEST_PAUSE_S)
        self._failures[relid] = _Failure(state, count, time.monotonic() + pause_s)

    def retain(self, relids: Collection[int]) -> None:
        """Forget all tables but these, which have been mended otherwise."""
        for relid in self._failures.keys() - set(relids):
            self._failures.pop(relid, None)

    def forget(self, relid: int) -> None:
        """Note that upkeep of a table has done what it was to do."""
        self._failures.pop(relid, None)
