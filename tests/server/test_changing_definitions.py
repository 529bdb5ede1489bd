"""Statements while others make and drop tables: their plans are made again, clients notice none."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.support.servers import GatewayProcess

PAUSE_S = 0.5
"""Between two changes: a statement needs some time without one, also on a busy machine."""

MOST_S = 2.0
"""How long each statement is repeated."""

ROWS = 3000
"""In the table that is read, and, but for what is inserted, in the one that is written."""

STATEMENTS: dict[str, tuple[str, int | None]] = {
    "select": ("SELECT a FROM t WHERE b >= ''", ROWS),
    "copy of a table": ("COPY t TO STDOUT", ROWS),
    "copy of a query": ("COPY (SELECT a, count(*) FROM t GROUP BY a) TO STDOUT", ROWS),
    "table of a query": ("CREATE TABLE made AS SELECT * FROM t", ROWS),
    "table of a table": ("CONVERT TO made FROM t KEY (a)", ROWS),
    "files of a table": ("CONVERT TO '{directory}' FROM t", ROWS),
    "insert of a query": (
        "INSERT INTO w SELECT a + 1000000 * {number}, b FROM w WHERE a <= 100",
        100,
    ),
    "bulk update": ("UPDATE w SET b = b || 'x' WHERE a <= 3000 AND a % 2 = 0", ROWS // 2),
    "cursor": ("DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t", None),
    "explain": ("EXPLAIN SELECT count(*) FROM t", None),
    "merge": (
        (
            "MERGE INTO w USING (SELECT a FROM t WHERE a % 3 = 0) s ON w.a = s.a"
            " WHEN MATCHED THEN UPDATE SET b = 'm'"
        ),
        ROWS // 3,
    ),
    "vacuum": ("VACUUM w", None),
    "rows locked first": ("SELECT * FROM w WHERE b >= '' ORDER BY a LIMIT 5 FOR UPDATE", 5),
    "commits": ("SELECT table_name FROM gateway.commits WHERE table_name = 't'", 1),
}
"""Each with the rows that it reads or writes, where it tells."""

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
        *(
            command.format(name, ROWS)
            for name in ("t", "w")
            for command in (
                "CREATE TABLE {} (a integer PRIMARY KEY, b text)",
                "INSERT INTO {} SELECT g, 'b' FROM generate_series(1, {}) g",
            )
        ),
        database=name,
    )
    changes = ("CREATE TABLE passing (a integer)", "DROP TABLE passing")
    with disturbed(address.conninfo(name), changes, PAUSE_S):
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
    address, number = gateway_process.address, 0
    text, rows = STATEMENTS[name]
    with psycopg.connect(address.conninfo(changing), autocommit=True) as connection:

        def run() -> None:
            nonlocal number
            number += 1
            directory = allowed_directory / f"changing_{name.replace(' ', '_')}_{number}"
            statement = text.format(number=number, directory=directory)
            if name in BEFORE:
                connection.execute(BEFORE[name])
            cursor = connection.cursor()
            if statement.startswith("COPY"):
                with cursor.copy(statement) as copy:
                    assert sum(1 for _ in copy.rows()) == rows
            elif statement.startswith("CONVERT"):
                assert cursor.execute(statement).statusmessage == f"CONVERT {rows}"
            else:
                cursor.execute(statement)
                assert rows is None or cursor.rowcount == rows
            if name == "cursor":
                assert len(connection.execute("FETCH ALL FROM c").fetchall()) == ROWS
            if name in AFTERWARDS:
                connection.execute(AFTERWARDS[name])

        repeated(run, 3)


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
