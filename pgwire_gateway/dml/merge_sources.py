"""The source of a MERGE, read once: where it is not large, what it yields is kept by itself.

So the target is read no further than it can match, whatever the source computes.
"""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.journal.layout import SUBSEQUENT
from catalog.model import SegmentKind
from pgwire_gateway.dml import brought_rows
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.spark.small_files import MAX_BYTES
from pgwire_gateway.wire_types.value_ranges import value_ranges
from pgwire_gateway.wire_types.versions import storage_schema
from rewrite import pipeline
from rewrite.command import Command, command
from rewrite.context import GivenSource, RewriteContext
from rewrite.results import MergeSource


def prepared(
    call: Invocation, observation: Observation, context: RewriteContext, ends: ExitStack
) -> tuple[Observation, RewriteContext]:
    """Return what a statement is compiled against, with the source of a MERGE if it is not large.

    Args:
        call: The statement.
        observation: What it sees.
        context: What it is compiled against.
        ends: What is left when the rows of the statement have been computed.

    Raises:
        GatewayError: What the evaluation of the source meets; 53100 or 58030 when storage fails.
    """
    if command(call.query) is not Command.MERGE:
        return observation, context
    source = pipeline.compile_merge_source(call.query, context)
    rows = None if source is None else _rows(call, source, observation)
    if source is None or rows is None:
        return observation, context
    snapshot = brought_rows.as_table(call, source.table, rows, SegmentKind.DELTA, ends)
    values = {place: rows.column(place).drop_null() for place in source.ranged}
    ranges = {place: found for place, held in values.items() if (found := value_ranges(held))}
    distinct = frozenset(
        place for place, held in values.items() if pc.count_distinct(held).as_py() == len(held)
    )
    relid = source.table.relid
    result = replace(observation.result, snapshots=observation.result.snapshots | {relid: snapshot})
    held = {relid: rows} if snapshot.tail_rows else {}
    seen = replace(observation, result=result, tails=observation.tails | held)
    width = call.services.executor.row_bytes(observation.result.snapshots[call.target])
    is_little = rows.num_rows * width <= MAX_BYTES
    given = GivenSource(snapshot, source.columns, ranges, distinct, is_little)
    return seen, replace(context, given=given)


def _rows(call: Invocation, source: MergeSource, observation: Observation) -> pa.Table | None:
    """Return the rows in storage layout; None where they are too many."""
    schema, taken, size = storage_schema(source.table), [], 0
    with Observer(call.session).run(source.query, observation, call.running) as batches:
        for batch in batches:
            call.running.check()
            size += batch.nbytes
            if size > MAX_BYTES:
                return None
            taken.append(_stored(batch, schema))
    return pa.Table.from_batches(taken, schema).combine_chunks()


def _stored(batch: Any, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns of row versions that it has not."""
    found, size = set(batch.schema.names), batch.num_rows
    number = pa.scalar(1, pa.int64())
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in found
        else pa.nulls(size, field.type)
        if field.name == SUBSEQUENT
        else pa.repeat(number, size).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
