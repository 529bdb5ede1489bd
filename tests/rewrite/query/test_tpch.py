"""The 22 queries of TPC-H answer on Spark what they answer on PostgreSQL."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.rewrite_oracle import Oracle
from tests.support.statements import Statement, statements

FILES = Path(__file__).parents[2] / "fixtures" / "rewrite" / "tpch"
GENERATOR = Path(sys.executable).with_name("tpchgen-cli")
TABLES = ("region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem")
SCALE = "0.005"

pytestmark = [pytest.mark.catalog, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def _tables(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("tpch")
    command = [GENERATOR, "csv", "-s", SCALE, "-o", directory]
    subprocess.run(command, check=True, capture_output=True)
    oracle.execute((FILES / "schema.sql").read_text())
    for table in TABLES:
        # Below scale 1 the generator repeats keys of partsupp.
        oracle.connection.execute(f"create temp table loaded (like {table})")
        with oracle.connection.cursor().copy("copy loaded from stdin csv header") as rows:
            rows.write((directory / f"{table}.csv").read_text())
        oracle.connection.execute(
            f"insert into {table} select * from loaded on conflict do nothing"
        )
        oracle.connection.execute("drop table loaded")


@pytest.mark.parametrize(
    "query",
    [pytest.param(query, id=query.directives[0]) for query in statements(FILES / "queries.sql")],
)
def test_query(oracle: Oracle, query: Statement) -> None:
    compiled = oracle.check(query.sql)
    assert oracle.run(compiled).rows, "the query shows nothing where it finds nothing"
