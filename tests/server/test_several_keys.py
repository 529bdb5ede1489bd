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


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
@pytest.mark.parametrize(
    "statement",
    [
        "WITH w AS (DELETE FROM gp WHERE id = 10) INSERT INTO few VALUES (1, 10)",
        "WITH w AS (DELETE FROM gp WHERE id = 10) UPDATE few SET r = 10",
        "WITH w AS (UPDATE gp SET id = 100 WHERE id = 10) INSERT INTO few VALUES (1, 10)",
        (
            "WITH w AS (INSERT INTO few VALUES (1, 10) RETURNING r)"
            " DELETE FROM gp USING w WHERE id = r"
        ),
    ],
)
def test_what_a_foreign_key_takes_from_a_resident_table_is_refused(
    connection: psycopg.Connection, statement: str, action: str, level: str
) -> None:
    _make_few(connection, f"REFERENCES gp ON DELETE {action} ON UPDATE {action}")
    connection.execute("INSERT INTO few VALUES (0, 9)")
    connection.execute(f"SET default_transaction_isolation = '{level.lower()}'")
    with pytest.raises(errors.FeatureNotSupported, match="that a foreign key takes away"):
        connection.execute(statement)
    assert connection.execute("SELECT * FROM few").fetchall() == [(0, 9)]
    assert connection.execute("SELECT count(*), max(id) FROM gp").fetchall() == [(10, 10)]


def test_what_another_foreign_key_takes_from_a_resident_table_is_refused(
    connection: psycopg.Connection,
) -> None:
    connection.execute("CREATE TABLE kinds AS SELECT 1 AS id")
    connection.execute("ALTER TABLE kinds ADD PRIMARY KEY (id)")
    _make_few(connection, "REFERENCES gp, kind integer REFERENCES kinds ON DELETE CASCADE")
    connection.execute("INSERT INTO few VALUES (0, 9, 1)")
    with pytest.raises(errors.FeatureNotSupported, match="that a foreign key takes away"):
        connection.execute("WITH w AS (DELETE FROM kinds) UPDATE few SET r = 999")
    assert connection.execute("SELECT * FROM few").fetchall() == [(0, 9, 1)]


def test_what_one_statement_brings_to_a_resident_table_another_one_takes_away(
    connection: psycopg.Connection,
) -> None:
    _make_few(connection, "REFERENCES gp ON DELETE CASCADE ON UPDATE CASCADE")
    with connection.transaction():
        connection.execute("INSERT INTO few VALUES (1, 9), (2, 10), (3, 8)")
        connection.execute("DELETE FROM gp WHERE id = 9")
        connection.execute("UPDATE gp SET id = 100 WHERE id = 10")
        connection.execute("INSERT INTO few VALUES (4, 7)")
    found = connection.execute("SELECT * FROM few ORDER BY id").fetchall()
    assert found == [(2, 100), (3, 8), (4, 7)]


def test_rows_of_a_resident_table_that_a_trigger_mends_reference_what_it_says(
    connection: psycopg.Connection,
) -> None:
    """By its name the trigger comes before PostgreSQL's own."""
    _make_few(connection, "REFERENCES gp ON DELETE CASCADE")
    connection.execute(
        "CREATE FUNCTION mend() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN UPDATE few SET r = 8 WHERE id = new.id; RETURN NULL; END'"
    )
    connection.execute(
        'CREATE TRIGGER "A" AFTER INSERT ON few FOR EACH ROW EXECUTE FUNCTION mend()'
    )
    with connection.transaction():
        connection.execute("DELETE FROM gp WHERE id = 10")
        connection.execute("INSERT INTO few VALUES (1, 999)")
        connection.execute("INSERT INTO few VALUES (2, 10)")
    assert connection.execute("SELECT * FROM few ORDER BY id").fetchall() == [(1, 8), (2, 8)]


def test_what_a_deferred_foreign_key_takes_from_a_resident_table_is_gone(
    connection: psycopg.Connection,
) -> None:
    _make_few(connection, "REFERENCES gp ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED")
    connection.execute("WITH w AS (DELETE FROM gp WHERE id = 10) INSERT INTO few VALUES (1, 10)")
    assert connection.execute("SELECT * FROM few").fetchall() == []


def _make_few(connection: psycopg.Connection, references: str) -> None:
    connection.execute(f"CREATE TABLE few (id integer PRIMARY KEY, r integer {references})")
    query = "SELECT residency FROM gateway.tables WHERE table_name = 'few'"
    assert connection.execute(query).fetchall() == [("resident",)]
