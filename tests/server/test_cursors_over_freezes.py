"""Cursors, prepared statements and snapshots that are older than when rows leave PostgreSQL.

A scenario is played by PostgreSQL itself, by a resident table, which becomes tiered where it says
so, and by a tiered one with hot rows, which go cold there. All say what PostgreSQL says.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest

from tests.support.servers import Address
from tests.support.tiers import PATIENCE_S, make_tiered, schema_sessions

pytestmark = pytest.mark.server

SETUP = (
    "CREATE TABLE t (id integer PRIMARY KEY, v integer, w text)",
    "INSERT INTO t SELECT g, g * 10, 'w' || g FROM generate_series(1, 8) g",
    "CREATE TABLE s (id integer PRIMARY KEY, x integer)",
    "INSERT INTO s SELECT g, -g FROM generate_series(1, 8) g",
)

WARM = (
    "ALTER TABLE t SET (gateway.hot_age_s = 3600)",
    "UPDATE t SET v = v WHERE id IN (1, 2, 3)",
    # These are made hot, and not written.
    "WITH l AS (SELECT id FROM t WHERE id IN (4, 5) FOR UPDATE) SELECT count(*) FROM l",
)

FREEZE = "freeze"
"""A line where rows leave PostgreSQL."""

SCENARIOS = {
    "a cursor that is held": """
        a: BEGIN
        a: DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t ORDER BY id
        a: FETCH 2 FROM c
        a: COMMIT
        b: UPDATE t SET v = -1 WHERE id > 4
        freeze
        a: FETCH 3 FROM c
        b: DELETE FROM t
        a: FETCH ALL FROM c
        a: CLOSE c
        a: FETCH ALL FROM c
    """,
    "a held cursor from which nothing was fetched": """
        a: BEGIN
        a: DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t ORDER BY id
        a: COMMIT
        b: UPDATE t SET v = -1 WHERE id > 4
        freeze
        b: TRUNCATE t
        a: FETCH ALL FROM c
    """,
    "a held cursor that scrolls": """
        a: BEGIN
        a: DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT * FROM t ORDER BY id
        a: MOVE 2 FROM c
        a: COMMIT
        freeze
        b: UPDATE t SET v = -1
        a: FETCH LAST FROM c
        a: FETCH ABSOLUTE 1 FROM c
        a: FETCH FORWARD ALL FROM c
        a: FETCH BACKWARD 2 FROM c
    """,
    "a held cursor outside of a transaction, over two tables": """
        a: DECLARE c CURSOR WITH HOLD FOR SELECT t.id, v, x FROM t JOIN s USING (id) ORDER BY id
        freeze
        a: FETCH 2 FROM c
        b: DROP TABLE s
        a: FETCH ALL FROM c
    """,
    "a held cursor over what its transaction has written": """
        a: BEGIN
        a: UPDATE t SET v = 0 WHERE id = 1
        a: DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t ORDER BY id
        a: UPDATE t SET v = 1 WHERE id = 2
        a: COMMIT
        freeze
        a: FETCH ALL FROM c
    """,
    "a held cursor whose transaction is older than the freeze": """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT sum(v) FROM t
        b: UPDATE t SET v = -1
        freeze
        a: DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t ORDER BY id
        a: COMMIT
        b: DELETE FROM t WHERE id < 7
        a: FETCH ALL FROM c
    """,
    "a held cursor whose transaction fails": """
        a: BEGIN
        a: DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t ORDER BY id
        a: FETCH 1 FROM c
        a: ROLLBACK
        freeze
        a: FETCH 1 FROM c
    """,
    "a held cursor in later transactions": """
        a: BEGIN
        a: DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t ORDER BY id
        a: COMMIT
        freeze
        a: BEGIN
        a: FETCH 1 FROM c
        a: ROLLBACK
        a: FETCH 1 FROM c
    """,
    "a cursor of an old snapshot": """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: DECLARE c CURSOR FOR SELECT * FROM t ORDER BY id
        a: FETCH 1 FROM c
        b: UPDATE t SET v = -1
        freeze
        a: FETCH ALL FROM c
        a: SELECT sum(v) FROM t
        a: COMMIT
        a: SELECT sum(v) FROM t
    """,
    "PREPARE": """
        a: PREPARE p (integer) AS SELECT * FROM t WHERE id > $1 ORDER BY id
        a: EXECUTE p(5)
        freeze
        a: EXECUTE p(6)
        b: UPDATE t SET v = -1 WHERE id = 8
        a: EXECUTE p(6)
    """,
    "PREPARE of writes": """
        a: PREPARE p (integer, integer) AS UPDATE t SET v = $2 WHERE id = $1 RETURNING *
        a: PREPARE q (integer) AS INSERT INTO t VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET v = 0
        a: EXECUTE p(5, 1)
        freeze
        a: EXECUTE p(6, 2)
        a: EXECUTE q(9)
        a: EXECUTE q(9)
        a: EXECUTE p(5, 3)
        a: SELECT * FROM t ORDER BY id
    """,
    "PREPARE and an old snapshot": """
        a: PREPARE p (integer) AS SELECT v FROM t WHERE id = $1
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: EXECUTE p(3)
        b: UPDATE t SET v = 0 WHERE id = 3
        freeze
        a: EXECUTE p(3)
        a: COMMIT
        a: EXECUTE p(3)
    """,
    "an old snapshot": """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT sum(v) FROM t
        b: UPDATE t SET v = -1 WHERE id = 2
        freeze
        a: SELECT * FROM t ORDER BY id
        b: INSERT INTO t VALUES (9, 9, 'new')
        b: DELETE FROM t WHERE id = 1
        a: SELECT * FROM t ORDER BY id
        a: SELECT v FROM t WHERE id = 9
        a: SELECT v FROM t WHERE id = 1
        a: COMMIT
        a: SELECT * FROM t ORDER BY id
    """,
    "an old snapshot of another table": """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT sum(x) FROM s
        b: DELETE FROM t
        freeze
        a: SELECT count(*) FROM t
        b: INSERT INTO t VALUES (1, 1)
        a: SELECT * FROM t ORDER BY id
        a: COMMIT
    """,
    "a row that has changed since an old snapshot": """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT sum(v) FROM t
        b: UPDATE t SET v = -1 WHERE id = 2
        freeze
        a: UPDATE t SET v = v + 1 WHERE id = 2
        a: ROLLBACK
        a: SELECT * FROM t ORDER BY id
    """,
    "a savepoint of an old snapshot": """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT sum(v) FROM t
        a: SAVEPOINT x
        b: UPDATE t SET v = -1 WHERE id = 2
        freeze
        a: SELECT v FROM t WHERE id = 2
        a: ROLLBACK TO x
        a: SELECT v FROM t WHERE id = 2
        a: COMMIT
    """,
    "serializable": """
        a: BEGIN ISOLATION LEVEL SERIALIZABLE
        a: SELECT sum(v) FROM t
        b: UPDATE t SET v = -1 WHERE id = 2
        freeze
        a: SELECT * FROM t ORDER BY id
        a: COMMIT
    """,
}

PREPARED = {
    "reads": """
        a: SELECT * FROM t WHERE id > 5 ORDER BY id
        a: SELECT sum(v) FROM t JOIN s USING (id)
        a: SELECT v FROM t WHERE id = 8
        freeze
        a: SELECT v FROM t WHERE id = 8
        b: UPDATE t SET v = -1 WHERE id = 8
        a: SELECT * FROM t WHERE id > 5 ORDER BY id
        a: SELECT sum(v) FROM t JOIN s USING (id)
        a: SELECT v FROM t WHERE id = 8
    """,
    "writes": """
        a: UPDATE t SET v = v + 1 WHERE id = 8 RETURNING v
        a: INSERT INTO t VALUES (9, 1) ON CONFLICT (id) DO UPDATE SET v = t.v + 1 RETURNING v
        a: DELETE FROM t WHERE id = 7 RETURNING *
        freeze
        b: UPDATE t SET v = v + 1 WHERE id = 8 RETURNING v
        a: UPDATE t SET v = v + 1 WHERE id = 8 RETURNING v
        a: INSERT INTO t VALUES (9, 1) ON CONFLICT (id) DO UPDATE SET v = t.v + 1 RETURNING v
        a: DELETE FROM t WHERE id = 7 RETURNING *
        a: SELECT * FROM t ORDER BY id
    """,
    "by an old snapshot": """
        a: SELECT v FROM t WHERE id = 2
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT v FROM t WHERE id = 2
        a: SELECT sum(v) FROM t
        b: UPDATE t SET v = -1 WHERE id = 2
        freeze
        a: SELECT v FROM t WHERE id = 2
        a: SELECT sum(v) FROM t
        a: COMMIT
        a: SELECT v FROM t WHERE id = 2
        a: SELECT sum(v) FROM t
    """,
}
"""What is prepared by messages of the protocol, and run before and afterwards."""

OPENS = """
CREATE FUNCTION opens(c refcursor) RETURNS refcursor LANGUAGE plpgsql AS
    'BEGIN OPEN c FOR SELECT * FROM own ORDER BY id; RETURN c; END'
