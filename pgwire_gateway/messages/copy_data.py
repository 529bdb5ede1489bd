"""The COPY sub-protocol.

Section "COPY Operations". CopyBothResponse belongs to replication and is not spoken.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from typing_extensions import override

from pgwire_gateway.messages.base import (
    PQ_LARGE_MESSAGE_LIMIT,
    BackendMessage,
    BodylessMessage,
    FrontendMessage,
)
from pgwire_gateway.messages.buffer import Reader, Writer


@dataclass(frozen=True, slots=True)
class CopyData(FrontendMessage, BackendMessage):
    """``d``, both directions: a piece of the stream; from a client it may end anywhere in a row."""

    type_byte: ClassVar[bytes] = b"d"
    size_limit: ClassVar[int] = PQ_LARGE_MESSAGE_LIMIT

    data: bytes

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.opaque(self.data)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(reader.rest())


@dataclass(frozen=True, slots=True)
class CopyDone(BodylessMessage, FrontendMessage, BackendMessage):
    """``c``, both directions: end of the stream."""

    type_byte: ClassVar[bytes] = b"c"

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        """Take everything; PostgreSQL does not look either."""
        reader.rest()
        return cls()


@dataclass(frozen=True, slots=True)
class CopyFail(FrontendMessage):
    """``f``: the client gives up; COPY has to fail with its words."""

    type_byte: ClassVar[bytes] = b"f"

    message: str

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.string(self.message)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(reader.string())


@dataclass(frozen=True, slots=True)
class CopyResponse(BackendMessage):
    """What CopyInResponse and CopyOutResponse have in common."""

    overall_format: int
    """0 text or CSV, 1 binary."""
    column_format_codes: tuple[int, ...]
    """One for each column; all 0 when the overall format is 0."""

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.byte(bytes([self.overall_format]))
        writer.format_codes(self.column_format_codes)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(reader.byte()[0], reader.format_codes())


@dataclass(frozen=True, slots=True)
class CopyInResponse(CopyResponse):
    """``G``: the server is ready for CopyData."""

    type_byte: ClassVar[bytes] = b"G"


@dataclass(frozen=True, slots=True)
class CopyOutResponse(CopyResponse):
    """``H``: CopyData follows, then CopyDone."""

    type_byte: ClassVar[bytes] = b"H"
