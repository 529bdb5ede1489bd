"""Time-outs and cancellation of PostgreSQL's own kind, while it is Spark that works."""

import fcntl
import os
import socket
import struct
import termios
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import errors
from psycopg.pq import TransactionStatus

from pgwire_gateway.messages import Execute, Parse, Sync
from pgwire_gateway.messages.base import BackendMessage
from pgwire_gateway.messages.responses import ErrorResponse
from tests.support.dialogues import bind, wire
from tests.support.fix_server import Pair
from tests.support.servers import GatewayProcess
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.server

PATIENCE_S = 60.0
"""How long something may take that is sure to happen."""

SCHEMA = "timeouts"
SETUP = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
    f"CREATE SCHEMA {SCHEMA}",
    f"CREATE TABLE {SCHEMA}.t (id integer PRIMARY KEY, v integer)",
    f"INSERT INTO {SCHEMA}.t SELECT g, g % 10 FROM generate_series(1, 3000) g",
)

WORK = "SELECT max(md5(a.id::text || b.id::text)) FROM t a, t b WHERE a.id <= {}"
SLOW = WORK.format(2000)
"""A query Spark takes seconds for."""

MANY = "SELECT repeat('x', 500) FROM t a, t b WHERE a.id <= 40"
"""Rows that do not fit into what lies between a server and its client."""


@pytest.fixture
def client(shared_pair: Pair) -> Iterator[psycopg.Connection]:
    gateway, options = shared_pair.gateway, f"-c search_path={SCHEMA}"
    conninfo = gateway.conninfo(shared_pair.database)
    gateway.execute(*SETUP, database=shared_pair.database)
    connection = psycopg.connect(conninfo, autocommit=True, options=options)
    yield connection
    connection.close()
    gateway.execute(f"DROP SCHEMA {SCHEMA} CASCADE", database=shared_pair.database)


def seen_by(client: psycopg.Connection, pair: Pair, columns: str) -> tuple[object, ...]:
    """Return what others see of the client's session when it is at work."""
    pid = client.info.backend_pid
    query = f"SELECT {columns} FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'"
    deadline = time.monotonic() + PATIENCE_S
    with psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True) as other:
        while time.monotonic() < deadline:
            for row in other.execute(query).fetchall():
                if "pg_sleep" in str(row[0]):
                    return row
            time.sleep(0.02)
    raise AssertionError("the session is not seen to work")


def running(client: psycopg.Connection, statement: str) -> "Future[psycopg.Cursor]":
    """Run a statement in a thread of its own."""
    future: Future[psycopg.Cursor] = Future()

    def run() -> None:
        try:
            future.set_result(client.execute(statement))
        except psycopg.Error as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def require_cancelled(
    client: psycopg.Connection, pair: Pair, statement: "Future[psycopg.Cursor]"
) -> None:
    """Require that pg_cancel_backend() ends what a client runs."""
    cancel = f"SELECT pg_cancel_backend({client.info.backend_pid})"
    pair.gateway.execute(cancel, database=pair.database)
    assert isinstance(statement.exception(PATIENCE_S), errors.QueryCanceled)


def work(client: psycopg.Connection) -> None:
    """Have Spark work for longer than the time-outs here, on as few rows as that takes."""
    for rows in (100, 400, 800, 1600, 3000):
        begun = time.monotonic()
        client.execute(WORK.format(rows))
        if time.monotonic() - begun > 1.5:
            return
    raise AssertionError("Spark is faster than the time-outs")


def test_a_session_is_not_idle_while_spark_works(client: psycopg.Connection) -> None:
    client.execute("SET idle_session_timeout = '1s'")
    work(client)
    assert client.execute("SELECT 1").fetchall() == [(1,)]


