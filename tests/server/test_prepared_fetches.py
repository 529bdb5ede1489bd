"""FETCH as a prepared statement: which cursor has its name is known when it is bound.

Follows "Extended Query" of PostgreSQL's protocol: Describe of a portal tells the columns that the
cursor has then. Each dialogue is had with PostgreSQL, too.
"""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import pq

from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

Sessions = tuple[psycopg.Connection, psycopg.Connection]

SCHEMA = "prepared_fetches"

SETUP = (
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    "CREATE TABLE t (id integer PRIMARY KEY, v text)",
    "CREATE TABLE r (id integer PRIMARY KEY, v text)",
    "INSERT INTO t SELECT g, 'tiered ' || g FROM generate_series(1, 5) g",
    "INSERT INTO r SELECT g, 'resident ' || g FROM generate_series(1, 5) g",
)

QUERIES = (
    "SELECT id, v FROM t ORDER BY id",
    "SELECT id, v FROM r ORDER BY id",
    "SELECT v, id * 2.5 AS w, id FROM r ORDER BY id",
    "SELECT v FROM t ORDER BY id",
)

FETCHES = ("FETCH 2 FROM held", "MOVE 2 FROM held")


@pytest.fixture(scope="module")
def sessions(two_tiers_pair: Pair) -> Iterator[Sessions]:
    """A session on each server, PostgreSQL's and the gateway's, where ``t`` is tiered."""
    plain, gateway = (
        psycopg.connect(address.conninfo(two_tiers_pair.database), autocommit=True)
        for address in (two_tiers_pair.plain, two_tiers_pair.gateway)
    )
    for connection in (plain, gateway):
        for statement in SETUP:
            connection.execute(statement)
    make_tiered(gateway, "t")
    yield plain, gateway
    for connection in (plain, gateway):
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
        connection.close()


def answer(result: pq.abc.PGresult) -> tuple[object, ...]:
    """Return what a statement was answered with."""
    columns = [(result.fname(i), result.ftype(i), result.fformat(i)) for i in range(result.nfields)]
    rows = [
        [result.get_value(row, column) for column in range(result.nfields)]
        for row in range(result.ntuples)
    ]
    state = result.error_field(pq.DiagnosticField.SQLSTATE)
    return (result.status, result.command_status, columns, rows, state)


def dialogue(
    connection: psycopg.Connection, first: str | None, fetch: str, code: int
) -> list[tuple[object, ...]]:
    """Prepare a FETCH while there is a cursor, or none, and execute it with others."""
    wire = connection.pgconn
    answers = []
    connection.execute("CLOSE ALL")
    if first is not None:
        connection.execute(f"DECLARE held CURSOR WITH HOLD FOR {first}")
    answers.append(answer(wire.prepare(b"fetching", fetch.encode())))
    for query in QUERIES:
        connection.execute("CLOSE ALL")
        answers.append(answer(wire.exec_prepared(b"fetching", [], result_format=code)))
        connection.execute(f"DECLARE held CURSOR WITH HOLD FOR {query}")
        answers += [
            answer(wire.exec_prepared(b"fetching", [], result_format=code)) for _ in range(3)
        ]
    connection.execute("CLOSE ALL")
    wire.exec_(b"DEALLOCATE fetching")
    return answers


@pytest.mark.parametrize("code", [0, 1], ids=["text", "binary"])
@pytest.mark.parametrize("fetch", FETCHES)
@pytest.mark.parametrize("first", [None, *QUERIES])
def test_a_prepared_fetch_tells_the_columns_of_the_cursor_there_is(
    sessions: tuple[psycopg.Connection, psycopg.Connection],
    first: str | None,
    fetch: str,
    code: int,
) -> None:
    plain, gateway = (dialogue(connection, first, fetch, code) for connection in sessions)
    assert gateway == plain
