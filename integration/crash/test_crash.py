"""kill -9 of the gateway's process group while clients write.

Every acknowledged commit is there after the restart; of a commit that was under way all is there or
nothing; no other row ever appears.
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

WRITERS = 3

SEED = 20241121

PATIENCE_S = 90.0
"""How long a round waits for its transfers."""

SCHEMA = """
CREATE TABLE accounts (id integer PRIMARY KEY, balance integer NOT NULL CHECK (balance >= 0));
CREATE TABLE transfers (writer integer, number integer, n integer, PRIMARY KEY (writer, number));
CREATE TABLE lines (writer integer, number integer, line text);
CREATE TABLE loads (load integer, row integer, PRIMARY KEY (load, row));
INSERT INTO accounts SELECT g, 1000000 FROM generate_series(1, 10) g
"""

LOAD_ROWS = 1500
"""Rows of one COPY: more than are kept in the tail."""


@dataclass
class Writer:
    """Writes until its connection breaks, and remembers what was acknowledged."""

    number: int
    address: Address
    next_transfer: int = 0
    next_load: int = 0
    acknowledged: list[int] = field(default_factory=list)
    """Numbers of transfers."""
    under_way: int | None = None
    """The transfer whose fate is not known."""
    loads: list[int] = field(default_factory=list)
    load_under_way: int | None = None
    failure: Exception | None = None
    connected: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        connection: psycopg.Connection | None = None
        try:
            with psycopg.connect(self.address.conninfo(), autocommit=True) as connection:
                self.connected.set()
                while True:
                    self._transfer(connection)
                    if self.next_transfer % 4 == self.number:
                        self._load(connection)
        except Exception as error:  # noqa: BLE001 - shown by the test
            if connection is None or not connection.broken:
                self.failure = error

    def _transfer(self, connection: psycopg.Connection) -> None:
        number = self.next_transfer
        self.next_transfer += 1
        self.under_way = number
        changes = {1 + number % 10: -1, 1 + (number + 3) % 10: 1}
        with connection.transaction():
            for account, amount in sorted(changes.items()):
                connection.execute(
                    "UPDATE accounts SET balance = balance + %s WHERE id = %s", [amount, account]
                )
            connection.execute("INSERT INTO transfers VALUES (%s, %s, 1)", [self.number, number])
            connection.execute("INSERT INTO lines VALUES (%s, %s, 'x')", [self.number, number])
        self.acknowledged.append(number)
        self.under_way = None

    def _load(self, connection: psycopg.Connection) -> None:
        number = self.number * 1000 + self.next_load
        self.next_load += 1
        self.load_under_way = number
        with connection.cursor() as cursor, cursor.copy("COPY loads FROM STDIN") as copy:
            copy.write("".join(f"{number}\t{row}\n" for row in range(LOAD_ROWS)))
        self.loads.append(number)
        self.load_under_way = None


def rows(address: Address, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(address.conninfo()) as connection:
        return connection.execute(query).fetchall()


def check(address: Address, writers: list[Writer]) -> None:
    """Compare what is stored with what was acknowledged; what was in doubt is decided now."""
    stored = set(rows(address, "SELECT writer, number FROM transfers"))
    lines = rows(address, "SELECT writer, number FROM lines")
    loads = dict(rows(address, "SELECT load, count(*) FROM loads GROUP BY load"))
    assert set(loads.values()) <= {LOAD_ROWS}
    assert sorted(stored) == sorted(lines), "the tables of one transaction disagree"
    assert rows(address, "SELECT sum(balance) FROM accounts") == [(10_000_000,)]
    expected, expected_loads = set(), set()
    for writer in writers:
        assert writer.failure is None, repr(writer.failure)
        if (writer.number, writer.under_way) in stored:
            writer.acknowledged.append(writer.under_way)
        if writer.load_under_way in loads:
            writer.loads.append(writer.load_under_way)
        writer.under_way = writer.load_under_way = None
        expected |= {(writer.number, number) for number in writer.acknowledged}
        expected_loads |= set(writer.loads)
    assert stored == expected
    assert set(loads) == expected_loads


def wait_for_progress(writers: list[Writer], transfers: int) -> None:
    """Wait until so many more transfers, and a load at least, have been acknowledged.

    All writers have connected then: to be turned away is no answer to what they write.
    """
    before = progress(writers)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and not any(writer.failure for writer in writers):
        now = progress(writers)
        connected = all(writer.connected.is_set() for writer in writers)
        if connected and now[0] >= before[0] + transfers and now[1] > 0:
            break
        time.sleep(0.01)


def progress(writers: list[Writer]) -> tuple[int, int]:
    return (
        sum(len(writer.acknowledged) for writer in writers),
        sum(len(writer.loads) for writer in writers),
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", [1, pytest.param(8, marks=pytest.mark.exhaustive)])
def test_acknowledged_commits_survive_and_nothing_else(tmp_path: Path, rounds: int) -> None:
    moments = random.Random(SEED)  # noqa: S311 - not for secrets
    process = GatewayProcess(tmp_path / "data", *SPARK_OPTIONS)
    try:
        process.start()
        process.address.execute(SCHEMA)
        writers = [Writer(number, process.address) for number in range(WRITERS)]
        for round_number in range(rounds):
            threads = [threading.Thread(target=writer.run, daemon=True) for writer in writers]
            for writer, thread in zip(writers, threads, strict=True):
                writer.address = process.address
                writer.connected.clear()
                thread.start()
            wait_for_progress(writers, moments.randint(2, 12))
            if round_number == 1:
                process.address.execute("VACUUM accounts", "VACUUM transfers")
            time.sleep(moments.uniform(0.0, 0.5))
            process.kill()
            for thread in threads:
                thread.join(30.0)
            process.start()
            check(process.address, writers)
        transfers, loads = progress(writers)
        assert transfers >= 2 * rounds
        assert loads > 0
        process.terminate()
    finally:
        process.kill_if_running()
