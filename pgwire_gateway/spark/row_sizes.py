"""How large rows are that go to files: those that could not be read again are refused.

Rows in tails are held to the same bound by `pg_journal.require_size`, in the same words.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import GatewayError
from catalog.journal.layout import SUBSEQUENT, column_name
from catalog.model import JournalTable
from catalog.pg.sqlstate import PROGRAM_LIMIT_EXCEEDED

COLUMN_BYTES: Final = 40
"""What each column counts, the journal's own included, besides values of varying length."""
_JOURNAL_COLUMNS: Final = 3
_MOST_GROWTH: Final = 16
"""How many times larger values may be as text than in memory: numbers in arrays are."""


def bytes_at_least(columns: int) -> int:
    """Return how large a row of so many columns is, besides values of varying length."""
    return COLUMN_BYTES * (columns + _JOURNAL_COLUMNS)


def require_size(table: JournalTable, size: int) -> None:
    """Refuse a row of this size where journals of the table cannot hold it.

    Raises:
        GatewayError: 54000.
    """
    most = table.row_bytes
    if most is not None and size > most:
        raise GatewayError(
            f"row is too big for a journaled table: size {size}, maximum size {most}",
            sqlstate=PROGRAM_LIMIT_EXCEEDED,
            hint="Values count as text; a bytea takes up two characters a byte.",
        )


def require_sizes(table: JournalTable, rows: pa.RecordBatch) -> None:
    """Refuse rows, in the columns of relations, that are too large; tombstones may be of any size.

    They are measured only where the batch is large enough for such a row.

    Raises:
        GatewayError: 54000.
    """
    most = table.row_bytes
    if most is None or not rows.num_rows or rows.nbytes * _MOST_GROWTH <= most:
        return
    sizes = np.full(rows.num_rows, bytes_at_least(len(table.columns)), np.int64)
    for column in table.columns:
        values = rows.column(column_name(column.attnum))
        if _varies(values.type):
            sizes += _text_sizes(values)
    alive = pc.is_null(rows.column(SUBSEQUENT)).to_numpy(zero_copy_only=False)
    require_size(table, int(sizes[alive].max(initial=0)))


def _varies(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or _doubled(kind) or _is_text(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _doubled(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _text_sizes(values: pa.Array) -> Any:
    """Return how many bytes each value has as text, arrays without the quotes in them."""
    kind = values.type
    if pa.types.is_list(kind):
        elements = _text_sizes(values.flatten()) + 1
        parents = pc.list_parent_indices(values).to_numpy(zero_copy_only=False)
        return np.bincount(parents, elements, len(values)).astype(np.int64) + 1
    if not _is_text(kind) and not _doubled(kind):
        values = _as_text(values)
    lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64) * (2 if _doubled(kind) else 1)


def _as_text(values: pa.Array) -> pa.Array:
    """Return values of fixed width as text about as long as PostgreSQL's."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return pa.repeat("t", len(values))
    if pa.types.is_struct(kind) or pa.types.is_interval(kind) or pa.types.is_duration(kind):
        return pa.repeat("1 day 00:00:00", len(values))
    return values.cast(pa.string())
