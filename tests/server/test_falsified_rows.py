"""gateway.check counts hot rows that were falsified behind the gateway's back."""

import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.server.test_removed_files import administrator
from tests.support.servers import GatewayProcess
from tests.support.tiers import PATIENCE_S
from tests.support.waiting import wait_until

pytestmark = pytest.mark.server

CHECK = "SELECT gateway.check('t')"

FALSIFIED = {
    "a row that was written": ("UPDATE t SET v = -1 WHERE id = 1", 2),
    "a row that was only made hot": ("UPDATE t SET v = -1 WHERE id = 2", 2),
    "both": ("UPDATE t SET v = -1 WHERE id IN (1, 2)", 4),
    "a row that is gone": ("DELETE FROM t WHERE id = 2", 1),
    "a row that nobody has inserted": ("INSERT INTO t VALUES (9000, 1)", 1),
    "a version that is lost": ("DELETE FROM pg_journal.tail_{0} WHERE c1 = 1", 2),
}


@pytest.fixture
def client(gateway_process: GatewayProcess, database: str) -> Iterator[psycopg.Connection]:
    """A client of a database with a table in files, two rows of which are hot."""
    conninfo = gateway_process.address.conninfo(database)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        connection.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 1500) g")
        connection.execute("UPDATE t SET v = v + 1 WHERE id = 1")
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM t WHERE id = 2 FOR UPDATE")
        connection.execute("COMMIT")
        state = "SELECT state, hot_rows FROM gateway.maintenance WHERE table_name = 't'"
        assert connection.execute(state).fetchone() == ("hot", 2)
        yield connection


@pytest.mark.parametrize("falsified", FALSIFIED)
def test_falsified_hot_rows_are_counted(
    gateway_process: GatewayProcess, database: str, client: psycopg.Connection, falsified: str
) -> None:
    assert client.execute(CHECK).fetchone() == (0,)
    statement, found = FALSIFIED[falsified]
    with administrator(gateway_process, database) as catalog:
        catalog.execute("SET session_replication_role = replica")
        ((relid,),) = catalog.execute("SELECT 't'::regclass::oid::integer").fetchall()
        done = catalog.execute(statement.format(relid))  # type: ignore[call-overload]
        assert done.rowcount == (2 if falsified == "both" else 1)
    assert client.execute(CHECK).fetchone() == (found,)


@pytest.mark.parametrize("cools", [False, True])
def test_upkeep_finds_a_row_that_was_only_made_hot(
    gateway_process: GatewayProcess, database: str, client: psycopg.Connection, *, cools: bool
) -> None:
    """Those that are not to go cold are compared now and then, the others before they do."""
    logged = len(gateway_process.log)
    with administrator(gateway_process, database) as catalog:
        catalog.execute("SET session_replication_role = replica")
        catalog.execute("UPDATE t SET v = -1 WHERE id = 2")
        if cools:
            catalog.execute("UPDATE pg_journal.journals SET hot_age_s = 0")
        await_state(client, "hot", "XX001")
        told = 'such as that of "public"."t" with key (2)'
        assert wait_until(lambda: any(told in line for line in gateway_process.log[logged:]))
        catalog.execute("UPDATE t SET v = 2 WHERE id = 2")
    await_state(client, "tiered" if cools else "hot", None)
    assert client.execute("SELECT v FROM t WHERE id = 2").fetchone() == (2,)


def await_state(client: psycopg.Connection, state: str, failure: str | None) -> None:
    """Wait until upkeep has left the table so."""
    query = "SELECT state, last_failure FROM gateway.maintenance WHERE table_name = 't'"
    deadline = time.monotonic() + PATIENCE_S
    while (found := client.execute(query).fetchone()) != (state, failure):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


MISCOUNTED = {
    "a version that is lost": ("DELETE FROM pg_journal.tail_{0} WHERE c1 = 1", 1),
    "a version that nobody sees": (
        "UPDATE pg_journal.tail_{0} SET version_number = 'tomorrow' WHERE c1 = 1",
        1,
    ),
    "a row in PostgreSQL": ("INSERT INTO cold VALUES (9, 9)", 1),
}


@pytest.mark.parametrize("falsified", MISCOUNTED)
def test_the_tail_of_a_table_without_hot_rows_is_accounted_for(
    gateway_process: GatewayProcess, database: str, falsified: str
) -> None:
    statement, found = MISCOUNTED[falsified]
    conninfo = gateway_process.address.conninfo(database)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE TABLE cold (id integer PRIMARY KEY, v integer)")
        connection.execute("INSERT INTO cold VALUES (1, 1), (2, 2)")
        # Who defines a table lets its rows go cold.
        connection.execute("ALTER TABLE cold ALTER v DROP DEFAULT")
        check = "SELECT gateway.check('cold')"
        assert connection.execute(check).fetchone() == (0,)
        with administrator(gateway_process, database) as catalog:
            catalog.execute("SET session_replication_role = replica")
            ((relid,),) = catalog.execute("SELECT 'cold'::regclass::oid::integer").fetchall()
            done = catalog.execute(statement.format(relid))  # type: ignore[call-overload]
            assert done.rowcount == 1
        assert connection.execute(check).fetchone() == (found,)
