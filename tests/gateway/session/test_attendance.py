"""PostgreSQL stands in for what others do, where it can, and nobody is busy with that."""

import threading
import time

from catalog.errors import CatalogError, CatalogUnavailableError
from pgwire_gateway.session import attendance
from pgwire_gateway.session.attendance import Attendance
from tests.support.waiting import wait_until

PATIENCE_S = 30.0


class Catalog:
    """A session that counts how often somebody waits for its interruption."""

    uses = 0

    def __init__(self, stands_in: bool, interruptions: tuple[CatalogError | None, ...] = ()):
        self._stands_in = stands_in
        self._interruptions = list(interruptions)
        self.asked = self.awaited = 0

    def stand_in(self, _text, wanted):
        self.asked += 1
        return self._stands_in and wanted()

    def interruption(self, _timeout_s):
        # As where something has come that is not for it: nobody waits.
        self.awaited += 1
        return self._interruptions.pop(0) if self._interruptions else None

    def stand_down(self):
        """It does not."""


def test_nobody_is_busy_while_postgresql_does_something_else(monkeypatch):
    monkeypatch.setattr(attendance, "PATIENCE_S", 0.01)
    monkeypatch.setattr(attendance, "LOOK_S", 0.1)
    catalog, begun_s = Catalog(stands_in=False), time.monotonic()
    attending = Attendance(catalog, "COPY", 0.0, lambda _: None)
    time.sleep(0.5)
    assert wait_until(lambda: catalog.asked >= 2)
    attending.end()
    assert catalog.asked <= 5 + (time.monotonic() - begun_s) / attendance.LOOK_S
    assert catalog.awaited == 0


def test_who_interrupts_it_ends_the_statement(monkeypatch):
    monkeypatch.setattr(attendance, "PATIENCE_S", 0.01)
    told, ended = [], threading.Event()

    def end(message):
        told.append(message)
        ended.set()

    catalog = Catalog(True, (None, CatalogError("canceling statement", sqlstate="57014")))
    attending = Attendance(catalog, "SELECT", 0.0, end)
    assert ended.wait(PATIENCE_S)
    attending.end()
    assert told == ["canceling statement"]


def test_a_session_is_not_idle_until_what_was_interrupted_has_ended(monkeypatch):
    monkeypatch.setattr(attendance, "PATIENCE_S", 0.01)
    told, over = [], threading.Event()
    cancelled = CatalogError("canceling statement", sqlstate="57014")
    lost = CatalogUnavailableError("terminating connection", sqlstate="57P01")
    catalog = Catalog(True, (cancelled, None, lost))

    def end(message):
        told.append(message)
        if len(told) > 1:
            over.set()

    attending = Attendance(catalog, "SELECT", 0.0, end)
    assert over.wait(PATIENCE_S)
    time.sleep(0.1)
    assert catalog.awaited == 3
    attending.end()
    assert told == ["canceling statement", "terminating connection"]
