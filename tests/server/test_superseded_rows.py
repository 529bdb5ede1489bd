"""Large bases with newer rows are read as in PostgreSQL, by the bitmap of their keys."""

from collections.abc import Iterator

import psycopg
import pytest

from pgwire_gateway.spark.recent_rows import LEAST_BASE_ROWS
from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

ROWS = LEAST_BASE_ROWS + 1000
FILL = """
    INSERT INTO {table}
    SELECT {key}, i % 97, 'row ' || i % 1000 FROM generate_series(1, {rows}) AS i
"""
TABLES = {
    # From below zero over the edges of words; keys with gaps; keys that are far from zero.
    "ints": ("integer", "i - 3000"),
    "bigs": ("bigint", "9000000000000000000 + 3 * i"),
}
CHANGES = """
    UPDATE ints SET v = v + 1000 WHERE id IN (-2999, -1, 0, 1, 63, 64, 65, 4095, 4096, 100000);
    DELETE FROM ints WHERE id IN (2, 3, 66, 250000);
    INSERT INTO ints VALUES (-70000, 1, 'low'), (7000000, 2, 'high'), (3, 3, 'again');
    UPDATE bigs SET v = v + 1000 WHERE id IN (9000000000000000003, 9000000000000000192);
    DELETE FROM bigs WHERE id = 9000000000000300000;
    INSERT INTO bigs VALUES (-5, 5, 'far from all others');
"""
QUERIES = [
    "SELECT count(*), sum(v), min(id), max(id), sum(id::numeric) FROM {table}",
    "SELECT v, count(*) FROM {table} GROUP BY v ORDER BY v",
    "SELECT * FROM {table} WHERE v >= 900 ORDER BY id",
    "SELECT n, v FROM {table} WHERE n = 'row 7' AND v < 5 ORDER BY id LIMIT 20",
    "SELECT count(*) FROM {table} WHERE 1000 / (v + 1) = 1",
]


@pytest.fixture
def sessions(pair: Pair) -> Iterator[list[psycopg.Connection]]:
    """The gateway's connection and PostgreSQL's; their tables have been compacted."""
    with (
        psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True) as ours,
        psycopg.connect(pair.plain.conninfo(pair.database), autocommit=True) as plain,
    ):
        for session in (ours, plain):
            for table, (kind, key) in TABLES.items():
                session.execute(f"CREATE TABLE {table} (id {kind} PRIMARY KEY, v integer, n text)")
                session.execute(FILL.format(table=table, key=key, rows=ROWS))
                session.execute(f"VACUUM {table}")
        yield [ours, plain]


def test_changed_rows_of_large_bases_are_read_as_they_are_now(
    sessions: list[psycopg.Connection],
) -> None:
    ours, _ = sessions

    def compare(when: str) -> None:
        for query in [text.format(table=table) for table in TABLES for text in QUERIES]:
            got, expected = (one.execute(query).fetchall() for one in sessions)
            assert got == expected, (when, query)

    def reads_bitmap(table: str) -> bool:
        explained = ours.execute(f"EXPLAIN (VERBOSE) SELECT count(*), sum(v) FROM {table}")
        return any(f"{table}_recent_keys" in row[0] for row in explained)

    assert not reads_bitmap("ints")
    for session in sessions:
        session.execute(CHANGES)
    assert reads_bitmap("ints")
    assert not reads_bitmap("bigs"), "a key far from all others is no bitmap's"
    compare("changed")
    for session in sessions:
        session.execute("DELETE FROM bigs WHERE id = -5")
        session.execute("VACUUM bigs")
        session.execute("UPDATE bigs SET v = -7 WHERE id = 9000000000000000192")
        session.execute("BEGIN")
        session.execute("UPDATE ints SET v = v + 10000 WHERE id BETWEEN 60 AND 70")
        session.execute("SAVEPOINT s")
        session.execute("DELETE FROM ints WHERE id BETWEEN 90 AND 95")
    assert reads_bitmap("bigs")
    compare("own changes")
    for session in sessions:
        session.execute("ROLLBACK TO s")
    compare("rolled back to a savepoint")
    for session in sessions:
        session.execute("ROLLBACK")
        session.execute("UPDATE ints SET v = -v WHERE v % 2 = 0 AND id < 300000")
    compare("rolled back, and then many rows changed")
