"""Data files are there as long as anybody can need them, and no longer."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from catalog.server.embedded import SUPERUSER
from tests.support.servers import GatewayProcess

pytestmark = pytest.mark.server

SCHEMA = "removed_files"

ROWS = 1500
"""More than are kept in the catalog."""

AGED = (
    "UPDATE pg_journal.segments SET retired_at = retired_at - interval '25 hours'"
    " WHERE retired_at IS NOT NULL"
)


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


@pytest.fixture
def client(gateway_process: GatewayProcess, database: str) -> Iterator[psycopg.Connection]:
    """A client of a database whose table ``t`` is in files."""
    with connected(gateway_process, database) as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        connection.execute(f"INSERT INTO t SELECT g, 0 FROM generate_series(1, {ROWS}) g")  # type: ignore[call-overload]
        yield connection


def test_a_snapshot_keeps_what_it_shows_however_old_it_is(
    gateway_process: GatewayProcess, database: str, client: psycopg.Connection
) -> None:
    total = "SELECT count(*), sum(v) FROM t"
    with connected(gateway_process, database) as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        before = reader.execute(total).fetchall()
        client.execute("UPDATE t SET v = 1")
        client.execute("VACUUM t")
        with administrator(gateway_process, database) as catalog:
            catalog.execute(AGED)
        client.execute("VACUUM t")
        assert reader.execute(total).fetchall() == before == [(ROWS, 0)]
        reader.execute("COMMIT")
    assert client.execute(total).fetchall() == [(ROWS, ROWS)]


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
            assert list(files.rglob("*.parquet"))
        client.execute("DROP DATABASE removed_files WITH (FORCE)")
        assert not files.exists()
