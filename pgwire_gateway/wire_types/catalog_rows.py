"""Rows kept in the catalog: transfer forms to Arrow storage types, and Arrow to input text."""

import json
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from catalog.journal.layout import SUBSEQUENT, VERSION
from catalog.model import JournalTable
from catalog.results import TailRows
from pgwire_gateway.wire_types import input_text, type_oids
from pgwire_gateway.wire_types.buffers import as_binary, as_text
from pgwire_gateway.wire_types.catalog_csv import csv_batches
from pgwire_gateway.wire_types.row_encoder import ColumnEncoder, ResultColumn
from pgwire_gateway.wire_types.settings import EncodingSettings
from pgwire_gateway.wire_types.transfer_forms import from_json
from pgwire_gateway.wire_types.versions import VERSION_TYPE, storage_schema

__all__ = [
    "csv_batches",
    "input_columns",
    "input_rows_json",
    "key_texts",
    "key_values",
    "row_versions",
    "storage_schema",
    "tail_of",
    "tail_table",
]

_INPUT_STYLE: Final = EncodingSettings()
"""Styles every session of PostgreSQL reads alike."""


def tail_table(table: JournalTable, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return the rows of a tail, given as arrays of transfer forms, in storage types.

    Each row holds the live columns in attribute-number order, version number and subsequent
    version number in microseconds and the row identity (ignored for tables with a key).
    """
    schema = storage_schema(table)
    if not rows:
        return schema.empty_table()
    fields = list(zip(*rows, strict=True))
    count = len(table.columns)
    arrays = [
        from_json(values, column.type_oid, column.typmod)
        for column, values in zip(table.columns, fields, strict=False)
    ]
    arrays += [
        pa.array(values, pa.int64()).cast(VERSION_TYPE) for values in fields[count : count + 2]
    ]
    if not table.key:
        arrays.append(pa.array(fields[count + 2], pa.int64()))
    return pa.Table.from_arrays(arrays, schema=schema)


def tail_of(table: JournalTable, rows: TailRows) -> pa.Table:
    """Return the rows of a tail that the catalog has sent, in storage types."""
    pieces = [tail_table(table, piece) for piece in rows.pieces()]
    return pa.concat_tables(pieces) if pieces else storage_schema(table).empty_table()


def row_versions(batch: pa.RecordBatch, table: JournalTable, version: int) -> pa.RecordBatch:
    """Return new rows (``c{attnum}`` and perhaps ``row_identity``) as versions of one number.

    Columns the batch lacks are NULL.
    """
    size = batch.num_rows
    given = {
        VERSION: pa.repeat(pa.scalar(version, pa.int64()), size).cast(VERSION_TYPE),
        SUBSEQUENT: pa.nulls(size, VERSION_TYPE),
    }
    schema = storage_schema(table)
    arrays = []
    for field in schema:
        if field.name in given:
            arrays.append(given[field.name])
        elif field.name in batch.schema.names:
            arrays.append(batch.column(field.name).cast(field.type))
        else:
            arrays.append(pa.nulls(size, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def input_columns(
    batch: pa.RecordBatch | pa.Table, columns: Sequence[tuple[str, int]]
) -> list[list[str | None]]:
    """Return, for each (column name, type OID), PostgreSQL's input text of its values."""
    parts = batch.to_batches() if isinstance(batch, pa.Table) else [batch]
    encoders = [
        ColumnEncoder(ResultColumn(type_oid, -1, 0, name), _INPUT_STYLE)
        for name, type_oid in columns
    ]
    return [
        [text for part in parts for text in as_text(as_binary(column.encode(part))).to_pylist()]
        for column in encoders
    ]


def input_rows(
    batch: pa.RecordBatch, columns: Sequence[ResultColumn]
) -> list[tuple[str | None, ...]]:
    """Return the rows of a result as PostgreSQL's input text of all values."""
    encoders = [ColumnEncoder(column, _INPUT_STYLE) for column in columns]
    texts = (as_text(as_binary(column.encode(batch))).to_pylist() for column in encoders)
    return list(zip(*texts, strict=True))


def input_rows_json(batch: pa.RecordBatch | pa.Table, columns: Sequence[tuple[str, int]]) -> str:
    """Return rows as a JSON array of arrays of PostgreSQL's input text or null.

    Text is independent of session settings: ISO dates, UTC, hexadecimal bytea. A column named
    ``row_identity`` with OID 20 is passed like any other.
    """
    rows = zip(*input_columns(batch, columns), strict=True)
    return json.dumps(list(rows), ensure_ascii=False, separators=(",", ":"))


def key_texts(batch: pa.RecordBatch, types: Sequence[int]) -> list[list[str]]:
    """Return each row of a batch, whose columns have the given types in order, as texts."""
    columns = list(zip(batch.schema.names, types, strict=False))
    texts = input_columns(batch, columns)
    return [["null" if text is None else text for text in row] for row in zip(*texts, strict=True)]


def key_values(types: Sequence[int], key: Iterable[Any]) -> tuple[Any, ...]:
    """Return a key given in transfer forms as values of statement parameters, dates as numbers."""
    return tuple(
        _KEY_FORMS.get(type_oid, input_text.parser(type_oid))(value)
        if isinstance(value, str)
        else value
        for type_oid, value in zip(types, key, strict=True)
    )


_KEY_FORMS: Final[dict[int, Callable[[str], Any]]] = {
    type_oids.NUMERIC: Decimal,
    type_oids.INTERVAL: lambda text: tuple(map(int, text.split())),
}
