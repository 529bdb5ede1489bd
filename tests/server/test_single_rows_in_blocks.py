"""Transaction blocks that write single rows of tiered tables, which are hot or have gone cold."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

SCHEMA = "single_rows_in_blocks"

UPDATE = "UPDATE t SET v = v + %s WHERE id = %s"

ROWS = "SELECT * FROM t ORDER BY id"

Connect = Callable[[], psycopg.Connection]


@pytest.fixture
def sessions(two_tiers_pair: Pair) -> Iterator[Connect]:
    """Yield what opens sessions beside a tiered table; single rows of it are expected to be hot."""
    conninfo = two_tiers_pair.gateway.conninfo(two_tiers_pair.database)
    with ExitStack() as stack:

        def opened(ends: ExitStack) -> psycopg.Connection:
            options = f"-c search_path={SCHEMA}"
            connection = psycopg.connect(conninfo, autocommit=True, options=options)
            connection.prepare_threshold = 0
            return ends.enter_context(connection)

        first = opened(stack)
        first.execute(f"CREATE SCHEMA {SCHEMA}")
        first.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer CHECK (v < 100))")
        first.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 5) g")
        make_tiered(first, "t")
        for key in (1, 2, 1):
            first.execute(UPDATE, [0, key])
        # What they have not ended does not keep the schema from going.
        with ExitStack() as others:
            yield lambda: opened(others)
        assert first.execute("SELECT gateway.check('t')").fetchall() == [(0,)]
        first.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def rows(connection: psycopg.Connection) -> dict[int, int]:
    return dict(connection.execute(ROWS).fetchall())


def test_statements_of_a_block_see_each_other_and_go_with_it(sessions: Connect) -> None:
    one, other = sessions(), sessions()
    with one.transaction(force_rollback=True):
        one.execute(UPDATE, [10, 1])
        one.execute(UPDATE, [20, 2])
        assert one.execute("SELECT v FROM t WHERE id = 1 FOR UPDATE").fetchall() == [(11,)]
        assert one.execute("DELETE FROM t WHERE id = %s RETURNING v", [1]).fetchall() == [(11,)]
        assert rows(one) == {2: 22, 3: 3, 4: 4, 5: 5}
        assert rows(other) == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}
    assert rows(one) == rows(other) == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}


def test_savepoints_of_the_client_are_its_own(sessions: Connect) -> None:
    one = sessions()
    with one.transaction():
        one.execute("SAVEPOINT pgwire_guard")
        one.execute(UPDATE, [10, 1])
        one.execute("SAVEPOINT later")
        one.execute(UPDATE, [10, 2])
        with pytest.raises(errors.CheckViolation):
            one.execute(UPDATE, [100, 1])
        with pytest.raises(errors.InFailedSqlTransaction):
            one.execute(UPDATE, [1, 1])
        one.execute("ROLLBACK TO later")
        one.execute(UPDATE, [5, 1])
        one.execute("ROLLBACK TO pgwire_guard")
        one.execute(UPDATE, [7, 2])
    assert rows(one) == {1: 1, 2: 9, 3: 3, 4: 4, 5: 5}


def test_postgresql_keeps_sight_of_the_subtransactions_of_many_statements(
    sessions: Connect,
) -> None:
    """It does of 64; of a session that has more everybody's snapshots become slower."""
    one = sessions()
    seen = (
        "SELECT s.* FROM pg_stat_get_backend_idset() i, pg_stat_get_backend_subxact(i) s"
        " WHERE pg_stat_get_backend_pid(i) = pg_backend_pid()"
    )
    with one.transaction():
        for number in range(100):
            one.execute(UPDATE, [(-1) ** number, 1])
        ((count, overflowed),) = one.execute(seen).fetchall()
        assert 0 < count < 64
        assert not overflowed
    assert rows(one) == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}


