"""Queries that Spark cannot compute, which PostgreSQL answers on rows made hot for them."""

import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered, schema_sessions

pytestmark = pytest.mark.server

SCHEMA = "thawed_reads"

ROWS = 3000

LOAD = (
    "INSERT INTO t SELECT g, g % 30, jsonb_build_object('n', 100)"
    f" FROM generate_series(1, {ROWS}) g"
)

OF_PLACE = "SELECT jsonb_agg(doc->'n'), sum((doc->>'n')::integer) FROM t WHERE place = 3"
"""What Spark has no functions for."""

MOVE = """UPDATE t SET doc = jsonb_build_object('n', (doc->>'n')::integer + %s) WHERE id = %s"""

Sessions = Callable[[], psycopg.Connection]


@pytest.fixture
def sessions(two_tiers_pair: Pair) -> Iterator[Sessions]:
    """Yield what opens sessions in a schema with a tiered table."""
    conninfo = two_tiers_pair.gateway.conninfo(two_tiers_pair.database)
    with schema_sessions(conninfo, SCHEMA) as opened:
        session = opened()
        session.execute("CREATE TABLE t (id integer PRIMARY KEY, place integer, doc jsonb)")
        session.execute(LOAD)  # type: ignore[call-overload]
        make_tiered(session, "t")
        yield opened


def total(session: psycopg.Connection) -> int:
    row = session.execute(OF_PLACE).fetchone()
    assert row is not None
    assert len(row[0]) == ROWS // 30
    return int(row[1])


def test_it_is_told_who_answers(sessions: Sessions) -> None:
    session = sessions()
    assert total(session) == 10_000
    (decision,) = session.execute("SHOW gateway.last_decision").fetchone() or ("",)
    assert decision.startswith("postgres, on thawed rows")
    told = [line for (line,) in session.execute(f"EXPLAIN {OF_PLACE}").fetchall()]
    assert told[0].startswith("postgres, on thawed rows")
    assert any("Seq Scan on t" in line for line in told)
    analysed = [line for (line,) in session.execute(f"EXPLAIN ANALYZE {OF_PLACE}").fetchall()]
    assert "rows=1.00" in analysed[0]


def test_a_refusal_says_what_helps(sessions: Sessions) -> None:
    session = sessions()
    session.execute("ALTER TABLE t SET (gateway.thaw_rows = 50)")
    session.execute("BEGIN READ ONLY")
    with pytest.raises(errors.FeatureNotSupported, match="jsonb") as caught:
        total(session)
    session.execute("ROLLBACK")
    assert "--extract-rows" in (caught.value.diag.message_hint or "")
    assert "more than 50 rows" in (caught.value.diag.message_detail or "")
    assert "read-only transaction" in (caught.value.diag.message_detail or "")


PRODUCT = "SELECT json_build_array(a.id, b.id) FROM t a, t b"
"""300,000 of its rows are more than the 16 MB that are held in memory."""


def test_products_are_larger_than_what_is_held_in_memory(sessions: Sessions) -> None:
    session = sessions()
    few = f"{PRODUCT} WHERE a.id <= %s AND b.id <= 600"
    with session.cursor() as cursor:
        pairs = {tuple(pair) for (pair,) in cursor.stream(few, [500])}
    assert len(pairs) == 500 * 600
    with session.transaction():
        assert session.execute(f"{PRODUCT} LIMIT 7").rowcount == 7
        assert session.execute(few, [500]).rowcount == 500 * 600
    assert session.execute(few, [2]).rowcount == 2 * 600


def test_a_read_in_a_block_keeps_no_lock(sessions: Sessions) -> None:
    reader, writer = sessions(), sessions()
    writer.execute("SET lock_timeout = '2s'")
    with reader.transaction():
        assert total(reader) == 10_000
        writer.execute("SET gateway.executor TO spark")
        writer.execute("UPDATE t SET place = place WHERE id > 0")
        assert total(reader) == 10_000


def test_what_functions_of_users_do_beside_lasts(sessions: Sessions) -> None:
    session = sessions()
    session.execute(
        "CREATE FUNCTION effect() RETURNS text LANGUAGE plpgsql STABLE AS"
        " $$ BEGIN PERFORM set_config('work_mem', '7MB', true); RETURN NULL; END $$"
    )
    try:
        with session.transaction():
            session.execute(
                "SELECT effect(), jsonb_path_query_first(doc, '$.n') FROM t WHERE id = 3"
            )
            assert session.execute("SHOW work_mem").fetchone() == ("7MB",)
    finally:
        session.execute("DROP FUNCTION effect()")


def test_an_insert_takes_rows_in_a_block_that_has_written_its_table(sessions: Sessions) -> None:
    session = sessions()
    session.execute("CREATE TABLE kept (place integer PRIMARY KEY, docs jsonb)")
    make_tiered(session, "kept")
    insert = "INSERT INTO kept SELECT place, jsonb_agg(doc) FROM t WHERE place = %s GROUP BY place"
    with session.transaction():
        for place in (3, 4):
            assert session.execute(insert, [place]).rowcount == 1
            session.execute("SELECT jsonb_agg(docs) FROM kept WHERE place < 10")
    assert session.execute("SELECT count(*) FROM kept").fetchone() == (2,)


def test_rows_may_go_cold_in_between(sessions: Sessions) -> None:
    reader, writer = sessions(), sessions()
    for amount in (1, 2):
        assert total(reader) == 9_999 + amount
        writer.execute(MOVE, (1, 3))
        writer.execute("VACUUM t")


