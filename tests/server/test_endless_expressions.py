"""Expressions that Java is not done with in a lifetime: whoever asked is told so in time."""

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import SPARK_OPTIONS
from tests.support.servers import Address, GatewayProcess
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.server

SHORT = (
    "SELECT g AS id, repeat('a', 40) || left('bcd', mod(g, 4)) AS note FROM generate_series(1, 9) g"
)
SETUP = (
    "CREATE TABLE t (id integer PRIMARY KEY, note text)",
    "INSERT INTO t VALUES (1, repeat('a', 3000)), (2, 'aab')",
    "CREATE TABLE short (id integer PRIMARY KEY, note text)",
    f"INSERT INTO short {SHORT}",
    "ALTER TABLE short SET (gateway.thaw_rows = 0)",
)
ENDLESS = "SELECT count(*) FROM t WHERE note ~ 'a*a*a*b'"
"""PostgreSQL has it at once; Java tries all ways to cut the text, but not exponentially many."""
EXPONENTIAL = ("(a|aa){1,40}b", "(a{1,2}){1,40}b", "((a|aa)+b)+c", "(a|aa)+$", "a*a*a*a*b")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A gateway of its own: its processor is busy until it ends."""
    with GatewayProcess(tmp_path_factory.mktemp("endless"), *SPARK_OPTIONS) as process:
        process.address.execute(*SETUP)
        yield process.address


@pytest.fixture
def client(gateway: Address) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.conninfo(), autocommit=True) as connection:
        yield connection


def ended(client: psycopg.Connection, gateway: Address, function: str) -> Exception | None:
    """Run what has no end; return what came of it when another session had called a function."""
    caught: list[Exception] = []

    def run() -> None:
        try:
            client.execute(ENDLESS)
        except psycopg.Error as error:
            caught.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    with psycopg.connect(gateway.conninfo(), autocommit=True) as other:
        time.sleep(2)
        other.execute(f"SELECT {function}({client.info.backend_pid})")
    thread.join(PATIENCE_S)
    return None if thread.is_alive() else caught[0]


def test_time_outs_end_them(client: psycopg.Connection) -> None:
    client.execute("SET statement_timeout = '2s'")
    for statement in (ENDLESS, f"EXPLAIN {ENDLESS}"):
        with pytest.raises(errors.QueryCanceled):
            client.execute(statement)
    client.execute("SET statement_timeout = 0")
    assert client.execute("SELECT count(*) FROM t WHERE note LIKE '%b'").fetchone() == (1,)


def test_others_end_them(client: psycopg.Connection, gateway: Address) -> None:
    client.execute("BEGIN")
    assert isinstance(ended(client, gateway, "pg_cancel_backend"), errors.QueryCanceled)
    client.execute("ROLLBACK")
    assert client.execute("SELECT count(*) FROM t WHERE note LIKE '%b'").fetchone() == (1,)
    assert isinstance(ended(client, gateway, "pg_terminate_backend"), errors.AdminShutdown)


@pytest.mark.parametrize("pattern", EXPONENTIAL)
def test_those_in_very_many_ways_are_postgresqls(
    pattern: str, client: psycopg.Connection, plain_postgres: Address
) -> None:
    with psycopg.connect(plain_postgres.conninfo()) as plain:
        query = f"SELECT count(*) FROM ({SHORT}) AS short WHERE note ~ %s"
        expected = plain.execute(query, [pattern]).fetchall()  # type: ignore[call-overload]
    client.execute("SET statement_timeout = '20s'")
    query = "SELECT count(*) FROM short WHERE note ~ %s"
    assert client.execute(query, [pattern]).fetchall() == expected
    decision = client.execute("SHOW gateway.last_decision").fetchone()
    assert decision is not None
    assert decision[0].startswith("spark, then postgres")
