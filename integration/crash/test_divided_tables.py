"""kill -9 while partitions are written: between staging and publishing, and in compactions.

Directories of partitions are moved into place one by one, and exist for readers all at once.
"""

import random
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.support.fix_server import SPARK_OPTIONS
from tests.support.servers import Address, GatewayProcess

SEED = 20261126
PARTITIONS, ROWS = 12, 6000
PATIENCE_S = 120.0

SCHEMA = (
    (
        "CREATE TABLE d (id integer PRIMARY KEY, k integer, v integer)"
        " USING parquet PARTITIONED BY (k, bucket(2, id))"
    ),
    f"INSERT INTO d SELECT g, g % {PARTITIONS}, 0 FROM generate_series(1, {ROWS}) g",
)
UPDATES = (
    "UPDATE d SET v = v + 1",
    f"UPDATE d SET k = (k + 1) % {PARTITIONS}, v = v + 1",
)
"""All rows have the same ``v`` after each of them; a compaction comes after each."""


@dataclass
class Writer:
    """Changes all rows, and compacts the table, until its connection breaks."""

    address: Address
    acknowledged: int = 0
    failure: Exception | None = None

    def run(self) -> None:
        connection: psycopg.Connection | None = None
        try:
            with psycopg.connect(self.address.conninfo(), autocommit=True) as connection:
                while True:
                    connection.execute(UPDATES[self.acknowledged % len(UPDATES)])
                    self.acknowledged += 1
                    connection.execute("VACUUM d")
        except psycopg.Error as error:
            if connection is not None and not connection.broken:
                self.failure = error


def state(address: Address) -> int:
    """Return the ``v`` of all rows, of which there are as many as ever."""
    with psycopg.connect(address.conninfo(), autocommit=True) as connection:
        (found,) = connection.execute(
            "SELECT count(*), count(DISTINCT id), min(v), max(v) FROM d"
        ).fetchall()
        rows, keys, least, most = found
        assert (rows, keys, least) == (ROWS, ROWS, most)
        by_value = connection.execute("SELECT k, count(*) FROM d GROUP BY k").fetchall()
        assert sorted(by_value) == [(k, ROWS // PARTITIONS) for k in range(PARTITIONS)]
        for k in (0, PARTITIONS - 1):
            (one,) = connection.execute("SELECT count(*) FROM d WHERE k = %s", [k]).fetchall()
            assert one == (ROWS // PARTITIONS,)
        return least


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", [1, pytest.param(6, marks=pytest.mark.exhaustive)])
def test_partitions_are_written_all_or_none(tmp_path: Path, rounds: int) -> None:
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
                time.sleep(0.02)
            # The compaction comes next.
            time.sleep(moments.uniform(0.0, 4.0))
            process.kill()
            thread.join(30.0)
            assert writer.failure is None
            process.start()
            found = state(process.address)
            assert found in {writer.acknowledged, writer.acknowledged + 1}
            writer.acknowledged = found
        assert writer.acknowledged >= rounds
        process.address.execute("VACUUM d")
        assert state(process.address) == writer.acknowledged
        process.terminate()
    finally:
        process.kill_if_running()
