"""Whether the JVM's rules of a time zone are those of PostgreSQL, and when they are not.

Each has a time zone database of its own, of another version. PostgreSQL's is read from its files,
as the encoder reads it; the JVM is asked once for each zone.
"""

import threading
from collections.abc import Sequence
from typing import Final

import numpy as np

from catalog.errors import GatewayError
from pgwire_gateway.spark.api import LAST_YEAR
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.errors import translate
from pgwire_gateway.wire_types import time_zones
from pgwire_gateway.wire_types.posix_zones import seconds_of_year
from rewrite.context import ALWAYS

_RULE_YEARS: Final = 28
"""As many years without a century's end have all lengths and first days of the week."""
_MICROSECONDS: Final = 1_000_000
"""In a second."""
_MARGIN: Final = 3 * 86_400
"""Local times this far from an instant are read by its rules."""


class ZoneRules:
    """Compares the rules of zones, and remembers the outcome."""

    def __init__(self, engine: SparkEngine, directory: str | None) -> None:
        self._engine = engine
        self._directory = directory
        self._known: dict[str, tuple[int, int] | None] = {}
        self._lock = threading.Lock()

    def is_missing(self, name: str) -> bool:
        """Tell whether PostgreSQL surely knows no zone of this name."""
        return self._directory is not None and time_zones.is_missing(name, self._directory)

    def difference(self, name: str) -> tuple[int, int] | None:
        """Return the microseconds from 1970 from which on and up to which clocks may differ.

        Raises:
            SparkLostError: 57P02 when the JVM ends just now.
        """
        with self._lock:
            if name not in self._known:
                self._known[name] = self._compared(name)
            return self._known[name]

    def _compared(self, name: str) -> tuple[int, int] | None:
        try:
            postgresql = time_zones.load(name, self._directory)
        except GatewayError:
            return ALWAYS
        driver = self._engine.driver
        try:
            steps = driver.zone_steps(name)
        except Exception as error:
            raise translate(error, driver.told(error)) from error
        if steps is None:
            return ALWAYS
        return _difference(postgresql, steps)


def _difference(
    postgresql: time_zones.TimeZone, steps: Sequence[tuple[int, int]]
) -> tuple[int, int] | None:
    end = seconds_of_year(LAST_YEAR + 1)
    starts = np.array([instant for instant, _ in steps], np.int64)
    offsets = np.array([offset for _, offset in steps], np.int64)
    own = postgresql.transitions[postgresql.transitions < end]
    times = np.unique(np.concatenate([starts[starts < end], own]))
    jvm = offsets[np.searchsorted(starts, times, side="right") - 1]
    unequal = np.flatnonzero(postgresql.offsets[postgresql.kinds_at(times)] != jvm)
    if not len(unequal):
        return None
    first, last = int(times[unequal[0]]) - _MARGIN, ALWAYS[1]
    after = unequal[-1] + 1
    # Rules that differ in one of the last years differ in years to come.
    if after < len(times) and times[after] < seconds_of_year(LAST_YEAR - _RULE_YEARS):
        last = (int(times[after]) + _MARGIN) * _MICROSECONDS
    return max(first * _MICROSECONDS, ALWAYS[0]), last
