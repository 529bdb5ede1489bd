"""Tables of one database are looked after next to each other as soon as one of them takes long."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from catalog.errors import CatalogUnavailableError, GatewayError
from catalog.pg.sqlstate import LOCK_NOT_AVAILABLE, QUERY_CANCELED
from catalog.upkeep import candidates
from pgwire_gateway.upkeep import lanes as lanes_module
from pgwire_gateway.upkeep.file_readers import FileReaders
from pgwire_gateway.upkeep.lanes import (
    ALL_LANES,
    HEAVY_LANES,
    LANES,
    OVERDUE_PAUSE_S,
    Lane,
    Lanes,
    Room,
)

PATIENCE_S = 30.0

TIMEOUT_S = 600.0


class Session:
    def __init__(self) -> None:
        self.transaction = self
        self.cancelled = threading.Event()
        self.closed = False
        self.rolled_back = 0

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        self.closed = True

    def rollback(self) -> None:
        self.rolled_back += 1


class Upkeep:
    """Lanes whose sessions are kept, and tables that take until they are let go."""

    def __init__(self, timeout_s: float = 0.0) -> None:
        self.sessions: list[Session] = []
        self.readers = FileReaders()
        self.room = Room()
        self.lanes = Lanes("d", cast("Any", self.connect), self.readers, self.room, timeout_s)
        self.let_go = threading.Event()
        self.done: list[int] = []

    def connect(self) -> Session:
        self.sessions.append(Session())
        return self.sessions[-1]

    def quick(self, relid: int) -> None:
        """Look after a table, and wait for that."""
        self.lanes.attend(relid, lambda _: self.done.append(relid))

    def slow(self, relid: int, *, is_heavy: bool = False) -> None:
        """Look after a table for so long that nobody waits for it."""

        def look_after(lane: Lane) -> None:
            while not self.let_go.wait(0.01):
                lane.running.check()
            self.done.append(relid)

        with pytest.MonkeyPatch.context() as impatient:
            impatient.setattr(lanes_module, "PATIENCE_S", 0.01)
            self.lanes.attend(relid, look_after, is_heavy=is_heavy)

    def is_idle(self) -> bool:
        return not self.lanes.is_busy


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not take long is waited for, however busy the machine is."""
    monkeypatch.setattr(lanes_module, "PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(candidates, "wait_at_most", lambda *_: None)


@pytest.fixture
def upkeep() -> Iterator[Upkeep]:
    made = Upkeep()
    yield made
    made.let_go.set()
    wait_until(made.is_idle)


def wait_until(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_tables_that_are_quickly_done_share_one_session(upkeep: Upkeep) -> None:
    for relid in range(20):
        upkeep.quick(relid)
    assert upkeep.done == list(range(20))
    assert len(upkeep.sessions) == 1
    upkeep.lanes.rest()
    assert upkeep.sessions[0].closed


def test_no_table_waits_for_one_that_takes_long(upkeep: Upkeep) -> None:
    upkeep.slow(1)
    for relid in (2, 3):
        upkeep.quick(relid)
    assert upkeep.done == [2, 3]
    assert len(upkeep.sessions) == 2
    upkeep.let_go.set()
    wait_until(upkeep.is_idle)
    assert upkeep.done == [2, 3, 1]
    assert [session.closed for session in upkeep.sessions] == [True, False]


def test_a_table_is_looked_after_in_one_lane_at_a_time(upkeep: Upkeep) -> None:
    upkeep.slow(1)
    upkeep.quick(1)
    assert upkeep.done == []
    upkeep.let_go.set()
    wait_until(upkeep.is_idle)
    upkeep.quick(1)
    assert upkeep.done == [1, 1]


def test_a_table_that_somebody_else_looks_after_is_left_alone(upkeep: Upkeep) -> None:
    with upkeep.lanes.kept_from(1, lambda: None, None):
        upkeep.quick(1)
        upkeep.quick(2)
        assert upkeep.done == [2]
    upkeep.quick(1)
    assert upkeep.done == [2, 1]


def test_a_table_that_is_being_looked_after_is_waited_for(upkeep: Upkeep) -> None:
    upkeep.slow(1)
    asked: list[None] = []

    def check() -> None:
        asked.append(None)
        upkeep.let_go.set()

    with upkeep.lanes.kept_from(1, check, None):
        assert upkeep.done == [1]
    assert asked


def test_who_waits_for_a_table_can_be_cancelled(upkeep: Upkeep) -> None:
    upkeep.slow(1)

    def check() -> None:
        raise GatewayError("canceled", sqlstate=QUERY_CANCELED)

    with (
        pytest.raises(GatewayError, match="canceled"),
        upkeep.lanes.kept_from(1, check, None),
    ):
        pytest.fail("it is being looked after")
    upkeep.let_go.set()
    wait_until(upkeep.is_idle)
    upkeep.quick(1)
    assert upkeep.done == [1, 1]


def test_who_does_not_wait_longer_for_a_table_is_told_that_it_is_in_use(upkeep: Upkeep) -> None:
    upkeep.slow(1)
    with (
        pytest.raises(GatewayError) as refused,
        upkeep.lanes.kept_from(1, lambda: None, 0.05),
    ):
        pytest.fail("it is being looked after")
    assert refused.value.sqlstate == LOCK_NOT_AVAILABLE


def test_quick_tables_are_looked_after_while_all_other_lanes_are_taken(upkeep: Upkeep) -> None:
    for relid in range(1, LANES):
        upkeep.slow(relid)
    upkeep.quick(LANES)
    assert upkeep.done == [LANES]


def test_nobody_waits_for_a_lane(upkeep: Upkeep) -> None:
    for relid in range(1, LANES + 1):
        upkeep.slow(relid)
    begun_s = time.monotonic()
    upkeep.quick(LANES + 1)
    assert time.monotonic() - begun_s < PATIENCE_S / 2
    assert upkeep.done == []
    upkeep.let_go.set()
    wait_until(upkeep.is_idle)
    upkeep.quick(LANES + 1)
    assert sorted(upkeep.done) == list(range(1, LANES + 2))


def test_few_tables_are_written_anew_at_the_same_time(upkeep: Upkeep) -> None:
    for relid in range(1, HEAVY_LANES + 2):
        upkeep.slow(relid, is_heavy=True)
    upkeep.quick(LANES)
    upkeep.let_go.set()
    wait_until(upkeep.is_idle)
    assert sorted(upkeep.done) == [*range(1, HEAVY_LANES + 1), LANES]


def test_databases_have_so_many_lanes_together(upkeep: Upkeep) -> None:
    for _ in range(ALL_LANES):
        assert upkeep.room.enter(is_heavy=False)
    upkeep.quick(1)
    assert upkeep.done == []
    upkeep.room.leave(is_heavy=False)
    upkeep.quick(1)
    assert upkeep.done == [1]


def test_files_are_read_until_the_last_lane_is_left(upkeep: Upkeep) -> None:
    upkeep.slow(1)
    assert upkeep.readers.unread("d", ["file"]) == frozenset()
    upkeep.let_go.set()
    wait_until(upkeep.is_idle)
    assert upkeep.readers.unread("d", ["file"]) == {"file"}


def test_what_takes_too_long_is_given_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    upkeep, now_s, passed_s = Upkeep(timeout_s=TIMEOUT_S), time.monotonic, 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s() + passed_s)
    upkeep.slow(1)
    upkeep.lanes.end_overdue()
    assert not upkeep.sessions[0].cancelled.is_set()
    assert upkeep.lanes.is_busy
    passed_s += TIMEOUT_S
    upkeep.lanes.end_overdue()
    wait_until(upkeep.is_idle)
    upkeep.quick(2)
    assert "upkeep of table 1 is given up after 600 s" in "\n".join(caplog.messages)
    assert upkeep.sessions[0].cancelled.is_set()
    assert not upkeep.sessions[1].cancelled.is_set()
    # It would take as long again.
    upkeep.quick(1)
    assert upkeep.done == [2]
    passed_s += OVERDUE_PAUSE_S
    upkeep.quick(1)
    assert upkeep.done == [2, 1]


def test_who_wants_a_database_left_alone_has_it_given_up(upkeep: Upkeep) -> None:
    upkeep.slow(1)
    upkeep.lanes.give_up()
    wait_until(upkeep.is_idle)
    assert upkeep.sessions[0].closed
    upkeep.quick(1)
    assert upkeep.done == [1]


def test_all_is_given_up_when_the_gateway_stops() -> None:
    upkeep = Upkeep()
    upkeep.slow(1)
    upkeep.lanes.stop()
    wait_until(upkeep.is_idle)
    upkeep.quick(2)
    assert upkeep.done == []


def test_what_goes_wrong_with_a_table_is_logged(
    upkeep: Upkeep, caplog: pytest.LogCaptureFixture
) -> None:
    def look_after(_: Lane) -> None:
        raise ValueError("no such thing")

    upkeep.lanes.attend(1, look_after)
    upkeep.quick(2)
    assert upkeep.done == [2]
    assert "upkeep of table 1" in "\n".join(caplog.messages)
    assert upkeep.sessions[0].rolled_back == 1


def test_a_lost_catalog_ends_the_visit(upkeep: Upkeep) -> None:
    def look_after(_: Lane) -> None:
        raise CatalogUnavailableError("gone")

    with pytest.raises(CatalogUnavailableError):
        upkeep.lanes.attend(1, look_after)
    wait_until(upkeep.is_idle)
    assert upkeep.sessions[0].closed
