"""The layout of row versions in Arrow and in data files."""

from typing import Final

import pyarrow as pa

from catalog.model import JournalTable
from pgwire_gateway.wire_types.registry import arrow_type

VERSION: Final = "version_number"
"""When the row version was written."""
SUBSEQUENT: Final = "subsequent_version_number"
"""When the next version was written, or the row deleted."""
IDENTITY: Final = "row_identity"
"""Hidden identity of the rows of a table without key."""
VERSION_TYPE: Final = pa.timestamp("us", tz="UTC")


def storage_schema(table: JournalTable) -> pa.Schema:
    """Return the schema of a journal's row versions.

    Columns are ``c{attnum}``, ``version_number``, ``subsequent_version_number`` and, for tables
    without a key, ``row_identity``.
    """
    fields = [
        (f"c{column.attnum}", arrow_type(column.type_oid, column.typmod))
        for column in table.columns
    ]
    fields += [(VERSION, VERSION_TYPE), (SUBSEQUENT, VERSION_TYPE)]
    if not table.key:
        fields.append((IDENTITY, pa.int64()))
    return pa.schema(fields)
