"""Time-outs and cancellation of PostgreSQL's own kind, while it is Spark that works."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import Pair
from tests.support.servers import GatewayProcess

pytestmark = pytest.mark.server

SCHEMA = "timeouts"
SETUP = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
    f"CREATE SCHEMA {SCHEMA}",
    f"CREATE TABLE {SCHEMA}.t (id integer PRIMARY KEY, v integer)",
    f"INSERT INTO {SCHEMA}.t SELECT g, g % 10 FROM generate_series(1, 3000) g",
)

SLOW = "SELECT max(md5(a.id::text || b.id::text)) FROM t a, t b WHERE a.id <= 2000"
"""A query Spark takes seconds for."""

UNSEEN = "PostgreSQL does not know that its session works while Spark does"


@pytest.fixture
def client(shared_pair: Pair) -> Iterator[psycopg.Connection]:
    gateway, options = shared_pair.gateway, f"-c search_path={SCHEMA}"
    conninfo = gateway.conninfo(shared_pair.database)
    gateway.execute(*SETUP, database=shared_pair.database)
    connection = psycopg.connect(conninfo, autocommit=True, options=options)
    yield connection
    connection.close()
    gateway.execute(f"DROP SCHEMA {SCHEMA} CASCADE", database=shared_pair.database)


@pytest.mark.xfail(strict=True, raises=psycopg.Error, reason=UNSEEN)
def test_a_session_is_not_idle_while_spark_works(client: psycopg.Connection) -> None:
    client.execute("SET idle_session_timeout = '300ms'")
    client.execute(SLOW)
    assert client.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.xfail(strict=True, raises=psycopg.Error, reason=UNSEEN)
def test_a_transaction_is_not_idle_while_spark_works(client: psycopg.Connection) -> None:
    client.execute("SET idle_in_transaction_session_timeout = '300ms'")
    client.execute("BEGIN")
    client.execute(SLOW)
    assert client.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.xfail(strict=True, reason=UNSEEN)
def test_pg_cancel_backend_ends_what_spark_does(
    client: psycopg.Connection, shared_pair: Pair
) -> None:
    cancel = f"SELECT pg_cancel_backend({client.info.backend_pid})"
    execute, database = shared_pair.gateway.execute, shared_pair.database
    later = threading.Timer(0.5, lambda: execute(cancel, database=database))
    later.start()
    try:
        with pytest.raises(errors.QueryCanceled):
            client.execute(SLOW)
    finally:
        later.join()


def test_statement_timeout_ends_vacuum(client: psycopg.Connection) -> None:
    client.execute("INSERT INTO t SELECT g, g FROM generate_series(3001, 400000) g")
    client.execute("UPDATE t SET v = v + 1 WHERE id > 5")
    client.execute("SET statement_timeout = '150ms'")
    begun = time.monotonic()
    with pytest.raises(errors.QueryCanceled, match="statement timeout"):
        client.execute("VACUUM t")
    assert time.monotonic() - begun < 10
    client.execute("RESET statement_timeout")
    assert client.execute("SELECT count(*), max(v) FROM t").fetchall() == [(400000, 400001)]


def test_statements_of_a_pipeline_leave_no_thread(
    client: psycopg.Connection, gateway_process: GatewayProcess
) -> None:
    def threads() -> int:
        status = Path(f"/proc/{gateway_process.process_id}/status").read_text(encoding="utf-8")
        return int(status.split("Threads:")[1].split()[0])

    before = threads()
    client.execute("SET statement_timeout = '60s'")
    with client.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, 0)", [(-g,) for g in range(1, 101)])
    assert threads() < before + 20
