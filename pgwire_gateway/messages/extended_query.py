"""Parse, Bind, Describe, Execute, Close, Flush and Sync, and the answers that belong to them alone.

Section "Extended Query". The empty name is the unnamed statement or the unnamed portal.
"""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Self

from typing_extensions import override

from pgwire_gateway.messages.base import (
    PQ_LARGE_MESSAGE_LIMIT,
    BackendMessage,
    BodylessMessage,
    FrontendMessage,
)
from pgwire_gateway.messages.buffer import Reader, Writer
from pgwire_gateway.messages.errors import MalformedMessageError


class ObjectKind(Enum):
    """What Describe and Close are about."""

    STATEMENT = b"S"
    """A prepared statement."""
    PORTAL = b"P"
    """A portal."""


@dataclass(frozen=True, slots=True)
class Parse(FrontendMessage):
    """``P``: make a prepared statement."""

    type_byte: ClassVar[bytes] = b"P"
    size_limit: ClassVar[int] = PQ_LARGE_MESSAGE_LIMIT

    statement_name: str
    query_string: str
    parameter_type_oids: tuple[int, ...] = ()
    """Types the client prescribes for the first parameters; 0 leaves one to the server."""

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.string(self.statement_name)
        writer.string(self.query_string)
        writer.count(len(self.parameter_type_oids))
        for oid in self.parameter_type_oids:
            writer.oid(oid)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        name, query_string = reader.string(), reader.string()
        return cls(name, query_string, tuple(reader.oid() for _ in range(reader.count())))


@dataclass(frozen=True, slots=True)
class Bind(FrontendMessage):
    """``B``: make a portal of a prepared statement and parameter values."""

    type_byte: ClassVar[bytes] = b"B"
    size_limit: ClassVar[int] = PQ_LARGE_MESSAGE_LIMIT

    destination_portal: str
    statement_name: str
    parameter_format_codes: tuple[int, ...] = ()
    """None at all: all text; one: for all; else one for each parameter."""
    parameter_values: tuple[bytes | None, ...] = ()
    """None is NULL."""
    result_format_codes: tuple[int, ...] = ()
    """None at all: all text; one: for all; else one for each column."""

    def parameter_format_code(self, index: int) -> int:
        """Return the format code of a parameter, counted from 0."""
        return _format_code(self.parameter_format_codes, index)

    def result_format_code(self, index: int) -> int:
        """Return the format code of a result column, counted from 0.

        Whether there is one code for each column is for the caller to check, who knows the columns.
        """
        return _format_code(self.result_format_codes, index)

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.string(self.destination_portal)
        writer.string(self.statement_name)
        writer.format_codes(self.parameter_format_codes)
        writer.count(len(self.parameter_values))
        for value in self.parameter_values:
            writer.value(value)
        writer.format_codes(self.result_format_codes)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        portal, statement = reader.string(), reader.string()
        codes = reader.format_codes()
        count = reader.count()
        if len(codes) > 1 and len(codes) != count:
            raise MalformedMessageError(
                f"bind message has {len(codes)} parameter formats but {count} parameters"
            )
        values = tuple(reader.value() for _ in range(count))
        return cls(portal, statement, codes, values, reader.format_codes())


@dataclass(frozen=True, slots=True)
class TargetedMessage(FrontendMessage):
    """What Describe and Close have in common: they name a prepared statement or a portal."""

    kind: ObjectKind
    name: str = ""

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.byte(self.kind.value)
        writer.string(self.name)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        subtype, name = reader.byte(), reader.string()
        # PostgreSQL looks at the subtype only after it has found the message complete.
        reader.end()
        try:
            return cls(ObjectKind(subtype), name)
        except ValueError:
            message = f"invalid {cls.__name__.upper()} message subtype {subtype[0]}"
            raise MalformedMessageError(message) from None


@dataclass(frozen=True, slots=True)
class Describe(TargetedMessage):
    """``D``: tell parameters and columns of a prepared statement, or columns of a portal."""

    type_byte: ClassVar[bytes] = b"D"


@dataclass(frozen=True, slots=True)
class Close(TargetedMessage):
    """``C``: forget a prepared statement or a portal; not an error if there is none."""

    type_byte: ClassVar[bytes] = b"C"


@dataclass(frozen=True, slots=True)
class Execute(FrontendMessage):
    """``E``: run a portal."""

    type_byte: ClassVar[bytes] = b"E"

    portal_name: str = ""
    maximum_rows: int = 0
    """Rows to return before PortalSuspended; 0, or less, is no limit."""

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.string(self.portal_name)
        writer.int32(self.maximum_rows)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(reader.string(), reader.int32())


@dataclass(frozen=True, slots=True)
class Flush(BodylessMessage, FrontendMessage):
    """``H``: send what answers there are."""

    type_byte: ClassVar[bytes] = b"H"


@dataclass(frozen=True, slots=True)
class Sync(BodylessMessage, FrontendMessage):
    """``S``: end of a series; errors are forgiven from here on, and ReadyForQuery is the answer."""

    type_byte: ClassVar[bytes] = b"S"


@dataclass(frozen=True, slots=True)
class ParseComplete(BodylessMessage, BackendMessage):
    """``1``: answer to Parse."""

    type_byte: ClassVar[bytes] = b"1"


@dataclass(frozen=True, slots=True)
class BindComplete(BodylessMessage, BackendMessage):
    """``2``: answer to Bind."""

    type_byte: ClassVar[bytes] = b"2"


@dataclass(frozen=True, slots=True)
class CloseComplete(BodylessMessage, BackendMessage):
    """``3``: answer to Close."""

    type_byte: ClassVar[bytes] = b"3"


@dataclass(frozen=True, slots=True)
class PortalSuspended(BodylessMessage, BackendMessage):
    """``s``: the row limit of Execute was reached; stands in for CommandComplete."""

    type_byte: ClassVar[bytes] = b"s"


def _format_code(codes: tuple[int, ...], index: int) -> int:
    if not codes:
        return 0
    return codes[0] if len(codes) == 1 else codes[index]
