"""Foreign keys that are looked at when the transaction ends: how it ends, and who cannot wait."""

import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from pgwire_gateway.messages import Execute, FrontendMessage, Parse, Query, Sync
from tests.support.dialogues import bind, play, wire
from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

SCHEMA = "deferred_served"

PATIENCE_S = 60.0
"""How long a table may take to become tiered."""

SETUP = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    "CREATE TABLE p (id integer PRIMARY KEY, v integer)",
    "INSERT INTO p SELECT g, g FROM generate_series(1, 50) g",
    (
        "CREATE TABLE t (id integer PRIMARY KEY,"
        " p integer REFERENCES p DEFERRABLE INITIALLY DEFERRED, v integer)"
    ),
    "INSERT INTO t SELECT g, g % 40 + 1, g FROM generate_series(1, 200) g",
)


def run(*statements: str) -> list[FrontendMessage]:
    """Return messages that execute statements by the extended protocol, and Sync."""
    messages: list[FrontendMessage] = []
    for statement in statements:
        messages += [Parse("", statement, ()), bind(), Execute("", 0)]
    return [*messages, Sync()]


DIALOGUES = {
    "one string": [
        Query("BEGIN; INSERT INTO t VALUES (1001, 101, 0); INSERT INTO p VALUES (101); COMMIT"),
        Query("INSERT INTO t VALUES (1002, 102, 0); INSERT INTO p VALUES (102)"),
        Query("INSERT INTO t VALUES (1003, 103, 0); INSERT INTO p VALUES (104)"),
        Query("INSERT INTO t VALUES (1004, 105, 0); COMMIT; SELECT 1"),
        Query("BEGIN; INSERT INTO t VALUES (1005, 106, 0); COMMIT; SELECT 1"),
        Query("INSERT INTO t VALUES (1006, 107, 0); ROLLBACK; SELECT 2"),
        Query("INSERT INTO t VALUES (1007, 107, 0)"),
        Query("SET CONSTRAINTS ALL IMMEDIATE; INSERT INTO t VALUES (1008, 108, 0); SELECT 3"),
        Query("SET CONSTRAINTS t_p_fkey IMMEDIATE"),
        Query("SET CONSTRAINTS none IMMEDIATE"),
        Query("SELECT count(*) FROM t"),
    ],
    "a pipeline": [
        *run("INSERT INTO t VALUES (1001, 101, 0)", "INSERT INTO p VALUES (101)"),
        *run("INSERT INTO t VALUES (1002, 102, 0)", "INSERT INTO p VALUES (103)"),
        *run("BEGIN", "INSERT INTO t VALUES (1003, 104, 0)", "COMMIT", "SELECT 1"),
        *run("BEGIN", "INSERT INTO t VALUES (1004, 105, 0)", "INSERT INTO p VALUES (105)", "END"),
        *run("DELETE FROM p WHERE id = 3"),
        *run("DELETE FROM p WHERE id = 3", "DELETE FROM t WHERE p = 3"),
        *run("INSERT INTO t VALUES (1005, 106, 0)"),
        *run("SELECT count(*) FROM t"),
    ],
    "chains and savepoints": [
        Query("BEGIN"),
        *run("INSERT INTO t VALUES (1001, 101, 0)"),
        *run("SAVEPOINT s", "INSERT INTO t VALUES (1002, 102, 0)", "ROLLBACK TO s"),
        *run("INSERT INTO p VALUES (101)", "COMMIT AND CHAIN"),
        *run("INSERT INTO t VALUES (1003, 103, 0)"),
        *run("SET CONSTRAINTS ALL IMMEDIATE"),
        *run("COMMIT"),
        Query("BEGIN"),
        *run("DELETE FROM p WHERE id = 5"),
        *run("COMMIT AND CHAIN"),
        Query("BEGIN"),
        *run("INSERT INTO t VALUES (1004, 104, 0)"),
        Query("PREPARE TRANSACTION 'one'"),
        Query("SELECT count(*) FROM t"),
    ],
}


def connected(pair: Pair) -> psycopg.Connection:
    options = f"-c search_path={SCHEMA} -c lock_timeout=20s"
    return psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True, options=options)


