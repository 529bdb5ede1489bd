"""Resident tables changed by what tiered ones hold: who does it, and who waits for whom."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors

from pgwire_gateway.messages import Describe, Execute, ObjectKind, Parse, Query, Sync
from tests.support.dialogues import bind, play, wire
from tests.support.fix_server import Pair
from tests.support.servers import Address

pytestmark = pytest.mark.server

SCHEMA = "two_tiers_served"

PATIENCE_S = 60.0
"""How long upkeep may take to change the residency of a table."""

SETUP = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    "CREATE TABLE r (id integer PRIMARY KEY, v integer)",
    "INSERT INTO r SELECT g, g FROM generate_series(1, 5) g",
    "CREATE TABLE t (id integer PRIMARY KEY, v integer, w text)",
    "INSERT INTO t SELECT g, g * 10, 'w' || g FROM generate_series(1, 8) g",
)

CHANGE = "UPDATE r SET v = t.v FROM t WHERE t.id = r.id"

RELAY = f"SET search_path = {SCHEMA}"


def connected(pair: Pair, user: str = "postgres") -> psycopg.Connection:
    options = f"-c search_path={SCHEMA} -c lock_timeout=60s"
    return psycopg.connect(
        pair.gateway.conninfo(pair.database), user=user, autocommit=True, options=options
    )


def ask(connection: psycopg.Connection, wanted: str, residency: str) -> None:
    """Ask for a residency of ``t``, and wait until upkeep has seen to it."""
    connection.execute(f"ALTER TABLE t SET (gateway.residency = {wanted})")
    query = "SELECT residency FROM gateway.tables WHERE schema_name = %s AND table_name = 't'"
    deadline = time.monotonic() + PATIENCE_S
    while connection.execute(query, [SCHEMA]).fetchone() != (residency,):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def ran(connection: psycopg.Connection, statement: str, *values: object, **options: bool):
    cursor = connection.execute(statement, values or None, **options)
    return sorted(cursor.fetchall()) if cursor.description else cursor.statusmessage


def set_up(server: Address, database: str) -> None:
    server.execute(*SETUP, database=database)


@pytest.fixture
def served(two_tiers_pair: Pair) -> Iterator[Pair]:
    """Both servers with a table ``r`` and a table ``t``, which is tiered on the gateway."""
    for server in (two_tiers_pair.plain, two_tiers_pair.gateway):
        set_up(server, two_tiers_pair.database)
    with connected(two_tiers_pair) as connection:
        ask(connection, "never", "tiered")
    yield two_tiers_pair
    for server in (two_tiers_pair.plain, two_tiers_pair.gateway):
        server.execute(f"DROP SCHEMA {SCHEMA} CASCADE", database=two_tiers_pair.database)


@pytest.fixture
def client(served: Pair) -> Iterator[psycopg.Connection]:
    """A connection to the gateway."""
    with connected(served) as connection:
        yield connection


@pytest.fixture
def other(served: Pair) -> Iterator[psycopg.Connection]:
    """A second one."""
    with connected(served) as connection:
        yield connection


def decision(connection: psycopg.Connection) -> str:
    (row,) = connection.execute("SHOW gateway.last_decision").fetchall()
    return row[0]


def test_who_runs_it(client: psycopg.Connection) -> None:
    both, alone = "spark, then postgres: tiered tables", "postgres: resident tables only"
    journal = "spark, then postgres: a journal"
    for statement, expected in (
        (CHANGE, both),
        ("INSERT INTO r SELECT id + 10, v FROM t", both),
        ("DELETE FROM r WHERE id IN (SELECT id + 10 FROM t)", both),
        ("DELETE FROM r WHERE id IN (SELECT id + 10 FROM t_journal)", journal),
        ("UPDATE r SET v = o.v FROM r o WHERE o.id = r.id", alone),
        ("UPDATE r SET v = 0 WHERE id = 1", alone),
    ):
        ran(client, statement)
        assert (decision(client), statement) == (expected, statement)


def test_the_journal_of_the_table_has_what_was_done(client: psycopg.Connection) -> None:
    ran(client, CHANGE)
    ran(client, "DELETE FROM r USING t WHERE t.id = r.id AND t.w = 'w2'")
    ran(client, "INSERT INTO r SELECT id, v + 1 FROM t ON CONFLICT (id) DO UPDATE SET v = -1")
    assert ran(client, f"SELECT gateway.check('{SCHEMA}.r')") == [(0,)]
    journal = ran(client, "SELECT id, v, subsequent_version_number IS NULL FROM r_journal")
    assert {row for row in journal if row[0] in {2, 3, 8}} == {
        (2, 2, True),
        (2, 20, True),
        (2, 20, False),
        (2, 21, True),
        (3, 3, True),
        (3, 30, True),
        (3, -1, True),
        (8, 81, True),
    }


def test_how_rows_come_into_a_table_shows_nowhere(client: psycopg.Connection) -> None:
    with pytest.raises(errors.UniqueViolation) as raised:
        ran(client, "INSERT INTO r SELECT id, v FROM t")
    assert raised.value.diag.context is None
    body = "BEGIN RAISE NOTICE 'row'; RAISE unique_violation; END"
    ran(client, f"CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    ran(client, "CREATE TRIGGER tell BEFORE INSERT ON r FOR EACH ROW EXECUTE FUNCTION tell()")
    noticed: list[str | None] = []
    client.add_notice_handler(lambda notice: noticed.append(notice.context))
    with pytest.raises(errors.UniqueViolation) as raised:
        ran(client, "INSERT INTO r SELECT id, v FROM t")
    function = "PL/pgSQL function tell() line 1 at RAISE"
    assert [*noticed, raised.value.diag.context] == [function, function]
    ran(client, "DROP FUNCTION tell CASCADE")
    # That of a client does show.
    with (
        pytest.raises(errors.UniqueViolation, match="COPY r, line 1"),
        client.cursor() as cursor,
        cursor.copy("COPY r FROM STDIN") as copy,
    ):
        copy.write(b"1\t2\n")


PARTS = ObjectKind.PORTAL

DIALOGUES = {
    "prepared, with parameters": [
        Parse("s", f"{CHANGE} AND t.w <> $1 AND r.id < $2 RETURNING r.*, t.w, $2 + 1"),
        Describe(ObjectKind.STATEMENT, "s"),
        *(m for n in "345" for m in (bind("w1", n, statement="s"), Execute(), Sync())),
    ],
    "results in binary": [
        Parse("", f"{CHANGE} RETURNING r.*, t.v::numeric / 4, t.w, now() > '2000-01-01'"),
        *(bind(results=(1,)), Describe(PARTS), Execute(), Sync()),
    ],
    "a parameter in a part": [
        Parse(
            "",
            "DELETE FROM r USING (SELECT id, $2 AS x FROM t WHERE v < $1) q"
            " WHERE q.id = r.id AND r.v <> $3 RETURNING r.id, x",
        ),
        *(bind("35", "text", "1"), Describe(PARTS), Execute(), Sync()),
    ],
    "some rows at a time": [
        Query("BEGIN"),
        Parse("", f"{CHANGE} AND r.id = 3 RETURNING t.w"),
        *(bind(), Describe(PARTS), Execute("", 1), Execute("", 1), Sync()),
        Query("SELECT count(*) FROM pg_class WHERE relname LIKE 'pgwire\\_%'"),
        Query("COMMIT"),
    ],
    "several in a pipeline": [
        *(Parse("", CHANGE), bind(), Execute()),
        *(Parse("", "DELETE FROM r WHERE id > (SELECT count(*) FROM t) - 4"), bind(), Execute()),
        Sync(),
        Query("SELECT * FROM r ORDER BY id"),
    ],
    "an error in a pipeline": [
        *(Parse("", CHANGE), bind(), Execute()),
        *(Parse("", "INSERT INTO r SELECT id, v FROM t RETURNING id"), bind(), Execute(), Sync()),
        Query("SELECT * FROM r ORDER BY id"),
    ],
}


@pytest.mark.parametrize("dialogue", DIALOGUES)
def test_dialogue_is_the_one_of_postgresql(dialogue: str, served: Pair) -> None:
    traces = []
    for server in (served.plain, served.gateway):
        with wire(server, served.database) as connection:
            traces.append(play(connection, [Query(RELAY), *DIALOGUES[dialogue]]))
    assert traces[1] == traces[0]


def test_writers_of_what_is_read_wait(
    client: psycopg.Connection, other: psycopg.Connection
) -> None:
    with client.transaction():
        ran(client, CHANGE)
        other.execute("SET lock_timeout = '200ms'")
        with pytest.raises(errors.LockNotAvailable):
            ran(other, "UPDATE t SET v = 0")
        assert ran(other, "SELECT count(*) FROM t") == [(8,)]
    assert ran(other, "UPDATE t SET v = 0 WHERE id = 1") == "UPDATE 1"


def test_it_waits_for_writers_of_what_is_read(
    client: psycopg.Connection, other: psycopg.Connection
) -> None:
    with ThreadPoolExecutor(1) as threads:
        with other.transaction():
            ran(other, "UPDATE t SET v = 4711 WHERE id = 2")
            waiting = threads.submit(ran, client, f"{CHANGE} AND r.id = 2 RETURNING r.*")
            time.sleep(1)
            assert not waiting.done()
        assert waiting.result() == [(2, 4711)]


def test_the_source_of_an_insert_waits_for_nobody(
    client: psycopg.Connection, other: psycopg.Connection
) -> None:
    client.execute("SET lock_timeout = '200ms'")
    with other.transaction():
        ran(other, "UPDATE t SET v = 4711")
        inserted = ran(client, "INSERT INTO r SELECT id + 10, v FROM t WHERE id = 1 RETURNING *")
    assert inserted == [(11, 10)]


def test_one_snapshot_needs_no_lock(client: psycopg.Connection, other: psycopg.Connection) -> None:
    client.execute("SET lock_timeout = '200ms'")
    client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert ran(client, "SELECT sum(v) FROM r") == [(15,)]
    ran(other, "UPDATE t SET v = 4711 WHERE id = 1")
    with other.transaction():
        ran(other, "UPDATE t SET v = 4712 WHERE id = 2")
        assert ran(client, f"{CHANGE} AND r.id < 3 RETURNING r.*") == [(1, 10), (2, 20)]
    client.execute("COMMIT")


def test_journals_of_resident_tables_are_read_by_one_snapshot(client: psycopg.Connection) -> None:
    statement = "DELETE FROM r WHERE v IN (SELECT v FROM r_journal WHERE id = 2) RETURNING id"
    with pytest.raises(errors.FeatureNotSupported, match="READ COMMITTED") as raised:
        ran(client, statement)
    assert raised.value.diag.message_hint == "BEGIN ISOLATION LEVEL REPEATABLE READ first."
    client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert ran(client, statement) == [(2,)]
    client.execute("ROLLBACK")


def test_privileges(client: psycopg.Connection, served: Pair) -> None:
    for statement in (
        "DROP ROLE IF EXISTS two_tiers_reader",
        "CREATE ROLE two_tiers_reader LOGIN",
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO two_tiers_reader",
        "GRANT SELECT, UPDATE ON r TO two_tiers_reader",
        "GRANT SELECT (id, v) ON t TO two_tiers_reader",
    ):
        client.execute(statement)
    with connected(served, "two_tiers_reader") as reader:
        assert ran(reader, CHANGE) == "UPDATE 5"
        for statement, table in (
            (f"{CHANGE} AND t.w IS NOT NULL", "t"),
            ("UPDATE r SET v = 1 WHERE id IN (SELECT id FROM t WHERE w = 'w1')", "t"),
            ("DELETE FROM r USING t WHERE t.id = r.id", "r"),
        ):
            with pytest.raises(errors.InsufficientPrivilege, match=f"for table {table}$"):
                ran(reader, statement)
    client.execute("REVOKE ALL ON r FROM two_tiers_reader")
    client.execute("REVOKE ALL (id, v) ON t FROM two_tiers_reader")
    client.execute(f"REVOKE ALL ON SCHEMA {SCHEMA} FROM two_tiers_reader")
    client.execute("DROP ROLE two_tiers_reader")


def test_a_statement_that_is_prepared_outlives_a_change_of_residency(
    client: psycopg.Connection,
) -> None:
    statement = f"{CHANGE} AND r.id < %s RETURNING r.id"
    assert ran(client, statement, 3, prepare=True) == [(1,), (2,)]
    ask(client, "always", "resident")
    assert ran(client, statement, 4, prepare=True) == [(1,), (2,), (3,)]
    assert decision(client) == "postgres: resident tables only"
