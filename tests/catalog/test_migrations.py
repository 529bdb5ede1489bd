"""Tables are migrated once, in order, functions replaced; what cannot be done is refused whole."""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

from catalog.api import Catalog
from catalog.errors import GatewayError
from catalog.server import migrations
from catalog.server.embedded import SUPERUSER
from catalog.server.migrations import (
    SUBJECTS,
    function_scripts,
    functions_digest,
    migrate,
    own_functions,
    scripts,
)
from tests.support.bookkeeping_definitions import definitions
from tests.support.fix_catalog import Client

pytestmark = pytest.mark.catalog


@pytest.fixture
def administrator(catalog: Catalog, database: str) -> Iterator[psycopg.Connection]:
    """Return the administrator's connection to the test's database, whose bookkeeping is there."""
    with connected(catalog, database) as found:
        yield found


@pytest.fixture
def owner(connect: Callable[..., Client], administrator: psycopg.Connection) -> Client:
    """Return a client whose tables are resident."""
    opened = connect()
    administrator.execute("SELECT pg_journal.configure(100000, 67108864, 1000000)")
    return opened


def connected(catalog: Catalog, database: str) -> psycopg.Connection:
    assert catalog.server is not None
    address = f"host={catalog.server.host} port={catalog.server.port}"
    return psycopg.connect(f"{address} user={SUPERUSER} dbname={database}", autocommit=True)


def applied(administrator: psycopg.Connection) -> list[tuple]:
    columns = "number, name, digest, applied_at"
    return administrator.execute(
        f"SELECT {columns} FROM pg_journal.migrations ORDER BY number"
    ).fetchall()


def refusal(administrator: psycopg.Connection) -> GatewayError:
    before = applied(administrator), definitions(administrator)
    with pytest.raises(GatewayError) as caught:
        migrate(administrator)
    assert (applied(administrator), definitions(administrator)) == before
    assert caught.value.sqlstate == "55000"
    assert caught.value.hint
    return caught.value


def key(administrator: psycopg.Connection) -> str:
    ((found,),) = administrator.execute("SELECT secret_key FROM pg_journal.instance").fetchall()
    return found


def make_older(administrator: psycopg.Connection, *statements: str) -> None:
    """Let the functions be those of an earlier program, which these statements tell."""
    with administrator.transaction():
        administrator.execute("SET LOCAL allow_system_table_mods = on")
        administrator.execute("SET LOCAL event_triggers = off")
        for statement in (
            *statements,
            "UPDATE pg_journal.migrations SET digest = 'earlier' WHERE number = 0",
        ):
            administrator.execute(statement)  # type: ignore[call-overload]


# tables -------------------------------------------------------------------------------------------


def test_each_is_applied_once(administrator: psycopg.Connection) -> None:
    before = applied(administrator)
    assert [row[:3] for row in before] == [
        (0, "functions", functions_digest(administrator.info.server_version)),
        *(
            (number, name, hashlib.sha256(text.encode()).hexdigest())
            for number, name, text in scripts()
        ),
    ]
    migrate(administrator)
    assert applied(administrator) == before


