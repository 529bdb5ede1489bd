"""Upkeep of one database: tails that have grown large, hot rows, tables that grow and shrink."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

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
from pgwire_gateway.upkeep.hot_tables import HotTables
from pgwire_gateway.upkeep.residency import PASSING, Residency
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
        self.running = RunningStatement()
        """What it does now and ever; cancelled once and for all."""
        self._database = database
        self._catalog = catalog
        self._compactor = compactor
        self._config = config
        self._residency = self.residency_of(self.running)
        self._hot_tables = HotTables(config, catalog, self._residency.flush)
        self._session: CatalogSession | None = None
        self._written: set[int] = set()
        """Tables that somebody was writing when their tails were to be flushed."""
        self._flushing: dict[int, threading.Lock] = {}
        """By table: held by the statement that has its tail flushed."""

    def residency_of(self, running: RunningStatement) -> Residency:
        """Return what looks after resident tables for a statement, and is cancelled with it."""
        return Residency(self._compactor, self._catalog.bounds, self._config, running)

    def visit(self) -> None:
        """Do what is to be done.

        Raises:
            GatewayError: Nothing can be done in this database, for now or ever.
        """
        session = self._session = self._catalog.admin(self._database)
        try:
            upkeep.wait_at_most(session, upkeep.LOCK_WAIT_MS)
            large = upkeep.large_tails(session, self._config.flush_rows, self._config.flush_bytes)
            self._flush_all(session, [relid for relid in large if relid not in self._written])
            self._hot_tables.visit(self._database, session, self._stopping)
            self._residency.visit(self._database, session, self._stopping)
            # All others come first: each of these may cost the whole time a lock is waited for.
            self._flush_all(session, [relid for relid in large if relid in self._written])
        finally:
            self._session = None
            session.close()

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
        captured = self.residency_of(running)
        try:
            if not captured.flush(session, relid):
                self._flush(session, relid, running)
        except GatewayError as error:
            if running.cancelled or error.sqlstate not in PASSING:
                raise
            session.rollback()

    def stop(self) -> None:
        """Give up what is being done, also when it waits for others' locks."""
        self.running.cancel()
        session = self._session
        if session is not None:
            session.cancel()

    def _stopping(self) -> bool:
        return self.running.cancelled

    def _flush_all(self, session: CatalogSession, relids: list[int]) -> None:
        for relid in relids:
            if self._stopping():
                return
            self._written.discard(relid)
            try:
                self._flush(session, relid, self.running)
            except CatalogUnavailableError:
                raise
            except GatewayError as error:
                session.rollback()
                if error.sqlstate in PASSING:
                    self._written.add(relid)
                elif not self._stopping():
                    logger.warning("upkeep of table %d: %s", relid, error.message)
            except Exception:  # other tables must not wait for what is wrong with this one
                session.rollback()
                logger.exception("upkeep of table %d", relid)

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
