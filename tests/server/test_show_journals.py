"""Journals in lists of relations, for sessions that ask for it."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.support import programs
from tests.support.servers import Address

pytestmark = pytest.mark.server

SETTING = "gateway.show_journals"

CLASSES = "SELECT relname FROM pg_class WHERE relname LIKE 'depts%l' ORDER BY 1"

LISTS = {
    "pg_class": CLASSES,
    "pg_catalog.pg_class": CLASSES.replace("pg_class", "pg_catalog.pg_class AS c"),
    "pg_class with system columns": CLASSES.replace("relname FROM", "relname, xmin, tableoid FROM"),
    "pg_tables": "SELECT tablename FROM pg_tables WHERE schemaname = 'hr' AND tablename LIKE '%l'",
    "tables": "SELECT table_name FROM information_schema.tables"
    " WHERE table_name LIKE '%\\_journal'",
    "columns": "SELECT DISTINCT table_name FROM information_schema.columns"
    " WHERE column_name = 'version_number'",
    "table_privileges": "SELECT DISTINCT table_name FROM information_schema.table_privileges"
    " WHERE table_name LIKE '%\\_journal'",
}


@pytest.fixture
def resident_database(resident_gateway: Address) -> Iterator[str]:
    """Name of a database with one table."""
    resident_gateway.execute("CREATE DATABASE shown")
    resident_gateway.execute(
        "CREATE SCHEMA hr",
        "CREATE TABLE hr.depts (deptno integer PRIMARY KEY, name text)",
        "CREATE ROLE passer_by LOGIN",
        database="shown",
    )
    yield "shown"
    resident_gateway.execute("DROP DATABASE shown WITH (FORCE)", "DROP ROLE passer_by")


@pytest.fixture
def connection(
    resident_gateway: Address, resident_database: str
) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection to it."""
    conninfo = resident_gateway.conninfo(resident_database)
    with psycopg.connect(conninfo, autocommit=True) as opened:
        yield opened


def first_column(connection, query):
    return [row[0] for row in connection.execute(query)]


@pytest.mark.parametrize("query", LISTS.values(), ids=LISTS)
def test_lists_show_journals_while_the_setting_is_on(connection, query):
    assert first_column(connection, query) == []
    connection.execute(f"SET {SETTING} = on")
    assert first_column(connection, query) == ["depts_journal"]
    connection.execute(f"SET {SETTING} = off")
    assert first_column(connection, query) == []


def test_the_setting_obeys_transactions(connection):
    connection.execute(f"SET {SETTING} = on")
    with connection.transaction(force_rollback=True):
        connection.execute(f"SET LOCAL {SETTING} = off")
        assert first_column(connection, CLASSES) == []
    assert first_column(connection, CLASSES) == ["depts_journal"]
    connection.execute(f"SELECT set_config('{SETTING}', 'false', false)")
    assert first_column(connection, CLASSES) == []
    connection.execute("DISCARD ALL")
    assert first_column(connection, CLASSES) == []


def test_the_setting_may_come_with_the_connection(resident_gateway, resident_database):
    options = f"-c {SETTING}=on"
    conninfo = resident_gateway.conninfo(resident_database, options=options)
    with psycopg.connect(conninfo) as connection:
        assert first_column(connection, CLASSES) == ["depts_journal"]


def test_only_journals_one_may_read_are_shown(connection, resident_gateway, resident_database):
    conninfo = resident_gateway.conninfo(resident_database, user="passer_by")
    with psycopg.connect(conninfo, autocommit=True) as other:
        other.execute(f"SET {SETTING} = on")
        assert first_column(other, CLASSES) == []
        connection.execute("GRANT SELECT ON hr.depts TO passer_by")
        assert first_column(other, CLASSES) == ["depts_journal"]


def test_a_relation_of_the_name_hides_the_journal(connection):
    connection.execute("CREATE VIEW hr.depts_journal AS SELECT 1 AS mine")
    connection.execute(f"SET {SETTING} = on")
    query = "SELECT relname, relkind FROM pg_class WHERE relname = 'depts_journal'"
    assert connection.execute(query).fetchall() == [("depts_journal", "v")]


def test_journals_of_tiered_tables_are_shown(gateway, database):
    with psycopg.connect(gateway.conninfo(database), autocommit=True) as connection:
        connection.execute("CREATE TABLE depts (deptno integer PRIMARY KEY)")
        connection.execute(f"SET {SETTING} = on")
        assert first_column(connection, CLASSES) == ["depts_journal"]
        assert first_column(connection, LISTS["tables"]) == ["depts_journal"]


def test_a_word_that_is_no_boolean_fails_the_next_list(connection):
    connection.execute(f"SET {SETTING} = maybe")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="requires a Boolean value"):
        connection.execute("SELECT relname FROM pg_class")
    assert first_column(connection, "SELECT count(*) FROM hr.depts") == [0]


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW"])
def test_definitions_hold_the_lists_of_postgresql(connection, kind):
    connection.execute(f"SET {SETTING} = on")
    connection.execute(f"CREATE {kind} hr.classes AS {CLASSES}")
    definition = connection.execute("SELECT pg_get_viewdef('hr.classes'::regclass)").fetchone()
    assert "FROM pg_class" in definition[0]


def test_dumps_know_nothing_of_the_setting(resident_gateway, resident_database):
    server = resident_gateway.variables(resident_database)
    plain, shown = (
        programs.run("pg_dump", ["--restrict-key=key"], server={**server, "PGOPTIONS": options})
        for options in ("", f"-c {SETTING}=on")
    )
    assert "CREATE TABLE hr.depts (" in plain.stdout
    assert (shown.stdout, shown.stderr) == (plain.stdout, "")


@pytest.mark.parametrize("shown", [False, True])
def test_psql_lists_and_describes_journals(resident_gateway, resident_database, shown):
    typed = f"SET {SETTING} = {shown};\nSET search_path = hr;\n\\dt\n\\d depts_journal\n\\d+\n"
    server = resident_gateway.variables(resident_database)
    done = programs.run("psql", ["--no-psqlrc"], server=server, stdin=typed, merged=True)
    assert (" hr     | depts_journal | table | postgres" in done.stdout) == shown
    assert ('Table "hr.depts_journal"' in done.stdout) == shown
    assert (" version_number " in done.stdout) == shown
    assert "pgwire" not in done.stdout
