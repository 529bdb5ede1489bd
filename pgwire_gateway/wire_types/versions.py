"""The layout of row versions in Arrow and in data files."""

from typing import Final

import pyarrow as pa

from catalog.journal.layout import VERSION_COLUMNS, column_name, hidden_columns
from catalog.model import JournalTable
from pgwire_gateway.wire_types.registry import arrow_type

VERSION_TYPE: Final = arrow_type(VERSION_COLUMNS[0].type_oid)
"""Of version numbers."""


def storage_schema(table: JournalTable) -> pa.Schema:
    """Return the schema of a journal's row versions.

    Its columns are those of the table, by number, and then the hidden ones.
    """
    fields = [
        (column_name(column.attnum), arrow_type(column.type_oid, column.typmod))
        for column in table.columns
    ]
    fields += [
        (column.name, arrow_type(column.type_oid, column.typmod))
        for column in hidden_columns(keyed=bool(table.key))
    ]
    return pa.schema(fields)
