"""Clients that work side by side on tiered tables: small and bulk writers, readers, VACUUM."""

import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import cycle
from typing import Protocol

import psycopg

from tests.support import hot_bulk_steps, hot_load, hot_steps, related_rows, related_steps
from tests.support.hot_load import Effects, Part, WrongAnswerError
from tests.support.servers import Address, GatewayProcess

WRITERS, READERS = 4, 2

PATIENCE_S = 60.0
"""How long clients may take to end what they are doing."""

VACUUM_S = 1.0

REST_S = 1.0
"""How long those rest who lock the table as a whole."""

RETRY_S = 0.2
"""How long those rest who have lost their session."""

READ_COMMITTED = ("READ COMMITTED",)

LEVELS = (*READ_COMMITTED, "REPEATABLE READ", "SERIALIZABLE")

SMALL_PARTS = (*hot_steps.PARTS, *related_steps.PARTS)

BULK_PARTS = (*hot_bulk_steps.PARTS, *related_steps.BULK_PARTS)

TABLES = ("t", *related_rows.COLUMNS)

WARMING = (
    "UPDATE t SET note = 'warm' WHERE k = 1",
    "DELETE FROM receipts WHERE writer = -1 AND number = -1",
    *(f"DELETE FROM {table} WHERE id = -1" for table in related_rows.COLUMNS),
)
"""Small writes that change nothing that counts."""

LOCK_TIMEOUT = "20s"

UNKNOWN = "40003"
"""The catalog has gone while it was committing."""

CATALOG_LOST = frozenset({"57P01", "57P02", "08006", UNKNOWN})
"""What clients are told when the catalog has gone, and the gateway has not."""

UNHEARD = "unheard"
"""The session has ended, and psycopg says no more: of pipelines never, on PostgreSQL too."""

SPARK_LOST = frozenset({"57P02"})

CANCELED = "57014"

Connection = psycopg.Connection


@dataclass
class Findings:
    """What clients met."""

    seed: int
    """What everything is drawn by."""
    wrong: list[object] = field(default_factory=list)
    commits: Counter[str] = field(default_factory=Counter)
    """By step."""
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By step and SQLSTATE."""
    reads: int = 0
    races: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """By the kind of it, and how it ended for each."""
    lost: Counter[str] = field(default_factory=Counter)
    """SQLSTATEs that clients were told when a process had gone."""
    last: dict[object, deque[object]] = field(default_factory=dict)
    """The last transactions on each row that were acknowledged."""

    def note(self, who: int, number: int, steps: Sequence[str], effects: Effects) -> None:
        """Note a transaction that was acknowledged."""
        self.commits.update(steps)
        for row in {row for _, row in effects.added}:
            added = {what: n for (what, of), n in effects.added.items() if of == row and n}
            told = (round(time.time(), 3), who, number, *steps, added)
            self.last.setdefault(row, deque(maxlen=12)).append(told)
        for table, image in effects.images:
            told = (round(time.time(), 3), who, number, *steps, dict(effects.images))
            self.last.setdefault((table, image[0]), deque(maxlen=12)).append(told)

    def note_end(self, who: object, error: psycopg.Error) -> None:
        """Note what has ended the connection of a client; that a process has gone may have."""
        reason = error.__cause__ if isinstance(error.__cause__, psycopg.Error) else error
        if is_lost(reason):
            self.lost[reason.sqlstate or reason.diag.sqlstate or UNHEARD] += 1
        else:
            self.wrong.append((time.time(), who, repr(reason)))


class Door:
    """Where small writers stop for a moment, so that the tables can have hot rows again."""

    def __init__(self) -> None:
        """Open it."""
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Be inside while the context lasts."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed, PATIENCE_S)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def warm(self, connection: Connection) -> None:
        """Write rows by their keys while nobody is inside."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed, PATIENCE_S)
            self._closed = True
            self._changed.wait_for(lambda: not self._inside, PATIENCE_S)
        try:
            for statement in WARMING:
                connection.execute(statement)  # type: ignore[call-overload]
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()


class Client(Protocol):
    """Who works until told to stop, or until the connection breaks."""

    address: Address

    def run(self, stopped: Callable[[], bool]) -> None:
        """Work."""


@dataclass
class InDoubt:
    """A transaction whose fate is not known."""

    effects: Effects
    number: int | None = None
    """That of its receipt, if it has one."""


