"""Rows that could not be read again are refused, whoever computes them: here by Spark."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.server.test_removed_files import administrator
from tests.support.servers import GatewayProcess

pytestmark = pytest.mark.server

BOUND = 100_000
LONG = 60_000

MESSAGE = r"row is too big for a journaled table: size \d+, maximum size 100000"

TOO_LARGE = {
    "update": "UPDATE doc SET v = v || v",
    "insert": "INSERT INTO doc SELECT id + 10000, v || v FROM doc",
    "insert of text and bytea": (
        "INSERT INTO doc SELECT t.id + 10000, t.v, b.b FROM doc t JOIN doc b ON b.id = t.id + 1"
    ),
    "upsert": (
        "INSERT INTO doc SELECT id, v || v FROM doc ON CONFLICT (id) DO UPDATE SET v = excluded.v"
    ),
    "merge": (
        "MERGE INTO doc USING (SELECT id, v FROM doc) s ON doc.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = doc.v || s.v"
    ),
    "new keys": "UPDATE doc SET id = id + 10000, v = v || v",
    "create table": "CREATE TABLE copied AS SELECT id, v || v AS v FROM doc",
}


@pytest.fixture
def client(gateway_process: GatewayProcess, database: str) -> Iterator[psycopg.Connection]:
    """A client of a database with small rows; ``doc`` is in files, and one row of it is long."""
    address = gateway_process.address
    with psycopg.connect(address.conninfo(database), autocommit=True) as connection:
        connection.execute("SELECT 1")
        with administrator(gateway_process, database) as catalog:
            catalog.execute(f"UPDATE pg_journal.instance SET row_bytes = {BOUND}")
        connection.execute("CREATE TABLE doc (id integer PRIMARY KEY, v text, b bytea)")
        connection.execute(
            "INSERT INTO doc SELECT g, CASE g WHEN 7 THEN repeat('x', 60000) ELSE 'y' END,"
            " CASE g WHEN 8 THEN decode(repeat('00', 25000), 'hex') END"
            " FROM generate_series(1, 2500) g"
        )
        yield connection


TOTAL = "SELECT count(*), sum(length(v)), max(length(v)), sum(id) FROM doc"


@pytest.mark.parametrize("kind", TOO_LARGE)
def test_a_statement_of_spark_makes_no_larger_rows(client: psycopg.Connection, kind: str) -> None:
    if kind != "upsert":  # that has no other executor
        client.execute("SET gateway.executor = spark")
    before = client.execute(TOTAL).fetchall()
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match=MESSAGE):
        client.execute(TOO_LARGE[kind])  # type: ignore[call-overload]
    assert client.execute(TOTAL).fetchall() == before
    client.execute("VACUUM doc")
    assert client.execute(TOTAL).fetchall() == before


def test_rows_up_to_the_bound_are_written(client: psycopg.Connection) -> None:
    client.execute("SET gateway.executor = spark")
    client.execute("UPDATE doc SET v = v || repeat('z', 30000) WHERE length(v) > 1")
    client.execute("UPDATE doc SET v = v || 'z' WHERE id <> 7")
    assert client.execute("SELECT max(length(v)) FROM doc").fetchone() == (LONG + 30_000,)


@pytest.fixture
def directory(allowed_directory: Path, database: str) -> Path:
    found = allowed_directory / f"large_rows_{database}"
    found.mkdir()
    return found


@pytest.mark.parametrize("place", ["", " IN PLACE"])
@pytest.mark.parametrize(
    ("values", "fits"),
    [
        (["x" * 101_000], False),
        (["x" * 60_000, "y" * 60_000], True),
        ([b"x" * 50_500], False),
        ([b"x" * 40_000, b"y" * 45_000], True),
    ],
)
def test_files_with_larger_rows_do_not_become_tables(
    client: psycopg.Connection, directory: Path, place: str, values: list[str | bytes], fits: bool
) -> None:
    rows = pa.table({"id": pa.array(range(len(values)), pa.int32()), "v": pa.array(values)})
    pq.write_table(rows, directory / "rows.parquet")
    statement = f"CONVERT TO large_files FROM '{directory}'{place}"
    if fits:
        client.execute(statement)  # type: ignore[call-overload]
        assert client.execute("SELECT count(*) FROM large_files").fetchone() == (len(values),)
        return
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match=MESSAGE):
        client.execute(statement)  # type: ignore[call-overload]
    assert client.execute("SELECT to_regclass('large_files')").fetchone() == (None,)


def test_rows_that_a_query_makes_may_be_far_larger_than_what_it_reads(
    client: psycopg.Connection,
) -> None:
    client.execute("CREATE TABLE short (id integer PRIMARY KEY, v text)")
    client.execute("INSERT INTO short SELECT g, 'abc' FROM generate_series(1, 25000) g")
    seen, size = set(), 0
    copy_out = f"COPY (SELECT id, repeat(v, {LONG // 6}) FROM short) TO STDOUT"
    with client.cursor() as cursor, cursor.copy(copy_out) as copy:
        for row in copy:
            number, _, value = bytes(row).rstrip(b"\n").partition(b"\t")
            seen.add(int(number))
            size += len(value)
    assert seen == set(range(1, 25_001))
    assert size == 25_000 * LONG // 2
