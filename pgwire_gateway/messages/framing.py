"""Bytes to messages, in whatever pieces the bytes arrive; no I/O.

A reader is fed bytes and gives frames; a frame is decoded by whoever wants the message. So a
session that skips messages after an error need not look into them, and a message malformed inside
does not hide the next one.
"""

import struct
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from typing_extensions import override

from pgwire_gateway.messages.authentication import AuthenticationResponse
from pgwire_gateway.messages.base import (
    PQ_LARGE_MESSAGE_LIMIT,
    BackendMessage,
    Frame,
    FrontendMessage,
    Message,
)
from pgwire_gateway.messages.errors import FramingError, MessageLengthError
from pgwire_gateway.messages.registry import BACKEND_MESSAGES, FRONTEND_MESSAGES
from pgwire_gateway.messages.startup import MIN_STARTUP_PACKET_LENGTH, StartupPacket

_LENGTH = struct.Struct("!i")

_COMPACT_AFTER_BYTES = 65_536
"""Bytes already given away that the buffer may keep in front of the rest."""

_SMALL_BYTES = 8192
"""Length below the limit of every message."""

_SESSION_MESSAGES = {kind[0]: found for kind, found in FRONTEND_MESSAGES.items() if kind}

M = TypeVar("M", bound=Message)


class FrameReader(ABC, Generic[M]):
    """Cuts a stream of bytes into frames of one direction."""

    def __init__(self, *, max_message_size: int = PQ_LARGE_MESSAGE_LIMIT) -> None:
        """Start with no bytes.

        Args:
            max_message_size: Greatest length word to accept of any message, whatever its own limit.
        """
        self._buffer = bytearray()
        self._start = 0
        self._max_message_size = max_message_size
        self._failure: FramingError | None = None

    @property
    def buffered_bytes(self) -> int:
        """Bytes fed that no frame has been made of yet."""
        return len(self._buffer) - self._start

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes to the end of the stream."""
        self._buffer += data

    def peek(self) -> bytes:
        """Return the bytes no frame has been made of yet."""
        buffer, start = self._buffer, self._start
        return bytes(buffer[start:] if start else buffer)

    def skip(self, count: int) -> None:
        """Drop bytes that somebody has looked at."""
        self._start += count
        if self._start == len(self._buffer) or self._start > _COMPACT_AFTER_BYTES:
            del self._buffer[: self._start]
            self._start = 0

    def next_frame(self) -> Frame[M] | None:
        """Return the next frame, None when more bytes are needed.

        Raises:
            FramingError: the stream cannot be followed any further; raised again ever after.
        """
        if self._failure is not None:
            raise type(self._failure)(*self._failure.args)
        try:
            return self._cut()
        except FramingError as error:
            self._failure = error
            raise

    def next_message(self, encoding: str = "utf-8") -> M | None:
        """Return the next message, None when more bytes are needed.

        Raises:
            FramingError: the stream cannot be followed any further; raised again ever after.
            MalformedMessageError: the message breaks the protocol; the next call goes on behind it.
        """
        frame = self.next_frame()
        return None if frame is None else frame.decode(encoding)

    @abstractmethod
    def _message_class(self, type_byte: bytes) -> type[M]:
        """Return the message a type byte means.

        Raises:
            FramingError: it means none.
        """

    @abstractmethod
    def _size_limit(self, message_class: type[M]) -> int:
        """Return the greatest length word a message may have."""

    def _cut(self) -> Frame[M] | None:
        """Return the next frame, None when more bytes are needed."""
        buffer, start = self._buffer, self._start
        waiting = len(buffer) - start
        if not waiting:
            return None
        # Before the length is there: a client that speaks something else may never send it.
        message_class = self._message_class(bytes(buffer[start : start + 1]))
        if waiting < 1 + _LENGTH.size:
            return None
        length: int = _LENGTH.unpack_from(buffer, start + 1)[0]
        if not _LENGTH.size <= length <= self._size_limit(message_class):
            raise MessageLengthError("invalid message length")
        body = self._take(1, length)
        return None if body is None else Frame(message_class, body)

    def _peek_length(self, offset: int) -> int | None:
        """Return the length word at ``offset`` from the next frame's start, None if incomplete."""
        if self.buffered_bytes < offset + _LENGTH.size:
            return None
        return int(_LENGTH.unpack_from(self._buffer, self._start + offset)[0])

    def _take(self, offset: int, length: int) -> bytes | None:
        """Take the frame whose length word is at ``offset``, if complete, and return its body."""
        if self.buffered_bytes < offset + length:
            return None
        end = self._start + offset + length
        # A view, so that a large body is copied once; closed, so that the buffer can change size.
        with memoryview(self._buffer) as view, view[end - length + _LENGTH.size : end] as part:
            body = part.tobytes()
        self._start = end
        if end == len(self._buffer) or end > _COMPACT_AFTER_BYTES:
            del self._buffer[:end]
            self._start = 0
        return body


