"""Growing and shrinking: large tables to Spark, small ones back; tails of resident ones to files.

Runs on administrators' sessions, in the background. No statement waits for it longer than it takes
to find that somebody else has the table.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from catalog.api import ResidentBounds
from catalog.errors import CatalogUnavailableError, GatewayError
from catalog.failpoints import Failpoint, reach
from catalog.hot import resident_upkeep
from catalog.hot.resident_upkeep import RESIDENT, TIERED, ResidentTable
from catalog.journal.layout import column_name
from catalog.model import Column, JournalTable
from catalog.pg import sqlstate
from catalog.session import names
from catalog.session.connections import CatalogSession
from catalog.upkeep import work as upkeep_work
from catalog.upkeep.work import Work
from pgwire_gateway.config import Config
from pgwire_gateway.spark.compactor import Compaction, Compactor
from pgwire_gateway.spark.conservation import require_rows, require_same
from pgwire_gateway.upkeep.failures import PASSING, UNSTORABLE, Failures
from pgwire_gateway.upkeep.filed_rows import FiledRows
from pgwire_gateway.upkeep.lanes import Lane, Lanes
from pgwire_gateway.upkeep.tails import Tails, read
from pgwire_gateway.wire_types.catalog_rows import tail_of
from pgwire_gateway.wire_types.copy_encoder import CopyEncoder, CopyOptions
from pgwire_gateway.wire_types.row_encoder import ResultColumn
from pgwire_gateway.wire_types.settling import captured, has_marks, settle

logger = logging.getLogger(__name__)

LOCK_WAIT_MS = 50
"""How long a table's writers may be asked to make way; readers never are."""

BULK_WRITERS = 2
"""A table that no more transactions than these have written lately was loaded, not used."""

REST_S = 10.0
"""A table is at rest when it has not been written for this long."""


RECOUNT_S = 600.0
"""After this time all tables are counted, whatever statistics tell; they do not outlive a crash."""


SAMPLE = 20
"""How many rows are compared with their files before a table becomes tiered."""

