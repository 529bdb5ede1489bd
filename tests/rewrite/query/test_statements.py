"""Statement files on PostgreSQL and, compiled, on Spark: the same rows, or the refusal named."""

from pathlib import Path

import pytest

from rewrite.errors import UnsupportedError
from tests.support.rewrite_oracle import Oracle
from tests.support.statements import Statement, statements

FILES = Path(__file__).parents[2] / "fixtures" / "rewrite" / "queries"
QUERIES = (
    "joins",
    "grouping",
    "sublinks",
    "set_operations",
    "order_and_limit",
    "windows",
    "subqueries",
)

pytestmark = [pytest.mark.catalog, pytest.mark.spark]


def cases(*names: str) -> list[object]:
    return [
        pytest.param(statement, id=f"{name}-{number}")
        for name in names
        for number, statement in enumerate(statements(FILES / f"{name}.sql"), 1)
    ]


@pytest.fixture(scope="module", autouse=True)
def _tables(oracle: Oracle) -> None:
    oracle.execute((FILES / "schema.sql").read_text())


@pytest.mark.parametrize("statement", cases(*QUERIES))
def test_query_yields_the_rows_of_postgresql(oracle: Oracle, statement: Statement) -> None:
    oracle.check(statement.sql, ordered=statement.directive("ordered") is not None)


@pytest.mark.parametrize("statement", cases("changes"))
def test_change_leaves_and_returns_what_postgresql_does(
    oracle: Oracle, statement: Statement
) -> None:
    oracle.check_change(statement.sql)


@pytest.mark.parametrize("statement", cases("inserts"))
def test_insert_adds_the_rows_of_postgresql(oracle: Oracle, statement: Statement) -> None:
    oracle.check_insert(statement.sql)


@pytest.mark.parametrize("statement", cases("refused"))
def test_construct_without_mapping_is_refused_by_name(oracle: Oracle, statement: Statement) -> None:
    with pytest.raises(UnsupportedError, match=str(statement.directive("refused"))) as refusal:
        oracle.compile(statement.sql)
    assert refusal.value.sqlstate == "0A000"
