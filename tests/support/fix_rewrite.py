"""Fixtures that compare compiled statements on Spark with PostgreSQL."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from catalog.server.embedded import SUPERUSER, EmbeddedServer
from tests.support.rewrite_oracle import Oracle, database, make_spark
from tests.support.thawing import Thawing

SEED = 20_418


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    """Yield a small local Spark."""
    spark = make_spark()
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def oracle_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the connection string of a PostgreSQL of its own."""
    server = EmbeddedServer(Path(tmp_path_factory.mktemp("oracle")))
    server.start()
    yield f"postgresql://{SUPERUSER}@/postgres?host={server.host}&port={server.port}"
    server.stop()


@pytest.fixture
def thawing(oracle_uri: str) -> Iterator[Thawing]:
    """Yield tables of which a part of the rows is hot."""
    with database(oracle_uri, "thawing") as connection:
        opened = Thawing(connection.info.dsn, random.Random(SEED))  # noqa: S311 - the same each time
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def oracle(
    request: pytest.FixtureRequest, spark_session: SparkSession, oracle_uri: str
) -> Iterator[Oracle]:
    """Yield an empty database on PostgreSQL, and Spark beside it."""
    name = request.module.__name__.rpartition(".")[2]
    with database(oracle_uri, name) as connection:
        yield Oracle(connection, spark_session)
