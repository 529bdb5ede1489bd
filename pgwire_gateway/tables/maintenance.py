"""Upkeep of journals: VACUUM compacts them; constraints added later have their rows looked at."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from catalog.errors import (
    CatalogError,
    GatewayError,
    OutdatedPlanError,
    OutdatedTransactionError,
)
from catalog.failpoints import Failpoint, reach
from catalog.model import SegmentKind, TableSnapshot
from catalog.pg import sqlstate
from catalog.results import RelationKind
from catalog.session import names
from catalog.statements.splitting import RelationName
from catalog.upkeep import candidates as upkeep
from catalog.upkeep import work as upkeep_work
from catalog.upkeep.work import Work
from pgwire_gateway.hot.announcements import ATTEMPTS
from pgwire_gateway.rows import unique_keys
from pgwire_gateway.rows.journal_writes import JournalWriter
from pgwire_gateway.rows.row_constraints import RowConstraints
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.compactor import Compaction
from pgwire_gateway.spark.statements import RunningStatement

WRITERS_WAIT_MS: Final = 5000
"""How long a VACUUM of tables that it names waits for who writes one of them as a whole.

PostgreSQL's waits as long for the lock it needs to truncate a table (``vacuumlazy.c``).
"""

NO_WAIT_MS: Final = 1
"""The shortest time a lock can be waited for."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How tables are to be vacuumed."""

    is_full: bool
    """Whether files of others are copied that are all there is of a table."""
    skips_locked: bool = False
    """Whether nobody is waited for."""
    told: Collection[str] = ()
    """What the client has been told by PostgreSQL's own VACUUM."""


def manner_of(details: Mapping[str, object], told: Collection[str]) -> Manner:
    """Return how a VACUUM statement of these details is to be done."""
    return Manner(bool(details["is_full"]), bool(details["skips_locked"]), told)


def check_options(session: ClientSession, text: str) -> None:
    """Let PostgreSQL check the options of a VACUUM that names no table.

    Raises:
        CatalogError: What is wrong with them; 25001 in a transaction block.
    """
    try:
        # The options come first, then no such table is found. A comment may end the text.
        for _ in session.catalog.execute(f"{text}\npg_journal.no_table").rows:
            pass
    except CatalogError as error:
        if error.sqlstate != sqlstate.UNDEFINED_TABLE:
            raise


def vacuum(
    session: ClientSession,
    relations: Sequence[RelationName],
    running: RunningStatement,
    manner: Manner,
) -> None:
    """Compact the journals named, or all of the database the role may maintain.

    Each table is compacted in a transaction of its own, as PostgreSQL does. One that somebody is
    writing as a whole for longer than it may be waited for is skipped, with a warning.

    Raises:
        GatewayError: PostgreSQL's errors for names and privileges.
    """
    catalog = session.catalog
    named = [names.relation_oid(catalog, relation) for relation in relations]
    wanted = named or upkeep.maintainable_tables(catalog)
    wait_ms = _wait_ms(session, manner, is_named=bool(named))
    for relid in wanted:  # which grows by the leaves of partitioned tables
        relation = catalog.observations.relations([relid]).get(relid)
        if relation is not None and relation.tree is not None:
            wanted += [leaf.relid for leaf in relation.tree.leaves]
        elif relation is not None and upkeep.may_maintain(catalog, relid):
            # PostgreSQL has said so of others.
            try:
                _vacuum_table(session, relid, running, manner, wait_ms)
            except GatewayError as error:
                if error.sqlstate != sqlstate.LOCK_NOT_AVAILABLE:
                    raise
                _tell_skipped(session, relation.name, manner)
    session.services.flusher.remove_files(
        session.database, None if session.holds_rows else session, running.check
    )


def _wait_ms(session: ClientSession, manner: Manner, *, is_named: bool) -> int:
    """Return how long each table's writers are waited for: never longer than `lock_timeout`."""
    if manner.skips_locked:
        return NO_WAIT_MS
    # One that is in use is not to keep a whole database waiting.
    most_ms = WRITERS_WAIT_MS if is_named else upkeep.LOCK_WAIT_MS
    query = "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'lock_timeout'"
    ((setting,),) = session.catalog.execute(query).rows
    return min(int(setting or b"0") or most_ms, most_ms)


def _tell_skipped(session: ClientSession, name: str, manner: Manner) -> None:
    """Undo what was begun of a table, and tell the client as PostgreSQL tells of SKIP_LOCKED."""
    if session.transaction.open:
        session.catalog.transaction.rollback()
    session.transaction.settle()
    message = f'skipping vacuum of "{name}" --- lock not available'
    if message not in manner.told:
        session.warn(message, sqlstate.LOCK_NOT_AVAILABLE)