def test_a_transaction_is_not_idle_while_spark_works(client: psycopg.Connection) -> None:
    client.execute("SET idle_in_transaction_session_timeout = '1s'")
    client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    client.execute("CREATE TEMP TABLE mine AS SELECT 1 AS a")
    work(client)
    client.execute("SAVEPOINT s")
    work(client)
    client.execute("ROLLBACK TO s")
    assert client.execute("SELECT a FROM mine").fetchall() == [(1,)]
    # It is idle now.
    time.sleep(2.0)
    with pytest.raises(errors.IdleInTransactionSessionTimeout):
        client.execute("SELECT 1")


def test_pg_cancel_backend_ends_what_spark_does(
    client: psycopg.Connection, shared_pair: Pair
) -> None:
    for before in ("SELECT 1", "BEGIN"):
        client.execute(before)
        statement = running(client, SLOW)
        query, wait = seen_by(client, shared_pair, "query, wait_event_type")
        assert str(query).startswith(f"/* {SLOW} */")
        assert wait == "Timeout"
        require_cancelled(client, shared_pair, statement)
    assert client.info.transaction_status is TransactionStatus.INERROR
    client.execute("ROLLBACK")
    assert client.execute("SELECT count(*) FROM t").fetchall() == [(3000,)]


def test_pg_terminate_backend_ends_the_session(
    client: psycopg.Connection, shared_pair: Pair
) -> None:
    statement = running(client, SLOW)
    seen_by(client, shared_pair, "query")
    terminate = f"SELECT pg_terminate_backend({client.info.backend_pid})"
    shared_pair.gateway.execute(terminate, database=shared_pair.database)
    assert isinstance(statement.exception(PATIENCE_S), errors.AdminShutdown)
    assert client.closed


@pytest.mark.parametrize("executor", ["spark", "postgres"])
@pytest.mark.parametrize("form", ["{}", "COPY ({}) TO STDOUT"])
def test_pg_terminate_backend_ends_a_session_whose_client_does_not_read(
    client: psycopg.Connection,
    shared_pair: Pair,
    gateway_process: GatewayProcess,
    form: str,
    executor: str,
) -> None:
    others = "SELECT repeat('x', 500) FROM generate_series(1, 120000)"
    rows = MANY if executor == "spark" else others
    port = own_port(client)
    client.pgconn.send_query(form.format(rows).encode())
    pid = client.info.backend_pid
    await_standstill(client)
    assert is_connected(gateway_process, port)
    terminate = f"SELECT pg_terminate_backend({pid})"
    shared_pair.gateway.execute(terminate, database=shared_pair.database)
    deadline = time.monotonic() + PATIENCE_S
    while is_connected(gateway_process, port):
        assert time.monotonic() < deadline, "the session does not end"
        time.sleep(0.1)


def await_standstill(client: psycopg.Connection) -> None:
    """Wait until nothing more fits into what lies between the gateway and a client."""
    before, arrived = -1, 0
    deadline = time.monotonic() + PATIENCE_S
    while not arrived or before != arrived:
        assert time.monotonic() < deadline, "more and more arrives, or nothing"
        time.sleep(0.5)
        before = arrived
        (arrived,) = struct.unpack("i", fcntl.ioctl(client.fileno(), termios.FIONREAD, bytes(4)))


def own_port(client: psycopg.Connection) -> int:
    """Return the port that a client has."""
    with socket.socket(fileno=os.dup(client.fileno())) as duplicate:
        return int(duplicate.getsockname()[1])


def is_connected(gateway: GatewayProcess, port: int) -> bool:
    """Tell whether the gateway has a connection with who has this port."""
    found = psutil.Process(gateway.process_id).net_connections("tcp")
    return any(connection.raddr and connection.raddr.port == port for connection in found)


def test_a_client_that_reads_slowly_is_not_idle(client: psycopg.Connection) -> None:
    client.execute("SET idle_session_timeout = '1s'")
    rows = "SELECT repeat('x', 500) FROM t a, t b WHERE a.id <= 20"
    for count, _ in enumerate(client.cursor().stream(rows), 1):
        if count == 10_000:
            time.sleep(1.5)
    assert count == 60_000


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


