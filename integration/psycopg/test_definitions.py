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
