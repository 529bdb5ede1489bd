"""A cancel request stops the running statement and keeps the session."""

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

LONG = """
SELECT count(*) FROM numbers a, numbers b, numbers c
WHERE (a.id * 7 + b.id * 11 + c.id * 13) % 1000003 = 5
"""
"""Runs for many minutes on Spark."""

REPEAT_S = 10.0


@pytest.fixture
def connection(gateway, database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.conninfo(database), autocommit=True) as connection:
        connection.execute("CREATE TABLE numbers (id integer PRIMARY KEY)")
        connection.execute("INSERT INTO numbers SELECT * FROM generate_series(1, 6000)")
        yield connection


def cancelled_after(connection: psycopg.Connection, statement: str, delay_s: float) -> float:
    """Run a statement, cancel it after a while, and return how long it went on.

    A request that comes before the statement is one for an idle session. Where the first one was
    early, another follows.
    """
    ended = threading.Event()
    requests = []

    def cancel() -> None:
        while not ended.wait(delay_s if not requests else REPEAT_S):
            requests.append(time.monotonic())
            connection.cancel_safe()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        with pytest.raises(psycopg.errors.QueryCanceled) as raised:
            connection.execute(statement)
        stopped = time.monotonic()
    finally:
        ended.set()
        canceller.join()
    assert raised.value.diag.message_primary == "canceling statement due to user request"
    return stopped - requests[0]


@pytest.mark.parametrize("statement", [LONG, "SELECT pg_sleep(60)"], ids=["spark", "catalog"])
def test_cancel_keeps_the_session(connection, statement):
    assert cancelled_after(connection, statement, 2.0) < 15
    assert connection.execute("SELECT max(id) FROM numbers").fetchone() == (6000,)


def test_cancel_of_a_write_leaves_nothing(connection):
    statement = LONG.replace("SELECT count(*)", "INSERT INTO numbers SELECT a.id + 6000")
    cancelled_after(connection, statement, 2.0)
    assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (6000,)


def test_cancel_fails_the_transaction(connection):
    with connection.transaction(force_rollback=True):
        connection.execute("DELETE FROM numbers WHERE id > 5990")
        cancelled_after(connection, "SELECT pg_sleep(60)", 1.0)
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT count(*) FROM numbers")
    assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (6000,)


def test_cancel_of_an_idle_session_does_nothing(connection):
    connection.cancel_safe()
    time.sleep(0.2)
    assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (6000,)


def test_connection_that_ends_stops_its_statement(connection, gateway, database):
    victim = psycopg.connect(gateway.conninfo(database), autocommit=True)
    process = victim.info.backend_pid
    thread = threading.Thread(target=_run_until_closed, args=(victim,), daemon=True)
    thread.start()
    time.sleep(2.0)
    victim.pgconn.finish()
    deadline = time.monotonic() + 60
    query = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
    while connection.execute(query, [process]).fetchone() != (0,):
        assert time.monotonic() < deadline, "the session goes on"
        time.sleep(0.2)


def _run_until_closed(connection: psycopg.Connection) -> None:
    connection.pgconn.send_query(LONG.encode())


def test_statement_timeout_stops_the_statement(connection):
    connection.execute("SET statement_timeout = '1s'")
    for statement in ("SELECT pg_sleep(60)", LONG):
        with pytest.raises(psycopg.errors.QueryCanceled, match="due to statement timeout"):
            connection.execute(statement)
    connection.execute("SET statement_timeout = 0")
    assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (6000,)


def test_cancel_of_a_statement_that_waits_for_its_table(connection):
    with psycopg.connect(connection.info.dsn, autocommit=True) as other:
        other.execute("BEGIN; LOCK TABLE numbers IN EXCLUSIVE MODE")
        for statement in (
            "UPDATE numbers SET id = 0 WHERE id = 1",
            "INSERT INTO numbers VALUES (0)",
        ):
            assert cancelled_after(connection, statement, 1.0) < 5.0
        other.execute("ROLLBACK")
    assert connection.execute("SELECT count(*) FROM numbers WHERE id = 0").fetchone() == (0,)
