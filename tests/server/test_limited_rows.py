"""Statements that can do with some of the rows that satisfy a condition, whichever these are."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.support.fix_server import Pair
from tests.support.tiers import await_tiered

pytestmark = pytest.mark.server

SCHEMA = "limited_rows"
ROWS = 20_000
"""More than may become hot for a statement."""
RUN_S = 6.0
SETUP = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    "CREATE TABLE t (id integer PRIMARY KEY, state text, n integer)",
    f"INSERT INTO t SELECT g, 'new', g FROM generate_series(1, {ROWS}) g",
    "ALTER TABLE t SET (gateway.residency = never)",
)

DELETE = "DELETE FROM t WHERE id IN (SELECT id FROM t WHERE n > {n} LIMIT {limit})"
HOT = f"SELECT hot_rows FROM gateway.maintenance WHERE schema_name = '{SCHEMA}'"


@pytest.fixture
def served(two_tiers_pair: Pair) -> Iterator[Pair]:
    """A gateway with a tiered table ``t`` that has one hot row."""
    with connected(two_tiers_pair) as connection:
        for statement in SETUP:
            connection.execute(statement)
        await_tiered(connection, "t")
        connection.execute("UPDATE t SET state = 'old' WHERE id = 1")
        yield two_tiers_pair
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def connected(pair: Pair) -> psycopg.Connection:
    options = f"-c search_path={SCHEMA} -c lock_timeout=60s"
    return psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True, options=options)


def hot_rows(connection: psycopg.Connection) -> int:
    ((rows,),) = connection.execute(HOT).fetchall()
    assert isinstance(rows, int)
    return rows


@pytest.mark.parametrize("in_block", [False, True], ids=["alone", "in a block"])
def test_no_more_rows_become_hot_than_are_enough(served: Pair, in_block: bool) -> None:
    with connected(served) as connection:
        hot = hot_rows(connection)
        connection.autocommit = not in_block
        assert connection.execute(DELETE.format(n=5, limit=7)).rowcount == 7
        connection.commit()
        assert hot_rows(connection) == hot + 7
        found = connection.execute("SELECT count(*), min(n) FROM t").fetchall()
        assert found[0][0] == ROWS - 7


def test_all_of_them_become_hot_when_they_are_asked_for_again_and_are_not_too_many(
    served: Pair,
) -> None:
    statement = DELETE.format(n=ROWS - 100, limit=7)
    with connected(served) as connection:
        hot = hot_rows(connection)
        for _ in range(20):
            connection.execute(statement)
        assert hot_rows(connection) == hot + 100
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(ROWS - 100,)]


def test_rows_are_enough_for_each_statement_when_all_would_be_too_many(served: Pair) -> None:
    statement = DELETE.format(n=0, limit=7)
    with connected(served) as connection:
        hot = hot_rows(connection)
        for _ in range(5):
            assert connection.execute(statement).rowcount == 7
        assert hot_rows(connection) < hot + 5 * 7 + 1
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(ROWS - 35,)]


def test_as_many_rows_are_found_as_there_are_while_others_take_some(served: Pair) -> None:
    ends = time.monotonic() + RUN_S
    most, step = 5, 40

    def take() -> list[int]:
        counts = []
        with connected(served) as connection:
            while time.monotonic() < ends:
                changed = connection.execute(
                    "UPDATE t SET state = 'seen' WHERE id IN"
                    f" (SELECT id FROM t WHERE n > 0 LIMIT {most})"
                )
                counts.append(changed.rowcount)
        return counts

    def withdraw() -> int:
        """Withdraw the first rows in files, which are those that are found."""
        first = 1
        with connected(served) as connection:
            while time.monotonic() < ends and first < ROWS - step:
                connection.execute(
                    "UPDATE t SET n = -n WHERE id = ANY (%s)", (list(range(first, first + step)),)
                )
                first += step
        return first

    with ThreadPoolExecutor(2) as pool:
        taking, withdrawing = pool.submit(take), pool.submit(withdraw)
        assert step < withdrawing.result() < ROWS - step
        counts = taking.result()
    assert counts
    assert set(counts) == {most}
    with connected(served) as connection:
        assert connection.execute("SELECT gateway.check('t')").fetchall() == [(0,)]
