"""What all messages have in common: a direction, a type byte, a size limit, encode and decode.

A message is a frozen value. A message class says how its fields are written and read, in the order
of section "Message Formats"; type byte, length and completeness are dealt with here.
"""

import struct
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, NamedTuple, Self, TypeVar

from typing_extensions import override

from pgwire_gateway.messages.buffer import Reader, Writer

PQ_SMALL_MESSAGE_LIMIT = 10_000
"""Longest message that should be short, with its length word (libpq/libpq.h)."""

PQ_LARGE_MESSAGE_LIMIT = 0x3FFFFFFF - 1
"""Longest message of all: MaxAllocSize - 1 (libpq/libpq.h)."""

_LENGTH = struct.Struct("!i")


class ProtocolVersion(NamedTuple):
    """A version of the protocol; also the codes that stand in its place in special requests."""

    major: int
    minor: int


class Message(ABC):
    """A protocol message of either direction."""

    __slots__ = ()

    type_byte: ClassVar[bytes]
    """First byte on the wire; empty for the packets of the start-up phase."""

    @abstractmethod
    def write_fields(self, writer: Writer) -> None:
        """Append the fields of the body."""

    @classmethod
    @abstractmethod
    def read_fields(cls, reader: Reader) -> Self:
        """Take the fields of the body.

        Raises:
            MalformedMessageError: the body breaks the protocol.
        """

    def encode(self, encoding: str = "utf-8") -> bytes:
        """Return the whole message as it goes over the wire."""
        writer = Writer(encoding)
        self.write_fields(writer)
        body = writer.getvalue()
        return self.type_byte + _LENGTH.pack(len(body) + _LENGTH.size) + body

    @classmethod
    def decode(cls, body: bytes, encoding: str = "utf-8") -> Self:
        """Return the message from its body, the bytes after the length word.

        Raises:
            MalformedMessageError: the body breaks the protocol.
        """
        reader = Reader(body, encoding)
        message = cls.read_fields(reader)
        reader.end()
        return message


class FrontendMessage(Message):
    """A message a client sends to the server."""

    __slots__ = ()

    size_limit: ClassVar[int] = PQ_SMALL_MESSAGE_LIMIT
    """Greatest length word PostgreSQL accepts for the message."""


class BackendMessage(Message):
    """A message the server sends to a client."""

    __slots__ = ()


M_co = TypeVar("M_co", bound=Message, covariant=True)


class Frame(NamedTuple, Generic[M_co]):
    """A message not looked into yet."""

    message_class: type[M_co]
    """What it will be; where a type byte is shared, the class of all that share it."""
    body: bytes
    """The bytes after the length word."""

    def decode(self, encoding: str = "utf-8") -> M_co:
        """Return the message.

        Raises:
            MalformedMessageError: the body breaks the protocol.
        """
        return self.message_class.decode(self.body, encoding)


class BodylessMessage(Message):
    """A message that is nothing but its type byte and length."""

    __slots__ = ()

    @override
    def write_fields(self, writer: Writer) -> None:
        """Append nothing."""

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls()
