"""Temporary tables in statements of Spark's: their rows are brought to it, for that statement.

They are the session's own, so nobody changes them meanwhile.
"""

import json
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

import pyarrow as pa

from catalog.bookkeeping import calls as bookkeeping
from catalog.journal.layout import column_name
from catalog.model import Column, JournalTable, SegmentKind
from catalog.results import Relation
from pgwire_gateway.dml import brought_rows
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.wire_types.catalog_rows import tail_table
from rewrite.command import selected_attributes
from rewrite.context import RewriteContext
from rewrite.errors import UnsupportedError

MOST_ROWS: Final = 200_000
"""Temporary tables of more rows are not brought to Spark."""


def brought(
    call: Invocation, observation: Observation, context: RewriteContext, ends: ExitStack
) -> tuple[Observation, RewriteContext]:
    """Return what a statement is compiled against, with these rows.

    Args:
        call: The statement.
        observation: What it sees.
        context: What it is compiled against.
        ends: Removes what is written for them, when the rows of the statement have been computed.

    Raises:
        UnsupportedError: A temporary table has too many rows, or values that files do not hold.
        GatewayError: 53100 or 58030 when storage fails.
    """
    beside = next((snapshot.table for snapshot in context.snapshots.values()), None)
    if beside is None:  # partitioned tables without partitions: it is refused as what it is
        return observation, context
    for relation in call.plan.temporary:
        relid = relation.relid
        table, rows = _rows(call, relation, beside)
        snapshot = brought_rows.as_table(call, table, rows, SegmentKind.BASE, ends)
        snapshots = observation.result.snapshots | {relid: snapshot}
        observation = replace(
            observation,
            result=replace(observation.result, snapshots=snapshots),
            tails=observation.tails | ({relid: rows} if snapshot.tail_rows else {}),
            latest_only=observation.latest_only | {relid},
        )
        context = replace(context, snapshots=snapshots, latest_only=observation.latest_only)
    return observation, context


def _rows(
    call: Invocation, relation: Relation, beside: JournalTable
) -> tuple[JournalTable, pa.Table]:
    """Return the columns of a temporary table that a statement names, and its rows."""
    named = selected_attributes(call.query).get(relation.relid, frozenset())
    if any(number < 0 for number in named):
        raise UnsupportedError(
            f'system columns of the temporary table "{relation.name}" are not supported in a'
            " statement that Spark runs"
        )
    values = (_number(relation.relid), bookkeeping.array(sorted(named)), _number(MOST_ROWS))
    told = json.loads(call.session.catalog.call(bookkeeping.TEMPORARY_ROWS, *values))
    reason = told["reason"]
    if reason is None and len(told["rows"]) > MOST_ROWS:
        reason = f"more than {MOST_ROWS} rows"
    if reason is not None:
        raise UnsupportedError(
            f'reading the temporary table "{relation.name}", which has {reason}, in a statement'
            " that Spark runs is not supported",
            hint="Write its rows into a table that is not temporary.",
        )
    columns = tuple(
        Column(attnum, name, type_oid, typmod, False, column_name(attnum))
        for attnum, name, type_oid, typmod in told["columns"]
    )
    table = JournalTable(
        relation.relid, beside.schema, relation.name, columns, (), None, 0, beside.location
    )
    numbered = ([*row, 1, None, number] for number, row in enumerate(told["rows"]))
    return table, tail_table(table, list(numbered))


def _number(value: int) -> bytes:
    return str(value).encode()