def test_rows_that_went_cold_meanwhile_are_made_hot(sessions: Connect) -> None:
    one, other = sessions(), sessions()
    for value in (1, 2):
        other.execute("VACUUM t")
        with one.transaction():
            for key in (1, 2, 3):
                one.execute(UPDATE, [value, key])
                one.execute(UPDATE, [value, key])
    assert rows(other) == {1: 7, 2: 8, 3: 9, 4: 4, 5: 5}


def test_definitions_that_changed_meanwhile_are_followed(sessions: Connect) -> None:
    one, other = sessions(), sessions()
    with one.transaction():
        one.execute(UPDATE, [1, 1])
    other.execute("ALTER TABLE t ADD COLUMN w integer DEFAULT 5")
    for key in (1, 2):
        one.execute(UPDATE, [0, key])
    with one.transaction():
        one.execute("SELECT 1")
        other.execute("ALTER TABLE t ADD COLUMN x integer DEFAULT 6")
        one.execute(UPDATE, [1, 1])
        one.execute(UPDATE, [1, 2])
    assert other.execute(f"{ROWS} LIMIT 2").fetchall() == [(1, 3, 5, 6), (2, 3, 5, 6)]


def test_a_transaction_with_one_snapshot_sees_what_it_writes(sessions: Connect) -> None:
    one, other = sessions(), sessions()
    one.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with one.transaction():
        assert rows(one)[1] == 1
        one.execute(UPDATE, [1, 1])
        one.execute(UPDATE, [1, 1])
    with one.transaction(force_rollback=True):
        assert rows(one)[1] == 3
        other.execute(UPDATE, [1, 1])
        with pytest.raises(errors.SerializationFailure):
            one.execute(UPDATE, [1, 1])
    one.isolation_level = None
    with one.transaction():
        one.execute(UPDATE, [1, 1])
    assert rows(one) == {1: 5, 2: 2, 3: 3, 4: 4, 5: 5}


def test_keys_and_conditions_may_ask_for_one_row_in_a_transaction_with_one_snapshot(
    sessions: Connect,
) -> None:
    one = sessions()
    one.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with one.transaction():
        one.execute(
            "WITH x AS (UPDATE t SET v = v + 1 WHERE id IN (4, 5)"
            " AND EXISTS (SELECT FROM t u WHERE u.v > 3) RETURNING *) SELECT * FROM x"
        )
    assert rows(one) == {1: 1, 2: 2, 3: 3, 4: 5, 5: 6}


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_a_block_has_locked_all_rows_of_what_it_has_written_as_a_whole(
    sessions: Connect, isolation: str
) -> None:
    one, other = sessions(), sessions()
    one.execute("SET lock_timeout = '20s'")
    with one.transaction():
        one.execute("LOCK TABLE t IN EXCLUSIVE MODE")  # all rows go cold
    one.execute(f"BEGIN ISOLATION LEVEL {isolation}")
    one.execute("SAVEPOINT s")
    write_as_a_whole(one)
    for policy in ("NOWAIT", "SKIP LOCKED"):
        for condition, found in (("id = 5", [(5,)]), ("v > 4", [(4,), (5,)])):
            query = f"SELECT id FROM t WHERE {condition} FOR UPDATE {policy}"
            assert sorted(one.execute(query).fetchall()) == found
    one.execute("ROLLBACK TO s")
    # What it had locked is free, and may be others'.
    other.execute("BEGIN")
    write_as_a_whole(other)
    for condition in ("id = 5", "v > 4"):
        with pytest.raises(errors.LockNotAvailable, match="on relation"), one.transaction():
            one.execute(f"SELECT id FROM t WHERE {condition} FOR UPDATE NOWAIT")
    other.execute("ROLLBACK")
    one.execute("ROLLBACK")


