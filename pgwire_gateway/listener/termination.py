"""Waiting for the signals that ask the process to end.

A signal meant for the process may be taken by any of its threads: one that is just being started
looks for signals too. Python notes it there and runs handlers in the main thread, which nothing
wakes up for it while it waits for a lock. What is written to a socket does (Python's documentation,
``signal.set_wakeup_fd``).
"""

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def termination() -> Iterator[Callable[[], None]]:
    """Take SIGTERM and SIGINT while the context lasts; for the main thread.

    Yields:
        Waits until one of them has come, also before it was called.
    """
    read, written = socket.socketpair()
    with read, written:
        written.setblocking(False)

        def wait() -> None:
            while read.recv(1)[0] not in SIGNALS:
                pass

        woken = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
        handlers = {number: signal.signal(number, _ignore) for number in SIGNALS}
        try:
            yield wait
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(woken)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Keep what is handled from ending the process."""
