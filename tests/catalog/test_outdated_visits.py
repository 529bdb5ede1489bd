"""Upkeep that comes to a table which has become another one since its list was read."""

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa
import pytest

from catalog.api import ResidentBounds
from catalog.errors import GatewayError
from catalog.hot import resident_upkeep
from catalog.hot.resident_upkeep import ResidentTable
from catalog.model import TableSnapshot
from pgwire_gateway.config import Config
from pgwire_gateway.spark.compactor import Compaction
from pgwire_gateway.upkeep.residency import Residency
from tests.support.fix_catalog import Client

pytestmark = pytest.mark.catalog

ROWS = [("1", "one"), ("2", "two")]

PATIENCE_S = 60.0
"""How long upkeep may take on a slow machine."""


class Files:
    """Stands for the files of one table: what has been written to them comes out again."""

    def __init__(self) -> None:
        self.rows: list[pa.Table] = []
        self.flushes = 0

    @contextmanager
    def publishing(self, written: Compaction) -> Iterator[None]:
        try:
            yield
        except GatewayError:
            if written.tail_read:
                self.rows.pop()
            raise

    def differing(self, _: object, __: int, most: int) -> list[object]:
        assert most
        return []

    def live_rows(self, _: TableSnapshot, __: object, tail: pa.Table) -> pa.Table:
        return pa.concat_tables([*self.rows, tail])

    def flush(self, snapshot: TableSnapshot, tail: pa.Table, _: object) -> Compaction:
        self.flushes += 1
        self.rows.append(tail)
        return Compaction((), (), snapshot.version, tail.num_rows)


@pytest.fixture
def administrator(catalog, database) -> Iterator[Client]:
    opened = Client(catalog.admin(database))
    opened.run("SET search_path = public")
    yield opened
    opened.session.close()


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def visit(database, lanes, files: Files) -> Callable[[], None]:
    bounds = ResidentBounds(1000, 1000, 1000)
    upkeep = Residency(
        database, cast("Any", files), cast("Any", files), bounds, Config(flush_rows=1)
    )

    def visit_and_wait() -> None:
        upkeep.visit(lanes)
        deadline = time.monotonic() + PATIENCE_S
        while lanes.is_busy:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    return visit_and_wait


@pytest.fixture
def table(client: Client) -> int:
    client.run("CREATE TABLE t (a int, b text)")
    client.insert("t", "INSERT INTO t VALUES (1, 'one'), (2, 'two')")
    return client.relid("t")


def test_a_table_that_is_resident_already_does_not_get_its_rows_again(
    administrator: Client, table: int, visit, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(resident_upkeep, "resident_tables", lambda *_: [])
    monkeypatch.setattr(resident_upkeep, "shrunken_tables", lambda _: {table: "auto"})
    monkeypatch.setattr(resident_upkeep, "is_shrunken", lambda *_: True)
    with caplog.at_level(logging.INFO):
        visit()
    assert "is resident now" in "\n".join(caplog.messages)
    held = "SELECT a, b FROM ONLY t ORDER BY a"
    assert administrator.run(held) == ROWS
    caplog.clear()
    with caplog.at_level(logging.INFO):
        visit()
    assert caplog.messages == []
    assert administrator.run(held) == ROWS
    with pytest.raises(GatewayError) as caught:
        resident_upkeep.make_resident(administrator.session, table)
    assert caught.value.sqlstate == "55000"


def test_a_table_that_is_tiered_already_is_left_alone(
    administrator: Client, table: int, visit, monkeypatch, caplog
) -> None:
    listed = ResidentTable(table, "never", 2, 100.0, 0, 2, 100, 2, 2, 100)
    monkeypatch.setattr(resident_upkeep, "resident_tables", lambda *_: [listed])
    monkeypatch.setattr(resident_upkeep, "shrunken_tables", lambda _: {})
    tail = f"SELECT * FROM pg_journal.tail_{table} ORDER BY c1"
    before = administrator.run(tail)
    assert len(before) == 2
    with caplog.at_level(logging.INFO):
        visit()
    assert caplog.messages == []
    assert administrator.run(tail) == before


def test_the_rows_of_another_table_are_not_counted_for_one_whose_name_it_has_got(
    administrator: Client, client: Client, table: int, other: Client
) -> None:
    client.run("CREATE TABLE o (a int, b text)")
    other.session.transaction.begin()
    other.run("ALTER TABLE t RENAME TO former")
    other.run("ALTER TABLE o RENAME TO t")
    administrator.run("SET lock_timeout = '60s'")
    with ThreadPoolExecutor(1) as worker:
        counting = worker.submit(resident_upkeep.begin_counting, administrator.session, table)
        deadline = time.monotonic() + PATIENCE_S
        waiting = f"SELECT FROM pg_locks WHERE NOT granted AND relation = {table}"
        while not client.run(waiting):
            assert not counting.done()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        other.session.transaction.commit()
        with pytest.raises(GatewayError) as caught:
            counting.result()
    assert caught.value.sqlstate == "40001"
    administrator.session.transaction.rollback()
    resident_upkeep.begin_counting(administrator.session, table)
    assert resident_upkeep.held_count(administrator.session, table) == 0
    administrator.session.transaction.rollback()
    client.run("DROP TABLE former")
    with pytest.raises(GatewayError) as caught:
        resident_upkeep.held_count(administrator.session, table)
    assert caught.value.sqlstate == "42P01"
    assert caught.value.message == f"relation with OID {table} does not exist"
    administrator.session.transaction.rollback()
    with pytest.raises(GatewayError) as caught:
        resident_upkeep.begin_counting(administrator.session, table)
    assert caught.value.sqlstate == "42P01"


def test_what_was_written_for_a_move_that_fails_is_removed(
    administrator: Client, table: int, files: Files, visit, monkeypatch
) -> None:
    monkeypatch.setattr(resident_upkeep, "resident_tables", lambda *_: [])
    monkeypatch.setattr(resident_upkeep, "shrunken_tables", lambda _: {table: "auto"})
    monkeypatch.setattr(resident_upkeep, "is_shrunken", lambda *_: True)
    administrator.session.transaction.begin()
    administrator.run(f"SELECT FROM pg_journal.tail_{table}")  # whose definition is to change
    visit()
    assert (files.flushes, files.rows) == (1, [])
    administrator.session.transaction.rollback()
    assert administrator.run("SELECT FROM ONLY t") == []
    visit()
    assert len(files.rows) == 1
    assert administrator.run("SELECT a, b FROM ONLY t ORDER BY a") == ROWS


def test_a_table_that_is_to_be_tiered_since_it_was_listed_stays_so(
    administrator: Client, table: int, visit, monkeypatch
) -> None:
    monkeypatch.setattr(resident_upkeep, "resident_tables", lambda *_: [])
    monkeypatch.setattr(resident_upkeep, "shrunken_tables", lambda _: {table: "auto"})
    administrator.run(
        f"UPDATE pg_journal.journals SET wanted_residency = 'never' WHERE relid = {table}"
    )
    visit()
    assert administrator.run("SELECT FROM ONLY t") == []
