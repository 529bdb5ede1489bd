"""What a role without rights tries to get at, by statement, and how it is told that it may not.

Each group is of one boundary; docs/security.md lists them.
"""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo

from tests.support.servers import Address
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

DATABASE = "boundaries"
ROLE = "boundaries_mallory"
IMPORTER = "boundaries_importer"

OTHERS = (
    "CREATE TABLE secret (id integer PRIMARY KEY, word text)",
    "INSERT INTO secret VALUES (1, 'open sesame')",
    "CREATE TABLE cold_secret (id integer PRIMARY KEY, word text)",
    "INSERT INTO cold_secret VALUES (1, 'open sesame')",
)

OWN = (
    "CREATE SCHEMA m",
    "CREATE TABLE own (id integer PRIMARY KEY, v integer)",
    "INSERT INTO own VALUES (1, 1)",
    "CREATE TABLE cold (id integer PRIMARY KEY, v integer)",
    "INSERT INTO cold VALUES (1, 1)",
    "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
)

TEMPORARY = (
    "CREATE TEMPORARY TABLE hidden (id integer PRIMARY KEY, word text)",
    "INSERT INTO hidden VALUES (1, 'open sesame')",
    "CREATE TEMPORARY SEQUENCE numbers",
    "CREATE FUNCTION pg_temp.lent() RETURNS integer LANGUAGE sql RETURN 1",
)
"""What another session has for itself."""

DENIED = "42501"

