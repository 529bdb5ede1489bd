"""Looks after the databases that have been written to, in the background: when, and how many."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from catalog.api import Catalog
from catalog.errors import GatewayError
from catalog.pg.sqlstate import INVALID_CATALOG_NAME, LOCK_NOT_AVAILABLE
from catalog.upkeep import candidates as upkeep
from pgwire_gateway.config import Config
from pgwire_gateway.spark.compactor import Compactor
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.spark.warehouse import Warehouse
from pgwire_gateway.upkeep.database_upkeep import DatabaseUpkeep
from pgwire_gateway.upkeep.file_readers import FileReaders
from pgwire_gateway.upkeep.filed_rows import FiledRows
from pgwire_gateway.upkeep.lanes import Lanes, Room
from pgwire_gateway.upkeep.tails import Tails
from pgwire_gateway.upkeep.unread_files import UnreadFiles

logger = logging.getLogger(__name__)

PAUSE_S = 2.0
"""Least time between two looks at the tails of the databases written to."""

VISIT_S = 5.0
"""Time between two looks at databases whose resident tables nobody tells of being written."""

VISITORS = 3
"""Databases that are visited at the same time: one that takes long keeps no other waiting."""

CHECK_S = 0.1
"""Time between two looks whether who waits for visits to end still does, and they still go on."""

STOP_S = 1.0
"""Time between two attempts to end what goes on."""


class Flusher:
    """Threads that look at the tails of databases which have been written to."""

    def __init__(
        self,
        catalog: Catalog,
        compactor: Compactor,
        config: Config,
        warehouse: Warehouse,
        filed: FiledRows,
    ) -> None:
        self._catalog = catalog
        self._filed = filed
        self._warehouse = warehouse
        self._compactor = compactor
        self._config = config
        self._written: set[str] = set()
        self._asked = False
        """Somebody waits for what a visit does."""
        self._visited_s = 0.0
        """When all databases were to be visited, by the monotonic clock."""
        self._changed = threading.Condition()
        self._due: dict[str, None] = {}
        """Databases to be visited, in this order."""
        self._busy: set[str] = set()
        """Those that are being visited."""
        self._kept: list[Callable[[str], bool]] = []
        """Tell of databases that are to be left alone."""
        self._upkeep: dict[str, DatabaseUpkeep] = {}
        self._lanes: dict[str, Lanes] = {}
        """Where tables are looked after; visits end while that of some still goes on."""
        self._room = Room()
        self.readers = FileReaders()
        """Who may be reading files, what upkeep reads included."""
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run, name="flusher", daemon=True),
            *(
                threading.Thread(target=self._visit_due, name="upkeep", daemon=True)
                for _ in range(VISITORS)
            ),
        ]
        for thread in self._threads:
            thread.start()

    def notice(self, database: str) -> None:
        """Remember that a journal of this database was written to.

        Each write comes by: nobody is woken up for what is remembered already, which is looked at
        by a visit that has not begun.
        """
        if database in self._written:
            return
        with self._changed:
            self._written.add(database)
            self._changed.notify_all()

    def ask(self, database: str) -> None:
        """Have this database visited without a pause: it was asked for what upkeep does."""
        with self._changed:
            self._asked = True
            self._written.add(database)
            self._changed.notify_all()

    def compact(  # noqa: PLR0913 - how it is done, and how long it may wait for each
        self,
        database: str,
        relid: int,
        running: RunningStatement,
        *,
        is_full: bool,
        wait_ms: int,
        patience_s: float | None,
    ) -> bool:
        """Merge all of a resident or hot table's journal; what cannot be in files stays as it is.

        False, and nothing is done, for a table that is neither. Upkeep that has the table is waited
        for, for so many seconds where these are given, and keeps away from it meanwhile.

        Raises:
            GatewayError: 57014 when cancelled, 55P03 when locks take longer than `wait_ms`, or
                upkeep too long.
        """
        lanes = self._lanes_of(database)
        with lanes.kept_from(relid, running.check, patience_s):
            session = self._catalog.admin(database)
            try:
                upkeep.wait_at_most(session, wait_ms)
                with running.stopping(session.cancel):
                    return Tails(self._compactor, running).compact(session, relid, is_full=is_full)
            finally:
                session.close()

    def flush_large(
        self, database: str, relid: int, running: RunningStatement, *, waits: bool = True
    ) -> None:
        """Write a table's tail to files where it is large, unless somebody else has it.

        Raises:
            GatewayError: 57014 when cancelled, 58000 when the catalog was lost; 55P03 where it
                does not wait for who is doing the same.
        """
        self._of(database).flush_large(relid, running, waits=waits)

    def remove_files(
        self, database: str, besides: object | None, check: Callable[[], None]
    ) -> None:
        """Remove data files of a database that no statement can be reading any more.

        Args:
            database: Its name.
            besides: A reader that is known to need none of them.
            check: Called time and again; what it raises ends it.
        """
        self._of(database).remove_files(besides, check)

    def forget(self) -> None:
        """Forget what was found at former visits."""
        with self._changed:
            self._upkeep.clear()

    @contextmanager
    def paused(
        self,
        concerns: Callable[[str], bool] = lambda _: True,
        check: Callable[[], None] = lambda: None,
    ) -> Iterator[None]:
        """Keep away from databases while the context lasts.

        Args:
            concerns: Tells whether it is this database that is to be left alone.
            check: Called time and again while visits end; what it raises ends the wait.
        """
        with self._changed:
            self._kept.append(concerns)
        try:
            with self._changed:
                while any(map(concerns, self._at_work())):
                    check()
                    for name, lanes in self._lanes.items():
                        if concerns(name):
                            lanes.give_up()
                    self._changed.wait(CHECK_S)
            yield
        finally:
            with self._changed:
                self._kept.remove(concerns)
                self._changed.notify_all()

    def stop(self) -> None:
        """End the threads, giving up what they are doing, also when they wait for others' locks."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        while self._is_alive():
            for lanes in self._all_lanes():
                lanes.stop()
            told_s = time.monotonic()
            while self._is_alive() and time.monotonic() < told_s + STOP_S:
                time.sleep(CHECK_S)

    def _all_lanes(self) -> list[Lanes]:
        with self._changed:
            return list(self._lanes.values())

    def _is_alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads) or bool(self._at_work())

    # when -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (databases := self._next()) is not None:
            for lanes in self._all_lanes():
                lanes.end_overdue()
            with self._changed:
                self._due |= dict.fromkeys(databases)
                self._changed.notify_all()

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
            databases, self._written = self._written, set()
        if not _left(due_s):
            self._visited_s = time.monotonic()
            # Whoever writes comes by: nobody may wait here for a database that is being adopted.
            databases.update(self._catalog.adopted())
        return sorted(databases)

    # visits ---------------------------------------------------------------------------------------

    def _visit_due(self) -> None:
        while (database := self._begin()) is not None:
            try:
                self._visit(database, self._of(database), self._lanes_of(database))
            finally:
                with self._changed:
                    self._busy.remove(database)
                    self._changed.notify_all()

    def _begin(self) -> str | None:
        """Wait for a database that is due and may be visited; None when this is to end."""
        with self._changed:
            while not self._stopping:
                for database in self._due:
                    if self._may_visit(database):
                        del self._due[database]
                        self._busy.add(database)
                        return database
                self._changed.wait()
        return None

    def _may_visit(self, database: str) -> bool:
        return database not in self._busy and not any(kept(database) for kept in self._kept)

    def _at_work(self) -> set[str]:
        """Return the databases that are being visited, or of which a table is looked after."""
        with self._changed:
            attended = [name for name, lanes in self._lanes.items() if lanes.is_busy]
            return self._busy.union(attended)

    def _visit(self, database: str, visited: DatabaseUpkeep, lanes: Lanes) -> None:
        """Look after one database, whatever is wrong with it."""
        try:
            visited.visit(lanes)
        except GatewayError as error:
            if error.sqlstate == INVALID_CATALOG_NAME:
                self._catalog.forget(database)
                with self._changed:
                    self._upkeep.pop(database, None)
                    if not lanes.is_busy:
                        self._lanes.pop(database, None)
            elif not self._stopping and error.sqlstate != LOCK_NOT_AVAILABLE:
                logger.warning('could not flush tails of "%s": %s', database, error.message)
        except Exception:
            logger.exception('could not flush tails of "%s"', database)

    def _of(self, database: str) -> DatabaseUpkeep:
        with self._changed:
            found = self._upkeep.get(database)
            if found is None:
                files = UnreadFiles(database, self._warehouse, self.readers)
                found = DatabaseUpkeep(
                    database, self._catalog, self._compactor, self._config, files, self._filed
                )
                self._upkeep[database] = found
            return found

    def _lanes_of(self, database: str) -> Lanes:
        with self._changed:
            found = self._lanes.get(database)
            if found is None:
                connect = partial(self._catalog.admin, database)
                timeout_s = self._config.upkeep_timeout_s
                found = Lanes(database, connect, self.readers, self._room, timeout_s)
                self._lanes[database] = found
            return found


def _left(until_s: float) -> float:
    """Return the seconds until a time of the monotonic clock; none when it has passed."""
    return max(until_s - time.monotonic(), 0.0)
