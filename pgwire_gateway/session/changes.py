"""UPDATE and DELETE: Spark computes the new versions of the rows, the journal gets them."""

from contextlib import suppress

from pgwire_gateway.session import binding, hot_rows, reads, thawed_writes
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.journal_writes import JournalWriter
from pgwire_gateway.session.observation import Observer
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.session.results import BatchRows, field_descriptions
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.batches import Batches
from pgwire_gateway.wire_types.changed_rows import ChangedRows
from rewrite import pipeline
from rewrite.command import Command, command
from rewrite.needs.results import Refusal
from rewrite.results import RowChange


def change(call: Invocation) -> StatementResult:
    """Run an UPDATE or DELETE; everything is written when this returns, nothing is committed.

    Raises:
        GatewayError: 23502, 23505, 23514 for rows that violate a constraint, 40001 when the table
            changed since the snapshot of a REPEATABLE READ transaction.
    """
    session = call.session
    observer = Observer(session)
    began = not session.transaction.open
    try:
        done = hot_rows.run_or_lock(call)
    except Refusal:
        done = observer.observe_for_write(call.plan)
    if isinstance(done, StatementResult):
        return done
    version, observation = done
    bound = binding.bind(call)
    with suppress(Refusal):
        rows = thawed_writes.single_rows(call, observation, bound)
        return thawed_writes.change(call, rows, version, began=began)
    observation = observer.narrowed(call.plan, observation, bound)
    writer = JournalWriter(session, call.target, call.running)
    context = observer.context(call.plan, observation, bound)
    updates = command(call.query) is Command.UPDATE
    compiled = (pipeline.compile_update if updates else pipeline.compile_delete)(
        call.query, context
    )
    table = observation.result.snapshots[call.target].table
    changed = ChangedRows(table, compiled, context.checks.get(call.target, ()))
    with observer.run(compiled.query, observation, call.running) as batches:
        if _gather(changed, batches, call.services.config.inline_rows):
            _append(session, writer, compiled, changed, version)
        else:
            writer.write_changes(table, compiled, changed, batches, version)
    verb = "UPDATE" if updates else "DELETE"
    if call.columns is None:
        return StatementResult(None, NoRows(), lambda _: f"{verb} {changed.rows}")
    encoder = reads.encoder(session, compiled.returning, call.result_formats)
    columns = field_descriptions(call.columns, call.result_formats)
    return StatementResult(columns, BatchRows(changed.returning, encoder), lambda n: f"{verb} {n}")


def _gather(rows: ChangedRows, batches: Batches, limit: int) -> bool:
    """Take batches until there are no more (True) or they are too many for the tail (False)."""
    for batch in batches:
        rows.add(batch)
        if rows.rows > limit:
            return False
    return True


def _append(
    session: ClientSession,
    writer: JournalWriter,
    compiled: RowChange,
    rows: ChangedRows,
    version: int,
) -> None:
    gathered = rows.take()
    new = rows.new_rows(gathered)
    if not new:
        return
    if compiled.kind == "delete":
        session.catalog.append(compiled.relid, version, [], new)
        return
    old = rows.old_keys(gathered) if compiled.changes_key else []
    receipt = session.catalog.append(
        compiled.relid, version, new, old, check_keys=compiled.changes_key
    )
    writer.require_new_keys(receipt)
