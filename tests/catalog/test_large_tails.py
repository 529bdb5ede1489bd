"""Tails whose rows are many bytes: they travel in parts, and rows that could not are refused."""

import pytest

from catalog.connection.libpq_results import chunk_rows
from catalog.errors import GatewayError
from catalog.hot import resident_upkeep
from catalog.results import SnapshotRequest
from catalog.upkeep import candidates as upkeep

pytestmark = pytest.mark.catalog

ROWS = "SELECT g, repeat('\"', g), decode(repeat('0a', g), 'hex') FROM generate_series(1, {}) g"


@pytest.fixture
def bounded(inspector, client):
    """A client of a database where parts and rows are small; new tables are tiered."""
    inspector.run("SELECT pg_journal.configure(0, 0, 0)")
    inspector.run("UPDATE pg_journal.instance SET part_bytes = 30000, row_bytes = 100000")
    client.run("CREATE TABLE t (a int PRIMARY KEY, b text, c bytea)")
    return client


MIXED = "(SELECT string_agg(md5(n::text), '') FROM generate_series(g, g + {} - 1) n)"
"""Text that can hardly be compressed, of 32 characters so many times."""


def _fetched(client, table, **known):
    (tail,) = client.session.observations.snapshot(
        [SnapshotRequest(client.relid(table), **known)]
    ).tails.values()
    return tail, sorted((row[0], row[1], row[2]) for piece in tail.pieces() for row in piece)


def _expected(*numbers):
    return [(number, '"' * number, "0a" * number) for number in numbers]


def test_a_small_tail_comes_with_what_is_seen_of_its_table(bounded):
    bounded.insert("t", f"INSERT INTO t {ROWS.format(5)}")
    tail, rows = _fetched(bounded, "t")
    assert (tail.parts, rows) == ((), _expected(*range(1, 6)))


def test_a_large_tail_comes_in_parts(bounded):
    bounded.insert("t", f"INSERT INTO t {ROWS.format(300)}")
    tail, rows = _fetched(bounded, "t")
    assert not tail.rows
    assert len(tail.parts) == 7
    assert max(map(len, tail.parts)) < 60_000
    assert rows == _expected(*range(1, 301))


def test_of_a_known_tail_only_what_has_come_is_sent_in_parts(bounded):
    bounded.insert("t", f"INSERT INTO t {ROWS.format(300)}")
    known = bounded.state("t")
    bounded.insert("t", "INSERT INTO t VALUES (1000, repeat('\"', 1000), '')")
    tail, rows = _fetched(bounded, "t", known_state=known)
    assert (tail.increment, tail.parts) == (True, ())
    assert rows == [(1000, '"' * 1000, "")]
    known = bounded.state("t")
    more = "SELECT g, repeat('\"', g), '' FROM generate_series(301, 500) g"
    bounded.insert("t", f"INSERT INTO t {more}")
    tail, rows = _fetched(bounded, "t", known_state=known)
    assert (tail.increment, len(tail.parts)) == (True, 5)
    assert [row[0] for row in rows] == list(range(301, 501))


def test_tails_of_many_tables_share_what_comes_with_them(bounded):
    bounded.run("CREATE TABLE u (a int PRIMARY KEY, b text, c bytea)")
    for table in "tu":
        bounded.insert(table, f"INSERT INTO {table} {ROWS.format(60)}")
    assert not _fetched(bounded, "t")[0].parts
    both = [SnapshotRequest(bounded.relid(table)) for table in "tu"]
    tails = bounded.session.observations.snapshot(both).tails
    assert [len(tail.parts) for tail in tails.values()] == [1, 1]
    for tail in tails.values():
        (rows,) = tail.pieces()
        assert sorted(row[0] for row in rows) == list(range(1, 61))


def test_the_tail_of_a_resident_table_comes_in_parts(inspector, client):
    inspector.run("UPDATE pg_journal.instance SET part_bytes = 30000")
    client.run("CREATE TABLE t (a int PRIMARY KEY, b text, c bytea)")
    client.run(f"INSERT INTO t {ROWS.format(300)}")
    client.run("DELETE FROM t WHERE a = 7")
    tail, rows = _fetched(client, "t")
    assert (tail.increment, len(tail.parts)) == (False, 7)
    assert rows == _expected(*range(1, 8), *range(7, 301))


@pytest.mark.parametrize("residency", ["tiered", "resident"])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("text", "repeat('x', {0})"),
        ("bytea", "decode(repeat('00', {0} / 2), 'hex')"),
        ("varchar(200000)", "repeat('x', {0})"),
        ("int[]", "array_fill(1, ARRAY[{0} / 2])"),
        ("jsonb", "to_jsonb(repeat('x', {0}))"),
        ("numeric", "10::numeric ^ {0}"),
    ],
)
def test_a_row_that_is_too_large_is_refused_when_it_is_written(
    bounded, inspector, residency, column, value
):
    if residency == "resident":
        inspector.run("SELECT pg_journal.configure(100000, 67108864, 1000000)")
    bounded.run(f"CREATE TABLE d (a int PRIMARY KEY, v {column})")

    def insert(size):
        sql = f"INSERT INTO d VALUES ({size}, {value.format(size)})"
        return bounded.insert("d", sql) if residency == "tiered" else bounded.run(sql)

    insert(65_000), insert(90_000)
    with pytest.raises(GatewayError, match="row is too big for a journaled table") as caught:
        insert(101_000)
    assert caught.value.sqlstate == "54000"
    assert len(bounded.tail("d")) == 2


