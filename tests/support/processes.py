"""The processes of the operating system, as far as tests look at them."""

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")


def processes_naming(text: str) -> list[str]:
    """Return number and command line of the running processes that name something."""
    found = []
    for number in _numbers():
        with contextlib.suppress(OSError):
            line = title(number)
            if text in line and number != os.getpid() and _state(number) != "Z":
                found.append(f"{number} {line[:200]}")
    return found


def title(process_id: int) -> str:
    """Return a process's command line, or what its program says there; nothing when it has gone."""
    try:
        words = (PROC / str(process_id) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode("utf-8", "replace").strip()


def program(process_id: int) -> str:
    """Return the name of the program that a process runs; nothing where it has gone."""
    return Path(title(process_id).partition(" ")[0].rstrip(":")).name


def descendants(process_id: int) -> set[int]:
    """Return the numbers of all processes below a process."""
    parents = {}
    for number in _numbers():
        with contextlib.suppress(OSError):
            parents[number] = int(_status(number)[1])
    found = {process_id}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process_id}


def still_running(process_ids: Iterable[int]) -> list[int]:
    """Return those of the processes that have not ended."""
    alive = []
    for number in process_ids:
        with contextlib.suppress(OSError):
            if _state(number) != "Z":
                alive.append(number)
    return alive


def kill_all(process_ids: Iterable[int]) -> None:
    """Kill processes that may have ended already."""
    for number in process_ids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def _numbers() -> list[int]:
    return [int(entry.name) for entry in PROC.glob("[0-9]*")]


def _status(number: int) -> list[str]:
    # The name of the program, in parentheses before these fields, may hold anything.
    return (PROC / str(number) / "stat").read_text().rpartition(")")[2].split()


def _state(number: int) -> str:
    return _status(number)[0]
