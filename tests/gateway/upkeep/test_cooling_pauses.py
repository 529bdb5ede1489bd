"""Rows go cold after growing pauses while writers leave no gap, and the pauses have a bound."""

import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from catalog.errors import GatewayError
from catalog.hot import resident_upkeep
from catalog.hot.resident_upkeep import HotTable
from catalog.upkeep import candidates
from pgwire_gateway.config import Config
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.upkeep import hot_tables
from pgwire_gateway.upkeep.file_readers import FileReaders
from pgwire_gateway.upkeep.hot_tables import (
    HARD_FACTOR,
    LONGEST_FULL_PAUSE_S,
    LONGEST_PAUSE_S,
    LONGEST_WAIT_MS,
    PAUSE_S,
    WAIT_MS,
    HotTables,
)
from pgwire_gateway.upkeep.lanes import Lane, Lanes, Room

RELID = 17
CONFIG = Config(hot_rows=100)


class Session:
    """One of which only the transaction matters."""

    def __init__(self) -> None:
        self.transaction = self
        self.rolled_back = 0

    def rollback(self) -> None:
        self.rolled_back += 1


class Writers:
    """Writers of a table who leave no gap, and the clock they are watched by."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0
        self.in_the_way = True
        self.attempts_s: list[float] = []
        self.waits_ms: list[int] = []
        self.pauses_s: list[float] = []
        self.cold: list[int] = []

    def cool(self, _: object, relid: int) -> bool:
        assert relid == RELID
        self.attempts_s.append(self.now_s)
        if self.in_the_way:
            raise GatewayError("canceling statement due to lock timeout", sqlstate="55P03")
        return True

    def wait_at_most(self, _: object, wait_ms: int) -> None:
        self.waits_ms.append(wait_ms)

    def watch(self, upkeep: HotTables, seconds: int, hot_rows: int = CONFIG.hot_rows + 1) -> None:
        """Visit the table each second, as upkeep does."""
        table = HotTable(RELID, 0, 0, 0.0, hot_rows, None, None, unkeyed=False)
        lane = Lane(cast("Any", Session()), RunningStatement())
        for _ in range(seconds):
            upkeep._compare_if_due(lane, table)
            with suppress(GatewayError):
                upkeep._cool_if_due(lane, table)
            self.now_s += 1.0

    def gaps_s(self) -> list[float]:
        return [
            later - earlier
            for earlier, later in zip(self.attempts_s, self.attempts_s[1:], strict=False)
        ]


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> Writers:
    found = Writers()

    class Work:
        def __init__(self, *_: object) -> None:
            self.pause_s = 0.0

        def __enter__(self) -> "Work":
            return self

        def __exit__(self, *_: object) -> None:
            found.pauses_s.append(self.pause_s)

        def begin(self, *_: object) -> None:
            pass

    monkeypatch.setattr(hot_tables, "Work", Work)
    monkeypatch.setattr(resident_upkeep, "cool", found.cool)
    monkeypatch.setattr(resident_upkeep, "overheat", lambda *_: None)
    monkeypatch.setattr(resident_upkeep, "differing_keys", lambda *_: [])
    monkeypatch.setattr(candidates, "wait_at_most", found.wait_at_most)
    monkeypatch.setattr(time, "monotonic", lambda: found.now_s)
    return found


@pytest.fixture
def upkeep(writers: Writers) -> HotTables:
    thawing = SimpleNamespace(note_cold=writers.cold.append)
    catalog = SimpleNamespace(thawing=lambda _: thawing)
    filed = cast("Any", SimpleNamespace(differing=lambda *_: []))
    return HotTables("d", CONFIG, cast("Any", catalog), filed, lambda *_: None)


def test_pauses_double_up_to_a_bound(writers: Writers, upkeep: HotTables) -> None:
    writers.watch(upkeep, 2_000)
    doubled = [PAUSE_S * 2**failures for failures in range(9)]
    assert doubled[-1] < LONGEST_PAUSE_S < 2 * doubled[-1]
    gaps = writers.gaps_s()
    assert gaps[:9] == doubled
    assert len(gaps) > 12
    assert set(gaps[9:]) == {LONGEST_PAUSE_S}
    assert writers.pauses_s[: len(gaps)] == gaps
    assert writers.cold == []


def test_a_lock_is_waited_for_longer_each_time_up_to_a_bound(
    writers: Writers, upkeep: HotTables
) -> None:
    writers.watch(upkeep, 2_000)
    assert writers.waits_ms[1::2] == [candidates.LOCK_WAIT_MS] * len(writers.attempts_s)
    waits = writers.waits_ms[::2]
    assert waits[:5] == [WAIT_MS << failures for failures in range(5)]
    assert len(waits) > 12
    assert set(waits[5:]) == {LONGEST_WAIT_MS}


def test_pauses_end_when_far_too_many_rows_are_hot(writers: Writers, upkeep: HotTables) -> None:
    writers.watch(upkeep, 600)
    assert writers.gaps_s()[-1] > 100
    before = len(writers.attempts_s)
    writers.watch(upkeep, 40, hot_rows=CONFIG.hot_rows * HARD_FACTOR + 1)
    full = writers.gaps_s()[before:]
    assert len(full) >= 8
    assert set(full) == {LONGEST_FULL_PAUSE_S}


def test_pauses_are_short_again_when_rows_have_gone_cold(
    writers: Writers, upkeep: HotTables
) -> None:
    writers.watch(upkeep, 20)
    assert writers.gaps_s() == [1.0, 2.0, 4.0, 8.0]
    writers.in_the_way = False
    writers.watch(upkeep, 12)
    assert writers.cold == [RELID]
    writers.in_the_way = True
    writers.attempts_s.clear()
    writers.watch(upkeep, 8)
    assert writers.gaps_s() == [1.0, 2.0, 4.0]


def test_no_row_goes_cold_that_could_not_be_compared(
    writers: Writers, upkeep: HotTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = HotTable(RELID, 0, 0, 0.0, CONFIG.hot_rows + 1, None, None, unkeyed=False)
    lanes = Lanes("d", cast("Any", Session), FileReaders(), Room(), 0.0)

    def fail(*_: object) -> list[object]:
        raise GatewayError("canceling statement due to statement timeout", sqlstate="57014")

    monkeypatch.setattr(resident_upkeep, "differing_keys", fail)
    monkeypatch.setattr(resident_upkeep, "hot_tables", lambda _: [table])
    upkeep.visit(lanes)
    assert writers.attempts_s == []
    monkeypatch.setattr(resident_upkeep, "differing_keys", lambda *_: [])
    upkeep.visit(lanes)
    assert writers.attempts_s == [writers.now_s]


def test_rows_without_a_key_leave_a_table_that_stays_hot(
    writers: Writers, upkeep: HotTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = Lanes("d", cast("Any", Session), FileReaders(), Room(), 0.0)
    shed: list[int] = []

    def note(_: object, relid: int) -> int:
        shed.append(relid)
        return 1

    monkeypatch.setattr(resident_upkeep, "shed", note)
    for rows in (CONFIG.hot_rows, CONFIG.hot_rows + 1):
        table = HotTable(RELID, 0, 0, 0.0, rows, None, None, unkeyed=True)
        monkeypatch.setattr(resident_upkeep, "hot_tables", lambda _, table=table: [table])
        upkeep.visit(lanes)
    assert (shed, writers.attempts_s) == ([RELID], [])
    rested = HotTable(RELID, 0, 0, CONFIG.hot_age_s, 1, None, None, unkeyed=True)
    monkeypatch.setattr(resident_upkeep, "hot_tables", lambda _: [rested])
    upkeep.visit(lanes)
    assert (shed, writers.attempts_s) == ([RELID], [writers.now_s])
