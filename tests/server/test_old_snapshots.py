"""Transactions above READ COMMITTED, of a tiered table whose rows go cold when these begin.

Nobody has seen anything by the snapshot of a transaction in which nothing has run: it is begun
again, as PostgreSQL would not fail it. Where something has run it fails.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import errors, pq

from tests.support.servers import Address
from tests.support.tiers import make_tiered, schema_sessions

pytestmark = pytest.mark.server

SCHEMA = "old_snapshots"

ROWS = 50

PATIENCE_S = 60.0

LEVELS = ("REPEATABLE READ", "SERIALIZABLE")

UPDATE = "UPDATE t SET v = v + 1 WHERE id = 1"

STATEMENTS = {
    "update": (UPDATE, "UPDATE 1"),
    "delete": ("DELETE FROM t WHERE id = 2 RETURNING v", "DELETE 1"),
    "insert": ("INSERT INTO t VALUES (1000, 0)", "INSERT 0 1"),
    "merge": (
        "MERGE INTO t USING (VALUES (3)) s (id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 7",
        "MERGE 1",
    ),
    "locks": ("SELECT v FROM t WHERE id = 4 FOR UPDATE", "SELECT 1"),
    "all rows": ("UPDATE t SET v = v + 1 WHERE v >= 0", f"UPDATE {ROWS}"),
}


@dataclass(frozen=True)
class Clients:
    """Who begins a transaction, and who has the rows of ``t`` become hot and cold meanwhile."""

    first: psycopg.Connection
    other: psycopg.Connection

    def prepare(self, statement: str) -> None:
        """Have a statement analysed, by which PostgreSQL takes the snapshot of a transaction."""
        result = self.first.pgconn.prepare(b"", statement.encode())
        assert result.status == pq.ExecStatus.COMMAND_OK, result.error_message

    def execute(self) -> str:
        """Run it; return its command tag.

        Raises:
            psycopg.Error: It has failed.
        """
        result = self.first.pgconn.exec_prepared(b"", [])
        if result.status not in {pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK}:
            raise errors.error_from_result(result)
        return (result.command_status or b"").decode()

    def heat(self) -> None:
        """Have the table have hot rows."""
        deadline = time.monotonic() + PATIENCE_S
        while self._state() != "hot":
            assert time.monotonic() < deadline
            self.other.execute("UPDATE t SET v = v WHERE id = 1")

    def cool(self) -> None:
        """Have upkeep let all rows go cold, and keep what is hot afterwards."""
        deadline = time.monotonic() + PATIENCE_S
        self.other.execute("ALTER TABLE t SET (gateway.hot_age_s = 0.5)")
        while self._state() != "tiered":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        self.other.execute("ALTER TABLE t SET (gateway.hot_age_s = 3600)")

    def _state(self) -> str:
        query = "SELECT state FROM gateway.maintenance WHERE table_name = 't'"
        ((state,),) = self.other.execute(query).fetchall()
        return str(state)


@pytest.fixture
def clients(gateway: Address, database: str) -> Iterator[Clients]:
    """Two clients of a table with hot rows."""
    with schema_sessions(gateway.conninfo(database), SCHEMA) as opened:
        found = Clients(opened(), opened())
        found.other.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        make_tiered(found.other, "t")
        found.other.execute(f"INSERT INTO t SELECT g, 0 FROM generate_series(1, {ROWS}) g")
        found.other.execute("ALTER TABLE t SET (gateway.hot_age_s = 3600)")
        found.heat()
        yield found
        found.first.rollback()


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("level", LEVELS)
def test_the_first_statement_does_not_fail_as_rows_go_cold(
    clients: Clients, level: str, statement: str
) -> None:
    text, tag = STATEMENTS[statement]
    clients.first.execute(f"BEGIN ISOLATION LEVEL {level}")
    clients.prepare(text)
    clients.cool()
    assert clients.execute() == tag
    assert clients.first.execute("SHOW transaction_isolation").fetchone() == (level.lower(),)
    clients.first.execute("COMMIT")
    assert clients.other.execute("SELECT gateway.check('t')").fetchone() == (0,)


def test_what_is_begun_again_is_begun_as_it_was(clients: Clients) -> None:
    clients.first.execute("SET default_transaction_isolation = 'repeatable read'")
    begins = "START TRANSACTION NOT DEFERRABLE, READ WRITE"
    for begin in (begins, begins, "BEGIN"):
        clients.heat()
        clients.first.execute(begin)
        clients.prepare(UPDATE)
        clients.cool()
        assert clients.execute() == "UPDATE 1"
        level = clients.first.execute("SHOW transaction_isolation").fetchone()
        assert level == ("repeatable read",)
        # It reads by one snapshot, the one it has had since it was begun again.
        clients.other.execute("UPDATE t SET v = 100 WHERE id = 5")
        assert clients.first.execute("SELECT v FROM t WHERE id = 5").fetchone() != (100,)
        clients.first.execute("COMMIT")
        clients.other.execute("UPDATE t SET v = 0 WHERE id = 5")
    assert clients.other.execute("SELECT v FROM t WHERE id = 1").fetchone() == (3,)


RUN = {
    "a query": "SELECT count(*) FROM t",
    "a query of no table": "SELECT 1",
    "a setting": "SET LOCAL work_mem = '8MB'",
    "a characteristic": "SET TRANSACTION READ WRITE",
    "a savepoint": "SAVEPOINT s",
    "a lock": "LOCK TABLE pg_catalog.pg_class IN ACCESS SHARE MODE",
    "a definition": "CREATE TEMPORARY TABLE mine (id integer)",
    "a notification": "NOTIFY somebody",
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("statement", RUN)
def test_it_fails_where_something_has_run_before(
    clients: Clients, statement: str, level: str
) -> None:
    clients.first.execute(f"BEGIN ISOLATION LEVEL {level}")
    clients.first.execute(RUN[statement])  # type: ignore[call-overload]
    clients.prepare(UPDATE)
    clients.cool()
    with pytest.raises(errors.SerializationFailure):
        clients.execute()
    clients.first.execute("ROLLBACK")
    assert clients.other.execute("SELECT v FROM t WHERE id = 1").fetchone() == (0,)


def test_it_fails_where_the_transaction_goes_on_from_another_one(clients: Clients) -> None:
    clients.first.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    clients.first.execute("COMMIT AND CHAIN")
    clients.prepare(UPDATE)
    clients.cool()
    with pytest.raises(errors.SerializationFailure):
        clients.execute()


def test_of_a_statement_that_is_made_of_several_all_is_done(clients: Clients) -> None:
    clients.other.execute("UPDATE t SET v = 5 WHERE id = 1")
    newest = "SELECT commit FROM gateway.commits ORDER BY committed_at DESC LIMIT 1"
    ((commit,),) = clients.other.execute(newest).fetchall()
    clients.first.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    clients.prepare(f"SELECT gateway.rollback_commit('{commit}')")
    clients.cool()
    assert clients.execute() == "SELECT 1"
    clients.first.execute("COMMIT")
    assert clients.other.execute("SELECT v FROM t WHERE id = 1").fetchone() == (0,)
    assert clients.other.execute("SELECT gateway.check('t')").fetchone() == (0,)


def test_a_transaction_in_a_string_of_statements_keeps_what_was_before(clients: Clients) -> None:
    """What BEGIN finds open is not begun by it."""
    clients.first.pgconn.exec_(b"SELECT 1; BEGIN ISOLATION LEVEL REPEATABLE READ")
    clients.first.execute("ROLLBACK")
    clients.first.pgconn.exec_(b"INSERT INTO t VALUES (3000, 0); BEGIN")
    clients.prepare(UPDATE)
    clients.execute()
    clients.first.execute("COMMIT")
    found = clients.other.execute("SELECT id, v FROM t WHERE id IN (1, 3000)").fetchall()
    assert sorted(found) == [(1, 1), (3000, 0)]


@pytest.mark.parametrize(
    ("change", "sqlstate"), [("ALTER COLUMN d TYPE bigint", "40001"), ("DROP COLUMN d", "42703")]
)
@pytest.mark.parametrize("level", LEVELS)
def test_columns_that_are_not_what_they_were_are_not_read(
    resident_gateway: Address, level: str, change: str, sqlstate: str
) -> None:
    with schema_sessions(resident_gateway.conninfo(), SCHEMA) as opened:
        reader, owner = opened(), opened()
        owner.execute("CREATE TABLE t (id integer PRIMARY KEY, d integer, e integer)")
        owner.execute("INSERT INTO t VALUES (1, 10, 7), (2, 20, 8)")
        reader.execute("SET gateway.executor = spark")
        reader.execute(f"BEGIN ISOLATION LEVEL {level}")
        reader.execute("SELECT 1")
        owner.execute(f"ALTER TABLE t {change}")
        with pytest.raises(psycopg.Error) as raised:
            reader.execute("SELECT id, d, e FROM t")
        assert raised.value.sqlstate == sqlstate
        reader.execute("ROLLBACK")
        assert reader.execute("SELECT id, e FROM t ORDER BY id").fetchall() == [(1, 7), (2, 8)]


DEFINITIONS = {
    "a column": "ALTER TABLE t ADD COLUMN e integer",
    "another schema": "ALTER TABLE t SET SCHEMA public",
    "a name": "ALTER TABLE t RENAME TO u",
    "a column of partitions": "ALTER TABLE p ADD COLUMN e integer",
}


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("level", LEVELS)
def test_definitions_by_old_snapshots_fail_where_they_have_changed(
    resident_gateway: Address, level: str, definition: str
) -> None:
    """The snapshot shows what was there beside what the transaction has just made of it."""
    with schema_sessions(resident_gateway.conninfo(), SCHEMA) as opened:
        owner, other = opened(), opened()
        owner.execute("CREATE TABLE t (id integer PRIMARY KEY)")
        owner.execute("CREATE TABLE p (id integer PRIMARY KEY) PARTITION BY LIST (id)")
        owner.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)")
        owner.execute(f"BEGIN ISOLATION LEVEL {level}")
        owner.execute("SELECT 1")
        for table in ("t", "p"):
            other.execute(f"ALTER TABLE {table} RENAME TO moved")
            other.execute(f"ALTER TABLE moved RENAME TO {table}")
        with pytest.raises(errors.SerializationFailure):
            owner.execute(DEFINITIONS[definition])  # type: ignore[call-overload]
        owner.execute("ROLLBACK")
        owner.execute(DEFINITIONS[definition])  # type: ignore[call-overload]
        owner.execute("DROP TABLE IF EXISTS public.t")
