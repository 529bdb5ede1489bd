"""Peak memory of a process and of its children, as Linux keeps it."""

from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Peaks:
    """Largest resident sizes since they were last reset."""

    gateway_mb: float
    """The gateway's own Python process."""
    jvm_mb: float
    """The Java process it started."""


def reset_peaks(process_id: int) -> None:
    """Start new peaks at what is resident now."""
    for process in (process_id, *_java_processes(process_id)):
        (PROC / str(process) / "clear_refs").write_text("5")


def peaks(process_id: int) -> Peaks:
    """Return the peaks of the gateway with this process id."""
    java = sum(_peak_mb(process) for process in _java_processes(process_id))
    return Peaks(_peak_mb(process_id), java)


def _peak_mb(process_id: int) -> float:
    for line in (PROC / str(process_id) / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1000 * 1.024
    return 0.0


def _java_processes(process_id: int) -> tuple[int, ...]:
    children = _children()
    found, pending = [], [process_id]
    while pending:
        for child in children.get(pending.pop(), ()):
            pending.append(child)
            if (PROC / str(child) / "comm").read_text().strip() == "java":
                found.append(child)
    return tuple(found)


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for status in PROC.glob("[0-9]*/stat"):
        try:
            text = status.read_text()
        except OSError:
            continue  # ended meanwhile
        parent = int(text.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(status.parent.name))
    return children