def test_a_role_needs_no_more_than_the_right_to_read(sessions: Sessions) -> None:
    owner, reader = sessions(), sessions()
    owner.execute("DROP ROLE IF EXISTS few_rows_reader")
    owner.execute("CREATE ROLE few_rows_reader")
    owner.execute("GRANT few_rows_reader TO CURRENT_USER")
    try:
        owner.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO few_rows_reader")
        owner.execute("CREATE VIEW shown AS SELECT id, doc FROM t WHERE place = 3")
        reader.execute("SET ROLE few_rows_reader")
        with pytest.raises(errors.InsufficientPrivilege):
            total(reader)
        owner.execute("GRANT SELECT (place, doc) ON t TO few_rows_reader")
        assert total(reader) == 10_000
        with reader.transaction():
            assert total(reader) == 10_000
        with pytest.raises(errors.InsufficientPrivilege):
            reader.execute("SELECT jsonb_path_query_first(doc, '$.n') FROM t WHERE id = 3")
        with pytest.raises(errors.InsufficientPrivilege):
            reader.execute("SELECT jsonb_path_query_first(doc, '$.n') FROM shown")
        owner.execute("GRANT SELECT ON shown TO few_rows_reader")
        assert (
            len(reader.execute("SELECT jsonb_path_query_first(doc, '$.n') FROM shown").fetchall())
            == ROWS // 30
        )
    finally:
        owner.execute("DROP OWNED BY few_rows_reader")
        owner.execute("DROP ROLE few_rows_reader")


@pytest.fixture
def leaves(sessions: Sessions) -> psycopg.Connection:
    """A session with a partitioned table of which two leaves are tiered, and one is resident."""
    session = sessions()
    session.execute(
        "CREATE TABLE p (k integer, v integer, PRIMARY KEY (k, v)) PARTITION BY LIST (k)"
    )
    for leaf in ("p1", "p2", "p3"):
        session.execute(f"CREATE TABLE {leaf} PARTITION OF p FOR VALUES IN ({leaf[1]})")  # type: ignore[call-overload]
    session.execute(
        "INSERT INTO p SELECT k, k * 10 + v FROM generate_series(1, 3) k, generate_series(1, 4) v"
    )
    make_tiered(session, "p1", "p2")
    return session


def test_a_prepared_read_reaches_the_leaves_it_asks_for(leaves: psycopg.Connection) -> None:
    leaves.prepare_threshold = 0
    query = "SELECT to_char(v, 'FM999') FROM p WHERE k = %s::integer"
    for leaf in (1, 2, 1, 3):
        found = leaves.execute(query, [leaf]).fetchall()
        assert sorted(found) == [(str(leaf * 10 + number),) for number in range(1, 5)]


def test_resident_leaves_alone_are_not_read_on_hot_rows(leaves: psycopg.Connection) -> None:
    leaves.execute("CREATE TABLE r (id integer)")
    leaves.execute("INSERT INTO r VALUES (32), (12)")
    query = "SELECT to_char(p.v, 'FM999') FROM p JOIN r ON r.id = p.v WHERE p.k = 3"
    assert leaves.execute(query).fetchall() == [("32",)]
    (decision,) = leaves.execute("SHOW gateway.last_decision").fetchone() or ("",)
    assert decision.startswith("spark, then postgres")


def test_explain_tells_of_an_insert_that_takes_its_rows_from_hot_ones(sessions: Sessions) -> None:
    session = sessions()
    session.execute("CREATE TABLE kept (place integer PRIMARY KEY, docs jsonb)")
    make_tiered(session, "kept")
    statement = (
        "INSERT INTO kept SELECT place, jsonb_agg(doc) FROM t WHERE place = 3 GROUP BY place"
    )
    (told, *_) = session.execute(f"EXPLAIN {statement}").fetchall()
    assert told[0].startswith("postgres, on thawed rows")
    (told, *_) = session.execute(f"EXPLAIN ANALYZE {statement}").fetchall()
    assert told[0].startswith("postgres, on thawed rows")
    assert session.execute("SELECT place FROM kept").fetchall() == [(3,)]


def test_what_writers_leave_as_it_is_never_differs(sessions: Sessions) -> None:
    reader, ended, failed = sessions(), threading.Event(), []

    def move(session: psycopg.Connection, rows: range) -> None:
        """Take from one row what another one gets, many times."""
        try:
            for round_ in range(1000):
                if ended.is_set():
                    return
                one, other = rows[round_ % len(rows)], rows[(round_ * 7 + 1) % len(rows)]
                with session.transaction():
                    session.execute(MOVE, (-1, one))
                    session.execute(MOVE, (1, other))
        except psycopg.Error as error:
            failed.append(error)

    def cool(session: psycopg.Connection) -> None:
        """Let rows go cold, and change the table as a whole."""
        try:
            while not ended.wait(0.2):
                session.execute("VACUUM t")
                session.execute("SET gateway.executor TO spark")
                session.execute("UPDATE t SET id = id WHERE place < 5")
                session.execute("RESET gateway.executor")
        except psycopg.Error as error:
            failed.append(error)

    # Rows of the place, and a part of them for each writer.
    parts = [range(3, ROWS, 90), range(33, ROWS, 90), range(63, ROWS, 90)]
    threads = [threading.Thread(target=move, args=(sessions(), part)) for part in parts]
    threads.append(threading.Thread(target=cool, args=(sessions(),)))
    for thread in threads:
        thread.start()
    try:
        found = {total(reader) for _ in range(25)}
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert found == {10_000}
    assert not failed
