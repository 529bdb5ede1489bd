"""Parts of a statement whose order, which only PostgreSQL knows, decides what foreign keys find."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

SCHEMA = "several_keys"

TABLES = (
    "CREATE TABLE gp (id integer PRIMARY KEY)",
    "CREATE TABLE p (id integer PRIMARY KEY REFERENCES gp ON UPDATE CASCADE ON DELETE CASCADE)",
    "CREATE TABLE ch (id integer PRIMARY KEY, r integer REFERENCES p ON DELETE CASCADE)",
)


@pytest.fixture
def connection(two_tiers_pair: Pair) -> Iterator[psycopg.Connection]:
    """Yield a connection to tiered tables that reference each other, ten rows in each."""
    conninfo = two_tiers_pair.gateway.conninfo(two_tiers_pair.database)
    options = f"-c search_path={SCHEMA}"
    with psycopg.connect(conninfo, autocommit=True, options=options) as opened:
        opened.execute(f"CREATE SCHEMA {SCHEMA}")
        for statement in TABLES:
            opened.execute(statement)
        opened.execute("INSERT INTO gp SELECT g FROM generate_series(1, 10) g")
        opened.execute("INSERT INTO p SELECT g FROM generate_series(1, 10) g")
        opened.execute("INSERT INTO ch SELECT g, g FROM generate_series(1, 9) g")
        for table in ("ch", "p", "gp"):
            make_tiered(opened, table)
        yield opened
        for table in ("gp", "p", "ch"):
            assert opened.execute(f"SELECT gateway.check('{table}')").fetchall() == [(0,)]
        opened.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def test_what_a_foreign_key_brings_too_late_is_refused(connection: psycopg.Connection) -> None:
    with pytest.raises(errors.FeatureNotSupported, match="what a foreign key brings"):
        connection.execute(
            "WITH w AS (UPDATE gp SET id = 100 WHERE id = 10 RETURNING id)"
            " INSERT INTO ch VALUES (100, 100)"
        )
    assert connection.execute("SELECT max(id) FROM p").fetchall() == [(10,)]


def test_what_a_foreign_key_takes_away_before_is_refused(connection: psycopg.Connection) -> None:
    with pytest.raises(errors.FeatureNotSupported, match="that a foreign key takes away"):
        connection.execute(
            "WITH w AS (DELETE FROM p WHERE id = 5 RETURNING id) INSERT INTO ch VALUES (200, 5)"
        )
    assert connection.execute("SELECT count(*) FROM p").fetchall() == [(10,)]


def test_a_row_that_is_brought_and_taken_away_does_not_end_another(
    connection: psycopg.Connection,
) -> None:
    """The key of row 6 is that of a cold row."""
    with pytest.raises(errors.UniqueViolation):
        connection.execute(
            "WITH w AS (DELETE FROM p WHERE id = 5 RETURNING id)"
            " INSERT INTO ch SELECT id + 1, id FROM w"
        )
    assert connection.execute("SELECT r FROM ch WHERE id = 6").fetchall() == [(6,)]