class Writer:
    """Runs random transactions, and knows what those come to that were acknowledged."""

    def __init__(
        self,
        number: int,
        findings: Findings,
        door: Door,
        parts: Sequence[Part] = SMALL_PARTS,
        *,
        levels: Sequence[str] = READ_COMMITTED,
        rest_s: float = 0.0,
    ) -> None:
        """Number the writer; its transactions are drawn by that number.

        Who rests between them locks the table as a whole.
        """
        self.number = number
        self.address = Address("127.0.0.1", 0)
        self.state = Effects()
        self.receipts: set[int] = set()
        self.doubts: list[InDoubt] = []
        self._in_doubt: InDoubt | None = None
        self._findings = findings
        self._parts = parts
        self._door = door
        self._levels = levels
        self._rest_s = rest_s
        self._next = 0
        self._chance = random.Random(findings.seed + number)  # noqa: S311 - not for secrets

    def run(self, stopped: Callable[[], bool]) -> None:
        """Write until told to stop, or until the connection breaks."""
        try:
            with connected(self.address) as connection:
                connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")  # type: ignore[call-overload]
                while not stopped():
                    with nullcontext() if self._rest_s else self._door.passed():
                        if self._rest_s or self._chance.random() < 0.6:
                            self._transaction(connection)
                        else:
                            self._alone(connection)
                    if self._rest_s:
                        self._warm(connection)
                        pause(self._rest_s, stopped)
        except psycopg.OperationalError as error:
            self._findings.note_end(("writer", self.number), error)
            if self._in_doubt:
                self.doubts.append(self._in_doubt)
                self._in_doubt = None

    def _warm(self, connection: Connection) -> None:
        try:
            self._door.warm(connection)
        except psycopg.Error as error:
            self._fail(connection, error, None, ("warm",))

    def _transaction(self, connection: Connection) -> None:
        number, effects = self._next, Effects()
        self._next += 1
        level = self._chance.choice(self._levels)
        fit = [part for part in self._parts if part.in_any or level in READ_COMMITTED]
        parts = self._chance.choices(fit, k=self._chance.choice((1, 1, 2)))
        names = [part.step.__name__ for part in parts]
        part: Part | None = None
        try:
            connection.execute(f"BEGIN ISOLATION LEVEL {level}")  # type: ignore[call-overload]
            for part in parts:
                if not part.step(connection, self._chance, effects):
                    connection.execute("ROLLBACK")
                    return
            part = None
            query = "INSERT INTO receipts VALUES (%s, %s)"
            connection.execute(query, [self.number, number])
            self._in_doubt = InDoubt(effects, number)
            connection.execute("COMMIT")
        except (psycopg.Error, WrongAnswerError) as error:
            self._fail(connection, error, part, (level, *names))
            connection.execute("ROLLBACK")
            self._in_doubt = None
            return
        self.receipts.add(number)
        self._acknowledged(number, names, effects)

    def _alone(self, connection: Connection) -> None:
        """Run a statement that is a transaction of its own."""
        number, effects = self._next, Effects()
        self._next += 1
        step = hot_steps.add if self._chance.random() < 0.7 else hot_steps.add_wherever
        # What the statement does is known before its answer.
        (key,) = hot_load.some_keys(self._chance, 1)
        row = hot_load.row_of(key)
        effects.add("n", row)
        self._in_doubt = InDoubt(effects)
        try:
            if step is hot_steps.add:
                query = "UPDATE t SET n = n + 1 WHERE k = %s"
                done = hot_load.touched(connection.execute(query, [key]), key)
            else:
                found = connection.execute("UPDATE t SET n = n + 1 WHERE id = %s", [row])
                done = bool(found.rowcount)
                hot_load.expect(done or row in hot_load.PUT_BACK, "always there", row)
        except (psycopg.Error, WrongAnswerError) as error:
            self._fail(connection, error, Part(step), ("alone",))
            self._in_doubt = None
            return
        if done:
            self._acknowledged(number, [f"{step.__name__} alone"], effects)
        self._in_doubt = None

    def _acknowledged(self, number: int, steps: list[str], effects: Effects) -> None:
        self._in_doubt = None
        self.state.update(effects)
        self._findings.note(self.number, number, steps, effects)

    def _fail(
        self,
        connection: Connection,
        error: Exception,
        part: Part | None,
        names: Sequence[str],
    ) -> None:
        """Note an error; those of processes that have gone are raised again."""
        name = part.step.__name__ if part else "the end"
        if isinstance(error, psycopg.Error):
            if connection.broken or is_lost(error):
                raise psycopg.OperationalError from error
            self._findings.refused[name, error.sqlstate or ""] += 1
            if error.sqlstate in hot_load.PASSING | (part.refused if part else frozenset()):
                return
        self._findings.wrong.append((time.time(), self.number, name, names, repr(error)))


