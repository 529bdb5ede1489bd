"""What a statement has put into a catalog table is found without passing what was there before."""

import pytest

pytestmark = pytest.mark.catalog

MOST_BLOCKS = 20
"""Blocks that one row may have looked at, with those it is written to and taken from."""


@pytest.fixture(params=["PRIMARY KEY", ""])
def table(request, client, other, inspector):
    """A tiered table of which an old snapshot keeps all places that rows have passed through."""
    inspector.run("SELECT pg_journal.configure(0, 0, 0)")
    client.run(f"CREATE TABLE t (id int {request.param}, v text)")
    other.session.transaction.begin("BEGIN ISOLATION LEVEL REPEATABLE READ")
    other.run("SELECT 1")
    for first in range(0, 12000, 600):
        client.insert(
            "t", f"INSERT INTO t SELECT g, 'x' FROM generate_series({first}, {first} + 599) g"
        )
    return client.relid("t")


def pages(client, table):
    return int(client.value(f"SELECT pg_relation_size({table}) / 8192") or 0)


def fetched(client, table):
    return int(client.value(f"SELECT pg_stat_get_xact_blocks_fetched({table})") or 0)


def test_a_new_row_is_found_at_the_end(client, connect, table):
    assert pages(client, table) > 2 * MOST_BLOCKS
    # A new session, and one that has written there before.
    for writer, key in ((connect(), -1), (client, -2), (client, -3)):
        writer.session.transaction.begin()
        before = fetched(writer, table)
        _, receipt = writer.insert("t", f"INSERT INTO t VALUES ({key}, 'x')", commit=False)
        assert receipt.count == 1
        assert fetched(writer, table) - before <= MOST_BLOCKS
        writer.session.transaction.commit()


def test_nothing_is_looked_for_where_nothing_has_come(client, table):
    client.session.transaction.begin()
    before = fetched(client, table)
    _, receipt = client.insert("t", "INSERT INTO t SELECT 1, 'x' WHERE false", commit=False)
    assert receipt.count == 0
    assert fetched(client, table) - before <= MOST_BLOCKS
    client.session.transaction.commit()


@pytest.mark.parametrize("rows", [1, 300, 1000])
def test_rows_are_found_wherever_they_have_been_put(client, other, inspector, table, rows):
    # Space in the middle, which a vacuum has made known.
    other.session.transaction.rollback()
    inspector.run("VACUUM (TRUNCATE off) public.t")
    other.session.transaction.begin("BEGIN ISOLATION LEVEL REPEATABLE READ")
    other.run("SELECT 1")
    for step in range(1, 12):
        first = step * 100_000
        client.insert(
            "t",
            f"INSERT INTO t SELECT {first} + g, repeat('x', 300) FROM generate_series(1, {rows}) g",
        )
        assert client.value("SELECT count(*) FROM ONLY t") == "0"
    assert len(client.tail("t")) == 12000 + 11 * rows


def test_rows_of_attempts_that_failed_are_not_missed(client, table):
    client.session.transaction.begin()
    for step in range(1, 6):
        first = step * 100_000
        client.run("SAVEPOINT s")
        client.insert(
            "t",
            f"INSERT INTO t SELECT g, 'x' FROM generate_series({first}, {first} + 99) g",
            commit=False,
        )
        client.run("ROLLBACK TO s")
        client.insert(
            "t",
            f"INSERT INTO t SELECT g, 'x' FROM generate_series({first}, {first} + 9) g",
            commit=False,
        )
    client.session.transaction.commit()
    assert client.value("SELECT count(*) FROM ONLY t") == "0"
    assert len(client.tail("t")) == 12050
