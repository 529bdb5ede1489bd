"""Growing and shrinking: tails of resident tables to files, large tables to Spark, small ones back.

Runs on administrators' sessions, in the background. No statement waits for it longer than it takes
to find that somebody else has the table.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa

from catalog.api import ResidentBounds
from catalog.bookkeeping import calls as bookkeeping
from catalog.errors import CatalogUnavailableError, GatewayError
from catalog.failpoints import Failpoint, reach
from catalog.hot import resident_upkeep
from catalog.hot.resident_upkeep import ResidentTable
from catalog.journal.layout import column_name
from catalog.model import Column, JournalTable, SegmentKind, TableSnapshot
from catalog.pg import sqlstate
from catalog.results import SnapshotRequest, TailRows
from catalog.session import names
from catalog.session.connections import CatalogSession
from catalog.upkeep import work as upkeep_work
from catalog.upkeep.work import Work
from pgwire_gateway.config import Config
from pgwire_gateway.spark.compactor import Compaction, Compactor
from pgwire_gateway.spark.conservation import require_rows
from pgwire_gateway.spark.small_files import MAX_BYTES
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.wire_types.catalog_rows import tail_of
from pgwire_gateway.wire_types.copy_encoder import CopyEncoder, CopyOptions
from pgwire_gateway.wire_types.row_encoder import ResultColumn
from pgwire_gateway.wire_types.settling import (
    captured,
    captured_lines,
    captured_pieces,
    has_marks,
    settle,
    settled_pieces,
)

logger = logging.getLogger(__name__)

MOST_FLUSHES = 3
"""How often a large tail is written to files before what is left of it is merged."""

MOST_COMPACTIONS = 3
"""How often a compaction is begun that a flush, or whoever swaps segments, overtakes."""

OVERTAKEN_S = 0.1
"""How long it waits before."""

MOST_DELTAS = 4
"""Deltas of a resident table that are merged instead of getting another one."""

LOCK_WAIT_MS = 50
"""How long a table's writers may be asked to make way; readers never are."""

BULK_WRITERS = 2
"""A table that no more transactions than these have written lately was loaded, not used."""

REST_S = 10.0
"""A table is at rest when it has not been written for this long."""


RECOUNT_S = 600.0
"""After this time all tables are counted, whatever statistics tell; they do not outlive a crash."""


PAUSE_S = 5.0
"""How long a table is left alone whose upkeep has failed; twice as long when it fails again."""

LONGEST_PAUSE_S = 300.0


@dataclass(frozen=True, slots=True)
class _Failure:
    """Upkeep of a table that has failed, for reasons that may be there no more."""

    changes: int
    asked: str
    """What the table was like then: the changes it had had, and what its owner asked for."""
    count: int
    """How often it has failed since it was like that."""
    until_s: float
    """When it is tried again though nothing has changed, by the monotonic clock."""

    def is_of(self, table: ResidentTable) -> bool:
        """Return whether the table has not changed since."""
        return (self.changes, self.asked) == (table.changes, table.asked)


@dataclass(frozen=True, slots=True)
class _Visit:
    """What a visit of a database has found; times in seconds of the monotonic clock."""

    began_s: float
    counted_s: float
    """When all tables were counted."""
    tables: dict[int, ResidentTable] = field(default_factory=dict)