"""

OPENS_SCROLLING = """
CREATE FUNCTION opens(c refcursor) RETURNS refcursor LANGUAGE plpgsql AS
    'BEGIN OPEN c SCROLL FOR SELECT * FROM own ORDER BY id; MOVE 2 FROM c; RETURN c; END'
"""

OPENS_DYNAMICALLY = """
CREATE FUNCTION opens(c refcursor) RETURNS refcursor LANGUAGE plpgsql AS
    'BEGIN OPEN c FOR EXECUTE ''SELECT * FROM own ORDER BY id''; RETURN c; END'
"""

OPENED = {
    "a cursor of a function": (
        OPENS,
        """
        a: BEGIN
        a: SELECT opens('c')
        a: FETCH 2 FROM c
        b: UPDATE own SET v = -1 WHERE id > 4
        freeze
        a: FETCH ALL FROM c
        a: SELECT sum(v) FROM own
        a: COMMIT
        """,
    ),
    "one from which nothing was fetched": (
        OPENS,
        """
        a: BEGIN
        a: SELECT opens('c')
        b: DELETE FROM own
        freeze
        b: INSERT INTO own VALUES (1, 1)
        a: FETCH ALL FROM c
        a: COMMIT
        a: FETCH ALL FROM c
        """,
    ),
    "one that scrolls": (
        OPENS_SCROLLING,
        """
        a: BEGIN
        a: SELECT opens('c')
        a: FETCH 1 FROM c
        b: UPDATE own SET v = -1
        freeze
        a: FETCH BACKWARD 2 FROM c
        a: FETCH LAST FROM c
        a: COMMIT
        """,
    ),
    "one of a text": (
        OPENS_DYNAMICALLY,
        """
        a: BEGIN
        a: SELECT opens('c')
        a: FETCH 1 FROM c
        b: UPDATE own SET v = -1
        freeze
        a: FETCH ALL FROM c
        a: COMMIT
        """,
    ),
    "one of an old snapshot": (
        OPENS,
        """
        a: BEGIN ISOLATION LEVEL REPEATABLE READ
        a: SELECT sum(v) FROM own
        b: UPDATE own SET v = -1
        a: SELECT opens('c')
        a: FETCH 1 FROM c
        freeze
        a: FETCH ALL FROM c
        a: SELECT sum(v) FROM own
        a: COMMIT
        a: SELECT sum(v) FROM own
        """,
    ),
}
"""A table that a function names stays resident: it is dropped while its cursor is open."""

Answer = tuple[str, str | None, object]


def play(
    connect: Callable[[], psycopg.Connection], name: str, freeze: Callable[[], None]
) -> list[Answer]:
    """Return each statement, and what is said to it: an SQLSTATE, or command tag and rows."""
    scenario = OPENED[name][1] if name in OPENED else (SCENARIOS | PREPARED)[name]
    answers: list[Answer] = []
    sessions: dict[str, psycopg.Connection] = {}
    for line in filter(None, map(str.strip, scenario.splitlines())):
        if line == FREEZE:
            freeze()
            continue
        who, statement = line.split(": ", 1)
        session = sessions.get(who) or sessions.setdefault(who, connect())
        try:
            prepare = name in PREPARED
            cursor = session.execute(statement, prepare=prepare)  # type: ignore[call-overload]
        except psycopg.Error as error:
            answers.append((line, error.sqlstate, None))
        else:
            rows = cursor.fetchall() if cursor.description else None
            answers.append((line, cursor.statusmessage, rows))
    return answers


def state(owner: psycopg.Connection, table: str) -> str:
    """Return how the rows of a table are kept."""
    query = (
        "SELECT state FROM gateway.maintenance"
        " WHERE schema_name = current_schema() AND table_name = %s"
    )
    ((found,),) = owner.execute(query, [table]).fetchall()
    return str(found)


def await_tiered(owner: psycopg.Connection, table: str) -> None:
    """Wait until PostgreSQL has no row of a table."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := state(owner, table)) != "tiered":
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


