"""Upkeep of single tables, next to each other as soon as that of one takes long.

Tables are looked after one by one while each is a matter of moments. When one takes longer, the
next ones are not kept waiting: it goes on by itself, and is left alone until it is done. Who asks
for tables to be looked after never waits for more than moments: where too much goes on already, a
table is left to the next visit.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from catalog.errors import CatalogUnavailableError, GatewayError
from catalog.pg.sqlstate import LOCK_NOT_AVAILABLE
from catalog.session.connections import CatalogSession
from catalog.upkeep import candidates
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.upkeep.file_readers import FileReaders

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 0.5
"""How long the other tables of a database wait for one."""

LANES: Final = 4
"""Tables of a database that are looked after at the same time: each may hold a piece of a tail in
memory, and a connection to the catalog."""

ALL_LANES: Final = 12
"""Tables of all databases."""

HEAVY_LANES: Final = 2
"""Of these, such that are written anew, of all databases."""

CHECK_S: Final = 0.1
"""How often who waits for a table looks whether it has been cancelled."""

OVERDUE_PAUSE_S: Final = 300.0
"""How long a table is left alone when its upkeep has taken too long."""


@dataclass(frozen=True, slots=True)
class Lane:
    """What one table is looked after with."""

    session: CatalogSession
    """An administrator's, in no transaction."""
    running: RunningStatement
    """Cancelled when that takes too long, or is to be given up."""


@dataclass(slots=True)
class _Attendance:
    """One table that is being looked after."""

    lane: Lane
    is_heavy: bool
    is_late: bool = False
    """Nobody waits for it any more."""
    error: BaseException | None = None
    """What it has ended with, that concerns the whole database."""
    begun_s: float = field(default_factory=time.monotonic)


class Room:
    """How much upkeep goes on in all databases."""

    def __init__(self) -> None:
        """Nothing goes on."""
        self._lock = threading.Lock()
        self._lanes = 0
        self._heavy = 0

    def enter(self, *, is_heavy: bool) -> bool:
        """Take a lane; False where too many are taken."""
        with self._lock:
            if self._lanes >= ALL_LANES or (is_heavy and self._heavy >= HEAVY_LANES):
                return False
            self._lanes += 1
            self._heavy += is_heavy
            return True

    def leave(self, *, is_heavy: bool) -> None:
        """Let a lane go."""
        with self._lock:
            self._lanes -= 1
            self._heavy -= is_heavy