def make_tiered(connection: psycopg.Connection, *tables: str) -> None:
    told = "SELECT residency FROM gateway.tables WHERE schema_name = %s AND table_name = %s"
    for table in tables:
        connection.execute(f"ALTER TABLE {table} SET (gateway.residency = never)")
        deadline = time.monotonic() + PATIENCE_S
        while connection.execute(told, [SCHEMA, table]).fetchone() != ("tiered",):
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.fixture
def client(two_tiers_pair: Pair) -> Iterator[psycopg.Connection]:
    """A connection to the gateway, where a table ``t`` references a table ``p``."""
    two_tiers_pair.gateway.execute(*SETUP, database=two_tiers_pair.database)
    with connected(two_tiers_pair) as connection:
        yield connection
        assert connection.execute("SELECT gateway.check('p')").fetchone() == (0,)
        assert connection.execute("SELECT gateway.check('t')").fetchone() == (0,)
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


@pytest.mark.parametrize("tables", ["p", "t", "pt"])
@pytest.mark.parametrize("dialogue", DIALOGUES)
def test_transactions_end_as_in_postgresql(
    client: psycopg.Connection, two_tiers_pair: Pair, dialogue: str, tables: str
) -> None:
    two_tiers_pair.plain.execute(*SETUP, database=two_tiers_pair.database)
    make_tiered(client, *tables)
    traces = []
    for server in (two_tiers_pair.plain, two_tiers_pair.gateway):
        with wire(server, two_tiers_pair.database) as connection:
            relay = Query(f"SET search_path = {SCHEMA}")
            traces.append(play(connection, [relay, *DIALOGUES[dialogue]]))
    assert traces[1] == traces[0]


def test_code_leaves_it_to_the_end_of_a_block(client: psycopg.Connection) -> None:
    make_tiered(client, "p")
    # No other table has this name.
    client.execute("ALTER TABLE t RENAME TO deferring")
    client.execute(
        "CREATE FUNCTION put(n integer) RETURNS integer LANGUAGE sql AS"
        " 'INSERT INTO deferring VALUES (n + 1000, n, 0) RETURNING id'"
    )
    client.execute(
        "CREATE PROCEDURE commits() LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO deferring VALUES (2000, 7, 0); COMMIT; END'"
    )
    for code in (
        "SELECT put(7)",
        "DO 'BEGIN INSERT INTO deferring VALUES (2000, 7, 0); END'",
        "CALL commits()",
    ):
        with pytest.raises(errors.FeatureNotSupported, match="deferred foreign key"):
            client.execute(code)
    with client.transaction():
        client.execute("SELECT put(7), put(101)")
        client.execute("INSERT INTO p VALUES (101)")
    with pytest.raises(errors.ForeignKeyViolation), client.transaction():
        client.execute("SELECT put(102)")
    with client.transaction():
        client.execute("SELECT put(103)")
        client.execute("INSERT INTO p VALUES (103)")
        client.execute("DO 'BEGIN INSERT INTO deferring VALUES (2000, 104, 0); END'")
        client.execute("INSERT INTO p VALUES (104)")
    with pytest.raises(errors.FeatureNotSupported), client.transaction():
        client.execute(
            "DO 'BEGIN INSERT INTO deferring VALUES (2001, 7, 0);"
            " SET CONSTRAINTS ALL IMMEDIATE; END'"
        )
    found = client.execute("SELECT id FROM deferring WHERE id > 1000 ORDER BY id").fetchall()
    assert found == [(1007,), (1101,), (1103,), (2000,)]
    client.execute("DROP FUNCTION put(integer)")
    client.execute("DROP PROCEDURE commits()")
    client.execute("ALTER TABLE deferring RENAME TO t")


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("p", "INSERT INTO deferring VALUES (1001, 101, 0)"),
        ("t", "DELETE FROM waited WHERE id = 5"),
    ],
)
def test_nobody_settles_it_by_settings(
    client: psycopg.Connection, table: str, statement: str
) -> None:
    make_tiered(client, table)
    # Tables of these names in other schemas are none that the code may come to.
    client.execute("ALTER TABLE t RENAME TO deferring")
    client.execute("ALTER TABLE p RENAME TO waited")
    (fk,) = client.execute("SELECT oid FROM pg_constraint WHERE conname = 't_p_fkey'").fetchone()
    for setting in ("asked", f"settled_{fk}"):
        with pytest.raises(errors.InsufficientPrivilege):
            client.execute(f"SET pg_journal.{setting} = 'on'")
        client.execute("SELECT set_config(%s, 'on', false)", [f"pg_journal.{setting}"])
        with pytest.raises(errors.FeatureNotSupported, match="deferred foreign key"):
            client.execute(
                f"DO $$ BEGIN PERFORM set_config('pg_journal.{setting}', 'on', true); {statement};"
                f" PERFORM set_config('pg_journal.{setting}', 'on', true); END $$"
            )
    client.execute("ALTER TABLE deferring RENAME TO t")
    client.execute("ALTER TABLE waited RENAME TO p")


