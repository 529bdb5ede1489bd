"""Segments of this process and of others before it are looked at until all is known of them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pgwire_gateway.spark.warehouse import Warehouse
from pgwire_gateway.upkeep import unread_files
from pgwire_gateway.upkeep.file_readers import FileReaders
from pgwire_gateway.upkeep.unread_files import UnreadFiles

KEPT, GONE, OPEN = "5/1/delta-0", "5/1/delta-1", "5/2/delta-2"
SESSION: Any = None


class Bookkeeping:
    """One that knows what became of segments, and has no other unread files."""

    def __init__(self) -> None:
        self.told = {KEPT: True, GONE: False}
        self.asked: list[set[str]] = []

    def settled(self, _: object, written: Mapping[str, int]) -> dict[str, bool]:
        if written:
            self.asked.append(set(written))
        return {path: is_kept for path, is_kept in self.told.items() if path in written}

    def kept(self, _: object, paths: Iterable[str]) -> set[str]:
        return {path for path in paths if self.told.get(path)}

    def forget(self, paths: Iterable[str]) -> None: ...

    def __getattr__(self, name: str) -> Any:
        nothing = {"database": 5, "databases": {5}}
        return lambda *_: nothing.get(name, {})


@pytest.fixture
def bookkeeping(monkeypatch: pytest.MonkeyPatch) -> Bookkeeping:
    found = Bookkeeping()
    monkeypatch.setattr(unread_files, "catalog_vacuum", found)
    monkeypatch.setattr(unread_files, "Publications", lambda: found)
    return found


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    found = Warehouse(str(tmp_path))
    install(found, KEPT, GONE)
    install(found, OPEN)
    return found


@pytest.fixture
def readers() -> FileReaders:
    return FileReaders()


@pytest.fixture
def files(bookkeeping: Bookkeeping, warehouse: Warehouse, readers: FileReaders) -> UnreadFiles:
    return UnreadFiles("d", warehouse, readers)


def install(warehouse: Warehouse, *paths: str) -> None:
    warehouse.staging.claim(1, paths)
    for path in paths:
        (Path(warehouse.root) / path).mkdir(parents=True)


def present(warehouse: Warehouse) -> set[str]:
    return {str(path.relative_to(warehouse.root)) for path in Path(warehouse.root).glob("5/*/*")}


def nothing() -> None:
    """Let what is asked go on."""


def test_each_is_looked_at_until_it_is_settled(
    files: UnreadFiles, bookkeeping: Bookkeeping, warehouse: Warehouse
) -> None:
    files.remove(SESSION, None, nothing)
    assert present(warehouse) == {KEPT, OPEN}
    assert warehouse.staging.claimed() == {OPEN}
    bookkeeping.told[OPEN] = False
    files.remove(SESSION, None, nothing)
    assert present(warehouse) == {KEPT}
    assert warehouse.staging.claimed() == set()
    files.remove(SESSION, None, nothing)
    assert bookkeeping.asked == [{GONE, OPEN}, {OPEN}]


def test_what_could_not_be_removed_is_tried_again(files: UnreadFiles, warehouse: Warehouse) -> None:
    def cancelled() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        files.remove(SESSION, None, cancelled)
    assert present(warehouse) == {KEPT, GONE, OPEN}
    files.remove(SESSION, None, nothing)
    assert present(warehouse) == {KEPT, OPEN}


def test_who_is_at_work_may_be_about_to_publish(
    files: UnreadFiles, bookkeeping: Bookkeeping, warehouse: Warehouse, readers: FileReaders
) -> None:
    readers.begin("writer", "d")
    files.remove(SESSION, None, nothing)
    assert present(warehouse) == {KEPT, GONE, OPEN}
    assert bookkeeping.asked == []
    assert warehouse.staging.claimed() == {GONE, OPEN}
    readers.end("writer")
    readers.begin("writer", "d")
    files.remove(SESSION, None, nothing)
    assert present(warehouse) == {KEPT, OPEN}


def test_what_a_process_left_that_has_ended_is_looked_at_as_well(
    bookkeeping: Bookkeeping, tmp_path: Path, readers: FileReaders
) -> None:
    before = Warehouse(str(tmp_path))
    install(before, KEPT)
    install(before, GONE)
    install(before, OPEN)
    install(before, "0/7/base-0")
    staged = before.staging.begin()
    after = Warehouse(str(tmp_path))
    files = UnreadFiles("d", after, readers)
    readers.begin("writer", "d")
    files.remove(SESSION, None, nothing)
    assert present(after) == {KEPT, GONE, OPEN}
    assert staged.incoming.exists()
    del before, staged
    files.remove(SESSION, None, nothing)
    assert present(after) == {KEPT, OPEN}
    assert after.staging.claimed() == {OPEN}
    assert [path.name for path in tmp_path.glob("0/*/*")] == []
    bookkeeping.told[OPEN] = True
    files.remove(SESSION, None, nothing)
    assert list(tmp_path.glob("_staging/*")) == []
    assert present(after) == {KEPT, OPEN}


def test_upkeep_looks_where_there_is_something(
    files: UnreadFiles,
    bookkeeping: Bookkeeping,
    warehouse: Warehouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not files.are_due(SESSION)
    monkeypatch.setattr(unread_files, "PAUSE_S", 0.0)
    assert files.are_due(SESSION)
    files.remove(SESSION, None, nothing)
    assert not files.are_due(SESSION)
    bookkeeping.told["5/1/delta-3"] = False
    install(warehouse, "5/1/delta-3")
    assert files.are_due(SESSION)
    files.remove(SESSION, None, nothing)
    bookkeeping.told[OPEN] = True
    assert not files.are_due(SESSION)
    assert warehouse.staging.claimed() == set()
    late = warehouse.staging.begin()
    assert not files.are_due(SESSION)
    late.discard()
    (late.root / "part").mkdir(parents=True)
    assert files.are_due(SESSION)
    files.remove(SESSION, None, nothing)
    assert not late.root.exists()
    assert not files.are_due(SESSION)


def test_claims_are_dropped_where_nothing_is_removed(
    files: UnreadFiles, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody removes anything where upkeep is turned off, though it is due each time."""
    monkeypatch.setattr(unread_files, "PAUSE_S", 0.0)
    assert files.are_due(SESSION)
    assert warehouse.staging.claimed() == {GONE, OPEN}


def test_what_a_crash_of_the_machine_left_is_looked_for_once(
    bookkeeping: Bookkeeping,
    tmp_path: Path,
    readers: FileReaders,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unread_files, "PAUSE_S", 0.0)
    warehouse = Warehouse(str(tmp_path))
    for path in (KEPT, GONE, "0/7/base-0", "0/8/base-0"):
        (tmp_path / path).mkdir(parents=True)
    warehouse.staging.claim(8, ["0/8/base-0"])
    files = UnreadFiles("d", warehouse, readers)
    assert files.are_due(SESSION)
    files.remove(SESSION, None, nothing)
    assert present(warehouse) == {KEPT}
    assert not (tmp_path / "0/7").exists()
    assert (tmp_path / "0/8/base-0").exists()
    assert not files.are_due(SESSION)
