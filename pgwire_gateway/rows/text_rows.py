"""Rows of a journaled table as PostgreSQL's texts, and their keys."""

from collections.abc import Sequence

import pyarrow as pa

from catalog.journal.layout import column_name
from catalog.model import JournalTable
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.catalog_rows import input_columns
from pgwire_gateway.wire_types.changed_rows import TextRow
from rewrite.needs.keys import Key


def text_rows(table: JournalTable, rows: pa.Table) -> list[TextRow]:
    """Return rows of all live columns (``c<attnum>``) as texts; they tell no row identity."""
    columns = [(column_name(column.attnum), column.type_oid) for column in table.columns]
    return [[*row, None] for row in zip(*input_columns(rows, columns), strict=True)]


def key_texts(table: JournalTable, row: TextRow) -> tuple[str, ...]:
    """Return the key of a row."""
    return tuple(str(row[table.columns.index(table.column(attnum))]) for attnum in table.key)


def key_of(table: JournalTable, texts: Sequence[str]) -> Key:
    """Return a key that is given as PostgreSQL's texts, with None for what no row has."""
    return plain_keys.read([table.column(attnum) for attnum in table.key], texts)


def texts_of(table: JournalTable, key: Key) -> tuple[str, ...]:
    """Return a key as PostgreSQL's texts."""
    return plain_keys.written(key_types(table), key)


def key_types(table: JournalTable) -> list[int]:
    """Return the types of the columns of a table's key."""
    return [table.column(attnum).type_oid for attnum in table.key]


def key_row(table: JournalTable, key: Key) -> TextRow:
    """Return a row of which nothing but the key is told."""
    texts = dict(zip(table.key, texts_of(table, key), strict=True))
    return [*(texts.get(column.attnum) for column in table.columns), None]
