"""Statements while others make and drop tables: their plans are made again, clients notice none."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.support.servers import GatewayProcess

MOST_S = 2.0
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
    "rows locked first": "SELECT * FROM t WHERE b >= '' ORDER BY a LIMIT 5 FOR UPDATE",
    "commits": "SELECT count(*) FROM gateway.commits",
}

BEFORE = {"rows locked first": "BEGIN"}

AFTERWARDS = {
    "rows locked first": "COMMIT",
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
    with disturbed(
        address.conninfo(name), ("CREATE TABLE passing (a integer)", "DROP TABLE passing")
    ):
        yield name
    address.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def disturbed(conninfo: str, statements: tuple[str, ...], pause_s: float = 0.0) -> Iterator[None]:
    """Have another session run statements, one after the other, until the context ends."""
    over = threading.Event()
    failures: list[psycopg.Error] = []

    def disturb() -> None:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            while not over.is_set():
                for statement in statements:
                    try:
                        connection.execute(statement)
                    except psycopg.Error as error:
                        failures.append(error)
                    over.wait(pause_s)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert failures == []


def repeated(run: Callable[[], object], least: int = 20) -> None:
    """Do something so often, and so long, as a test of what may happen takes."""
    end_s, count = time.monotonic() + MOST_S, 0
    while count < least or time.monotonic() < end_s:
        run()
        count += 1


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
            if name in BEFORE:
                connection.execute(BEFORE[name])
            statement = STATEMENTS[name].format(number=number, directory=directory)
            if statement.startswith("COPY"):
                with connection.cursor().copy(statement) as copy:
                    assert sum(1 for _ in copy.rows()) >= 3000
            else:
                connection.execute(statement)
            if name in AFTERWARDS:
                connection.execute(AFTERWARDS[name])


def test_a_view_is_replaced_beside_those_who_write_through_it(
    gateway_process: GatewayProcess, changing: str
) -> None:
    address = gateway_process.address
    view = "CREATE OR REPLACE VIEW few AS SELECT * FROM hot WHERE a < 5"
    address.execute(
        "CREATE TABLE hot (a integer PRIMARY KEY, b integer)",
        "INSERT INTO hot SELECT g, g FROM generate_series(1, 500) g",
        view,
        database=changing,
    )
    conninfo = address.conninfo(changing)
    update = "UPDATE few SET b = b + 1 WHERE a = 4"
    with (
        disturbed(conninfo, (view,), 0.05),
        disturbed(conninfo, (update,)),
        psycopg.connect(conninfo, autocommit=True) as connection,
    ):
        repeated(lambda: connection.execute(update))


def test_a_table_is_made_of_one_whose_residency_changes(resident_process: GatewayProcess) -> None:
    address, name = resident_process.address, "changing_residency"
    address.execute(f"CREATE DATABASE {name}")
    address.execute(
        "CREATE TABLE source (a integer PRIMARY KEY)",
        "INSERT INTO source SELECT g FROM generate_series(1, 500) g",
        database=name,
    )
    conninfo = address.conninfo(name)
    asked = "ALTER TABLE source SET (gateway.residency = {})"
    switches = (asked.format("never"), asked.format("always"))
    with (
        disturbed(conninfo, switches, 0.3),
        psycopg.connect(conninfo, autocommit=True) as connection,
    ):

        def made() -> None:
            assert connection.execute("CREATE TABLE copy AS TABLE source").rowcount == 500
            connection.execute("DROP TABLE copy")

        repeated(made)
    address.execute(f"DROP DATABASE {name} WITH (FORCE)")