class Residency:
    """Upkeep of the resident tables of a database."""

    def __init__(
        self,
        compactor: Compactor,
        bounds: ResidentBounds,
        config: Config,
        running: RunningStatement,
    ) -> None:
        self._compactor = compactor
        self._bounds = bounds
        self._config = config
        self._running = running
        self._visits: dict[str, _Visit] = {}
        """The last one of each database."""
        self._failures: dict[tuple[str, int], _Failure] = {}
        """Tables whose upkeep failed when it was tried last."""
        self._told: dict[tuple[str, int], str] = {}
        """What has been logged of tables that stay resident, or whose tails stay."""

    def visit(self, database: str, session: CatalogSession, stopping: Callable[[], bool]) -> None:
        """Look after the tables of one database."""
        visit = self._begin(database, session)
        for table in list(visit.tables.values()):
            if stopping():
                return
            if self._is_left_alone(database, table):
                continue
            if self._attended(database, session, table):
                del visit.tables[table.relid]
        for relid in resident_upkeep.shrunken_tables(session):
            if stopping():
                return
            try:
                self._thaw(session, relid)
            except CatalogUnavailableError:
                raise
            except Exception:  # as above
                session.rollback()
                logger.exception("upkeep of table %d", relid)

    def _attended(self, database: str, session: CatalogSession, table: ResidentTable) -> bool:
        """Look after a table, whatever is wrong with it; return what ``_look_after`` does."""
        try:
            done = self._look_after(database, session, table)
        except CatalogUnavailableError:
            raise
        except GatewayError as error:
            session.rollback()
            if error.sqlstate in PASSING:
                return False
            self._note_failure(database, table)
            if error.sqlstate in UNSTORABLE:
                self._tell(database, table.relid, f"keeps its tail: {error.message}")
            else:
                logger.warning("upkeep of table %d: %s", table.relid, error.message)
        except Exception:  # other tables must not wait for what is wrong with this one
            session.rollback()
            self._note_failure(database, table)
            logger.exception("upkeep of table %d", table.relid)
        else:
            self._failures.pop((database, table.relid), None)
            return done
        return False

    def _is_left_alone(self, database: str, table: ResidentTable) -> bool:
        """Return whether upkeep of a table has failed, and is not to be tried again yet."""
        failure = self._failures.get((database, table.relid))
        if failure is None or not failure.is_of(table):
            return False
        return time.monotonic() < failure.until_s

    def _note_failure(self, database: str, table: ResidentTable) -> None:
        """Leave a table alone for some time: what has failed may cost much."""
        last = self._failures.get((database, table.relid))
        count = last.count + 1 if last is not None and last.is_of(table) else 1
        pause_s = min(PAUSE_S * 2 ** min(count - 1, 16), LONGEST_PAUSE_S)
        failure = _Failure(table.changes, table.asked, count, time.monotonic() + pause_s)
        self._failures[database, table.relid] = failure

    def _begin(self, database: str, session: CatalogSession) -> _Visit:
        """Return what there is; what has not changed since the last visit is not counted again."""
        now = time.monotonic()
        last = self._visits.get(database)
        if last is None or now - last.counted_s > RECOUNT_S:
            last = _Visit(now, now)
        tables = resident_upkeep.resident_tables(session, last.tables, now - last.began_s)
        found = {table.relid: table for table in tables}
        self._visits[database] = visit = _Visit(now, last.counted_s, found)
        return visit

    def _look_after(self, database: str, session: CatalogSession, table: ResidentTable) -> bool:
        """Do what is to be done for a table; tell whether its tail has changed by that."""
        unwanted = table.asked == "never"
        outgrown = table.rows > self._bounds.rows or table.row_bytes > self._bounds.bytes
        resting = (
            unwanted
            or table.rest_s >= REST_S
            or table.writers <= BULK_WRITERS
            or table.rows > self._bounds.hard_rows
        )
        if (unwanted or outgrown) and resting:
            reason = resident_upkeep.obstacle(session, table.relid)
            if reason is None:
                self._freeze(session, table)
                return True
            self._tell(database, table.relid, f"stays resident: {reason}")
        rested = table.tail_rows and table.rest_s >= self._config.flush_age_s
        heavy = table.tail_rows and table.tail_bytes >= self._config.flush_bytes
        if rested or heavy or table.tail_rows >= self._config.flush_rows:
            self.flush(session, table.relid)
            return True
        return False

    def _tell(self, database: str, relid: int, text: str) -> None:
        """Log what there is to say of a table, once."""
        if self._told.get((database, relid)) != text:
            self._told[database, relid] = text
            logger.info("table %d of %s %s", relid, database, text)

    # tails ----------------------------------------------------------------------------------------

    def flush(self, session: CatalogSession, relid: int) -> bool:
        """Write the tail of a resident or hot table to its segments; writers go on meanwhile.

        False, and nothing is done, for a table that is neither.
        """
        with Work(session, relid, upkeep_work.FLUSH) as work:
            work.begin("reading the tail")
            snapshot, rows = _read_whole(session, relid, MAX_BYTES)
            if snapshot.seen is None:
                return False
            if rows is None:
                work.begin("writing files", snapshot.tail_rows)
                snapshot, written = self._written_in_pieces(session, snapshot)
            elif rows.num_rows:
                tail = self._settled(session, snapshot, rows)
                written = self._merged(work, snapshot, tail) or self._written(work, snapshot, tail)
                written = replace(written, tail_read=rows.num_rows)
            else:
                return True
            reach(Failpoint.FLUSH_WRITTEN)
            work.begin("publishing", snapshot.tail_rows)
            session.begin()
            resident_upkeep.seize(session, relid)
            self._replace(session, snapshot, written)
            reach(Failpoint.FLUSH_PUBLISHED)
            session.commit()
        logger.info('flushed %d row versions of "%s"', snapshot.tail_rows, snapshot.table.name)
        return True

    def compact(self, session: CatalogSession, relid: int, *, is_full: bool) -> bool:
        """Merge tail and segments of a resident or hot table into a base and an archive.

        False, and nothing is done, for one that is neither.

        Raises:
            GatewayError: 57014 when cancelled, 55P03 when others keep the table.
        """
        overtaken: GatewayError | None = None
        for _ in range(MOST_COMPACTIONS):
            try:
                return self._compacted_once(session, relid, is_full=is_full)
            except GatewayError as error:
                if error.sqlstate in UNSTORABLE:
                    logger.info("table %d is not compacted: %s", relid, error.message)
                    return True
                if error.sqlstate not in OVERTAKEN:
                    raise
                session.rollback()
                self._running.check()
                overtaken = error
                time.sleep(OVERTAKEN_S)
        if overtaken is not None and overtaken.sqlstate == sqlstate.LOCK_NOT_AVAILABLE:
            raise overtaken
        return True

    def _compacted_once(self, session: CatalogSession, relid: int, *, is_full: bool) -> bool:
        for _ in range(MOST_FLUSHES):
            if resident_upkeep.tail_bytes(session, relid) <= MAX_BYTES:
                break
            self.flush(session, relid)
        with Work(session, relid, upkeep_work.COMPACTION) as work:
            return self._compacted(session, relid, work, is_full=is_full)

    def _compacted(self, session: CatalogSession, relid: int, work: Work, *, is_full: bool) -> bool:
        work.begin("reading the tail")
        snapshot, rows = _read_whole(session, relid)
        if snapshot.seen is None or rows is None:
            return False
        merged: Compaction | None
        if (
            rows.num_rows
            or snapshot.of_kind(SegmentKind.DELTA)
            or (is_full and snapshot.is_borrowed)
            or snapshot.table.division is not None
        ):
            tail = self._settled(session, snapshot, rows)
            work.begin("merging", snapshot.stored_rows + tail.num_rows)
            merged = self._compactor.compact(
                replace(snapshot, tail_rows=tail.num_rows), tail, self._running
            )
        else:
            work.begin("merging", snapshot.stored_rows)
            merged = self._compactor.join_bases(snapshot, self._running)
        if merged is None or not (rows.num_rows or merged.retired):
            return True
        work.begin("publishing", snapshot.stored_rows + rows.num_rows)
        session.begin()
        resident_upkeep.seize(session, relid)
        self._replace(session, snapshot, replace(merged, tail_read=rows.num_rows))
        reach(Failpoint.COMPACTION_PUBLISHED)
        session.commit()
        return True

    def _merged(self, work: Work, snapshot: TableSnapshot, tail: pa.Table) -> Compaction | None:
        """Merge the tail with the deltas when there are many."""
        if len(snapshot.of_kind(SegmentKind.DELTA)) < MOST_DELTAS:
            return None
        work.begin("merging deltas", tail.num_rows)
        return self._compactor.join(snapshot, tail, self._running) or self._compactor.compact(
            replace(snapshot, tail_rows=tail.num_rows), tail, self._running
        )

    def _written(self, work: Work | None, snapshot: TableSnapshot, tail: pa.Table) -> Compaction:
        if not tail.num_rows:
            return Compaction((), (), snapshot.version, 0)
        if work is not None:
            work.begin("writing files", tail.num_rows)
        return self._compactor.flush(snapshot, tail, self._running)

    def _written_in_pieces(
        self, session: CatalogSession, snapshot: TableSnapshot
    ) -> tuple[TableSnapshot, Compaction]:
        """Write a large tail, as it is now; only what depends on older rows is held as a whole."""
        relid, keyed = snapshot.table.relid, bool(snapshot.table.key)
        first = 0 if keyed else resident_upkeep.identity_block(session, relid)
        with resident_upkeep.tail_read(session, relid) as reading:
            snapshot = reading.snapshot
            if snapshot.seen is None or bool(snapshot.table.key) != keyed:
                raise GatewayError(
                    "the table has become another one", sqlstate=sqlstate.SERIALIZATION_FAILURE
                )
            if resident_upkeep.stands_alone(session, relid):
                pieces = captured_pieces(snapshot.table, reading.lines, MAX_BYTES)
                return snapshot, self._compactor.flush_pieces(
                    snapshot, settled_pieces(snapshot, pieces, first), self._running
                )
            rows = captured_lines(snapshot.table, reading.lines)
        written = self._written(None, snapshot, self._settled(session, snapshot, rows))
        return snapshot, replace(written, tail_read=rows.num_rows)

    def _settled(
        self,
        session: CatalogSession,
        snapshot: TableSnapshot,
        rows: pa.Table,
    ) -> pa.Table:
        first = (
            0
            if snapshot.table.key
            else resident_upkeep.identity_block(session, snapshot.table.relid)
        )
        return settle(
            snapshot,
            rows,
            lambda: self._stored(snapshot),
            first,
        )

    def _stored(self, snapshot: TableSnapshot) -> pa.Table:
        """Return the current rows of a table's segments."""
        return self._compactor.live_rows(replace(snapshot, tail_rows=0), self._running)

    def _replace(
        self, session: CatalogSession, snapshot: TableSnapshot, written: Compaction
    ) -> None:
        """Publish what holds a tail; `tail_read` is of what was captured."""
        session.replace(
            snapshot.table.relid,
            written.added,
            written.retired,
            snapshot.version,
            expected_state=snapshot.state,
            seen=snapshot.seen,
            tail_read=written.tail_read,
        )

    def _settle_tail(
        self, session: CatalogSession, snapshot: TableSnapshot, tail: pa.Table
    ) -> None:
        """Write the tail of a tiered table to its segments, under a lock."""
        flushed = self._compactor.flush(snapshot, tail, self._running)
        session.replace(
            snapshot.table.relid,
            flushed.added,
            flushed.retired,
            flushed.tail_version,
            expected_state=snapshot.state,
            tail_read=flushed.tail_read,
        )

    # growing --------------------------------------------------------------------------------------

    def _freeze(self, session: CatalogSession, table: ResidentTable) -> None:
        """Make a table tiered: its rows leave PostgreSQL once the journal has them all in files."""
        started = time.monotonic()
        self.flush(session, table.relid)
        with Work(session, table.relid, upkeep_work.FREEZE) as work:
            work.begin("counting rows", table.rows)
            counted = self._counted(session, table.relid)
            work.begin("moving rows out", table.rows)
            with resident_upkeep.exclusive(session, counted.schema, counted.name, LOCK_WAIT_MS):
                self._move_out(session, table.relid)
        taken_s = time.monotonic() - started
        logger.info('table "%s.%s" is tiered now (%.3f s)', counted.schema, counted.name, taken_s)

    def _counted(self, session: CatalogSession, relid: int) -> JournalTable:
        """Return a table whose journal has as many rows as PostgreSQL holds of it.

        Writers go on: what they write after this snapshot is counted as it is captured.

        Raises:
            GatewayError: XX001 when it has others.
        """
        try:
            resident_upkeep.begin_counting(session, relid)
            snapshot, fetched = _read(session, relid)
            table = snapshot.table
            held = resident_upkeep.held_count(session, table.schema, table.name)
        finally:
            session.rollback()
        if snapshot.seen is None:
            return table  # which is tiered
        tail = settle(snapshot, captured(table, fetched), lambda: self._stored(snapshot))
        whole = replace(snapshot, tail_rows=tail.num_rows)
        require_rows(table, held, self._compactor.live_count(whole, self._running, tail))
        return table

    def _move_out(self, session: CatalogSession, relid: int) -> None:
        """Leave a table to Spark, whose writers are kept away."""
        snapshot, fetched = _read(session, relid)
        rows = captured(snapshot.table, fetched)
        if rows.num_rows and (not snapshot.table.key or has_marks(rows)):
            # A tail of a tiered table has identities, and no marks.
            tail = self._settled(session, snapshot, rows)
            written = self._written(None, snapshot, tail)
            self._replace(session, snapshot, replace(written, tail_read=rows.num_rows))
        resident_upkeep.make_tiered(session, relid)
        reach(Failpoint.MADE_TIERED)

    # shrinking ------------------------------------------------------------------------------------

    def _thaw(self, session: CatalogSession, relid: int) -> None:
        """Make a table resident: its rows are put into the catalog table."""
        try:
            table = _read(session, relid)[0].table
            with (
                Work(session, relid, upkeep_work.THAW) as work,
                _noted(work, "moving rows in"),
                resident_upkeep.exclusive(session, table.schema, table.name, LOCK_WAIT_MS),
            ):
                resident_upkeep.cool(session, relid)
                snapshot, rows = _read(session, relid)
                tail = tail_of(table, rows)
                current = self._compactor.live_rows(snapshot, self._running, tail)
                if current.num_rows:
                    resident_upkeep.silence_triggers(session)
                    columns = [column for column in table.columns if column.generated is None]
                    loaded = names.load(
                        session,
                        names.quoted(table.schema, table.name),
                        [column.name for column in columns],
                        _lines(current, columns),
                    )
                    _require_loaded(table, loaded, current.num_rows)
                if tail.num_rows and not table.key:
                    # Capture adds rows without identities; those of what is there would be lost.
                    self._settle_tail(session, snapshot, tail)
                resident_upkeep.make_resident(session, relid)
                reach(Failpoint.MADE_RESIDENT)
        except CatalogUnavailableError:
            raise
        except GatewayError as error:
            if error.sqlstate not in PASSING:
                logger.warning("table %d could not become resident: %s", relid, error.message)
            return
        logger.info('table "%s.%s" is resident now', table.schema, table.name)


