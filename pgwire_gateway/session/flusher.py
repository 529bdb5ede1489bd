"""Flushes tails that have grown large, in the background."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from catalog import resident_upkeep, upkeep, upkeep_work
from catalog.api import Catalog
from catalog.connections import CatalogSession
from catalog.errors import GatewayError
from catalog.sqlstate import INVALID_CATALOG_NAME, LOCK_NOT_AVAILABLE, SERIALIZATION_FAILURE
from catalog.upkeep_work import Work
from pgwire_gateway.config import Config
from pgwire_gateway.session.hot_tables import HotTables
from pgwire_gateway.session.residency import PASSING, Residency
from pgwire_gateway.spark.compactor import Compactor
from pgwire_gateway.spark.small_files import MAX_BYTES
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.wire_types.settling import captured_pieces, settled_pieces

logger = logging.getLogger(__name__)

PAUSE_S = 2.0
"""Least time between two looks at the tails of the databases written to."""

VISIT_S = 5.0
"""Time between two looks at databases whose resident tables nobody tells of being written."""


class Flusher:
    """One thread that looks at the tails of databases which have been written to."""

    def __init__(self, catalog: Catalog, compactor: Compactor, config: Config) -> None:
        self._catalog = catalog
        self._compactor = compactor
        self._flush_rows = config.flush_rows
        self._flush_bytes = config.flush_bytes
        self._written: set[str] = set()
        self._asked = False
        """Somebody waits for what a visit does."""
        self._visited_s = 0.0
        """When all databases were to be visited, by the monotonic clock."""
        self._changed = threading.Condition()
        self._connected = threading.Lock()
        self._waiting = 0
        """How many want all databases to be left alone."""
        self._stopping = False
        self._running = RunningStatement()
        self._residency = Residency(compactor, catalog.bounds, config, self._running)
        self._hot_tables = HotTables(config, catalog, self._residency.flush)
        self._session: CatalogSession | None = None
        self._thread = threading.Thread(target=self._run, name="flusher", daemon=True)
        self._thread.start()

    def notice(self, database: str) -> None:
        """Remember that a journal of this database was written to."""
        with self._changed:
            self._written.add(database)
            self._changed.notify_all()

    def ask(self, database: str) -> None:
        """Have this database visited without a pause: it was asked for what upkeep does."""
        with self._changed:
            self._asked = True
            self.notice(database)

    def compact(
        self, database: str, relid: int, running: RunningStatement, *, is_full: bool
    ) -> bool:
        """Merge all of a resident or hot table's journal; what cannot be in files stays as it is.

        False, and nothing is done, for a table that is neither.

        Raises:
            GatewayError: 57014 when cancelled.
        """
        session = self._catalog.admin(database)
        try:
            return self._residency.compact(session, relid, running, is_full=is_full)
        finally:
            session.close()

    def flush_large(self, database: str, relid: int) -> None:
        """Write a table's tail to files where it is large, unless somebody else has it."""
        session = self._catalog.admin(database)
        try:
            upkeep.wait_at_most(session, upkeep.LOCK_WAIT_MS)
            if resident_upkeep.tail_bytes(session, relid) > MAX_BYTES:
                # Each does nothing where the table is the other's.
                self._flush_if_there(session, relid, self._residency.flush)
                self._flush_if_there(session, relid, self._flush)
        finally:
            session.close()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep away from all databases while the context lasts."""
        with self._changed:
            self._waiting += 1
        try:
            with self._connected:
                yield
        finally:
            with self._changed:
                self._waiting -= 1
                self._changed.notify_all()

    def stop(self) -> None:
        """End the thread, giving up what it is doing, also when it waits for others' locks."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        while self._thread.is_alive():
            self._running.cancel()
            session = self._session
            if session is not None:
                session.cancel()
            self._thread.join(1.0)

    def _run(self) -> None:
        while (databases := self._next()) is not None:
            for database in databases:
                if not self._stopping:
                    self._visit(database)

    def _visit(self, database: str) -> None:
        """Look after one database, whatever is wrong with it."""
        with self._changed:
            # Locks are not handed on in the order of who waits for them.
            self._changed.wait_for(lambda: self._stopping or not self._waiting)
        try:
            with self._connected:
                self._flush_database(database)
        except GatewayError as error:
            if error.sqlstate == INVALID_CATALOG_NAME:
                self._catalog.forget(database)
            elif not self._stopping and error.sqlstate != LOCK_NOT_AVAILABLE:
                logger.warning('could not flush tails of "%s": %s', database, error.message)
        except Exception:
            logger.exception('could not flush tails of "%s"', database)

    def _next(self) -> list[str] | None:
        """Wait for databases to visit; None when this is to end.

        All of them are visited after one pause: none waits the longer, the more there are.
        """
        with self._changed:
            due_s = self._visited_s + VISIT_S
            self._changed.wait_for(lambda: self._stopping or self._written, _left(due_s))
            self._changed.wait_for(lambda: self._stopping or self._asked, PAUSE_S)
            if self._stopping:
                return None
            self._asked = False
            if not _left(due_s):
                self._visited_s = time.monotonic()
                self._written.update(self._catalog.adopted())
            databases, self._written = sorted(self._written), set()
        return databases

    def _flush_database(self, database: str) -> None:
        session = self._session = self._catalog.admin(database)
        try:
            upkeep.wait_at_most(session, upkeep.LOCK_WAIT_MS)
            for relid in upkeep.large_tails(session, self._flush_rows, self._flush_bytes):
                if not self._stopping:
                    self._flush_if_there(session, relid, self._flush)
            self._hot_tables.visit(database, session, lambda: self._stopping)
            self._residency.visit(database, session, lambda: self._stopping)
        finally:
            self._session = None
            session.close()

    def _flush_if_there(
        self, session: CatalogSession, relid: int, flush: Callable[[CatalogSession, int], None]
    ) -> None:
        try:
            flush(session, relid)
        except GatewayError as error:
            # Other tables must not wait because this one has been dropped, or is in use.
            if self._stopping or error.sqlstate not in PASSING:
                raise
            session.rollback()

    def _flush(self, session: CatalogSession, relid: int) -> None:
        with Work(session, relid, upkeep_work.FLUSH) as work:
            work.begin("reading the tail")
            self._flush_tail(session, relid, work)

    def _flush_tail(self, session: CatalogSession, relid: int, work: Work) -> None:
        started = time.monotonic()
        # What is written for nothing would be written again at each visit.
        upkeep.await_writer(session, relid)
        with resident_upkeep.tail_read(session, relid) as reading:
            snapshot = reading.snapshot
            if snapshot.seen is not None:
                return  # which is another road from now on
            pieces = captured_pieces(snapshot.table, reading.lines, MAX_BYTES)
            flushed = self._compactor.flush_pieces(
                snapshot, settled_pieces(snapshot, pieces, 0), self._running
            )
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
            )
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


def _left(until_s: float) -> float:
    """Return the seconds until a time of the monotonic clock; none when it has passed."""
    return max(until_s - time.monotonic(), 0.0)
