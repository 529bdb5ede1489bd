"""Small writes of a tiered table beside bulk writers, upkeep and readers, and processes that die.

Every acknowledged transaction is in the table exactly once, and of no other a part; the balances
have the same sum at any moment; what PostgreSQL holds is what the journal says.
"""

import os
import random
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psycopg
import pytest

from tests.support import hot_load
from tests.support.fix_server import SPARK_OPTIONS
from tests.support.hot_load import Effects, Step, WrongAnswerError
from tests.support.processes import descendants
from tests.support.servers import Address, GatewayProcess

SEED = 20251122

OPTIONS = (
    *SPARK_OPTIONS,
    "--flush-rows=200",
    "--flush-age-s=1",
    "--thaw-rows=60",
    "--hot-rows=30",
    "--hot-age-s=1",
)

WRITERS, READERS = 4, 2

STRESS_S = 20.0

LEAST_COMMITS = 100

LONGEST_S = 120.0
"""How long clients work at most until each kind of them has done something."""

PATIENCE_S = 60.0
"""How long clients may take to end what they are doing."""

VACUUM_S = 3.0

REST_S = 1.0
"""How long those rest who lock the table as a whole."""

READ_COMMITTED = ("READ COMMITTED",)

LEVELS = (*READ_COMMITTED, "REPEATABLE READ", "SERIALIZABLE")

LOCK_TIMEOUT = "20s"

CONFLICTING = frozenset({hot_load.insert, hot_load.merge})
"""Steps that may find that somebody else has inserted their key."""

Connection = psycopg.Connection
State = Counter[tuple[str, int]]


@dataclass
class Findings:
    """What clients met."""

    wrong: list[object] = field(default_factory=list)
    commits: Counter[str] = field(default_factory=Counter)
    """By step."""
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By step and SQLSTATE."""
    reads: int = 0
    last: dict[int, deque[object]] = field(default_factory=dict)
    """The last transactions on each row that were acknowledged."""

    def note(self, who: int, number: int, steps: Sequence[str], effects: Effects) -> None:
        """Note a transaction that was acknowledged."""
        self.commits.update(steps)
        for row in {row for _, row in effects.added}:
            added = {what: n for (what, of), n in effects.added.items() if of == row and n}
            told = (round(time.time(), 3), who, number, *steps, added)
            self.last.setdefault(row, deque(maxlen=12)).append(told)


class Door:
    """Where small writers stop for a moment, so that the table can have hot rows again."""

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
            connection.execute("UPDATE t SET note = 'warm' WHERE k = 1")
            connection.execute("DELETE FROM receipts WHERE writer = -1 AND number = -1")
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

    def __init__(  # noqa: PLR0913 - who, and what is to be done how
        self,
        number: int,
        findings: Findings,
        door: Door,
        steps: Sequence[tuple[Step, bool]] = hot_load.SMALL_STEPS,
        *,
        levels: Sequence[str] = READ_COMMITTED,
        rest_s: float = 0.0,
    ) -> None:
        """Number the writer; its transactions are drawn by that number.

        Who rests between them locks the table as a whole.
        """
        self.number = number
        self.address = Address("127.0.0.1", 0)
        self.state: State = Counter()
        self.receipts: set[int] = set()
        self.in_doubt: InDoubt | None = None
        self._findings = findings
        self._steps = steps
        self._door = door
        self._levels = levels
        self._rest_s = rest_s
        self._next = 0
        self._chance = random.Random(SEED + number)  # noqa: S311 - not for secrets

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
            if not is_lost(error):
                self._findings.wrong.append(("writer", self.number, repr(error)))

    def _warm(self, connection: Connection) -> None:
        try:
            self._door.warm(connection)
        except psycopg.Error as error:
            self._fail(connection, error, None, ("warm",))

    def _transaction(self, connection: Connection) -> None:
        number, effects = self._next, Effects()
        self._next += 1
        level = self._chance.choice(self._levels)
        fit = [step for step, in_any in self._steps if in_any or level in READ_COMMITTED]
        steps = self._chance.choices(fit, k=self._chance.choice((1, 1, 2)))
        step: Step | None = None
        try:
            connection.execute(f"BEGIN ISOLATION LEVEL {level}")  # type: ignore[call-overload]
            for step in steps:
                if not step(connection, self._chance, effects):
                    connection.execute("ROLLBACK")
                    return
            step = None
            query = "INSERT INTO receipts VALUES (%s, %s)"
            connection.execute(query, [self.number, number])
            self.in_doubt = InDoubt(effects, number)
            connection.execute("COMMIT")
        except (psycopg.Error, WrongAnswerError) as error:
            self._fail(connection, error, step, (level, *steps))
            connection.execute("ROLLBACK")
            self.in_doubt = None
            return
        self.receipts.add(number)
        self._acknowledged(number, [step.__name__ for step in steps], effects)

    def _alone(self, connection: Connection) -> None:
        """Run a statement that is a transaction of its own."""
        number, effects = self._next, Effects()
        self._next += 1
        step = hot_load.add if self._chance.random() < 0.7 else hot_load.add_wherever
        # What the statement does is known before its answer.
        (key,) = hot_load.some_keys(self._chance, 1)
        row = hot_load.row_of(key)
        effects.add("n", row)
        self.in_doubt = InDoubt(effects)
        try:
            if step is hot_load.add:
                query = "UPDATE t SET n = n + 1 WHERE k = %s"
                done = hot_load.touched(connection.execute(query, [key]), key)
            else:
                found = connection.execute("UPDATE t SET n = n + 1 WHERE id = %s", [row])
                done = bool(found.rowcount)
                hot_load.expect(done or row in hot_load.PUT_BACK, "always there", row)
        except (psycopg.Error, WrongAnswerError) as error:
            self._fail(connection, error, step, ("alone", step))
            self.in_doubt = None
            return
        if done:
            self._acknowledged(number, [f"{step.__name__} alone"], effects)
        self.in_doubt = None

    def _acknowledged(self, number: int, steps: list[str], effects: Effects) -> None:
        self.in_doubt = None
        self.state.update(effects.added)
        self._findings.note(self.number, number, steps, effects)

    def _fail(
        self,
        connection: Connection,
        error: Exception,
        step: Step | None,
        steps: Sequence[object],
    ) -> None:
        """Note an error; those of processes that have gone are raised again."""
        name = step.__name__ if step else "the end"
        if isinstance(error, psycopg.Error):
            if connection.broken or is_lost(error):
                raise psycopg.OperationalError from error
            self._findings.refused[name, error.sqlstate or ""] += 1
            if error.sqlstate in {*hot_load.PASSING, "23505" * (step in CONFLICTING)}:
                return
        names = [getattr(step, "__name__", step) for step in steps]
        self._findings.wrong.append((time.time(), self.number, name, names, repr(error)))


class Vacuuming:
    """Merges the table's journal every now and then."""

    def __init__(self, findings: Findings, door: Door) -> None:
        """Note what is wrong there."""
        self.address = Address("127.0.0.1", 0)
        self._findings = findings
        self._door = door

    def run(self, stopped: Callable[[], bool]) -> None:
        """Vacuum until told to stop, or until the connection breaks."""
        try:
            with connected(self.address) as connection:
                while not stopped():
                    pause(VACUUM_S, stopped)
                    self._vacuum(connection)
        except psycopg.OperationalError:
            return

    def _vacuum(self, connection: Connection) -> None:
        try:
            connection.execute("VACUUM t")
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
    "SELECT gateway.check('t')": (0,),
}
"""What every reader finds at any moment."""


