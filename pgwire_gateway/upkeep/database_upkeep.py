"""Upkeep of one database: tails that have grown large, hot rows, tables that grow and shrink."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from catalog.api import Catalog
from catalog.errors import CatalogUnavailableError, GatewayError
from catalog.hot import resident_upkeep
from catalog.pg.sqlstate import LOCK_NOT_AVAILABLE, SYSTEM_ERROR
from catalog.session.connections import CatalogSession
from catalog.upkeep import candidates as upkeep
from pgwire_gateway.config import Config
from pgwire_gateway.spark.compactor import Compactor
from pgwire_gateway.spark.small_files import MAX_BYTES
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.upkeep.cold_tables import ColdTables
from pgwire_gateway.upkeep.failures import PASSING
from pgwire_gateway.upkeep.filed_rows import FiledRows
from pgwire_gateway.upkeep.hot_tables import HotTables
from pgwire_gateway.upkeep.lanes import Lane, Lanes
from pgwire_gateway.upkeep.residency import Residency
from pgwire_gateway.upkeep.tails import Tails
from pgwire_gateway.upkeep.unread_files import UnreadFiles

logger = logging.getLogger(__name__)

NO_TABLE: Final = 0
"""What is looked after when that is no table."""

CHECK_S = 0.1
"""Time between two looks whether a statement that waits for another one has been cancelled."""


class DatabaseUpkeep:
    """Looks after the tables of one database; what is wrong with one concerns no other."""

    def __init__(  # noqa: PLR0913, PLR0917 - what looks after tables, and what it is done with
        self,
        database: str,
        catalog: Catalog,
        compactor: Compactor,
        config: Config,
        files: UnreadFiles,
        filed: FiledRows,
    ) -> None:
        """Nothing is looked at yet."""
        self._database = database
        self._catalog = catalog
        self._compactor = compactor
        self._config = config
        self._files = files
        self._cold_tables = ColdTables(config, compactor)
        self._hot_tables = HotTables(database, config, catalog, filed, self._flush_hot)
        self._residency = Residency(database, compactor, filed, catalog.bounds, config)
        self._flushing: dict[int, threading.Lock] = {}
        """By table: held by the statement that has its tail flushed."""

    def visit(self, lanes: Lanes) -> None:
        """Do what is to be done.

        Raises:
            GatewayError: Nothing can be done in this database, for now or ever.
        """
        try:
            lanes.session()
            written: list[int] = []
            steps = (
                lambda: written.extend(self._cold_tables.flush_all(lanes)),
                lambda: self._hot_tables.visit(lanes),
                lambda: self._residency.visit(lanes),
                lambda: self._cold_tables.compact_all(lanes),
                lambda: self._remove_unread(lanes),
                # All others come first: each of these may cost the whole time a lock is waited for.
                lambda: self._cold_tables.flush_each(written, lanes),
            )
            for step in steps:
                self._try(lanes, step)
        finally:
            lanes.rest()

    def _try(self, lanes: Lanes, step: Callable[[], None]) -> None:
        """Do one thing of a visit; the others do not depend on whether it can be done."""
        try:
            step()
        except CatalogUnavailableError:
            raise
        except GatewayError as error:
            lanes.session().transaction.rollback()
            if error.sqlstate not in PASSING:
                logger.warning('upkeep of "%s": %s', self._database, error.message)

    def _remove_unread(self, lanes: Lanes) -> None:
        if self._files.are_due(lanes.session()) and self._config.autovacuum:
            lanes.attend(NO_TABLE, self._remove_noting)

    def remove_files(self, besides: object | None, check: Callable[[], None]) -> None:
        """Remove files that nobody can be reading any more; one reader needs none of them."""
        session = self._catalog.admin(self._database)
        try:
            self._files.remove(session, besides, check)
        finally:
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
        try:
            if not Tails(self._compactor, running).flush(session, relid):
                self._cold_tables.flush(session, relid, running)
        except GatewayError as error:
            if running.cancelled or error.sqlstate not in PASSING:
                raise
            session.transaction.rollback()

    def _flush_hot(self, lane: Lane, relid: int) -> None:
        Tails(self._compactor, lane.running).flush(lane.session, relid)

    def _remove_noting(self, lane: Lane) -> None:
        try:
            self._files.remove(lane.session, lane, lane.running.check)
        except CatalogUnavailableError:
            raise
        except GatewayError as error:
            lane.session.transaction.rollback()
            if error.sqlstate not in PASSING:
                logger.warning('files of "%s" that nobody reads: %s', self._database, error.message)
