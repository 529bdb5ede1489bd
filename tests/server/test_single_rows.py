"""Single rows of tiered tables, changed by PostgreSQL: who does it, what is sent, who waits."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, datetime, timedelta, timezone
from datetime import time as time_of_day
from decimal import Decimal

import psycopg
import pytest
from psycopg import errors
from psycopg.types.json import Jsonb

from tests.support.fix_server import Pair
from tests.support.processes import descendants, program
from tests.support.servers import GatewayProcess

pytestmark = pytest.mark.server

SCHEMA = "single_rows_served"

ROWS = 40

TIMED = (
    "INSERT INTO timed SELECT t + interval '1 us', t AT TIME ZONE 'UTC', n % 2 = 0, n"
    " FROM generate_series(1, 9) n, make_timestamptz(2024, 1, 1, n, 0, 0, 'UTC') t"
)

KINDS = (
    "CREATE TABLE kinds (n numeric(12, 2), c char(4), b bytea, o oid, at time, v integer,"
    " PRIMARY KEY (n, c, b, o, at))"
)

KINDS_ROWS = (
    "INSERT INTO kinds SELECT g * 0.25, 'c' || g, decode(lpad(to_hex(g), 4, '0'), 'hex'), g,"
    " time '00:00' + g * interval '1 hour 1 us', g FROM generate_series(1, 9) g"
)

SETUP = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    "CREATE TABLE t (id bigint PRIMARY KEY, v integer, w text)",
    # Rows of a transaction that has written the table as a whole are not hot.
    "BEGIN",
    "TRUNCATE t",
    f"INSERT INTO t SELECT g, g, 'w' || g FROM generate_series(1, {ROWS}) g",
    "COMMIT",
    "VACUUM t",
    "CREATE TABLE pair (a varchar(5), b smallint, doc jsonb, PRIMARY KEY (a, b))",
    "INSERT INTO pair SELECT 'k' || g, g, NULL FROM generate_series(1, 9) g",
    "CREATE TABLE dated (n integer, at date, v integer, PRIMARY KEY (n, at))",
    "INSERT INTO dated SELECT 1, date '2024-01-01' + g, g FROM generate_series(1, 9) g",
    "CREATE TABLE timed (at timestamptz, lt timestamp, b bool, v int, PRIMARY KEY (at, lt, b))",
    TIMED,
    KINDS,
    KINDS_ROWS,
    "CREATE TABLE amounts (n numeric(10, 0) PRIMARY KEY, v integer)",
    "INSERT INTO amounts SELECT g, g FROM generate_series(1, 40) g",
)

THAWED = "postgres, on thawed rows: single rows by key"

UPSERT = "INSERT INTO t VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING *"

MERGE = (
    "MERGE INTO t USING (VALUES (%s::bigint, %s::int)) s (id, v) ON t.id = s.id"
    " WHEN MATCHED AND s.v = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v"
    " WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v) RETURNING merge_action(), t.id"
)


def connected(pair: Pair, executor: str = "auto") -> psycopg.Connection:
    options = f"-c search_path={SCHEMA} -c lock_timeout=60s -c gateway.executor={executor}"
    return psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True, options=options)


@pytest.fixture
def served(shared_pair: Pair) -> Iterator[Pair]:
    """A gateway with tiered tables ``t`` and ``pair``."""
    conninfo = shared_pair.gateway.conninfo(shared_pair.database)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for statement in SETUP:
            connection.execute(statement)
        yield shared_pair
        assert connection.execute("SELECT gateway.check('t')").fetchall() == [(0,)]
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def decision(connection: psycopg.Connection) -> str:
    (row,) = connection.execute("SHOW gateway.last_decision").fetchall()
    return row[0]


@pytest.mark.parametrize(
    ("statement", "runs"),
    [
        ("UPDATE t SET v = 0 WHERE id = 1", THAWED),
        ("DELETE FROM t WHERE id IN (1, 2, 3)", THAWED),
        ("UPDATE t SET v = v + random() WHERE id = 1", THAWED),
        ("UPDATE t SET w = 'x' WHERE id = 1 OR id = 2", THAWED),
        ("UPDATE t SET w = 'x' WHERE id = 1 OR v = 2", "spark: tiered tables"),
        ("UPDATE t SET v = 0 WHERE v = 1", "spark: tiered tables"),
        ("UPDATE t SET id = id + 100 WHERE id = 1", THAWED),
    ],
)
def test_who_runs_it(served: Pair, statement: str, runs: str) -> None:
    with connected(served) as connection:
        told = connection.execute(f"EXPLAIN {statement}").fetchall()
        assert told[0][0].strip() == runs
        connection.execute(statement)
        assert decision(connection) == runs


def test_keys_are_changed_by_a_merge_of_either_executor(served: Pair) -> None:
    moving = (
        "MERGE INTO t USING (VALUES ({})) s (id) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET id = s.id + 1000 RETURNING t.id"
    )
    with connected(served, executor="spark") as connection:
        assert connection.execute(moving.format(18)).fetchall() == [(1018,)]
        assert decision(connection).startswith("spark")
        connection.execute("SET gateway.executor = auto")
        assert connection.execute(moving.format(19)).fetchall() == [(1019,)]
        assert decision(connection) == THAWED


PREPARED = "UPDATE t SET v = v + 1 WHERE id = %s RETURNING v"


def test_a_prepared_statement_finds_cold_rows_of_the_table_that_its_name_means_now(
    served: Pair,
) -> None:
    with connected(served) as client, connected(served) as other:
        for key in (1, 2, 3):
            assert client.execute(PREPARED, [key], prepare=True).fetchall() == [(key + 1,)]
        assert decision(client) == THAWED
        other.execute("ALTER TABLE t ADD CHECK (v < 100)")
        other.execute("UPDATE t SET v = 99 WHERE id = 4")
        with pytest.raises(errors.CheckViolation):
            client.execute(PREPARED, [4], prepare=True)
        assert client.execute(PREPARED, [5], prepare=True).fetchall() == [(6,)]
        other.execute("CREATE SCHEMA beside_single_rows")
        other.execute("CREATE TABLE beside_single_rows.t AS SELECT 6::bigint AS id, 70 AS v")
        client.execute(f"SET search_path = beside_single_rows, {SCHEMA}")
        assert client.execute(PREPARED, [6], prepare=True).fetchall() == [(71,)]
        other.execute("DROP SCHEMA beside_single_rows CASCADE")
        assert client.execute(PREPARED, [6], prepare=True).fetchall() == [(7,)]


def test_who_may_not_change_a_cold_row_is_told_so(served: Pair) -> None:
    with connected(served) as client, connected(served) as other:
        other.execute("DROP ROLE IF EXISTS of_single_rows")
        other.execute("CREATE ROLE of_single_rows")
        other.execute("GRANT of_single_rows TO CURRENT_USER")
        other.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO of_single_rows")
        other.execute("GRANT SELECT, UPDATE (v) ON t TO of_single_rows")
        client.execute("SET ROLE of_single_rows")
        for key in (1, 2):
            client.execute(PREPARED, [key], prepare=True)
        assert decision(client) == THAWED
        words = "UPDATE t SET w = 'x' WHERE id = %s"
        with pytest.raises(errors.InsufficientPrivilege, match=r"table t$"):
            client.execute(words, [3], prepare=True)
        other.execute("REVOKE UPDATE (v) ON t FROM of_single_rows")
        with pytest.raises(errors.InsufficientPrivilege, match=r"table t$"):
            client.execute(PREPARED, [4], prepare=True)
        other.execute("DROP OWNED BY of_single_rows")
        other.execute("DROP ROLE of_single_rows")
        assert other.execute("SELECT v, w FROM t WHERE id IN (3, 4) ORDER BY id").fetchall() == [
            (3, "w3"),
            (4, "w4"),
        ]


def test_spark_runs_it_when_asked_to(served: Pair) -> None:
    with connected(served, "spark") as connection:
        assert connection.execute("UPDATE t SET v = 0 WHERE id = 1").statusmessage == "UPDATE 1"
        assert decision(connection) == "spark: tiered tables"
        merged = connection.execute(MERGE % (1, 1)).fetchall()
        assert len(merged) == 1
        assert decision(connection) == "spark: tiered tables"
        with pytest.raises(errors.FeatureNotSupported, match="by Spark"):
            connection.execute(UPSERT % (1, 1))


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("prepare", [False, True])
def test_parameters(served: Pair, *, binary: bool, prepare: bool) -> None:
    with connected(served) as connection, connection.cursor(binary=binary) as cursor:

        def ran(statement: str, *values: object) -> list[tuple]:
            return cursor.execute(statement, values, prepare=prepare).fetchall()

        assert ran(UPSERT, 1, 100) == [(1, 100, "w1")]
        assert ran(UPSERT, 1, 101) == [(1, 101, "w1")]
        assert ran(UPSERT, 1000, 5) == [(1000, 5, None)]
        assert [ran(MERGE, 1000, 0), ran(MERGE, 1000, 7), ran(MERGE, 1, 8)] == [
            [("DELETE", 1000)],
            [("INSERT", 1000)],
            [("UPDATE", 1)],
        ]
        changed = "UPDATE t SET v = -v WHERE id = ANY (%s) RETURNING id"
        assert sorted(ran(changed, [2, 3, None, 3])) == [(2,), (3,)]
        of_pair = "UPDATE pair SET doc = %s WHERE a = %s AND b = %s RETURNING doc"
        assert ran(of_pair, Jsonb({"x": [1]}), "k3", 3) == [({"x": [1]},)]
        assert ran(of_pair, Jsonb(1), "k3", 4) == []
        found = cursor.execute("SELECT id, v FROM t WHERE id < 4 OR id > 40 ORDER BY id")
        assert found.fetchall() == [(1, 8), (2, -2), (3, -3), (1000, 7)]


def test_what_spark_cannot_compute_may_be_of_more_rows_than_it_would_change(served: Pair) -> None:
    with connected(served) as connection:
        connection.execute("CREATE TABLE many (id integer PRIMARY KEY, doc jsonb)")
        connection.execute(
            "INSERT INTO many SELECT g, jsonb_build_object('a', g) FROM generate_series(1, 2500) g"
        )
        changed = """UPDATE many SET doc = '{}' WHERE doc @? '$.a ? (@ == 7)'"""
        with pytest.raises(errors.FeatureNotSupported, match="constants of jsonpath") as refused:
            connection.execute(changed)
        assert "more than 1000 rows" in str(refused.value.diag.message_detail)
        connection.execute("ALTER TABLE many SET (gateway.thaw_rows = 5000)")
        assert connection.execute(changed).rowcount == 1
        assert decision(connection) == THAWED
        assert connection.execute("SELECT gateway.check('many')").fetchall() == [(0,)]
        connection.execute("DROP TABLE many")


@pytest.mark.parametrize("prepare", [False, True])
def test_parameters_of_types_that_only_postgresql_reads(served: Pair, *, prepare: bool) -> None:
    with connected(served) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        connection.execute("CREATE TABLE felt (id integer PRIMARY KEY, m mood)")
        connection.execute("INSERT INTO felt SELECT g, 'ok' FROM generate_series(1, 20) g")

        def ran(statement: str, *values: object) -> list[tuple]:
            found = connection.execute(statement, values, prepare=prepare).fetchall()
            assert decision(connection) == THAWED
            return found

        try:
            changed = "UPDATE felt SET m = %s WHERE id = %s RETURNING m::text"
            assert ran(changed, "sad", 3) == [("sad",)]
            assert ran(changed, "happy", 4) == [("happy",)]
            upsert = (
                "INSERT INTO felt VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET m = excluded.m"
                " RETURNING id, m::text"
            )
            assert [ran(upsert, 5, "sad"), ran(upsert, 21, "sad")] == [[(5, "sad")], [(21, "sad")]]
            locked = "SELECT id FROM felt WHERE m = %s ORDER BY id FOR UPDATE"
            assert ran(locked, "sad") == [(3,), (5,), (21,)]
            assert ran(locked, "happy") == [(4,)]
            deleted = "DELETE FROM felt WHERE m = ANY (%s::mood[]) RETURNING id"
            assert sorted(ran(deleted, ["sad", "happy"])) == [(3,), (4,), (5,), (21,)]
            with pytest.raises(errors.InvalidTextRepresentation):
                ran(changed, "glad", 3)
            of_mood = "SELECT id FROM felt WHERE m = %s ORDER BY id"
            assert ran(of_mood, "ok") == [(g,) for g in range(1, 21) if g not in (3, 4, 5)]
            connection.execute("SET gateway.executor = spark")
            with pytest.raises(errors.FeatureNotSupported, match="parameters of type"):
                ran(of_mood, "ok")
        finally:
            connection.execute("DROP TABLE felt")
            connection.execute("DROP TYPE mood")


@pytest.mark.parametrize("style", ["ISO, MDY", "SQL, DMY", "German, DMY", "Postgres, MDY"])
@pytest.mark.parametrize("binary", [False, True])
def test_parameters_that_are_dates_and_times(served: Pair, *, style: str, binary: bool) -> None:
    with connected(served) as connection:
        connection.execute(f"SET DateStyle = '{style}'")
        connection.execute("SET TimeZone = 'Asia/Kolkata'")

        def ran(statement: str, *values: object) -> list[tuple]:
            found = connection.execute(statement, values, binary=binary).fetchall()
            assert decision(connection) == THAWED
            return found

        day, others = date(2024, 1, 4), [date(2024, 1, 4), date(2024, 1, 5), date(1999, 1, 1)]
        update = "UPDATE dated SET v = v + 100 WHERE n = %s AND at = %b RETURNING v"
        assert ran(update, 1, day) == [(103,)]
        assert ran(update.replace("%b", "%s"), 1, day) == [(203,)]
        assert ran("DELETE FROM dated WHERE n = 1 AND at = ANY(%b) RETURNING v", others) == [
            (203,),
            (4,),
        ]
        moment = datetime(2024, 1, 1, 8, 30, 0, 1, timezone(timedelta(hours=5, minutes=30)))
        local = datetime(2024, 1, 1, 3)  # noqa: DTZ001 - of a timestamp
        update = "UPDATE timed SET v = -v WHERE at = %b AND lt = %b AND b = %b RETURNING v"
        assert ran(update, moment, local, False) == [(-3,)]
        assert ran(update.replace("%b", "%s"), moment, local, False) == [(3,)]
        assert ran(update, moment, local, True) == []
        with pytest.raises(errors.UniqueViolation):
            connection.execute("INSERT INTO timed VALUES (%b, %b, %b, 0)", (moment, local, False))
        with pytest.raises(errors.FeatureNotSupported, match="infinite dates"):
            connection.execute("INSERT INTO dated VALUES (1, 'infinity', 0)")


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("prepare", [False, True])
def test_parameters_that_are_numbers_and_characters(
    served: Pair, *, binary: bool, prepare: bool
) -> None:
    def ran(statement: str, *values: object) -> list[tuple]:
        cursor.execute(statement, values, prepare=prepare)
        assert decision(connection) == THAWED
        return cursor.fetchall()

    given = "%b" if binary else "%t"
    with connected(served) as connection, connection.cursor(binary=binary) as cursor:
        at = time_of_day(3, 0, 0, 3)
        update = "UPDATE kinds SET v = v + 10 WHERE n = %s AND c = %s::char(4) AND b = %s"
        update = f"{update} AND o = %s AND at = %s RETURNING v".replace("%s", given)
        assert ran(update, Decimal("0.75"), "c3", b"\0\3", 3, at) == [(13,)]
        assert ran(update, Decimal("0.7500"), "c3    ", b"\0\3", 3, at) == [(23,)]
        assert ran(update, Decimal("0.751"), "c3", b"\0\3", 3, at) == []
        assert ran(update, Decimal("NaN"), "c3", b"\0\3", 3, at) == []
        assert ran(update, Decimal("0.75"), "c3long", b"\0\3", 3, at) == []
        assert ran(update, Decimal(75) / 100, "c3", b"\0\3", 2**32 - 1, at) == []
        assert ran(update, Decimal("0.75"), "c3", b"\0\3\0", 3, at) == []
        insert = "INSERT INTO kinds VALUES (%s, %s, %s, %s, %s, 0)".replace("%s", given)
        upsert = f"{insert} ON CONFLICT (n, c, b, o, at) DO UPDATE SET v = -1 RETURNING *"
        row = (Decimal("0.75"), "c3  ", b"\0\3", 3, at, -1)
        assert ran(upsert, Decimal("0.754"), "c3", b"\0\3", 3, at) == [row]
        with pytest.raises(errors.UniqueViolation):
            cursor.execute(insert, (Decimal("0.5"), "c2", b"\0\2", 2, time_of_day(2, 0, 0, 2)))
        listed = f"UPDATE amounts SET v = -v WHERE n = ANY ({given}) RETURNING n, v"
        assert sorted(ran(listed, [Decimal(1), Decimal("2.0"), Decimal("2.5"), None])) == [
            (1, -1),
            (2, -2),
        ]
        assert ran(listed, [7, 70]) == [(7, -7)]
        of_one = f"UPDATE amounts SET v = v * 2 WHERE n = {given} RETURNING v"
        for number in (3, Decimal(3), 3 + 0 * 2**40, "3", "3.0"):
            ran(of_one.replace("%b", "%s"), number)
        assert cursor.execute("SELECT v FROM amounts WHERE n = 3").fetchall() == [(96,)]
        skipped = f"SELECT v FROM amounts WHERE n = {given} FOR UPDATE SKIP LOCKED"
        assert ran(skipped, Decimal(4)) == [(4,)]
        merge = (
            "MERGE INTO amounts t USING (VALUES (%s::bigint)) s (n) ON t.n = s.n"
            " WHEN MATCHED THEN UPDATE SET v = 0"
            " WHEN NOT MATCHED THEN INSERT VALUES (s.n, 0) RETURNING merge_action()"
        )
        assert [ran(merge, 5), ran(merge, 500)] == [[("UPDATE",)], [("INSERT",)]]
        assert connection.execute("SELECT gateway.check('kinds')").fetchall() == [(0,)]
        assert connection.execute("SELECT gateway.check('amounts')").fetchall() == [(0,)]
        assert cursor.execute(f"SELECT count(*) FROM amounts WHERE n = {given}", (3.0,)).fetchall()


def test_constants_are_those_of_the_time_zone(served: Pair) -> None:
    """The text is the same, and was understood before."""
    with connected(served) as connection:
        update = "UPDATE timed SET v = v WHERE at = '2024-01-01 08:00:00.000001' RETURNING v"
        search = "UPDATE timed SET v = v WHERE at < '2024-01-01 08:00' RETURNING v"
        for zone, value, smaller in (("UTC", 8, 7), ("Europe/Berlin", 7, 6), ("UTC", 8, 7)):
            connection.execute(f"SET TimeZone = '{zone}'")
            of_key = "AND lt = '2024-01-01'::timestamp + v * interval '1 hour'"
            assert connection.execute(update).fetchall() == [(value,)]
            assert connection.execute(update.replace("RETURNING", f"{of_key} RETURNING")).fetchall()
            assert connection.execute(search).rowcount == smaller


def test_disjoint_and_equal_rows_of_two_sessions(served: Pair) -> None:
    """Amounts move between rows, some of them the same, and none is lost."""
    rounds, workers = 25, 4

    def move(worker: int) -> None:
        with connected(served) as connection:
            for number in range(rounds):
                source, target = sorted(((worker * 7 + number) % 8 + 1, number % 8 + 9))
                with connection.transaction():
                    connection.execute("UPDATE t SET v = v - 1 WHERE id = %s", (source,))
                    connection.execute(
                        UPSERT.replace("excluded.v", "t.v + excluded.v"), (target, 1)
                    )

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(move, range(workers)))
    with connected(served) as connection:
        ((total,),) = connection.execute("SELECT sum(v) FROM t").fetchall()
        assert total == sum(range(1, ROWS + 1))
        ((versions,),) = connection.execute("SELECT count(*) FROM t_journal").fetchall()
        assert versions == ROWS + 2 * rounds * workers


def test_who_reads_for_update_waits_for_writers(served: Pair) -> None:
    with connected(served) as one, connected(served) as other:
        one.execute("BEGIN")
        assert one.execute("SELECT v FROM t WHERE id = 1 FOR UPDATE").fetchall() == [(1,)]
        found: list[tuple] = []
        waiting = threading.Thread(
            target=lambda: found.extend(
                other.execute("SELECT v FROM t WHERE id = 1 FOR UPDATE").fetchall()
            )
        )
        waiting.start()
        time.sleep(0.3)
        assert found == []
        one.execute("UPDATE t SET v = 77 WHERE id = 1")
        one.execute("COMMIT")
        waiting.join(timeout=60)
        assert found == [(77,)]


def test_older_snapshots_do_not_write(served: Pair) -> None:
    with connected(served) as one, connected(served) as other:
        one.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        one.execute("SELECT count(*) FROM t")
        other.execute("UPDATE t SET v = 5 WHERE id = 2")
        with pytest.raises(errors.SerializationFailure):
            one.execute(UPSERT, (2, 6))
        one.execute("ROLLBACK")
        assert one.execute("SELECT v FROM t WHERE id = 2").fetchall() == [(5,)]


def test_a_failure_leaves_no_row_in_the_catalog_table(served: Pair) -> None:
    with connected(served) as connection:
        connection.execute("BEGIN")
        connection.execute("UPDATE t SET v = 1000 WHERE id = 3")
        connection.execute("SAVEPOINT s")
        with pytest.raises(errors.UniqueViolation):
            connection.execute("UPDATE t SET id = 4 WHERE id = 3")
        connection.execute("ROLLBACK TO s")
        with pytest.raises(errors.FeatureNotSupported):
            connection.execute(
                "INSERT INTO t SELECT id FROM t TABLESAMPLE SYSTEM (50) ON CONFLICT DO NOTHING"
            )
        connection.execute("ROLLBACK TO s")
        connection.execute("INSERT INTO t VALUES (500, 1)")
        connection.execute("COMMIT")
        found = connection.execute("SELECT id, v FROM t WHERE id IN (3, 4, 500) ORDER BY id")
        assert found.fetchall() == [(3, 1000), (4, 4), (500, 1)]


def test_a_condition_with_an_array_for_a_parameter(served: Pair) -> None:
    with connected(served) as connection:
        query = "SELECT id FROM t WHERE w = ANY (%s) ORDER BY id FOR UPDATE"
        for _ in range(2):
            assert connection.execute(query, [["w3", "w4"]]).fetchall() == [(3,), (4,)]
        assert connection.execute(query, [["w5", None]]).fetchall() == [(5,)]
        change = "UPDATE t SET v = 0 WHERE w = ANY (%s) RETURNING id"
        assert connection.execute(change, [["w5"]]).fetchall() == [(5,)]


@contextmanager
def stopped_spark(process: GatewayProcess) -> Iterator[None]:
    """Have the process of Spark's driver stand still: what needs it does not go on."""
    numbers = [n for n in descendants(process.process_id) if program(n) == "java"]
    assert numbers
    try:
        for number in numbers:
            os.kill(number, signal.SIGSTOP)
        yield
    finally:
        for number in numbers:
            os.kill(number, signal.SIGCONT)


