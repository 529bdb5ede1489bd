"""Whatever reaches a tiered table gives PostgreSQL's answer, or is refused; never another answer.

Each series of statements runs in a transaction that is rolled back, on PostgreSQL and on the
gateway. What the gateway refuses has to be refused by it at the statement that it is known for.
"""

from collections.abc import Iterator
from pathlib import Path

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


def _answers(connection: psycopg.Connection, statements: list[str]) -> Answers:
    """Return what statements answer, up to the first error."""
    answers: Answers = []
    try:
        with connection.transaction(force_rollback=True):
            for statement in statements:
                cursor = connection.execute(statement)  # type: ignore[call-overload]
                rows = sorted(map(str, cursor.fetchall())) if cursor.description else None
                answers.append((cursor.statusmessage or "", rows))
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
