"""Two-phase commit, where the server allows it: it outlasts upkeep and restarts."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from catalog.server.embedded import SUPERUSER
from tests.support.fix_server import DRIVER_OPTIONS
from tests.support.servers import ATTENTIVE, GatewayProcess, PlainPostgres

pytestmark = [pytest.mark.integration]

BOUND = 200

MANY = 20_000
"""More rows than an INSERT makes hot."""

PATIENCE_S = 60.0
"""How long upkeep may take to look at a table."""

LOAD = f"INSERT INTO %s SELECT g, 'loaded' FROM generate_series(1000, {1000 + BOUND}) g"

Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Directory of a server with room for prepared transactions."""
    with PlainPostgres(tmp_path / "server") as server:
        administrator = server.address.conninfo(user=SUPERUSER)
        with psycopg.connect(administrator, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET max_prepared_transactions = 10")
    return tmp_path


@contextmanager
def connected(directory: Path) -> Iterator[Connection]:
    """Start server and gateway, connect, and stop all of them afterwards."""
    with PlainPostgres(directory / "server") as server:
        address = server.address
        url = f"postgresql://{SUPERUSER}@/postgres?host={address.host}&port={address.port}"
        options = (
            f"--catalog={url}",
            f"--resident-rows={BOUND}",
            "--flush-age-s=1",
            "--flush-rows=300",
            *DRIVER_OPTIONS,
        )
        with (
            GatewayProcess(directory / "gateway", *options, module=ATTENTIVE) as gateway,
            psycopg.connect(gateway.address.conninfo(), autocommit=True) as connection,
        ):
            yield connection


def eventually(found: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not found():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def prepare(connection: Connection, name: str, *statements: str) -> None:
    """Leave a transaction prepared."""
    for statement in ("BEGIN", *statements, f"PREPARE TRANSACTION '{name}'"):
        connection.execute(statement)  # type: ignore[call-overload]


def first(connection: Connection, query: str) -> list[object]:
    return [row[0] for row in connection.execute(query)]  # type: ignore[call-overload]


def residency(connection: Connection, table: str) -> object:
    query = f"SELECT residency FROM gateway.tables WHERE table_name = '{table}'"
    return first(connection, query)[0]


@pytest.mark.exhaustive
def test_what_is_prepared_outlasts_upkeep_and_restarts(directory: Path) -> None:
    with connected(directory) as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)")
        connection.execute("CREATE TABLE other (id integer PRIMARY KEY, v text)")
        connection.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        prepare(
            connection,
            "kept",
            "INSERT INTO t VALUES (4, 'kept')",
            "UPDATE t SET v = 'kept' WHERE id = 1",
            "DELETE FROM t WHERE id = 2",
        )
        prepare(connection, "gone", "INSERT INTO t VALUES (5, 'gone')")
        for table in ("t", "other"):
            connection.execute(LOAD % table)
        # Upkeep is not held up by the table that it cannot lock.
        assert eventually(lambda: residency(connection, "other") == "tiered")
        assert residency(connection, "t") == "resident"
        assert first(connection, "SELECT gateway.check('t')") == [0]
        assert first(connection, "SELECT v FROM t WHERE id < 10 ORDER BY id") == ["a", "b", "c"]
    with connected(directory) as connection:
        assert first(connection, "SELECT gid FROM pg_prepared_xacts ORDER BY 1") == ["gone", "kept"]
        journal = "SELECT v FROM t_journal WHERE id < 10 ORDER BY id, version_number"
        assert first(connection, journal) == ["a", "b", "c"]
        connection.execute("COMMIT PREPARED 'kept'")
        connection.execute("ROLLBACK PREPARED 'gone'")
        assert first(connection, "SELECT gateway.check('t')") == [0]
        assert first(connection, "SELECT v FROM t WHERE id < 10 ORDER BY id") == [
            "kept",
            "c",
            "kept",
        ]
        assert first(connection, journal) == ["a", "kept", "b", "b", "c", "kept"]
        assert eventually(lambda: residency(connection, "t") == "tiered")
        assert first(connection, "SELECT v FROM t WHERE id < 10 ORDER BY id") == [
            "kept",
            "c",
            "kept",
        ]


def test_definitions_that_are_prepared_do_not_hold_up_upkeep(directory: Path) -> None:
    with connected(directory) as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)")
        connection.execute("CREATE TABLE other (id integer PRIMARY KEY, v text)")
        connection.execute("INSERT INTO t VALUES (1, 'a')")
        prepare(
            connection,
            "defined",
            "ALTER TABLE t ADD COLUMN added integer DEFAULT 7",
            "CREATE TABLE made (id integer PRIMARY KEY)",
            "INSERT INTO made VALUES (1)",
        )
        connection.execute(LOAD % "other")
        assert eventually(lambda: residency(connection, "other") == "tiered")
        connection.execute("COMMIT PREPARED 'defined'")
        assert connection.execute("SELECT * FROM t, made").fetchall() == [(1, "a", 7, 1)]
        for table in ("t", "made"):
            assert first(connection, f"SELECT gateway.check('{table}')") == [0]


