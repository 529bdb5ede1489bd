"""The authentication exchange: what the server asks for and how a client answers.

Section "Start-up" and chapter "SASL Authentication". All answers have the type byte ``p``; only
what was asked for tells which of them it is. GSSAPI, SSPI and Kerberos are never asked for.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Self

from typing_extensions import override

from pgwire_gateway.messages.base import BackendMessage, FrontendMessage
from pgwire_gateway.messages.buffer import Reader, Writer
from pgwire_gateway.messages.errors import MalformedMessageError

PG_MAX_AUTH_TOKEN_LENGTH = 65_535
"""Longest password message (libpq/auth.h)."""

PG_MAX_SASL_MESSAGE_LENGTH = 1_024
"""Longest message of a SCRAM exchange (libpq/sasl.h)."""


class AuthenticationRequest(BackendMessage):
    """Any message of type byte ``R``; its first Int32 tells which."""

    __slots__ = ()

    type_byte: ClassVar[bytes] = b"R"
    code: ClassVar[int]
    """The Int32 that selects the message."""

    @override
    def write_fields(self, writer: Writer) -> None:
        """Append the selector and what the message adds to it."""
        writer.selector(self.code)
        self.write_content(writer)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        """Take the selector and the message it selects."""
        code = reader.int32()
        request = _REQUESTS.get(code)
        if request is None or not issubclass(request, cls):
            raise MalformedMessageError(f"unexpected authentication request {code}")
        return request.read_content(reader)

    def write_content(self, writer: Writer) -> None:
        """Append what follows the selector; nothing unless a message says otherwise."""

    @classmethod
    def read_content(cls, reader: Reader) -> Self:  # noqa: ARG003
        """Take what follows the selector; nothing unless a message says otherwise."""
        return cls()


@dataclass(frozen=True, slots=True)
class AuthenticationOk(AuthenticationRequest):
    """``R`` 0: the client is who it says it is."""

    code: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class AuthenticationCleartextPassword(AuthenticationRequest):
    """``R`` 3: asks for a PasswordMessage with the password itself."""

    code: ClassVar[int] = 3


@dataclass(frozen=True, slots=True)
class AuthenticationMD5Password(AuthenticationRequest):
    """``R`` 5: asks for a PasswordMessage with the password hashed with this salt."""

    code: ClassVar[int] = 5

    salt: bytes
    """Four random bytes."""

    @override
    def write_content(self, writer: Writer) -> None:
        writer.opaque(self.salt)

    @override
    @classmethod
    def read_content(cls, reader: Reader) -> Self:
        return cls(reader.raw(4))


@dataclass(frozen=True, slots=True)
class AuthenticationSASL(AuthenticationRequest):
    """``R`` 10: asks for a SASLInitialResponse with one of these mechanisms."""

    code: ClassVar[int] = 10

    mechanisms: tuple[str, ...]
    """Names in the server's order of preference."""

    @override
    def write_content(self, writer: Writer) -> None:
        for mechanism in (*self.mechanisms, ""):
            writer.string(mechanism)

    @override
    @classmethod
    def read_content(cls, reader: Reader) -> Self:
        return cls(tuple(iter(reader.string, "")))


@dataclass(frozen=True, slots=True)
class SASLData(AuthenticationRequest):
    """What AuthenticationSASLContinue and AuthenticationSASLFinal have in common."""

    data: bytes
    """Whatever the mechanism says."""

    @override
    def write_content(self, writer: Writer) -> None:
        writer.opaque(self.data)

    @override
    @classmethod
    def read_content(cls, reader: Reader) -> Self:
        return cls(reader.rest())


@dataclass(frozen=True, slots=True)
class AuthenticationSASLContinue(SASLData):
    """``R`` 11: a challenge, to be answered with a SASLResponse."""

    code: ClassVar[int] = 11


@dataclass(frozen=True, slots=True)
class AuthenticationSASLFinal(SASLData):
    """``R`` 12: the outcome, by which the client may authenticate the server."""

    code: ClassVar[int] = 12


_REQUESTS: dict[int, type[AuthenticationRequest]] = {
    request.code: request
    for request in (
        AuthenticationOk,
        AuthenticationCleartextPassword,
        AuthenticationMD5Password,
        AuthenticationSASL,
        AuthenticationSASLContinue,
        AuthenticationSASLFinal,
    )
}


class AuthenticationResponse(FrontendMessage):
    """Any message of type byte ``p``."""

    __slots__ = ()

    type_byte: ClassVar[bytes] = b"p"
    expectation: ClassVar[str] = "expected SASL response, got message type {}"
    """What PostgreSQL says when a message of another type comes instead."""


@dataclass(frozen=True, slots=True)
class PasswordMessage(AuthenticationResponse):
    """``p``: a password, in clear or hashed as AuthenticationMD5Password asked."""

    size_limit: ClassVar[int] = PG_MAX_AUTH_TOKEN_LENGTH
    expectation: ClassVar[str] = "expected password response, got message type {}"

    password: str = field(repr=False)

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.password(self.password)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(reader.string())


@dataclass(frozen=True, slots=True)
class SASLInitialResponse(AuthenticationResponse):
    """``p``: the mechanism chosen and what the client says first in it."""

    size_limit: ClassVar[int] = PG_MAX_SASL_MESSAGE_LENGTH

    mechanism: str
    data: bytes | None = field(repr=False)
    """None when the mechanism lets the server speak first."""

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.string(self.mechanism)
        if self.data is None:
            writer.int32(-1)
        else:
            writer.int32(len(self.data))
            writer.credential(self.data)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(reader.string(), reader.value())


@dataclass(frozen=True, slots=True)
class SASLResponse(AuthenticationResponse):
    """``p``: the answer to a challenge."""

    size_limit: ClassVar[int] = PG_MAX_SASL_MESSAGE_LENGTH

    data: bytes = field(repr=False)

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.credential(self.data)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(reader.rest())
