"""How row versions lie in data files, and how files become the columns compiled SQL reads."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from catalog.journal.layout import (
    IDENTITY,
    SUBSEQUENT,
    VERSION,
    column_name,
    hidden_columns,
    hidden_names,
)
from catalog.model import LEAF, Column, JournalTable
from pgwire_gateway.spark.literals import storage_literal
from rewrite.dialect.type_mapping import storage_type

_LEAF: Final = (
    r"CAST(regexp_extract(_metadata.file_path,"
    r" '/([0-9]+)(/[^/]+=[^/]+)*/[^/]+/[^/]+$', 1) AS BIGINT)"
)
"""The table that a file is of: the directory above that of its segment, or above the partitions
that this is in, bears its OID."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one journal's row versions, live ones only."""

    columns: tuple[Column, ...]
    keyed: bool

    @classmethod
    def of(cls, table: JournalTable) -> "Layout":
        """Return the layout of a table as it is defined now."""
        return cls(table.columns, bool(table.key))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns in relations."""
        return tuple(column_name(column.attnum) for column in self.columns) + self.hidden

    @property
    def hidden(self) -> tuple[str, ...]:
        """Names of the columns that are not the table's, in relations and in files."""
        return hidden_names(keyed=self.keyed)

    @property
    def file_names(self) -> tuple[str, ...]:
        """Names of the same columns in files."""
        stored = tuple(column.storage_name for column in self.columns)
        return stored + self.names[len(stored) :]

    def relation_ddl(self) -> str:
        """Return the schema of relations."""
        columns = [f"{column_name(column.attnum)} {_kind(column)}" for column in self.columns]
        return ", ".join([*columns, *self._hidden_ddl()])

    def file_ddl(self, attnums: Iterable[int]) -> str:
        """Return the schema of the files of a segment that has these columns."""
        present = set(attnums)
        columns = [
            f"{_file_name(column)} {_kind(column)}"
            for column in self.columns
            if column.attnum in present
        ]
        return ", ".join([*columns, *self._hidden_ddl()])

    def from_files(self, attnums: Iterable[int]) -> list[str]:
        """Return expressions that turn the columns of files into those of relations."""
        present = set(attnums)
        columns = [
            f"{_in_file(column) if column.attnum in present else _missing(column)}"
            f" AS {column_name(column.attnum)}"
            for column in self.columns
        ]
        return [*columns, *self.hidden]

    def borrowed_ddl(self, attnums: Iterable[int]) -> str:
        """Return the schema of files of others, which have nothing but these columns."""
        present = set(attnums)
        return ", ".join(
            f"{_file_name(column)} {_kind(column)}"
            for column in self.columns
            if column.attnum in present
        )

    def from_borrowed(
        self, attnums: Iterable[int], version: int, identity: int | None
    ) -> list[str]:
        """Return expressions that turn the columns of a file of others into those of relations.

        Args:
            attnums: Columns present in the file.
            version: Version number of all rows, in microseconds.
            identity: Identity of the first row; None where rows have none.
        """
        given = self.from_files(attnums)[: len(self.columns)]
        columns = [
            *given,
            f"timestamp_micros({version}L) AS {VERSION}",
            f"CAST(NULL AS TIMESTAMP) AS {SUBSEQUENT}",
        ]
        if self.keyed:
            return columns
        number = "CAST(NULL AS BIGINT)"
        if identity is not None:
            number = f"{identity}L + _metadata.row_index"
        return [*columns, f"{number} AS {IDENTITY}"]

    def to_files(self) -> list[str]:
        """Return expressions that turn the columns of relations into those of files."""
        columns = [
            f"{column_name(column.attnum)} AS {_file_name(column)}" for column in self.columns
        ]
        return [*columns, *self.hidden]

    def _hidden_ddl(self) -> list[str]:
        return [
            f"{column.name} {storage_type(column.type_oid, column.typmod)}"
            for column in hidden_columns(keyed=self.keyed)
        ]


def _file_name(column: Column) -> str:
    escaped = column.storage_name.replace("`", "``")
    return f"`{escaped}`"


def _kind(column: Column) -> str:
    return storage_type(column.type_oid, column.typmod)


def _in_file(column: Column) -> str:
    return unbounded(_file_name(column), _kind(column))


def unbounded(expression: str, kind: str) -> str:
    """Keep Spark from asking files which floating-point numbers they have; return the same value.

    Dictionaries and statistics tell zeros of either sign apart, which are equal, and those of
    others leave out NaN, which is the largest number to PostgreSQL and Spark: rows would be
    missing.
    """
    if kind not in {"FLOAT", "DOUBLE"}:
        return expression
    return f"nanvl({expression}, CAST('NaN' AS {kind}))"


def _missing(column: Column) -> str:
    """Return what stands for a column that files do not have."""
    if column.attnum == LEAF:
        return _LEAF
    return storage_literal(column.missing_value, column.type_oid, column.typmod)