class FrontendFrameReader(FrameReader[FrontendMessage]):
    """What a client sends: start-up packets first, then perhaps answers to authentication requests.

    The owner says when one phase is over and the next begins; bytes that came too early are kept
    and read by the rules of the phase they are asked for in.
    """

    def __init__(self, *, max_message_size: int = PQ_LARGE_MESSAGE_LIMIT) -> None:
        """Start in the start-up phase."""
        super().__init__(max_message_size=max_message_size)
        self._starting = True
        self._awaited: type[AuthenticationResponse] | None = None

    def expect_authentication(self, response: type[AuthenticationResponse]) -> None:
        """Take the next message for this answer to an authentication request, and no other."""
        self._starting = False
        self._awaited = response

    def expect_session(self) -> None:
        """Take the next messages for those of an open session."""
        self._starting = False
        self._awaited = None

    @override
    def _cut(self) -> Frame[FrontendMessage] | None:
        if not self._starting:
            return self._cut_small() or super()._cut()
        length = self._peek_length(0)
        if length is None:
            return None
        if not _LENGTH.size + MIN_STARTUP_PACKET_LENGTH <= length <= StartupPacket.size_limit:
            raise MessageLengthError("invalid length of startup packet")
        body = self._take(0, length)
        return None if body is None else Frame(StartupPacket, body)

    def _cut_small(self) -> Frame[FrontendMessage] | None:
        """Return the next frame if it is like most: complete, small and of an open session."""
        buffer, start = self._buffer, self._start
        size = len(buffer) - start
        if size < 1 + _LENGTH.size or self._awaited is not None:
            return None
        message_class = _SESSION_MESSAGES.get(buffer[start])
        length: int = _LENGTH.unpack_from(buffer, start + 1)[0]
        if message_class is None or not _LENGTH.size <= length < min(size, _SMALL_BYTES):
            return None
        if length > self._max_message_size:
            return None
        end = start + 1 + length
        body = bytes(buffer[start + 1 + _LENGTH.size : end])
        if end == len(buffer):
            buffer.clear()
            self._start = 0
        else:
            self._start = end
        return Frame(message_class, body)

    @override
    def _message_class(self, type_byte: bytes) -> type[FrontendMessage]:
        if self._awaited is not None:
            if type_byte != self._awaited.type_byte:
                raise FramingError(self._awaited.expectation.format(type_byte[0]))
            return self._awaited
        message_class = FRONTEND_MESSAGES.get(type_byte)
        if message_class is None:
            raise FramingError(f"invalid frontend message type {type_byte[0]}")
        return message_class

    @override
    def _size_limit(self, message_class: type[FrontendMessage]) -> int:
        return min(message_class.size_limit, self._max_message_size)


class BackendFrameReader(FrameReader[BackendMessage]):
    """What a server sends, but for the one byte that answers SSLRequest and GSSENCRequest."""

    @override
    def _message_class(self, type_byte: bytes) -> type[BackendMessage]:
        message_class = BACKEND_MESSAGES.get(type_byte)
        if message_class is None:
            raise FramingError(f"invalid backend message type {type_byte[0]}")
        return message_class

    @override
    def _size_limit(self, message_class: type[BackendMessage]) -> int:
        return self._max_message_size
