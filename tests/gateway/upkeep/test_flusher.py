"""Which databases upkeep visits, and when."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from catalog.errors import CatalogError
from catalog.pg.sqlstate import INVALID_CATALOG_NAME
from pgwire_gateway.config import Config
from pgwire_gateway.spark.errors import QueryCanceledError
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.upkeep import flusher
from pgwire_gateway.upkeep.flusher import Flusher

PATIENCE_S = 30.0


@dataclass
class Databases:
    """A catalog whose databases are gone; it notes who asked for them, and when."""

    names: list[str]
    takes_s: float = 0.0
    """How long a visit takes."""
    busy: str | None = None
    """A database that is written to whenever it is visited."""
    slow: str | None = None
    """A database whose visit lasts until it is let go."""
    let_go: threading.Event = field(default_factory=threading.Event)
    visits: list[tuple[str, float]] = field(default_factory=list)
    bounds: object = None
    flusher: Flusher | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def adopted(self) -> tuple[str, ...]:
        return tuple(self.names)

    def admin(self, name: str) -> object:
        with self.changed:
            self.visits.append((name, time.monotonic()))
            self.changed.notify_all()
        time.sleep(self.takes_s)
        if name == self.slow:
            self.let_go.wait(PATIENCE_S)
        if self.flusher is not None and name == self.busy:
            self.flusher.notice(name)
        raise CatalogError(f"no {name}", sqlstate=INVALID_CATALOG_NAME)

    def forget(self, name: str) -> None:
        if name in self.names:
            self.names.remove(name)

    def has_visited(self, *names: str) -> bool:
        """Wait until all of these have been visited."""
        with self.changed:
            return self.changed.wait_for(
                lambda: {name for name, _ in self.visits} >= set(names), PATIENCE_S
            )


@contextmanager
def upkeep(databases: Databases) -> Iterator[Flusher]:
    nothing = cast("Any", None)
    running = Flusher(cast("Any", databases), nothing, Config(), nothing, nothing)
    databases.flusher = running
    try:
        yield running
    finally:
        running.stop()


def test_no_database_waits_for_the_pauses_of_others() -> None:
    names = [f"d{number}" for number in range(50)]
    databases = Databases(list(names))
    with upkeep(databases) as running:
        for name in names:
            running.notice(name)
        assert databases.has_visited(*names)
    times = [time_s for _, time_s in databases.visits]
    assert max(times) - min(times) < flusher.PAUSE_S
    assert databases.names == []


def test_databases_that_nobody_tells_of_are_visited_beside_busy_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flusher, "PAUSE_S", 0.01)
    monkeypatch.setattr(flusher, "VISIT_S", 0.2)
    databases = Databases([], busy="busy")
    with upkeep(databases) as running:
        running.notice("busy")
        assert databases.has_visited("busy")
        databases.names.append("idle")
        assert databases.has_visited("idle")


def test_a_database_that_is_asked_about_is_visited_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flusher, "PAUSE_S", 10 * PATIENCE_S)
    databases = Databases(["asked", "written"])
    with upkeep(databases) as running:
        running.notice("written")
        running.ask("asked")
        assert databases.has_visited("asked", "written")
        running.notice("written")
        time.sleep(0.2)
        assert len(databases.visits) == 2


def test_who_wants_all_databases_left_alone_waits_for_one_at_most() -> None:
    names = [f"d{number}" for number in range(200)]
    databases = Databases(list(names), takes_s=0.05)
    with upkeep(databases) as running:
        for name in names:
            running.notice(name)
        assert databases.has_visited("d0")
        with running.paused():
            visited = len(databases.visits)
            assert visited < len(names) // 2
            time.sleep(0.3)
            assert len(databases.visits) == visited
        assert databases.has_visited(*names)


def test_no_database_waits_for_what_is_done_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flusher, "PAUSE_S", 0.01)
    databases = Databases([], slow="a")
    with upkeep(databases) as running:
        for name in ("a", "b", "c"):
            running.notice(name)
        assert databases.has_visited("a", "b", "c")
        # Nor does who wants another one to be left alone.
        with running.paused(lambda name: name == "b"):
            running.notice("b")
            running.notice("c")
            assert databases.has_visited("a", "b", "c")
            time.sleep(0.2)
            assert [name for name, _ in databases.visits].count("b") == 1
        databases.let_go.set()


def test_who_waits_for_a_visit_to_end_can_be_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flusher, "PAUSE_S", 0.01)
    databases = Databases([], slow="a")
    statement = RunningStatement()
    with upkeep(databases) as running:
        running.notice("a")
        assert databases.has_visited("a")
        threading.Timer(0.2, statement.cancel).start()
        with pytest.raises(QueryCanceledError), running.paused(check=statement.check):
            raise AssertionError("the database is being visited")
        databases.let_go.set()
        with running.paused(check=RunningStatement().check):
            pass


def test_nobody_waits_for_a_database_that_is_being_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flusher, "PAUSE_S", 0.01)
    monkeypatch.setattr(flusher, "VISIT_S", 0.01)
    databases = Databases([])
    asked, let_go = threading.Event(), threading.Event()

    def adopted() -> tuple[str, ...]:
        asked.set()
        let_go.wait(PATIENCE_S)
        return ()

    databases.adopted = adopted  # type: ignore[method-assign]
    with upkeep(databases) as running:
        assert asked.wait(PATIENCE_S)
        begun = time.monotonic()
        running.notice("written")
        assert time.monotonic() - begun < PATIENCE_S / 2
        let_go.set()
        assert databases.has_visited("written")


def test_upkeep_starts_without_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flusher, "PAUSE_S", 0.01)
    monkeypatch.setattr(flusher, "VISIT_S", 0.01)
    databases = Databases([])
    with upkeep(databases):
        time.sleep(0.1)
        databases.names.append("first")
        assert databases.has_visited("first")


def test_upkeep_keeps_away_from_a_table_that_is_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[tuple[int, float | None]] = []
    found: list[list[tuple[int, float | None]]] = []

    class OneLane:
        def __init__(self, *_: object) -> None:
            self.is_busy = False

        @contextmanager
        def kept_from(self, relid: int, _: object, patience_s: float | None) -> Iterator[None]:
            kept.append((relid, patience_s))
            yield
            kept.remove((relid, patience_s))

        def end_overdue(self) -> None:
            """Nothing takes long."""

        def stop(self) -> None:
            """Nothing goes on."""

    class Merging:
        def __init__(self, *_: object) -> None:
            found.append(list(kept))

        def compact(self, *_: object, is_full: bool) -> bool:
            return not is_full

    monkeypatch.setattr(flusher, "Lanes", OneLane)
    monkeypatch.setattr(flusher, "Tails", Merging)
    monkeypatch.setattr(flusher.upkeep, "wait_at_most", lambda *_: None)
    databases = Databases([])
    monkeypatch.setattr(databases, "admin", lambda _: SimpleNamespace(cancel=None, close=list))
    with upkeep(databases) as running:
        statement = RunningStatement()
        assert running.compact("d", 7, statement, is_full=False, wait_ms=9, patience_s=2.5)
    assert found == [[(7, 2.5)]]
    assert kept == []
