"""Descriptions of parameters and rows, and the rows.

Sections "Simple Query" and "Extended Query"; shared by both. Values stay bytes: what they mean is
not known here.
"""

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Self

from typing_extensions import override

from pgwire_gateway.messages.base import BackendMessage, BodylessMessage
from pgwire_gateway.messages.buffer import Reader, Writer, encode_text

_HEADER: Final = struct.Struct("!ciH")
_FIXED_FIELDS: Final = struct.Struct("!IhIhih")
_LENGTH: Final = struct.Struct("!i")
_NULL: Final = _LENGTH.pack(-1)


class FieldDescription(NamedTuple):
    """One column of a RowDescription."""

    name: str
    table_oid: int = 0
    """OID of the table the column is of, 0 when it is none."""
    column_attribute_number: int = 0
    """Attribute number in that table, 0 when it is none."""
    type_oid: int = 0
    """OID of the data type."""
    type_size: int = -1
    """``pg_type.typlen``: bytes, or negative for types of variable length."""
    type_modifier: int = -1
    """``pg_attribute.atttypmod``, -1 when there is none."""
    format_code: int = 0
    """0 text, 1 binary; 0 where it is not known yet, describing a statement."""

    def write_fields(self, writer: Writer) -> None:
        """Append the fields in protocol order."""
        writer.string(self.name)
        writer.oid(self.table_oid)
        writer.int16(self.column_attribute_number)
        writer.oid(self.type_oid)
        writer.int16(self.type_size)
        writer.int32(self.type_modifier)
        writer.int16(self.format_code)

    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        """Take the fields in protocol order."""
        return cls(
            name=reader.string(),
            table_oid=reader.oid(),
            column_attribute_number=reader.int16(),
            type_oid=reader.oid(),
            type_size=reader.int16(),
            type_modifier=reader.int32(),
            format_code=reader.int16(),
        )


@dataclass(frozen=True, slots=True)
class RowDescription(BackendMessage):
    """``T``: the columns of the rows to come."""

    type_byte: ClassVar[bytes] = b"T"

    fields: tuple[FieldDescription, ...]

    @override
    def encode(self, encoding: str = "utf-8") -> bytes:
        """Return the message; a shorter way than by ``write_fields``, as it is sent so often."""
        parts: list[bytes] = []
        for field in self.fields:
            parts += (
                encode_text(field.name, encoding),
                b"\0",
                _FIXED_FIELDS.pack(
                    field.table_oid,
                    field.column_attribute_number,
                    field.type_oid,
                    field.type_size,
                    field.type_modifier,
                    field.format_code,
                ),
            )
        body = b"".join(parts)
        return _HEADER.pack(self.type_byte, len(body) + 6, len(self.fields)) + body

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.count(len(self.fields))
        for field in self.fields:
            field.write_fields(writer)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(tuple(FieldDescription.read_fields(reader) for _ in range(reader.count())))


@dataclass(frozen=True, slots=True)
class DataRow(BackendMessage):
    """``D``: one row."""

    type_byte: ClassVar[bytes] = b"D"

    values: tuple[bytes | None, ...]
    """One for each column; None is NULL."""

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.count(len(self.values))
        for value in self.values:
            writer.value(value)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(tuple(reader.value() for _ in range(reader.count())))


def encode_data_rows(rows: Iterable[Sequence[bytes | None]]) -> bytes:
    """Return the DataRow messages of rows, in one go."""
    return encode_data_run(rows)[0]


def encode_data_run(
    rows: Iterable[Sequence[bytes | None]], enough_bytes: float = math.inf
) -> tuple[bytes, int]:
    """Take rows until their DataRow messages are long enough, or there are no more.

    Returns:
        The messages in one go, and how many they are.
    """
    parts: list[bytes] = []
    total = count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007 - returned
        place = len(parts)
        parts.append(b"")
        size = 6
        for value in row:
            if value is None:
                parts.append(_NULL)
                size += 4
            else:
                parts += (_LENGTH.pack(len(value)), value)
                size += 4 + len(value)
        parts[place] = _HEADER.pack(b"D", size, len(row))
        total += size
        if total >= enough_bytes:
            break
    return b"".join(parts), count


@dataclass(frozen=True, slots=True)
class NoData(BodylessMessage, BackendMessage):
    """``n``: what is described returns no rows; stands in for RowDescription."""

    type_byte: ClassVar[bytes] = b"n"


@dataclass(frozen=True, slots=True)
class ParameterDescription(BackendMessage):
    """``t``: the types of a prepared statement's parameters."""

    type_byte: ClassVar[bytes] = b"t"

    type_oids: tuple[int, ...]

    @override
    def write_fields(self, writer: Writer) -> None:
        writer.count(len(self.type_oids))
        for oid in self.type_oids:
            writer.oid(oid)

    @override
    @classmethod
    def read_fields(cls, reader: Reader) -> Self:
        return cls(tuple(reader.oid() for _ in range(reader.count())))
