"""The rows of one step of a pipeline, which may be very many: held beside the other results."""

import gc
import threading
from tempfile import TemporaryFile

import pytest

from catalog.bookkeeping import calls as bookkeeping
from catalog.connection import tuple_stores
from catalog.connection.steps import Execute, Query
from catalog.errors import CatalogError, CatalogUnavailableError
from tests.support.fix_catalog import cancel_when_waiting, wait_until_waiting

pytestmark = pytest.mark.catalog

MANY = Query("SELECT g, repeat('x', 100) FROM generate_series(1, $1) g", [b"5000"])


def ran(client, step=MANY, *, commits=False):
    """Run a step in a transaction of its own; return its answer."""
    answer, _ = client.session.writes.run_between(step, (), None, began=True, commits=commits)
    return answer


@pytest.mark.parametrize("most_bytes", [0, 10_000, 1 << 30])
def test_rows_are_the_same_in_memory_and_in_a_file(client, monkeypatch, most_bytes):
    monkeypatch.setattr(tuple_stores, "MOST_BYTES", most_bytes)
    answer = ran(client)
    client.session.transaction.commit()
    assert client.run("SELECT 1") == [("1",)]
    assert answer.command_tag == "SELECT 5000"
    assert [column.name for column in answer.columns] == ["g", "repeat"]
    assert list(answer.rows) == [[b"%d" % g, b"x" * 100] for g in range(1, 5001)]


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 200])
def test_whatever_number_of_rows_comes_at_once(client, count):
    answer = ran(client, Query(MANY.sql, [b"%d" % count]), commits=True)
    assert answer.command_tag == f"SELECT {count}"
    assert len(answer.columns) == 2
    assert len(list(answer.rows)) == count


@pytest.mark.parametrize("most_bytes", [0, 1 << 30])
def test_an_error_after_some_rows(client, monkeypatch, most_bytes):
    opened = []

    def kept():
        opened.append(TemporaryFile())  # noqa: SIM115 - who writes it is to close it
        return opened[0]

    monkeypatch.setattr(tuple_stores, "MOST_BYTES", most_bytes)
    monkeypatch.setattr(tuple_stores, "TemporaryFile", kept)
    with pytest.raises(CatalogError) as raised:
        ran(client, Query("SELECT 1 / (1000 - g) FROM generate_series(1, 2000) g"))
    assert raised.value.sqlstate == "22012"
    assert client.session.transaction_status == "I"
    assert client.run("SELECT 1") == [("1",)]
    del raised
    gc.collect()
    assert [file.closed for file in opened] == ([True] if not most_bytes else [])


def test_a_prepared_statement(client):
    client.session.analyses.analyse("SELECT g FROM generate_series(1, $1::integer) g", name="many")
    answer = ran(client, Execute("many", [b"250"]), commits=True)
    assert answer.command_tag == "SELECT 250"
    assert [row[0] for row in answer.rows] == [b"%d" % g for g in range(1, 251)]


def test_a_step_before_it_fails(client):
    failing = (bookkeeping.UNSEARCHED, [b"0", b"0"])
    with pytest.raises(CatalogError):
        client.session.writes.run_between(MANY, (), None, began=True, before=[failing])
    assert client.session.transaction_status == "I"
    assert client.run("SELECT 1") == [("1",)]


SLOW = Query("SELECT g, pg_sleep(0.01 * (g / 900)) FROM generate_series(1, 2000) g")
"""It sleeps once the first rows have been sent."""


def test_it_is_cancelled_among_its_rows(client, other):
    cancel_when_waiting(client, other, "Timeout")
    with pytest.raises(CatalogError) as raised:
        ran(client, SLOW)
    assert raised.value.sqlstate == "57014"
    assert client.session.transaction_status == "I"
    assert client.run("SELECT 1") == [("1",)]


@pytest.mark.parametrize("commits", [False, True])
def test_the_connection_is_lost_among_its_rows(client, connect, commits):
    other, pid = connect(), client.session.backend_pid

    def terminate():
        wait_until_waiting(client, other, "Timeout")
        other.run(f"SELECT pg_terminate_backend({pid})")

    terminating = threading.Thread(target=terminate)
    terminating.start()
    with pytest.raises(CatalogUnavailableError) as raised:
        ran(client, SLOW, commits=commits)
    terminating.join()
    assert raised.value.sqlstate == "57P01"


@pytest.fixture
def full_disk(monkeypatch):
    """Let no file take the rows."""

    class Full:
        def write(self, _):
            raise OSError(28, "No space left on device")

        def close(self):
            """What is written nowhere needs none."""

    monkeypatch.setattr(tuple_stores, "MOST_BYTES", 0)
    monkeypatch.setattr(tuple_stores, "TemporaryFile", Full)


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_undoes_the_statement(client):
    client.run("CREATE TEMPORARY TABLE plain (a integer)")
    inserting = "INSERT INTO plain SELECT g FROM generate_series(1, 200000) g RETURNING a"
    with pytest.raises(CatalogError) as raised:
        ran(client, Query(inserting))
    assert raised.value.sqlstate == "53100"
    assert client.session.transaction_status == "I"
    assert client.run("SELECT count(*) FROM plain") == [("0",)]


@pytest.mark.usefixtures("full_disk")
def test_it_is_told_that_a_statement_was_committed_whose_rows_are_lost(client):
    client.run("CREATE TEMPORARY TABLE plain (a integer)")
    inserting = "INSERT INTO plain VALUES (1), (2) RETURNING a"
    with pytest.raises(CatalogError) as raised:
        ran(client, Query(inserting), commits=True)
    assert raised.value.sqlstate == "40003"
    assert "committed" in raised.value.detail
    assert client.session.transaction_status == "I"
    assert client.run("SELECT count(*) FROM plain") == [("2",)]