def test_files_of_a_table_that_is_prepared_outlast_restarts_and_vacuum(directory: Path) -> None:
    with connected(directory) as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)")
        connection.execute(LOAD % "t")
        assert eventually(lambda: residency(connection, "t") == "tiered")
        prepare(connection, "converted", "CONVERT TO copied FROM t KEY (id)")
    with connected(directory) as connection:
        connection.execute("VACUUM")
        connection.execute("COMMIT PREPARED 'converted'")
        assert first(connection, "SELECT count(*) FROM copied") == [BOUND + 1]
        assert first(connection, "SELECT gateway.check('copied')") == [0]


@pytest.mark.exhaustive
def test_a_write_of_a_tiered_table_can_be_prepared(directory: Path) -> None:
    with connected(directory) as connection:
        for table in ("t", "other"):
            connection.execute(f"CREATE TABLE {table} (id integer PRIMARY KEY, v text)")
        connection.execute(LOAD % "t")
        assert eventually(lambda: residency(connection, "t") == "tiered")
        # More than --flush-rows, so that upkeep wants the table's lock.
        connection.execute("UPDATE t SET v = 'newer'")
        connection.execute("UPDATE t SET v = 'loaded'")
        prepare(connection, "tiered", "UPDATE t SET v = 'new' WHERE id = 1000")
        connection.execute(LOAD % "other")
        assert eventually(lambda: residency(connection, "other") == "tiered")
        prepare(connection, "converted", "CONVERT TO copied FROM t KEY (id)")
        assert first(connection, "SELECT v FROM t WHERE id = 1000") == ["loaded"]
    with connected(directory) as connection:
        for name in ("tiered", "converted"):
            connection.execute(f"COMMIT PREPARED '{name}'")
        assert first(connection, "SELECT count(*) FROM copied") == [BOUND + 1]
        assert first(connection, "SELECT v FROM t WHERE id = 1000") == ["new"]


def files(directory: Path, connection: Connection, table: str) -> set[Path]:
    """Return the directories of segments of a table, listed or not."""
    relid = first(connection, f"SELECT '{table}'::regclass::oid")[0]
    found = (directory / "gateway" / "warehouse").glob(f"*/{relid}/*/*.parquet")
    return {file.parent for file in found}


def test_files_of_what_is_prepared_stay_until_it_ends(directory: Path) -> None:
    prepared = {}
    with connected(directory) as connection:
        for table in ("kept", "gone"):
            connection.execute(f"CREATE TABLE {table} (id integer PRIMARY KEY, v text)")  # type: ignore[call-overload]
            connection.execute(f"ALTER TABLE {table} SET (gateway.residency = never)")  # type: ignore[call-overload]
            assert eventually(lambda t=table: residency(connection, t) == "tiered")
            many = f"INSERT INTO {table} SELECT g, 'new' FROM generate_series(1, {MANY}) g"
            prepare(connection, table, many)
            prepared[table] = files(directory, connection, table)
            assert len(prepared[table]) == 1
    with connected(directory) as connection:
        for _ in range(3):
            connection.execute("VACUUM")
        for table, written in prepared.items():
            assert files(directory, connection, table) == written
        connection.execute("COMMIT PREPARED 'kept'")
        connection.execute("ROLLBACK PREPARED 'gone'")

        def is_gone() -> bool:
            connection.execute("VACUUM")
            return not files(directory, connection, "gone")

        assert eventually(is_gone)
        for table, rows in (("kept", MANY), ("gone", 0)):
            assert first(connection, f"SELECT count(*) FROM {table}") == [rows]
            assert first(connection, f"SELECT gateway.check('{table}')") == [0]
