"""The gateway's own connections to a database, which make keys hot, and what it remembers of that.

What makes them so is ``catalog/sql/functions/hot_keys.sql``.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.tail import encode_rows
from catalog.errors import CatalogError, CatalogUnavailableError
from catalog.hot.expected_keys import ExpectedKeys
from catalog.hot.hot_keys import Ahead, Reading, Row, Thawed
from catalog.pg import sqlstate
from catalog.pg.types import BOOL, INT8, JSON, OID, TEXT
from catalog.session.connections import CatalogSession

WAIT_MS: Final = 100
"""How long the gateway's connection waits for a lock: whoever has it may wait for the client."""

AUTOVACUUM_MS: Final = 200
"""How long autovacuum may stand in the way of who warms a table, before it is cancelled.

PostgreSQL does that when it looks for deadlocks: later, by default, than the wait has ended.
"""

LONGEST_MS: Final = 10_000
"""How long a call may take in all; it may wait for several locks."""

KEPT: Final = 4
"""Connections that are kept open for later."""

MOST_CONDITIONS: Final = 1_000
"""Conditions that are remembered of a table."""

VAIN_S: Final = 10.0
"""How long a condition is not tried again that had too many rows."""

SEARCH_S: Final = 10.0
"""How long a statement waits at most for others that search the same table."""

CHANGED_S: Final = 10.0
"""How long rows are inserted into a table without a key by locking it, once it has been changed.

Who changes such a table locks it as a whole, and has all rows go cold.
"""

CHECK_S: Final = 0.1
"""Seconds between two looks whether a waiting statement has been cancelled."""


