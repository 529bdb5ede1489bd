"""A gateway whose catalog is a PostgreSQL server of its own, named by ``--catalog``."""

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from catalog.server.embedded import SUPERUSER
from tests.support.fix_server import DRIVER_OPTIONS
from tests.support.servers import GatewayProcess, PlainPostgres

pytestmark = [pytest.mark.integration]

PATIENCE_S = 90.0
"""How long upkeep may take to look at a table."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PlainPostgres]:
    """Yield a PostgreSQL server that runs before and after the gateway."""
    with PlainPostgres(tmp_path / "server") as server:
        yield server


def url(server: PlainPostgres) -> str:
    address = server.address
    return f"postgresql://{SUPERUSER}@/postgres?host={address.host}&port={address.port}"


def rows(gateway: GatewayProcess, sql: str) -> list[tuple]:
    with psycopg.connect(gateway.address.conninfo(), autocommit=True) as connection:
        return connection.execute(sql).fetchall()


def await_tiered(connection: psycopg.Connection, table: str) -> None:
    query = "SELECT residency FROM gateway.tables WHERE table_name = %s"
    deadline = time.monotonic() + PATIENCE_S
    while connection.execute(query, [table]).fetchone() != ("tiered",):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_data_files_are_of_one_catalog(server: PlainPostgres, tmp_path: Path) -> None:
    """Upkeep would remove them all, as another one lists none of them."""
    data_dir = tmp_path / "gateway"
    with (
        GatewayProcess(data_dir, *DRIVER_OPTIONS, "--catalog", url(server)) as gateway,
        psycopg.connect(gateway.address.conninfo(), autocommit=True) as connection,
    ):
        connection.execute("CREATE TABLE t AS SELECT generate_series(1, 3000) AS id")
        connection.execute("ALTER TABLE t SET (gateway.residency = never)")
        await_tiered(connection, "t")
    with (
        PlainPostgres(tmp_path / "other") as other,
        pytest.raises(AssertionError, match="belong to another catalog"),
    ):
        GatewayProcess(data_dir, *DRIVER_OPTIONS, "--catalog", url(other)).start()
    with GatewayProcess(data_dir, *DRIVER_OPTIONS, "--catalog", url(server)) as gateway:
        assert rows(gateway, "SELECT count(*) FROM t") == [(3000,)]


def test_rows_written_through_one_gateway_are_there_for_the_next(
    server: PlainPostgres, tmp_path: Path
) -> None:
    data_dir = tmp_path / "gateway"
    with (
        GatewayProcess(data_dir, *DRIVER_OPTIONS, "--catalog", url(server)) as gateway,
        psycopg.connect(gateway.address.conninfo(), autocommit=True) as connection,
    ):
        connection.execute("CREATE SCHEMA hr")
        connection.execute("CREATE TABLE hr.depts (deptno int PRIMARY KEY, department_name text)")
        connection.execute("CREATE TABLE hr.towns (name text PRIMARY KEY)")
        connection.execute("INSERT INTO hr.towns VALUES ('Bern'), ('Zug')")
        connection.execute("INSERT INTO hr.depts VALUES (666, 'Pivotal'), (1, 'One')")
        connection.execute("UPDATE hr.depts SET department_name = 'New' WHERE deptno = 666")
        connection.execute("DELETE FROM hr.depts WHERE deptno = 1")
        connection.execute(
            "INSERT INTO hr.depts SELECT i, 'bulk' FROM generate_series(1000, 3999) i"
        )
        # Rows that come later would be hot.
        connection.execute("ALTER TABLE hr.depts SET (gateway.residency = never)")
        assert connection.execute("SELECT current_user").fetchone() == ("postgres",)
        await_tiered(connection, "depts")
    with GatewayProcess(data_dir, *DRIVER_OPTIONS, "--catalog", url(server)) as gateway:
        assert rows(gateway, "SELECT * FROM hr.depts WHERE deptno < 1000") == [(666, "New")]
        assert rows(gateway, "SELECT count(*), max(deptno) FROM hr.depts") == [(3001, 3999)]
        versions = "SELECT department_name FROM hr.depts_journal WHERE deptno = 666"
        assert rows(gateway, f"{versions} ORDER BY version_number") == [("Pivotal",), ("New",)]
        assert rows(gateway, "SELECT * FROM hr.towns ORDER BY name") == [("Bern",), ("Zug",)]
    with psycopg.connect(server.address.conninfo()) as connection:
        tiered = connection.execute("SELECT count(*) FROM hr.depts").fetchone()
        resident = connection.execute("SELECT count(*) FROM hr.towns").fetchone()
    assert (tiered, resident) == ((0,), (2,))


def test_a_copy_of_a_database_is_refused(server: PlainPostgres, tmp_path: Path) -> None:
    """It lists the data files of the other one, which its upkeep would remove."""
    data_dir = tmp_path / "gateway"
    fill = "CREATE TABLE t AS SELECT generate_series(1, 3000) AS id"
    with (
        GatewayProcess(data_dir, *DRIVER_OPTIONS, "--catalog", url(server)) as gateway,
        psycopg.connect(gateway.address.conninfo(), autocommit=True) as connection,
    ):
        connection.execute("CREATE DATABASE original")
        with psycopg.connect(gateway.address.conninfo("original"), autocommit=True) as original:
            original.execute(fill)
            original.execute("ALTER TABLE t SET (gateway.residency = never)")
            await_tiered(original, "t")
    with psycopg.connect(server.address.conninfo(user=SUPERUSER), autocommit=True) as operator:
        operator.execute("CREATE DATABASE copied TEMPLATE original")
        operator.execute("CREATE DATABASE empty TEMPLATE postgres OWNER postgres")
    with GatewayProcess(data_dir, *DRIVER_OPTIONS, "--catalog", url(server)) as gateway:
        with pytest.raises(psycopg.OperationalError, match="copy of another one"):
            psycopg.connect(gateway.address.conninfo("copied"))
        with psycopg.connect(gateway.address.conninfo("empty"), autocommit=True) as empty:
            empty.execute(fill)
            assert empty.execute("SELECT count(*) FROM t").fetchone() == (3000,)
        with psycopg.connect(gateway.address.conninfo("original")) as original:
            assert original.execute("SELECT count(*) FROM t").fetchone() == (3000,)


def test_data_files_are_in_one_directory(server: PlainPostgres, tmp_path: Path) -> None:
    """A gateway with another one would flush rows to where this one does not find them."""
    first, second = tmp_path / "gateway", tmp_path / "second"
    with GatewayProcess(first, *DRIVER_OPTIONS, "--catalog", url(server)) as gateway:
        with psycopg.connect(gateway.address.conninfo(), autocommit=True) as connection:
            connection.execute("CREATE TABLE t AS SELECT generate_series(1, 300) AS id")
        with GatewayProcess(second, *DRIVER_OPTIONS, "--catalog", url(server)) as other:
            with pytest.raises(psycopg.OperationalError, match="directory of another gateway"):
                psycopg.connect(other.address.conninfo())
            with psycopg.connect(gateway.address.conninfo(), autocommit=True) as connection:
                connection.execute("INSERT INTO t VALUES (301)")
    moved = first.rename(tmp_path / "moved")
    with GatewayProcess(moved, *DRIVER_OPTIONS, "--catalog", url(server)) as gateway:
        assert rows(gateway, "SELECT count(*) FROM t") == [(301,)]


def test_a_second_gateway_on_the_same_directory_is_refused(
    server: PlainPostgres, tmp_path: Path
) -> None:
    with GatewayProcess(tmp_path / "gateway", *DRIVER_OPTIONS, "--catalog", url(server)):
        second = GatewayProcess(tmp_path / "gateway", "--catalog", url(server))
        second.launch()
        assert second.wait() == 1
        assert "in use" in second.log_text()


def test_a_server_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    nowhere = f"postgresql://{SUPERUSER}@/postgres?host={tmp_path}&port=5999"
    gateway = GatewayProcess(tmp_path / "gateway", "--catalog", nowhere)
    gateway.launch()
    assert gateway.wait() == 1
    assert "Traceback" not in gateway.log_text()
    assert str(tmp_path) in gateway.log_text()
