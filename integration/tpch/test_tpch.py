"""TPC-H: loaded by COPY through psql on both sides, all 22 queries equal PostgreSQL's answers.

The scale is 0.1, or what the environment variable TPCH_SCALE says.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.fix_server import Pair
from tests.support.programs import run
from tests.support.servers import Address
from tests.support.tpch import QUERIES, SCHEMA, TABLES, generate

SCALE = os.environ.get("TPCH_SCALE", "0.1")

DATABASE = "tpch"

# Some of the queries take PostgreSQL minutes without.
INDEXES = [
    "CREATE INDEX ON lineitem (l_partkey, l_suppkey)",
    "CREATE INDEX ON orders (o_custkey)",
    "ANALYZE",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with a CSV file for each table."""
    directory = tmp_path_factory.mktemp("tpch")
    generate(directory, SCALE)
    return directory


@pytest.fixture(scope="module")
def tpch(data: Path, plain_postgres: Address, gateway: Address) -> Iterator[Pair]:
    """The same tables on both servers."""
    for server in (plain_postgres, gateway):
        server.execute(f"CREATE DATABASE {DATABASE}")
        load(server, data)
    plain_postgres.execute(*INDEXES, database=DATABASE)
    yield Pair(plain_postgres, gateway, DATABASE)
    for server in (plain_postgres, gateway):
        server.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


def load(server: Address, data: Path) -> None:
    copies = "".join(
        f"\\copy {table} FROM '{data / table}.csv' WITH (FORMAT csv, HEADER)\n" for table in TABLES
    )
    script = SCHEMA.read_text(encoding="utf-8") + copies
    loaded = run(
        "psql",
        ["--no-psqlrc", "--set=ON_ERROR_STOP=1"],
        server=server.variables(DATABASE),
        stdin=script,
        timeout_s=1800,
    )
    assert loaded.returncode == 0, loaded.stderr
    tags = [line for line in loaded.stdout.splitlines() if line.startswith("COPY")]
    counts = [f"COPY {sum(1 for _ in (data / f'{table}.csv').open()) - 1}" for table in TABLES]
    assert tags == counts


def answer(server: Address, query: str) -> tuple[list[tuple[object, ...]], list[tuple[str, ...]]]:
    """Return the columns and the rows as they are on the wire."""
    with psycopg.connect(server.conninfo(DATABASE)) as connection:
        result = connection.pgconn.exec_(query.encode())
    assert result.status == psycopg.pq.ExecStatus.TUPLES_OK, result.error_message.decode()
    numbers = range(result.nfields)
    columns = [(result.fname(n), result.ftype(n), result.fmod(n)) for n in numbers]
    rows = [
        tuple((result.get_value(row, n) or b"NULL").decode() for n in numbers)
        for row in range(result.ntuples)
    ]
    return columns, rows


def compare(tpch: Pair, query: str) -> None:
    expected, found = answer(tpch.plain, query), answer(tpch.gateway, query)
    assert found == expected


@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_query_answers_as_postgresql(tpch: Pair, path: Path) -> None:
    compare(tpch, path.read_text(encoding="utf-8"))


@pytest.mark.timeout(900)
def test_every_row_arrives(tpch: Pair) -> None:
    keys = {"partsupp": "1, 2", "lineitem": "1, 4"}
    for table in TABLES:
        compare(tpch, f"SELECT * FROM {table} ORDER BY {keys.get(table, '1')}")
