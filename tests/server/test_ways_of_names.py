"""Statements prepared under one name in turn, on tables of both tiers, and on other tables."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.pq import ExecStatus

from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered, schema_sessions

pytestmark = pytest.mark.server

NAME = b"q"

TIMES = 3
"""What has been seen before takes a way of its own."""

Sessions = Callable[[], psycopg.Connection]


@pytest.fixture(scope="module")
def sessions(two_tiers_pair: Pair) -> Iterator[Sessions]:
    conninfo = two_tiers_pair.gateway.conninfo(two_tiers_pair.database)
    with schema_sessions(conninfo, "ways_of_names") as opened:
        session = opened()
        for table, shown in (("large", 1), ("small", 2)):
            session.execute(f"CREATE TABLE {table} (id integer PRIMARY KEY, n integer)")  # type: ignore[arg-type]
            session.execute(f"INSERT INTO {table} SELECT g, {shown} FROM generate_series(1, 9) g")  # type: ignore[arg-type]
        make_tiered(session, "large")
        yield opened


def run(session: psycopg.Connection) -> list[bytes | None]:
    """Execute what the name stands for, time and again; return what each time yields."""
    found = []
    for _ in range(TIMES):
        result = session.pgconn.exec_prepared(NAME, [b"1"])
        is_row = result.status == ExecStatus.TUPLES_OK
        found.append(result.get_value(0, 0) if is_row else result.error_field(67))
    return found


def prepare(session: psycopg.Connection, text: bytes) -> None:
    assert session.pgconn.prepare(NAME, text).status == ExecStatus.COMMAND_OK


def close(session: psycopg.Connection) -> None:
    assert session.pgconn.close_prepared(NAME).status == ExecStatus.COMMAND_OK


CHANGE = b"UPDATE large SET n = n + 1 WHERE id = $1 RETURNING n > 1"


def test_a_name_is_given_to_another_statement(sessions: Sessions) -> None:
    with sessions() as session:
        for _ in range(TIMES):
            prepare(session, CHANGE)
            assert run(session) == [b"t"] * TIMES
            close(session)
            prepare(session, b"SELECT n FROM small WHERE id = $1")
            assert run(session) == [b"2"] * TIMES
            session.execute("DEALLOCATE q")
            assert run(session) == [b"26000"] * TIMES


def test_the_table_of_a_prepared_statement_changes_its_tier(sessions: Sessions) -> None:
    with sessions() as session, sessions() as other:
        other.execute("CREATE TABLE moving AS SELECT g AS id, 3 AS n FROM generate_series(1, 9) g")
        other.execute("ALTER TABLE moving ADD PRIMARY KEY (id)")
        make_tiered(other, "moving")
        prepare(session, b"SELECT n FROM moving WHERE id = $1")
        assert run(session) == [b"3"] * TIMES
        other.execute("ALTER TABLE moving SET (gateway.residency = always)")
        other.execute("VACUUM moving")
        other.execute("UPDATE moving SET n = 4")
        assert run(session) == [b"4"] * TIMES
        other.execute("ALTER TABLE moving SET (gateway.residency = never)")
        make_tiered(other, "moving")
        other.execute("UPDATE moving SET n = 5")
        assert run(session) == [b"5"] * TIMES


def test_a_temporary_table_takes_the_name_of_a_tiered_one(sessions: Sessions) -> None:
    with sessions() as session:
        prepare(session, b"SELECT n > 0 FROM large WHERE id = $1")
        assert run(session) == [b"t"] * TIMES
        session.execute("CREATE TEMP TABLE large AS SELECT 1 AS id, -1 AS n")
        # A statement that is prepared is planned again where its names mean something else.
        assert run(session) == [b"f"] * TIMES
        session.execute("DROP TABLE large")
        assert run(session) == [b"t"] * TIMES
