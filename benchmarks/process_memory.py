"""Peak memory of the gateway and of its JVM, as Linux keeps it."""

from dataclasses import dataclass

from benchmarks.process_tree import PROC, descendants, program_name


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
    return Peaks(_peak_mb(process_id), sum(map(_peak_mb, _java_processes(process_id))))


def _peak_mb(process_id: int) -> float:
    for line in (PROC / str(process_id) / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def _java_processes(process_id: int) -> tuple[int, ...]:
    return tuple(child for child in descendants(process_id) if program_name(child) == "java")
