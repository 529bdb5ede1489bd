"""What keeps tables from becoming tiered while code runs that could find no rows there.

It is a lock on a table of the bookkeeping's own (``pg_journal.code_gate``): advisory locks are
anybody's to take, and their sessions' to let go, by code that runs meanwhile.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from catalog.bookkeeping import calls as bookkeeping
from catalog.errors import CatalogError, CatalogUnavailableError
from catalog.pg import sqlstate
from catalog.session.connections import CatalogSession
from catalog.upkeep.candidates import wait_at_most

WAIT_MS = 100
"""How long a try may wait for a table that is becoming tiered."""


class CodeGate:
    """The gateway's own connection to a database that has the lock while any session needs it."""

    def __init__(self, connect: Callable[[], CatalogSession]) -> None:
        """Connect when needed, as an administrator."""
        self._connect = connect
        self._session: CatalogSession | None = None
        self._users = 0
        self._lock = threading.Lock()

    @contextmanager
    def held(self, session: CatalogSession, check: Callable[[], None]) -> Iterator[None]:
        """Let no table become tiered while the context lasts, or until a block's transaction ends.

        Code outside of transaction blocks may end transactions, which would end its own locks.

        Args:
            session: The client's.
            check: Called time and again while waiting; what it raises ends that.
        """
        if session.transaction_status != "I":
            session.call(bookkeeping.HOLD_CODE)
            yield
            return
        while not self._enter():
            check()
        try:
            yield
        finally:
            self._leave()

    def close(self) -> None:
        """Close the connection, unless somebody needs it."""
        with self._lock:
            if self._users == 0:
                self._drop()

    def _enter(self) -> bool:
        with self._lock:
            if self._users == 0 and not self._acquire():
                return False
            self._users += 1
            return True

    def _acquire(self) -> bool:
        if self._session is not None:
            with suppress(CatalogUnavailableError):
                return self._locked(self._session)
            self._drop()  # it is older than the server
        self._session = self._connect()
        wait_at_most(self._session, WAIT_MS)
        return self._locked(self._session)

    @staticmethod
    def _locked(session: CatalogSession) -> bool:
        session.transaction.begin()
        try:
            for _ in session.execute("LOCK TABLE pg_journal.code_gate IN ROW SHARE MODE").rows:
                pass
        except CatalogError as error:
            session.transaction.rollback()
            if error.sqlstate != sqlstate.LOCK_NOT_AVAILABLE:
                raise
            return False
        return True

    def _leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._session is not None:
                try:
                    self._session.transaction.rollback()
                except CatalogError:
                    self._drop()

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(CatalogError):
                session.close()
