"""Values that errors show: none of columns that the role may not read, as in PostgreSQL."""

from collections.abc import Iterator, Sequence

import psycopg
import pytest

from tests.support.fix_server import Pair
from tests.support.servers import Address

pytestmark = pytest.mark.server

ROLE = "shown_values_mallory"

SCHEMA = "shown_values"

DEFINITIONS = (
    f"CREATE SCHEMA {SCHEMA} CREATE TABLE parent (a text, b text, PRIMARY KEY (a, b))",
    f"GRANT USAGE ON SCHEMA {SCHEMA} TO {ROLE}",
    f"SET search_path = {SCHEMA}",
    (
        "CREATE TABLE child (id integer PRIMARY KEY, a text, b text,"
        " FOREIGN KEY (a, b) REFERENCES parent)"
    ),
    (
        "CREATE TABLE t (id integer PRIMARY KEY, open text, hidden text NOT NULL, n integer,"
        " CONSTRAINT positive CHECK (n > 0), CONSTRAINT good CHECK (open <> 'bad'),"
        " UNIQUE (open, hidden))"
    ),
    "CREATE TABLE k (open integer, hidden text, v integer, PRIMARY KEY (open, hidden))",
    "INSERT INTO parent VALUES ('x', 'secret 1'), ('x', 'secret 2'), ('y', 'secret 1')",
    "INSERT INTO child VALUES (1, 'x', 'secret 1'), (2, 'x', 'secret 2')",
    "INSERT INTO t SELECT i, 'o' || i, 'secret ' || i / 2, i FROM generate_series(1, 1500) i",
    "INSERT INTO k SELECT i, 'secret ' || i / 2, i FROM generate_series(1, 1500) i",
    f"GRANT SELECT (id, open), INSERT, UPDATE, DELETE ON t TO {ROLE}",
    f"GRANT SELECT (open), INSERT, UPDATE ON k TO {ROLE}",
    f"GRANT SELECT (id, a), INSERT, UPDATE ON child TO {ROLE}",
    f"GRANT SELECT (a), UPDATE, DELETE ON parent TO {ROLE}",
)

ALL = "(SELECT * FROM generate_series(1, 1500) i) s"

STATEMENTS = (
    "UPDATE t SET open = 'o2' WHERE id = 3",
    "UPDATE t SET open = 'one'",
    "UPDATE t SET open = 'bad' WHERE id = 3",
    "UPDATE t SET open = 'bad'",
    "UPDATE t SET n = -1 WHERE id = 3",
    "UPDATE t SET n = -id",
    "UPDATE t SET hidden = NULL WHERE id = 3",
    "UPDATE t SET hidden = NULL",
    "UPDATE t SET id = 1 WHERE id = 2",
    f"MERGE INTO t USING {ALL} ON t.id = s.i WHEN MATCHED THEN UPDATE SET open = 'bad'",
    f"MERGE INTO t USING {ALL} ON t.id = s.i WHEN MATCHED THEN UPDATE SET open = 'one'",
    (
        f"MERGE INTO t USING {ALL} ON t.id = s.i WHEN MATCHED THEN UPDATE SET n = -1"
        " WHEN NOT MATCHED THEN INSERT (id, hidden) VALUES (s.i, 'x')"
    ),
    "INSERT INTO t VALUES (4000, 'bad', 'x', 1)",
    "INSERT INTO t (id, open) VALUES (4000, 'q')",
    "INSERT INTO t VALUES (4000, 'o1', 'secret 0', 1)",
    "INSERT INTO t VALUES (1, 'q', 'x', 1) ON CONFLICT (id) DO UPDATE SET open = 'bad'",
    "UPDATE k SET open = 2 WHERE open = 3",
    "UPDATE k SET open = 1",
    "INSERT INTO k VALUES (2, 'secret 1', 1)",
    "UPDATE child SET a = 'z' WHERE id = 1",
    "UPDATE child SET a = 'z'",
    "INSERT INTO child VALUES (7, 'z', 'x')",
    "UPDATE parent SET a = 'z' WHERE a = 'x'",
    "DELETE FROM parent WHERE a = 'x'",
    "DELETE FROM parent",
)


@pytest.fixture(scope="module")
def tables(shared_pair: Pair) -> Iterator[Sequence[Address]]:
    """Define the tables on both servers."""
    servers = (shared_pair.plain, shared_pair.gateway)
    for server in servers:
        server.execute(f"CREATE ROLE {ROLE} LOGIN", *DEFINITIONS, database=shared_pair.database)
    yield servers
    for server in servers:
        server.execute(
            f"DROP SCHEMA {SCHEMA} CASCADE", f"DROP ROLE {ROLE}", database=shared_pair.database
        )


def _told(server: Address, database: str, statement: str) -> tuple[str | None, str | None]:
    path = f"-c search_path={SCHEMA}"
    with psycopg.connect(server.conninfo(database, user=ROLE, options=path)) as connection:
        try:
            connection.execute(statement)  # type: ignore[call-overload]
        except psycopg.Error as error:
            return error.sqlstate, error.diag.message_detail
        finally:
            connection.rollback()
    return None, None


@pytest.mark.parametrize("statement", STATEMENTS)
def test_errors_show_what_the_role_may_read(
    shared_pair: Pair, tables: Sequence[Address], statement: str
) -> None:
    expected, found = (_told(server, shared_pair.database, statement) for server in tables)
    assert expected[0] is not None
    assert found == expected
