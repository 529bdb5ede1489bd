"""Data files are there as long as anybody can need them, and no longer."""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from catalog.server.embedded import SUPERUSER
from pgwire_gateway.messages import BackendMessage, DataRow, Execute, Parse, Query, Sync
from pgwire_gateway.spark.staging import Staging
from pgwire_gateway.spark.warehouse import STAGING
from tests.support.data_files import data_files
from tests.support.dialogues import bind, wire
from tests.support.servers import GatewayProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.server

SCHEMA = "removed_files"

ROWS = 1500
"""More than are kept in the catalog."""

PATIENCE_S = 60.0
"""How long upkeep may be reading, which keeps files as statements do."""


def connected(process: GatewayProcess, database: str) -> psycopg.Connection:
    return psycopg.connect(process.address.conninfo(database), autocommit=True)


def administrator(process: GatewayProcess, database: str) -> psycopg.Connection:
    """A connection to the catalog itself."""
    host = str((process.data_dir / "socket").resolve())
    conninfo = psycopg.conninfo.make_conninfo(host=host, port=5432, user=SUPERUSER, dbname=database)
    return psycopg.connect(conninfo, autocommit=True)


def directory(process: GatewayProcess, connection: psycopg.Connection) -> Path:
    query = "SELECT oid FROM pg_database WHERE datname = current_database()"
    ((oid,),) = connection.execute(query).fetchall()
    return process.data_dir / "warehouse" / str(oid)


def listed(process: GatewayProcess, database: str) -> list[Path]:
    """The files of the segments that new statements read."""
    with administrator(process, database) as catalog:
        query = "SELECT path FROM pg_journal.segments WHERE retired_at IS NULL"
        segments = [process.data_dir / "warehouse" / path for (path,) in catalog.execute(query)]
    files = [file for segment in segments for file in data_files(segment)]
    assert files
    return files


def require_kept(client: psycopg.Connection, files: list[Path]) -> None:
    """Require that VACUUM leaves files, however often it comes by."""
    for _ in range(3):
        client.execute("VACUUM")
        assert all(file.exists() for file in files)


def await_gone(client: psycopg.Connection, files: list[Path]) -> None:
    """Require that VACUUM removes files, once upkeep has ended what it is doing."""
    deadline = time.monotonic() + PATIENCE_S
    client.execute("VACUUM")
    while any(file.exists() for file in files):
        assert time.monotonic() < deadline
        time.sleep(0.1)
        client.execute("VACUUM")


def values(messages: list[BackendMessage]) -> list[bytes | None]:
    """The first value of each row."""
    return [message.values[0] for message in messages if isinstance(message, DataRow)]


@pytest.fixture
def client(gateway_process: GatewayProcess, database: str) -> Iterator[psycopg.Connection]:
    """A client of a database whose table ``t`` is in files."""
    with connected(gateway_process, database) as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        connection.execute(f"INSERT INTO t SELECT g, 0 FROM generate_series(1, {ROWS}) g")  # type: ignore[call-overload]
        yield connection


def test_files_stay_as_long_as_their_writer_lives_however_old_they_are(
    gateway_process: GatewayProcess, database: str, client: psycopg.Connection
) -> None:
    kept = listed(gateway_process, database)
    base = directory(gateway_process, client)
    below = kept[0].relative_to(base).parts[0]
    unclaimed, claimed = (f"{base.name}/{below}/base-{name * 32}" for name in "01")
    root = gateway_process.data_dir / "warehouse"
    writer = Staging(root / STAGING)
    writer.claim(int(below), [claimed])
    staged = writer.begin()
    written = [root / claimed, staged.root]
    for place in (root / unclaimed, *written):
        shutil.copytree(kept[0].parent, place, dirs_exist_ok=True)
        os.utime(place, (0, 0))
    await_gone(client, [root / unclaimed])
    require_kept(client, written)
    del writer, staged
    await_gone(client, written)
    assert all(file.exists() for file in kept)


def test_files_of_a_write_go_when_its_transaction_can_publish_them_no_more(
    gateway_process: GatewayProcess, database: str, client: psycopg.Connection
) -> None:
    base = directory(gateway_process, client)
    table = client.execute("SELECT 't'::regclass::oid").fetchall()[0][0]
    root = gateway_process.data_dir / "warehouse"
    writer = Staging(root / STAGING)
    left = root / base.name / str(table) / f"base-{'2' * 32}"
    writer.claim(table, [str(left.relative_to(root))])
    left.mkdir()
    with administrator(gateway_process, database) as backend:
        # That of a process which has been killed, and whose end it has not noticed.
        backend.execute("BEGIN")
        backend.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE")
        del writer
        require_kept(client, [left])
    await_gone(client, [left])