class Lanes:
    """Where the tables of one database are looked after; each in one lane at a time."""

    def __init__(
        self,
        database: str,
        connect: Callable[[], CatalogSession],
        readers: FileReaders,
        room: Room,
        timeout_s: float,
    ) -> None:
        """Nothing is connected yet.

        Args:
            database: The database.
            connect: Returns a new session of an administrator.
            readers: Told of who may be reading files.
            room: What goes on in all databases.
            timeout_s: How long a table may take; 0 for as long as it takes.
        """
        self._database = database
        self._connect = connect
        self._readers = readers
        self._room = room
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._attended: dict[int, _Attendance] = {}
        """By table."""
        self._kept: list[int] = []
        """Tables that somebody else looks after, each as often as that."""
        self._overdue: dict[int, float] = {}
        """Tables that have taken too long, and until when they are left alone (monotonic clock)."""
        self._session: CatalogSession | None = None
        """Of who asks for tables to be looked after, while it is not lent to a lane."""
        self._stopped = False

    @property
    def is_busy(self) -> bool:
        """Return whether a table is being looked after."""
        return bool(self._attended)

    def session(self) -> CatalogSession:
        """Return a session for the time until a table is looked after.

        Raises:
            CatalogUnavailableError: The catalog cannot be reached.
        """
        if self._session is None:
            session = self._connect()
            try:
                candidates.wait_at_most(session, candidates.LOCK_WAIT_MS)
            except BaseException:
                session.close()
                raise
            self._session = session
        return self._session

    def attend(
        self, relid: int, look_after: Callable[[Lane], None], *, is_heavy: bool = False
    ) -> None:
        """Look after a table, and do not wait for that when it takes long.

        Nothing is done for one that is being looked after, where there is no room for another one,
        and when all is to stop.

        Args:
            relid: The table.
            look_after: What is done.
            is_heavy: Whether that writes all of the table.

        Raises:
            CatalogUnavailableError: The catalog was lost.
        """
        if time.monotonic() < self._overdue.get(relid, 0.0):
            return
        attendance = self._begin(relid, is_heavy=is_heavy)
        if attendance is None:
            return
        self._readers.begin(attendance.lane, self._database)
        thread = threading.Thread(
            target=self._run, args=(relid, attendance, look_after), name="lane", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # there are too many threads
            self._end(relid, attendance)
            raise
        self._await(relid, attendance)
        if isinstance(attendance.error, CatalogUnavailableError):
            raise attendance.error

    @contextmanager
    def kept_from(
        self, relid: int, check: Callable[[], None], patience_s: float | None
    ) -> Iterator[None]:
        """Keep away from a table that somebody else looks after while the context lasts.

        Args:
            relid: The table.
            check: Called time and again while it is still being looked after here; what it raises
                ends the wait.
            patience_s: How long that is waited for; None for as long as it takes.

        Raises:
            GatewayError: 55P03 where it takes longer.
        """
        until_s = math.inf if patience_s is None else time.monotonic() + patience_s
        with self._changed:
            self._kept.append(relid)
        try:
            with self._changed:
                while relid in self._attended:
                    if time.monotonic() > until_s:
                        raise GatewayError("the table is in use", sqlstate=LOCK_NOT_AVAILABLE)
                    check()
                    self._changed.wait(CHECK_S)
            yield
        finally:
            with self._changed:
                self._kept.remove(relid)

    def rest(self) -> None:
        """Let go of what was connected for who asked for tables to be looked after."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def end_overdue(self) -> None:
        """Cancel what takes too long."""
        if not self._timeout_s:
            return
        now_s = time.monotonic()
        for relid, attendance in list(self._attended.items()):
            if attendance.begun_s < now_s - self._timeout_s:
                if not attendance.lane.running.cancelled:
                    logger.warning(
                        "upkeep of table %d is given up after %g s", relid, self._timeout_s
                    )
                    self._overdue[relid] = now_s + OVERDUE_PAUSE_S
                _cancel(attendance.lane)

    def give_up(self) -> None:
        """Cancel what is being done, also when it waits for others' locks; it is tried again."""
        for attendance in list(self._attended.values()):
            if not attendance.lane.running.cancelled:
                _cancel(attendance.lane)

    def stop(self) -> None:
        """Give up what is being done; nothing else begins."""
        with self._changed:
            self._stopped = True
            session = self._session
        for attendance in list(self._attended.values()):
            _cancel(attendance.lane)
        if session is not None:
            session.cancel()

    def _begin(self, relid: int, *, is_heavy: bool) -> _Attendance | None:
        """Take a lane for a table; None where it is to have none now."""
        if relid in self._attended or len(self._attended) >= LANES:
            return None
        attendance = _Attendance(Lane(self.session(), RunningStatement()), is_heavy)
        with self._changed:
            if self._stopped or relid in self._kept or not self._room.enter(is_heavy=is_heavy):
                return None
            self._session = None
            self._attended[relid] = attendance
        return attendance

    def _await(self, relid: int, attendance: _Attendance) -> None:
        """Wait until a table has been looked after, or that takes long."""
        with self._changed:
            self._changed.wait_for(lambda: self._attended.get(relid) is not attendance, PATIENCE_S)
            attendance.is_late = True

    def _run(self, relid: int, attendance: _Attendance, look_after: Callable[[Lane], None]) -> None:
        try:
            look_after(attendance.lane)
        except CatalogUnavailableError as error:
            attendance.error = error
        except Exception as error:  # other tables must not wait for what is wrong with this one
            logger.exception("upkeep of table %d", relid)
            try:
                attendance.lane.session.transaction.rollback()
            except GatewayError:
                attendance.error = error
        finally:
            self._end(relid, attendance)

    def _end(self, relid: int, attendance: _Attendance) -> None:
        """Give the session back to who waits for the table, if anybody does."""
        lane = attendance.lane
        self._readers.end(lane)
        with self._changed:
            # A cancellation may arrive when the next statement runs.
            kept = not (attendance.is_late or attendance.error or lane.running.cancelled)
            if kept:
                self._session = lane.session
        if not kept:
            # Who waits for the database to be left alone waits for this, too.
            with suppress(GatewayError):
                lane.session.close()
        self._room.leave(is_heavy=attendance.is_heavy)
        with self._changed:
            del self._attended[relid]
            self._changed.notify_all()


def _cancel(lane: Lane) -> None:
    lane.running.cancel("canceling upkeep")
    lane.session.cancel()
