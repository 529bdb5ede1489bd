"""What a server that was killed leaves behind: its pid file, and processes that work on.

Works on what the operating system tells in ``/proc``; where there is none, nothing is found, and
PostgreSQL's own precautions remain.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")

_PROGRAM: Final = "postgres"

_GRACE_S: Final = 1.0
"""How long processes may go on with what they are doing."""

_QUICK_S: Final = 3.0
"""After what time they are killed."""

_PID_LINE, _STATUS_LINE = 0, 7
"""Lines of ``postmaster.pid``."""


def status(pid_file: Path, process_id: int) -> str:
    """Return what a server of this number says of itself; empty while it says nothing."""
    with suppress(OSError):
        lines = pid_file.read_text().splitlines()
        if len(lines) > _STATUS_LINE and lines[_PID_LINE].strip() == str(process_id):
            return lines[_STATUS_LINE].strip()
    return ""


def is_stale(pid_file: Path) -> bool:
    """Return whether the server that a pid file names is known to have ended."""
    try:
        process_id = int(pid_file.read_text().splitlines()[_PID_LINE])
        return (_PROC / "self").exists() and not _works_in(process_id, pid_file.parent)
    except (OSError, ValueError, IndexError):
        return False


def end(data: Path, waited_s: float) -> None:
    """End the processes of a server whose postmaster has been killed, after some time.

    They are asked first: they tell their clients that the server has crashed.
    """
    if waited_s < _GRACE_S:
        return
    number = signal.SIGQUIT if waited_s < _QUICK_S else signal.SIGKILL
    for process_id in _working_in(data):
        with suppress(ProcessLookupError):
            os.kill(process_id, number)


def _working_in(data: Path) -> Iterator[int]:
    """Return the server processes of a data directory, as far as one may know."""
    for entry in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            if _works_in(int(entry.name), data):
                yield int(entry.name)


def _works_in(process_id: int, data: Path) -> bool:
    """Return whether a process is one of the server whose data directory this is.

    Raises:
        PermissionError: One may not know.
    """
    process = _PROC / str(process_id)
    try:
        # The program may have been replaced since: its link then says so after its name.
        program = (process / "exe").readlink().name.removesuffix(" (deleted)")
        return program == _PROGRAM and (process / "cwd").readlink() == data
    except FileNotFoundError:
        return False
