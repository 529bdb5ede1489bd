"""One client's socket as messages: bytes in → frames, messages out → bytes. Knows no session."""

import socket
from collections import deque
from contextlib import suppress

from pgwire_gateway.listener.encryption import Encryption, Tunnel
from pgwire_gateway.listener.flow_control import OutputBuffer
from pgwire_gateway.messages.base import BackendMessage, Frame, FrontendMessage
from pgwire_gateway.messages.errors import FramingError
from pgwire_gateway.messages.framing import FrontendFrameReader

READ_BYTES = 64 * 1024


class ClientConnection:
    """The two directions of one socket, as messages."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        """Where plain bytes come from and go to."""
        self.encryption: Encryption | None = None
        """What the connection is encrypted with, if it is."""
        self._client = connection
        self._tunnel: Tunnel | None = None
        self.encoding = "utf-8"
        """Python's name of the encoding of strings in messages."""
        self.frames = FrontendFrameReader()
        self._output = OutputBuffer(connection)
        self._received: deque[Frame[FrontendMessage]] = deque()
        # One for all time: a new one of this size costs more than what is read into it.
        self._buffer = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)

    @property
    def peer(self) -> str:
        """Where the client is, for the log."""
        try:
            address = self._client.getpeername()
        except OSError:
            return "a client that has left"
        return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)

    def encrypt(self, encryption: Encryption) -> str | None:
        """Speak TLS from now on; bytes that have been received already are its first.

        Returns:
            The protocol that the client has named (ALPN), if any.

        Raises:
            OSError: Client and server could not agree, or the client hung up.
        """
        received = self.frames.peek()
        self.frames.skip(len(received))
        tunnel = Tunnel(self._client, encryption, received)
        self.socket, self.encryption, self._tunnel = tunnel.plain, encryption, tunnel
        self._output = OutputBuffer(tunnel.plain)
        protocol = tunnel.shake_hands()
        tunnel.start()
        return protocol

    def hang_up(self) -> None:
        """End the connection from another thread, whatever its own waits for."""
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)

    def end_soon(self) -> None:
        """Let who waits for the client find the end of it, from another thread.

        Nothing is received any more, and a client that reads has a moment for the last words.
        """
        self._output.end_soon()
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """Let the client have what was sent, as far as something stands between."""
        if self._tunnel is not None:
            self._tunnel.close()

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

    def peek(self) -> bytes:
        """Wait for bytes, and return those that have arrived and were not received as messages.

        Empty while ``next_received`` has a message that comes before them.

        Raises:
            EOFError: The client hung up.
        """
        if self._received:
            return b""
        return self.frames.peek() or self.peek_more()

    def peek_more(self) -> bytes:
        """Wait for more bytes, and return them with those of ``peek``."""
        self._read()
        return self.frames.peek()

    def skip(self, count: int) -> None:
        """Take bytes of ``peek`` as received."""
        self.frames.skip(count)

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
