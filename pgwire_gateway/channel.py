"""One client's socket as messages: bytes in → frames, messages out → bytes. Knows no session."""

import socket
from collections import deque
from collections.abc import Sequence
from itertools import islice

from pgwire_gateway.flow_control import OutputBuffer
from pgwire_gateway.messages.base import BackendMessage, Frame, FrontendMessage
from pgwire_gateway.messages.errors import FramingError
from pgwire_gateway.messages.framing import FrontendFrameReader

READ_BYTES = 64 * 1024

SERIES_BYTES = 1 << 20
"""Length of a message from which on it is not waited for as a whole."""


class ClientConnection:
    """The two directions of one socket, as messages."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.encoding = "utf-8"
        """Python's name of the encoding of strings in messages."""
        self.frames = FrontendFrameReader()
        self._output = OutputBuffer(connection)
        self._received: deque[Frame[FrontendMessage]] = deque()
        # One for all time: a new one of this size costs more than what is read into it.
        self._buffer = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)

    def receive(self) -> Frame[FrontendMessage]:
        """Wait for the next message, undecoded.

        Raises:
            EOFError: The client hung up.
            FramingError: What it sent cannot be followed any further.
        """
        while not self._received:
            frame = self.frames.next_frame()
            if frame is not None:
                return frame
            self._read()
        return self._received.popleft()

    def received_up_to(
        self, last: type[FrontendMessage], before: frozenset[type[FrontendMessage]]
    ) -> Sequence[Frame[FrontendMessage]]:
        """Return the messages up to this one that have arrived; none when others come first.

        Waits for the rest of a message whose beginning is there.
        """
        received = self._received
        seen = 0
        while True:
            while seen < len(received):
                kind = received[seen].message_class
                seen += 1
                if kind is last:
                    return list(islice(received, seen))
                if kind not in before:
                    return ()
            try:
                frame = self.frames.next_frame()
            except FramingError:
                return ()  # raised again when it is received
            if frame is not None:
                received.append(frame)
            elif 0 < self.frames.buffered_bytes < SERIES_BYTES:
                self._read()
            else:
                return ()

    def skip(self, count: int) -> None:
        """Take messages that have arrived as received."""
        for _ in range(count):
            self._received.popleft()

    def _read(self) -> None:
        size = self.socket.recv_into(self._buffer)
        if not size:
            raise EOFError
        self.frames.feed(self._view[:size])

    def next_received(self) -> type[FrontendMessage] | None:
        """Return the class of the message that has already arrived, without waiting."""
        if not self._received:
            try:
                frame = self.frames.next_frame()
            except FramingError:
                return None  # raised again when it is received
            if frame is None:
                return None
            self._received.append(frame)
        return self._received[0].message_class

    def send(self, *messages: BackendMessage) -> None:
        """Append messages to the output."""
        for message in messages:
            self._output.write(message.encode(self.encoding))

    def send_encoded(self, data: bytes | memoryview) -> None:
        """Append messages that are encoded already."""
        self._output.write(data)

    def flush(self) -> None:
        """Send all output."""
        self._output.flush()