class Thawing:
    """The gateway's own connections to a database, one for each thread that needs one."""

    def __init__(self, connect: Callable[[], CatalogSession]) -> None:
        """Connect when needed, as an administrator."""
        self._connect = connect
        self._idle: list[CatalogSession] = []
        self._warm: set[int] = set()
        self._never: dict[int, int] = {}
        self._unkeyed: dict[int, int] = {}
        self._changed: dict[int, float] = {}
        self._locked_later: set[int] = set()
        self._found: dict[int, tuple[int, set[object]]] = {}
        self._ahead: dict[tuple[int, object], Ahead] = {}
        self._failures: dict[int, float] = {}
        self._vain: dict[tuple[int, object], tuple[int, float]] = {}
        self._asked_for: set[tuple[int, int, object]] = set()
        self.expected = ExpectedKeys()
        self._lock = threading.Lock()
        self._warming = threading.Lock()
        self._searches: dict[int, threading.Lock] = {}

    def heats(self, relid: int) -> int | None:
        """Return the heats that conditions of a table are remembered for."""
        known = self._found.get(relid)
        return None if known is None else known[0]

    def is_warm(self, relid: int) -> bool:
        """Return whether a table was known to be able to have hot rows when it was last asked."""
        return relid in self._warm

    def note_warm(self, relid: int) -> None:
        """Note that a table was found to be able to have hot rows."""
        self._warm.add(relid)

    def note_cold(self, relid: int) -> None:
        """Note that a table was found not to be able to have hot rows."""
        self._warm.discard(relid)

    def is_never(self, relid: int, definitions: int) -> bool:
        """Return whether a table is known to have no hot rows while definitions are these."""
        return self._never.get(relid) == definitions

    def note_never(self, relid: int, definitions: int) -> None:
        """Note that a table with these definitions cannot have hot rows."""
        self._never[relid] = definitions

    def is_unkeyed(self, relid: int, definitions: int) -> bool:
        """Return whether a table is known to have no key while definitions are these."""
        return self._unkeyed.get(relid) == definitions

    def note_unkeyed(self, relid: int, definitions: int) -> None:
        """Note that a table with these definitions has no key."""
        self._unkeyed[relid] = definitions

    def is_changed(self, relid: int, *, in_block: bool) -> bool:
        """Return whether a table without a key is expected to be locked as a whole soon.

        Args:
            relid: The table.
            in_block: Whether by the transaction itself that inserts rows now: two of these that had
                inserted beside each other would wait for each other.
        """
        changed_s = self._changed.get(relid)
        is_recent = changed_s is not None and time.monotonic() < changed_s + CHANGED_S
        return is_recent or (in_block and relid in self._locked_later)

    def note_changed(self, relid: int) -> None:
        """Note that a table without a key is changed as a whole."""
        self._changed[relid] = time.monotonic()

    def note_locked_later(self, relid: int) -> None:
        """Note that a transaction locks a table that it has inserted rows into beside others."""
        self._locked_later.add(relid)

    @contextmanager
    def one_search(self, relid: int, check: Callable[[], None]) -> Iterator[bool]:
        """Let one statement after the other search a table by conditions.

        What one finds the next ones need not look for. That spares work, and no more: PostgreSQL,
        which would find a deadlock, does not see who waits here. So whoever searches waits for
        locks for a moment only, and nobody for him longer than ``SEARCH_S``.

        Args:
            relid: The table.
            check: Called time and again while others search; what it raises ends the wait.

        Yields:
            Whether it has waited for others.
        """
        with self._lock:
            lock = self._searches.setdefault(relid, threading.Lock())
        has_waited, is_held = False, lock.acquire(blocking=False)
        until_s = time.monotonic() + SEARCH_S
        while not is_held and time.monotonic() < until_s:
            has_waited = True
            check()
            is_held = lock.acquire(timeout=CHECK_S)
        try:
            yield has_waited
        finally:
            if is_held:
                lock.release()

    def remembers(self, relid: int, heats: int, condition: object) -> bool:
        """Return whether all rows of a condition are hot.

        They stay so until all rows of the table go cold: cold rows do not change.

        Args:
            relid: The table.
            heats: How often it has begun to have hot rows.
            condition: What is equal only for equal conditions.
        """
        known = self._found.get(relid)
        return known is not None and known[0] == heats and condition in known[1]

    def remember(self, relid: int, heats: int, condition: object) -> None:
        """Note that all rows of a condition have been made hot, lastingly."""
        with self._lock:
            known = self._found.get(relid)
            if known is None or known[0] < heats or len(known[1]) >= MOST_CONDITIONS:
                self._found[relid] = known = (heats, set())
            if known[0] == heats:
                known[1].add(condition)

    def ahead(self, relid: int, heats: int, queue: object) -> Ahead | None:
        """Return what is known to be ahead in a queue; None where its first rows may be cold.

        Args:
            relid: The table.
            heats: How often it has begun to have hot rows.
            queue: What is equal only for equal conditions and orders.
        """
        known = self._ahead.get((relid, queue))
        return known if known is not None and known.heats == heats else None

    def note_ahead(self, relid: int, queue: object, ahead: Ahead) -> None:
        """Note that the first rows of a queue have been made hot, lastingly."""
        with self._lock:
            if len(self._ahead) >= MOST_CONDITIONS:
                self._ahead.clear()
            self._ahead[relid, queue] = ahead

    def forget_ahead(self, relid: int, queue: object, ahead: Ahead) -> None:
        """Note that a query may have got beyond these rows."""
        with self._lock:
            if self._ahead.get((relid, queue)) is ahead:
                del self._ahead[relid, queue]

    def is_first(self, relid: int, heats: int, condition: object) -> bool:
        """Return whether nobody has asked for rows of a condition before, and note that one has."""
        asked = (relid, heats, condition)
        with self._lock:
            if asked in self._asked_for:
                return False
            if len(self._asked_for) >= MOST_CONDITIONS:
                self._asked_for.clear()
            self._asked_for.add(asked)
        return True

    def is_vain(self, relid: int, condition: object, most: int) -> bool:
        """Return whether a condition had more than so many rows lately."""
        found, until_s = self._vain.get((relid, condition), (0, 0.0))
        return most <= found and time.monotonic() < until_s

    def note_vain(self, relid: int, condition: object, most: int) -> None:
        """Note that a condition has more rows than may be made hot, which are so many."""
        if len(self._vain) >= MOST_CONDITIONS:
            self._vain.clear()
        self._vain[relid, condition] = most, time.monotonic() + VAIN_S

    def warm(self, relid: int) -> bool:
        """Let rows of a tiered table become hot; False where they cannot, or others are writing."""
        began_s = time.monotonic()
        with self._warming:
            # Whoever comes second finds it done, or shares the failure.
            if self._failures.get(relid, 0.0) > began_s:
                return False
            done = self._ask("SELECT pg_journal.warm($1)", relid) == b"t"
            if done:
                self._warm.add(relid)
            else:
                self._failures[relid] = time.monotonic()
        return done

    def cool(self, relid: int) -> bool:
        """Let all rows of a table of which too many are hot go cold; False where others write it.

        True as well when somebody else has done it.
        """
        with self._warming:
            return self._ask("SELECT pg_journal.cool_down($1, true)", relid) is not None

    def thaw(
        self,
        relid: int,
        reading: Reading,
        present: Sequence[Row],
        absent: Sequence[Row],
        *,
        lasting: bool = False,
    ) -> Thawed:
        """Make keys hot.

        Args:
            relid: The table.
            reading: When the rows were read.
            present: Their rows: PostgreSQL's text of every live column in attribute-number order.
            absent: The same for keys without a row to be put there, whose other columns are None.
            lasting: Whether somebody will rely on this after a crash of PostgreSQL.
        """
        answer = self._ask(
            "SELECT pg_journal.thaw_keys($1, $2, $3, $4::text::pg_snapshot, $5, $6, $7)",
            relid,
            (str(reading.heats).encode(), INT8),
            (str(reading.epoch).encode(), INT8),
            (reading.seen.encode(), TEXT),
            (encode_rows(present), JSON),
            (encode_rows(absent), JSON),
            (b"t" if lasting else b"f", BOOL),
        )
        return Thawed.BUSY if answer is None else Thawed(answer.decode())

    def is_unseen(self, relid: int, snapshot: str) -> bool:
        """Return whether a snapshot does not show all that was written to hot rows."""
        answer = self._ask("SELECT pg_journal.unseen($1, $2)", relid, (snapshot.encode(), TEXT))
        return answer != b"f"

    def close(self) -> None:
        """Close all connections that nobody is using."""
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def _ask(self, sql: str, relid: int, *values: tuple[bytes | None, int]) -> bytes | None:
        """Return what a function says; None where a lock was not to be had, or no table."""
        with self._lock:
            session = self._idle.pop() if self._idle else None
        if session is not None:
            try:
                return self._asked(session, sql, relid, *values)
            except CatalogUnavailableError:
                self.close()  # the others are as old
        return self._asked(self._connected(), sql, relid, *values)

    def _asked(
        self, session: CatalogSession, sql: str, relid: int, *values: tuple[bytes | None, int]
    ) -> bytes | None:
        try:
            result = session.execute_parameters(
                sql,
                [str(relid).encode(), *(value for value, _ in values)],
                parameter_oids=[OID, *(type_oid for _, type_oid in values)],
            )
            ((answer,),) = result.rows
        except CatalogUnavailableError:
            session.close()
            raise
        except CatalogError as error:
            self._keep(session)
            if error.sqlstate in _PASSING:
                return None
            raise
        except BaseException:
            session.close()
            raise
        self._keep(session)
        return answer

    def _connected(self) -> CatalogSession:
        session = self._connect()
        limits = (
            f"lock_timeout = {WAIT_MS}",
            f"statement_timeout = {LONGEST_MS}",
            f"deadlock_timeout = {AUTOVACUUM_MS}",
        )
        for setting in (*limits, "synchronous_commit = off"):
            for _ in session.execute(f"SET {setting}").rows:
                pass
        return session

    def _keep(self, session: CatalogSession) -> None:
        with self._lock:
            if len(self._idle) < KEPT:
                self._idle.append(session)
                return
        with suppress(CatalogError):
            session.close()


_PASSING: Final = frozenset(
    {
        sqlstate.LOCK_NOT_AVAILABLE,
        sqlstate.SERIALIZATION_FAILURE,
        sqlstate.DEADLOCK_DETECTED,
        sqlstate.QUERY_CANCELED,
        sqlstate.UNDEFINED_TABLE,
        bookkeeping.OUTDATED,
    }
)
