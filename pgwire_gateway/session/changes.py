"""UPDATE and DELETE: Spark computes the new versions of the rows, the journal gets them."""

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

from catalog.errors import HotRowsError
from catalog.results import CaptureReceipt
from pgwire_gateway.session import (
    announcements,
    binding,
    hot_rows,
    reads,
    thawed_writes,
    unique_keys,
    unlocked_changes,
)
from pgwire_gateway.session.announcements import NotHotError
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.journal_writes import JournalWriter
from pgwire_gateway.session.observation import Observation, Observer
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.session.results import BatchRows, field_descriptions
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.session.unlocked_changes import UnlockedChange
from pgwire_gateway.wire_types.changed_rows import ChangedRows
from rewrite.command import Command, assigned_columns, command
from rewrite.context import RewriteContext
from rewrite.needs.results import Refusal
from rewrite.results import RowChange


def change(call: Invocation) -> StatementResult:
    """Run an UPDATE or DELETE; everything is written when this returns, nothing is committed.

    Raises:
        GatewayError: 23502, 23505, 23514 for rows that violate a constraint, 40001 when the table
            changed since the snapshot of a REPEATABLE READ transaction.
    """
    if hot_rows.names_rows(call) or not unlocked_changes.applies(call):
        return _change_locked(call)
    with closing(UnlockedChange(call)) as computed:
        return _change_unlocked(call, computed)


def _change_locked(call: Invocation) -> StatementResult:
    """Lock the table first, unless the rows are named by their keys, and can be hot."""
    began = not call.session.transaction.open
    try:
        done = hot_rows.run_or_lock(call)
    except Refusal:
        done = Observer(call.session).observe_for_write(call.plan)
    if isinstance(done, StatementResult):
        return done
    version, observation = done
    with suppress(Refusal):
        rows = thawed_writes.single_rows(call, observation, binding.bind(call))
        return thawed_writes.change(call, rows, version, began=began)
    return _compute(call, version, observation)


def _change_unlocked(call: Invocation, computed: UnlockedChange) -> StatementResult:
    """Lock the table when the rows are known; where these are few, PostgreSQL may change them."""
    for attempt in range(1, announcements.ATTEMPTS + 1):
        refused = False
        try:
            return hot_rows.run_or_unlock(call, computed.find)
        except NotHotError:
            pass
        except Refusal:
            refused = True
        computed.finish()
        # Others may have made rows hot meanwhile, who would have to wait for one that locks.
        few = computed.is_small and not refused
        try:
            version, now = Observer(call.session).observe_for_write(
                call.plan, cools=not few or attempt == announcements.ATTEMPTS
            )
        except HotRowsError:
            call.session.transaction.settle()
            announcements.note_warm(call)
            continue
        return _publish(call, computed, version, now)
    raise NotHotError


def _publish(
    call: Invocation, computed: UnlockedChange, version: int, now: Observation
) -> StatementResult:
    """Write what has been computed before the table was locked, as far as it holds."""
    call.session.transaction.written.add(call.target)
    if computed.staged is not None:
        table = now.result.snapshots[call.target].table
        writer = JournalWriter(call.session, call.target, call.running)
        writer.require_references(table, _assigned(call))
        if computed.publish(now, version):
            writer.require_unique_keys(table, _assigned(call))
            return _result(call, computed.change, computed.staged)
        computed.close()
        return _compute(call, version, now)
    batches = computed.rows_now(now)
    if batches is None:
        computed.close()
        return _compute(call, version, now)
    context = Observer(call.session).context(call.plan, now, binding.bind(call))
    return _write(call, computed.change, context, iter(batches), version)


def _compute(call: Invocation, version: int, observation: Observation) -> StatementResult:
    """Have Spark compute the rows of a locked table, and write them."""
    observer, bound = Observer(call.session), binding.bind(call)
    observation = observer.narrowed(call.plan, observation, bound)
    context = observer.context(call.plan, observation, bound)
    compiled = unlocked_changes.compiled(call, context)
    with observer.run(compiled.query, observation, call.running) as batches:
        return _write(call, compiled, context, batches, version)


def _write(
    call: Invocation,
    compiled: RowChange,
    context: RewriteContext,
    batches: Iterator[Any],
    version: int,
) -> StatementResult:
    writer = JournalWriter(call.session, call.target, call.running)
    table = context.snapshots[call.target].table
    changed = ChangedRows(table, compiled, context.checks.get(call.target, ()))
    assigned = _assigned(call)
    if _gather(changed, batches, call.services.config.inline_rows):
        receipt = _append(call.session, compiled, changed, version)
        if receipt is not None:
            writer.require_new_keys(receipt)
            if unique_keys.touched(table, assigned):
                writer.require_new_values(receipt.values)
    else:
        writer.require_references(table, assigned)
        writer.write_changes(table, compiled, changed, batches, version)
        writer.require_unique_keys(table, assigned)
    return _result(call, compiled, changed)


def _assigned(call: Invocation) -> list[int]:
    """Return the attribute numbers of the columns that an UPDATE assigns."""
    return assigned_columns(call.query) if command(call.query) is Command.UPDATE else []


def _result(call: Invocation, compiled: RowChange, changed: ChangedRows) -> StatementResult:
    verb = compiled.kind.upper()
    if call.columns is None:
        return StatementResult(None, NoRows(), lambda _: f"{verb} {changed.rows}")
    encoder = reads.encoder(call.session, compiled.returning, call.result_formats)
    columns = field_descriptions(call.columns, call.result_formats)
    return StatementResult(columns, BatchRows(changed.returning, encoder), lambda n: f"{verb} {n}")


def _gather(rows: ChangedRows, batches: Iterator[Any], limit: int) -> bool:
    """Take batches until there are no more (True) or they are too many for the tail (False)."""
    for batch in batches:
        rows.add(batch)
        if rows.rows > limit:
            return False
    return True


def _append(
    session: ClientSession, compiled: RowChange, rows: ChangedRows, version: int
) -> CaptureReceipt | None:
    """Append rows to the tail; return the receipt of an UPDATE."""
    gathered = rows.take()
    new = rows.new_rows(gathered)
    if not new:
        return None
    if compiled.kind == "delete":
        session.catalog.append(compiled.relid, version, [], new)
        return None
    old = rows.old_keys(gathered) if compiled.changes_key else []
    return session.catalog.append(
        compiled.relid, version, new, old, check_keys=compiled.changes_key
    )