UNWAITED = (
    "SELECT v FROM t WHERE id = 5 FOR UPDATE NOWAIT",
    "SELECT v FROM t WHERE v > 3 ORDER BY id LIMIT 1 FOR SHARE SKIP LOCKED",
    "UPDATE t SET v = 0 WHERE id = (SELECT id FROM t WHERE v > 3 LIMIT 1 FOR UPDATE SKIP LOCKED)",
)


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
@pytest.mark.parametrize("are_hot", [True, False])
def test_rows_of_a_table_that_another_has_written_as_a_whole_are_not_waited_for(
    sessions: Connect, are_hot: bool, isolation: str
) -> None:
    one, other = sessions(), sessions()
    if are_hot:
        one.execute(UPDATE, [0, 5])
    else:
        with one.transaction():
            one.execute("LOCK TABLE t IN EXCLUSIVE MODE")  # all rows go cold
    # What PostgreSQL would wait for ever for is told after a second.
    one.execute("SET statement_timeout = '20s'")
    with other.transaction(force_rollback=True):
        write_as_a_whole(other)
        for statement in (*UNWAITED, *UNWAITED):
            one.execute(f"BEGIN ISOLATION LEVEL {isolation}")
            with pytest.raises(errors.LockNotAvailable, match='lock on relation "t"'):
                one.execute(statement)
            one.execute("ROLLBACK")
            with pytest.raises(errors.LockNotAvailable, match='lock on relation "t"'):
                one.execute(statement)
        assert one.execute("SHOW lock_timeout").fetchall() == [("0",)]
    for statement in UNWAITED:
        assert one.execute(statement).rowcount == 1
    assert 0 in rows(one).values()


def test_a_word_in_a_text_does_not_keep_a_statement_from_waiting(sessions: Connect) -> None:
    one, other, third = sessions(), sessions(), sessions()
    one.execute(UPDATE, [0, 5])
    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            write_as_a_whole(other)
            reading = pool.submit(
                one.execute, "SELECT 'skip locked, nowait', id FROM t WHERE id = 5 FOR UPDATE"
            )
            wait_until_somebody_waits(third)
            time.sleep(1.5)  # longer than by who does not wait for rows
        assert reading.result().fetchall() == [("skip locked, nowait", 5)]


def test_a_definition_is_waited_for_by_who_does_not_wait_for_rows(sessions: Connect) -> None:
    one, other, third = sessions(), sessions(), sessions()
    one.execute("CREATE TABLE resident (id integer PRIMARY KEY)")
    one.execute("INSERT INTO resident VALUES (1)")
    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            other.execute("ALTER TABLE resident ADD COLUMN n integer")
            taking = pool.submit(one.execute, "SELECT id FROM resident FOR UPDATE SKIP LOCKED")
            wait_until_somebody_waits(third)
            time.sleep(1.5)  # longer than writers of tables as a whole are waited for
        assert taking.result().fetchall() == [(1,)]
    # A time-out of one's own is told as PostgreSQL tells it.
    one.execute("SET lock_timeout = '100ms'")
    with other.transaction():
        other.execute("ALTER TABLE resident DROP COLUMN n")
        with pytest.raises(errors.LockNotAvailable, match="due to lock timeout"):
            one.execute("SELECT id FROM resident FOR UPDATE SKIP LOCKED")


def test_who_references_a_table_waits_for_a_writer_of_all_of_it_and_keeps_nothing_from_it(
    sessions: Connect,
) -> None:
    one, other, third = sessions(), sessions(), sessions()
    one.execute("CREATE TABLE c (id integer PRIMARY KEY, t integer REFERENCES t)")
    one.execute("INSERT INTO t SELECT g, 0 FROM generate_series(1000, 3000) g")
    with one.transaction():
        one.execute("LOCK TABLE t IN EXCLUSIVE MODE")  # all rows go cold
    make_tiered(one, "c")
    with ThreadPoolExecutor(1) as pool:
        with one.transaction():
            write_as_a_whole(one)
            referencing = pool.submit(other.execute, "INSERT INTO c VALUES (1, 5)")
            wait_until_somebody_waits(third)
            one.execute("UPDATE t SET v = 50 WHERE id = 5")
        assert referencing.result().statusmessage == "INSERT 0 1"
    one.execute("DELETE FROM t WHERE id >= 1000")
    assert rows(one) == {1: 2, 2: 3, 3: 4, 4: 5, 5: 50}