def test_nothing_is_run_where_nothing_has_changed(
    administrator: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[object] = []
    execute = administrator.execute

    def count(query: object, *rest: object, **others: object) -> psycopg.Cursor:
        run.append(query)
        return execute(query, *rest, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(administrator, "execute", count)
    told = migrate(administrator)
    monkeypatch.undo()
    (query,) = run
    assert str(query).startswith("SELECT ")
    assert told == key(administrator)


def test_a_missing_one_is_applied(administrator: psycopg.Connection) -> None:
    administrator.execute("DROP SCHEMA pg_journal CASCADE")
    told = migrate(administrator)
    assert [row[0] for row in applied(administrator)] == [0, *(number for number, *_ in scripts())]
    assert told == key(administrator)
    assert len(told) == 64


def test_a_later_one_is_applied_to_what_is_there(
    administrator: psycopg.Connection, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    owner.run("INSERT INTO t VALUES (1, 'a')")
    owner.session.close()
    later = (9000, "9000_later.sql", "ALTER TABLE pg_journal.upkeep ADD COLUMN remark text")
    known = [*scripts(), later]
    monkeypatch.setattr(migrations, "scripts", lambda: known)
    before = definitions(administrator)
    migrate(administrator)
    assert applied(administrator)[-1][:2] == later[:2]
    after = definitions(administrator)
    assert [row for row in after["columns"] if row not in before["columns"]] == [
        ("upkeep", "remark", "text", False, None)
    ]
    assert after["functions"] == before["functions"]
    assert after["triggers"] == before["triggers"]


def test_a_database_of_a_newer_program_is_refused(administrator: psycopg.Connection) -> None:
    administrator.execute("INSERT INTO pg_journal.migrations (number, name) VALUES (9999, 'later')")
    assert "newer version (migration 9999)" in refusal(administrator).message


@pytest.mark.parametrize("digest", ["another", None])
def test_a_database_with_another_form_of_a_migration_is_refused(
    administrator: psycopg.Connection, digest: str | None
) -> None:
    administrator.execute("UPDATE pg_journal.migrations SET digest = %s WHERE number = 5", [digest])
    assert "another form of migration 5" in refusal(administrator).message


def test_clients_are_told_at_login(
    catalog: Catalog, administrator: psycopg.Connection, database: str
) -> None:
    administrator.execute("INSERT INTO pg_journal.migrations (number, name) VALUES (9999, 'later')")
    with pytest.raises(GatewayError) as caught:
        catalog.connect("postgres", database, {})
    assert caught.value.sqlstate == "55000"


# files --------------------------------------------------------------------------------------------


def test_each_file_of_functions_has_its_place_in_their_order() -> None:
    directory = migrations.resources.files("catalog").joinpath("sql", "functions")
    names = [entry.name for entry in directory.iterdir() if entry.name.endswith(".sql")]
    assert sorted(names) == sorted(f"{subject}.sql" for subject in SUBJECTS)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_functions_hold_no_data(subject: str) -> None:
    text = dict(function_scripts())[subject]
    # Bodies write rows, and make the tables of single journals.
    bodies = r"--[^\n]*|(\$\w*\$).*?\1|BEGIN ATOMIC.*?\nEND;|'[^']*'"
    outside = re.sub(bodies, "", text, flags=re.DOTALL)
    data = r"(?i)\bCREATE\s+(UNLOGGED\s+)?(TABLE|SEQUENCE|TYPE|DOMAIN|(UNIQUE\s+)?INDEX)\b"
    assert re.findall(data, outside) == []
    assert re.findall(r"(?i)\b(INSERT INTO|UPDATE|DELETE FROM) +pg_journal\.", outside) == []
    assert re.findall(r"(?i)\bADD COLUMN\b|\bDROP (TABLE|COLUMN)\b", outside) == []
    assert (
        re.findall(
            r"CREATE (FUNCTION|VIEW)",
            text.replace("'CREATE VIEW'", "").replace("'CREATE FUNCTION'", ""),
        )
        == []
    )


@pytest.mark.parametrize("number", [number for number, *_ in scripts()])
def test_tables_need_no_functions(number: int) -> None:
    (text,) = (text for known, _, text in scripts() if known == number)
    kinds = r"(?i)\bCREATE\s+(OR REPLACE\s+)?(CONSTRAINT\s+)?(FUNCTION|VIEW|(EVENT )?TRIGGER)\b"
    assert re.findall(kinds, text) == []
    assert re.findall(r"(?i)\b(GRANT|REVOKE)\b", text) == []
    assert not own_functions() & set(re.findall(r"(\w+)\(", text))


def test_names_of_functions_are_no_others() -> None:
    names = [
        name
        for _, text in function_scripts()
        for name in re.findall(r"OR REPLACE FUNCTION pg_journal\.(\w+)\(", text)
    ]
    assert len(names) == len(set(names)) == len(own_functions())
    # Those of single tables end in the table's OID, and those that have retired in their own.
    assert [name for name in names if re.search(r"_\d+$", name)] == []


# functions ----------------------------------------------------------------------------------------

OLDER = {
    "another body": """
        CREATE OR REPLACE FUNCTION pg_journal.moment(micros bigint) RETURNS timestamptz
            LANGUAGE sql STABLE RETURN NULL::timestamptz;""",
    # Bodies in SQL depend on it, and functions on these.
    "another result": """
        DROP FUNCTION pg_journal.has_rows(oid) CASCADE;
        CREATE FUNCTION pg_journal.has_rows(relid oid) RETURNS int LANGUAGE sql RETURN 1;""",
    "other names of arguments": """
        DROP FUNCTION pg_journal.moment(bigint) CASCADE;
        CREATE FUNCTION pg_journal.moment(n bigint) RETURNS timestamptz
            LANGUAGE sql RETURN NULL::timestamptz""",
    # Beside the one with more, whose further ones have defaults, calls would be ambiguous.
    "fewer arguments": """
        DROP FUNCTION pg_journal.row_size(oid, text, boolean);
        CREATE FUNCTION pg_journal.row_size(wanted oid, source text) RETURNS text
            LANGUAGE sql RETURN ''""",
    "a function that is gone": """
        CREATE FUNCTION pg_journal.bygone(wanted oid) RETURNS int LANGUAGE sql RETURN 1;
        CREATE VIEW pg_journal.bygones AS SELECT pg_journal.bygone(0);
        CREATE FUNCTION pg_journal.of_bygones() RETURNS int LANGUAGE sql
            RETURN (SELECT bygone FROM pg_journal.bygones)""",
    "a trigger of the bookkeeping that is gone": """
        CREATE FUNCTION pg_journal.on_bygone() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER bygone AFTER INSERT ON pg_journal.journals DEFERRABLE
            FOR EACH ROW EXECUTE FUNCTION pg_journal.on_bygone();
        UPDATE pg_trigger SET tgisinternal = true WHERE tgname = 'bygone';
        CREATE EVENT TRIGGER pgwire_bygone ON ddl_command_end
            EXECUTE FUNCTION pg_journal.on_ddl_command_end()""",
    "a trigger of a user's table that is gone": """
        CREATE FUNCTION pg_journal.bygone_1() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN RAISE division_by_zero; END';
        CREATE TRIGGER pgwire_bygone BEFORE INSERT ON t FOR EACH ROW
            EXECUTE FUNCTION pg_journal.bygone_1();
        UPDATE pg_trigger SET tgisinternal = true WHERE tgname = 'pgwire_bygone';
        UPDATE pg_depend SET deptype = 'i'
         WHERE classid = 'pg_trigger'::regclass AND refclassid = 'pg_class'::regclass
           AND objid = (SELECT oid FROM pg_trigger WHERE tgname = 'pgwire_bygone')""",
    "another view": """
        DROP VIEW pg_journal.cold_states CASCADE;
        CREATE VIEW pg_journal.cold_states AS SELECT 1 AS one, 'x' AS state""",
    "other triggers of users' tables": """
        WITH gone AS (DELETE FROM pg_trigger WHERE tgname = 'pgwire_update' RETURNING oid)
        DELETE FROM pg_depend d USING gone
         WHERE d.classid = 'pg_trigger'::regclass AND d.objid = gone.oid""",
    "other privileges": """
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pg_journal TO PUBLIC;
        REVOKE SELECT ON pg_journal.tables, pg_journal.commit_list FROM PUBLIC;
        REVOKE USAGE ON SCHEMA pg_journal FROM PUBLIC""",
}


@pytest.mark.parametrize("older", OLDER.values(), ids=OLDER)
def test_functions_of_an_earlier_program_are_replaced(
    administrator: psycopg.Connection,
    owner: Client,
    connect: Callable[..., Client],
    older: str,
) -> None:
    owner.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    owner.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    owner.session.close()
    before = definitions(administrator)
    make_older(administrator, older)
    assert definitions(administrator) != before
    known = key(administrator)
    told = migrate(administrator)
    assert definitions(administrator) == before
    assert told == key(administrator) != known
    again = connect()
    again.run("INSERT INTO t VALUES (3, 'c')")
    again.run("UPDATE t SET v = 'z' WHERE id = 1")
    again.run("DELETE FROM t WHERE id = 2")
    ((relid,),) = administrator.execute("SELECT 't'::regclass::oid").fetchall()
    # A tombstone has the values of the row that it ends.
    assert administrator.execute(
        f"SELECT c1, c2, subsequent_version_number IS NOT NULL FROM pg_journal.tail_{relid}"
        " ORDER BY version_number"
    ).fetchall() == [
        (1, "a", False),
        (2, "b", False),
        (3, "c", False),
        (1, "z", False),
        (2, "b", True),
    ]


def test_what_was_made_for_single_tables_is_made_anew(
    administrator: psycopg.Connection, owner: Client
) -> None:
    owner.run("CREATE TABLE p (id int PRIMARY KEY, v text)")
    owner.run("CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p)")
    owner.run("CREATE TABLE tree (id int PRIMARY KEY, v bytea) PARTITION BY RANGE (id)")
    owner.run("CREATE TABLE leaf PARTITION OF tree FOR VALUES FROM (0) TO (10)")
    owner.run("CREATE TABLE rows_only (v text)")
    owner.session.close()
    before = definitions(administrator)
    assert {"pgwire_tree", "pgwire_row", "pgwire_insert"} <= {
        name for row in before["triggers"] for name in re.findall(r"pgwire_\w+", row[1])
    }
    assert any(row[1] == "pgwire_size" for row in before["constraints"])
    names = administrator.execute(
        "SELECT oid::regprocedure::text FROM pg_proc"
        " WHERE pronamespace = 'pg_journal'::regnamespace AND proname ~ '^capture_\\d+$'"
    ).fetchall()
    assert len(names) == 4
    make_older(
        administrator,
        *(
            f"CREATE OR REPLACE FUNCTION {name} RETURNS trigger LANGUAGE plpgsql"
            " AS 'BEGIN RETURN NULL; END'"
            for (name,) in names
        ),
    )
    migrate(administrator)
    assert definitions(administrator) == before


def test_another_major_version_of_postgresql_has_other_views() -> None:
    assert functions_digest(180004) == functions_digest(180005)
    assert functions_digest(180004) != functions_digest(190000)


def test_views_of_users_stay(
    administrator: psycopg.Connection, owner: Client, connect: Callable[..., Client]
) -> None:
    owner.run("CREATE TABLE t (id int PRIMARY KEY)")
    owner.run("CREATE VIEW names AS SELECT * FROM pg_tables")
    owner.session.close()
    before = definitions(administrator)
    # The earlier list of commits has the last column not yet.
    arguments, result = administrator.execute(
        "SELECT pg_get_function_arguments(oid), pg_get_function_result(oid) FROM pg_proc"
        " WHERE proname = 'listed_commits'"
    ).fetchall()[0]
    assert result == "SETOF record"
    fewer, last = arguments.rsplit(", OUT ", 1)
    make_older(
        administrator,
        "DROP FUNCTION pg_journal.listed_commits CASCADE",
        f"CREATE FUNCTION pg_journal.listed_commits({fewer}) RETURNS SETOF record"
        " LANGUAGE plpgsql AS 'BEGIN RETURN; END'",
        "CREATE VIEW pg_journal.commit_list AS"
        " SELECT * FROM pg_journal.listed_commits(NULL, NULL, 1)",
        "CREATE VIEW public.mine AS SELECT count(*) AS n FROM pg_journal.commit_list",
        "GRANT SELECT ON public.mine TO PUBLIC",
        # As statements make them that ask for lists with journals.
        "CREATE VIEW public.shown AS SELECT count(*) AS n FROM pg_journal.shown_pg_tables"
        " WHERE pg_journal.pg_table_is_visible('pg_class'::regclass)",
        "GRANT SELECT ON public.shown TO PUBLIC",
    )
    migrate(administrator)
    after = definitions(administrator)
    assert after == before
    assert ("commit_list", last.split()[0]) in {row[:2] for row in after["columns"]}
    again = connect()
    assert again.value("SELECT n >= 0 FROM mine") == "t"
    assert again.value("SELECT n > 0 FROM shown") == "t"


def test_what_users_objects_need_is_not_taken_away(administrator: psycopg.Connection) -> None:
    make_older(
        administrator,
        "CREATE FUNCTION pg_journal.bygone(wanted oid) RETURNS int LANGUAGE sql RETURN 1",
        "CREATE VIEW public.mine AS SELECT pg_journal.bygone(0)",
    )
    assert "view public.mine depends on" in refusal(administrator).message


def test_views_of_users_keep_their_columns(administrator: psycopg.Connection) -> None:
    make_older(
        administrator,
        "DROP VIEW pg_journal.tables",
        "CREATE VIEW pg_journal.tables AS SELECT 1 AS bygone",
        "CREATE VIEW public.mine AS SELECT bygone FROM pg_journal.tables",
    )
    assert "bygone" in refusal(administrator).message


# several gateways ---------------------------------------------------------------------------------


def test_sessions_of_a_gateway_with_other_functions_come_first(
    administrator: psycopg.Connection, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.run("CREATE TABLE t (id int PRIMARY KEY)")
    make_older(administrator)
    monkeypatch.setattr(migrations, "_DEPARTURE_S", 0.2)
    assert "another version has sessions" in refusal(administrator).message
    owner.run("INSERT INTO t VALUES (1)")
    owner.session.close()
    monkeypatch.undo()
    migrate(administrator)


def test_tables_that_stay_locked_are_not_waited_for(
    catalog: Catalog,
    administrator: psycopg.Connection,
    owner: Client,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner.run("CREATE TABLE t (id int PRIMARY KEY)")
    owner.session.close()
    make_older(administrator)
    monkeypatch.setattr(migrations, "_PATIENCE_S", 0.2)
    with connected(catalog, database) as other, other.transaction():
        other.execute("LOCK TABLE t IN ROW EXCLUSIVE MODE")
        assert "lock timeout" in refusal(administrator).message
    migrate(administrator)


def test_processes_that_have_the_number_of_an_earlier_session_are_no_sessions(
    administrator: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_older(
        administrator,
        "UPDATE pg_journal.series SET backend = pg_backend_pid(), backend_start = 'yesterday'",
    )
    monkeypatch.setattr(migrations, "_DEPARTURE_S", 0.0)
    migrate(administrator)


def test_a_gateway_finds_out_that_functions_were_replaced(
    catalog: Catalog,
    administrator: psycopg.Connection,
    owner: Client,
    connect: Callable[..., Client],
) -> None:
    """Its next session does, and makes them its own again: nobody else has one."""
    owner.run("CREATE TABLE t (id int PRIMARY KEY)")
    owner.session.close()
    catalog.release()
    make_older(administrator)
    other = migrate(administrator)
    make_older(administrator)
    again = connect()
    again.run("INSERT INTO t VALUES (1)")
    assert applied(administrator)[0][2] == functions_digest(administrator.info.server_version)
    assert key(administrator) != other


@pytest.mark.parametrize("is_new", [False, True])
def test_two_at_once_do_not_meet(
    catalog: Catalog, administrator: psycopg.Connection, database: str, is_new: bool
) -> None:
    before = definitions(administrator)
    if is_new:
        administrator.execute("DROP SCHEMA pg_journal CASCADE")
    else:
        make_older(
            administrator,
            "CREATE FUNCTION pg_journal.bygone() RETURNS int LANGUAGE sql RETURN 1",
        )
    told: list[str] = []
    failed: list[BaseException] = []
    start = threading.Barrier(2)

    def update() -> None:
        try:
            with connected(catalog, database) as connection:
                start.wait()
                told.append(migrate(connection))
        except BaseException as error:  # noqa: BLE001 — a thread's
            failed.append(error)

    threads = [threading.Thread(target=update) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert told == [key(administrator)] * 2
    assert definitions(administrator) == before


LOCKS = {
    "an advisory lock": f"SELECT pg_advisory_lock({0x70677769})",
    "a table that is analysed": "ANALYZE pg_catalog.pg_namespace",
}
"""What the database's owner can keep until a transaction ends, or a session."""


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_nobody_is_kept_waiting_by_locks_of_roles(
    catalog: Catalog, administrator: psycopg.Connection, database: str, lock: str, *, is_new: bool
) -> None:
    before = definitions(administrator)
    make_older(administrator)
    if is_new:
        administrator.execute("DROP SCHEMA pg_journal CASCADE")
    administrator.execute("SET statement_timeout = '20s'")
    with connected(catalog, database) as other, other.transaction():
        other.execute("SET LOCAL ROLE postgres")
        other.execute(lock)  # type: ignore[call-overload]
        told = migrate(administrator)
    assert told == key(administrator)
    assert definitions(administrator) == before


def test_the_lock_is_of_no_role(client: Client) -> None:
    client.run("CREATE TABLE t (id int PRIMARY KEY)")
    assert client.sqlstate(migrations._TAKE_TURN) == "42501"
