"""Rows kept in the catalog: transfer forms to Arrow storage types, and Arrow to input text."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from catalog.model import Column, JournalTable


def storage_schema(table: JournalTable) -> pa.Schema:
    """Return the schema of a journal's row versions.

    Columns are ``c{attnum}``, ``version_number``, ``subsequent_version_number`` and, for tables
    without a key, ``row_identity``.
    """
    raise NotImplementedError


def tail_table(table: JournalTable, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return the rows of a tail, given as arrays of transfer forms, in storage types.

    Each row holds the live columns in attribute-number order, version number and subsequent
    version number in microseconds and the row identity (ignored for tables with a key).
    """
    raise NotImplementedError


def csv_batches(
    columns: Sequence[Column], chunks: Iterable[bytes], trailing: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield record batches in storage types from CSV of transfer forms, with bounded memory.

    NULL is an unquoted empty field. Chunks may end anywhere. ``trailing`` names further fields of
    each line: version_number, subsequent_version_number, row_identity.
    """
    raise NotImplementedError


def input_columns(
    batch: pa.RecordBatch | pa.Table, columns: Sequence[tuple[str, int]]
) -> list[list[str | None]]:
    """Return, for each (column name, type OID), PostgreSQL's input text of its values."""
    raise NotImplementedError


def input_rows_json(
    batch: pa.RecordBatch | pa.Table, columns: Sequence[tuple[str, int]]
) -> str:
    """Return rows as a JSON array of arrays of PostgreSQL's input text or null.

    Text is independent of session settings: ISO dates, UTC, hexadecimal bytea. A column named
    ``row_identity`` with OID 20 is passed like any other.
    """
    raise NotImplementedError
