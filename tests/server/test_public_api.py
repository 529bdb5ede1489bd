"""The gateway with Spark by PySpark's public interface: the same answers, more slowly."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import compared
from tests.support.compared import SPARK_ALONE, without_divergence
from tests.support.fix_server import SPARK_OPTIONS, Pair
from tests.support.repository import ROOT
from tests.support.sampling import each
from tests.support.servers import ATTENTIVE, Address, GatewayProcess
from tests.support.sql_fixtures import read

pytestmark = pytest.mark.server

STATEMENTS = ROOT / "tests" / "sql"
SAMPLE = (
    *("select/aggregates", "select/joins", "select/subqueries", "select/windows"),
    *("insert/bulk", "update/update", "types/dates", "types/numbers"),
)
"""Files of statements that Spark has much work with."""

BULK_ROWS = 50_000
PATIENCE_S = 60.0
SLOW = "SELECT sum(a.id * b.id * c.id) FROM big AS a, big AS b, big AS c"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where clients may have files."""
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, files: Path) -> Iterator[Address]:
    """A gateway by the public interface, with all tables on Spark."""
    directory = tmp_path_factory.mktemp("public")
    options = (*SPARK_OPTIONS, "--spark-api=public", f"--allow-path={files}")
    with GatewayProcess(directory / "data", *options, module=ATTENTIVE) as process:
        yield process.address


@pytest.fixture(scope="module")
def served(plain_postgres: Address, address: Address) -> Iterator[Pair]:
    """A database on both servers."""
    for server in (plain_postgres, address):
        server.execute("CREATE DATABASE by_public_api")
    yield Pair(plain_postgres, address, "by_public_api")
    for server in (plain_postgres, address):
        server.execute("DROP DATABASE by_public_api WITH (FORCE)")


@pytest.fixture(scope="module")
def big(served: Pair) -> Address:
    """The gateway, with a large table, written by Spark."""
    for server in (served.plain, served.gateway):
        server.execute(
            "CREATE TABLE big (id integer PRIMARY KEY, v text, at timestamptz)",
            "INSERT INTO big SELECT g, 'v' || g % 7, timestamptz '2024-01-01Z' + g * interval '1 h'"
            f" FROM generate_series(1, {BULK_ROWS}) AS g",
            database=served.database,
        )
    return served.gateway


@pytest.fixture
def connection(big: Address, served: Pair) -> Iterator[psycopg.Connection]:
    with psycopg.connect(big.conninfo(served.database), autocommit=True) as opened:
        yield opened


@pytest.mark.parametrize("name", each(2, SAMPLE))
def test_answers_are_postgresqls(name: str, served: Pair):
    records = [without_divergence(r, SPARK_ALONE) for r in read(STATEMENTS / f"{name}.test")]
    compared.check(name.replace("/", "_"), records, served)


def test_bulk_writes(connection: psycopg.Connection):
    connection.execute("CREATE TABLE copied (id integer PRIMARY KEY, v text)")
    connection.execute("INSERT INTO copied SELECT id, v FROM big WHERE id > 10")
    assert connection.execute("SHOW gateway.last_decision").fetchone()[0].startswith("spark")
    changed = connection.execute("UPDATE copied SET v = upper(v) WHERE id % 2 = 0").rowcount
    gone = connection.execute("DELETE FROM copied WHERE id % 5 = 0").rowcount
    assert (changed, gone) == ((BULK_ROWS - 10) // 2, (BULK_ROWS - 10) // 5)
    asked = "SELECT v, count(*), min(id), max(id) FROM copied GROUP BY v ORDER BY v"
    before = connection.execute(asked).fetchall()
    assert sum(row[1] for row in before) == BULK_ROWS - 10 - gone
    connection.execute("VACUUM copied")
    assert connection.execute(asked).fetchall() == before
    found = connection.execute("SELECT v FROM copied WHERE id = 12").fetchall()
    assert found == [("V5",)]


def test_whole_tables_come_in_order(connection: psycopg.Connection):
    rows = connection.execute("SELECT id, upper(v) FROM big ORDER BY id DESC").fetchall()
    assert rows == [(number, f"V{number % 7}") for number in range(BULK_ROWS, 0, -1)]
    few = connection.execute("SELECT id FROM big WHERE v = 'v3' ORDER BY at LIMIT 3 OFFSET 2")
    assert few.fetchall() == [(17,), (24,), (31,)]


def test_time_zones(connection: psycopg.Connection, served: Pair):
    asked = (
        "SELECT extract(hour FROM at)::int AS h, count(*), min(at::timestamp), max(at::date)"
        " FROM big GROUP BY 1 ORDER BY 1"
    )
    with psycopg.connect(served.plain.conninfo(served.database), autocommit=True) as plain:
        for zone in ("Europe/Berlin", "America/St_Johns", "Asia/Kolkata"):
            for server in (plain, connection):
                server.execute(f"SET TimeZone = '{zone}'")
            assert connection.execute(asked).fetchall() == plain.execute(asked).fetchall()
            decision = connection.execute("SHOW gateway.last_decision").fetchone()
            assert decision is not None
            assert decision[0].startswith("spark")


def test_explain(connection: psycopg.Connection):
    asked = "EXPLAIN VERBOSE SELECT v, count(*) FROM big WHERE id > 5 GROUP BY v"
    lines = [row[0] for row in connection.execute(asked)]
    assert lines[0] == "spark: tiered tables"
    assert "    == Physical Plan ==" in lines
    assert "    == Optimized Logical Plan ==" in lines
    assert not any("/warehouse/" in line for line in lines)


def test_cancel(connection: psycopg.Connection):
    caught: list[psycopg.Error] = []

    def run() -> None:
        try:
            connection.execute(SLOW)
        except psycopg.Error as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(3)
    start = time.monotonic()
    connection.cancel()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [error.sqlstate for error in caught] == ["57014"]
    assert time.monotonic() - start < PATIENCE_S
    assert connection.execute("SELECT count(*) FROM big WHERE id > 9").fetchone() == (
        BULK_ROWS - 9,
    )


def test_statement_timeout(connection: psycopg.Connection):
    connection.execute("SET statement_timeout = '2s'")
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
        connection.execute(SLOW)


def test_failures(connection: psycopg.Connection):
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT sum(id / (id - 500)) FROM big")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        connection.execute("SELECT sum(v::int) FROM big")


def test_files_become_tables_and_tables_files(connection: psycopg.Connection, files: Path):
    (files / "rows.csv").write_text("id,v\n1,a\n2,\n")
    done = connection.execute(f"CONVERT TO loaded FROM '{files / 'rows.csv'}'")
    assert done.statusmessage == "CONVERT 2"
    found = connection.execute("SELECT id, v FROM loaded ORDER BY upper(id)").fetchall()
    assert found == [("1", "a"), ("2", None)]
    pq.write_table(pa.table({"id": [1, 2, 3], "v": ["x", None, "z"]}), files / "rows.parquet")
    done = connection.execute(f"CONVERT TO keyed FROM '{files / 'rows.parquet'}' KEY (id)")
    assert done.statusmessage == "CONVERT 3"
    assert connection.execute("SELECT max(v), sum(id) FROM keyed").fetchone() == ("z", 6)
