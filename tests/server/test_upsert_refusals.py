"""What is refused of ON CONFLICT of many rows is said, and why PostgreSQL does not run it."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

SCHEMA = "upsert_refusals"

SETUP = (
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    "CREATE TABLE s (id integer, code integer)",
    "INSERT INTO s SELECT g, g FROM generate_series(1, 3000) g",
    "CREATE TABLE coded (id integer PRIMARY KEY, code integer UNIQUE)",
    "INSERT INTO coded SELECT g, -g FROM generate_series(1, 3000) g",
    "CREATE TABLE halves (id integer PRIMARY KEY, code integer)",
    "CREATE UNIQUE INDEX ON halves (code) WHERE id > 0",
    "CREATE TABLE bare (id integer, code integer)",
)


@pytest.fixture(scope="module")
def client(shared_pair: Pair) -> Iterator[psycopg.Connection]:
    """A connection to the gateway, with tables."""
    with psycopg.connect(shared_pair.gateway.conninfo(shared_pair.database)) as connection:
        connection.autocommit = True
        for statement in SETUP:
            connection.execute(statement)  # type: ignore[call-overload]
        yield connection
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


@pytest.mark.parametrize(
    ("statement", "named", "why"),
    [
        (
            "INSERT INTO halves TABLE s ON CONFLICT DO NOTHING",
            "ON CONFLICT by indexes with WHERE, expressions or NULLS NOT DISTINCT",
            'single rows of "s", which has no primary key,',
        ),
        (
            "INSERT INTO bare SELECT * FROM coded ON CONFLICT DO NOTHING",
            "or without any, of more rows than may be hot,",
            'single rows of "bare", which has no primary key,',
        ),
    ],
)
def test_the_construct_is_named(
    client: psycopg.Connection, statement: str, named: str, why: str
) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=named) as raised:
        client.execute(statement)  # type: ignore[call-overload]
    assert why in (raised.value.diag.message_detail or "")