@pytest.fixture
def expected(plain_postgres: Address, request: pytest.FixtureRequest) -> list[Answer]:
    """What PostgreSQL says."""
    name = request.node.callspec.params["name"]
    with schema_sessions(plain_postgres.conninfo(), "frozen") as connect:
        owner = connect()
        for statement in SETUP:
            owner.execute(statement)  # type: ignore[call-overload]
        if name in OPENED:
            owner.execute("ALTER TABLE t RENAME TO own")
            owner.execute(OPENED[name][0])  # type: ignore[call-overload]
        return play(connect, name, lambda: None)


@pytest.fixture
def connect(
    resident_gateway: Address, own_database: str
) -> Iterator[Callable[[], psycopg.Connection]]:
    """Opens sessions of the gateway, in a schema of the test's own."""
    with schema_sessions(resident_gateway.conninfo(own_database), "frozen") as opened:
        yield opened


@pytest.fixture(scope="module")
def own_database(resident_gateway: Address) -> Iterator[str]:
    """A database in which no code of others keeps tables resident."""
    name = "cursors_over_freezes"
    resident_gateway.execute(f"CREATE DATABASE {name}")
    with ExitStack() as stack:
        stack.callback(resident_gateway.execute, f"DROP DATABASE {name} WITH (FORCE)")
        yield name