def _require_loaded(table: JournalTable, tag: str, rows: int) -> None:
    """Refuse that PostgreSQL has got other rows than the journal has (XX001)."""
    if tag != f"COPY {rows}":
        raise GatewayError(
            f'table "{table.name}" got {tag.removeprefix("COPY ")} of the {rows} rows'
            " in its journal",
            sqlstate=sqlstate.DATA_CORRUPTED,
            detail="Nothing has been changed.",
        )


PASSING = frozenset(
    {
        sqlstate.LOCK_NOT_AVAILABLE,
        sqlstate.SERIALIZATION_FAILURE,
        sqlstate.UNDEFINED_TABLE,
        sqlstate.QUERY_CANCELED,
        bookkeeping.OUTDATED,
    }
)
"""Failures that say only that somebody else was there; the next visit tries again."""


OVERTAKEN = frozenset({sqlstate.SERIALIZATION_FAILURE, sqlstate.LOCK_NOT_AVAILABLE})
"""What a compaction meets where others have swapped segments, or write the table as a whole."""


UNSTORABLE = frozenset({sqlstate.FEATURE_NOT_SUPPORTED, "22003", "22008"})
"""What reading a tail meets whose values files cannot hold: infinite dates and the like."""


@contextmanager
def _noted(work: Work, phase: str, rows: int | None = None) -> Iterator[None]:
    """Note a phase of work before what follows begins a transaction."""
    work.begin(phase, rows)
    yield


def _read_whole(
    session: CatalogSession, relid: int, most_bytes: int | None = None
) -> tuple[TableSnapshot, pa.Table | None]:
    """Return a table's snapshot and all of its tail, None where it is more bytes than that."""
    with resident_upkeep.tail_read(session, relid) as reading:
        if most_bytes is not None and reading.size_bytes > most_bytes:
            return reading.snapshot, None
        return reading.snapshot, captured_lines(reading.snapshot.table, reading.lines)


def _read(session: CatalogSession, relid: int) -> tuple[TableSnapshot, TailRows]:
    result = session.snapshot([SnapshotRequest(relid)])
    return result.snapshots[relid], result.tails[relid]


def _lines(rows: pa.Table, columns: Sequence[Column]) -> Iterator[bytes | memoryview]:
    """Yield rows of storage layout as lines of COPY's text format."""
    encoder = CopyEncoder(
        [ResultColumn(column.type_oid, -1, 0, column_name(column.attnum)) for column in columns],
        [column.name for column in columns],
        CopyOptions(),
    )
    for batch in rows.to_batches():
        yield from encoder.lines(batch)
