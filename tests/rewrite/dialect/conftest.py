"""A database with the rows of ``edge``, on PostgreSQL and on Spark."""

from collections.abc import Iterator

import pytest

from tests.rewrite.dialect.cases import ROWS
from tests.support.rewrite_oracle import Oracle, database, make_spark
from tests.support.servers import Address


@pytest.fixture(scope="session")
def edge(plain_postgres: Address) -> Iterator[Oracle]:
    """Both servers, with the table of edge values."""
    with database(plain_postgres.conninfo(), "edge_values") as connection:
        oracle = Oracle(connection, make_spark())
        oracle.execute(ROWS.read_text())
        yield oracle
