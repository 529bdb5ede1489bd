"""psycopg 3 in pipeline mode."""

from collections.abc import Iterator

import psycopg
import pytest


@pytest.fixture
def connection(gateway, database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.conninfo(database), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)")
        yield connection


def test_statements_are_answered_in_order(connection):
    with connection.pipeline():
        cursors = [
            connection.execute("INSERT INTO t VALUES (%s, %s) RETURNING id", [n, f"row {n}"])
            for n in range(5)
        ]
        counted = connection.execute("SELECT count(*), max(v) FROM t")
    assert [cursor.fetchone() for cursor in cursors] == [(n,) for n in range(5)]
    assert counted.fetchone() == (5, "row 4")


def test_error_aborts_what_follows_up_to_the_sync(connection):
    with pytest.raises(psycopg.errors.UniqueViolation), connection.pipeline():  # noqa: PT012 - the block fails
        connection.execute("INSERT INTO t VALUES (1, 'a')")
        connection.execute("INSERT INTO t VALUES (1, 'again')")
        connection.execute("INSERT INTO t VALUES (2, 'skipped')")
    assert connection.execute("SELECT count(*) FROM t WHERE id = 2").fetchone() == (0,)


def test_sync_parts_the_transactions(connection):
    with connection.pipeline() as pipeline:
        connection.execute("INSERT INTO t VALUES (1, 'kept')")
        pipeline.sync()
        with pytest.raises(psycopg.errors.DivisionByZero):  # noqa: PT012 - the error comes with the sync
            connection.execute("INSERT INTO t VALUES (2, 'lost')")
            connection.execute("SELECT id / 0 FROM t")
            pipeline.sync()
        connection.execute("INSERT INTO t VALUES (3, 'kept')")
    assert connection.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (3,)]


def test_an_error_among_many_that_return_rows(connection):
    """They are asked for with Flush: nothing else tells the server to answer."""
    connection.execute("CREATE TABLE many (id integer PRIMARY KEY, v integer CHECK (v < 10))")
    connection.execute("INSERT INTO many VALUES (1, 1)")
    update = "UPDATE many SET v = v + %s WHERE id = 1 RETURNING v"
    with pytest.raises(psycopg.errors.CheckViolation), connection.pipeline():
        connection.cursor().executemany(update, [(1,), (100,), (1,)], returning=True)
    connection.rollback()
    assert connection.execute("SELECT v FROM many").fetchall() == [(1,)]


def test_transaction_in_a_pipeline(connection):
    with connection.pipeline(), connection.transaction():
        connection.execute("INSERT INTO t VALUES (1, 'a')")
        updated = connection.execute("UPDATE t SET v = 'b' RETURNING v")
        assert updated.fetchone() == ("b",)
    assert connection.execute("SELECT * FROM t").fetchall() == [(1, "b")]