def segments(process: GatewayProcess, connection: psycopg.Connection) -> set[Path]:
    """The directories of segments that are there, listed or not."""
    return {file.parent for file in data_files(directory(process, connection))}


UPDATE = "UPDATE t SET v = v + 1 WHERE id > 0"


@pytest.mark.parametrize(
    "statements",
    [
        ("BEGIN", UPDATE, "ROLLBACK"),
        ("BEGIN", "SAVEPOINT s", UPDATE, "ROLLBACK TO s", "COMMIT"),
        ("BEGIN", UPDATE, "SELECT 1 / 0", "COMMIT"),
        ("BEGIN", "TRUNCATE t", "ROLLBACK"),
        (f"{UPDATE}; SELECT 1 / 0",),
        (
            "BEGIN",
            "CREATE TABLE u (id integer PRIMARY KEY)",
            f"INSERT INTO u SELECT generate_series(1, {ROWS})",
            "ROLLBACK",
        ),
    ],
    ids=["ROLLBACK", "ROLLBACK TO", "failed block", "TRUNCATE", "failed string", "with its table"],
)
def test_what_is_rolled_back_goes(
    gateway_process: GatewayProcess,
    database: str,
    client: psycopg.Connection,
    statements: tuple[str, ...],
) -> None:
    client.execute("CREATE TABLE other (id integer)")
    kept = segments(gateway_process, client)
    with connected(gateway_process, database) as writer:
        for statement in statements[:-1]:
            with suppress(psycopg.errors.DivisionByZero):
                writer.execute(statement)  # type: ignore[arg-type]
        if len(statements) > 1:
            # It may still be committed.
            assert segments(gateway_process, client) > kept
        with suppress(psycopg.errors.DivisionByZero):
            writer.execute(statements[-1])  # type: ignore[arg-type]
    deadline = time.monotonic() + PATIENCE_S
    while segments(gateway_process, client) != kept:
        assert time.monotonic() < deadline
        client.execute("VACUUM other")
        time.sleep(0.1)


def test_nothing_is_left_of_rows_that_a_statement_brought(
    gateway_process: GatewayProcess, client: psycopg.Connection
) -> None:
    client.execute("CREATE TABLE parted (id integer PRIMARY KEY) PARTITION BY RANGE (id)")
    for low, high in ((0, 1000), (1000, 5000)):
        client.execute(  # type: ignore[call-overload]
            f"CREATE TABLE p{low} PARTITION OF parted FOR VALUES FROM ({low}) TO ({high})"
        )
        client.execute(f"ALTER TABLE p{low} SET (gateway.residency = never)")  # type: ignore[call-overload]
    client.execute("INSERT INTO parted SELECT generate_series(1, 4000)")
    client.execute("CREATE TEMPORARY TABLE beside AS SELECT generate_series(1, 3000) AS id")
    joined = "SELECT count(*) FROM parted JOIN beside USING (id)"
    assert client.execute(joined).fetchall() == [(3000,)]
    root = gateway_process.data_dir / "warehouse"
    assert list(root.glob("0/*/*")) == []

    def left() -> list[Path]:
        files = data_files(root)
        return [file for file in files if not file.relative_to(root).parts[0].isdecimal()]

    # Upkeep of other tables may be writing some.
    assert wait_until(lambda: not left()), left()


def test_a_snapshot_keeps_what_it_shows_however_old_it_is(
    gateway_process: GatewayProcess, database: str, client: psycopg.Connection
) -> None:
    total = "SELECT count(*), sum(v) FROM t"
    with connected(gateway_process, database) as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        before = reader.execute(total).fetchall()
        former = listed(gateway_process, database)
        client.execute("UPDATE t SET v = 1")
        require_kept(client, former)
        assert reader.execute(total).fetchall() == before == [(ROWS, 0)]
        reader.execute("COMMIT")
        await_gone(client, former)
    assert client.execute(total).fetchall() == [(ROWS, ROWS)]


