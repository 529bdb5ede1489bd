"""Output that never grows: gathered into large writes, it blocks the thread of a slow reader.

Knows a socket and bytes, nothing of messages.
"""

import socket

from catalog.connection import sockets

WRITE_BYTES = 128 * 1024
"""Gathered output that is sent without waiting for a flush."""

AT_ONCE_BYTES = 16 * 1024
"""Output that is sent without waiting where the client reads, and without letting others run."""


class OutputBuffer:
    """Bytes on their way to one client.

    Sending blocks while the client does not read: that is the flow control of a server with one
    thread per connection; at most ``WRITE_BYTES`` and one run of rows wait in memory.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._parts: list[bytes | memoryview] = []
        self._size = 0

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes, sending all that has gathered once it is large."""
        self._parts.append(data)
        self._size += len(data)
        if self._size >= WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send everything; raises OSError when the client is gone."""
        if not self._parts:
            return
        parts, size = self._parts, self._size
        self._parts, self._size = [], 0
        if size <= AT_ONCE_BYTES:
            data = b"".join(parts)
            sent = sockets.send(self._socket.fileno(), data)
            if sent < size:
                self._socket.sendall(data[sent:])
        elif len(parts) == 1:
            self._socket.sendall(parts[0])
        elif max(len(part) for part in parts) < WRITE_BYTES:
            self._socket.sendall(b"".join(parts))
        else:
            for part in parts:
                self._socket.sendall(part)