@pytest.mark.parametrize("tables", ["p", "t", "pt"])
def test_many_rows_are_looked_at_together(client: psycopg.Connection, tables: str) -> None:
    make_tiered(client, *tables)
    added = "INSERT INTO t SELECT g, g - %s::int, 0 FROM generate_series(%s::int, %s::int) g"
    with client.transaction():
        client.execute(added, [900, 1_000, 8_000])
        client.execute("INSERT INTO p SELECT g, 0 FROM generate_series(100, 7100) g")
    with pytest.raises(errors.ForeignKeyViolation), client.transaction():
        client.execute(added, [0, 10_000, 18_000])
    with client.transaction():
        client.execute(added, [0, 10_000, 18_000])
        client.execute("DELETE FROM t WHERE id >= 10000")
    with pytest.raises(errors.ForeignKeyViolation), client.transaction():
        client.execute("DELETE FROM p WHERE id = 200")
    # What references goes with many others, before or after.
    with client.transaction():
        client.execute("DELETE FROM p WHERE id = 200")
        client.execute("DELETE FROM t WHERE id > 900")
        client.execute("DELETE FROM p WHERE id BETWEEN 300 AND 310")
    assert client.execute("SELECT count(*) FROM t").fetchone() == (200,)
    assert client.execute("SELECT count(*) FROM p").fetchone() == (7_039,)


def test_more_rows_reference_than_can_be_hot(client: psycopg.Connection) -> None:
    make_tiered(client, "t")
    client.execute("ALTER TABLE t SET (gateway.thaw_rows = 2)")
    with pytest.raises(errors.ForeignKeyViolation) as told, client.transaction():
        client.execute("DELETE FROM p WHERE id = 20")
    assert told.value.diag.message_detail == 'Key (id)=(20) is still referenced from table "t".'
    assert told.value.diag.constraint_name == "t_p_fkey"
    client.execute("DELETE FROM p WHERE id = 45")


@pytest.mark.parametrize("tables", ["p", "t", "pt"])
def test_it_is_deferrable_or_not_later(client: psycopg.Connection, tables: str) -> None:
    make_tiered(client, *tables)
    late = ("INSERT INTO t VALUES (1001, 101, 0)", "INSERT INTO p VALUES (101)")
    early = "DELETE FROM p WHERE id = 5"
    for deferrable, deferred in (
        ("NOT DEFERRABLE", False),
        ("DEFERRABLE INITIALLY IMMEDIATE", False),
        ("INITIALLY DEFERRED", True),
    ):
        client.execute(f"ALTER TABLE t ALTER CONSTRAINT t_p_fkey {deferrable}")
        for statement in (late[0], early):
            with pytest.raises(errors.ForeignKeyViolation):
                client.execute(statement)
            with client.transaction(force_rollback=True):
                if deferred:
                    client.execute(statement)
                    continue
                with pytest.raises(errors.ForeignKeyViolation):
                    client.execute(statement)
    client.execute("BEGIN")
    client.execute(late[0])
    with pytest.raises(errors.ObjectInUse):
        client.execute("ALTER TABLE t DROP CONSTRAINT t_p_fkey")
    client.execute("ROLLBACK")
    client.execute("ALTER TABLE t DROP CONSTRAINT t_p_fkey")
    client.execute("INSERT INTO t VALUES (1002, 102, 0)")
    add = (
        "ALTER TABLE t ADD CONSTRAINT k FOREIGN KEY (p) REFERENCES p DEFERRABLE INITIALLY DEFERRED"
    )
    with pytest.raises(errors.ForeignKeyViolation):
        client.execute(add)
    client.execute("DELETE FROM t WHERE id = 1002")
    client.execute(add)
    with client.transaction():
        for statement in late:
            client.execute(statement)
    with pytest.raises(errors.ForeignKeyViolation):
        client.execute("DELETE FROM p WHERE id = 101")


