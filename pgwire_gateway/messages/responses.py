"""Answers of the server that belong to no one request: completion, errors, settings, readiness.

Sections "Simple Query", "Asynchronous Operations" and "Error and Notice Message Fields".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import ClassVar, Self

from typing_extensions import override

from pgwire_gateway.messages.base import BackendMessage, BodylessMessage, ProtocolVersion
from pgwire_gateway.messages.buffer import Reader, Writer
from pgwire_gateway.messages.errors import MalformedMessageError


class TransactionStatus(Enum):
    """What ReadyForQuery says about the transaction."""

    IDLE = b"I"
    """Not in a transaction block."""
    IN_TRANSACTION = b"T"
    """In a transaction block."""
    FAILED = b"E"
    """In a failed transaction block: statements are refused until it is ended."""


class DiagnosticField(StrEnum):
    """A field of an error or notice, in the order PostgreSQL sends them."""

    SEVERITY = "S"
    """ERROR, FATAL, PANIC, WARNING, NOTICE, DEBUG, INFO or LOG, localized."""
    SEVERITY_NONLOCALIZED = "V"
    """The same, never localized."""
    CODE = "C"
    """The SQLSTATE."""
    MESSAGE = "M"
    """What happened, one line."""
    DETAIL = "D"
    """More about it."""
    HINT = "H"
    """What to do about it."""
    WHERE = "W"
    """The context, a call stack."""
    SCHEMA_NAME = "s"
    """The schema the error is about."""
    TABLE_NAME = "t"
    """The table the error is about."""
    COLUMN_NAME = "c"
    """The column the error is about."""
    DATA_TYPE_NAME = "d"
    """The data type the error is about."""
    CONSTRAINT_NAME = "n"
    """The constraint the error is about."""
    POSITION = "P"
    """Place in the query string, in characters from 1."""
    INTERNAL_POSITION = "p"
    """Place in the internal query."""
    INTERNAL_QUERY = "q"
    """A query the server made itself."""
    FILE = "F"
    """Source file that reported it."""
    LINE = "L"
    """Line in that file."""
    ROUTINE = "R"
    """Routine in that file."""


_ORDER = {member.value: place for place, member in enumerate(DiagnosticField)}


@dataclass(frozen=True, slots=True)
class DiagnosticMessage(BackendMessage):
    """What ErrorResponse and NoticeResponse have in common."""

    fields: tuple[tuple[str, str], ...]
    """Pairs of one-letter code and text."""

    @classmethod
    def of(cls, fields: Mapping[str, str | None]) -> Self:
        """Make the message of texts by one-letter code, in PostgreSQL's order; None is left out."""
        given = [(code, text) for code, text in fields.items() if text is not None]
        return cls(tuple(sorted(given, key=lambda pair: _ORDER.get(pair[0], len(_ORDER)))))

    def get(self, code: str) -> str | None:
        """Return the text of a field by its one-letter code, None when it is absent."""
        return dict(self.fields).get(code)

    @property
    def severity(self) -> str | None:
        """The severity that is never localized."""
        return self.get(DiagnosticField.SEVERITY_NONLOCALIZED)

    @property
    def sqlstate(self) -> str | None:
        """The SQLSTATE."""
        return self.get(DiagnosticField.CODE)

    @property
    def message(self) -> str | None:
        """What happened, one line."""
        return self.get(DiagnosticField.MESSAGE)

    @override
    def write_fields(self, writer: Writer) -> None:
        for code, text in self.fields:
            writer.diagnostic(code, text)
        writer.byte(b"\0")

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        fields = []
        while (code := reader.byte()) != b"\0":
            if not code.isascii():
                raise MalformedMessageError(f"invalid field type {code[0]}")
            fields.append((code.decode("ascii"), reader.string()))
        return cls(tuple(fields))


@dataclass(frozen=True, slots=True)
class ErrorResponse(DiagnosticMessage):
    """``E``: an error."""

    type_byte: ClassVar[bytes] = b"E"


@dataclass(frozen=True, slots=True)
class NoticeResponse(DiagnosticMessage):
    """``N``: a warning or any other notice."""

    type_byte: ClassVar[bytes] = b"N"


@dataclass(frozen=True, slots=True)
class CommandComplete(BackendMessage):
    """``C``: a statement was completed."""

    type_byte: ClassVar[bytes] = b"C"

    command_tag: str

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.string(self.command_tag)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(reader.string())


@dataclass(frozen=True, slots=True)
class EmptyQueryResponse(BodylessMessage, BackendMessage):
    """``I``: the query string held no statement; stands in for CommandComplete."""

    type_byte: ClassVar[bytes] = b"I"


@dataclass(frozen=True, slots=True)
class ReadyForQuery(BackendMessage):
    """``Z``: the server waits for the next query string or series."""

    type_byte: ClassVar[bytes] = b"Z"

    transaction_status: TransactionStatus

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.byte(self.transaction_status.value)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        status = reader.byte()
        try:
            return cls(TransactionStatus(status))
        except ValueError:
            raise MalformedMessageError(f"invalid transaction status {status[0]}") from None


@dataclass(frozen=True, slots=True)
class ParameterStatus(BackendMessage):
    """``S``: the value of a setting clients are told about."""

    type_byte: ClassVar[bytes] = b"S"

    name: str
    value: str

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.string(self.name)
        writer.string(self.value)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(reader.string(), reader.string())


@dataclass(frozen=True, slots=True)
class BackendKeyData(BackendMessage):
    """``K``: what a CancelRequest for this connection has to carry."""

    type_byte: ClassVar[bytes] = b"K"

    process_id: int
    secret_key: bytes = field(repr=False)
    """Four bytes up to protocol version 3.0, up to 256 bytes from version 3.2 on."""

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.process_id(self.process_id)
        writer.secret_key(self.secret_key)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(reader.int32(), reader.rest())


@dataclass(frozen=True, slots=True)
class NegotiateProtocolVersion(BackendMessage):
    """``v``: the server goes on with an older version, or without some protocol options."""

    type_byte: ClassVar[bytes] = b"v"

    protocol_version: ProtocolVersion
    """Version it goes on with; the whole number, as PostgreSQL sends it and libpq expects it."""
    unrecognized_options: tuple[str, ...] = ()
    """Names of parameters that begin with ``_pq_.`` and mean nothing to the server."""

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.int32((self.protocol_version.major << 16) | self.protocol_version.minor)
        writer.int32(len(self.unrecognized_options))
        for option in self.unrecognized_options:
            writer.string(option)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        number = reader.int32()
        version = ProtocolVersion(number >> 16, number & 0xFFFF)
        return cls(version, tuple(reader.string() for _ in range(reader.int32())))


@dataclass(frozen=True, slots=True)
class NotificationResponse(BackendMessage):
    """``A``: NOTIFY on a channel this connection listens on."""

    type_byte: ClassVar[bytes] = b"A"

    process_id: int
    """Process id of the session that notified."""
    channel: str
    payload: str = ""

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.process_id(self.process_id)
        writer.string(self.channel)
        writer.string(self.payload)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(reader.int32(), reader.string(), reader.string())