@pytest.mark.parametrize("block", [False, True])
def test_cold_rows_of_a_compacted_table_are_changed_without_spark(
    served: Pair, gateway_process: GatewayProcess, *, block: bool
) -> None:
    with (
        connected(served) as client,
        connected(served) as beside,
        ThreadPoolExecutor(1) as thread,
    ):
        client.execute("SET statement_timeout = '60s'")
        # Conditions are Spark's to look for.
        by_spark = "SELECT count(*), sum(v) FROM t WHERE substr(w, 2)::integer > 0"
        before = beside.execute(by_spark).fetchall()
        assert before == [(ROWS, sum(range(1, ROWS + 1)))]
        assert decision(beside).startswith("spark")
        with stopped_spark(gateway_process):
            waiting = thread.submit(lambda: beside.execute(by_spark).fetchall())
            if block:
                client.execute("BEGIN")
            updated = client.execute("UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v")
            assert updated.fetchall() == [(2,)]
            assert client.execute("DELETE FROM t WHERE id IN (2, 3, 1000)").rowcount == 2
            assert client.execute(UPSERT, (4, 44)).fetchall() == [(4, 44, "w4")]
            assert client.execute(UPSERT, (1000, 5)).fetchall() == [(1000, 5, None)]
            assert client.execute(MERGE, (5, 0)).fetchall() == [("DELETE", 5)]
            locked = client.execute("SELECT v FROM t WHERE id = 6 FOR UPDATE")
            assert locked.fetchall() == [(6,)]
            assert decision(client) == THAWED
            if block:
                client.execute("COMMIT")
            assert not waiting.done()
        assert waiting.result(60.0) == before
        found = client.execute("SELECT id, v FROM t WHERE id < 7 OR id = 1000 ORDER BY id")
        assert found.fetchall() == [(1, 2), (4, 44), (6, 6), (1000, 5)]
