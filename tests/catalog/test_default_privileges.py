"""Default privileges of whoever the catalog's URL names give nobody rights on the bookkeeping.

In an external catalog that is a superuser with other tables, whose default privileges may be meant
for these.
"""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from catalog.api import Catalog
from catalog.server.embedded import SUPERUSER
from catalog.server.migrations import migrate
from tests.support.fix_catalog import Client

pytestmark = pytest.mark.catalog

ROLE = "default_privileges_app"

DEFAULTS = (
    f"ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {ROLE}",
    f"ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO {ROLE} WITH GRANT OPTION",
    f"ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO {ROLE}",
    f"ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO {ROLE}",
)

GIVEN = f"""
SELECT c.oid::regclass::text FROM pg_class c, aclexplode(c.relacl) x
 WHERE c.relnamespace = 'pg_journal'::regnamespace AND x.grantee = '{ROLE}'::regrole
 UNION ALL
SELECT p.oid::regprocedure::text FROM pg_proc p, aclexplode(p.proacl) x
 WHERE p.pronamespace = 'pg_journal'::regnamespace AND x.grantee = '{ROLE}'::regrole
 UNION ALL
SELECT n.nspname FROM pg_namespace n, aclexplode(n.nspacl) x
 WHERE n.nspname = 'pg_journal' AND x.grantee = '{ROLE}'::regrole
"""

PUBLIC = """
SELECT c.oid::regclass::text, x.privilege_type FROM pg_class c, aclexplode(c.relacl) x
 WHERE c.relnamespace = 'pg_journal'::regnamespace AND x.grantee = 0
 UNION ALL
SELECT p.oid::regprocedure::text, 'EXECUTE' FROM pg_proc p
 WHERE p.pronamespace = 'pg_journal'::regnamespace
   AND has_function_privilege('public', p.oid, 'EXECUTE')
 ORDER BY 1, 2
"""

TABLES = (
    "CREATE TABLE parent (id int PRIMARY KEY, v int)",
    "CREATE TABLE child (id int PRIMARY KEY REFERENCES parent DEFERRABLE, v int)",
)


@pytest.fixture
def administrator(catalog: Catalog, database: str) -> Iterator[psycopg.Connection]:
    """Return the administrator's connection, where a role has rights by default."""
    assert catalog.server is not None
    address = f"host={catalog.server.host} port={catalog.server.port}"
    opened = f"{address} user={SUPERUSER} dbname={database}"
    with psycopg.connect(opened, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {ROLE}")
        for statement in DEFAULTS:
            connection.execute(statement)
        yield connection
        connection.execute(f"DROP OWNED BY {ROLE}")
        connection.execute(f"DROP ROLE {ROLE}")


def test_what_is_made_with_the_bookkeeping_is_nobodys(administrator: psycopg.Connection) -> None:
    before = administrator.execute(PUBLIC).fetchall()
    administrator.execute("DROP SCHEMA pg_journal CASCADE")
    migrate(administrator)
    assert administrator.execute(GIVEN).fetchall() == []
    assert administrator.execute(PUBLIC).fetchall() == before


@pytest.mark.parametrize("resident_rows", [0, 100000])
def test_what_is_made_with_tables_is_nobodys(
    administrator: psycopg.Connection, connect: Callable[..., Client], resident_rows: int
) -> None:
    client = connect()
    administrator.execute(f"SELECT pg_journal.configure({resident_rows}, 67108864, 1000000)")
    for statement in TABLES:
        client.run(statement)
    administrator.execute("SELECT pg_journal.add_series()")
    if not resident_rows:
        administrator.execute("SELECT pg_journal.make_thawing('child'::regclass)")
    assert administrator.execute(GIVEN).fetchall() == []
    client.run(f"GRANT SELECT ON child TO {ROLE}")
    journal = f"pg_journal.journal_{client.relid('child')}"
    assert administrator.execute(GIVEN).fetchall() == [(journal,)]