BOUNDARIES: dict[str, dict[str, str]] = {
    "bookkeeping": {
        "SELECT * FROM pg_journal.journals": DENIED,
        "SELECT secret_key FROM pg_journal.instance": DENIED,
        "COPY pg_journal.instance TO STDOUT": DENIED,
        "UPDATE pg_journal.definition_marks SET mark = 0": DENIED,
        "SELECT * FROM pg_journal.definition_marks FOR UPDATE": DENIED,
        "LOCK TABLE pg_journal.definition_marks IN ROW SHARE MODE": DENIED,
        "LOCK TABLE pg_journal.code_gate IN ACCESS SHARE MODE": DENIED,
        "LOCK TABLE pg_journal.journals IN ACCESS SHARE MODE": DENIED,
        "SELECT pg_journal.snapshot('guess', '[]')": DENIED,
        "SELECT pg_journal.hold_code(NULL)": DENIED,
        "SELECT pg_journal.await_residency()": DENIED,
        "SELECT pg_journal.make_resident(1)": DENIED,
        "CREATE TABLE pg_journal.t ()": DENIED,
        "CREATE OR REPLACE FUNCTION pg_journal.authorize(code text, called text,"
        " VARIADIC arguments text[] DEFAULT '{}') RETURNS void"
        " LANGUAGE sql AS ''": DENIED,
        "CREATE FUNCTION pg_journal.authorize(code varchar) RETURNS void"
        " LANGUAGE sql AS ''": DENIED,
        "ALTER FUNCTION pg_journal.authorize(text, text, text[]) OWNER TO CURRENT_USER": DENIED,
        "DROP FUNCTION pg_journal.authorize(text, text, text[])": DENIED,
        "ALTER TABLE pg_journal.journals OWNER TO CURRENT_USER": DENIED,
        "GRANT SELECT ON pg_journal.instance TO CURRENT_USER": DENIED,
        "ALTER DEFAULT PRIVILEGES FOR ROLE pgwire_gateway GRANT ALL ON TABLES TO PUBLIC": DENIED,
        "REASSIGN OWNED BY pgwire_gateway TO CURRENT_USER": DENIED,
        "DROP OWNED BY pgwire_gateway": DENIED,
        "DROP SCHEMA pg_journal CASCADE": DENIED,
        "ALTER SCHEMA pg_journal RENAME TO j": DENIED,
        "ALTER EVENT TRIGGER pgwire_ddl_command_end DISABLE": DENIED,
        "DROP EVENT TRIGGER pgwire_sql_drop": DENIED,
        "CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION noted()": DENIED,
        "CREATE PUBLICATION p FOR TABLE pg_journal.journals": DENIED,
    },
    # PostgreSQL asks for no right on what a definition names, which could not be dropped then.
    "definitions over the bookkeeping": {
        "CREATE VIEW v AS TABLE pg_journal.tail_N": DENIED,
        "CREATE TEMPORARY VIEW v AS TABLE pg_journal.tail_N": DENIED,
        "CREATE VIEW v AS SELECT pg_journal.expect('', 1, '', '') IS NULL": DENIED,
        "CREATE VIEW v AS SELECT NULL::pg_journal.journals": DENIED,
        "CREATE TABLE t (a pg_journal.tail_N)": DENIED,
        "CREATE TEMPORARY TABLE t (a pg_journal.tail_N)": DENIED,
        "CREATE TABLE t (a pg_journal.journal_N[])": DENIED,
        "CREATE TABLE t (a bigint DEFAULT pg_journal.random_mark())": DENIED,
        "CREATE TABLE t (a bigint CHECK (a > pg_journal.random_mark()))": DENIED,
        "ALTER TABLE own ADD COLUMN a pg_journal.tail_N": DENIED,
        "ALTER TABLE own ALTER v SET DEFAULT pg_journal.random_mark()": DENIED,
        "CREATE TYPE c AS (a pg_journal.tail_N)": DENIED,
        "CREATE DOMAIN d AS pg_journal.tail_N": DENIED,
        "CREATE DOMAIN d AS bigint CHECK (VALUE > pg_journal.random_mark())": DENIED,
        "CREATE FUNCTION f(pg_journal.tail_N) RETURNS integer LANGUAGE sql RETURN 1": DENIED,
        "CREATE FUNCTION f() RETURNS SETOF pg_journal.tail_N LANGUAGE plpgsql"
        " AS 'BEGIN END'": DENIED,
        "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql RETURN pg_journal.random_mark()": DENIED,
        "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql BEGIN ATOMIC"
        " SELECT count(*) FROM pg_journal.tail_N; END": DENIED,
        "CREATE POLICY p ON own USING (v > pg_journal.random_mark())": DENIED,
        "CREATE RULE r AS ON INSERT TO own DO ALSO DELETE FROM pg_journal.segments": DENIED,
        "CREATE VIEW v AS SELECT j FROM cold_journal j": None,
        "CREATE MATERIALIZED VIEW v AS SELECT j FROM cold_journal j": "0A000",
        "CREATE VIEW v AS SELECT t FROM gateway.tables t": None,
        "CREATE VIEW v AS SELECT * FROM pg_tables": None,
        "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql BEGIN ATOMIC"
        " SELECT count(*) FROM own_journal; END": None,
    },
    "capture": {
        "DROP TRIGGER pgwire_insert ON own": "2BP01",
        "DROP TRIGGER pgwire_guard ON cold CASCADE": "2BP01",
        "ALTER TABLE own DISABLE TRIGGER pgwire_insert": DENIED,
        "ALTER TRIGGER pgwire_insert ON own RENAME TO t": DENIED,
        "ALTER FUNCTION pg_journal.guard() RESET ALL": DENIED,
        "SET session_replication_role = replica": DENIED,
        "SELECT set_config('session_replication_role', 'replica', false)": DENIED,
        "UPDATE pg_settings SET setting = 'replica'"
        " WHERE name = 'session_replication_role'": DENIED,
        f"ALTER ROLE {ROLE} SET session_replication_role = replica": DENIED,
        "CREATE FUNCTION f() RETURNS void LANGUAGE sql SET session_replication_role = replica"
        " AS ''": DENIED,
        "SET pg_journal.writing_1 = 'x'": DENIED,
        "SET event_triggers = off": DENIED,
        "SET allow_system_table_mods = on": DENIED,
    },
    "roles": {
        "SET ROLE pgwire_gateway": DENIED,
        "SET SESSION AUTHORIZATION pgwire_gateway": DENIED,
        "SELECT set_config('role', 'pgwire_gateway', false)": DENIED,
        "GRANT pgwire_gateway TO CURRENT_USER": DENIED,
        "GRANT gateway_import TO CURRENT_USER": DENIED,
        "GRANT pg_read_server_files TO CURRENT_USER": DENIED,
        f"ALTER ROLE {ROLE} SUPERUSER": DENIED,
        "ALTER ROLE pgwire_gateway PASSWORD 'x'": DENIED,
        "CREATE ROLE somebody": DENIED,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE usename = 'pgwire_gateway'": DENIED,
        "SELECT pg_cancel_backend(<other session>)": DENIED,
        "SELECT pg_terminate_backend(<other session>)": DENIED,
        "SELECT pg_log_backend_memory_contexts(<other session>)": DENIED,
        "SELECT * FROM pg_authid": DENIED,
        "SELECT * FROM pg_statistic": DENIED,
    },
    "others' tables": {
        statement.replace("*", table): DENIED
        for table in ("secret", "cold_secret")
        for statement in (
            "TABLE *",
            "SELECT count(1) FROM *",
            "SELECT word FROM *_journal",
            "COPY * TO STDOUT",
            "EXPLAIN SELECT FROM *",
            "EXPLAIN ANALYZE SELECT FROM *_journal",
            "CREATE TABLE mine AS TABLE *",
            "INSERT INTO cold SELECT id FROM *",
            "INSERT INTO * VALUES (2)",
            "UPDATE * SET word = 'x' WHERE id = 1",
            "UPDATE cold SET v = 1 FROM * s WHERE s.id = cold.id",
            "DELETE FROM *",
            "TRUNCATE *",
            "MERGE INTO * s USING cold ON cold.id = s.id WHEN MATCHED THEN DELETE",
            "MERGE INTO cold USING * s ON cold.id = s.id WHEN MATCHED THEN DELETE",
            "LOCK TABLE * IN ACCESS SHARE MODE",
            "ALTER TABLE * SET (gateway.residency = always)",
            "ALTER TABLE * OWNER TO CURRENT_USER",
            "ALTER TABLE cold INHERIT *",
            "CREATE TABLE mine (id integer REFERENCES *)",
            "CREATE TABLE mine () INHERITS (*)",
            "CREATE RULE r AS ON INSERT TO * DO NOTHING",
            "CREATE TRIGGER t BEFORE INSERT ON * FOR EACH ROW EXECUTE FUNCTION noted()",
            "CREATE POLICY p ON *",
            "CREATE INDEX ON * (id)",
            "CREATE STATISTICS ON id, word FROM *",
            "COMMENT ON TABLE * IS 'x'",
            "DROP TABLE *",
            "SELECT gateway.check('*')",
            "SELECT query_to_xml('TABLE *', true, true, '')",
            "SELECT table_to_xml('*', true, true, '')",
            "SELECT FROM ts_stat('SELECT to_tsvector(word) FROM *')",
        )
    },
    "others' tables, over extracts and cursors": {
        statement.replace("*", table): DENIED
        for table in ("secret", "cold_secret")
        for statement in (
            "SELECT jsonb_agg(x) FROM * x",
            "SELECT jsonb_agg(x) FROM *_journal x",
            "SELECT jsonb_agg(x) FROM * x, cold",
            "SELECT jsonb_agg(x) FROM cold x WHERE EXISTS (SELECT FROM *)",
            "SELECT mode() WITHIN GROUP (ORDER BY word) FROM *",
            "WITH RECURSIVE r AS (SELECT id FROM * UNION SELECT id + 1 FROM r) TABLE r LIMIT 9",
            "EXPLAIN ANALYZE SELECT jsonb_agg(x) FROM * x",
            "COPY (TABLE *) TO STDOUT",
            "COPY (TABLE *_journal) TO STDOUT",
            "COPY (SELECT jsonb_agg(x) FROM * x) TO STDOUT",
            "DECLARE c CURSOR FOR TABLE *",
            "DECLARE c SCROLL CURSOR FOR TABLE *",
            "DECLARE c CURSOR FOR SELECT jsonb_agg(x) FROM * x",
            "DECLARE c CURSOR WITH HOLD FOR SELECT jsonb_agg(x) FROM * x",
            "CREATE TEMPORARY TABLE mine AS SELECT jsonb_agg(x) FROM * x",
            "INSERT INTO cold SELECT 7, (SELECT jsonb_array_length(jsonb_agg(x)) FROM * x)",
            "UPDATE own SET v = (SELECT jsonb_array_length(jsonb_agg(x)) FROM * x)",
            "UPDATE cold SET v = (SELECT jsonb_array_length(jsonb_agg(x)) FROM * x)",
            "SELECT FROM * FOR UPDATE SKIP LOCKED",
        )
    },
    "the gateway's commands": {
        statement.replace("*", table): code
        for table in ("secret", "cold_secret")
        for statement, code in {
            "CALL gateway.partition_by('*', 'id')": DENIED,
            "CALL gateway.partition_by('*', '')": DENIED,
            "ALTER TABLE * SET (gateway.hot_rows = 5)": DENIED,
            "CREATE TABLE mine USING parquet AS TABLE *": DENIED,
            "CONVERT TO mine FROM *": DENIED,
            "SELECT gateway.create_savepoint('*', '<commit of *>')": DENIED,
            "SELECT gateway.delete_savepoint('*', '<commit of *>')": DENIED,
            "SAVEPOINT CREATE (table = '*', commit = '<commit of *>')": DENIED,
            "SAVEPOINT DELETE (table = '*', savepoint = '<commit of *>')": DENIED,
            # As those that there are not: they are in no list of the role's.
            "SELECT gateway.rollback_commit('<commit of *>')": "42704",
            "SELECT gateway.rollback_commit('<commit of *>', '*', true)": "42704",
            "SELECT gateway.rollback_to_savepoint('*', '<commit of *>')": "42704",
            "COMMIT ROLLBACK (commit = '<commit of *>')": "42704",
            "SAVEPOINT ROLLBACK (table = '*', savepoint = '<commit of *>')": "42704",
            "CALL rollback_commit(instant_time => '<commit of *>')": "42704",
            "CALL rollback_to_savepoint(table => '*', instant_time => '<commit of *>')": "42704",
        }.items()
    },
    "temporary objects of others": {
        "TABLE pg_temp_N.hidden": DENIED,
        "COPY pg_temp_N.hidden TO STDOUT": DENIED,
        "INSERT INTO pg_temp_N.hidden VALUES (1)": DENIED,
        "UPDATE pg_temp_N.hidden SET word = 'x'": DENIED,
        "DELETE FROM pg_temp_N.hidden": DENIED,
        "TRUNCATE pg_temp_N.hidden": DENIED,
        "LOCK TABLE pg_temp_N.hidden IN ACCESS SHARE MODE": DENIED,
        "ALTER TABLE pg_temp_N.hidden ADD COLUMN x integer": DENIED,
        "ALTER TABLE own SET SCHEMA pg_temp_N": DENIED,
        "DROP TABLE pg_temp_N.hidden": DENIED,
        "CREATE TABLE pg_temp_N.mine ()": DENIED,
        "CREATE VIEW pg_temp_N.mine AS SELECT 1": DENIED,
        "CREATE FUNCTION pg_temp_N.f() RETURNS integer LANGUAGE sql RETURN 1": DENIED,
        "CREATE OR REPLACE FUNCTION pg_temp_N.lent() RETURNS integer LANGUAGE sql RETURN 2": DENIED,
        "CREATE DOMAIN pg_temp_N.bytea AS text": DENIED,
        "SELECT pg_temp_N.lent()": DENIED,
        "SELECT * FROM pg_temp_N.hidden_journal": DENIED,
        "SELECT setval('pg_temp_N.numbers', 7)": DENIED,
    },
    "other databases": {
        "TABLE postgres.public.secret": "0A000",
        "INSERT INTO postgres.public.own VALUES (7)": "0A000",
        "DROP TABLE postgres.public.own": "0A000",
        "SELECT * FROM template1.pg_journal.instance": "0A000",
        "SELECT postgres.public.f()": "0A000",
        "SELECT * FROM dblink('dbname=postgres', 'SELECT 1') t (a integer)": "42883",
        "CREATE EXTENSION dblink": "0A000",
        "CREATE EXTENSION postgres_fdw": "0A000",
        "CREATE FOREIGN DATA WRAPPER w": DENIED,
        "CREATE SERVER s FOREIGN DATA WRAPPER w": "42704",
        "CREATE FOREIGN TABLE f (a integer) SERVER s": "42704",
        "IMPORT FOREIGN SCHEMA public FROM SERVER s INTO m": "42704",
        "CREATE USER MAPPING FOR CURRENT_USER SERVER s": "42704",
        "SELECT pg_database_size('postgres')": None,
    },
    "thawing": {
        f"SELECT pg_journal.{call}": code
        for call, code in {
            "thaw('guess', 'cold'::regclass, '[]')": DENIED,
            "thaw('', 'cold_secret'::regclass, '[]')": DENIED,
            "thaw(NULL, 'cold'::regclass, '[]')": DENIED,
            "announce('guess', 'cold'::regclass, 'update', true, 'seek', '[]', true, 1, true,"
            " true, '{}')": DENIED,
            "announce_tree('guess', 'cold'::regclass, '{}', '{}')": DENIED,
            "capture_thawed('guess', 'cold'::regclass, 1, '{}', '[]', '[]')": DENIED,
            "thaw_keys('cold'::regclass, 1, 1, pg_current_snapshot(), '[]', '[]', true)": DENIED,
            "announce_own('cold'::regclass, 'seek', '[]', true, '{}')": DENIED,
            "announcement('cold'::regclass)": DENIED,
        }.items()
    },
    "files and programs": {
        "COPY own FROM '/etc/passwd'": DENIED,
        "COPY cold FROM '/etc/passwd'": DENIED,
        "COPY cold FROM 'file:///etc/passwd'": DENIED,
        "COPY cold TO '../x'": DENIED,
        "COPY own FROM PROGRAM 'id'": DENIED,
        "COPY (SELECT 1) TO PROGRAM 'id'": DENIED,
        "SELECT pg_read_file('/etc/passwd')": DENIED,
        "SELECT pg_read_binary_file('/etc/passwd')": DENIED,
        "SELECT pg_ls_dir('/')": DENIED,
        "SELECT pg_stat_file('/etc/passwd')": DENIED,
        "SELECT lo_import('/etc/passwd')": DENIED,
        "SELECT lo_export(1, '/x')": DENIED,
        "CREATE FUNCTION f() RETURNS integer LANGUAGE c AS 'libc', 'getpid'": DENIED,
        "CREATE FUNCTION f(text) RETURNS text LANGUAGE internal AS 'pg_read_file_all'": DENIED,
        "CREATE TRUSTED LANGUAGE l HANDLER plpgsql_call_handler": DENIED,
        "CREATE EXTENSION vector": DENIED,
        "LOAD 'plpgsql'": DENIED,
        "SET dynamic_library_path = '/'": DENIED,
        "CREATE TABLE loc (id integer) USING parquet LOCATION '/etc'": DENIED,
        "CREATE TABLE loc (id integer) USING parquet LOCATION 'file:///etc'": DENIED,
        "CALL gateway.convert('own', '/etc/passwd')": DENIED,
        'CONVERT TO gateway parquet."/etc"': "42601",
    },
    "Spark": {
        "SELECT reflect('java.lang.System', 'getProperty', 'user.home') FROM cold": "42883",
        "SELECT java_method('java.lang.System', 'exit', 0) FROM cold": "42883",
        "SELECT input_file_name() FROM cold": "42883",
        "SELECT raise_error('x') FROM cold": "42883",
        "SELECT * FROM read_files('/etc/passwd')": "42883",
        'SELECT * FROM text."/etc/passwd"': "42P01",
        'SELECT count(*) FROM cold, parquet."/etc"': "42P01",
        "SELECT * FROM parquet.`/etc`": "42601",
        "SELECT * FROM spark_catalog.default.t": "0A000",
        "SELECT current_setting('spark.master')": "42704",
        "ADD JAR '/x.jar'": "42601",
        "INSERT OVERWRITE DIRECTORY '/x' SELECT 1": "42601",
    },
}