def test_files_go_when_they_are_replaced(
    gateway_process: GatewayProcess, database: str, client: psycopg.Connection
) -> None:
    former = listed(gateway_process, database)
    with connected(gateway_process, database) as idle:
        idle.execute("SELECT sum(v) FROM t")
        idle.execute("BEGIN")
        idle.execute("SELECT sum(v) FROM t")
        client.execute("UPDATE t SET v = 1")
        await_gone(client, former)
        assert idle.execute("SELECT sum(v) FROM t").fetchall() == [(ROWS,)]
        idle.execute("COMMIT")
    former = listed(gateway_process, database)
    client.execute("DROP TABLE t")
    await_gone(client, former)


def test_a_result_that_has_not_been_sent_keeps_its_files(
    gateway_process: GatewayProcess, database: str, client: psycopg.Connection
) -> None:
    former = listed(gateway_process, database)
    with wire(gateway_process.address, database) as reader:
        reader.exchange(Query("BEGIN"))
        begun = reader.exchange(
            Parse("", "SELECT id, v FROM t", ()), bind(portal="p"), Execute("p", 10), Sync()
        )
        client.execute("UPDATE t SET v = 1")
        require_kept(client, former)
        # Other statements of the session do not end it.
        assert values(reader.exchange(Query("SELECT sum(v) FROM t"))) == [b"%d" % ROWS]
        require_kept(client, former)
        rest = reader.exchange(Execute("p", 0), Sync())
        rows = [message.values for message in (*begun, *rest) if isinstance(message, DataRow)]
        assert sorted(int(key or b"0") for key, _ in rows) == list(range(1, ROWS + 1))
        assert {value for _, value in rows} == {b"0"}
        await_gone(client, former)
        reader.exchange(Query("COMMIT"))


@pytest.mark.parametrize("replaces", ["UPDATE t SET v = 1", "DROP TABLE t"])
def test_a_query_on_spark_keeps_its_files_while_it_runs(
    gateway_process: GatewayProcess, database: str, client: psycopg.Connection, replaces: str
) -> None:
    former = listed(gateway_process, database)
    with connected(gateway_process, database) as reader:

        def run() -> None:
            with suppress(psycopg.errors.QueryCanceled):
                reader.execute("SELECT sum(a.v * b.v + sqrt(c.id)) FROM t a, t b, t c, t d")

        running = threading.Thread(target=run)
        running.start()
        try:
            active = (
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE query LIKE '%sqrt(c.id)%' AND pid <> pg_backend_pid()"
            )
            deadline = time.monotonic() + PATIENCE_S
            while client.execute(active).fetchall() == [(0,)]:
                assert time.monotonic() < deadline
            client.execute(replaces)  # type: ignore[call-overload]
            require_kept(client, former)
            assert running.is_alive()
        finally:
            reader.cancel()
            running.join()
        await_gone(client, former)


def test_a_session_that_is_lost_keeps_nothing(
    gateway_process: GatewayProcess, database: str, client: psycopg.Connection
) -> None:
    former = listed(gateway_process, database)
    with wire(gateway_process.address, database) as reader:
        reader.exchange(Query("BEGIN"))
        reader.exchange(
            Parse("", "SELECT id, v FROM t", ()), bind(portal="p"), Execute("p", 10), Sync()
        )
        client.execute("UPDATE t SET v = 1")
        require_kept(client, former)
    await_gone(client, former)


def test_small_bases_become_one(
    gateway_process: GatewayProcess, database: str, client: psycopg.Connection
) -> None:
    for start in (ROWS, 2 * ROWS, 3 * ROWS):
        client.execute(  # type: ignore[call-overload]
            f"INSERT INTO t SELECT g, 0 FROM generate_series({start + 1}, {start + ROWS}) g"
        )
    client.execute("VACUUM t")
    with administrator(gateway_process, database) as catalog:
        query = "SELECT row_count FROM pg_journal.segments WHERE retired_at IS NULL"
        assert catalog.execute(query).fetchall() == [(4 * ROWS,)]


def test_nothing_is_left_of_a_database_that_is_dropped(gateway_process: GatewayProcess) -> None:
    with connected(gateway_process, "postgres") as client:
        client.execute("CREATE DATABASE removed_files")
        with connected(gateway_process, "removed_files") as other:
            other.execute("CREATE TABLE t (id integer)")
            other.execute(f"INSERT INTO t SELECT generate_series(1, {ROWS})")  # type: ignore[call-overload]
            files = directory(gateway_process, other)
            assert data_files(files)
        client.execute("DROP DATABASE removed_files WITH (FORCE)")
        assert not files.exists()
