"""The JVM's rules of time zones."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from py4j.protocol import Py4JJavaError

from pgwire_gateway.spark.api import LAST_YEAR
from pgwire_gateway.spark.internals.machine import Machine

_ENDLESS: Final = 2**62
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - local times are read from text
_TRANSITION: Final = re.compile(
    r"Transition\[(?:Gap|Overlap) at ([0-9T:-]{16,19}?)(Z|[+-][0-9:]+) to (Z|[+-][0-9:]+)\]"
)


def steps(machine: Machine, name: str) -> list[tuple[int, int]] | None:
    """Return when clocks change; see `pgwire_gateway.spark.api.Driver.zone_steps`."""
    jvm = machine.jvm
    try:
        rules = jvm.java.time.ZoneId.of(name).getRules()
    except Py4JJavaError:
        return None
    first = int(rules.getOffset(jvm.java.time.Instant.MIN).getTotalSeconds())
    return [(-_ENDLESS, first), *_steps(rules)]


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
        for year in range(first_year, LAST_YEAR + 1)
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
