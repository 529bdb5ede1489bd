"""Upkeep of one database: tails that have grown large, hot rows, tables that grow and shrink."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from catalog.api import Catalog
from catalog.errors import CatalogUnavailableError, GatewayError
from catalog.failpoints import Failpoint, reach
from catalog.hot import resident_upkeep
from catalog.pg.sqlstate import LOCK_NOT_AVAILABLE, SERIALIZATION_FAILURE, SYSTEM_ERROR
from catalog.session.connections import CatalogSession
from catalog.upkeep import candidates as upkeep
from catalog.upkeep import work as upkeep_work
from catalog.upkeep.work import Work
from pgwire_gateway.config import Config
from pgwire_gateway.spark.compactor import Compactor
from pgwire_gateway.spark.small_files import MAX_BYTES
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.upkeep.failures import PASSING
from pgwire_gateway.upkeep.hot_tables import HotTables
from pgwire_gateway.upkeep.lanes import Lane, Lanes
from pgwire_gateway.upkeep.residency import Residency
from pgwire_gateway.upkeep.tails import Tails
from pgwire_gateway.wire_types.settling import captured_pieces, settled_pieces

logger = logging.getLogger(__name__)

CHECK_S = 0.1
"""Time between two looks whether a statement that waits for another one has been cancelled."""


class DatabaseUpkeep:
    """Looks after the tables of one database; what is wrong with one concerns no other."""

    def __init__(
        self, database: str, catalog: Catalog, compactor: Compactor, config: Config
    ) -> None:
        """Nothing is looked at yet."""
        self._database = database
        self._catalog = catalog
        self._compactor = compactor
        self._config = config
        self._residency = Residency(database, compactor, catalog.bounds, config)
        self._hot_tables = HotTables(database, config, catalog, self._flush_hot)
        self._written: set[int] = set()
        """Tables that somebody was writing when their tails were to be flushed."""
        self._flushing: dict[int, threading.Lock] = {}
        """By table: held by the statement that has its tail flushed."""

    def visit(self, lanes: Lanes) -> None:
        """Do what is to be done.

        Raises:
            GatewayError: Nothing can be done in this database, for now or ever.
        """
        try:
            lanes.end_overdue()
            large = upkeep.large_tails(
                lanes.session(), self._config.flush_rows, self._config.flush_bytes
            )
            written = self._written.intersection(large)
            for relid in large:
                if relid not in written:
                    lanes.attend(relid, partial(self._flush_noting, relid))
            self._hot_tables.visit(lanes)
            self._residency.visit(lanes)
            # All others come first: each of these may cost the whole time a lock is waited for.
            for relid in written:
                lanes.attend(relid, partial(self._flush_noting, relid))
        finally:
            lanes.rest()

    def flush_large(self, relid: int, running: RunningStatement, *, waits: bool = True) -> None:
        """Write a table's tail to files where it is large, unless somebody else has it.

        Args:
            relid: The table.
            running: The statement that wants it; who comes second waits for the first.
            waits: Whether it does.

        Raises:
            GatewayError: 57014 when cancelled, 58000 when the catalog was lost, 55P03 when another
                one is doing it, and is not to be waited for.
        """
        with self._alone(relid, running, waits=waits):
            try:
                session = self._catalog.admin(self._database)
                try:
                    with running.stopping(session.cancel):
                        self._flush_if_large(session, relid, running)
                finally:
                    session.close()
            except CatalogUnavailableError as error:
                # The client's own connection to the catalog is another one.
                raise GatewayError(
                    "could not write recent changes of a table to files",
                    sqlstate=SYSTEM_ERROR,
                    detail=error.message,
                ) from error

    @contextmanager
    def _alone(self, relid: int, running: RunningStatement, *, waits: bool) -> Iterator[None]:
        lock = self._flushing.setdefault(relid, threading.Lock())
        while not lock.acquire(timeout=CHECK_S if waits else 0):
            running.check()
            if not waits:
                raise GatewayError("the table is in use", sqlstate=LOCK_NOT_AVAILABLE)
        try:
            yield
        finally:
            lock.release()

    def _flush_if_large(
        self, session: CatalogSession, relid: int, running: RunningStatement
    ) -> None:
        upkeep.wait_at_most(session, upkeep.LOCK_WAIT_MS)
        if resident_upkeep.tail_bytes(session, relid) <= MAX_BYTES:
            return
        try:
            if not Tails(self._compactor, running).flush(session, relid):
                self._flush(session, relid, running)
        except GatewayError as error:
            if running.cancelled or error.sqlstate not in PASSING:
                raise
            session.rollback()

    def _flush_noting(self, relid: int, lane: Lane) -> None:
        """Write a table's tail to files; note who is to come last as others are writing it."""
        self._written.discard(relid)
        try:
            self._flush(lane.session, relid, lane.running)
        except CatalogUnavailableError:
            raise
        except GatewayError as error:
            lane.session.rollback()
            if error.sqlstate in PASSING and not lane.running.cancelled:
                self._written.add(relid)
            else:
                logger.warning("upkeep of table %d: %s", relid, error.message)

    def _flush_hot(self, lane: Lane, relid: int) -> None:
        Tails(self._compactor, lane.running).flush(lane.session, relid)

    def _flush(self, session: CatalogSession, relid: int, running: RunningStatement) -> None:
        with Work(session, relid, upkeep_work.FLUSH) as work:
            work.begin("reading the tail")
            self._flush_tail(session, relid, work, running)

    def _flush_tail(
        self, session: CatalogSession, relid: int, work: Work, running: RunningStatement
    ) -> None:
        started = time.monotonic()
        # What is written for nothing would be written again at each visit.
        upkeep.await_writer(session, relid)
        with resident_upkeep.tail_read(session, relid) as reading:
            snapshot = reading.snapshot
            if snapshot.seen is not None:
                return  # which is another road from now on
            pieces = captured_pieces(snapshot.table, reading.lines, MAX_BYTES)
            flushed = self._compactor.flush_pieces(
                snapshot, settled_pieces(snapshot, pieces, 0), running
            )
        reach(Failpoint.FLUSH_WRITTEN)
        work.begin("publishing", snapshot.tail_rows)
        try:
            session.begin()
            resident_upkeep.seize(session, relid)
            session.replace(
                relid,
                flushed.added,
                flushed.retired,
                flushed.tail_version,
                expected_state=snapshot.state,
                tail_read=flushed.tail_read,
            )
            reach(Failpoint.FLUSH_PUBLISHED)
            session.commit()
        except GatewayError as error:
            session.rollback()
            # Another flush, VACUUM or TRUNCATE came first; the files are orphans now.
            if error.sqlstate != SERIALIZATION_FAILURE:
                raise
            return
        logger.info(
            'flushed %d row versions of "%s" in %.1f s',
            snapshot.tail_rows,
            snapshot.table.name,
            time.monotonic() - started,
        )
