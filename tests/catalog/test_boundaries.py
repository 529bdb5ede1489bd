"""What a client's session cannot reach, even with every statement PostgreSQL would let it send."""

import pytest

from catalog.errors import GatewayError
from catalog.hot import resident_upkeep

pytestmark = pytest.mark.catalog


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM pg_journal.journals",
        "SELECT * FROM pg_journal.instance",
        "SELECT * FROM pg_journal.segments",
        "UPDATE pg_journal.journals SET version = now()",
        "DELETE FROM pg_journal.definition_marks",
        "CREATE TABLE pg_journal.mine (a int)",
        "DROP SCHEMA pg_journal CASCADE",
        "ALTER SCHEMA pg_journal OWNER TO postgres",
        "DROP EVENT TRIGGER pgwire_sql_drop",
        "ALTER EVENT TRIGGER pgwire_sql_drop DISABLE",
        "ALTER FUNCTION pg_journal.capture(text, oid, bigint, bigint) OWNER TO postgres",
        "SELECT pg_journal.snapshot('guess', '[]')",
        "SELECT pg_journal.begin_write(NULL, '{1}', 'x', '{}', 'cool')",
        "SELECT pg_journal.truncate('', 1, 0, '[]', 0)",
        "SELECT pg_journal.emptied('', '{1}', '{}', false, true)",
        "SELECT pg_journal.create_journal(1::oid)",
        "SELECT pg_journal.add_segments(1::oid, '[]')",
        "SELECT pg_journal.note_definition()",
        "SET session_replication_role = replica",
        "SET event_triggers = off",
        "SET ROLE pgwire_gateway",
        "SET SESSION AUTHORIZATION pgwire_gateway",
        "GRANT pgwire_gateway TO postgres",
        "ALTER ROLE pgwire_gateway LOGIN PASSWORD 'x'",
        "CREATE ROLE s SUPERUSER",
        "ALTER SYSTEM SET work_mem = '1MB'",
        "LOAD 'auto_explain'",
        "COPY (SELECT 1) TO PROGRAM 'id'",
        "COPY (SELECT 1) TO '/etc/written-by-a-client'",
        "SELECT pg_read_file('PG_VERSION')",
        "SELECT pg_ls_dir('.')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT pg_reload_conf()",
        "SELECT query_to_xml('SELECT 1', true, true, '')",
        "SELECT * FROM ts_stat('SELECT to_tsvector(rolname) FROM pg_authid')",
        "DO $$ BEGIN END $$",
        "CREATE DATABASE c TEMPLATE postgres OWNER pgwire_gateway",
    ],
)
def test_the_bookkeeping_and_the_server_stay_out_of_reach(client, sql):
    assert client.sqlstate(sql) in {"42501", "0A000", "55000"}


def test_checks_that_would_run_with_the_bookkeepings_rights_are_refused(client):
    for expression in (
        "pg_read_file(b) IS NULL",
        "current_user = b",
        "current_setting('data_directory') = b",
        "has_table_privilege('pg_authid', 'SELECT')",
        "random() < 0.5",
    ):
        sql = f"CREATE TABLE t (a int, b text CHECK ({expression}))"
        assert client.sqlstate(sql) in {"42501", "0A000"}, expression
        sql = f"CREATE DOMAIN d AS text CHECK ({expression.replace('b', 'value')})"
        assert client.sqlstate(sql) in {"42501", "0A000", "42703", "42883", "42601"}, expression
    client.run("CREATE TABLE t (a int, b text CHECK (length(b) < 3 AND a::text LIKE '1%'))")


CODE = (
    "CREATE SEQUENCE reached",
    "GRANT ALL ON SEQUENCE reached TO PUBLIC",
    (
        "CREATE FUNCTION note(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN"
        " IF current_user <> session_user OR current_user = 'pgwire_gateway' THEN"
        " PERFORM nextval('public.reached'); END IF; RETURN 1; END $$"
    ),
    (
        "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM public.note(1); RETURN coalesce(new, old); END $$"
    ),
    "CREATE DOMAIN noting AS int CHECK (note(value) = 1)",
    "CREATE DOMAIN plain AS int",
    "CREATE TABLE t (id int PRIMARY KEY, v int, w plain)",
    "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)",
)
"""A table, and code of a role that tells when it runs with other rights."""

