"""Output that never grows: gathered into large writes, it blocks the thread of a slow reader.

Knows a socket and bytes, nothing of messages.
"""

import select
import socket
import time
from typing import Final

from catalog.connection import sockets

WRITE_BYTES = 128 * 1024
"""Gathered output that is sent without waiting for a flush."""

AT_ONCE_BYTES = 16 * 1024
"""Output that is sent without waiting where the client reads, and without letting others run."""

LAST_WORDS_S: Final = 1.0
"""How long a session that is to end waits for its client to read."""

_LOOK_MS: Final = 250
"""How often who waits for a client to read looks whether the session is to end."""


class OutputBuffer:
    """Bytes on their way to one client.

    Sending blocks while the client does not read: that is the flow control of a server with one
    thread per connection; at most ``WRITE_BYTES`` and one run of rows wait in memory.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._parts: list[bytes | memoryview] = []
        self._size = 0
        self._ends_s: float | None = None
        """When nobody waits for the client any more, by the monotonic clock."""

    def end_soon(self) -> None:
        """Have whoever sends give up a client that does not read; callable from any thread."""
        if self._ends_s is None:
            self._ends_s = time.monotonic() + LAST_WORDS_S

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes, sending all that has gathered once it is large."""
        self._parts.append(data)
        self._size += len(data)
        if self._size >= WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send everything; raises OSError when the client is gone, or not worth waiting for."""
        if not self._parts:
            return
        parts, size = self._parts, self._size
        self._parts, self._size = [], 0
        if size <= AT_ONCE_BYTES:
            data = b"".join(parts)
            sent = sockets.send(self._socket.fileno(), data)
            if sent < size:
                self._send(data[sent:])
        elif len(parts) == 1:
            self._send(parts[0])
        elif max(len(part) for part in parts) < WRITE_BYTES:
            self._send(b"".join(parts))
        else:
            for part in parts:
                self._send(part)

    def _send(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                self._await_reader()

    def _await_reader(self) -> None:
        """Wait until something can be sent.

        Raises:
            ConnectionAbortedError: The session is to end, and the client had its time.
        """
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        while True:
            if self._ends_s is not None and time.monotonic() >= self._ends_s:
                raise ConnectionAbortedError("the client does not read")
            if poll.poll(_LOOK_MS):
                return
