"""A data directory whose functions are those of an earlier gateway: its tables go on as they were.

Of the earlier functions nothing works any more, those that were made for single tables included.
What the gateway answers is compared with a PostgreSQL that has run the same statements.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from catalog.server.embedded import SUPERUSER, EmbeddedServer
from catalog.server.migrations import migrate
from tests.support.bookkeeping_definitions import definitions
from tests.support.fix_server import MACHINE_OPTIONS
from tests.support.servers import Address, GatewayProcess

PATIENCE_S = 60.0
"""How long a table may take to become tiered."""

SETUP = (
    "CREATE TABLE kept (id integer PRIMARY KEY, v text)",
    "INSERT INTO kept SELECT g, 'v' || g FROM generate_series(1, 20) g",
    "CREATE TABLE keyless (v text)",
    "INSERT INTO keyless SELECT 'v' || g % 3 FROM generate_series(1, 9) g",
    "CREATE TABLE cold (id integer PRIMARY KEY, v text, UNIQUE (v))",
    "INSERT INTO cold SELECT g, 'v' || g FROM generate_series(1, 500) g",
    "CREATE TABLE hot (id integer PRIMARY KEY, k integer REFERENCES kept, v text)",
    "INSERT INTO hot SELECT g, g % 20 + 1, 'v' || g FROM generate_series(1, 500) g",
    "CREATE TABLE refers (id integer PRIMARY KEY, c integer REFERENCES cold ON DELETE CASCADE)",
    "INSERT INTO refers SELECT g, g FROM generate_series(1, 20) g",
    (
        "CREATE TABLE later (id integer PRIMARY KEY,"
        " h integer REFERENCES hot DEFERRABLE INITIALLY DEFERRED)"
    ),
    "INSERT INTO later SELECT g, g FROM generate_series(1, 20) g",
    ("CREATE TABLE tree (id integer PRIMARY KEY, v text) PARTITION BY RANGE (id)"),
    "CREATE TABLE tree_a PARTITION OF tree FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE tree_b PARTITION OF tree FOR VALUES FROM (100) TO (200)",
    "INSERT INTO tree SELECT g, 'v' || g FROM generate_series(1, 199) g",
    "CREATE TABLE parent (id integer PRIMARY KEY)",
    "CREATE TABLE child (v text) INHERITS (parent)",
    "INSERT INTO child SELECT g, 'v' || g FROM generate_series(1, 5) g",
    "CREATE VIEW changes AS SELECT count(*) > 0 AS some FROM pg_class",
)

TIERED = ("cold", "hot", "tree_b")

WARMING = (
    # Few rows, which are hot from then on, and in tails that are not flushed.
    "UPDATE hot SET v = 'warm' WHERE id IN (1, 2, 3)",
    "INSERT INTO hot VALUES (1001, 1, 'new')",
    "DELETE FROM hot WHERE id = 40",
    "UPDATE kept SET v = 'tail' WHERE id = 1",
)

STATEMENTS = (
    "INSERT INTO kept VALUES (101, 'x'), (102, 'y')",
    "UPDATE kept SET v = 'z' WHERE id = 2",
    "DELETE FROM kept WHERE id = 1",
    "DELETE FROM kept WHERE id = 102",
    "INSERT INTO keyless VALUES ('w')",
    "DELETE FROM keyless WHERE v = 'v1'",
    "UPDATE cold SET v = 'changed' WHERE id = 7",
    "INSERT INTO cold VALUES (601, 'v8')",
    "INSERT INTO cold VALUES (601, 'v601')",
    "INSERT INTO cold VALUES (9, 'v9') ON CONFLICT (id) DO UPDATE SET v = 'met'",
    "DELETE FROM cold WHERE id = 10",
    "INSERT INTO refers VALUES (101, 499), (102, 601)",
    "INSERT INTO refers VALUES (103, 10)",
    "UPDATE refers SET c = 10000 WHERE id = 1",
    "UPDATE hot SET v = v || '!' WHERE id IN (1, 5)",
    "UPDATE hot SET k = 77 WHERE id = 3",
    "INSERT INTO hot VALUES (1001, 1, 'again')",
    "DELETE FROM hot WHERE id = 3",
    "DELETE FROM hot WHERE id = 300",
    "INSERT INTO later VALUES (101, 301), (102, 1001)",
    "INSERT INTO later VALUES (103, 300)",
    "UPDATE tree SET v = 'w' WHERE id IN (5, 105)",
    "INSERT INTO tree VALUES (0, 'zero')",
    "INSERT INTO tree VALUES (150, 'twice')",
    "DELETE FROM tree WHERE id = 198",
    "UPDATE parent SET id = id + 100 WHERE id > 3",
    "DELETE FROM child WHERE id = 1",
    "TRUNCATE keyless",
    "INSERT INTO keyless VALUES ('last')",
    "CREATE TABLE made (id integer PRIMARY KEY, k integer REFERENCES kept)",
    "INSERT INTO made VALUES (1, 101), (2, 2)",
    "ALTER TABLE kept ADD COLUMN added integer DEFAULT 5",
    "UPDATE kept SET added = id WHERE id < 5",
    "ALTER TABLE hot ADD COLUMN added text",
    "UPDATE hot SET added = 'a' WHERE id = 6",
    "DROP TABLE child",
)

TABLES = ("kept", "keyless", "cold", "hot", "refers", "later", "tree", "parent", "made")

BROKEN = """
    UPDATE pg_proc p SET prosrc = 'BEGIN RAISE division_by_zero; END'
      FROM pg_language l WHERE l.oid = p.prolang AND l.lanname = 'plpgsql'
       AND p.pronamespace = 'pg_journal'::regnamespace;
    UPDATE pg_proc p SET prosrc = 'SELECT bygone'
      FROM pg_language l WHERE l.oid = p.prolang AND l.lanname = 'sql' AND p.prosqlbody IS NULL
       AND p.pronamespace = 'pg_journal'::regnamespace;
    DROP FUNCTION pg_journal.has_rows(oid) CASCADE;
    CREATE FUNCTION pg_journal.has_rows(relid oid) RETURNS int LANGUAGE sql RETURN 1;
    CREATE FUNCTION pg_journal.bygone() RETURNS int LANGUAGE sql RETURN 1;
    UPDATE pg_journal.migrations SET digest = 'earlier' WHERE number = 0;
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway that a test may end; nothing is flushed, and what is hot stays so."""
    options = ("--flush-age-s=3600", "--hot-age-s=3600", "--thaw-rows=100")
    gateway = GatewayProcess(tmp_path / "data", *MACHINE_OPTIONS, *options)
    yield gateway
    gateway.kill_if_running()


@contextmanager
def administrator(data_dir: Path) -> Iterator[psycopg.Connection]:
    """Connect to the catalog of a gateway that does not run."""
    server = EmbeddedServer(data_dir)
    server.start()
    try:
        address = f"host={server.host} port={server.port} user={SUPERUSER} dbname=postgres"
        with psycopg.connect(address, autocommit=True) as connection:
            yield connection
    finally:
        server.stop()


def break_functions(connection: psycopg.Connection) -> None:
    with connection.transaction():
        connection.execute("SET LOCAL allow_system_table_mods = on")
        connection.execute("SET LOCAL event_triggers = off")
        connection.execute(BROKEN)


def make_tiered(address: Address) -> None:
    with psycopg.connect(address.conninfo(), autocommit=True) as connection:
        for table in TIERED:
            connection.execute(f"ALTER TABLE {table} SET (gateway.residency = never)")
            deadline = time.monotonic() + PATIENCE_S
            while connection.execute(
                "SELECT residency FROM gateway.tables WHERE table_name = %s", [table]
            ).fetchone() != ("tiered",):
                assert time.monotonic() < deadline, table
                time.sleep(0.1)


def outcome(connection: psycopg.Connection, statement: str) -> object:
    """Return what a client learns from a statement: the number of rows, or the error."""
    try:
        return connection.execute(statement).rowcount  # type: ignore[call-overload]
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.message_detail


def rows(connection: psycopg.Connection) -> dict[str, list[tuple]]:
    return {table: sorted(connection.execute(f"TABLE {table}").fetchall()) for table in TABLES[:-1]}


def test_tables_go_on(process: GatewayProcess, plain_postgres: Address) -> None:
    name = "earlier_functions"
    plain_postgres.execute(f"CREATE DATABASE {name}")
    process.start()
    process.address.execute(*SETUP)
    make_tiered(process.address)
    process.address.execute(*WARMING)
    plain_postgres.execute(*SETUP, *WARMING, database=name)
    process.terminate()

    with administrator(process.data_dir) as connection:
        before = definitions(connection)
        made = {row[0] for row in before["functions"]}
        for kind in ("capture", "seek", "reseek", "referenced", "propose", "cold", "thaw", "heat"):
            assert any(one.startswith(f"pg_journal.{kind}_") for one in made), kind
        assert any(row[0].startswith("pg_journal.pending_") for row in before["triggers"])
        assert connection.execute(
            "SELECT relid::regclass::text FROM pg_journal.journals WHERE is_hot"
        ).fetchall() == [("hot",)]
        break_functions(connection)
        assert definitions(connection)["functions"] != before["functions"]
        migrate(connection)
        # Of a table that was resident before; nothing calls it.
        rest = {
            f"pg_journal.capture_{relid}()"
            for (relid,) in connection.execute(
                "SELECT relid FROM pg_journal.journals WHERE residency = 'tiered' AND NOT is_hot"
            )
        }
        before["functions"] = [row for row in before["functions"] if row[0] not in rest]
        assert definitions(connection) == before
        break_functions(connection)

    process.start()
    with (
        psycopg.connect(process.address.conninfo(), autocommit=True) as gateway,
        psycopg.connect(plain_postgres.conninfo(name), autocommit=True) as oracle,
    ):
        assert rows(gateway) == rows(oracle)
        for statement in STATEMENTS:
            assert outcome(gateway, statement) == outcome(oracle, statement), statement
        for table in TABLES:
            query = f"SELECT * FROM {table}"
            found, expected = gateway.execute(query).fetchall(), oracle.execute(query).fetchall()
            assert sorted(found, key=repr) == sorted(expected, key=repr), table
        for table in ("kept", "keyless", "cold", "hot", "refers", "later", "tree_a", "tree_b"):
            assert gateway.execute("SELECT gateway.check(%s)", [table]).fetchone() == (0,), table
    process.terminate()
    plain_postgres.execute(f"DROP DATABASE {name}")