BELONGING = {
    "a trigger for replicas": (
        "CREATE TRIGGER a BEFORE INSERT OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION noted()",
        "ALTER TABLE t ENABLE REPLICA TRIGGER a",
    ),
    "a rule that always holds": (
        "CREATE RULE r AS ON DELETE TO t DO ALSO SELECT note(1)",
        "ALTER TABLE t ENABLE ALWAYS RULE r",
    ),
    "a check": ("ALTER TABLE t ADD CHECK (note(v) = 1)",),
    "an index": ("CREATE INDEX ON t (note(v))",),
    "a part of an index": ("CREATE INDEX ON t (v) WHERE note(v) = 1",),
    "a generated column": ("ALTER TABLE t ADD COLUMN g int GENERATED ALWAYS AS (note(v)) STORED",),
    "a domain": ("ALTER TABLE t ADD COLUMN d noting DEFAULT 1",),
    "a check of a domain": ("ALTER DOMAIN plain ADD CHECK (note(value) = 1)",),
}


@pytest.mark.parametrize("what", BELONGING)
def test_rows_are_taken_from_no_table_with_code_of_roles(client, inspector, what):
    for sql in (*CODE, *BELONGING[what]):
        client.run(sql)
    with pytest.raises(GatewayError, match="cannot become tiered") as caught:
        resident_upkeep.make_tiered(inspector.session, client.relid("t"))
    assert caught.value.sqlstate == "55000"
    assert client.run("SELECT count(*), (SELECT is_called FROM reached) FROM t") == [("2", "f")]


@pytest.mark.parametrize("what", BELONGING)
def test_a_tiered_table_gets_no_code_of_roles(client, inspector, what):
    for sql in CODE:
        client.run(sql)
    resident_upkeep.make_tiered(inspector.session, client.relid("t"))
    with pytest.raises(GatewayError) as caught:
        client.run(BELONGING[what][0])
    assert caught.value.sqlstate == "0A000"
    assert client.value("SELECT is_called FROM reached") == "f"


def test_the_superuser_cannot_log_in(catalog):
    with pytest.raises(Exception, match='role "pgwire_gateway" does not exist'):
        catalog.connect("pgwire_gateway", "postgres")


@pytest.mark.parametrize(
    ("login", "sqlstate", "message"),
    [
        (("nobody_here", "postgres", {}), "28000", 'role "nobody_here" does not exist'),
        (("postgres", "no_such", {}), "3D000", 'database "no_such" does not exist'),
        (("postgres", "postgres", {"nope": "1"}), "42704", None),
        (("postgres", "postgres", {"datestyle": "nope"}), "22023", None),
        (("postgres", "postgres", {"event_triggers": "off"}), "42501", None),
    ],
)
def test_refused_logins_say_what_postgresql_says(catalog, login, sqlstate, message):
    user, database, settings = login
    with pytest.raises(Exception) as caught:  # noqa: PT011 — the SQLSTATE is looked at
        catalog.connect(user, database, settings)
    assert caught.value.sqlstate == sqlstate
    assert caught.value.fields["S"] == "FATAL"
    if message is not None:
        assert caught.value.message == message


@pytest.mark.parametrize("quote", ["$pgwire$", "$f$", "$$", "$body$"])
def test_names_end_no_quotation_of_ours(client, catalog, database, quote):
    name = f"a{quote};ALTER ROLE postgres SUPERUSER;SELECT {quote}"
    client.run("SET check_function_bodies = off")
    client.run(f'CREATE TABLE t (k int PRIMARY KEY, "{name}" int, "e" int)')
    assert catalog.thawing(database).warm(client.relid("t"))
    assert client.value("SELECT rolsuper FROM pg_roles WHERE rolname = 'postgres'") == "f"
    client.insert("t", "INSERT INTO t VALUES (1, 2, 3)")
    assert client.tail("t") == [[1, 2, 3]]


DEFINERS = """
    SELECT p.oid::regprocedure::text,
           (SELECT setting FROM unnest(p.proconfig) setting WHERE setting LIKE 'search\\_path=%')
      FROM pg_proc p
     WHERE p.prosecdef AND p.pronamespace::regnamespace::text IN ('pg_journal', 'gateway')
"""


def test_functions_with_the_bookkeepings_rights_find_names_of_temporary_objects_last(inspector):
    inspector.run("CREATE TABLE warm (id integer PRIMARY KEY, v integer UNIQUE)")
    found = dict(inspector.run(DEFINERS))
    assert len(found) > 50
    assert {name for name, path in found.items() if not (path or "").endswith(", pg_temp")} == set()