class Reader:
    """Reads what stays the same."""

    def __init__(self, number: int, findings: Findings) -> None:
        """Number the reader; what it reads is drawn by that number."""
        self.address = Address("127.0.0.1", 0)
        self._findings = findings
        self._chance = random.Random(SEED - number)  # noqa: S311 - not for secrets

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
            if not is_lost(error):
                self._findings.wrong.append((time.time(), "reader", repr(error)))

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
    return error.sqlstate[:2] in {"08", "57", "58"}


def pause(seconds: float, stopped: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not stopped() and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway whose upkeep lets no row stay hot."""
    gateway = GatewayProcess(tmp_path / "data", *OPTIONS, module="tests.support.changeable")
    try:
        gateway.start()
        gateway.address.execute(*hot_load.SCHEMA.split(";"))
        yield gateway
    finally:
        gateway.kill_if_running()


def clients(findings: Findings) -> tuple[list[Writer], list[Client]]:
    """Return those who write, and those who do not."""
    door = Door()
    small = [Writer(number, findings, door) for number in range(WRITERS)]
    by_snapshot = Writer(WRITERS, findings, door, levels=LEVELS[1:], rest_s=REST_S)
    bulk = Writer(WRITERS + 1, findings, door, hot_load.BULK_STEPS, levels=LEVELS, rest_s=REST_S)
    readers = [Reader(number, findings) for number in range(READERS)]
    return [*small, by_snapshot, bulk], [*readers, Vacuuming(findings, door)]


def work(workers: Sequence[Client], stopped: Callable[[], bool], process: GatewayProcess) -> None:
    """Have clients work side by side until they stop."""
    threads = []
    for worker in workers:
        worker.address = process.address
        threads.append(threading.Thread(target=worker.run, args=[stopped], daemon=True))
        threads[-1].start()
    while not stopped():
        time.sleep(0.05)
    deadline = time.monotonic() + PATIENCE_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    still = [w for w, thread in zip(workers, threads, strict=True) if thread.is_alive()]
    assert not still, "clients wait for ever"


def check(address: Address, writers: list[Writer], findings: Findings) -> None:
    """Compare what is stored with what was acknowledged; what was in doubt is decided now."""
    with connected(address) as connection:
        stored = sorted(connection.execute(hot_load.ROWS).fetchall())
        replayed = sorted(connection.execute(hot_load.REPLAYED).fetchall())
        found = connection.execute("SELECT writer, number FROM receipts").fetchall()
        differences = {
            table: connection.execute(f"SELECT gateway.check('{table}')").fetchone()  # type: ignore[call-overload]
            for table in ("t", "receipts")
        }
    decide(writers, set(found), stored)
    state = hot_load.initial()
    for writer in writers:
        state.update(writer.state)
    expected = hot_load.rows_of(state)
    unlike = set(stored) ^ set(expected)
    last = {row: list(findings.last.get(row, ())) for row in sorted({row[0] for row in unlike})}
    assert stored == expected, f"SEED {SEED}; {sorted(unlike)}; {last}"
    assert replayed == stored
    assert sorted(found) == sorted((w.number, number) for w in writers for number in w.receipts)
    assert differences == {"t": (0,), "receipts": (0,)}


def decide(
    writers: list[Writer], receipts: set[tuple[int, int]], stored: Sequence[tuple[int, ...]]
) -> None:
    """Find out which of the transactions in doubt have been committed."""
    for writer in writers:
        doubt = writer.in_doubt
        if doubt and doubt.number is not None and (writer.number, doubt.number) in receipts:
            writer.receipts.add(doubt.number)
            writer.state.update(doubt.effects.added)
            writer.in_doubt = None
    counted = {row: n for row, _, _, n in stored}
    for writer in writers:
        if writer.in_doubt and writer.in_doubt.number is None:
            ((place, _),) = writer.in_doubt.effects.added.items()
            known = sum(other.state[place] for other in writers)
            if counted[place[1]] > known:
                writer.state.update(writer.in_doubt.effects.added)
        writer.in_doubt = None


def small_writes_work(process: GatewayProcess) -> None:
    """Change cold rows one after the other, as PostgreSQL does."""
    with connected(process.address) as connection:
        for key in hot_load.STEADY:
            for change in ("n + 1", "n - 1"):
                done = connection.execute(f"UPDATE t SET n = {change} WHERE k = %s", [key])  # type: ignore[call-overload]
                assert done.rowcount == 1
                decision = connection.execute("SHOW gateway.last_decision").fetchone()
                assert decision == ("postgres, on thawed rows: single rows by key",)


def report(findings: Findings, seconds: float, process: GatewayProcess) -> str:
    cooled = sum("went cold" in line for line in process.log)
    rate = round(sum(findings.commits.values()) / seconds)
    commits, refused = dict(findings.commits), dict(findings.refused)
    return f"{rate} commits/s, {cooled=}, {findings.reads=}, {commits=}, {refused=}"


def has_done_all(findings: Findings) -> bool:
    """Return whether everybody has had a turn, and small writers many."""
    return (
        sum(findings.commits.values()) > LEAST_COMMITS
        and findings.commits["vacuum"] > 1
        and any(findings.commits[step.__name__] for step, _ in hot_load.BULK_STEPS)
        and findings.reads > 0
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_acknowledged_change_is_there_once(process: GatewayProcess) -> None:
    findings = Findings()
    writers, others = clients(findings)
    began = time.monotonic()

    def enough() -> bool:
        worked_s = time.monotonic() - began
        return worked_s > STRESS_S and (has_done_all(findings) or worked_s > LONGEST_S)

    work([*writers, *others], enough, process)
    print(report(findings, time.monotonic() - began, process))
    assert findings.wrong == [], f"SEED {SEED}"
    check(process.address, writers, findings)
    small_writes_work(process)
    assert has_done_all(findings)
    assert any("went cold" in line for line in process.log)
    assert process.terminate() == 0


def victim(process: GatewayProcess, program: str) -> int | None:
    """Return a process of this gateway: the postmaster, a backend of a client, or another."""
    found = []
    for number in descendants(process.process_id):
        try:
            words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has gone meanwhile
        line = os.fsdecode(words[0])
        if Path(line.partition(" ")[0].rstrip(":")).name == program.removesuffix(" backend"):
            found.append((number, line))
    if program.endswith(" backend"):
        found = [(number, line) for number, line in found if "postgres postgres" in line][::-1]
    return min(found)[0] if found else None


def wait_for_progress(findings: Findings, before: int) -> None:
    """Wait until some transactions more have been acknowledged."""
    deadline = time.monotonic() + PATIENCE_S / 3
    while sum(findings.commits.values()) < before + 20 and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "programs",
    [
        pytest.param(("", "postgres", "postgres backend", "java"), id="each once"),
        pytest.param(("", "postgres", "postgres backend", "java") * 4, id="each four times"),
    ],
)
def test_acknowledged_changes_survive_whichever_process_is_killed(
    process: GatewayProcess, programs: tuple[str, ...]
) -> None:
    moments = random.Random(SEED)  # noqa: S311 - not for secrets
    findings, victims = Findings(), [""] * programs.count("")
    writers, others = clients(findings)
    for program in programs:
        killed = threading.Event()
        begun, rest_s = moments.uniform(3.0, 6.0), moments.uniform(0.0, 1.0)
        before = sum(findings.commits.values())

        def kill(
            program: str = program,
            waits_s: tuple[float, ...] = (begun, rest_s),
            before: int = before,
            killed: threading.Event = killed,
        ) -> None:
            try:
                time.sleep(waits_s[0])
                wait_for_progress(findings, before)
                number = victim(process, program) if program else None
                if number is not None:
                    os.kill(number, signal.SIGKILL)
                    victims.append(program)
                    time.sleep(waits_s[1])
                process.kill()
            finally:
                killed.set()

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        work([*writers, *others], killed.is_set, process)
        killer.join(PATIENCE_S)
        process.start()
        print(program or "gateway", report(findings, begun, process))
        assert findings.wrong == [], f"SEED {SEED}"
        assert sum(findings.commits.values()) > before, program
        check(process.address, writers, findings)
        small_writes_work(process)
    assert Counter(victims) == Counter(programs)
    assert process.terminate() == 0


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Address]:
    """A gateway with a tiered table whose rows stay hot as long as nobody makes them cold."""
    gateway = GatewayProcess(tmp_path / "data", *SPARK_OPTIONS)
    try:
        gateway.start()
        gateway.address.execute(
            "CREATE TABLE t (k integer PRIMARY KEY, n integer, g integer)",
            "CREATE TABLE o (k integer PRIMARY KEY)",
            "INSERT INTO t SELECT g, 0, 0 FROM generate_series(1, 40) g",
            "VACUUM t",
            "UPDATE t SET n = 1 WHERE k = 1",
        )
        yield gateway.address
    finally:
        gateway.kill_if_running()


@pytest.mark.slow
def test_readers_see_what_was_written_after_the_writer_has_read(plain: Address) -> None:
    with connected(plain) as writer, connected(plain) as other:
        query = "SELECT sum(n) FROM t"
        other.execute(query)
        writer.execute("BEGIN")
        writer.execute("INSERT INTO o VALUES (1)")
        other.execute("UPDATE t SET n = n + 1 WHERE k = 1")
        assert writer.execute(query).fetchone() == (2,)
        writer.execute("UPDATE t SET n = n + 100 WHERE k = 2")
        writer.execute("COMMIT")
        assert other.execute(query).fetchone() == (102,)


@pytest.mark.slow
def test_rows_are_deleted_once(plain: Address) -> None:
    deleted: list[int] = []
    deadline = time.monotonic() + 10.0

    def search() -> None:
        with connected(plain) as connection:
            number = 0
            while time.monotonic() < deadline:
                number += 1
                query = f"UPDATE t SET n = n + 1 WHERE g = 9 AND k > {-number}"
                with suppress(psycopg.Error):
                    connection.execute(query)  # type: ignore[call-overload]

    query = "DELETE FROM t WHERE g = 9 RETURNING k"
    with connected(plain) as connection:
        connection.execute(query)
        thread = threading.Thread(target=search, daemon=True)
        thread.start()
        for key in range(1_000, 2_000):
            connection.execute("INSERT INTO t VALUES (%s, 0, 9)", [key])
            time.sleep(0.03)
            with suppress(psycopg.Error):
                deleted += [key for (key,) in connection.execute(query).fetchall()]
            if time.monotonic() > deadline:
                break
        thread.join(PATIENCE_S)
    assert deleted
    assert len(deleted) == len(set(deleted))


@pytest.mark.slow
def test_rows_of_a_locked_table_are_skipped_or_not_available(plain: Address) -> None:
    with connected(plain) as bulk, connected(plain) as connection:
        for end in ("COMMIT", "SELECT 1"):
            bulk.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            bulk.execute("UPDATE t SET n = n + 1")
            bulk.execute(end)
        for how in ("NOWAIT", "SKIP LOCKED"):
            with pytest.raises(psycopg.errors.LockNotAvailable, match="on relation"):
                connection.execute(f"SELECT n FROM t WHERE k = 3 FOR UPDATE {how}")  # type: ignore[call-overload]
        bulk.execute("COMMIT")
