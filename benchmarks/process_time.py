"""Processor time of servers, which a busy machine distorts far less than elapsed time."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.process_tree import descendants, program_name, stat_fields

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Seconds of processor time by part of a server."""

    parts: Mapping[str, float]

    @classmethod
    def of(cls, process_id: int) -> "ProcessorTime":
        """Return what a process and those below it have used so far."""
        parts: dict[str, float] = {}
        for process in (process_id, *descendants(process_id)):
            part = _PARTS.get(program_name(process), "other")
            parts[part] = parts.get(part, 0.0) + _seconds(process)
        return cls(parts)

    def since(self, earlier: "ProcessorTime") -> "ProcessorTime":
        """Return what was used after an earlier measurement."""
        used = {part: value - earlier.parts.get(part, 0.0) for part, value in self.parts.items()}
        return ProcessorTime(used)

    def per(self, count: float) -> str:
        """Tell what one of so many operations used, in milliseconds."""
        used = {part: 1000 * value / count for part, value in self.parts.items()}
        shown = [f"{part} {value:.1f}" for part, value in used.items() if value >= 0.05]
        return f"{sum(used.values()):.1f} ms" + (f" ({', '.join(shown)})" if shown[1:] else "")


_PARTS = {"python": "Python", "python3": "Python", "java": "JVM", "postgres": "PostgreSQL"}


def _seconds(process_id: int) -> float:
    """Return the time of a process and of its ended children."""
    return sum(map(int, stat_fields(process_id)[11:15])) / _TICKS_PER_S