@pytest.fixture(scope="module")
def conninfo(resident_gateway: Address) -> Iterator[str]:
    resident_gateway.execute(f"CREATE ROLE {ROLE} LOGIN", f"CREATE DATABASE {DATABASE}")
    with psycopg.connect(resident_gateway.conninfo(DATABASE), autocommit=True) as admin:
        admin.execute(f"GRANT CREATE ON DATABASE {DATABASE} TO {ROLE}")
        for statement in (*OTHERS, *TEMPORARY):
            admin.execute(statement)  # type: ignore[call-overload]
        make_tiered(admin, "cold_secret")
        found = make_conninfo(
            resident_gateway.conninfo(DATABASE), user=ROLE, options="-c search_path=m,public"
        )
        with psycopg.connect(found, autocommit=True) as mallory:
            for statement in OWN:
                mallory.execute(statement)  # type: ignore[call-overload]
            make_tiered(mallory, "cold")
        yield found
        for table in ("secret", "cold_secret", "hidden"):
            rows = admin.execute(f"TABLE {table}").fetchall()  # type: ignore[call-overload]
            assert rows == [(1, "open sesame")]
    resident_gateway.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)", f"DROP ROLE {ROLE}")


@pytest.fixture
def mallory(conninfo: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        yield connection


def _answer(connection: psycopg.Connection, statement: str) -> str | None:
    """Return the SQLSTATE a statement fails with; None for one that does not, which is undone."""
    try:
        with connection.transaction(force_rollback=True):
            if statement.startswith("COPY") and statement.endswith("STDOUT"):
                with connection.cursor().copy(statement) as copy:  # type: ignore[call-overload]
                    for _ in copy:
                        pass
            else:
                connection.execute(statement)  # type: ignore[call-overload]
    except psycopg.Error as error:
        return error.sqlstate
    return None


@pytest.fixture(scope="module")
def known(conninfo: str, resident_gateway: Address) -> Iterator[dict[str, str]]:
    """What statements need to know of others, by the place where they name it."""
    with psycopg.connect(resident_gateway.conninfo(DATABASE), autocommit=True) as other:
        commits = other.execute("SELECT table_name, max(commit) FROM gateway.commits GROUP BY 1")
        found = {f"<commit of {table}>": str(commit) for table, commit in commits.fetchall()}
        assert {"<commit of secret>", "<commit of cold_secret>"} <= found.keys()
        (schema,) = other.execute(
            "SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname = 'hidden'"
        ).fetchone() or ("",)
        found["pg_temp_N"] = str(schema)
        ((secret,),) = other.execute("SELECT 'secret'::regclass::oid").fetchall()
        found |= {f"{part}_N": f"{part}_{secret}" for part in ("tail", "journal")}
        found["<other session>"] = str(other.info.backend_pid)
        yield found
        assert other.execute("SELECT 1").fetchone() == (1,)


def _told(statement: str, known: dict[str, str]) -> str:
    """Return a statement with what it has to know of others."""
    for place, text in known.items():
        statement = statement.replace(place, text)
    return statement


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_what_is_not_ones_own_is_refused(
    mallory: psycopg.Connection, known: dict[str, str], boundary: str
) -> None:
    expected = BOUNDARIES[boundary]
    answers = {statement: _answer(mallory, _told(statement, known)) for statement in expected}
    assert {key: value for key, value in answers.items() if value != expected[key]} == {}


# Without a transaction block around them.
ALONE = {
    "SELECT gateway.rollback_commit('20200101000000000000')": "42704",
    "CREATE DATABASE d": DENIED,
    "ALTER SYSTEM SET work_mem = '1GB'": DENIED,
    "CREATE TABLESPACE t LOCATION '/'": DENIED,
    "CREATE SUBSCRIPTION s CONNECTION 'host=/tmp' PUBLICATION p": DENIED,
    f"DROP DATABASE {DATABASE}": DENIED,
    f"ALTER DATABASE {DATABASE} SET search_path = m": DENIED,
    f"ALTER DATABASE {DATABASE} OWNER TO {ROLE}": DENIED,
    "CLUSTER secret": DENIED,
}


def test_commands_that_transactions_cannot_hold(mallory: psycopg.Connection) -> None:
    for statement, code in ALONE.items():
        with pytest.raises(psycopg.Error) as caught:
            mallory.execute(statement)  # type: ignore[call-overload]
        assert caught.value.sqlstate == code, statement


@pytest.mark.parametrize("query", ["TABLE *", "SELECT jsonb_agg(x) FROM * x"])
@pytest.mark.parametrize("table", ["secret", "cold_secret"])
def test_what_is_prepared_is_not_executed(
    mallory: psycopg.Connection, query: str, table: str
) -> None:
    statement = f"PREPARE p AS {query.replace('*', table)}"
    mallory.execute(statement)  # type: ignore[call-overload]
    for executed in (
        "EXECUTE p",
        "EXPLAIN EXECUTE p",
        "EXPLAIN ANALYZE EXECUTE p",
        "CREATE TEMPORARY TABLE mine AS EXECUTE p",
    ):
        assert _answer(mallory, executed) == DENIED


def test_nobody_cleans_up_tables_of_others(
    mallory: psycopg.Connection, resident_gateway: Address
) -> None:
    compacted = "SELECT last_compacted FROM gateway.maintenance WHERE table_name = 'cold_secret'"
    told: list[str | None] = []
    mallory.add_notice_handler(lambda notice: told.append(notice.message_primary))
    with psycopg.connect(resident_gateway.conninfo(DATABASE), autocommit=True) as admin:
        admin.execute("UPDATE cold_secret SET word = 'open sesame'")
        before = admin.execute(compacted).fetchone()
        for statement in (
            "VACUUM cold_secret",
            "VACUUM FULL cold_secret",
            "CALL run_compaction(op => 'run', table => 'cold_secret')",
        ):
            mallory.execute(statement)  # type: ignore[call-overload]
            assert told.pop() == 'permission denied to vacuum "cold_secret", skipping it'
            assert admin.execute(compacted).fetchone() == before
        admin.execute("VACUUM cold_secret")
        assert admin.execute(compacted).fetchone() != before


def test_commits_are_taken_back_by_who_may_write_all_of_their_tables(
    mallory: psycopg.Connection, resident_gateway: Address
) -> None:
    with psycopg.connect(resident_gateway.conninfo(DATABASE), autocommit=True) as admin:
        admin.execute("CREATE TABLE lent (id integer PRIMARY KEY)")
        with admin.transaction():
            admin.execute("INSERT INTO lent VALUES (1)")
            admin.execute("UPDATE secret SET word = 'open sesame'")
        found = "SELECT commit FROM gateway.commits WHERE table_name = 'lent'"
        ((commit,),) = admin.execute(found).fetchall()
        for right, written in (("SELECT", DENIED), ("ALL", None)):
            admin.execute(f"GRANT {right} ON lent TO {ROLE}")  # type: ignore[call-overload]
            answers = {
                statement: _answer(mallory, statement)
                for statement in (
                    f"SELECT gateway.rollback_commit('{commit}')",
                    f"SELECT gateway.rollback_commit('{commit}', 'secret')",
                    f"SELECT gateway.rollback_commit('{commit}', 'lent')",
                    f"SELECT gateway.rollback_to_savepoint('lent', '{commit}')",
                    f"SELECT gateway.create_savepoint('lent', '{commit}')",
                )
            }
            assert list(answers.values()) == [DENIED, "42704", written, written, DENIED], answers
        admin.execute("DROP TABLE lent")


@pytest.fixture(scope="module")
def importer(conninfo: str, resident_gateway: Address) -> Iterator[psycopg.Connection]:
    """A session of a role that may use the allowed directories, and has no right on tables."""
    resident_gateway.execute(f"CREATE ROLE {IMPORTER} LOGIN", f"GRANT gateway_import TO {IMPORTER}")
    with psycopg.connect(
        resident_gateway.conninfo(DATABASE, user=IMPORTER), autocommit=True
    ) as connection:
        yield connection
    resident_gateway.execute(f"DROP ROLE {IMPORTER}")


@pytest.mark.parametrize("table", ["secret", "cold_secret"])
def test_who_may_write_files_writes_no_tables_of_others_to_them(
    importer: psycopg.Connection, allowed_directory: Path, table: str
) -> None:
    path = allowed_directory / "boundaries"
    for statement in (
        f"CONVERT TO '{path}' FROM {table}",
        f"CALL gateway.convert('{path}', '{table}')",
    ):
        with pytest.raises(errors.InsufficientPrivilege, match=f"for table {table}$"):
            importer.execute(statement)  # type: ignore[call-overload]
    assert not path.exists()


def test_journals_that_others_have_registered(
    mallory: psycopg.Connection,
    importer: psycopg.Connection,
    resident_gateway: Address,
    allowed_directory: Path,
) -> None:
    path = allowed_directory / "boundaries_registered"
    path.mkdir()
    files = sorted(path.iterdir())
    with psycopg.connect(resident_gateway.conninfo(DATABASE), autocommit=True) as admin:
        admin.execute(
            f"CALL gateway.register_journal('registered', location => '{path}', key => 'id',"  # type: ignore[arg-type]
            " format => 'parquet', columns => 'id integer')"
        )
        for statement in (
            "TABLE registered",
            "TABLE registered_journal",
            "SELECT gateway.check('registered')",
            "INSERT INTO registered VALUES (1)",
            "CALL gateway.archive('registered')",
        ):
            for session in (mallory, importer):
                with pytest.raises(errors.InsufficientPrivilege):
                    session.execute(statement)  # type: ignore[call-overload]
        admin.execute("DROP TABLE registered")
    assert sorted(path.iterdir()) == files == []


def test_lists_tell_of_what_one_may_read_alone(mallory: psycopg.Connection) -> None:
    for name in ("commits", "commit_files", "maintenance", "tables"):
        rows = mallory.execute(f"SELECT DISTINCT schema_name FROM gateway.{name}").fetchall()  # type: ignore[call-overload]
        assert rows == [("m",)], name
    assert mallory.execute("SELECT * FROM gateway.progress").fetchall() == []


def test_views_over_others_tables_show_nothing(mallory: psycopg.Connection) -> None:
    for table in ("secret", "cold_secret", "secret_journal", "cold_secret_journal"):
        mallory.execute(f"CREATE VIEW v AS SELECT * FROM {table}")  # type: ignore[call-overload]
        assert _answer(mallory, "SELECT * FROM v") == DENIED
        mallory.execute("DROP VIEW v")


def test_capture_goes_on_when_triggers_are_disabled(mallory: psycopg.Connection) -> None:
    mallory.execute("ALTER TABLE own DISABLE TRIGGER ALL")
    mallory.execute("UPDATE own SET v = v + 1")
    assert mallory.execute("SELECT gateway.check('own')").fetchone() == (0,)


def test_spark_replaces_nothing_in_texts(mallory: psycopg.Connection) -> None:
    mallory.execute("SET spark.sql.variable.substitute = on")
    row = mallory.execute("SELECT '${env:HOME}', '${spark.master}', count(*) FROM cold").fetchone()
    assert row == ("${env:HOME}", "${spark.master}", 1)


SHADOWING = (
    "CREATE DOMAIN pg_temp.{} AS text CHECK (set_config('my.stolen', VALUE, false) IS NULL)",
    "CREATE TYPE pg_temp.{} AS ENUM ('x')",
    "CREATE TYPE pg_temp.{} AS (a integer)",
)

SHADOWED = (
    "bytea",
    "json",
    "jsonb",
    "oid",
    "pg_snapshot",
    "text",
    "integer",
    "columns",
    "journals",
)
"""Types that the gateway's calls name, and relations of the bookkeeping."""


@pytest.mark.parametrize("shadowing", SHADOWING)
def test_thawing_takes_no_types_of_roles(mallory: psycopg.Connection, shadowing: str) -> None:
    for name in SHADOWED:
        quoted = f'"{name}"'
        with mallory.transaction():
            mallory.execute(shadowing.format(quoted))  # type: ignore[call-overload]
    mallory.execute("SET search_path = pg_temp, pg_catalog, m, public")
    for _ in range(2):  # what has been run before takes a shorter way
        mallory.execute("VACUUM m.cold")
        mallory.execute("UPDATE m.cold SET v = 7 WHERE id = 1")
        assert mallory.execute("UPDATE m.cold SET v = 1 WHERE id = 1 RETURNING v").fetchone() == (
            1,
        )
    assert mallory.execute("SELECT current_setting('my.stolen', true)").fetchone() == (None,)


LOCKS = (0x70676A72, 0x70677769)
"""Numbers that the gateway has given advisory locks of its own."""


def test_nobody_waits_for_advisory_locks_of_others(
    conninfo: str, resident_gateway: Address
) -> None:
    with psycopg.connect(conninfo, autocommit=True) as mallory:
        for number in LOCKS:
            mallory.execute(f"SELECT pg_advisory_lock({number}, 0), pg_advisory_lock({number})")  # type: ignore[call-overload]
        with psycopg.connect(resident_gateway.conninfo(DATABASE), autocommit=True) as other:
            for statement in (
                "SET statement_timeout = '20s'",
                "CREATE FUNCTION f() RETURNS integer LANGUAGE sql RETURN 1",
                "CREATE VIEW v AS SELECT f()",
                "DO 'BEGIN PERFORM f(); END'",
                "BEGIN",
                "DO 'BEGIN PERFORM f(); END'",
                "COMMIT",
                "DROP FUNCTION f CASCADE",
            ):
                other.execute(statement)  # type: ignore[call-overload]


@pytest.mark.parametrize("relation", ["series", "instance", "journals", "definition_marks"])
def test_nobody_waits_for_who_names_the_bookkeeping(
    conninfo: str, resident_gateway: Address, relation: str
) -> None:
    """PostgreSQL locks what a statement names before it looks at rights."""
    prepared = f"PREPARE p AS DELETE FROM pg_journal.{relation}"
    with psycopg.connect(conninfo) as mallory:
        mallory.execute(prepared)  # type: ignore[call-overload]
        with psycopg.connect(
            resident_gateway.conninfo(DATABASE, connect_timeout="20"), autocommit=True
        ) as other:
            for statement in (
                "SET statement_timeout = '20s'",
                "CREATE TABLE t (id integer PRIMARY KEY)",
                "INSERT INTO t VALUES (1)",
                "DROP TABLE t",
                "UPDATE cold_secret SET word = word WHERE id = 1",
            ):
                other.execute(statement)  # type: ignore[call-overload]


HELD = """
DO $$
BEGIN
    PERFORM pg_advisory_unlock_all();
    COMMIT;
    IF NOT EXISTS (SELECT FROM pg_locks WHERE relation = 'pg_journal.code_gate'::regclass) THEN
        RAISE 'tables may become tiered while this runs';
    END IF;
END $$
"""


def test_code_does_not_let_tables_become_tiered_while_it_runs(mallory: psycopg.Connection) -> None:
    mallory.execute(HELD)
    query = "SELECT count(*) FROM pg_locks WHERE relation = 'pg_journal.code_gate'::regclass"
    assert mallory.execute(query).fetchone() == (0,)