LONG_CHECK = "ALTER TABLE t ADD CONSTRAINT slow CHECK (length(repeat(md5(id::text), 100000)) > 9)"
"""A definition whose rows Spark looks at for seconds."""


def test_statement_timeout_ends_a_look_at_rows(client: psycopg.Connection) -> None:
    client.execute("SET statement_timeout = '400ms'")
    with pytest.raises(errors.QueryCanceled, match="statement timeout"):
        client.execute(LONG_CHECK)
    client.execute("RESET statement_timeout")
    query = "SELECT FROM pg_constraint WHERE conname = 'slow'"
    assert client.execute(query).fetchall() == []
    assert client.execute("INSERT INTO t VALUES (0, 0)").rowcount == 1


def test_a_transaction_is_not_idle_while_rows_are_looked_at(
    client: psycopg.Connection, shared_pair: Pair
) -> None:
    client.execute("BEGIN")
    statement = running(client, LONG_CHECK)
    query, wait = seen_by(client, shared_pair, "query, wait_event_type")
    assert str(query).startswith(f"/* {LONG_CHECK} */")
    assert wait == "Timeout"
    require_cancelled(client, shared_pair, statement)


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


LONG = f"SELECT repeat('x', 500) FROM {SCHEMA}.t a, {SCHEMA}.t b WHERE a.id <= 40"
"""Rows that are computed while they are taken, more than fit in between."""


@pytest.fixture
def taking(shared_pair: Pair, client: psycopg.Connection) -> Iterator[WireClient]:
    """A client, in a transaction, that has taken the first row of a portal."""
    assert not client.closed
    with wire(shared_pair.gateway, shared_pair.database) as found:
        found.query("BEGIN")
        found.exchange(Parse("", LONG), bind(portal="p"), Execute("p", 1), Sync())
        yield found


def failure(messages: list[BackendMessage]) -> str:
    """Return the error among messages."""
    (error,) = [message for message in messages if isinstance(message, ErrorResponse)]
    return str(error)


def test_more_rows_of_a_portal_time_out(taking: WireClient) -> None:
    taking.query("SET LOCAL statement_timeout = '4s'")
    for _ in range(3):  # each time anew
        assert "PortalSuspended" in str(taking.exchange(Execute("p", 1), Sync()))
        time.sleep(1.5)
    taking.query("SET LOCAL statement_timeout = '400ms'")
    begun = time.monotonic()
    answer = taking.exchange(Execute("p", 0), Sync())
    assert "canceling statement due to statement timeout" in failure(answer)
    assert time.monotonic() - begun < PATIENCE_S / 2


def test_more_rows_of_a_portal_are_cancelled_by_others(
    taking: WireClient, shared_pair: Pair
) -> None:
    assert taking.key is not None
    pid = taking.key.process_id
    taking.send(Execute("p", 0), Sync())
    with psycopg.connect(shared_pair.gateway.conninfo(shared_pair.database)) as other:
        other.autocommit = True
        query = f"SELECT FROM pg_stat_activity WHERE pid = {pid} AND query LIKE '%pg_sleep%'"
        deadline = time.monotonic() + PATIENCE_S
        while not other.execute(query + " AND state = 'active'").fetchall():
            assert time.monotonic() < deadline, "the session is not seen to work"
            time.sleep(0.02)
        other.execute(f"SELECT pg_cancel_backend({pid})")
    assert "due to user request" in failure(taking.receive_until_ready())


def test_a_transaction_is_idle_while_nobody_takes_rows_of_a_portal(taking: WireClient) -> None:
    taking.query("SET LOCAL idle_in_transaction_session_timeout = '2s'")
    taking.exchange(Execute("p", 1), Sync())
    assert "25P03" in failure(taking.receive_until_closed())
