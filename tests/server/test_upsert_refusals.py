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
    "CREATE TABLE keyless (id integer, code integer UNIQUE)",
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
            "INSERT INTO coded TABLE s ON CONFLICT (code) DO UPDATE SET id = excluded.id",
            "ON CONFLICT by other keys than the primary one, of more rows than may be hot,",
            'single rows of "s", which has no primary key,',
        ),
        (
            "INSERT INTO coded TABLE s ON CONFLICT DO NOTHING",
            "ON CONFLICT by other keys than the primary one, of more rows than may be hot,",
            'single rows of "s", which has no primary key,',
        ),
        (
            "INSERT INTO keyless SELECT * FROM coded ON CONFLICT DO NOTHING",
            "ON CONFLICT without primary key, of more rows than may be hot,",
            'single rows of "keyless", which has no primary key,',
        ),
    ],
)
def test_the_construct_is_named(
    client: psycopg.Connection, statement: str, named: str, why: str
) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=named) as raised:
        client.execute(statement)  # type: ignore[call-overload]
    assert why in (raised.value.diag.message_detail or "")
