"""UPDATE, DELETE and MERGE: Spark computes the new versions of the rows, the journal gets them."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import CatalogError, GatewayError, HotRowsError
from catalog.journal.layout import IDENTITY
from catalog.model import JournalTable
from catalog.pg import sqlstate
from catalog.results import CaptureReceipt
from catalog.session import residency, session_state
from pgwire_gateway.dml import merge_sources, reads, temporary_rows, thawed_writes, unlocked_changes
from pgwire_gateway.dml.gathered_rows import gather
from pgwire_gateway.dml.unlocked_changes import UnlockedChange
from pgwire_gateway.hot import announcements, hot_rows
from pgwire_gateway.hot.announcements import NotHotError
from pgwire_gateway.planning.plans import Route
from pgwire_gateway.references import parents
from pgwire_gateway.rows import (
    drawn_values,
    merge_conflicts,
    moved_keys,
    row_search,
    text_rows,
    unique_keys,
)
from pgwire_gateway.rows.journal_writes import JournalWriter
from pgwire_gateway.rows.key_changes import ChangedKeys
from pgwire_gateway.rows.shown_columns import shown_columns
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.session.results import SparkRows, field_descriptions
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.batch_stores import BatchStore
from pgwire_gateway.spark.conservation import require_told
from pgwire_gateway.wire_types.changed_rows import ChangedRows
from rewrite.command import Command, assigned_columns, command, merge_actions
from rewrite.context import RewriteContext
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal
from rewrite.results import RowChange

_SAVEPOINT: Final = "pgwire_change"


def change(call: Invocation) -> StatementResult:
    """Run an UPDATE or DELETE; everything is written when this returns.

    PostgreSQL runs it where the rows are named by their keys, or few; and where Spark cannot.

    Raises:
        GatewayError: 23502, 23505, 23514 for rows that violate a constraint, 40001 when the table
            changed since the snapshot of a REPEATABLE READ transaction.
    """
    if hot_rows.names_rows(call) or not unlocked_changes.applies(call):
        return _change_locked(call)
    with closing(UnlockedChange(call)) as computed:
        return _change_unlocked(call, computed)


def merge(call: Invocation) -> StatementResult:
    """Run a MERGE; everything is written when this returns.

    PostgreSQL runs it where the rows that it can touch are named by their keys, or few.

    Raises:
        GatewayError: As of `change`, and 21000 where several rows of the source change one of the
            target; 0A000 for what neither PostgreSQL nor Spark can do.
    """
    if hot_rows.names_rows(call, by_others=False) or not unlocked_changes.applies(call):
        return _change_locked(call)
    try:
        return hot_rows.run_or_unlock(call, row_search.find)
    except NotHotError:
        return _change_locked(call)
    except Refusal as refusal:
        with told(call, refusal), closing(UnlockedChange(call)) as computed:
            try:
                computed.finish()
            except UnsupportedError as error:
                return _on_hot_rows(call, error)
            return _lock_and_publish(call, computed)


def _lock_and_publish(call: Invocation, computed: UnlockedChange) -> StatementResult:
    version, now = Observer(call.session).observe_for_write(call.plan)
    return _publish(call, computed, version, now)


def _on_hot_rows(call: Invocation, error: UnsupportedError) -> StatementResult:
    """Have PostgreSQL run what Spark cannot compute, where all rows it may need can be hot.

    Raises:
        GatewayError: PostgreSQL's own errors; the error given where that is not possible either.
    """
    unlocked_changes.require_within(call)
    thawing = replace(call, plan=replace(call.plan, route=Route.THAW))
    try:
        return thawed_writes.run(thawing)
    except UnsupportedError as other:
        if not isinstance(other.__cause__, Refusal):
            raise error from other
        with told(call, other.__cause__):
            raise error from other


def by_spark(call: Invocation) -> StatementResult:
    """Run a MERGE as `merge` does, of whatever rows; PostgreSQL does not run it."""
    if not unlocked_changes.applies(call):
        version, observation = Observer(call.session).observe_for_write(call.plan)
        return compute(call, version, observation)
    with closing(UnlockedChange(call)) as computed:
        computed.finish()
        return _lock_and_publish(call, computed)


@contextmanager
def told(call: Invocation, refusal: Refusal) -> Iterator[None]:
    """Tell, besides why Spark cannot run a statement, why PostgreSQL does not, and what helps."""
    try:
        yield
    except GatewayError as error:
        if error.sqlstate == sqlstate.FEATURE_NOT_SUPPORTED and error.detail is None:
            error.detail = f"Nor does PostgreSQL run it on single rows: {refusal}."
            if not isinstance(error, CatalogError):  # after which nothing can be asked
                name = call.session.catalog.observations.relations([call.target])[call.target].name
                error.detail = f'Nor does PostgreSQL run it on single rows of "{name}": {refusal}.'
            own = thawed_writes.HINT_OF_OTHERS if call.plan.is_external else thawed_writes.HINT
            error.hint = error.hint or own
        raise


def _change_locked(call: Invocation) -> StatementResult:
    """Lock the table first, unless the rows are named by their keys, and can be hot."""
    if call.plan.is_external:
        return compute(call, *Observer(call.session).observe_for_write(call.plan))
    began = not call.session.transaction.open
    try:
        done = hot_rows.run_or_lock(call)
    except Refusal:
        return _compute_locked(call, None, began=began)
    if isinstance(done, StatementResult):
        return done
    version, observation = done
    with suppress(Refusal):
        rows = thawed_writes.single_rows(call, observation, binding.bind(call))
        return thawed_writes.change(call, rows, version, began=began)
    return _compute_locked(call, done, began=began)


def _compute_locked(
    call: Invocation, locked: tuple[int, Observation] | None, *, began: bool
) -> StatementResult:
    """Have Spark compute the rows; what it cannot compute PostgreSQL runs.

    Args:
        call: The statement.
        locked: What was told when the table was locked; None where it is still to be locked.
        began: Whether the transaction is for this statement.
    """
    catalog, written = call.session.catalog, call.session.transaction.written
    is_first = locked is None and call.target not in written
    if locked is None and not is_first and session_state.keeps_snapshot(catalog):
        # That it cannot be locked any more (40001) is no reason where it is not to be.
        refused = _refused(call)
        if refused is not None:
            return _on_hot_rows(call, refused)
    if is_first and not began:
        catalog.transaction.savepoint(_SAVEPOINT)
    with ExitStack() as ends:
        try:
            version, now = locked or Observer(call.session).observe_for_write(call.plan)
            query = _prepared(call, now, ends)
        except UnsupportedError as error:
            if began:
                announcements.undo(call)
            elif is_first:
                catalog.transaction.abandon(_SAVEPOINT)
            if is_first:
                written.discard(call.target)
            return _on_hot_rows(call, error)
        done = _run(call, query, version)
    if is_first and not began:
        catalog.transaction.release(_SAVEPOINT)
    return done


def _refused(call: Invocation) -> UnsupportedError | None:
    """Return why Spark cannot compute an UPDATE or a DELETE; None where it can, or may."""
    if command(call.query) is Command.MERGE:
        return None
    observation = Observer(call.session).observe(call.plan.tables, call.plan)
    try:
        with ExitStack() as ends:
            _prepared(call, observation, ends)
    except UnsupportedError as error:
        return error
    return None


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
        try:
            computed.finish()
        except UnsupportedError as error:
            return _on_hot_rows(call, error)
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
        writer.require_references(table, _assigned(call, table))
        if computed.publish(now, version):
            with _closed_on_failure(computed.staged):
                writer.require_unique_keys(table, _assigned(call, table))
            return _result(call, computed.change, computed.staged)
        computed.close()
        return compute(call, version, now)
    batches = computed.rows_now(now)
    if batches is None:
        computed.close()
        return compute(call, version, now)
    context = Observer(call.session).context(call.plan, now, binding.bind(call))
    return write(call, computed.change, context, iter(batches), version)


def compute(call: Invocation, version: int, observation: Observation) -> StatementResult:
    """Have Spark compute the rows of a locked table, and write them."""
    with ExitStack() as ends:
        return _run(call, _prepared(call, observation, ends), version)


@dataclass(frozen=True, slots=True)
class _Query:
    """What Spark is to run, and what that sees."""

    change: RowChange
    observation: Observation
    context: RewriteContext


def _prepared(call: Invocation, observation: Observation, ends: ExitStack) -> _Query:
    """Compile a statement; nothing is written.

    Raises:
        UnsupportedError: Spark cannot compute it.
    """
    observer, bound = Observer(call.session), binding.bind(call)
    seen = observer.narrowed(call.plan, observation, bound)
    context = observer.context(call.plan, seen, bound)
    seen, context = temporary_rows.brought(call, seen, context, ends)
    seen, context = merge_sources.prepared(call, seen, context, ends)
    return _Query(unlocked_changes.compiled(call, context), seen, context)


def _run(call: Invocation, query: _Query, version: int) -> StatementResult:
    observer = Observer(call.session)
    with observer.run(query.change.query, query.observation, call.running) as batches:
        return write(call, query.change, query.context, batches, version)


def nothing(call: Invocation, compiled: RowChange, context: RewriteContext) -> StatementResult:
    """Return the result of a statement that has changed no row."""
    return done(call, compiled, context, ())


def done(
    call: Invocation, compiled: RowChange, context: RewriteContext, batches: Iterable[Any]
) -> StatementResult:
    """Return the result of a statement whose rows, as it has yielded them, are written."""
    table = context.snapshots[call.target].table
    changed = ChangedRows(table, compiled, (), BatchStore(call.returned))
    with _closed_on_failure(changed):
        for batch in batches:
            changed.add(batch)
            changed.take()
    return _result(call, compiled, changed)


def write(
    call: Invocation,
    compiled: RowChange,
    context: RewriteContext,
    batches: Iterator[Any],
    version: int,
) -> StatementResult:
    """Write the rows that a compiled statement has yielded to the table, which is locked."""
    table = context.snapshots[call.target].table
    checks = context.checks.get(call.target, ())
    shown = partial(shown_columns, call)
    changed = ChangedRows(table, compiled, checks, BatchStore(call.returned), shown)
    with _closed_on_failure(changed):
        _write(call, compiled, changed, table, batches, version)
    return _result(call, compiled, changed)


@contextmanager
def _closed_on_failure(changed: ChangedRows) -> Iterator[None]:
    """Forget what is kept for RETURNING, unless all goes well."""
    try:
        yield
    except BaseException:
        changed.close()
        raise


def _write(  # noqa: PLR0913, PLR0917 - what is written, and where
    call: Invocation,
    compiled: RowChange,
    changed: ChangedRows,
    table: JournalTable,
    batches: Iterator[Any],
    version: int,
) -> None:
    writer = JournalWriter(call.session, call.target, call.running)
    assigned = _assigned(call, table)
    # Of other keys files tell nothing where equal values may look different.
    whole = compiled.changes_key and not ChangedKeys.applies(table)
    if compiled.numbers_rows:
        batches = _numbered(call, batches)
    if compiled.drawn:
        batches = drawn_values.filled(call, compiled, batches)
    # Keys that are drawn are not compared before.
    draws_key = not {one.attnum for one in compiled.drawn}.isdisjoint(table.key)
    if not draws_key and gather(changed, batches, *call.inline, whole=whole):
        if compiled.kind == "merge":
            for batch in changed.gathered:
                changed.require_valid(batch)
                merge_conflicts.require_none(call.session, table, batch)
        receipt = _append(call.session, table, compiled, changed, version)
        if table.referencing and not call.plan.seeks:
            # What is appended passes PostgreSQL's table as new rows, whose references are noted.
            parents.confirm(call)
        if receipt is not None:
            writer.require_new_keys(receipt)
            if unique_keys.touched(table, assigned):
                writer.require_new_values(receipt.values)
    else:
        writer.require_references(table, assigned)
        if draws_key:
            writer.write_drawn(table, changed, batches, version)
        else:
            writer.write_changes(table, compiled, changed, batches, version)
        writer.require_unique_keys(table, assigned)


def _numbered(call: Invocation, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield rows of a table without key, the new ones with identities of their own."""
    number = residency.reserve_identities(call.session.catalog, call.target, 1) << 32
    for batch in batches:
        place = batch.schema.get_field_index(IDENTITY)
        given = batch.column(place)
        numbers = number + np.cumsum(given.is_null().to_numpy(zero_copy_only=False)) - 1
        number += given.null_count
        filled = pc.coalesce(given, pa.array(numbers, given.type))
        yield batch.set_column(place, batch.schema.field(place), filled)


