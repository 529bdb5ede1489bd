"""Queries that Spark cannot compute, of many rows: PostgreSQL computes them over extracts."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import Pair
from tests.support.sampling import crossed
from tests.support.servers import GatewayProcess
from tests.support.tiers import make_tiered, schema_sessions

pytestmark = pytest.mark.server

SCHEMA = "extracted_reads"

TABLES = """
CREATE TABLE visit (
    id integer PRIMARY KEY, place integer, at timestamp, cost numeric(8,2), note text, tags text[],
    doc jsonb
);
CREATE TABLE place (id integer PRIMARY KEY, parent integer, name text);
CREATE TABLE rate (place integer PRIMARY KEY, factor numeric(4,2));
INSERT INTO visit
SELECT g, g % 40, timestamp '2025-01-01' + g * interval '53 minutes', g % 70 * 1.25,
    CASE WHEN g % 4 > 0 THEN 'note ' || g END, ARRAY['t' || g % 3, 'u' || g % 5],
    jsonb_build_object('a', g % 7, 'b', jsonb_build_array(g))
FROM generate_series(1, 600) g;
INSERT INTO place SELECT g, nullif(g / 3, 0), 'place ' || g FROM generate_series(1, 40) g;
INSERT INTO rate SELECT g, g * 0.5 FROM generate_series(1, 20) g;
CREATE VIEW dear AS SELECT id, place, cost FROM visit WHERE cost > 60;
CREATE VIEW told (number, told, place) AS
SELECT v.id, format('%s in %s', v.id, p.name), v.place FROM visit v JOIN place p ON p.id = v.place;
CREATE VIEW usual AS
SELECT place, mode() WITHIN GROUP (ORDER BY cost) AS cost, count(*) AS n FROM visit GROUP BY place;
CREATE VIEW both_of_them AS
WITH t AS (SELECT number, told.place FROM told)
SELECT t.number, usual.* FROM t JOIN usual USING (place)
"""

TIERED = ("visit", "place")

QUERIES = [
    line
    for line in Path(__file__).with_name("extracted_reads.sql").read_text().splitlines()
    if not line.startswith("--")
]

Sessions = Callable[[], psycopg.Connection]


def fill(session: psycopg.Connection) -> None:
    for statement in TABLES.split(";"):
        session.execute(statement)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def sessions(two_tiers_pair: Pair) -> Iterator[Sessions]:
    """Yield what opens sessions in a schema with tables of which no row becomes hot."""
    conninfo = two_tiers_pair.gateway.conninfo(two_tiers_pair.database)
    with schema_sessions(conninfo, SCHEMA) as opened:
        session = opened()
        fill(session)
        make_tiered(session, *TIERED)
        for table in TIERED:
            session.execute(f"ALTER TABLE {table} SET (gateway.thaw_rows = 0)")  # type: ignore[call-overload]
        yield opened


@pytest.fixture
def session(sessions: Sessions) -> Iterator[psycopg.Connection]:
    with sessions() as session:
        yield session


@pytest.fixture(scope="module")
def plain(two_tiers_pair: Pair) -> Iterator[psycopg.Connection]:
    conninfo = two_tiers_pair.plain.conninfo(two_tiers_pair.database)
    with schema_sessions(conninfo, SCHEMA) as opened:
        session = opened()
        fill(session)
        yield session


def answer(session: psycopg.Connection, query: str, *, in_block: bool = False) -> object:
    """Return the columns and rows of a query, or the SQLSTATE of its error."""
    try:
        if in_block:
            with session.transaction():
                return answer(session, query)
        cursor = session.execute(query)  # type: ignore[call-overload]
    except psycopg.Error as error:
        return error.sqlstate
    return [(c.name, c.type_code) for c in cursor.description or ()], cursor.fetchall()


def decision(session: psycopg.Connection) -> str:
    (told,) = session.execute("SHOW gateway.last_decision").fetchone() or ("",)
    return str(told)


@pytest.mark.parametrize(("query", "in_block"), crossed(QUERIES, [False, True]))
def test_it_is_what_postgresql_answers(
    query: str, in_block: bool, session: psycopg.Connection, plain: psycopg.Connection
) -> None:
    expected = answer(plain, query)
    assert answer(session, query, in_block=in_block) == expected
    if not isinstance(expected, str):
        assert decision(session).startswith("spark, then postgres")


def test_what_is_false_before_keeps_the_rest_from_failing(session: psycopg.Connection) -> None:
    query = "SELECT jsonb_agg(id ORDER BY id) FROM visit WHERE %s::boolean AND 10 / (id - id) > 0"
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert session.execute(query, [False]).fetchall() == [(None,)]
    with pytest.raises(errors.DivisionByZero):
        session.execute(query, [True])


def test_parameters_have_their_values(session: psycopg.Connection) -> None:
    query = "SELECT gcd(id, %s), note FROM visit WHERE place = %s ORDER BY id LIMIT %s"
    for place in (3, 5, 3, 5, 3, 5, 3):
        found = session.execute(query, [10, place, 2], prepare=True).fetchall()
        assert found == [
            (gcd, f"note {number}" if number % 4 else None)
            for number, gcd in (
                (place, 5 if place == 5 else 1),
                (place + 40, 1 if place == 3 else 5),
            )
        ]


def test_explain_tells_of_the_extracts(session: psycopg.Connection) -> None:
    session.execute("CREATE TABLE noted (place integer, note text)")
    session.execute("INSERT INTO noted SELECT g % 9, 'note ' || g FROM generate_series(1, 99) g")
    make_tiered(session, "noted")
    query = "SELECT jsonb_agg(note) FROM noted WHERE place = 3"
    told = [line for (line,) in session.execute(f"EXPLAIN {query}").fetchall()]
    assert told[0].startswith("spark, then postgres")
    assert any("Spark SQL of extract_1" in line for line in told)
    assert any("Seq Scan on extract_1" in line for line in told)
    analysed = [line for (line,) in session.execute(f"EXPLAIN ANALYZE {query}").fetchall()]
    assert "rows=1.00" in analysed[0]


def test_a_refusal_says_why_not(session: psycopg.Connection) -> None:
    with pytest.raises(errors.FeatureNotSupported, match="TABLESAMPLE") as caught:
        session.execute("SELECT gcd(a.id, b.id) FROM visit a TABLESAMPLE SYSTEM (50), visit b")
    assert "over extracts" in (caught.value.diag.message_detail or "")
    assert "--extract-rows" in (caught.value.diag.message_hint or "")
    with pytest.raises(errors.FeatureNotSupported):
        session.execute("SELECT pg_typeof(v), row_to_json(v) FROM visit v")
    with pytest.raises(errors.FeatureNotSupported):
        session.execute("SELECT row_to_json(p) FROM place AS p (number)")
    with pytest.raises(errors.FeatureNotSupported):
        session.execute("SELECT gcd(id, 4), ctid FROM visit")


def test_what_the_transaction_has_written_is_seen(session: psycopg.Connection) -> None:
    query = "SELECT jsonb_agg(cost ORDER BY id) FROM visit WHERE place = 39 AND id < 100"
    with session.transaction(force_rollback=True):
        session.execute("UPDATE visit SET cost = 1 WHERE id = 39")
        session.execute("DELETE FROM visit WHERE id = 79")
        session.execute("INSERT INTO visit (id, place, cost) VALUES (-1, 39, 5)")
        assert session.execute(query).fetchall() == [([5.00, 1.00],)]
    assert session.execute(query).fetchall() == [([48.75, 11.25],)]


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_a_block_keeps_no_lock(sessions: Sessions, level: str) -> None:
    reader, writer = sessions(), sessions()
    writer.execute("SET lock_timeout = '2s'; SET gateway.executor TO spark")
    query = "SELECT jsonb_agg(id ORDER BY id) FROM place WHERE name = 'place 7'"
    reader.execute(f"BEGIN ISOLATION LEVEL {level}")  # type: ignore[call-overload]
    assert reader.execute(query).fetchall() == [([7],)]
    writer.execute("UPDATE place SET parent = parent WHERE id > 0")
    assert reader.execute(query).fetchall() == [([7],)]
    reader.execute("COMMIT")


def test_a_block_that_reads_only_may_not_ask(session: psycopg.Connection) -> None:
    session.execute("BEGIN READ ONLY")
    with pytest.raises(errors.FeatureNotSupported, match="jsonb_agg"):
        session.execute("SELECT jsonb_agg(id ORDER BY id) FROM place")


def test_a_block_goes_on_from_its_savepoint(session: psycopg.Connection) -> None:
    with session.transaction():
        session.execute("SELECT 1 FROM place LIMIT 1")
        with pytest.raises(errors.DivisionByZero), session.transaction():
            session.execute("SELECT jsonb_build_array(10 / (id - 3)) FROM place")
        assert session.execute("SELECT gcd(id, 9) FROM place WHERE id = 6").fetchall() == [(3,)]


def test_a_serializable_session_may_ask(session: psycopg.Connection) -> None:
    session.execute("SET default_transaction_isolation = serializable")
    query = "SELECT jsonb_agg(id), current_setting('transaction_isolation') FROM place WHERE id = 3"
    assert session.execute(query).fetchall() == [([3], "serializable")]
    assert session.execute(query).fetchall() == [([3], "serializable")]


def test_rows_come_by_all_ways(session: psycopg.Connection) -> None:
    query = "SELECT id, gcd(id, 12) FROM visit ORDER BY gcd(id, 12), id"
    expected = session.execute(query).fetchall()
    with session.pipeline():
        cursors = [session.execute(query, binary=binary) for binary in (False, True)]
    assert [cursor.fetchall() for cursor in cursors] == [expected, expected]
    with session.cursor() as cursor:
        assert list(cursor.stream(query)) == expected


def test_there_is_a_bound(tmp_path: Path) -> None:
    options = ("--resident-rows=0", "--thaw-rows=0", "--extract-rows=50")
    with (
        GatewayProcess(tmp_path / "gateway", *options) as process,
        psycopg.connect(process.address.conninfo(), autocommit=True) as session,
    ):
        session.execute("CREATE TABLE t (id integer PRIMARY KEY)")
        session.execute("INSERT INTO t SELECT g FROM generate_series(1, 60) g")
        total = "SELECT sum(gcd(id, 1)) FROM t WHERE id <= %s"
        assert session.execute(total, [50]).fetchall() == [(50,)]
        with pytest.raises(errors.FeatureNotSupported, match="gcd") as caught:
            session.execute(total, [51])
        assert "more than 50 rows" in (caught.value.diag.message_detail or "")
        both = (
            "SELECT count(*) FROM t a, t b WHERE gcd(a.id, b.id) = b.id AND b.id = 1 AND a.id < %s"
        )
        assert session.execute(both, [50]).fetchall() == [(49,)]
        with pytest.raises(errors.FeatureNotSupported):
            session.execute(both, [51])


def test_there_is_a_bound_in_bytes(tmp_path: Path) -> None:
    options = ("--resident-rows=0", "--thaw-rows=0", "--extract-bytes=1000000")
    with (
        GatewayProcess(tmp_path / "gateway", *options) as process,
        psycopg.connect(process.address.conninfo(), autocommit=True) as session,
    ):
        session.execute("CREATE TABLE t (id integer PRIMARY KEY, v text)")
        session.execute("INSERT INTO t SELECT g, repeat('x', 50000) FROM generate_series(1, 60) g")
        total = "SELECT sum(length(v) + gcd(id, 1)) FROM t WHERE id <= %s"
        assert session.execute(total, [10]).fetchall() == [(10 * 50_001,)]
        with pytest.raises(errors.FeatureNotSupported, match="gcd") as caught:
            session.execute(total, [21])
        assert "more than 1000000 bytes" in (caught.value.diag.message_detail or "")
        assert "--extract-bytes" in (caught.value.diag.message_hint or "")
        # All extracts count together, and only the columns that are read.
        both = "SELECT count(*) FROM t a, t b WHERE a.v || gcd(b.id, 1) <> b.v AND a.id + b.id < 1"
        with pytest.raises(errors.FeatureNotSupported):
            session.execute(both)
        assert session.execute("SELECT sum(gcd(id, 1)) FROM t").fetchall() == [(60,)]
        temporary = "SELECT count(*) FROM pg_class WHERE relpersistence = 't'"
        assert session.execute(temporary).fetchall() == [(0,)]


def test_a_session_that_reads_only_may_ask(session: psycopg.Connection) -> None:
    session.execute("CREATE SEQUENCE drawn")
    session.execute("SET default_transaction_read_only = on")
    query = "SELECT jsonb_agg(id ORDER BY id) {} FROM place WHERE id < 3"
    assert session.execute(query.format("")).fetchall() == [([1, 2],)]  # type: ignore[call-overload]
    told = session.execute(f"EXPLAIN {query.format('')}").fetchall()  # type: ignore[call-overload]
    assert told[0][0].startswith("spark, then postgres") or "thawed" in told[0][0]
    with pytest.raises(errors.ReadOnlySqlTransaction):
        session.execute(query.format(", nextval('drawn')"))  # type: ignore[call-overload]
    session.execute("SET default_transaction_read_only = off")
    session.execute(query.format(", nextval('drawn')"))  # type: ignore[call-overload]
    assert session.execute("SELECT last_value, is_called FROM drawn").fetchall() == [(1, True)]


def test_nothing_is_left_behind(session: psycopg.Connection) -> None:
    temporary = "SELECT count(*) FROM pg_class WHERE relpersistence = 't'"
    before = session.execute(temporary).fetchall()
    session.execute("SELECT jsonb_agg(id ORDER BY id) FROM visit")
    with session.transaction():
        session.execute("SELECT jsonb_agg(id ORDER BY id) FROM visit")
        assert session.execute(temporary).fetchall() == before
        session.execute("SELECT jsonb_agg(id), random() FROM visit")
        assert session.execute(temporary).fetchall() == before
    assert session.execute(temporary).fetchall() == before


def test_a_role_needs_no_more_than_the_right_to_read(sessions: Sessions) -> None:
    owner, reader = sessions(), sessions()
    owner.execute("CREATE ROLE extracts_reader")
    owner.execute("GRANT extracts_reader TO CURRENT_USER")
    query = "SELECT jsonb_agg(name) FROM place WHERE id = 3"
    try:
        owner.execute(f"GRANT USAGE ON SCHEMA {SCHEMA} TO extracts_reader")
        reader.execute("SET ROLE extracts_reader")
        with pytest.raises(errors.InsufficientPrivilege):
            reader.execute(query)
        owner.execute("GRANT SELECT (id, name) ON place TO extracts_reader")
        assert reader.execute(query).fetchall() == [(["place 3"],)]
        with pytest.raises(errors.InsufficientPrivilege):
            reader.execute("SELECT jsonb_agg(parent) FROM place")
        owner.execute("GRANT SELECT ON usual TO extracts_reader")
        with pytest.raises(errors.FeatureNotSupported, match="mode") as caught:
            reader.execute("SELECT * FROM usual")
        assert "permission denied" in (caught.value.diag.message_detail or "")
        owner.execute("GRANT SELECT (place, cost) ON visit TO extracts_reader")
        assert len(reader.execute("SELECT * FROM usual").fetchall()) == 40
    finally:
        owner.execute("DROP OWNED BY extracts_reader")
        owner.execute("DROP ROLE extracts_reader")


def test_all_tables_are_of_one_moment(sessions: Sessions) -> None:
    owner, reader, writer, ended = sessions(), sessions(), sessions(), threading.Event()
    owner.execute("CREATE TABLE one (id integer PRIMARY KEY, v integer)")
    owner.execute("CREATE TABLE other (id integer PRIMARY KEY, v integer)")
    owner.execute("CREATE TABLE third (id integer PRIMARY KEY, v integer)")
    for table in ("one", "other", "third"):
        owner.execute(f"INSERT INTO {table} SELECT g, 10 FROM generate_series(1, 30) g")  # type: ignore[call-overload]
    make_tiered(owner, "one", "other")
    for table in ("one", "other"):
        owner.execute(f"ALTER TABLE {table} SET (gateway.thaw_rows = 20)")  # type: ignore[call-overload]
    moves = [
        f"UPDATE {table} SET v = v {sign} 1 WHERE id = %s"
        for table, sign in (("one", "+"), ("other", "-"), ("one", "+"), ("third", "-"))
    ]
    failed = []

    def move() -> None:
        number = 0
        try:
            while not ended.is_set():
                number = number % 30 + 1
                with writer.transaction():
                    for statement in moves:
                        writer.execute(statement, [number])  # type: ignore[call-overload]
        except psycopg.Error as error:
            failed.append(error)

    thread = threading.Thread(target=move)
    thread.start()
    query = (
        "SELECT (SELECT jsonb_agg(v) FROM one), (SELECT jsonb_agg(v) FROM other),"
        " (SELECT jsonb_agg(v) FROM third)"
    )
    found = set()
    try:
        for number in range(16):
            if number % 2:
                with reader.transaction():
                    (row,) = reader.execute(query).fetchall()
            else:
                (row,) = reader.execute(query).fetchall()
            found.add(sum(map(sum, row)))
    finally:
        ended.set()
        thread.join()
    assert found == {900}
    assert not failed
