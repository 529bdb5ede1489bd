"""kill -9 while statements write several partitions, each into files of its own.

What one statement writes is one commit: all partitions have it afterwards, or none; and all have
what was acknowledged.
"""

import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from tests.support.fix_server import SPARK_OPTIONS
from tests.support.servers import Address, GatewayProcess

SEED = 20261123

PARTITIONS, ROWS = 4, 1500
"""Rows of one partition: more than are kept in the tail."""

PATIENCE_S = 120.0

SCHEMA = (
    "CREATE TABLE p (k integer, id integer, v integer, PRIMARY KEY (k, id)) PARTITION BY LIST (k)",
    *(f"CREATE TABLE p_{k} PARTITION OF p FOR VALUES IN ({k})" for k in range(PARTITIONS)),
    f"INSERT INTO p SELECT g % {PARTITIONS}, g, 0 FROM generate_series(1, {PARTITIONS * ROWS}) g",
)

STATEMENTS = (
    "UPDATE p SET v = v + 1",
    f"UPDATE p SET k = (k + 1) % {PARTITIONS}, v = v + 1",
    "WITH moved AS (SELECT 1) UPDATE p SET v = v + 1",
)
"""All rows have the same ``v`` after each of them."""


@dataclass
class Writer:
    """Changes all rows of all partitions until its connection breaks."""

    address: Address
    acknowledged: int = 0
    failure: Exception | None = None
    began: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        connection: psycopg.Connection | None = None
        try:
            with psycopg.connect(self.address.conninfo(), autocommit=True) as connection:
                while True:
                    self.began.set()
                    connection.execute(STATEMENTS[self.acknowledged % len(STATEMENTS)])
                    self.acknowledged += 1
        except psycopg.Error as error:
            if connection is not None and not connection.broken:
                self.failure = error


def state(address: Address) -> tuple[int, int, int]:
    """Return how many rows there are, of how many keys, and their ``v``."""
    with psycopg.connect(address.conninfo(), autocommit=True) as connection:
        ((rows, keys, least, most),) = connection.execute(
            "SELECT count(*), count(DISTINCT id), min(v), max(v) FROM p"
        ).fetchall()
        assert least == most
        by_partition = connection.execute("SELECT k, count(*) FROM p GROUP BY k").fetchall()
        assert sorted(by_partition) == [(k, ROWS) for k in range(PARTITIONS)]
        return rows, keys, least


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.exhaustive)])
def test_a_statement_on_several_partitions_is_one_commit(tmp_path: Path, rounds: int) -> None:
    moments = random.Random(SEED)  # noqa: S311 - not for secrets
    process = GatewayProcess(tmp_path / "data", *SPARK_OPTIONS)
    try:
        process.start()
        process.address.execute(*SCHEMA)
        writer = Writer(process.address)
        for _ in range(rounds):
            before = writer.acknowledged
            writer.address = process.address
            thread = threading.Thread(target=writer.run, daemon=True)
            thread.start()
            deadline = time.monotonic() + PATIENCE_S
            while writer.acknowledged == before:
                assert writer.failure is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            time.sleep(moments.uniform(0.0, 2.0))
            process.kill()
            thread.join(30.0)
            assert writer.failure is None
            process.start()
            rows, keys, found = state(process.address)
            assert (rows, keys) == (PARTITIONS * ROWS, PARTITIONS * ROWS)
            assert found in {writer.acknowledged, writer.acknowledged + 1}
            writer.acknowledged = found
        assert writer.acknowledged >= rounds
        process.terminate()
    finally:
        process.kill_if_running()


def test_what_is_staged_and_not_committed_is_nowhere(tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path / "data", *SPARK_OPTIONS)
    try:
        process.start()
        process.address.execute(*SCHEMA)
        connection = psycopg.connect(process.address.conninfo(), autocommit=True)
        connection.execute("UPDATE p SET v = v + 1")
        connection.execute("BEGIN")
        connection.execute("UPDATE p SET v = v + 1")
        connection.execute("DELETE FROM p WHERE id % 2 = 0")
        connection.execute(
            f"INSERT INTO p SELECT g % {PARTITIONS}, -g, 9 FROM generate_series(1, 9000) g"
        )
        process.kill()
        connection.close()
        process.start()
        assert state(process.address) == (PARTITIONS * ROWS, PARTITIONS * ROWS, 1)
        process.address.execute("VACUUM p")
        assert state(process.address) == (PARTITIONS * ROWS, PARTITIONS * ROWS, 1)
        process.terminate()
    finally:
        process.kill_if_running()