@pytest.mark.parametrize("tier", ["resident", "hot"])
@pytest.mark.parametrize("name", [*SCENARIOS, *PREPARED])
def test_they_say_what_postgresql_says(
    connect: Callable[[], psycopg.Connection], expected: list[Answer], name: str, tier: str
) -> None:
    owner = connect()
    for statement in SETUP:
        owner.execute(statement)  # type: ignore[call-overload]
    if tier == "hot":
        make_tiered(owner, "t", "s")
        for statement in WARM:
            owner.execute(statement)  # type: ignore[call-overload]
        assert state(owner, "t") == "hot"
    setting = "gateway.residency = never" if tier == "resident" else "gateway.hot_age_s = 0"

    def freeze() -> None:
        owner.execute(f"ALTER TABLE t SET ({setting})")  # type: ignore[call-overload]
        await_tiered(owner, "t")

    assert play(connect, name, freeze) == expected
    assert owner.execute("SELECT gateway.check('t')").fetchone() == (0,)


@pytest.mark.parametrize("name", OPENED)
def test_cursors_of_functions_go_on(
    connect: Callable[[], psycopg.Connection], expected: list[Answer], name: str
) -> None:
    owner = connect()
    for statement in SETUP:
        owner.execute(statement)  # type: ignore[call-overload]
    owner.execute("ALTER TABLE t RENAME TO own")
    owner.execute(OPENED[name][0])  # type: ignore[call-overload]

    def freeze() -> None:
        owner.execute("DROP FUNCTION opens")
        owner.execute("ALTER TABLE own SET (gateway.residency = never)")
        await_tiered(owner, "own")

    assert play(connect, name, freeze) == expected
    assert owner.execute("SELECT gateway.check('own')").fetchone() == (0,)
