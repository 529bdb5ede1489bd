"""Rows that one statement reads as a table of its own, in memory or, if there are many, a file."""

from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from typing import Final

import pyarrow as pa

from catalog.model import JournalTable, SegmentKind, TableSnapshot
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.spark.warehouse import NO_DATABASE
from pgwire_gateway.spark.writer import SegmentWriter

MOST_IN_MEMORY: Final = 2000
"""More rows are written to a file: Spark plans slowly with many in memory."""

_STATES = count(1)


def as_table(
    call: Invocation, table: JournalTable, rows: pa.Table, kind: SegmentKind, ends: ExitStack
) -> TableSnapshot:
    """Return the table of which these are all rows.

    Args:
        call: The statement.
        table: The table, which nobody else reads.
        rows: Its rows, in storage layout. In memory they are its tail.
        kind: What a file of them is.
        ends: What is left when the statement needs them no more.

    Raises:
        GatewayError: 53100 or 58030 when storage fails.
    """
    number = next(_STATES)
    # Views of tables without rows are told apart by that.
    table, state = replace(table, definition_version=number), f"brought_{number}"
    if rows.num_rows <= MOST_IN_MEMORY:
        return TableSnapshot(table, state, 0, (), rows.num_rows)
    # They are in no journal, so they may be of any size.
    # Their files are in no table's directory; upkeep removes them, should this process not live.
    beside = replace(table, row_bytes=None, location=f"{NO_DATABASE}/{number}")
    writer = SegmentWriter(call.services.engine, beside, kind)
    ends.callback(writer.abort)
    for batch in rows.to_batches():
        writer.write(batch)
    return TableSnapshot(table, state, 0, writer.finish(call.running), 0)
