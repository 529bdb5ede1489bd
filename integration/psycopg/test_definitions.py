"""Definitions that change between a statement's analysis and what it sees."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest

ROUNDS = 20
WAITING = "SELECT count(*) FROM pg_catalog.pg_locks WHERE NOT granted"


@pytest.fixture
def sessions(gateway, database):
    with (
        psycopg.connect(gateway.conninfo(database), autocommit=True) as one,
        psycopg.connect(gateway.conninfo(database), autocommit=True) as other,
    ):
        one.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        one.execute("INSERT INTO t VALUES (1, 10), (2, 20)")
        yield one, other


@pytest.fixture
def beside() -> Iterator[Callable[..., Future]]:
    """What runs a function beside the test; its failure is that of the test."""
    with ThreadPoolExecutor() as pool:
        futures = []

        def submit(function: Callable[..., object], *arguments: object) -> Future:
            futures.append(pool.submit(function, *arguments))
            return futures[-1]

        yield submit
        for future in futures:
            future.result(60)


def wait_until_somebody_waits(connection: psycopg.Connection) -> None:
    deadline = time.monotonic() + 60
    while connection.execute(WAITING).fetchone() == (0,):
        assert time.monotonic() < deadline, "nobody waits for a lock"
        time.sleep(0.05)


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "prepared"])
def test_writer_that_waited_for_a_transaction_with_ddl(sessions, beside, prepare):
    one, other = sessions

    def update() -> str | None:
        statement = "UPDATE t SET v = v * 10 WHERE id = 1"
        return other.execute(statement, prepare=prepare).statusmessage

    with one.transaction():
        one.execute("UPDATE t SET v = v + 1 WHERE id = 1")
        one.execute("CREATE TABLE extra (id integer)")
        waiting = beside(update)
        wait_until_somebody_waits(one)
    assert waiting.result(60) == "UPDATE 1"
    assert one.execute("SELECT v FROM t WHERE id = 1").fetchone() == (110,)


WRITES = {
    "one row": "UPDATE t SET v = v + 1 WHERE id = 1",
    "by a condition": "UPDATE t SET v = v + 1 WHERE v < 5000 AND id = 1",
    "ON CONFLICT": "INSERT INTO t VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET v = t.v + 1",
    "in WITH": "WITH u AS (UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v) SELECT v FROM u",
}


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "prepared"])
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
@pytest.mark.parametrize("statement", WRITES.values(), ids=WRITES)
def test_writer_in_a_block_while_others_define(sessions, beside, statement, is_first, prepare):
    """A block of which nothing has been seen is begun again, a later statement taken back."""
    one, other = sessions
    written = 0

    def define() -> None:
        for number in range(ROUNDS):
            before, deadline = written, time.monotonic() + 60
            other.execute(f"CREATE TABLE extra_{number} (id integer)")
            # It is not begun again for ever.
            while written == before and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(0.002 * number)

    defining = beside(define)
    while not defining.done():
        with one.transaction():
            if not is_first:
                one.execute("UPDATE t SET v = v + 1 WHERE id = 2")
            one.execute(statement, prepare=prepare)
        written += 1
    beside_it = 0 if is_first else written
    found = one.execute("SELECT v FROM t ORDER BY id").fetchall()
    assert found == [(10 + written,), (20 + beside_it,)]


def test_reader_of_a_view_that_others_replace(sessions, beside):
    one, other = sessions
    one.execute("CREATE TABLE u (id integer PRIMARY KEY, v integer)")
    one.execute("INSERT INTO u VALUES (1, 7)")
    one.execute("CREATE VIEW s AS SELECT sum(v) AS sum FROM t")

    def replace() -> None:
        for number in range(ROUNDS):
            table = "tu"[number % 2]
            other.execute(f"CREATE OR REPLACE VIEW s AS SELECT sum(v) AS sum FROM {table}")
            other.execute(f"ALTER TABLE {table} ADD COLUMN c{number} integer")

    replacing = beside(replace)
    found = set()
    while not replacing.done():
        found.add(one.execute("SELECT * FROM s").fetchone())
        found.add(one.execute("SELECT * FROM s", prepare=True).fetchone())
    replacing.result()
    assert found <= {(30,), (7,)}
    assert one.execute("SELECT * FROM s").fetchone() == (7,)
    columns = "SELECT count(*) FROM information_schema.columns WHERE table_name IN ('t', 'u')"
    assert one.execute(columns).fetchone() == (4 + ROUNDS,)


def test_statement_of_postgresql_alone_when_others_make_it_read_a_journal(sessions, beside):
    one, other = sessions
    one.execute("CREATE VIEW s AS SELECT 30 AS sum")

    def replace() -> None:
        for number in range(ROUNDS):
            query = "SELECT 30 AS sum" if number % 2 else "SELECT sum(v)::integer FROM t"
            with other.transaction():
                other.execute("DROP VIEW s")
                other.execute(f"CREATE VIEW s (sum) AS {query}")

    replacing = beside(replace)
    found = {(30,)}
    while not replacing.done():
        found.add(one.execute("SELECT sum FROM s").fetchone())
        found.add(one.execute("SELECT sum FROM s", prepare=True).fetchone())
    assert found == {(30,)}


def test_inserted_rows_go_to_the_table_of_the_name(sessions, beside):
    one, other = sessions
    one.execute("CREATE TABLE other (id integer PRIMARY KEY, v integer)")

    def swap() -> None:
        for _ in range(ROUNDS):
            with other.transaction():
                other.execute("ALTER TABLE t RENAME TO spare")
                other.execute("ALTER TABLE other RENAME TO t")
                other.execute("ALTER TABLE spare RENAME TO other")

    swapping = beside(swap)
    inserted = 2
    while not swapping.done():
        inserted += 1
        one.execute(f"INSERT INTO t VALUES ({inserted}, 0)")
        inserted += 1
        with one.cursor().copy("COPY t FROM STDIN") as copy:
            copy.write_row((inserted, 0))
    counted = "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM other)"
    assert one.execute(counted).fetchone() == (inserted,)


@pytest.mark.parametrize(
    "commands",
    [("DROP TABLE s.t",), ("DROP SCHEMA s CASCADE", "CREATE SCHEMA s")],
    ids=["table", "schema"],
)
def test_table_that_is_dropped_and_created_again_under_writers(sessions, beside, commands):
    one, other = sessions
    definition = "CREATE TABLE s.t (id integer PRIMARY KEY, v integer)"
    one.execute("CREATE SCHEMA s")
    one.execute(definition)

    def create() -> None:
        for _ in range(ROUNDS):
            with other.transaction():
                for command in (*commands, definition):
                    other.execute(command)

    creating = beside(create)
    inserted = 0
    while not creating.done():
        inserted += 1
        assert one.execute(f"INSERT INTO s.t VALUES ({inserted}, 0)").statusmessage == "INSERT 0 1"
        assert one.execute("UPDATE s.t SET v = 1").statusmessage.startswith("UPDATE ")
    count, first, last = one.execute("SELECT count(*), min(id), max(id) FROM s.t").fetchone()
    assert (count, last) in {(0, None), (inserted - first + 1 if first else 0, inserted)}


@pytest.mark.parametrize(("command", "name"), [("DROP TABLE", "s.t"), ("DROP SCHEMA", "s CASCADE")])
def test_what_others_have_dropped_meanwhile_does_not_exist(sessions, beside, command, name):
    one, other = sessions
    one.execute("CREATE SCHEMA s")
    one.execute("CREATE TABLE s.t (id integer PRIMARY KEY, v integer)")
    one.execute("INSERT INTO s.t VALUES (1, 0)")
    with one.transaction():
        one.execute(f"{command} {name}")
        waiting = beside(other.execute, f"{command} IF EXISTS {name}")
        wait_until_somebody_waits(one)
    assert waiting.result(60).statusmessage == command