def _vacuum_table(
    session: ClientSession, relid: int, running: RunningStatement, manner: Manner, wait_ms: int
) -> None:
    """Compact one journal where its rows are; upkeep may have moved them since it was looked up.

    Raises:
        GatewayError: 55P03 when somebody has it for longer than that.
    """
    catalog, services = session.catalog, session.services
    for _ in range(ATTEMPTS):
        relation = catalog.observations.relations([relid]).get(relid)
        if relation is None or relation.kind not in {
            RelationKind.JOURNALED,
            RelationKind.RESIDENT,
        }:
            return
        _await_writer(session, relid, running, wait_ms)
        warm = services.catalog.thawing(session.database).is_warm(relid)
        if relation.kind is RelationKind.RESIDENT or warm:
            # Who has named it, and no time, wants it to be done.
            patience_s = None if wait_ms == WRITERS_WAIT_MS else wait_ms / 1000
            done = services.flusher.compact(
                session.database,
                relid,
                running,
                is_full=manner.is_full,
                wait_ms=wait_ms,
                patience_s=patience_s,
            )
            if done:
                return
            if relation.kind is RelationKind.RESIDENT:
                continue
        services.flusher.flush_large(
            session.database, relid, running, waits=not manner.skips_locked
        )
        try:
            with _compacting(session, relid):
                session.transaction.begin_implicit()
                upkeep.wait_at_most(catalog, wait_ms, local=True)
                compact(session, relid, running, is_full=manner.is_full)
                session.transaction.end_implicit()
        except (OutdatedPlanError, OutdatedTransactionError):
            if session.transaction.open:
                catalog.transaction.rollback()
            session.transaction.settle()
        else:
            return
    raise GatewayError(
        "a table becomes resident, and tiered, faster than can be followed",
        sqlstate=sqlstate.SERIALIZATION_FAILURE,
    )


def _await_writer(
    session: ClientSession, relid: int, running: RunningStatement, wait_ms: int
) -> None:
    """Wait until nobody writes a table as a whole.

    Raises:
        CatalogError: 55P03 when that takes too long, 57014 when cancelled.
    """
    administrator = session.services.catalog.admin(session.database)
    try:
        upkeep.wait_at_most(administrator, wait_ms)
        with running.stopping(administrator.cancel):
            upkeep.await_writer(administrator, relid)
    finally:
        administrator.close()


@contextmanager
def _compacting(session: ClientSession, relid: int) -> Iterator[None]:
    """Note that a table is compacted, where others can see it."""
    administrator = session.services.catalog.admin(session.database)
    try:
        upkeep.wait_at_most(administrator, upkeep.LOCK_WAIT_MS)
        with Work(administrator, relid, upkeep_work.COMPACTION) as work:
            work.begin("merging")
            yield
    finally:
        administrator.close()


def compact(
    session: ClientSession, relid: int, running: RunningStatement, *, is_full: bool = False
) -> None:
    """Merge deltas and tail of a table into a new base and fill its archive; or small bases alone.

    Writers of the table wait until the transaction ends; readers do not.
    """
    observation = _observe_locked(session, relid)
    snapshot = observation.result.snapshots[relid]
    compactor = session.services.compactor
    compaction: Compaction | None
    has_recent = snapshot.tail_rows or snapshot.of_kind(SegmentKind.DELTA)
    is_divided = snapshot.table.division is not None
    if has_recent or is_divided or (is_full and snapshot.is_borrowed):
        compaction = compactor.compact(snapshot, observation.tails[relid], running)
    else:
        compaction = compactor.join_bases(snapshot, running)
    if compaction is not None and (has_recent or compaction.retired):
        _replace(session, snapshot, compaction)
        reach(Failpoint.COMPACTION_PUBLISHED)


def complete_pending_constraints(
    session: ClientSession, running: RunningStatement, text: str
) -> None:
    """Check the rows of tables that got constraints, and sort them by a new primary key.

    Args:
        session: Whose statement gave them these.
        running: The statement.
        text: The client's text of it.

    Raises:
        GatewayError: 23502, 23505 or 23514 when the rows do not satisfy them.
        UnsupportedError: Spark does not compute a CHECK constraint as PostgreSQL does.
    """
    found = session.catalog.journals.pending_constraints()
    if found:
        session.watch(running, text)
    for pending in found:
        relid, key = pending.relid, pending.primary
        for unique in pending.unique:
            unique_keys.require_unique(session, relid, running, unique)
        rows = RowConstraints(session, relid, running)
        rows.require_not_null(pending.not_null)
        rows.require_checks(pending.checks)
        reach(Failpoint.CHECKED)
        if pending.unique or pending.checks or pending.not_null:
            session.catalog.journals.set_satisfied(relid)
        if not key:
            continue
        JournalWriter(session, relid, running).require_unique(key)
        compact(session, relid, running)
        snapshot = Observer(session).observe([relid]).result.snapshots[relid]
        keyed = replace(snapshot, table=replace(snapshot.table, key=key))
        rekeyed = session.services.compactor.compact(keyed, None, running)
        _replace(session, snapshot, rekeyed)
        session.catalog.journals.set_key(relid)


def _replace(session: ClientSession, snapshot: TableSnapshot, compaction: Compaction) -> None:
    session.catalog.journals.replace(
        snapshot.table.relid,
        compaction.added,
        compaction.retired,
        compaction.tail_version,
        expected_state=snapshot.state,
        # What was captured of hot rows has been settled since it was read.
        tail_read=compaction.tail_read if snapshot.seen is None else snapshot.tail_rows,
    )


def _observe_locked(session: ClientSession, relid: int) -> Observation:
    observer = Observer(session)
    requests = observer.requests([relid])
    session.transaction.written.add(relid)
    _, result = session.catalog.writes.begin_write([relid], requests)
    return observer.complete(requests, result)
