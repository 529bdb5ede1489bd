"""Rows that several clients insert into a tiered table without a key at the same time."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import Pair
from tests.support.tiers import schema_sessions

pytestmark = pytest.mark.server

SCHEMA = "unkeyed_rows"

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")

PATIENCE = "SET lock_timeout = '10s'"
"""Longer than any of these statements takes, and shorter than another one would be waited for."""

Open = Callable[[], psycopg.Connection]
Put = Callable[[psycopg.Connection, str, int], None]


def put_values(session: psycopg.Connection, table: str, number: int) -> None:
    session.execute(f"INSERT INTO {table} VALUES ({number}, 'x')")


def put_several(session: psycopg.Connection, table: str, number: int) -> None:
    session.execute(f"INSERT INTO {table} SELECT {number}, 'x' FROM generate_series(1, 3)")


def put_prepared(session: psycopg.Connection, table: str, number: int) -> None:
    session.execute(f"INSERT INTO {table} VALUES (%s, 'x')", [number], prepare=True)


def put_returning(session: psycopg.Connection, table: str, number: int) -> None:
    returned = session.execute(f"INSERT INTO {table} VALUES ({number}, 'x') RETURNING id, w")
    assert returned.fetchall() == [(number, "x")]


def put_copied(session: psycopg.Connection, table: str, number: int) -> None:
    with session.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        copy.write_row((number, "x"))


TABLES = ("log", "parts")

WAYS = (put_values, put_several, put_prepared, put_returning, put_copied)


@pytest.fixture
def opened(shared_pair: Pair) -> Iterator[Open]:
    with schema_sessions(shared_pair.gateway.conninfo(shared_pair.database), SCHEMA) as opened:
        first = opened()
        first.execute(PATIENCE)
        first.execute("CREATE TABLE log (id integer, w text)")
        first.execute("CREATE TABLE parts (id integer, w text) PARTITION BY HASH (w)")
        first.execute(
            "CREATE TABLE one PARTITION OF parts FOR VALUES WITH (MODULUS 1, REMAINDER 0)"
        )
        for table in TABLES:
            first.execute(f"INSERT INTO {table} VALUES (0, 'x')")
        yield opened


def numbers(session: psycopg.Connection, table: str = "log") -> list[int]:
    return [number for (number,) in session.execute(f"SELECT id FROM {table} ORDER BY id")]


def agrees(session: psycopg.Connection, table: str = "log") -> bool:
    """Return whether the journal has what the table holds."""
    return session.execute(f"SELECT gateway.check('{table}')").fetchone() == (0,)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("put", "table"),
    [(put, table) for put in WAYS for table in TABLES if (put, table) != (put_copied, "parts")],
)
def test_nobody_waits_for_who_inserts(opened: Open, put: Put, level: str, table: str) -> None:
    one, other, reader = opened(), opened(), opened()
    other.execute(PATIENCE)
    for session, number in ((one, 1), (other, 2)):
        session.execute(f"BEGIN ISOLATION LEVEL {level}")
        put(session, table, number)
    assert set(numbers(reader, table)) == {0}
    other.execute("COMMIT")
    assert set(numbers(reader, table)) == {0, 2}
    assert set(numbers(one, table)) == ({0, 1, 2} if level == LEVELS[0] else {0, 1})
    one.execute("COMMIT")
    assert set(numbers(reader, table)) == {0, 1, 2}
    assert agrees(reader, table)


@pytest.mark.parametrize("put", WAYS)
def test_nobody_waits_where_the_table_is_resident(resident_pair: Pair, put: Put) -> None:
    conninfo = resident_pair.gateway.conninfo(resident_pair.database)
    with schema_sessions(conninfo, SCHEMA) as opened:
        one, other = opened(), opened()
        for session in (one, other):
            session.execute(PATIENCE)
        one.execute("CREATE TABLE log (id integer, w text)")
        one.execute("BEGIN")
        put(one, "log", 1)
        put(other, "log", 2)
        one.execute("COMMIT")
        assert set(numbers(other)) == {1, 2}


def test_each_row_is_there_once(opened: Open) -> None:
    def inserted(client: int) -> None:
        session = opened_sessions[client]
        for number in range(20):
            put = WAYS[(client + number) % len(WAYS)]
            put(session, "log", 100 * (client + 1) + number)

    opened_sessions = [opened() for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(inserted, range(4)))
    expected = Counter({0: 1})
    for client in range(4):
        for number in range(20):
            times = 3 if WAYS[(client + number) % len(WAYS)] is put_several else 1
            expected[100 * (client + 1) + number] += times
    reader = opened()
    assert Counter(numbers(reader)) == expected
    assert agrees(reader)
    reader.execute("VACUUM log")
    assert Counter(numbers(reader)) == expected


@pytest.mark.parametrize("level", LEVELS)
def test_rows_before_and_after_savepoints_are_told_apart(opened: Open, level: str) -> None:
    session = opened()
    put_values(session, "log", 1)
    session.execute(f"BEGIN ISOLATION LEVEL {level}")
    put_several(session, "log", 2)
    session.execute("SAVEPOINT s")
    put_several(session, "log", 3)
    session.execute("ROLLBACK TO s")
    put_several(session, "log", 4)
    put_copied(session, "log", 5)
    assert numbers(session) == [0, 1, 2, 2, 2, 4, 4, 4, 5]
    session.execute("COMMIT")
    assert numbers(session) == [0, 1, 2, 2, 2, 4, 4, 4, 5]
    session.execute("UPDATE log SET id = id + 10 WHERE id IN (2, 5)")
    session.execute("DELETE FROM log WHERE id = 4")
    assert numbers(session) == [0, 1, 12, 12, 12, 15]
    session.execute("VACUUM log")
    assert numbers(session) == [0, 1, 12, 12, 12, 15]


def test_a_change_waits_for_rows_that_are_not_committed(opened: Open) -> None:
    one, other = opened(), opened()
    one.execute("BEGIN")
    put_values(one, "log", 1)
    with ThreadPoolExecutor() as pool:
        changed = pool.submit(other.execute, "UPDATE log SET id = id + 10")
        put_values(one, "log", 2)
        one.execute("COMMIT")
        changed.result()
    reader = opened()
    assert sorted(number % 10 for number in numbers(reader)) == [0, 1, 2]
    assert agrees(reader)


def test_rows_of_a_transaction_can_be_changed_in_it(opened: Open) -> None:
    session = opened()
    put_values(session, "log", 1)
    for _ in range(2):
        session.execute("BEGIN")
        put_several(session, "log", 2)
        session.execute("UPDATE log SET id = 3 WHERE id = 2")
        put_values(session, "log", 4)
        session.execute("DELETE FROM log WHERE id = 0")
        session.execute("COMMIT")
    assert numbers(session) == [1, *[3] * 6, 4, 4]


@pytest.mark.parametrize("level", LEVELS[1:])
def test_one_snapshot_does_not_keep_a_table_from_being_changed(opened: Open, level: str) -> None:
    session = opened()
    session.execute("ALTER TABLE log ALTER w DROP DEFAULT")  # no row is hot afterwards
    session.execute(f"BEGIN ISOLATION LEVEL {level}")
    put_values(session, "log", 1)
    session.execute("UPDATE log SET id = 2 WHERE id = 1")
    session.execute("COMMIT")
    assert numbers(session) == [0, 2]


def test_transactions_that_change_what_they_have_inserted_come_one_after_the_other(
    opened: Open,
) -> None:
    def worked(session: psycopg.Connection) -> None:
        for _ in range(3):
            with session.transaction():
                put_values(session, "log", 1)
                session.execute("DELETE FROM log WHERE id = 1")

    first, second, third = opened(), opened(), opened()
    worked(first)
    with ThreadPoolExecutor() as pool:
        list(pool.map(worked, (second, third)))
    assert numbers(first) == [0]


def copy_many(session: psycopg.Connection) -> None:
    with session.cursor().copy("COPY log FROM STDIN") as copy:
        for number in range(1, 2001):
            copy.write_row((number, "y"))


@pytest.mark.parametrize(
    "lock",
    [
        lambda session: session.execute("UPDATE log SET w = 'y' WHERE id = 1"),
        lambda session: session.execute("SELECT w FROM log WHERE id = 1 FOR UPDATE"),
        lambda session: session.execute(
            "INSERT INTO log SELECT g, 'y' FROM generate_series(1, 2000) g"
        ),
        lambda session: session.execute("INSERT INTO log SELECT id, 'y' FROM log WHERE id = 0"),
        copy_many,
    ],
    ids=["change", "row locks", "many rows", "rows of tiered tables", "copied rows"],
)
def test_blocks_lock_a_table_at_once_that_one_has_locked_after_rows_of_its_own(
    opened: Open, lock: Callable[[psycopg.Connection], object]
) -> None:
    one, other = opened(), opened()
    other.execute("SET lock_timeout = '300ms'")
    with one.transaction():
        put_values(one, "log", 1)
        lock(one)
    with one.transaction(), other.transaction(force_rollback=True):
        put_values(one, "log", 1)
        with pytest.raises(errors.LockNotAvailable):
            put_values(other, "log", 2)


def test_what_could_meet_rows_of_others_locks_the_table(opened: Open) -> None:
    one, other = opened(), opened()
    one.execute("CREATE TABLE named (id integer UNIQUE, w text)")
    one.execute("INSERT INTO named VALUES (0, 'x')")
    one.execute("BEGIN")
    put_values(one, "named", 1)
    other.execute("SET lock_timeout = '300ms'")
    with pytest.raises(errors.LockNotAvailable):
        put_values(other, "named", 2)
    one.execute("COMMIT")
    with pytest.raises(errors.UniqueViolation):
        put_values(other, "named", 1)


def test_a_key_is_looked_for_as_soon_as_there_is_one(opened: Open) -> None:
    session = opened()
    for number in (1, 2):
        put_prepared(session, "log", number)
    session.execute("ALTER TABLE log ADD PRIMARY KEY (id)")
    with pytest.raises(errors.UniqueViolation):
        put_prepared(session, "log", 2)
    with pytest.raises(errors.UniqueViolation):
        put_values(session, "log", 0)
    assert numbers(session) == [0, 1, 2]
