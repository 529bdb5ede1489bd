"""Whether the JVM's rules of a time zone are those of PostgreSQL, and when they are not.

Each has a time zone database of its own, of another version. PostgreSQL's is read from its files,
as the encoder reads it; the JVM is asked once for each zone.
"""

import re
import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import numpy as np
from py4j.protocol import Py4JError, Py4JJavaError

from catalog.errors import GatewayError
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.errors import translate
from pgwire_gateway.wire_types import time_zones
from pgwire_gateway.wire_types.posix_zones import seconds_of_year
from rewrite.context import ALWAYS

_LAST_YEAR: Final = 2130
"""No zone has changes of its own beyond 2100."""
_RULE_YEARS: Final = 28
"""As many years without a century's end have all lengths and first days of the week."""
_MICROSECONDS: Final = 1_000_000
"""In a second."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - local times are read from text
_ENDLESS: Final = 2**62
_MARGIN: Final = 3 * 86_400
"""Local times this far from an instant are read by its rules."""
_TRANSITION: Final = re.compile(
    r"Transition\[(?:Gap|Overlap) at ([0-9T:-]{16,19}?)(Z|[+-][0-9:]+) to (Z|[+-][0-9:]+)\]"
)


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
        jvm = self._engine.driver.jvm
        try:
            rules = jvm.java.time.ZoneId.of(name).getRules()
        except Py4JJavaError:
            return ALWAYS
        except Py4JError as error:
            raise translate(error) from error
        try:
            steps = [(-_ENDLESS, _first_offset(jvm, rules)), *_steps(rules)]
        except Py4JError as error:
            raise translate(error) from error
        return _difference(postgresql, steps)


def _first_offset(jvm: Any, rules: Any) -> int:
    return int(rules.getOffset(jvm.java.time.Instant.MIN).getTotalSeconds())


def _steps(rules: Any) -> Iterator[tuple[int, int]]:
    """Yield the instants at which the JVM's clocks change, and the offset from then on."""
    last = 0
    for instant, offset in _read(rules.getTransitions().toString()):
        last = instant
        yield instant, offset
    repeated = rules.getTransitionRules()
    count = repeated.size()
    first_year = (_EPOCH.year + last // 31_557_600) - 1
    texts = [
        repeated.get(index).createTransition(year).toString()
        for year in range(first_year, _LAST_YEAR + 1)
        for index in range(count)
    ]
    yield from sorted(step for text in texts for step in _read(text) if step[0] > last)


def _read(text: str) -> Iterator[tuple[int, int]]:
    for local, before, after in _TRANSITION.findall(text):
        clock = (datetime.fromisoformat(local) - _EPOCH).total_seconds()
        yield int(clock) - _seconds(before), _seconds(after)


def _seconds(offset: str) -> int:
    """Return the seconds of an offset as Java prints it.

    >>> _seconds("Z"), _seconds("+05:30"), _seconds("-00:01:15")
    (0, 19800, -75)
    """
    if offset == "Z":
        return 0
    hours, minutes, *rest = (int(part) for part in offset[1:].split(":"))
    size = hours * 3600 + minutes * 60 + sum(rest)
    return -size if offset.startswith("-") else size


def _difference(
    postgresql: time_zones.TimeZone, steps: list[tuple[int, int]]
) -> tuple[int, int] | None:
    end = seconds_of_year(_LAST_YEAR + 1)
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
    if after < len(times) and times[after] < seconds_of_year(_LAST_YEAR - _RULE_YEARS):
        last = (int(times[after]) + _MARGIN) * _MICROSECONDS
    return max(first * _MICROSECONDS, ALWAYS[0]), last
