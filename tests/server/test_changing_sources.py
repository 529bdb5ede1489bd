"""Statements whose keys a resident table tells, while others change what it holds."""

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.support.fix_server import Pair
from tests.support.tiers import await_tiered

pytestmark = pytest.mark.server

SCHEMA = "changing_sources"

SLOTS = 5
"""Rows of the source. Each has a key of its own at any moment, and none has that of another."""

KEYS = 2_000

RUN_S = 8.0

SETUP = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    "CREATE TABLE t (id integer PRIMARY KEY, n integer DEFAULT 0)",
    f"INSERT INTO t SELECT generate_series(0, {KEYS - 1})",
    "CREATE TABLE s (slot integer PRIMARY KEY, id integer)",
    f"INSERT INTO s SELECT g, g FROM generate_series(0, {SLOTS - 1}) g",
    "ALTER TABLE t SET (gateway.residency = never)",
)

STATEMENTS = (
    "UPDATE t SET n = t.n + 1 FROM s WHERE t.id = s.id",
    "UPDATE t SET n = n + 1 WHERE id IN (SELECT id FROM s)",
    (
        "MERGE INTO t USING (SELECT DISTINCT id FROM s) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET n = t.n + 1"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.id, -1000000)"
    ),
    "INSERT INTO t SELECT id, -1000000 FROM s ON CONFLICT (id) DO UPDATE SET n = t.n + 1",
)
"""What adds one to as many rows as the source has, whichever these are."""


@pytest.fixture
def served(two_tiers_pair: Pair) -> Iterator[Pair]:
    """A gateway with a tiered table ``t`` and a resident one ``s``."""
    with connected(two_tiers_pair) as connection:
        for statement in SETUP:
            connection.execute(statement)
        await_tiered(connection, "t")
        yield two_tiers_pair
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


def connected(pair: Pair) -> psycopg.Connection:
    options = f"-c search_path={SCHEMA} -c lock_timeout=60s"
    return psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True, options=options)


def test_no_row_is_missed(served: Pair) -> None:
    ends = time.monotonic() + RUN_S

    def change(seed: int) -> int:
        chance, done = random.Random(seed), 0  # noqa: S311 - the same each time
        with connected(served) as connection:
            while time.monotonic() < ends:
                slot = chance.randrange(SLOTS)
                key = chance.randrange(KEYS // SLOTS) * SLOTS + slot
                if chance.random() < 0.5:
                    connection.execute("UPDATE s SET id = %s WHERE slot = %s", (key, slot))
                else:
                    with connection.transaction():
                        connection.execute("DELETE FROM s WHERE slot = %s", (slot,))
                        connection.execute(
                            "INSERT INTO s VALUES (%s, %s) ON CONFLICT DO NOTHING", (slot, key)
                        )
                done += 1
        return done

    def follow(seed: int) -> list[int]:
        chance, counts = random.Random(seed), []  # noqa: S311 - the same each time
        with connected(served) as connection:
            while time.monotonic() < ends:
                statement = chance.choice(STATEMENTS)
                try:
                    if chance.random() < 0.5:
                        count = connection.execute(statement).rowcount
                    else:
                        with connection.transaction():
                            count = connection.execute(statement).rowcount
                except psycopg.errors.DeadlockDetected:
                    continue  # both change the same rows, in whichever order
                counts.append(count)
        return counts

    with ThreadPoolExecutor(4) as pool:
        changes = [pool.submit(change, seed) for seed in (1, 2)]
        followers = [pool.submit(follow, seed) for seed in (3, 4)]
        assert all(one.result() > 0 for one in changes)
        counts = [count for one in followers for count in one.result()]
    assert set(counts) == {SLOTS}
    with connected(served) as connection:
        found = connection.execute("SELECT sum(n), count(*) FROM t").fetchall()
        assert found == [(SLOTS * len(counts), KEYS)]
        assert connection.execute("SELECT gateway.check('t')").fetchall() == [(0,)]
