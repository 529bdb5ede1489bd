"""Upkeep of single tables, next to each other as soon as that of one takes long.

Tables are looked after one by one while each is a matter of moments. When one takes longer, the
next ones are not kept waiting: it goes on by itself, and is left alone until it is done.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from catalog.errors import CatalogUnavailableError
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

CHECK_S: Final = 0.1
"""Time between two looks whether something takes too long, while all lanes are taken."""


@dataclass(frozen=True, slots=True)
class Lane:
    """What one table is looked after with."""

    session: CatalogSession
    """An administrator's, in no transaction."""
    running: RunningStatement
    """Cancelled when that takes too long, or the gateway stops."""


@dataclass(slots=True)
class _Attendance:
    """One table that is being looked after."""

    lane: Lane
    is_late: bool = False
    """Nobody waits for it any more."""
    error: BaseException | None = None
    """What it has ended with, that concerns the whole database."""
    begun_s: float = field(default_factory=time.monotonic)


class Lanes:
    """Where the tables of one database are looked after; each in one lane at a time."""

    def __init__(
        self,
        database: str,
        connect: Callable[[], CatalogSession],
        readers: FileReaders,
        timeout_s: float,
    ) -> None:
        """Nothing is connected yet.

        Args:
            database: The database.
            connect: Returns a new session of an administrator.
            readers: Told of who may be reading files.
            timeout_s: How long a table may take; 0 for as long as it takes.
        """
        self._database = database
        self._connect = connect
        self._readers = readers
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._attended: dict[int, _Attendance] = {}
        """By table."""
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
            candidates.wait_at_most(session, candidates.LOCK_WAIT_MS)
            self._session = session
        return self._session

    def attend(self, relid: int, look_after: Callable[[Lane], None]) -> None:
        """Look after a table, and do not wait for that when it takes long.

        Nothing is done for one that is being looked after, and when all is to stop.

        Raises:
            CatalogUnavailableError: The catalog was lost.
        """
        self.end_overdue()
        if relid in self._attended:
            return
        attendance = _Attendance(Lane(self.session(), RunningStatement()))
        with self._changed:
            if self._stopped:
                return
            self._session = None
            self._attended[relid] = attendance
        self._readers.begin(attendance.lane, self._database)
        threading.Thread(
            target=self._run, args=(relid, attendance, look_after), name="lane", daemon=True
        ).start()
        self._await(relid, attendance)
        if isinstance(attendance.error, CatalogUnavailableError):
            raise attendance.error

    def rest(self) -> None:
        """Let go of what was connected for who asked for tables to be looked after."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def end_overdue(self) -> None:
        """Cancel what takes too long."""
        if not self._timeout_s:
            return
        due_s = time.monotonic() - self._timeout_s
        for attendance in list(self._attended.values()):
            if attendance.begun_s < due_s:
                _cancel(attendance.lane, "canceling upkeep due to upkeep timeout")

    def stop(self) -> None:
        """Give up what is being done, also when it waits for others' locks; nothing else begins."""
        with self._changed:
            self._stopped = True
            attended = list(self._attended.values())
            session = self._session
        for attendance in attended:
            _cancel(attendance.lane, "canceling upkeep as the gateway stops")
        if session is not None:
            session.cancel()

    def _await(self, relid: int, attendance: _Attendance) -> None:
        """Wait until a table has been looked after, or that takes long and there are lanes left."""
        patient_until_s = attendance.begun_s + PATIENCE_S
        with self._changed:
            while self._attended.get(relid) is attendance:
                left_s = patient_until_s - time.monotonic()
                if left_s <= 0 and len(self._attended) < LANES:
                    attendance.is_late = True
                    return
                self._changed.wait(left_s if left_s > 0 else CHECK_S)
                self.end_overdue()

    def _run(self, relid: int, attendance: _Attendance, look_after: Callable[[Lane], None]) -> None:
        try:
            look_after(attendance.lane)
        except CatalogUnavailableError as error:
            attendance.error = error
        except Exception:  # other tables must not wait for what is wrong with this one
            attendance.lane.session.rollback()
            logger.exception("upkeep of table %d", relid)
        finally:
            self._readers.end(attendance.lane)
            self._end(relid, attendance)

    def _end(self, relid: int, attendance: _Attendance) -> None:
        """Give the session back to who waits for the table, if anybody does."""
        session = attendance.lane.session
        with self._changed:
            given_back = not attendance.is_late and attendance.error is None
            if given_back:
                self._session = session
                del self._attended[relid]
                self._changed.notify_all()
        if given_back:
            return
        try:
            # Who waits for the database to be left alone waits for this, too.
            session.close()
        finally:
            with self._changed:
                del self._attended[relid]
                self._changed.notify_all()


def _cancel(lane: Lane, message: str) -> None:
    lane.running.cancel(message)
    lane.session.cancel()
