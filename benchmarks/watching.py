"""A reader of a table and a writer of another one, who note how long they wait for answers."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import Self

from benchmarks.background import Background
from benchmarks.client import AnswerError, Client
from benchmarks.datasets import Dataset
from tests.support.servers import Address

PAUSE_S = 0.005
"""Between two statements: they are to feel what the gateway does, not to hinder it."""

SPARK_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Wait:
    """How long one answer took, and whether Spark gave it."""

    start: float
    seconds: float
    on_spark: bool = False


@dataclass(frozen=True, slots=True)
class Waits:
    """All waits of one session."""

    items: list[Wait] = field(default_factory=list)

    def seconds(
        self, *, on_spark: bool = False, since: float = 0.0, until: float = float("inf")
    ) -> list[float]:
        """Return the waits for PostgreSQL, or for Spark, that lay at least partly in a time."""
        return [
            wait.seconds
            for wait in self.items
            if wait.on_spark == on_spark
            and wait.start + wait.seconds >= since
            and wait.start <= until
        ]


class Watch:
    """Two sessions that go on while the context lasts."""

    def __init__(self, address: Address, read: Dataset, written: str) -> None:
        """Read rows of one table by key, and insert rows into another one."""
        self.reads, self.writes = Waits(), Waits()
        self._address = address
        self._read_table = read
        self._written_table = written
        self._numbers = count(1)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for turn in (self._read, self._write):
            self._stack.enter_context(Background(self._address, turn, PAUSE_S))
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def wait_for_spark(self, reads: int) -> None:
        """Go on until Spark has answered so many reads.

        Raises:
            AnswerError: It does not.
        """
        deadline = time.monotonic() + SPARK_TIMEOUT_S
        while len(self.reads.seconds(on_spark=True)) < reads:
            if time.monotonic() > deadline:
                raise AnswerError(f"Spark does not answer for {self._read_table.table}")
            time.sleep(0.1)

    def _read(self, client: Client) -> None:
        key = next(self._numbers) * 7919 % self._read_table.rows + 1
        start = time.perf_counter()
        answer = client.ask(f"SELECT * FROM {self._read_table.table} WHERE id = {key}")
        if [row[0] for row in answer.rows] != [str(key)]:
            raise AnswerError(f"the row with the key {key} is {answer.rows}")
        decision = str(client.query("SHOW gateway.last_decision")[0][0])
        self.reads.items.append(Wait(start, answer.seconds, decision.startswith("spark")))

    def _write(self, client: Client) -> None:
        start = time.perf_counter()
        answer = client.ask(f"INSERT INTO {self._written_table} (note) VALUES ('new')")
        self.writes.items.append(Wait(start, answer.seconds))
