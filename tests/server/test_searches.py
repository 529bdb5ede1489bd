"""Searches of tiered tables by conditions: who waits keeps nobody else waiting."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest
from psycopg import errors

from catalog.hot.thawing import SEARCH_S
from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

SCHEMA = "searched"

SETUP = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
    f"CREATE SCHEMA {SCHEMA}",
    f"CREATE TABLE {SCHEMA}.s (id int PRIMARY KEY, g int, v int)",
    f"INSERT INTO {SCHEMA}.s SELECT i, i / 5, 0 FROM generate_series(0, 19999) i",
    f"CREATE TABLE {SCHEMA}.other (id int PRIMARY KEY, v int)",
    f"INSERT INTO {SCHEMA}.other SELECT i, 0 FROM generate_series(0, 99) i",
    f"VACUUM {SCHEMA}.s",
    f"VACUUM {SCHEMA}.other",
    f"UPDATE {SCHEMA}.s SET v = v WHERE id = 900",
)

PATIENCE_S = 60
LIMIT = f"SET statement_timeout = '{SEARCH_S - 1}s'"
"""So that nobody only gives up waiting for who searches."""


@pytest.fixture
def clients(shared_pair: Pair) -> Iterator[list[psycopg.Connection]]:
    """Four clients beside a tiered table ``s`` that can have hot rows."""
    options = f"-c search_path={SCHEMA} -c statement_timeout={PATIENCE_S}s"
    conninfo = shared_pair.gateway.conninfo(shared_pair.database)
    with ExitStack() as stack:
        found = [
            stack.enter_context(psycopg.connect(conninfo, autocommit=True, options=options))
            for _ in range(4)
        ]
        for statement in SETUP:
            found[0].execute(statement)
        yield found


def await_blocked(beside: psycopg.Connection, waiting: psycopg.Connection) -> None:
    """Return when a client waits for a lock of another one."""
    asked = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
    until = time.monotonic() + PATIENCE_S
    while beside.execute(asked, [waiting.info.backend_pid]).fetchone() != (True,):
        assert time.monotonic() < until
        time.sleep(0.05)


def failed(future: Future[psycopg.Cursor]) -> type[BaseException]:
    return type(future.exception(PATIENCE_S))


def test_who_waits_for_a_row_keeps_nobody_from_searching(
    clients: list[psycopg.Connection],
) -> None:
    first, waiting, third, beside = clients
    first.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    first.execute("UPDATE s SET v = v + 1 WHERE id = 103")
    waiting.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    with ThreadPoolExecutor(1) as thread:
        update = thread.submit(waiting.execute, "UPDATE s SET v = v + 10 WHERE g = 20")
        await_blocked(beside, waiting)
        for other in (first, third):
            other.execute(LIMIT)
        assert third.execute("UPDATE s SET v = v + 1 WHERE g = 30").rowcount == 5
        queue = "SELECT id FROM s WHERE g = 40 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
        assert third.execute(queue).fetchall() == [(200,)]
        assert first.execute("UPDATE s SET v = v + 1 WHERE g = 50").rowcount == 5
        assert not update.done()
        first.execute("COMMIT")
        assert failed(update) is errors.SerializationFailure
        waiting.execute("ROLLBACK")
    assert beside.execute("SELECT sum(v) FROM s").fetchone() == (11,)


def test_who_waits_for_another_table_keeps_nobody_from_searching(
    clients: list[psycopg.Connection],
) -> None:
    first, waiting, _, beside = clients
    joined = "UPDATE s SET v = s.v + 1 FROM other o WHERE s.g = %s AND s.v = 0 AND o.id = %s"
    for group in (10, 11):
        waiting.execute(joined, [group, 5], prepare=True)
    first.execute("BEGIN")
    first.execute("LOCK TABLE other IN ACCESS EXCLUSIVE MODE")
    with ThreadPoolExecutor(1) as thread:
        update = thread.submit(waiting.execute, joined, [12, 5], prepare=True)
        await_blocked(beside, waiting)
        first.execute(LIMIT)
        assert first.execute("UPDATE s SET v = v + 1 WHERE g = 13 AND v = 0").rowcount == 5
        assert not update.done()
        first.execute("COMMIT")
        assert update.result(PATIENCE_S).rowcount == 5
    assert beside.execute("SELECT sum(v) FROM s").fetchone() == (20,)