class Vacuuming:
    """Merges the journal of one table after the other every now and then."""

    def __init__(self, findings: Findings, door: Door) -> None:
        """Note what is wrong there."""
        self.address = Address("127.0.0.1", 0)
        self._findings = findings
        self._door = door

    def run(self, stopped: Callable[[], bool]) -> None:
        """Vacuum until told to stop, or until the connection breaks."""
        try:
            with connected(self.address) as connection:
                for table in cycle(TABLES):
                    pause(VACUUM_S, stopped)
                    if stopped():
                        return
                    self._vacuum(connection, table)
        except psycopg.OperationalError as error:
            self._findings.note_end("vacuum", error)

    def _vacuum(self, connection: Connection, table: str) -> None:
        try:
            connection.execute(f"VACUUM {table}")  # type: ignore[call-overload]
            self._findings.commits["vacuum"] += 1
            self._door.warm(connection)
        except psycopg.Error as error:
            if connection.broken or is_lost(error):
                raise psycopg.OperationalError from error
            self._findings.refused["vacuum", error.sqlstate or ""] += 1
            if error.sqlstate not in hot_load.PASSING:
                self._findings.wrong.append((time.time(), "vacuum", repr(error)))


ALWAYS = {
    "SELECT sum(balance) FROM t": (hot_load.TOTAL,),
    f"SELECT sum(balance) FROM ({hot_load.REPLAYED}) replayed": (hot_load.TOTAL,),
    "SELECT count(*) - count(DISTINCT k), count(*) - count(DISTINCT id) FROM t": (0, 0),
    f"SELECT count(*) FROM t WHERE id <= {hot_load.LASTING[-1]}": (len(hot_load.LASTING),),
    **{f"SELECT gateway.check('{table}')": (0,) for table in TABLES},
    related_rows.VIOLATIONS: related_rows.NO_VIOLATION,
    related_rows.REPLAYED_VIOLATIONS: related_rows.NO_VIOLATION,
}
"""What every reader finds at any moment."""


class Reader:
    """Reads what stays the same."""

    def __init__(self, number: int, findings: Findings) -> None:
        """Number the reader; what it reads is drawn by that number."""
        self.address = Address("127.0.0.1", 0)
        self._findings = findings
        self._chance = random.Random(findings.seed - number)  # noqa: S311 - not for secrets

    def run(self, stopped: Callable[[], bool]) -> None:
        """Read until told to stop, or until the connection breaks."""
        try:
            with connected(self.address) as connection:
                while not stopped():
                    level = self._chance.choice(LEVELS)
                    connection.execute(f"BEGIN ISOLATION LEVEL {level}")  # type: ignore[call-overload]
                    for _ in range(2):
                        self._read(connection)
                    connection.execute("COMMIT")
                    time.sleep(0.5)
        except psycopg.Error as error:
            self._findings.note_end("reader", error)

    def _read(self, connection: Connection) -> None:
        query, expected = self._chance.choice(list(ALWAYS.items()))
        found = connection.execute(query).fetchone()  # type: ignore[call-overload]
        self._findings.reads += 1
        if found != expected:
            self._findings.wrong.append((time.time(), query, found))


def connected(address: Address) -> Connection:
    return psycopg.connect(address.conninfo(), autocommit=True)


def is_lost(error: psycopg.Error) -> bool:
    """Return whether a process has gone that the statement needed."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    is_of_system = error.sqlstate[:2] in {"08", "57", "58"} and error.sqlstate != CANCELED
    return is_of_system or error.sqlstate == UNKNOWN


def pause(seconds: float, stopped: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not stopped() and time.monotonic() < deadline:
        time.sleep(0.05)


def persist(client: Client, stopped: Callable[[], bool]) -> None:
    """Let a client work, with another session whenever it has lost one."""
    while not stopped():
        client.run(stopped)
        pause(RETRY_S, stopped)


def work(workers: Sequence[Client], stopped: Callable[[], bool], process: GatewayProcess) -> None:
    """Have clients work side by side until they stop; who has lost a session gets another one."""
    threads = []
    for worker in workers:
        worker.address = process.address
        threads.append(threading.Thread(target=persist, args=[worker, stopped], daemon=True))
        threads[-1].start()
    while not stopped():
        time.sleep(0.05)
    deadline = time.monotonic() + PATIENCE_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    still = [w for w, thread in zip(workers, threads, strict=True) if thread.is_alive()]
    assert not still, "clients wait for ever"