NOTHING_WRITTEN = Compaction((), (), 0, 0)
"""No row of a tail goes to files."""


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
        database: str,
        compactor: Compactor,
        filed: FiledRows,
        bounds: ResidentBounds,
        config: Config,
    ) -> None:
        """Nothing has been looked at yet."""
        self._database = database
        self._compactor = compactor
        self._filed = filed
        self._bounds = bounds
        self._config = config
        self._last: _Visit | None = None
        self._failures = Failures()
        self._told: set[tuple[int, str]] = set()
        """What has been logged of tables that stay resident, or whose tails stay."""

    def visit(self, lanes: Lanes) -> None:
        """Look after the tables that need it."""
        tables = dict(self._begin(lanes.session()).tables)
        for table in tables.values():
            if self._is_due(table) and not self._failures.keep_away(table.relid, _state(table)):
                lanes.attend(table.relid, partial(self._attend, table))
        shrunken = resident_upkeep.shrunken_tables(lanes.session())
        for relid, asked in shrunken.items():
            if not self._failures.keep_away(relid, (TIERED, asked)):
                lanes.attend(relid, partial(self._thaw, relid, asked))
        self._failures.retain({*tables, *shrunken})

    def _begin(self, session: CatalogSession) -> _Visit:
        """Return what there is; what has not changed since the last visit is not counted again."""
        now, last = time.monotonic(), self._last
        if last is None or now - last.counted_s > RECOUNT_S:
            last = _Visit(now, now)
        tables = resident_upkeep.resident_tables(session, dict(last.tables), now - last.began_s)
        self._last = _Visit(now, last.counted_s, {table.relid: table for table in tables})
        return self._last

    def _is_due(self, table: ResidentTable) -> bool:
        return self._is_to_grow(table) or self._is_to_flush(table)

    def _is_to_grow(self, table: ResidentTable) -> bool:
        """Return whether a table is to become tiered, if it can."""
        unwanted = table.asked == "never"
        outgrown = table.rows > self._bounds.rows or table.row_bytes > self._bounds.bytes
        return unwanted or (
            outgrown
            and (
                table.rest_s >= REST_S
                or table.writers <= BULK_WRITERS
                or table.rows > self._bounds.hard_rows
            )
        )

    def _is_to_flush(self, table: ResidentTable) -> bool:
        rested = table.tail_rows and table.rest_s >= self._config.flush_age_s
        heavy = table.tail_rows and table.tail_bytes >= self._config.flush_bytes
        return bool(rested or heavy or table.tail_rows >= self._config.flush_rows)

    def _attend(self, table: ResidentTable, lane: Lane) -> None:
        """Look after a table, whatever is wrong with it."""
        try:
            self._look_after(lane, table)
        except CatalogUnavailableError:
            raise
        except GatewayError as error:
            lane.session.transaction.rollback()
            if error.sqlstate in PASSING:
                return
            self._failures.note(table.relid, _state(table))
            if error.sqlstate in UNSTORABLE:
                self._tell(table.relid, f"keeps its tail: {error.message}")
            else:
                logger.warning("upkeep of table %d: %s", table.relid, error.message)
        except Exception:
            self._failures.note(table.relid, _state(table))
            raise
        else:
            self._failures.forget(table.relid)

    def _look_after(self, lane: Lane, table: ResidentTable) -> None:
        """Do what is to be done for a table."""
        if self._is_to_grow(table):
            reason = resident_upkeep.obstacle(lane.session, table.relid)
            if reason is None:
                self._freeze(lane, table)
                self._count_again(table)
                return
            self._tell(table.relid, f"stays resident: {reason}")
        if self._is_to_flush(table):
            self._tails(lane).flush(lane.session, table.relid)
            self._count_again(table)

    def _count_again(self, table: ResidentTable) -> None:
        """Note that a table's tail is another one now."""
        if self._last is not None:
            self._last.tables.pop(table.relid, None)

    def _tell(self, relid: int, text: str) -> None:
        """Log what there is to say of a table, once."""
        if (relid, text) not in self._told:
            self._told.add((relid, text))
            logger.info("table %d of %s %s", relid, self._database, text)

    def _tails(self, lane: Lane) -> Tails:
        return Tails(self._compactor, lane.running)

    # growing --------------------------------------------------------------------------------------

    def _freeze(self, lane: Lane, table: ResidentTable) -> None:
        """Make a table tiered: its rows leave PostgreSQL once the journal has them all in files."""
        started = time.monotonic()
        session = lane.session
        self._tails(lane).flush(session, table.relid)
        with Work(session, table.relid, upkeep_work.FREEZE) as work:
            work.begin("counting rows", table.rows)
            counted = self._counted(lane, table.relid)
            work.begin("comparing rows", SAMPLE)
            found = self._filed.differing(session, table.relid, SAMPLE)
            require_same(counted, found)
            work.begin("moving rows out", table.rows)
            with resident_upkeep.exclusive(session, table.relid, RESIDENT, LOCK_WAIT_MS):
                self._move_out(lane, table.relid)
        taken_s = time.monotonic() - started
        logger.info('table "%s.%s" is tiered now (%.3f s)', counted.schema, counted.name, taken_s)

    def _counted(self, lane: Lane, relid: int) -> JournalTable:
        """Return a table whose journal has as many rows as PostgreSQL holds of it.

        Writers go on: what they write after this snapshot is counted as it is captured.

        Raises:
            GatewayError: XX001 when it has others.
        """
        session = lane.session
        try:
            resident_upkeep.begin_counting(session, relid)
            resident_upkeep.require_residency(session, relid, RESIDENT)
            snapshot, fetched = read(session, relid)
            table = snapshot.table
            held = resident_upkeep.held_count(session, relid)
        finally:
            session.transaction.rollback()
        stored = partial(self._tails(lane).stored, snapshot)
        tail = settle(snapshot, captured(table, fetched), stored)
        whole = replace(snapshot, tail_rows=tail.num_rows)
        require_rows(table, held, self._compactor.live_count(whole, lane.running, tail))
        return table

    def _move_out(self, lane: Lane, relid: int) -> None:
        """Leave a table to Spark, whose writers are kept away."""
        session, tails = lane.session, self._tails(lane)
        snapshot, fetched = read(session, relid)
        rows = captured(snapshot.table, fetched)
        written = NOTHING_WRITTEN
        if rows.num_rows and (not snapshot.table.key or has_marks(rows)):
            # A tail of a tiered table has identities, and no marks.
            tail = tails.settled(session, snapshot, rows)
            written = replace(tails.written(None, snapshot, tail), tail_read=rows.num_rows)
        with self._compactor.publishing(written):
            if written.tail_read:
                tails.publish(session, snapshot, written)
            resident_upkeep.make_tiered(session, relid)
        reach(Failpoint.MADE_TIERED)

    # shrinking ------------------------------------------------------------------------------------

    def _thaw(self, relid: int, asked: str, lane: Lane) -> None:
        """Make a table resident: its rows are put into the catalog table.

        Args:
            relid: The table.
            asked: What its owner asked for when it was listed.
            lane: What it is looked after with.
        """
        session = lane.session
        try:
            with (
                Work(session, relid, upkeep_work.THAW) as work,
                _noted(work, "moving rows in"),
                resident_upkeep.exclusive(session, relid, TIERED, LOCK_WAIT_MS),
            ):
                if not resident_upkeep.is_shrunken(session, relid):
                    self._failures.forget(relid)
                    return  # it has grown, or its owner asks for something else
                resident_upkeep.cool(session, relid)
                snapshot, rows = read(session, relid)
                table = snapshot.table
                tail = tail_of(table, rows)
                current = self._compactor.live_rows(snapshot, lane.running, tail)
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
                written = NOTHING_WRITTEN
                if tail.num_rows and not table.key:
                    # Capture adds rows without identities; those of what is there would be lost.
                    written = self._compactor.flush(snapshot, tail, lane.running)
                with self._compactor.publishing(written):
                    if written.tail_read:
                        self._tails(lane).publish(session, snapshot, written)
                    resident_upkeep.make_resident(session, relid)
                reach(Failpoint.MADE_RESIDENT)
        except CatalogUnavailableError:
            raise
        except GatewayError as error:
            if error.sqlstate not in PASSING:
                self._failures.note(relid, (TIERED, asked))
                logger.warning("table %d could not become resident: %s", relid, error.message)
            return
        except Exception:
            self._failures.note(relid, (TIERED, asked))
            raise
        self._failures.forget(relid)
        logger.info('table "%s.%s" is resident now', table.schema, table.name)


def _state(table: ResidentTable) -> tuple[int, str]:
    """Return what a table is like: the changes it has had, and what its owner asks for."""
    return table.changes, table.asked


def _require_loaded(table: JournalTable, tag: str, rows: int) -> None:
    """Refuse that PostgreSQL has got other rows than the journal has (XX001)."""
    if tag != f"COPY {rows}":
        raise GatewayError(
            f'table "{table.name}" got {tag.removeprefix("COPY ")} of the {rows} rows'
            " in its journal",
            sqlstate=sqlstate.DATA_CORRUPTED,
            detail="Nothing has been changed.",
        )


@contextmanager
def _noted(work: Work, phase: str, rows: int | None = None) -> Iterator[None]:
    """Note a phase of work before what follows begins a transaction."""
    work.begin(phase, rows)
    yield


def _lines(rows: pa.Table, columns: Sequence[Column]) -> Iterator[bytes | memoryview]:
    """Yield rows of storage layout as lines of COPY's text format."""
    encoder = CopyEncoder(
        [ResultColumn(column.type_oid, -1, 0, column_name(column.attnum)) for column in columns],
        [column.name for column in columns],
        CopyOptions(),
    )
    for batch in rows.to_batches():
        yield from encoder.lines(batch)
