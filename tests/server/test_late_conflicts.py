"""ON CONFLICT with rows of a tiered table that are known when the statement has run, or failed."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered, schema_sessions

pytestmark = pytest.mark.server

SCHEMA = "late_conflicts"

HIDDEN = (
    "INSERT INTO t VALUES (4 + length('a'), 60) ON CONFLICT (id) DO UPDATE SET n = t.n + 1"
    " RETURNING n"
)
"""Row 6 has the value; whether there is a row 5 is known too late."""

Connect = Callable[[], psycopg.Connection]


@pytest.fixture
def sessions(two_tiers_pair: Pair) -> Iterator[Connect]:
    """Yield what opens sessions beside tiered tables whose rows are cold."""
    conninfo = two_tiers_pair.gateway.conninfo(two_tiers_pair.database)
    with schema_sessions(conninfo, SCHEMA) as opened:
        first = opened()
        first.execute("CREATE TABLE t (id serial PRIMARY KEY, u integer UNIQUE, n integer)")
        first.execute("INSERT INTO t SELECT g, g * 10, 0 FROM generate_series(1, 40) g")
        make_tiered(first, "t")
        # The row that is in the way of others is hot.
        first.execute("UPDATE t SET n = 0 WHERE u = 60")
        yield opened
        assert first.execute("SELECT gateway.check('t')").fetchall() == [(0,)]


def test_clients_hear_nothing_of_what_is_looked_for(sessions: Connect) -> None:
    one = sessions()
    heard: list[str | None] = []
    one.add_notice_handler(lambda notice: heard.append(notice.message_primary))
    one.execute("SET client_min_messages = debug1")
    assert one.execute(HIDDEN).fetchall() == [(1,)]
    with one.transaction():
        assert one.execute(HIDDEN.replace("(4", "(6")).fetchall() == [(1,)]
        told = one.execute("SELECT current_setting('pg_journal.telling', true)").fetchall()
        assert told == [("",)]
        assert one.execute(HIDDEN.replace("(4", "(7")).fetchall() == [(1,)]
    with pytest.raises(errors.UniqueViolation):
        one.execute(HIDDEN.replace("(4", "(400"))
    assert heard == []


def test_a_sequence_that_is_behind_fails_by_the_key(sessions: Connect) -> None:
    one = sessions()
    one.execute("ALTER SEQUENCE t_id_seq RESTART 7")
    drawn = "INSERT INTO t (u) VALUES (%s) ON CONFLICT (u) DO UPDATE SET n = 9"
    with pytest.raises(errors.UniqueViolation) as caught:
        one.execute(drawn, [5000])
    assert caught.value.diag.constraint_name == "t_pkey"
    assert one.execute(drawn, [60]).statusmessage == "INSERT 0 1"
    assert one.execute("SELECT id, u FROM t WHERE n = 9").fetchall() == [(6, 60)]


def test_each_of_many_conflicts_is_found_while_rows_go_cold(sessions: Connect) -> None:
    writers = [sessions() for _ in range(3)]
    other, times = sessions(), 12

    def write(connection: psycopg.Connection) -> None:
        for _ in range(times):
            connection.execute(HIDDEN)

    with ThreadPoolExecutor(len(writers)) as pool:
        running = [pool.submit(write, writer) for writer in writers]
        while not all(one.done() for one in running):
            other.execute("VACUUM t")
            other.execute("UPDATE t SET n = n WHERE u = 60")
    for one in running:
        one.result()
    found = other.execute("SELECT id, u, n FROM t WHERE n <> 0").fetchall()
    assert found == [(5, 50, times * len(writers))]


def test_keys_that_are_computed_are_those_of_one_row(sessions: Connect) -> None:
    writers, times = [sessions() for _ in range(3)], 8
    other = sessions()

    def write(connection: psycopg.Connection) -> None:
        for _ in range(times):
            connection.execute("UPDATE t SET id = id + 100 WHERE u = 70")

    with ThreadPoolExecutor(len(writers)) as pool:
        running = [pool.submit(write, writer) for writer in writers]
        while not all(one.done() for one in running):
            other.execute("VACUUM t")
    for one in running:
        one.result()
    moved = other.execute("SELECT id FROM t WHERE u = 70").fetchall()
    assert moved == [(7 + 100 * times * len(writers),)]
    assert other.execute("SELECT count(*) FROM t").fetchall() == [(40,)]


def test_rows_are_found_by_arrays(sessions: Connect) -> None:
    one = sessions()
    one.execute(
        "CREATE TABLE a (id serial PRIMARY KEY, u text, l integer[], n integer DEFAULT 0,"
        " UNIQUE (u, l))"
    )
    one.execute("INSERT INTO a (u, l) SELECT 'u' || g, ARRAY[g, NULL] FROM generate_series(1, 5) g")
    make_tiered(one, "a")
    met = "INSERT INTO a (u, l) VALUES (%s, %s) ON CONFLICT (u, l) DO UPDATE SET n = a.n + 1"
    for _ in range(2):
        one.execute(met, ["u1", [1, None]])
    one.execute(met, ["u1", [2, None]])
    one.execute("INSERT INTO a (u, l) VALUES ('u2', '{2,NULL}') ON CONFLICT DO NOTHING")
    with pytest.raises(errors.UniqueViolation):
        one.execute("INSERT INTO a (u, l) VALUES ('u3', '{3,NULL}') ON CONFLICT (id) DO NOTHING")
    counted = one.execute("SELECT u, l, n FROM a WHERE u IN ('u1', 'u2', 'u3') ORDER BY u, l")
    assert counted.fetchall() == [
        ("u1", [1, None], 2),
        ("u1", [2, None], 0),
        ("u2", [2, None], 0),
        ("u3", [3, None], 0),
    ]
    assert one.execute("SELECT gateway.check('a')").fetchall() == [(0,)]


LOOKS_DIFFERENT = {
    "an interval": ("interval", "1 day", "interval '24:00:00'"),
    "characters": ("bpchar", "a", "'a  '"),
    "a float": ("float8", "0", "'-0'"),
}


@pytest.mark.parametrize("case", LOOKS_DIFFERENT)
def test_values_that_look_different_are_in_conflict(sessions: Connect, case: str) -> None:
    kind, held, same = LOOKS_DIFFERENT[case]
    one = sessions()
    one.execute(f"CREATE TABLE v (id serial PRIMARY KEY, u {kind} UNIQUE, n integer DEFAULT 0)")
    one.execute(f"INSERT INTO v (u) VALUES ('{held}')")
    make_tiered(one, "v")
    one.execute(f"INSERT INTO v (u) VALUES ({same}) ON CONFLICT (u) DO UPDATE SET n = v.n + 1")
    assert one.execute("SELECT u::text, n FROM v").fetchall() == [(held, 1)]


def test_what_spark_cannot_compare_is_refused(sessions: Connect) -> None:
    one = sessions()
    one.execute("CREATE TABLE v (id serial PRIMARY KEY, u interval UNIQUE)")
    one.execute("INSERT INTO v (u) VALUES ('1 day')")
    make_tiered(one, "v")
    with pytest.raises(errors.FeatureNotSupported, match="text as interval"):
        one.execute("INSERT INTO v (u) VALUES ('24:00:00') ON CONFLICT DO NOTHING")
    assert one.execute("SELECT u::text FROM v").fetchall() == [("1 day",)]
