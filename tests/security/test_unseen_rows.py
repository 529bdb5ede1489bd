"""Whatever reaches a tiered table gives PostgreSQL's answer, or is refused; never another answer.

Each series of statements runs in a transaction that is rolled back, on PostgreSQL and on the
gateway. What the gateway refuses has to be refused by it at the statement that it is known for.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from threading import Event
from time import monotonic

import psycopg
import pytest

from tests.support.servers import Address
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

SERIES = Path(__file__).with_name("unseen_rows.sql")

DATABASE = "unseen"

REFUSED = "0A000"

SETUP = (
    "CREATE TABLE t (id integer PRIMARY KEY, v integer, s text)",
    "INSERT INTO t SELECT g, g * 10, 't' || g FROM generate_series(1, 20) g",
    "CREATE TABLE r (id integer PRIMARY KEY, v integer, s text)",
    "INSERT INTO r SELECT g, g * 10, 'r' || g FROM generate_series(1, 5) g",
    "CREATE TABLE log (id integer, what text)",
    "CREATE TABLE parent (id integer PRIMARY KEY)",
    "INSERT INTO parent SELECT generate_series(1, 20)",
    (
        "CREATE TABLE child (id integer PRIMARY KEY, p integer REFERENCES parent"
        " ON DELETE CASCADE ON UPDATE CASCADE)"
    ),
    "INSERT INTO child SELECT g, g FROM generate_series(1, 20) g",
    "CREATE TABLE referencing (id integer, p integer REFERENCES t)",
    "INSERT INTO referencing VALUES (0, 2)",
    "CREATE TABLE whole (id integer, v integer) PARTITION BY RANGE (id)",
    "CREATE TABLE part_1 PARTITION OF whole FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE part_2 PARTITION OF whole FOR VALUES FROM (100) TO (200)",
    "INSERT INTO whole SELECT g, g FROM generate_series(1, 150) g",
    'CREATE TABLE "a""É$" (id integer PRIMARY KEY)',
    'INSERT INTO "a""É$" VALUES (1)',
    "CREATE VIEW over_t AS SELECT * FROM t",
    "CREATE VIEW over_over_t AS SELECT id, v + 1 AS w FROM over_t WHERE id < 10",
    "CREATE VIEW over_whole AS SELECT * FROM whole",
    "CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM t WHERE v > 50",
    "CREATE VIEW checked AS SELECT * FROM t WHERE v > 50 WITH CHECK OPTION",
)

TIERED = ("t", "child", "part_2", 'a"É$')

Answers = list[tuple[str, object]]


def _series() -> list[tuple[str, list[str]]]:
    """Return each series: what the gateway is to do about its last statement, and statements."""
    found = []
    for line in SERIES.read_text().splitlines():
        if line and not line.startswith("--"):
            expected, _, text = line.partition(": ")
            found.append((expected, text.split(" ;; ")))
    return found


@pytest.fixture(scope="module")
def sessions(
    plain_postgres: Address, resident_gateway: Address
) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """A session of PostgreSQL, and one of the gateway, each with the same rows."""
    servers = (plain_postgres, resident_gateway)
    for server in servers:
        server.execute(f"CREATE DATABASE {DATABASE}")
        server.execute(*SETUP, database=DATABASE)
    plain, gateway = (
        psycopg.connect(server.conninfo(DATABASE), autocommit=True) for server in servers
    )
    make_tiered(gateway, *TIERED)
    yield plain, gateway
    plain.close()
    gateway.close()
    for server in servers:
        server.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


def _rows(connection: psycopg.Connection, statement: str) -> tuple[str, object]:
    """Run a statement; return its command tag, and its rows in some order of their own."""
    if statement.startswith("COPY"):
        cursor = connection.cursor()
        with cursor.copy(statement) as copy:  # type: ignore[call-overload]
            lines = b"".join(copy).splitlines()
        return cursor.statusmessage or "", sorted(lines)
    cursor = connection.execute(statement)  # type: ignore[call-overload]
    rows = sorted(map(str, cursor.fetchall())) if cursor.description else None
    return cursor.statusmessage or "", rows


def _answers(connection: psycopg.Connection, statements: list[str]) -> Answers:
    """Return what statements answer, up to the first error."""
    answers: Answers = []
    try:
        with connection.transaction(force_rollback=True):
            answers.extend(_rows(connection, statement) for statement in statements)
    except psycopg.Error as error:
        answers.append((error.sqlstate or "", None))
    return answers


ROUNDS = 8
"""One of so many series is tried each time."""


@pytest.mark.parametrize(
    "number",
    [0, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(1, ROUNDS))],
)
def test_answers_are_postgresqls_or_refusals(
    sessions: tuple[psycopg.Connection, psycopg.Connection], number: int
) -> None:
    plain, gateway = sessions
    wrong = []
    for expected, statements in _series()[number::ROUNDS]:
        right, found = _answers(plain, statements), _answers(gateway, statements)
        if expected == "refused":
            fits = found[-1] == (REFUSED, None) and found[:-1] == right[: len(found) - 1]
        else:
            fits = found == right
        if not fits:
            wrong.append((statements, found, right))
    assert wrong == []


SWALLOWED = (
    "DO 'BEGIN DELETE FROM parent; EXCEPTION WHEN OTHERS THEN NULL; END'",
    "DO 'BEGIN UPDATE parent SET id = -id; EXCEPTION WHEN OTHERS THEN NULL; END'",
    "SELECT going_on()",
)


def test_code_does_not_go_on_after_a_refusal(
    sessions: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    _, gateway = sessions
    gateway.execute(
        "CREATE FUNCTION going_on() RETURNS void LANGUAGE plpgsql"
        " AS 'BEGIN DELETE FROM parent; EXCEPTION WHEN OTHERS THEN NULL; END'"
    )
    for statement in SWALLOWED:
        for _ in range(2):  # what has been run before takes a shorter way
            with pytest.raises(psycopg.errors.FeatureNotSupported, match='table "child"'):
                gateway.execute(statement)  # type: ignore[call-overload]
    gateway.execute("DROP FUNCTION going_on")


ENDING = """
CREATE PROCEDURE ending(OUT n bigint) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log VALUES (1);
    COMMIT;
    n := (SELECT count(*) FROM later);
    COMMIT;
    DELETE FROM parent WHERE id = 3;
    COMMIT;
