"""Packets of the start-up phase, which have no type byte.

Section "Start-up" of the chapter "Message Flow". Which packet it is shows in its first Int32: the
protocol version, or a code no version will ever have.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Self, cast

from typing_extensions import override

from pgwire_gateway.messages.base import FrontendMessage, ProtocolVersion
from pgwire_gateway.messages.buffer import Reader, Writer, decode_text
from pgwire_gateway.messages.errors import MalformedMessageError, MessageLengthError

PG_PROTOCOL_EARLIEST = ProtocolVersion(3, 0)
"""Oldest version PostgreSQL 18 speaks (libpq/pqcomm.h)."""

PG_PROTOCOL_LATEST = ProtocolVersion(3, 2)
"""Newest version PostgreSQL 18 speaks (libpq/pqcomm.h)."""

MAX_STARTUP_PACKET_LENGTH = 10_000
"""Longest start-up packet, without its length word (libpq/pqcomm.h)."""

MAX_CANCEL_KEY_LENGTH = 256
"""Longest secret key of protocol version 3.2."""

MIN_STARTUP_PACKET_LENGTH = 4
"""Shortest start-up packet, without its length word: the version alone."""


class StartupPacket(FrontendMessage):
    """Any packet that may open a connection."""

    __slots__ = ()

    type_byte: ClassVar[bytes] = b""
    size_limit: ClassVar[int] = MAX_STARTUP_PACKET_LENGTH + 4

    code: ClassVar[ProtocolVersion]
    """What stands in place of a version; StartupMessage has none."""

    @override
    def write_fields(self, writer: Writer) -> None:
        """Append the code."""
        _write_version(writer, self.code)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        """Take the version or code and the packet that it selects."""
        version = ProtocolVersion(reader.count(), reader.count())
        packet = _SPECIAL_REQUESTS.get(version, StartupMessage)
        if not issubclass(packet, cls):
            raise MalformedMessageError(
                f"unexpected startup packet {version.major}.{version.minor}"
            )
        return packet.read_content(reader, version)

    @classmethod
    def read_content(cls, reader: Reader, version: ProtocolVersion) -> Self:  # noqa: ARG003
        """Take what follows version or code; PostgreSQL does not mind bytes it has no use for."""
        reader.rest()
        return cls()


@dataclass(frozen=True, slots=True)
class StartupMessage(StartupPacket):
    """Opens a session: protocol version and settings to start with."""

    protocol_version: ProtocolVersion
    parameters: tuple[tuple[str, str], ...] = ()
    """Names and values in the order sent; where a name comes twice the last one counts."""

    def parameter(self, name: str) -> str | None:
        """Return the value of a parameter, None when it was not sent."""
        return dict(self.parameters).get(name)

    @override
    def write_fields(self, writer: Writer) -> None:
        _write_version(writer, self.protocol_version)
        for name, value in self.parameters:
            writer.string(name)
            writer.string(value)
        writer.terminator()

    @override
    @classmethod
    def read_content(cls, reader: Reader, version: ProtocolVersion) -> Self:
        """Take names and values.

        The parameters of an unsupported major version are left alone, their layout being unknown.
        """
        if not PG_PROTOCOL_EARLIEST.major <= version.major <= PG_PROTOCOL_LATEST.major:
            reader.rest()
            return cls(version)
        return cls(version, _read_parameters(reader))


@dataclass(frozen=True, slots=True)
class SSLRequest(StartupPacket):
    """Asks for TLS before anything else is said; answered with one byte, ``S`` or ``N``."""

    code: ClassVar[ProtocolVersion] = ProtocolVersion(1234, 5679)


@dataclass(frozen=True, slots=True)
class GSSENCRequest(StartupPacket):
    """Asks for GSSAPI encryption; answered with one byte, ``G`` or ``N``."""

    code: ClassVar[ProtocolVersion] = ProtocolVersion(1234, 5680)


@dataclass(frozen=True, slots=True)
class CancelRequest(StartupPacket):
    """Asks to cancel what another connection is running; never answered."""

    code: ClassVar[ProtocolVersion] = ProtocolVersion(1234, 5678)

    process_id: int
    secret_key: bytes = field(repr=False)
    """Four bytes up to protocol version 3.0, 1 to 256 bytes from version 3.2 on."""

    @override
    def write_fields(self, writer: Writer) -> None:
        _write_version(writer, self.code)
        writer.process_id(self.process_id)
        writer.secret_key(self.secret_key)

    @override
    @classmethod
    def read_content(cls, reader: Reader, version: ProtocolVersion) -> Self:
        if reader.remaining < 4:
            raise MessageLengthError("invalid length of cancel request packet")
        process_id = reader.int32()
        if not 0 < reader.remaining <= MAX_CANCEL_KEY_LENGTH:
            raise MessageLengthError("invalid length of cancel key in cancel request packet")
        return cls(process_id, reader.rest())


_SPECIAL_REQUESTS: dict[ProtocolVersion, type[StartupPacket]] = {
    SSLRequest.code: SSLRequest,
    GSSENCRequest.code: GSSENCRequest,
    CancelRequest.code: CancelRequest,
}


def decode_startup_packet(
    body: bytes, encoding: str = "utf-8"
) -> StartupMessage | SSLRequest | GSSENCRequest | CancelRequest:
    """Return the packet that has this body; which it is, the type checker can follow.

    Raises:
        MalformedMessageError: the body breaks the protocol.
    """
    packet = StartupPacket.decode(body, encoding)
    return cast("StartupMessage | SSLRequest | GSSENCRequest | CancelRequest", packet)


def _write_version(writer: Writer, version: ProtocolVersion) -> None:
    writer.count(version.major)
    writer.count(version.minor)


def _read_parameters(reader: Reader) -> tuple[tuple[str, str], ...]:
    # PostgreSQL has one complaint for whatever is wrong with the list: a missing terminator, a name
    # without value, an empty name before the end.
    *strings, tail = reader.rest().split(b"\0")
    names, values = strings[:-1:2], strings[1:-1:2]
    complete = bool(strings) and not tail and not strings[-1] and len(names) == len(values)
    if not complete or not all(names):
        raise MalformedMessageError(
            "invalid startup packet layout: expected terminator as last byte"
        )
    texts = [decode_text(string, reader.encoding) for string in strings[:-1]]
    return tuple(zip(texts[::2], texts[1::2], strict=True))