def _assigned(call: Invocation, table: JournalTable) -> list[int]:
    """Return the attribute numbers of the columns that an UPDATE or a MERGE assigns."""
    kind = command(call.query)
    if kind is not Command.MERGE:
        return assigned_columns(call.query) if kind is Command.UPDATE else []
    actions = merge_actions(call.query)
    if any(action.command is Command.INSERT for action in actions):
        return [column.attnum for column in table.columns]
    return sorted({attnum for action in actions for attnum in action.assigned})


def _result(call: Invocation, compiled: RowChange, changed: ChangedRows) -> StatementResult:
    verb = compiled.kind.upper()
    if call.columns is None:
        return StatementResult(None, NoRows(), lambda _: f"{verb} {changed.rows}")
    if changed.returning is None:
        raise TypeError(call.plan.route)
    encoder = reads.encoder(call.session, compiled.returning, call.result_formats)
    columns = field_descriptions(call.columns, call.result_formats)
    return StatementResult(columns, SparkRows(changed.returning, encoder), lambda n: f"{verb} {n}")


def _append(
    session: ClientSession,
    table: JournalTable,
    compiled: RowChange,
    rows: ChangedRows,
    version: int,
) -> CaptureReceipt | None:
    """Append rows to the tail; return the receipt of new versions.

    Raises:
        GatewayError: 23505 for rows that take each other's keys, XX001 when rows have got lost.
    """
    gathered = rows.take()
    new, gone = map(rows.new_rows, rows.parted(gathered))
    require_told(table, rows.versions, len(new) + len(gone))
    if not new and not gone:
        return None
    old = rows.old_keys(gathered) if compiled.changes_key else gone
    if compiled.changes_key:
        keys = partial(text_rows.key_texts, table)
        taken = moved_keys.circle(zip(map(keys, old), map(keys, new), strict=True))
        if taken is not None:
            raise unique_keys.duplicate(session, table, unique_keys.primary(table), taken)
    receipt = session.catalog.journals.append(
        compiled.relid, version, new, old, check_keys=compiled.changes_key
    )
    return receipt if new else None
