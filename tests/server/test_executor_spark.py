"""Resident tables changed with ``gateway.executor`` set to ``spark``: who does it, who waits."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors

from pgwire_gateway.messages import Describe, Execute, ObjectKind, Parse, Query, Sync
from tests.support.dialogues import bind, play, wire
from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

SCHEMA = "executor_spark_served"

SETUP = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    "CREATE TABLE r (id integer PRIMARY KEY, v integer, w text)",
    "INSERT INTO r SELECT g, g * 10, 'w' || g FROM generate_series(1, 5) g",
    "CREATE TABLE s (id integer, v integer)",
    "INSERT INTO s SELECT g, g * 100 FROM generate_series(1, 5) g",
)

CHANGE = "UPDATE r SET v = r.v + 1"

BOTH = "spark, then postgres: asked for"


def connected(pair: Pair, user: str = "postgres", executor: str = "spark") -> psycopg.Connection:
    options = f"-c search_path={SCHEMA} -c lock_timeout=60s -c gateway.executor={executor}"
    return psycopg.connect(
        pair.gateway.conninfo(pair.database), user=user, autocommit=True, options=options
    )


def ran(connection: psycopg.Connection, statement: str, *values: object, **options: bool):
    cursor = connection.execute(statement, values or None, **options)
    return sorted(cursor.fetchall()) if cursor.description else cursor.statusmessage


def drop(connection: psycopg.Connection, role: str) -> None:
    for granted in ("TABLE r", "TABLE s", f"SCHEMA {SCHEMA}"):
        connection.execute(f"REVOKE ALL ON {granted} FROM {role}")
    connection.execute(f"REVOKE ALL (v) ON s FROM {role}")
    connection.execute(f"DROP ROLE {role}")


def decision(connection: psycopg.Connection) -> str:
    (row,) = connection.execute("SHOW gateway.last_decision").fetchall()
    return row[0]


@pytest.fixture
def served(resident_pair: Pair) -> Iterator[Pair]:
    """Both servers with resident tables ``r`` and ``s``."""
    servers = (resident_pair.plain, resident_pair.gateway)
    for server in servers:
        server.execute(*SETUP, database=resident_pair.database)
    yield resident_pair
    for server in servers:
        server.execute(f"DROP SCHEMA {SCHEMA} CASCADE", database=resident_pair.database)


@pytest.fixture
def client(served: Pair) -> Iterator[psycopg.Connection]:
    """A connection to the gateway on which Spark computes."""
    with connected(served) as connection:
        yield connection


@pytest.fixture
def other(served: Pair) -> Iterator[psycopg.Connection]:
    """One on which PostgreSQL does."""
    with connected(served, executor="auto") as connection:
        yield connection


def test_who_runs_it(client: psycopg.Connection) -> None:
    alone = "postgres: no journaled table is read"
    for statement, expected in (
        (CHANGE, BOTH),
        ("UPDATE r SET v = s.v FROM s WHERE s.id = r.id RETURNING r.id", BOTH),
        ("DELETE FROM r WHERE id = 5", BOTH),
        (
            "DELETE FROM r WHERE id IN (SELECT id - 1 FROM s_journal WHERE id = 5)",
            f"{BOTH[:22]}a journal",
        ),
        ("INSERT INTO r SELECT id + 10, v FROM s", BOTH),
        ("INSERT INTO r SELECT id + 20, v FROM s RETURNING id", BOTH),
        ("INSERT INTO r VALUES (6, 0)", alone),
        ("INSERT INTO r SELECT g FROM generate_series(7, 9) g", alone),
    ):
        ran(client, statement)
        assert (decision(client), statement) == (expected, statement)


def test_capture_writes_the_journal(client: psycopg.Connection) -> None:
    ran(client, f"{CHANGE} WHERE id < 3")
    ran(client, "DELETE FROM r WHERE v = 21")
    assert ran(client, f"SELECT gateway.check('{SCHEMA}.r')") == [(0,)]
    journal = "SELECT id, v, subsequent_version_number IS NULL FROM r_journal WHERE id < 3"
    assert ran(client, journal) == [
        (1, 10, True),
        (1, 11, True),
        (2, 20, True),
        (2, 21, False),
        (2, 21, True),
    ]


def test_it_is_refused_by_name(client: psycopg.Connection) -> None:
    for statement, construct in (
        ("UPDATE s SET v = 1", 'changing "s", which has no primary key'),
        ("MERGE INTO r USING s ON s.id = r.id WHEN MATCHED THEN DELETE", "MERGE"),
        ("UPDATE r SET v = random() * 10", "random"),
        ("DELETE FROM r WHERE to_tsvector(w) @@ 'a'::tsquery", "to_tsvector"),
        ("INSERT INTO r SELECT id + 10, random() * v FROM s", "random"),
        (
            "INSERT INTO r VALUES (1) ON CONFLICT (id) DO UPDATE SET v = 0",
            "INSERT ... ON CONFLICT DO UPDATE",
        ),
        ("WITH q AS (DELETE FROM r RETURNING v) SELECT sum(v) FROM q", "WITH that modifies data"),
    ):
        with pytest.raises(errors.FeatureNotSupported) as raised:
            ran(client, statement)
        assert construct in str(raised.value), statement
    assert ran(client, "SELECT count(*), sum(v) FROM r") == [(5, 150)]


def test_what_others_have_changed_is_not_written_over(
    client: psycopg.Connection, other: psycopg.Connection
) -> None:
    with ThreadPoolExecutor(1) as threads:
        with other.transaction():
            ran(other, "UPDATE r SET v = 1000 WHERE id = 1")
            ran(other, "DELETE FROM r WHERE id = 2")
            ran(other, "INSERT INTO r VALUES (6, 60)")
            waiting = threads.submit(ran, client, f"{CHANGE} RETURNING id, v")
            time.sleep(1)
            assert not waiting.done()
        assert waiting.result() == [(1, 1001), (3, 31), (4, 41), (5, 51), (6, 61)]


def test_who_has_locked_rows_can_change_them(
    client: psycopg.Connection, other: psycopg.Connection
) -> None:
    with ThreadPoolExecutor(1) as threads:
        with other.transaction():
            ran(other, "SELECT v FROM r WHERE id = 1 FOR UPDATE")
            waiting = threads.submit(ran, client, f"{CHANGE} WHERE id = 1 RETURNING v")
            time.sleep(1)
            assert ran(other, "UPDATE r SET v = 1000 WHERE id = 1") == "UPDATE 1"
        assert waiting.result() == [(1001,)]


def test_writers_wait_until_the_transaction_ends(
    client: psycopg.Connection, other: psycopg.Connection
) -> None:
    with client.transaction():
        ran(client, f"{CHANGE} WHERE id = 1")
        other.execute("SET lock_timeout = '200ms'")
        with pytest.raises(errors.LockNotAvailable):
            ran(other, "UPDATE r SET v = 0 WHERE id = 2")
        assert ran(other, "SELECT v FROM r WHERE id = 1") == [(10,)]
    assert ran(other, "UPDATE r SET v = v + 1 WHERE id = 1 RETURNING v") == [(12,)]


def test_counters_lose_nothing(served: Pair) -> None:
    def count(executor: str) -> None:
        with connected(served, executor=executor) as connection:
            for _ in range(10):
                ran(connection, "UPDATE r SET v = v + 1 WHERE id = 1")

    with ThreadPoolExecutor(4) as threads:
        for running in [threads.submit(count, how) for how in ("spark", "auto") * 2]:
            running.result()
    with connected(served) as connection:
        assert ran(connection, "SELECT v FROM r WHERE id = 1") == [(50,)]
        assert ran(connection, f"SELECT gateway.check('{SCHEMA}.r')") == [(0,)]


def test_transactions_that_wait_do_not_wait_for_each_other(served: Pair) -> None:
    def count() -> None:
        with connected(served) as connection:
            for _ in range(4):
                with connection.transaction():
                    ran(connection, "UPDATE r SET v = v + 1 WHERE id = 1")

    with ThreadPoolExecutor(4) as threads:
        for running in [threads.submit(count) for _ in range(4)]:
            running.result()
    with connected(served) as connection:
        assert ran(connection, "SELECT v FROM r WHERE id = 1") == [(26,)]


def test_one_snapshot_needs_no_lock(client: psycopg.Connection, other: psycopg.Connection) -> None:
    client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert ran(client, "SELECT sum(v) FROM r") == [(150,)]
    ran(other, "UPDATE r SET v = 4711 WHERE id = 2")
    assert ran(client, f"{CHANGE} WHERE id = 1 RETURNING v") == [(11,)]
    with pytest.raises(errors.SerializationFailure):
        ran(client, f"{CHANGE} WHERE id = 2")
    client.execute("ROLLBACK")


def test_privileges(client: psycopg.Connection, served: Pair) -> None:
    role = "executor_spark_writer"
    for statement in (
        f"DROP ROLE IF EXISTS {role}",
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO {role}",
        f"GRANT SELECT, UPDATE ON r TO {role}",
        f"GRANT UPDATE (v), SELECT ON s TO {role}",
    ):
        client.execute(statement)
    with connected(served, role) as writer:
        assert ran(writer, f"{CHANGE} WHERE id = 1") == "UPDATE 1"
        for statement, table in (("DELETE FROM r WHERE id = 1", "r"), ("DELETE FROM s", "s")):
            with pytest.raises(errors.InsufficientPrivilege, match=f"for table {table}$"):
                ran(writer, statement)
        ran(client, "ALTER TABLE s ADD PRIMARY KEY (id)")
        with pytest.raises(errors.FeatureNotSupported, match="privileges for columns only"):
            ran(writer, "UPDATE s SET v = v + 1")
        client.execute(f"REVOKE SELECT ON r FROM {role}")
        with pytest.raises(errors.FeatureNotSupported, match="key one may not read"):
            ran(writer, "UPDATE r SET v = 0")
    drop(client, role)


def test_row_security_is_refused(client: psycopg.Connection, served: Pair) -> None:
    role = "executor_spark_secured"
    for statement in (
        f"DROP ROLE IF EXISTS {role}",
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO {role}",
        f"GRANT ALL ON r TO {role}",
        "ALTER TABLE r ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY few ON r USING (id < 3)",
    ):
        client.execute(statement)
    with connected(served, role) as secured:
        for statement in (CHANGE, "DELETE FROM r WHERE id = 1"):
            with pytest.raises(errors.FeatureNotSupported, match="row-level security"):
                ran(secured, statement)
    drop(client, role)


def test_it_is_explained(client: psycopg.Connection) -> None:
    lines = [line for (line,) in client.execute(f"EXPLAIN {CHANGE} WHERE id < 3").fetchall()]
    assert lines[0] == decision(client) == BOTH
    assert [line.strip() for line in lines if line.endswith(":")] == [
        "Spark SQL of extract_1:",
        "Spark Plan of extract_1:",
        "PostgreSQL Plan:",
    ]
    assert any(line.strip() == "Update on r" for line in lines)
    assert not any("pgwire" in line for line in lines)
    assert ran(client, "SELECT sum(v) FROM r") == [(150,)]
    told = f"EXPLAIN (ANALYZE, TIMING OFF) {CHANGE} WHERE id < 3"
    (line, *_) = client.execute(told).fetchone() or ()
    assert line == f"{BOTH} (actual rows=2.00 loops=1)"
    assert ran(client, "SELECT sum(v) FROM r") == [(152,)]


PARTS = ObjectKind.PORTAL

DIALOGUES = {
    "prepared, with parameters": [
        Parse("s", f"{CHANGE} + $1 WHERE r.w <> $2 AND r.id = $3 RETURNING r.*, $3 + 1"),
        Describe(ObjectKind.STATEMENT, "s"),
        *(m for n in "345" for m in (bind("2", "w1", n, statement="s"), Execute(), Sync())),
    ],
    "results in binary": [
        Parse("", "UPDATE r SET v = s.v FROM s WHERE s.id = r.id AND r.id = 2 RETURNING *"),
        *(bind(results=(1,)), Describe(PARTS), Execute(), Sync()),
    ],
    "some rows at a time": [
        Query("BEGIN"),
        Parse("", "DELETE FROM r WHERE id = 3 RETURNING w"),
        *(bind(), Describe(PARTS), Execute("", 1), Execute("", 1), Sync()),
        Query("COMMIT"),
    ],
    "an error in a pipeline": [
        *(Parse("", CHANGE), bind(), Execute()),
        *(Parse("", "UPDATE r SET id = 1 WHERE id = 2"), bind(), Execute(), Sync()),
        Query("SELECT * FROM r ORDER BY id"),
    ],
}


@pytest.mark.parametrize("dialogue", DIALOGUES)
def test_dialogue_is_the_one_of_postgresql(dialogue: str, served: Pair) -> None:
    setup = Query(f"SET search_path = {SCHEMA}; SET gateway.executor = spark")
    traces = []
    for server in (served.plain, served.gateway):
        with wire(server, served.database) as connection:
            traces.append(play(connection, [setup, *DIALOGUES[dialogue]]))
    assert traces[1] == traces[0]


def test_a_statement_that_is_prepared_follows_the_setting(client: psycopg.Connection) -> None:
    statement = f"{CHANGE} WHERE id < %s RETURNING id"
    assert ran(client, statement, 3, prepare=True) == [(1,), (2,)]
    assert decision(client) == BOTH
    client.execute("SET gateway.executor = auto")
    assert ran(client, statement, 3, prepare=True) == [(1,), (2,)]
    assert decision(client) == "postgres: resident tables only"
    client.execute("SET gateway.executor = spark")
    assert ran(client, statement, 2, prepare=True) == [(1,)]
    assert decision(client) == BOTH
