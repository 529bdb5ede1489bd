"""Rows over extracts by other ways than a SELECT: cursors, COPY TO, INSERT into tiered tables."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress

import psycopg
import pytest
from psycopg import errors, sql

from tests.server.test_extracted_reads import QUERIES, SCHEMA, TIERED, decision, fill
from tests.support.fix_server import Pair
from tests.support.sampling import each
from tests.support.tiers import make_tiered, schema_sessions

pytestmark = pytest.mark.server

OVER_EXTRACTS = "spark, then postgres"

BY_POSTGRESQL = (OVER_EXTRACTS, "postgres, on thawed rows")
"""How decisions begin; few rows may be hot in a transaction that reads by one snapshot."""

LEFT = "SELECT FROM pg_class WHERE relname ~ 'extract'"
"""What the gateway has left."""

Sessions = Callable[[], psycopg.Connection]

WRITTEN = ("kept", "list", "stay")


def fill_all(session: psycopg.Connection) -> None:
    fill(session)
    session.execute("CREATE TABLE kept (id integer PRIMARY KEY, told text DEFAULT 'none')")
    session.execute("INSERT INTO kept SELECT -g FROM generate_series(1, 50) g")
    session.execute("CREATE TABLE list (told text)")
    session.execute("INSERT INTO list SELECT 'listed' FROM generate_series(1, 50) g")
    session.execute("CREATE TABLE stay (id integer PRIMARY KEY, place integer REFERENCES place)")
    session.execute("INSERT INTO stay SELECT -g FROM generate_series(1, 50) g")


@pytest.fixture(scope="module")
def sessions(two_tiers_pair: Pair) -> Iterator[Sessions]:
    """Yield what opens sessions in a schema with tables of which no row becomes hot."""
    conninfo = two_tiers_pair.gateway.conninfo(two_tiers_pair.database)
    with schema_sessions(conninfo, f"{SCHEMA}_ways") as opened:
        session = opened()
        fill_all(session)
        make_tiered(session, *TIERED, *WRITTEN)
        for table in (*TIERED, *WRITTEN):
            session.execute(
                sql.SQL("ALTER TABLE {} SET (gateway.thaw_rows = 0)").format(sql.Identifier(table))
            )
        yield opened


@pytest.fixture
def session(sessions: Sessions) -> Iterator[psycopg.Connection]:
    with sessions() as session:
        yield session


@pytest.fixture(scope="module")
def plain(two_tiers_pair: Pair) -> Iterator[psycopg.Connection]:
    conninfo = two_tiers_pair.plain.conninfo(two_tiers_pair.database)
    with schema_sessions(conninfo, f"{SCHEMA}_ways") as opened:
        session = opened()
        fill_all(session)
        yield session


def copied(session: psycopg.Connection, query: str, options: str) -> object:
    """Return what COPY TO sends, or the SQLSTATE of its error."""
    try:
        with session.cursor().copy(f"COPY ({query}) TO STDOUT {options}") as rows:  # type: ignore[arg-type]
            return b"".join(map(bytes, rows))
    except psycopg.Error as error:
        return error.sqlstate


def fetched(
    session: psycopg.Connection, query: str, options: str, *, over_extracts: bool = False
) -> object:
    """Return what a cursor yields forward and backward, or the SQLSTATE of its error."""
    try:
        with session.transaction():
            session.execute(f"DECLARE c {options} CURSOR FOR {query}")  # type: ignore[arg-type]
            if over_extracts:
                assert decision(session).startswith(BY_POSTGRESQL)
            first = session.execute("FETCH 2 FROM c")
            described = [(c.name, c.type_code) for c in first.description or ()]
            rows = first.fetchall() + session.execute("FETCH ALL FROM c", binary=True).fetchall()
            if "SCROLL" in options:
                rows += session.execute("FETCH BACKWARD 3 FROM c").fetchall()
                rows += session.execute("FETCH ABSOLUTE 1 FROM c").fetchall()
            session.execute("CLOSE c")
            return described, rows
    except psycopg.Error as error:
        return error.sqlstate


@pytest.mark.parametrize("query", each(3, QUERIES))
def test_copy_sends_what_postgresql_does(
    query: str, session: psycopg.Connection, plain: psycopg.Connection
) -> None:
    for options in ("", "(FORMAT csv, HEADER)", "(FORMAT binary)"):
        expected = copied(plain, query, options)
        assert copied(session, query, options) == expected, options
        if not isinstance(expected, str):
            assert decision(session).startswith(OVER_EXTRACTS)


@pytest.mark.parametrize("query", each(3, QUERIES))
def test_cursors_yield_what_those_of_postgresql_do(
    query: str, session: psycopg.Connection, plain: psycopg.Connection
) -> None:
    for options in ("", "NO SCROLL", "SCROLL"):
        found = fetched(session, query, options, over_extracts=True)
        assert found == fetched(plain, query, options), options


def test_cursors_with_hold_outlast_their_transaction(session: psycopg.Connection) -> None:
    query = "SELECT gcd(id, 4), name FROM place WHERE id < %s ORDER BY id"
    session.execute(f"DECLARE held CURSOR WITH HOLD FOR {query}", [4])  # type: ignore[arg-type]
    session.execute("UPDATE place SET name = 'no place' WHERE id = 3")
    assert session.execute("FETCH ALL FROM held").fetchall() == [
        (1, "place 1"),
        (2, "place 2"),
        (1, "place 3"),
    ]
    assert session.execute("FETCH PRIOR FROM held").fetchall() == [(1, "place 3")]
    session.execute("UPDATE place SET name = 'place 3' WHERE id = 3")
    session.execute("CLOSE held")
    with session.transaction():
        session.execute(f"DECLARE held CURSOR WITH HOLD FOR {query}", [3])  # type: ignore[arg-type]
    assert session.execute("FETCH ALL FROM held").fetchall() == [(1, "place 1"), (2, "place 2")]
    session.execute("CLOSE held")
    assert session.execute(
        "SELECT count(*) FROM pg_class WHERE relname ~ 'extract'"
    ).fetchone() == (0,)


DECLARED = (
    "DECLARE a SCROLL CURSOR FOR SELECT id FROM visit WHERE id < 4 ORDER BY id",
    "DECLARE b CURSOR WITH HOLD FOR SELECT gcd(id, 4), 'é /* x */' FROM visit; -- all",
    "DECLARE c NO SCROLL CURSOR FOR SELECT gcd(id, %s) FROM visit",
    "DECLARE d CURSOR FOR SELECT 1",
)


def test_cursors_are_listed_as_they_were_declared(session: psycopg.Connection) -> None:
    listed = "SELECT statement FROM pg_cursors WHERE name IN ('a', 'b', 'c', 'd') ORDER BY name"
    for isolation in ("READ COMMITTED", "REPEATABLE READ"):
        with session.transaction():
            session.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}")  # type: ignore[arg-type]
            for statement in DECLARED:
                session.execute(statement, [4] if "%s" in statement else None)  # type: ignore[arg-type]
            expected = [statement.replace("%s", "$1").partition(";")[0] for statement in DECLARED]
            assert [row[0] for row in session.execute(listed).fetchall()] == expected
            columns = "is_holdable, is_binary, is_scrollable, creation_time <= clock_timestamp()"
            found = session.execute(f"SELECT {columns} FROM pg_cursors AS p WHERE p.name = 'a'")  # type: ignore[arg-type]
            assert found.fetchall() == [(False, False, True, True)]
            session.execute("CREATE TEMP VIEW listed AS SELECT name FROM pg_cursors")
            kept = session.execute("SELECT pg_get_viewdef('listed'::regclass)").fetchone()
            assert kept is not None
            assert "pgwire" not in kept[0]
            session.execute("DROP VIEW listed")
        session.execute("CLOSE b")


def test_cursors_show_what_was_there(sessions: Sessions) -> None:
    reader, writer = sessions(), sessions()
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    reader.execute("DECLARE c CURSOR FOR SELECT gcd(id, 4), parent FROM place WHERE id < 3")
    writer.execute("UPDATE place SET parent = 99 WHERE id IN (1, 2)")
    assert sorted(reader.execute("FETCH ALL FROM c").fetchall()) == [(1, None), (2, None)]
    reader.execute("COMMIT")
    writer.execute("UPDATE place SET parent = NULL WHERE id IN (1, 2)")


@pytest.mark.parametrize("options", ["", "SCROLL"])
def test_a_cursor_keeps_nobody_waiting(sessions: Sessions, options: str) -> None:
    reader, other = sessions(), sessions()
    other.execute("SET lock_timeout = '2s'; SET gateway.executor TO spark")
    query = "SELECT gcd(id, 4), %s::text FROM place WHERE id < 3 ORDER BY id"
    with reader.transaction():
        reader.execute(f"DECLARE c {options} CURSOR FOR {query}", ["x"])  # type: ignore[arg-type]
        other.execute("UPDATE place SET parent = parent WHERE id > 0")
        with other.transaction():
            other.execute("RESET gateway.executor")
            other.execute(f"DECLARE c {options} CURSOR FOR {query}", ["y"])  # type: ignore[arg-type]
            assert other.execute("FETCH ALL FROM c").fetchall() == [(1, "y"), (2, "y")]
        assert reader.execute("FETCH ALL FROM c").fetchall() == [(1, "x"), (2, "x")]


def test_rows_that_cannot_be_kept_are_computed_when_fetched(sessions: Sessions) -> None:
    reader, writer = sessions(), sessions()
    writer.execute("SET lock_timeout = '1s'; SET gateway.executor TO spark")
    change = "UPDATE place SET parent = parent WHERE id > 0"
    query = "SELECT format('%s', 10 / (id - 3)), row(gcd(id, 4)) FROM place ORDER BY id"
    with reader.transaction():
        reader.execute(f"DECLARE c CURSOR FOR {query.replace('ORDER BY id', '')}")  # type: ignore[arg-type]
        reader.execute("CLOSE c")
        with pytest.raises(errors.LockNotAvailable):
            writer.execute(change)  # type: ignore[arg-type]
    reader.execute("BEGIN")
    reader.execute(f"DECLARE c CURSOR FOR {query}")  # type: ignore[arg-type]
    with pytest.raises(errors.DivisionByZero):
        reader.execute("FETCH ALL FROM c")
    reader.rollback()
    writer.execute(change)  # type: ignore[arg-type]


def test_a_cursor_of_what_spark_computes_scrolls(session: psycopg.Connection) -> None:
    with session.transaction():
        session.execute("DECLARE c SCROLL CURSOR FOR SELECT id FROM visit WHERE id < 4 ORDER BY id")
        session.execute("MOVE FORWARD ALL IN c")
        assert session.execute("FETCH BACKWARD ALL FROM c").fetchall() == [(3,), (2,), (1,)]


def test_copy_takes_what_the_block_has_written(session: psycopg.Connection) -> None:
    with session.transaction(force_rollback=True):
        session.execute("UPDATE visit SET cost = 1 WHERE id = 39")
        found = copied(session, "SELECT gcd(id, 26), cost FROM visit WHERE id = 39", "")
        assert found == b"13\t1.00\n"
        assert session.execute(LEFT).fetchall() == []


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_copy_keeps_no_lock(sessions: Sessions, level: str) -> None:
    reader, writer = sessions(), sessions()
    writer.execute("SET lock_timeout = '2s'; SET gateway.executor TO spark")
    query = "SELECT jsonb_agg(id ORDER BY id) FROM place WHERE name = 'place 7'"
    reader.execute(f"BEGIN ISOLATION LEVEL {level}")  # type: ignore[arg-type]
    assert copied(reader, query, "") == b"[7]\n"
    writer.execute("UPDATE place SET parent = parent WHERE id > 0")
    assert copied(reader, query, "") == b"[7]\n"
    reader.execute("COMMIT")


def test_copy_may_call_what_has_effects(session: psycopg.Connection) -> None:
    session.execute("CREATE SEQUENCE calls")
    with session.transaction():
        found = copied(session, "SELECT nextval('calls'), gcd(id, 9) FROM place WHERE id = 6", "")
        assert found == b"1\t3\n"
        assert session.execute(LEFT).fetchall() == []
    assert session.execute("SELECT nextval('calls')").fetchone() == (2,)


@pytest.mark.parametrize("ending", [psycopg.Connection.cancel, psycopg.Connection.close])
def test_clients_may_leave_a_copy(
    sessions: Sessions, ending: Callable[[psycopg.Connection], None]
) -> None:
    reader, writer = sessions(), sessions()
    reader.execute("BEGIN")
    query = "SELECT a.id, format('%s', b.note) FROM visit a, visit b, place"
    with suppress(psycopg.Error), reader.cursor().copy(f"COPY ({query}) TO STDOUT") as rows:
        next(iter(rows))
        ending(reader)
        for _ in rows:
            pass
    reader.close()
    writer.execute("SET lock_timeout = '20s'; SET gateway.executor TO spark")
    writer.execute("UPDATE visit SET note = note WHERE id > 0")


INSERTS = """
INSERT INTO kept SELECT id, format('%s of %s', name, parent) FROM place;
INSERT INTO kept (id) SELECT gcd(id, 600) FROM visit WHERE gcd(id, 600) = id RETURNING id, told;
INSERT INTO kept SELECT place, jsonb_agg(id ORDER BY id) FROM visit GROUP BY place RETURNING *;
INSERT INTO kept SELECT -id, format('%s', told) FROM kept;
INSERT INTO kept SELECT p.id, format('%s', sum(v.cost)) FROM place p JOIN visit v
ON v.place = p.id AND v.id < 200 GROUP BY p.id;
INSERT INTO kept SELECT gcd(id, 2) FROM visit;
INSERT INTO kept SELECT 1 / (gcd(id, 2) - 1), 'x' FROM visit;
WITH w AS (SELECT id, row_to_json(p) AS r FROM place p) INSERT INTO kept SELECT id, r FROM w
""".strip().split(";\n")


@pytest.mark.parametrize("level", ["", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("insert", INSERTS)
def test_inserts_write_what_postgresql_does(
    insert: str, level: str, session: psycopg.Connection, plain: psycopg.Connection
) -> None:
    def outcome(session: psycopg.Connection, *, over_extracts: bool = False) -> object:
        try:
            if level:
                session.execute(f"BEGIN ISOLATION LEVEL {level}")  # type: ignore[arg-type]
            cursor = session.execute(insert)  # type: ignore[arg-type]
            if over_extracts:
                assert decision(session).startswith(BY_POSTGRESQL)
            returned = sorted(cursor.fetchall()) if cursor.description else None
            if level:
                session.execute("COMMIT")
        except psycopg.Error as error:
            session.rollback()
            return error.sqlstate
        rows = session.execute("SELECT * FROM kept ORDER BY id").fetchall()
        session.execute("DELETE FROM kept WHERE id >= 0")
        return cursor.statusmessage, returned, rows

    assert outcome(session, over_extracts=True) == outcome(plain)


@pytest.mark.parametrize("returning", ["format('%s!', told)", "(SELECT 1)", "list", "told"])
@pytest.mark.parametrize("in_block", [False, True], ids=["alone", "in a block"])
def test_an_insert_writes_once(
    returning: str, in_block: bool, session: psycopg.Connection, plain: psycopg.Connection
) -> None:
    def outcome(session: psycopg.Connection) -> object:
        with session.transaction() if in_block else nullcontext():
            insert = f"INSERT INTO list SELECT name FROM place RETURNING {returning}"
            returned = sorted(session.execute(insert).fetchall())  # type: ignore[arg-type]
        found = session.execute("SELECT told, count(*) FROM list GROUP BY 1 ORDER BY 1").fetchall()
        session.execute("DELETE FROM list WHERE told <> 'listed'")
        return returned, found

    assert outcome(session) == outcome(plain)


@pytest.mark.parametrize("level", ["", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("most", [40, 600], ids=["kept", "violated"])
def test_foreign_keys_of_inserted_rows(
    level: str, most: int, sessions: Sessions, plain: psycopg.Connection
) -> None:
    def outcome(session: psycopg.Connection) -> object:
        try:
            if level:
                session.execute(f"BEGIN ISOLATION LEVEL {level}")  # type: ignore[arg-type]
            insert = (
                "INSERT INTO stay SELECT id, gcd(id, id) FROM visit WHERE id <= %s AND id % 2 < 1"
            )
            cursor = session.execute(insert.replace("id % 2", "id %% 2"), [most])  # type: ignore[arg-type]
            if level:
                session.execute("COMMIT")
        except psycopg.Error as error:
            session.rollback()
            return error.sqlstate
        rows = session.execute("SELECT * FROM stay ORDER BY id").fetchall()
        session.execute("DELETE FROM stay WHERE id >= 0")
        return cursor.statusmessage, rows

    # A session that has had no temporary table yet.
    assert outcome(sessions()) == outcome(plain)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_an_insert_of_one_snapshot_into_hot_rows(sessions: Sessions, level: str) -> None:
    session, other = sessions(), sessions()
    other.execute("ALTER TABLE kept SET (gateway.thaw_rows = 100)")
    other.execute("UPDATE kept SET told = told WHERE id = -1")
    session.execute(f"SET default_transaction_isolation TO '{level}'")  # type: ignore[arg-type]
    insert = "INSERT INTO kept SELECT id, format('%s', name) FROM place"
    assert session.execute(insert).statusmessage == "INSERT 0 40"  # type: ignore[arg-type]
    other.execute("UPDATE kept SET told = told WHERE id = -1")
    session.execute("DELETE FROM kept WHERE id >= 0")
    other.execute("ALTER TABLE kept SET (gateway.thaw_rows = 0)")
    assert other.execute("SELECT count(*) FROM kept").fetchone() == (50,)


def test_others_wait_for_an_insert(sessions: Sessions) -> None:
    one, other = sessions(), sessions()
    other.execute("SET lock_timeout = '2s'")
    one.execute("BEGIN")
    one.execute("INSERT INTO kept SELECT 100 + id, format('%s', name) FROM place WHERE id < 4")
    with pytest.raises(errors.LockNotAvailable):
        other.execute("INSERT INTO kept VALUES (200)")
    one.execute("ROLLBACK")
    other.execute("INSERT INTO kept VALUES (200)")
    other.execute("DELETE FROM kept WHERE id = 200")
    assert other.execute("SELECT count(*) FROM kept").fetchone() == (50,)


def test_explain_tells_of_the_extracts_of_an_insert(session: psycopg.Connection) -> None:
    session.execute("CREATE TABLE noted AS SELECT id, note FROM visit")
    make_tiered(session, "noted")
    insert = "INSERT INTO kept SELECT id, format('%s', note) FROM noted"
    told = [line for (line,) in session.execute(f"EXPLAIN {insert}").fetchall()]  # type: ignore[arg-type]
    assert told[0].startswith(OVER_EXTRACTS)
    assert any("Spark SQL of extract_1" in line for line in told)
    assert any("Insert on kept" in line for line in told)


def test_clients_of_another_encoding(session: psycopg.Connection) -> None:
    session.execute("SET client_encoding TO 'LATIN1'")
    query = "SELECT gcd(id, 4), format('%s né', name) FROM place WHERE id < 3 ORDER BY id"
    expected = [(1, "place 1 né"), (2, "place 2 né")]
    with session.transaction():
        session.execute(f"DECLARE c CURSOR FOR {query}")  # type: ignore[arg-type]
        assert decision(session).startswith(OVER_EXTRACTS)
        assert session.execute("FETCH ALL FROM c").fetchall() == expected
    assert copied(session, query, "") == "1\tplace 1 né\n2\tplace 2 né\n".encode("latin-1")
    assert session.execute(f"INSERT INTO kept {query} RETURNING *").fetchall() == expected  # type: ignore[arg-type]
    assert session.execute("SELECT * FROM kept WHERE id > 0 ORDER BY id").fetchall() == expected
    session.execute("DELETE FROM kept WHERE id > 0")
