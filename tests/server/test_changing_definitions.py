"""Statements while others make and drop tables: their plans are made again, clients notice none."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.servers import GatewayProcess

MOST_S = 3.0
"""How long each statement is repeated."""

STATEMENTS = {
    "select": "SELECT count(*) FROM t",
    "copy of a table": "COPY t TO STDOUT",
    "copy of a query": "COPY (SELECT a, count(*) FROM t GROUP BY a) TO STDOUT",
    "table of a query": "CREATE TABLE made AS SELECT * FROM t",
    "table of a table": "CONVERT TO made FROM t KEY (a)",
    "files of a table": "CONVERT TO '{directory}' FROM t",
    "insert of a query": "INSERT INTO t SELECT a + 1000000 * {number}, b FROM t WHERE a < 100",
    "bulk update": "UPDATE t SET b = b || 'x' WHERE a % 2 = 0",
    "cursor": "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t",
    "explain": "EXPLAIN SELECT count(*) FROM t",
    "merge": "MERGE INTO t USING (SELECT a FROM t WHERE a % 3 = 0) s ON t.a = s.a"
    " WHEN MATCHED THEN UPDATE SET b = 'm'",
    "vacuum": "VACUUM t",
}

AFTERWARDS = {
    "table of a query": "DROP TABLE made",
    "table of a table": "DROP TABLE made",
    "cursor": "CLOSE c",
}


@pytest.fixture(scope="module")
def changing(gateway_process: GatewayProcess) -> Iterator[str]:
    """A database whose definitions change all the time."""
    address, name = gateway_process.address, "changing_definitions"
    address.execute(f"CREATE DATABASE {name}")
    address.execute(
        "CREATE TABLE t (a integer PRIMARY KEY, b text)",
        "INSERT INTO t SELECT g, 'b' FROM generate_series(1, 3000) g",
        database=name,
    )
    over = threading.Event()

    def change() -> None:
        with psycopg.connect(address.conninfo(name), autocommit=True) as connection:
            while not over.is_set():
                connection.execute("CREATE TABLE passing (a integer)")
                connection.execute("DROP TABLE passing")

    thread = threading.Thread(target=change)
    thread.start()
    yield name
    over.set()
    thread.join()
    address.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("name", STATEMENTS)
def test_definitions_may_change_meanwhile(
    gateway_process: GatewayProcess, changing: str, allowed_directory: Path, name: str
) -> None:
    """Each is run again and again, until one would have met a change in each of its steps."""
    address = gateway_process.address
    end_s, number = time.monotonic() + MOST_S, 0
    with psycopg.connect(address.conninfo(changing), autocommit=True) as connection:
        while number < 3 or time.monotonic() < end_s:
            number += 1
            directory = allowed_directory / f"changing_{name.replace(' ', '_')}_{number}"
            statement = STATEMENTS[name].format(number=number, directory=directory)
            if statement.startswith("COPY"):
                with connection.cursor().copy(statement) as copy:
                    assert sum(1 for _ in copy.rows()) >= 3000
            else:
                connection.execute(statement)
            if name in AFTERWARDS:
                connection.execute(AFTERWARDS[name])