def test_rows_are_bounded_by_the_columns_a_table_has_now(inspector, client):
    inspector.run("UPDATE pg_journal.instance SET row_bytes = 100000")
    client.run("CREATE TABLE t (a int PRIMARY KEY, b text)")
    client.run("ALTER TABLE t ADD COLUMN c text")
    client.run("ALTER TABLE t DROP COLUMN b")
    client.run("INSERT INTO t VALUES (1, repeat('x', 90000))")
    assert client.sqlstate("UPDATE t SET c = repeat('x', 101000)") == "54000"
    client.run("ALTER TABLE t ALTER COLUMN c TYPE bytea USING 'x'")
    client.run("UPDATE t SET c = decode(repeat('00', 45000), 'hex')")
    assert client.sqlstate("UPDATE t SET c = c || c") == "54000"
    client.run("ALTER TABLE t ALTER COLUMN c TYPE int USING 1")
    client.run("UPDATE t SET c = 2")
    assert client.run("SELECT * FROM t") == [("1", "2")]


def test_many_bytes_are_not_put_inline(bounded):
    values = f"INSERT INTO t SELECT g, {MIXED.format(300)}, '' FROM generate_series(1, 3) g"
    _, receipt = bounded.insert("t", values, inline_bytes=20_000, commit=False)
    assert (receipt.count, receipt.captured) == (3, False)
    bounded.session.transaction.rollback()
    _, receipt = bounded.insert("t", values, inline_bytes=40_000)
    assert (receipt.count, receipt.captured) == (3, True)


@pytest.mark.parametrize("residency", ["tiered", "resident"])
def test_upkeep_is_told_of_tails_of_many_bytes(bounded, inspector, residency):
    if residency == "resident":
        inspector.run("SELECT pg_journal.configure(100000, 67108864, 1000000)")
    bounded.run("CREATE TABLE d (a int PRIMARY KEY, v text)")
    values = f"INSERT INTO d SELECT g, {MIXED.format(1000)} FROM generate_series(1, 10) g"
    if residency == "tiered":
        bounded.insert("d", values)
        assert upkeep.large_tails(inspector.session, 100, 300_000) == [bounded.relid("d")]
        assert upkeep.large_tails(inspector.session, 100, 400_000) == []
    else:
        bounded.run(values)
        bounded.run("SELECT pg_stat_force_next_flush()")
        (table,) = resident_upkeep.resident_tables(inspector.session, {}, 0.0)
        assert 320_000 < table.tail_bytes < 330_000


def test_rows_of_many_bytes_are_taken_one_by_one(bounded, inspector):
    bounded.insert("t", f"INSERT INTO t {ROWS.format(50)}")
    with resident_upkeep.tail_read(inspector.session, bounded.relid("t")) as reading:
        assert reading.size_bytes == 50 * 240 + 3 * 1275
        assert len(list(reading.lines)) == 50
    assert [chunk_rows(size) for size in (0, 50_000, 1 << 20, 1 << 28)] == [100, 83, 4, 1]


@pytest.mark.parametrize("key", ["", "PRIMARY KEY"])
def test_what_has_gone_without_key_depends_on_what_was_there(inspector, client, key):
    client.run(f"CREATE TABLE t (a int {key})")
    relid = client.relid("t")
    client.run("INSERT INTO t VALUES (1), (2)")
    assert resident_upkeep.stands_alone(inspector.session, relid)
    client.run("DELETE FROM t WHERE a = 1")
    assert resident_upkeep.stands_alone(inspector.session, relid) == bool(key)
    client.run("TRUNCATE t")
    assert not resident_upkeep.stands_alone(inspector.session, relid)


@pytest.mark.parametrize("resident", [False, True])
def test_defaults_of_rows_that_are_there_count(bounded, inspector, resident):
    if resident:
        inspector.run("SELECT pg_journal.configure(10000, 1000000, 1000000)")
        bounded.run("DROP TABLE t")
        bounded.run("CREATE TABLE t (a int PRIMARY KEY, b text, c bytea)")
        bounded.run(f"INSERT INTO t {ROWS.format(30)}")
    else:
        bounded.insert("t", f"INSERT INTO t {ROWS.format(30)}")
    relid = bounded.relid("t")
    assert resident_upkeep.tail_bytes(inspector.session, relid) == 0
    bounded.run("ALTER TABLE t ADD COLUMN d text DEFAULT repeat('x', 9000)")
    assert resident_upkeep.tail_bytes(inspector.session, relid) > 30 * 9000
    tail, rows = _fetched(bounded, "t")
    assert len(tail.parts) > 9
    assert len(rows) == 30


def test_defaults_that_no_row_could_hold_are_refused(bounded):
    add = "ALTER TABLE t ADD COLUMN {} text DEFAULT repeat('x', {})"
    bounded.insert("t", f"INSERT INTO t {ROWS.format(3)}")
    assert bounded.sqlstate(add.format("d", 100001)) == "54000"
    bounded.run(add.format("d", 60000))
    assert bounded.sqlstate(add.format("e", 60000)) == "54000"
    bounded.run("ALTER TABLE t DROP COLUMN d")
    bounded.run(add.format("e", 60000))
    assert len(bounded.tail("t")) == 3


def test_a_default_for_new_rows_alone_is_not_bounded(bounded):
    bounded.run("ALTER TABLE t ADD COLUMN d text DEFAULT repeat('x', 100001)")
    with pytest.raises(GatewayError, match="row is too big"):
        bounded.insert("t", "INSERT INTO t VALUES (1)")
    bounded.session.transaction.rollback()
    bounded.insert("t", "INSERT INTO t VALUES (1, NULL, NULL, 'x')")
