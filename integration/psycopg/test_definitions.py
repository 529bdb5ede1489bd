"""Definitions that change between a statement's analysis and what it sees."""

import threading
import time

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


def wait_until_somebody_waits(connection: psycopg.Connection) -> None:
    deadline = time.monotonic() + 60
    while connection.execute(WAITING).fetchone() == (0,):
        assert time.monotonic() < deadline, "nobody waits for a lock"
        time.sleep(0.05)


@pytest.mark.parametrize("prepare", [False, True], ids=["simple", "prepared"])
def test_writer_that_waited_for_a_transaction_with_ddl(sessions, prepare):
    one, other = sessions
    tags: list[str | None] = []

    def update() -> None:
        statement = "UPDATE t SET v = v * 10 WHERE id = 1"
        tags.append(other.execute(statement, prepare=prepare).statusmessage)

    waiting = threading.Thread(target=update)
    with one.transaction():
        one.execute("UPDATE t SET v = v + 1 WHERE id = 1")
        one.execute("CREATE TABLE extra (id integer)")
        waiting.start()
        wait_until_somebody_waits(one)
    waiting.join(60)
    assert tags == ["UPDATE 1"]
    assert one.execute("SELECT v FROM t WHERE id = 1").fetchone() == (110,)


def test_reader_of_a_view_that_others_replace(sessions):
    one, other = sessions
    one.execute("CREATE TABLE u (id integer PRIMARY KEY, v integer)")
    one.execute("INSERT INTO u VALUES (1, 7)")
    one.execute("CREATE VIEW s AS SELECT sum(v) AS sum FROM t")
    replaced = threading.Event()

    def replace() -> None:
        try:
            for number in range(ROUNDS):
                table = "tu"[number % 2]
                other.execute(f"CREATE OR REPLACE VIEW s AS SELECT sum(v) AS sum FROM {table}")
                other.execute(f"ALTER TABLE {table} ADD COLUMN c{number} integer")
        finally:
            replaced.set()

    replacing = threading.Thread(target=replace)
    replacing.start()
    found = set()
    while not replaced.is_set():
        found.add(one.execute("SELECT * FROM s").fetchone())
        found.add(one.execute("SELECT * FROM s", prepare=True).fetchone())
    replacing.join(60)
    assert found <= {(30,), (7,)}
    assert one.execute("SELECT * FROM s").fetchone() == (7,)
    columns = "SELECT count(*) FROM information_schema.columns WHERE table_name IN ('t', 'u')"
    assert one.execute(columns).fetchone() == (4 + ROUNDS,)


def test_statement_of_postgresql_alone_when_others_make_it_read_a_journal(sessions):
    one, other = sessions
    one.execute("CREATE VIEW s AS SELECT 30 AS sum")
    replaced = threading.Event()

    def replace() -> None:
        try:
            for number in range(ROUNDS):
                query = "SELECT 30 AS sum" if number % 2 else "SELECT sum(v)::integer FROM t"
                with other.transaction():
                    other.execute("DROP VIEW s")
                    other.execute(f"CREATE VIEW s (sum) AS {query}")
        finally:
            replaced.set()

    replacing = threading.Thread(target=replace)
    replacing.start()
    found = set()
    while not replaced.is_set():
        found.add(one.execute("SELECT sum FROM s").fetchone())
        found.add(one.execute("SELECT sum FROM s", prepare=True).fetchone())
    replacing.join(60)
    assert found == {(30,)}


def test_inserted_rows_go_to_the_table_of_the_name(sessions):
    one, other = sessions
    one.execute("CREATE TABLE other (id integer PRIMARY KEY, v integer)")
    swapped = threading.Event()

    def swap() -> None:
        try:
            for _ in range(ROUNDS):
                with other.transaction():
                    other.execute("ALTER TABLE t RENAME TO spare")
                    other.execute("ALTER TABLE other RENAME TO t")
                    other.execute("ALTER TABLE spare RENAME TO other")
        finally:
            swapped.set()

    swapping = threading.Thread(target=swap)
    swapping.start()
    inserted = 2
    while not swapped.is_set():
        inserted += 1
        one.execute(f"INSERT INTO t VALUES ({inserted}, 0)")
        inserted += 1
        with one.cursor().copy("COPY t FROM STDIN") as copy:
            copy.write_row((inserted, 0))
    swapping.join(60)
    counted = "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM other)"
    assert one.execute(counted).fetchone() == (inserted,)


def test_table_that_is_dropped_and_created_again_under_writers(sessions):
    one, other = sessions
    one.execute("TRUNCATE t")
    created = threading.Event()

    def create() -> None:
        try:
            for _ in range(ROUNDS):
                with other.transaction():
                    other.execute("DROP TABLE t")
                    other.execute("CREATE TABLE t (id integer PRIMARY KEY, v integer)")
        finally:
            created.set()

    creating = threading.Thread(target=create)
    creating.start()
    inserted = 0
    while not created.is_set():
        inserted += 1
        assert one.execute(f"INSERT INTO t VALUES ({inserted}, 0)").statusmessage == "INSERT 0 1"
        assert one.execute("UPDATE t SET v = 1").statusmessage.startswith("UPDATE ")
    creating.join(60)
    count, first, last = one.execute("SELECT count(*), min(id), max(id) FROM t").fetchone()
    assert (count, last) in {(0, None), (inserted - first + 1 if first else 0, inserted)}
