"""Query, FunctionCall and the answers that belong to them alone, and Terminate.

Sections "Simple Query", "Function Call" and "Termination".
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
from pgwire_gateway.messages.errors import MalformedMessageError


@dataclass(frozen=True, slots=True)
class Query(FrontendMessage):
    """``Q``: run the statements of a query string."""

    type_byte: ClassVar[bytes] = b"Q"
    size_limit: ClassVar[int] = PQ_LARGE_MESSAGE_LIMIT

    query_string: str

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.string(self.query_string)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(reader.string())


@dataclass(frozen=True, slots=True)
class FunctionCall(FrontendMessage):
    """``F``: call a function by its OID."""

    type_byte: ClassVar[bytes] = b"F"
    size_limit: ClassVar[int] = PQ_LARGE_MESSAGE_LIMIT

    function_oid: int
    argument_format_codes: tuple[int, ...]
    """None at all: all text; one: for all; else one for each argument."""
    arguments: tuple[bytes | None, ...]
    """None is NULL."""
    result_format_code: int

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.oid(self.function_oid)
        writer.format_codes(self.argument_format_codes)
        writer.count(len(self.arguments))
        for argument in self.arguments:
            writer.value(argument)
        writer.int16(self.result_format_code)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        function_oid = reader.oid()
        codes = reader.format_codes()
        count = reader.count()
        if len(codes) > 1 and len(codes) != count:
            raise MalformedMessageError(
                f"function call message contains {len(codes)} argument formats "
                f"but {count} arguments"
            )
        arguments = tuple(reader.value() for _ in range(count))
        return cls(function_oid, codes, arguments, reader.int16())


@dataclass(frozen=True, slots=True)
class FunctionCallResponse(BackendMessage):
    """``V``: the result of a FunctionCall."""

    type_byte: ClassVar[bytes] = b"V"

    value: bytes | None
    """None is NULL."""

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.value(self.value)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(reader.value())


@dataclass(frozen=True, slots=True)
class Terminate(BodylessMessage, FrontendMessage):
    """``X``: the client is leaving; whatever the body holds does not matter any more."""

    type_byte: ClassVar[bytes] = b"X"

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        """Take everything; PostgreSQL does not look either."""
        reader.rest()
        return cls()