def test_a_large_load_leaves_what_is_deferred_to_postgresql(client: psycopg.Connection) -> None:
    client.execute("DROP TABLE t, p")
    for made in (made for made in SETUP if made.startswith("CREATE TABLE")):
        client.execute(made)
    with client.transaction():
        client.execute("INSERT INTO t VALUES (1, 149999, 0)")
        with client.cursor().copy("COPY p FROM STDIN") as copied:
            copied.write("".join(f"{number}\t0\n" for number in range(150_000)))
    with pytest.raises(errors.ForeignKeyViolation):
        client.execute("INSERT INTO t VALUES (2, 150000, 0)")


def test_snapshots_do_not_wait(client: psycopg.Connection) -> None:
    make_tiered(client, "p")
    client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    with pytest.raises(errors.FeatureNotSupported):
        client.execute("INSERT INTO t VALUES (1001, 7, 0)")
    client.execute("ROLLBACK")


@pytest.mark.parametrize("tables", ["p", "t", "pt"])
@pytest.mark.parametrize("change", ["RENAME TO renamed", "SET SCHEMA deferred_elsewhere"])
def test_the_referenced_table_has_another_name_at_the_end(
    client: psycopg.Connection, tables: str, change: str
) -> None:
    make_tiered(client, *tables)
    client.execute("DROP SCHEMA IF EXISTS deferred_elsewhere CASCADE")
    client.execute("CREATE SCHEMA deferred_elsewhere")
    for statement, fails in (
        ("DELETE FROM p WHERE id = 45", False),
        ("UPDATE p SET id = 145 WHERE id = 44", False),
        ("DELETE FROM p WHERE id = 5", True),
        ("UPDATE p SET id = 106 WHERE id = 6", True),
    ):
        client.execute("BEGIN")
        client.execute(statement)
        client.execute(f"ALTER TABLE p {change}")
        if fails:
            with pytest.raises(errors.ForeignKeyViolation):
                client.execute("COMMIT")
            continue
        client.execute("COMMIT")
        client.execute("ALTER TABLE IF EXISTS renamed RENAME TO p")
        client.execute(f"ALTER TABLE IF EXISTS deferred_elsewhere.p SET SCHEMA {SCHEMA}")
    # What is put back is not where PostgreSQL looks for it.
    if "p" in tables:
        client.execute("BEGIN")
        client.execute("DELETE FROM p WHERE id = 7")
        client.execute("INSERT INTO p VALUES (7, 0)")
        client.execute(f"ALTER TABLE p {change}")
        with pytest.raises(errors.FeatureNotSupported):
            client.execute("COMMIT")
    client.execute("DROP SCHEMA deferred_elsewhere")


def test_what_references_was_written_as_a_whole_before(client: psycopg.Connection) -> None:
    make_tiered(client, "t")
    client.execute("ALTER TABLE t SET (gateway.thaw_rows = 2)")
    with client.transaction():
        client.execute("DELETE FROM t WHERE p = 4")
        client.execute("DELETE FROM p WHERE id = 4")
    client.execute("BEGIN")
    client.execute("DELETE FROM t WHERE p = 5")
    client.execute("DELETE FROM p WHERE id = 6")
    with pytest.raises(errors.ForeignKeyViolation) as told:
        client.execute("COMMIT")
    assert told.value.diag.message_detail == 'Key (id)=(6) is still referenced from table "t".'