def wait_until_somebody_waits(connection: psycopg.Connection) -> None:
    """Wait until a session waits for a lock."""
    until = time.monotonic() + 30
    waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    while not connection.execute(waiting).fetchall():
        assert time.monotonic() < until
        time.sleep(0.05)


def write_as_a_whole(connection: psycopg.Connection) -> None:
    """Let Spark change all rows, for whom the table is locked."""
    connection.execute("SET LOCAL gateway.executor TO spark")
    connection.execute("UPDATE t SET v = v + 1")
    connection.execute("SET LOCAL gateway.executor TO auto")


def test_a_batch_of_statements_is_one_transaction(sessions: Connect) -> None:
    one = sessions()
    changes = [f"UPDATE t SET v = v + 1 WHERE id = {key}" for key in (1, 2, 1)]
    one.prepare_threshold = None
    one.execute("; ".join(changes))
    with pytest.raises(errors.CheckViolation):
        one.execute("; ".join([*changes, "UPDATE t SET v = 100 WHERE id = 1"]))
    pipeline = ExitStack()
    pipeline.enter_context(one.pipeline())
    one.execute(UPDATE, [10, 1])
    one.execute(UPDATE, [100, 2])
    with pytest.raises(errors.CheckViolation):
        pipeline.close()
    assert rows(one) == {1: 3, 2: 3, 3: 3, 4: 4, 5: 5}


@pytest.mark.parametrize("savepoint", [False, True])
def test_what_a_failed_block_has_locked_is_free(sessions: Connect, savepoint: bool) -> None:
    one, other, third = sessions(), sessions(), sessions()
    one.execute("CREATE TABLE u (id integer PRIMARY KEY, v integer)")
    make_tiered(one, "u")
    third.execute("BEGIN")
    third.execute("LOCK TABLE u IN EXCLUSIVE MODE")
    other.execute("SET lock_timeout = '5s'")
    one.execute("BEGIN")
    if savepoint:
        one.execute("SAVEPOINT s")
    one.execute(UPDATE, [1, 1])
    one.execute("SET LOCAL lock_timeout = '200ms'")
    with pytest.raises(errors.LockNotAvailable):
        one.execute("UPDATE u SET v = 1 WHERE id = 1")
    # The client has not ended its block.
    other.execute(UPDATE, [5, 1])
    one.execute("ROLLBACK")
    third.execute("ROLLBACK")
    assert rows(other)[1] == 6


def test_a_client_may_use_names_of_savepoints_as_it_likes(sessions: Connect) -> None:
    one = sessions()
    one.execute("BEGIN")
    one.execute("SAVEPOINT pgwire_hot_rows")
    one.execute(UPDATE, [1, 1])
    with pytest.raises(errors.CheckViolation):
        one.execute("UPDATE t SET v = 100 WHERE v = 2")
    one.execute("ROLLBACK TO pgwire_hot_rows")
    one.execute(UPDATE, [7, 1])
    one.execute("COMMIT")
    assert rows(one)[1] == 8


def test_a_query_string_that_fails_in_its_search_leaves_no_savepoint_behind(
    sessions: Connect,
) -> None:
    one = sessions()
    update = "UPDATE t SET v = v + 1 WHERE {} = 3"
    with pytest.raises(errors.DivisionByZero):
        one.execute(f"SELECT 1; {update.format('3 / (v - 3)')}", prepare=False)
    assert one.execute(update.format("v")).rowcount == 1
    assert rows(one) == {1: 1, 2: 2, 3: 4, 4: 4, 5: 5}
