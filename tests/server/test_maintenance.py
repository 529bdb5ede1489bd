"""Hot rows of tiered tables as upkeep looks after them: bounds of a table's own, and none without.

The gateway's own bounds are far away: what happens here happens because of the tables'.
"""

import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

SCHEMA = "maintained"

ROWS = 60

PATIENCE_S = 60.0
"""How long upkeep may take to look at a table."""

SETUP = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
    f"CREATE SCHEMA {SCHEMA}",
    f"CREATE TABLE {SCHEMA}.t (id integer PRIMARY KEY, v integer)",
    f"INSERT INTO {SCHEMA}.t SELECT g, 0 FROM generate_series(1, {ROWS}) g",
    # Who defines a table lets its rows go cold.
    f"ALTER TABLE {SCHEMA}.t ALTER v DROP DEFAULT",
    f"VACUUM {SCHEMA}.t",
)

ADD = "UPDATE t SET v = v + 1 WHERE id = %s"

Row = tuple[object, ...]


def connected(pair: Pair) -> psycopg.Connection:
    options = f"-c search_path={SCHEMA} -c lock_timeout=60s"
    return psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True, options=options)


def shown(connection: psycopg.Connection, columns: str) -> Row:
    query = f"SELECT {columns} FROM gateway.maintenance WHERE schema_name = '{SCHEMA}'"
    (found,) = connection.execute(query).fetchall()  # type: ignore[call-overload]
    return found


def becomes(connection: psycopg.Connection, columns: str, *expected: object) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while (found := shown(connection, columns)) != expected:
        assert time.monotonic() < deadline, f"{found} instead of {expected}"
        time.sleep(0.2)
    return True


@pytest.fixture
def client(shared_pair: Pair) -> Iterator[psycopg.Connection]:
    """A client whose schema has a tiered table ``t``."""
    with connected(shared_pair) as connection:
        for statement in SETUP:
            connection.execute(statement)  # type: ignore[call-overload]
        yield connection
        assert connection.execute("SELECT gateway.check('t')").fetchall() == [(0,)]
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


@pytest.fixture
def other(shared_pair: Pair, client: psycopg.Connection) -> Iterator[psycopg.Connection]:
    with connected(shared_pair) as connection:
        yield connection


@pytest.mark.parametrize("bound", ["hot_rows = 3", "hot_age_s = 0.5"])
def test_rows_go_cold_by_a_bound_of_the_table(client: psycopg.Connection, bound: str) -> None:
    client.execute(f"ALTER TABLE t SET (gateway.{bound})")
    # At once: upkeep that came in between would leave the others hot, as few as they are.
    with client.transaction():
        for key in range(1, 6):
            client.execute(ADD, [key])
    assert becomes(client, "state, last_cooled > now() - interval '1 minute'", "tiered", True)
    assert shown(client, "options, failures") == ([bound.replace(" ", "")], 0)
    assert client.execute("SELECT sum(v) FROM t").fetchall() == [(5,)]


def test_a_bound_is_gone_when_it_is_reset(client: psycopg.Connection) -> None:
    client.execute("ALTER TABLE t SET (gateway.thaw_rows = 3)")
    client.execute("ALTER TABLE t SET (gateway.hot_rows = 3)")
    client.execute("ALTER TABLE t RESET (gateway.hot_rows)")
    assert shown(client, "options") == (["thaw_rows=3"],)


def test_conditions_make_no_more_rows_hot_than_the_table_allows(
    client: psycopg.Connection,
) -> None:
    query = "SELECT id FROM t WHERE v = 0 AND id < 10 ORDER BY id FOR UPDATE SKIP LOCKED"
    client.execute("ALTER TABLE t SET (gateway.thaw_rows = 8)")
    with pytest.raises(errors.FeatureNotSupported):
        client.execute(query)
    client.execute("ALTER TABLE t SET (gateway.thaw_rows = 9)")
    assert len(client.execute(query.replace("< 10", "<= 9")).fetchall()) == 9


def test_other_parameters_are_unknown(client: psycopg.Connection) -> None:
    with pytest.raises(errors.InvalidParameterValue, match='unrecognized parameter "colour"'):
        client.execute("ALTER TABLE t SET (gateway.colour = red)")


def test_what_was_done_is_told(client: psycopg.Connection) -> None:
    lately = "last_compacted > now() - interval '1 minute', last_flushed = last_compacted"
    client.execute("INSERT INTO t VALUES (1001, 0)")
    client.execute("VACUUM t")
    assert shown(client, lately) == (True, True)
    assert shown(client, "state, work, failures, tail_rows") == ("hot", None, 0, 0)
    client.execute(ADD, [1])
    assert shown(client, "state, is_overheated, hot_rows, tail_rows") == ("hot", False, 2, 1)


def test_past_the_hard_bound_no_more_rows_become_hot(
    client: psycopg.Connection, other: psycopg.Connection
) -> None:
    """Who wants more waits until rows can go cold; who writes hot rows does not."""
    client.execute("ALTER TABLE t SET (gateway.hot_rows = 1)")
    with client.transaction():
        # Upkeep cannot let rows go cold that are locked.
        for key in range(1, 14):
            client.execute(ADD, [key])
        pausing = "is_overheated, failures > 0, work, last_failure, next_attempt IS NULL"
        assert becomes(other, pausing, True, True, None, "55P03", False)
        other.execute("SET lock_timeout = '2s'")
        for more in (
            "UPDATE t SET v = v + 1 WHERE id = 20",
            "INSERT INTO t VALUES (2000, 0)",
            "INSERT INTO t VALUES (2000, 0) ON CONFLICT DO NOTHING",
        ):
            with pytest.raises(errors.LockNotAvailable):
                other.execute(more)
        other.execute("SET lock_timeout = '60s'")
        # Its own rows, and others: it has the locks already.
        client.execute(ADD, [1])
        client.execute(ADD, [21])
    other.execute("UPDATE t SET v = v + 1 WHERE id = 20")
    assert shown(other, "is_overheated, last_cooled IS NULL") == (False, False)
    assert client.execute("SELECT sum(v), max(v) FROM t").fetchall() == [(16, 2)]


def test_transactions_past_the_hard_bound_do_not_fail_each_other(
    client: psycopg.Connection, other: psycopg.Connection
) -> None:
    """Two that have written go on side by side: neither has to lock the table."""
    client.execute("ALTER TABLE t SET (gateway.hot_rows = 1)")
    with client.transaction(), other.transaction():
        for key in range(1, 14):
            client.execute(ADD, [key])
        other.execute(ADD, [30])
        with psycopg.connect(client.info.dsn, autocommit=True) as observer:
            assert becomes(observer, "is_overheated", True)
        client.execute(ADD, [31])
        other.execute(ADD, [32])
        client.execute("INSERT INTO t VALUES (2000, 1)")
    assert client.execute("SELECT sum(v) FROM t").fetchall() == [(17,)]