END $$
"""


def test_procedures_that_end_transactions_reach_no_tiered_table(
    sessions: tuple[psycopg.Connection, psycopg.Connection],
) -> None:
    _, gateway = sessions
    gateway.execute("CREATE VIEW later AS SELECT * FROM r")
    gateway.execute(ENDING)
    try:
        for number in (1, 2):  # what has been run before takes a shorter way
            with pytest.raises(psycopg.errors.FeatureNotSupported, match='table "child"'):
                gateway.execute("CALL ending(NULL)")
            # What was before COMMIT stays, as in PostgreSQL.
            assert gateway.execute("SELECT count(*) FROM log").fetchone() == (number,)
            assert gateway.execute("SELECT count(*) FROM parent").fetchone() == (20,)
            with pytest.raises(psycopg.errors.FeatureNotSupported, match=r"public\.ending"):
                gateway.execute("CREATE OR REPLACE VIEW later AS SELECT * FROM t")
    finally:
        gateway.execute("DROP PROCEDURE ending")
        gateway.execute("DROP VIEW later")
        gateway.execute("DELETE FROM log")


REPLACED_S = 3.0
"""How long each statement is repeated while others replace what it reads."""

READERS: dict[str, Callable[[psycopg.Connection], int]] = {
    "EXPLAIN ANALYZE": lambda session: _scanned(session, "SELECT * FROM over_replaced"),
    "EXPLAIN ANALYZE EXECUTE": lambda session: _scanned(session, "EXECUTE reading"),
    "DECLARE WITH HOLD": lambda session: _held(session, "SELECT * FROM over_replaced"),
}
"""Statements that PostgreSQL analyses again when it runs them; how many rows they read."""


def _scanned(session: psycopg.Connection, query: str) -> int:
    explain = f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) {query}"
    ((answer,),) = session.execute(explain).fetchall()  # type: ignore[call-overload]
    plan = answer[0]["Plan"]
    return int(plan.get("Actual Rows", TIERED_ROWS))  # Spark's plan has others


def _held(session: psycopg.Connection, query: str) -> int:
    session.execute(f"DECLARE held CURSOR WITH HOLD FOR {query}")  # type: ignore[call-overload]
    try:
        return len(session.execute("FETCH ALL FROM held").fetchall())
    finally:
        session.execute("CLOSE held")


RESIDENT_ROWS, TIERED_ROWS = 5, 20

PATIENCE_S = 60.0
"""How long to wait, beyond what is tried anyway, for a machine that is busy to show both views."""


@pytest.mark.parametrize(
    ("reader", "other"), [*product(READERS, ["r"]), ("EXPLAIN ANALYZE", "t WHERE id <= 5")]
)
def test_views_that_are_replaced_meanwhile(
    sessions: tuple[psycopg.Connection, psycopg.Connection], reader: str, other: str
) -> None:
    _, gateway = sessions
    replace = "CREATE OR REPLACE VIEW replaced AS SELECT id, v FROM {}"
    gateway.execute(replace.format(other))  # type: ignore[call-overload]
    gateway.execute("CREATE VIEW over_replaced AS SELECT * FROM replaced")
    done = Event()

    def disturb() -> None:
        with psycopg.connect(gateway.info.dsn, autocommit=True) as replacing:
            while not done.is_set():
                for source in ("t", other):
                    replacing.execute(replace.format(source))  # type: ignore[call-overload]

    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(gateway.info.dsn, autocommit=True) as session,
    ):
        session.execute("PREPARE reading AS SELECT * FROM over_replaced")
        disturbing = pool.submit(disturb)
        end, seen = monotonic() + REPLACED_S, set()
        try:
            while monotonic() < end or (len(seen) < 2 and monotonic() < end + PATIENCE_S):
                seen.add(READERS[reader](session))
        finally:
            done.set()
        disturbing.result()
    gateway.execute("DROP VIEW over_replaced, replaced")
    assert seen == {RESIDENT_ROWS, TIERED_ROWS}
