"""Errors tell the values of keys only to roles that may read the columns, as PostgreSQL's do."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

SCHEMA = "hidden_values"
ROLE = "hidden_values_writer"

SETUP = (
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path TO {SCHEMA}",
    f"CREATE ROLE {ROLE}",
    f"GRANT {ROLE} TO current_user",
    f"GRANT USAGE ON SCHEMA {SCHEMA} TO {ROLE}",
    "CREATE TABLE t (id integer PRIMARY KEY, a integer, b integer, w text, UNIQUE (a, b))",
    "CREATE UNIQUE INDEX t_upper ON t (upper(w)) WHERE id > 0",
    "INSERT INTO t SELECT g, g, 700, 'w' || g FROM generate_series(1, 6) g",
    "CREATE TABLE p (id integer PRIMARY KEY)",
    "INSERT INTO p SELECT generate_series(1, 6)",
    "CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p)",
    "CREATE TABLE d (id integer PRIMARY KEY, p integer REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
    "INSERT INTO d VALUES (1, 1)",
    f"GRANT INSERT, UPDATE ON t TO {ROLE}",
    f"GRANT INSERT ON c, d TO {ROLE}",
    f"GRANT DELETE ON p TO {ROLE}",
)

FAILING = (
    "INSERT INTO t VALUES (1)",
    # The other half of the value is one that the role may not read.
    "UPDATE t SET a = 2 WHERE id = 1",
    "UPDATE t SET w = 'W2' WHERE id = 3",
    "INSERT INTO c VALUES (1, 77)",
    "INSERT INTO d VALUES (77, 77)",
    "INSERT INTO d VALUES (1, 2)",
    "DELETE FROM p WHERE id = 1",
)

RIGHTS = {
    "columns": (
        f"GRANT SELECT (id, w) ON t TO {ROLE}",
        f"GRANT SELECT ON p TO {ROLE}",
    ),
    "others": (
        f"GRANT SELECT (id, a, b) ON t TO {ROLE}",
        f"GRANT SELECT (id) ON p TO {ROLE}",
        f"GRANT SELECT (id, p) ON c TO {ROLE}",
        f"GRANT SELECT (id) ON d TO {ROLE}",
    ),
    "tables": (f"GRANT SELECT ON t, c, d, p TO {ROLE}",),
}


@pytest.fixture(scope="module")
def told(two_tiers_pair: Pair) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """A session on each server, PostgreSQL's and the gateway's, whose tables are tiered."""
    addresses = (two_tiers_pair.plain, two_tiers_pair.gateway)
    plain, gateway = (
        psycopg.connect(address.conninfo(two_tiers_pair.database), autocommit=True)
        for address in addresses
    )
    for connection in (plain, gateway):
        for statement in SETUP:
            connection.execute(statement)
    make_tiered(gateway, "t", "p", "c", "d")
    yield plain, gateway
    for connection in (plain, gateway):
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
        connection.execute(f"DROP OWNED BY {ROLE}")
        connection.execute(f"DROP ROLE {ROLE}")
        connection.close()


@pytest.mark.parametrize("rights", RIGHTS)
def test_values_are_told_to_whoever_may_read_them(
    told: tuple[psycopg.Connection, psycopg.Connection], rights: str
) -> None:
    plain, gateway = (_details(connection, rights) for connection in told)
    assert gateway == plain
    # Some are told and some are not, unless the role may read all.
    assert (None in plain) == (rights != "tables")
    assert any(detail and "=" in detail for detail in plain)


def _details(connection: psycopg.Connection, rights: str) -> list[str | None]:
    """Return the DETAIL of each error."""
    connection.execute(f"REVOKE SELECT ON t, p, c, d FROM {ROLE}")
    for statement in RIGHTS[rights]:
        connection.execute(statement)
    for table in ("t", "p", "c", "d"):
        # Nothing is hot: what PostgreSQL's own indexes find PostgreSQL tells.
        connection.execute(f"VACUUM {table}")
    connection.execute(f"SET ROLE {ROLE}")
    details = []
    for statement in FAILING:
        with pytest.raises(errors.IntegrityError) as caught:
            connection.execute(statement)
        details.append(caught.value.diag.message_detail)
    connection.execute("RESET ROLE")
    return details
