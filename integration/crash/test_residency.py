"""Tables become tiered and resident again while clients read and write them, and processes die.

Whoever reads finds the same total at any moment; every acknowledged commit is there after a
restart, and of no other a part; tables hold what their journals say.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.support import processes, restless
from tests.support.fix_server import MACHINE_OPTIONS
from tests.support.processes import descendants
from tests.support.servers import READY, Address, GatewayProcess

SEED = 20250722

BOUND = 200

OPTIONS = (
    *MACHINE_OPTIONS,
    f"--resident-rows={BOUND}",
    "--flush-age-s=1",
    "--flush-rows=300",
    "--autovacuum-threshold=100",
)

ACCOUNTS, BALANCE = 40, 100

WRITERS, READERS = 4, 3

PAUSE_S = 0.02
"""How long a client rests, so that upkeep gets its turn."""

STRESS_S = 25.0

LONGEST_S = 85.0
"""How long clients work at most until each kind of them has done something."""

PATIENCE_S = 60.0
"""How long a change of residency may take to begin on a machine that has much to do."""

SCHEMA = f"""
CREATE TABLE accounts (id integer PRIMARY KEY, balance integer NOT NULL, note text);
CREATE TABLE coins (worth integer, side text);
CREATE TABLE transfers (writer integer, number integer, PRIMARY KEY (writer, number));
INSERT INTO accounts SELECT g, {BALANCE} FROM generate_series(1, {ACCOUNTS}) g;
INSERT INTO coins SELECT 1, 'head' FROM generate_series(1, {ACCOUNTS})
"""

TOTALS = {
    "SELECT sum(balance) FROM accounts": ACCOUNTS * BALANCE,
    "SELECT sum(worth) FROM coins": ACCOUNTS,
}
"""What every reader finds at any moment."""

REPLAYED = {
    "accounts": """
        SELECT id, balance FROM (
            SELECT *, row_number() OVER (PARTITION BY id ORDER BY version_number DESC) AS age
            FROM accounts_journal) versions
        WHERE age = 1 AND subsequent_version_number IS NULL""",
    "transfers": """
        SELECT writer, number FROM (
            SELECT *, row_number() OVER (
                PARTITION BY writer, number ORDER BY version_number DESC) AS age
            FROM transfers_journal) versions
        WHERE age = 1 AND subsequent_version_number IS NULL""",
}
"""What journals make of tables."""

EXPECTED = frozenset({"40001", "40P01", "23505", "0A000", "55P03"})
"""Serialization, deadlocks, a key somebody else inserted, limits of tiered tables, locks."""

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")

Connection = psycopg.Connection


def connected(address: Address) -> Connection:
    return psycopg.connect(address.conninfo(), autocommit=True)


@dataclass
class Findings:
    """What clients met."""

    wrong: list[object] = field(default_factory=list)
    commits: int = 0
    reads: int = 0
    refused: Counter[str] = field(default_factory=Counter)


class Writer:
    """Moves amounts and rows about in transactions that keep all totals."""

    def __init__(self, number: int, address: Address, findings: Findings) -> None:
        """Number the writer; its transactions are drawn by that number."""
        self.number = number
        self.address = address
        self.findings = findings
        self.acknowledged: set[int] = set()
        self.in_doubt: int | None = None
        self._next = 0
        self._random = random.Random(SEED + number)  # noqa: S311 - not for secrets

    def run(self, stopped: Callable[[], bool]) -> None:
        """Write until told to stop, or until the connection breaks."""
        try:
            with connected(self.address) as connection:
                while not stopped() and not connection.broken:
                    self._transaction(connection)
                    time.sleep(PAUSE_S)
        except psycopg.OperationalError:
            return

    def _transaction(self, connection: Connection) -> None:
        level = self._random.choice(LEVELS)
        step = self._random.choice(STEPS)
        number = self._next
        self._next += 1
        try:
            connection.execute(f"BEGIN ISOLATION LEVEL {level}")  # type: ignore[call-overload]
            if step(connection, self._random):
                connection.execute("INSERT INTO transfers VALUES (%s, %s)", [self.number, number])
                self.in_doubt = number
                connection.execute("COMMIT")
                self.acknowledged.add(number)
                self.findings.commits += 1
            else:
                connection.execute("ROLLBACK")
        except psycopg.Error as error:
            if connection.broken or is_lost(error):
                raise psycopg.OperationalError from error
            self.findings.refused[error.sqlstate or ""] += 1
            if error.sqlstate not in EXPECTED:
                self.findings.wrong.append((step.__name__, level, repr(error)))
            connection.execute("ROLLBACK")
        self.in_doubt = None


def is_lost(error: psycopg.Error) -> bool:
    """Return whether a process has gone that the statement needed."""
    return (error.sqlstate or "08")[:2] in {"08", "57", "58"}


def move(connection: Connection, chance: random.Random) -> bool:
    """Move an amount; in READ COMMITTED a row that is put back meanwhile is missed."""
    pair = chance.sample(range(1, ACCOUNTS + 1), 2)
    prepare = chance.random() < 0.5
    changed = 0
    for account, amount in zip(pair, (-1, 1), strict=True):
        query = "UPDATE accounts SET balance = balance + %s WHERE id = %s"
        changed += connection.execute(query, [amount, account], prepare=prepare).rowcount
    return changed == 2


def move_in_pipeline(connection: Connection, chance: random.Random) -> bool:
    # Not prepared: psycopg takes a statement for prepared whose Parse was skipped in a pipeline.
    with connection.pipeline():
        cursors = [
            connection.execute(
                "UPDATE accounts SET balance = balance + %s WHERE id = %s",
                [amount, account],
                prepare=False,
            )
            for account, amount in zip(
                chance.sample(range(1, ACCOUNTS + 1), 2), (-2, 2), strict=True
            )
        ]
    return sum(cursor.rowcount for cursor in cursors) == 2


def put_back(connection: Connection, chance: random.Random) -> bool:
    account = chance.randint(1, ACCOUNTS)
    query = "DELETE FROM accounts WHERE id = %s RETURNING balance"
    taken = connection.execute(query, [account]).fetchall()
    if not taken:
        return False
    connection.execute("INSERT INTO accounts VALUES (%s, %s, 'again')", [account, taken[0][0]])
    return True


def change_key(connection: Connection, chance: random.Random) -> bool:
    account = chance.randint(1, ACCOUNTS)
    there = "UPDATE accounts SET id = -id WHERE id = %s"
    return all(connection.execute(there, [n]).rowcount == 1 for n in (account, -account))


def upsert(connection: Connection, chance: random.Random) -> bool:
    connection.execute(
        "INSERT INTO accounts VALUES (%s, 0) ON CONFLICT (id) DO UPDATE SET note = 'upsert'",
        [1000 + chance.randint(1, 9)],
    )
    return True


def take_back(connection: Connection, _: random.Random) -> bool:
    connection.execute("SAVEPOINT before")
    connection.execute("DELETE FROM coins")
    connection.execute("ROLLBACK TO before")
    return True


def turn(connection: Connection, chance: random.Random) -> bool:
    sides = [chance.choice(["head", "tail"]) for _ in range(2)]
    connection.execute("UPDATE coins SET side = %s WHERE side = %s", sides)
    return True


def grow(connection: Connection, chance: random.Random) -> bool:
    first = 2000 + 1000 * chance.randint(0, 5)
    connection.execute(
        "INSERT INTO accounts SELECT g, 0, 'grown' FROM generate_series(%s::int, %s::int) g"
        " WHERE NOT EXISTS (SELECT FROM accounts a WHERE a.id = g)",
        [first, first + BOUND],
    )
    connection.execute("INSERT INTO coins SELECT 0, 'none' FROM generate_series(1, 50)")
    return True


def shrink(connection: Connection, _: random.Random) -> bool:
    connection.execute("DELETE FROM accounts WHERE id >= 1000")
    connection.execute("DELETE FROM coins WHERE worth = 0")
    return True


STEPS = (
    move,
    move,
    move_in_pipeline,
    put_back,
    change_key,
    upsert,
    take_back,
    turn,
    grow,
    shrink,
)


class Reader:
    """Reads totals all the time, in several ways."""

    def __init__(self, number: int, address: Address, findings: Findings) -> None:
        """Number the reader; what it does is drawn by that number."""
        self.address = address
        self.findings = findings
        self._random = random.Random(SEED - number)  # noqa: S311 - not for secrets

    def run(self, stopped: Callable[[], bool]) -> None:
        """Read until told to stop, or until the connection breaks."""
        ways = (read_once, read_prepared, read_repeatedly, read_by_cursor)
        try:
            with connected(self.address) as connection:
                while not stopped():
                    query, total = self._random.choice(list(TOTALS.items()))
                    way = self._random.choice(ways)
                    self._read(connection, way, query, total)
                    time.sleep(PAUSE_S)
        except psycopg.OperationalError:
            return

    def _read(
        self,
        connection: Connection,
        way: Callable[[Connection, str], list[int]],
        query: str,
        total: int,
    ) -> None:
        try:
            found = way(connection, query)
        except psycopg.Error as error:
            if connection.broken or is_lost(error):
                raise psycopg.OperationalError from error
            self.findings.refused[error.sqlstate or ""] += 1
            if error.sqlstate not in EXPECTED:
                self.findings.wrong.append((way.__name__, repr(error)))
            connection.execute("ROLLBACK")
            return
        self.findings.reads += 1
        if set(found) != {total}:
            self.findings.wrong.append((way.__name__, query, found))


def value(connection: Connection, query: str, *, prepare: bool = False) -> int:
    row = connection.execute(query, prepare=prepare).fetchone()  # type: ignore[call-overload]
    assert row is not None
    return int(row[0])


def read_once(connection: Connection, query: str) -> list[int]:
    return [value(connection, query)]


def read_prepared(connection: Connection, query: str) -> list[int]:
    return [value(connection, query, prepare=True)]


def read_repeatedly(connection: Connection, query: str) -> list[int]:
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    found = []
    for _ in range(3):
        found.append(value(connection, query))
        time.sleep(0.05)
    connection.execute("COMMIT")
    return found


def read_by_cursor(connection: Connection, query: str) -> list[int]:
    rows = query.replace("sum(", "").replace(")", "")
    total = 0
    connection.execute("BEGIN")
    connection.execute(f"DECLARE c CURSOR FOR {rows}")  # type: ignore[call-overload]
    while some := connection.execute("FETCH 100 FROM c").fetchall():
        total += sum(row[0] for row in some)
        time.sleep(0.01)
    connection.execute("COMMIT")
    return [total]


class Steering:
    """Asks for the other residency whenever a table has got the one asked for."""

    def __init__(self, address: Address, findings: Findings) -> None:
        """Steer the tables of this gateway."""
        self.address = address
        self.findings = findings
        self.changes: Counter[str] = Counter()

    def run(self, stopped: Callable[[], bool]) -> None:
        """Steer until told to stop, or until the connection breaks."""
        try:
            with connected(self.address) as connection:
                found = dict(residencies(connection))
                asked = {table: found[table] for table in ("accounts", "coins")}
                while not stopped():
                    self._steer(connection, asked)
                    time.sleep(0.3)
        except psycopg.Error as error:
            if not is_lost(error):
                self.findings.wrong.append(("steering", repr(error)))

    def _steer(self, connection: Connection, asked: dict[str, str]) -> None:
        for table, residency in residencies(connection):
            if table not in asked or asked[table] != residency:
                continue
            self.changes[residency] += 1
            wanted = "never" if residency == "resident" else "always"
            asked[table] = "tiered" if residency == "resident" else "resident"
            ask = sql.SQL("ALTER TABLE {} SET (gateway.residency = {})")
            connection.execute(ask.format(sql.Identifier(table), sql.SQL(wanted)))


def residencies(connection: Connection) -> list[tuple[str, str]]:
    return connection.execute("SELECT table_name, residency FROM gateway.tables").fetchall()


def check(address: Address, writers: list[Writer]) -> None:
    """Compare what is stored with what was acknowledged; what was in doubt is decided now."""
    with connected(address) as connection:
        for query, total in TOTALS.items():
            assert value(connection, query) == total, query
        stored = set(connection.execute("SELECT writer, number FROM transfers").fetchall())
        expected = set()
        for writer in writers:
            if writer.in_doubt is not None and (writer.number, writer.in_doubt) in stored:
                writer.acknowledged.add(writer.in_doubt)
            writer.in_doubt = None
            expected |= {(writer.number, number) for number in writer.acknowledged}
        assert stored == expected
        keys = connection.execute("SELECT count(*), count(DISTINCT id) FROM accounts").fetchone()
        assert keys is not None
        assert keys[0] == keys[1]
        for table, residency in residencies(connection):
            query = f"SELECT gateway.check('{table}')"
            assert value(connection, query) == 0, (table, residency)
        for table, replayed in REPLAYED.items():
            columns = "id, balance" if table == "accounts" else "writer, number"
            held = connection.execute(f"SELECT {columns} FROM {table}").fetchall()  # type: ignore[call-overload]
            journal = connection.execute(replayed).fetchall()  # type: ignore[call-overload]
            assert sorted(held) == sorted(journal), table


def warm_up(address: Address) -> None:
    """Let upkeep have written files once: the first time takes Spark many seconds."""
    with connected(address) as connection:
        connection.execute("CREATE TABLE warm_up (id integer)")
        connection.execute(f"INSERT INTO warm_up SELECT generate_series(1, {2 * BOUND})")
        deadline = time.monotonic() + 90.0
        while dict(residencies(connection))["warm_up"] == "resident":
            assert time.monotonic() < deadline
            time.sleep(0.2)
        connection.execute("SELECT count(*) FROM warm_up")
        connection.execute("DROP TABLE warm_up")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway whose tables change their residency under the hands of writers."""
    gateway = GatewayProcess(tmp_path / "data", *OPTIONS, module="tests.support.restless")
    try:
        gateway.start()
        gateway.address.execute(*SCHEMA.split(";"))
        warm_up(gateway.address)
        yield gateway
    finally:
        gateway.kill_if_running()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_totals_stay_while_tables_change_residency(process: GatewayProcess) -> None:
    findings = Findings()
    writers = [Writer(number, process.address, findings) for number in range(WRITERS)]
    readers = [Reader(number, process.address, findings) for number in range(READERS)]
    steering = Steering(process.address, findings)
    begun_s = time.monotonic()

    def enough() -> bool:
        worked_s = time.monotonic() - begun_s
        has_done_all = findings.commits and findings.reads and steering.changes["tiered"]
        return worked_s > STRESS_S and (bool(has_done_all) or worked_s > LONGEST_S)

    work(writers + readers + [steering], enough, process)
    assert findings.wrong == []
    assert findings.commits > 0
    assert findings.reads > 0
    assert steering.changes["tiered"] > 0
    check(process.address, writers)
    assert process.terminate() == 0


def work(
    clients: list[Writer | Reader | Steering] | list[Writer],
    stopped: Callable[[], bool],
    process: GatewayProcess,
) -> None:
    """Have clients work side by side until they stop."""
    threads = []
    for client in clients:
        client.address = process.address
        threads.append(threading.Thread(target=client.run, args=[stopped], daemon=True))
        threads[-1].start()
    deadline = time.monotonic() + LONGEST_S + PATIENCE_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        assert not thread.is_alive()


def victim(process: GatewayProcess, program: str) -> int:
    """Return the process of this gateway that runs a program: the first where it runs several."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        below = descendants(process.process_id)
        if found := [number for number in below if processes.program(number) == program]:
            return min(found)
        time.sleep(0.1)
    raise AssertionError(f"the gateway runs no {program}")


def is_changing(process: GatewayProcess) -> bool:
    """Return whether a table is on its way to the other residency."""
    over = 0
    for line in reversed(process.log):
        if READY.search(line):
            break  # what came before was of a process that has been killed
        if restless.BEGINS in line:
            if not over:
                return True
            over -= 1
        over += restless.IS_OVER in line
    return False


def wait_into_change(process: GatewayProcess, into_s: float) -> bool:
    """Wait until a change of residency has lasted so long; return whether one has.

    Where changes are over before, the next one is waited for, and half of the time.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if is_changing(process):
            time.sleep(into_s)
            if is_changing(process):
                return True
            into_s /= 2
        time.sleep(0.001)
    return False


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "programs",
    [
        pytest.param(("", "java"), id="gateway, java"),
        pytest.param(
            ("", "postgres", "java") * 5, id="each five times", marks=pytest.mark.exhaustive
        ),
    ],
)
def test_acknowledged_commits_survive_whichever_process_is_killed(
    process: GatewayProcess, programs: tuple[str, ...]
) -> None:
    moments = random.Random(SEED)  # noqa: S311 - not for secrets
    findings = Findings()
    writers = [Writer(number, process.address, findings) for number in range(WRITERS)]
    changing = 0
    victims = []
    for program in programs:
        steering = Steering(process.address, findings)
        killed = threading.Event()
        begun, rest_s, into_s = (moments.uniform(*span) for span in ((1, 3), (0, 1), (0, 0.3)))

        def kill(
            program: str = program,
            waits_s: tuple[float, ...] = (begun, into_s, rest_s),
            killed: threading.Event = killed,
        ) -> None:
            nonlocal changing
            try:
                time.sleep(waits_s[0])
                changing += wait_into_change(process, waits_s[1])
                if program:
                    os.kill(victim(process, program), signal.SIGKILL)
                    time.sleep(waits_s[2])
                victims.append(program)
            finally:
                process.kill()
                killed.set()

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        work([*writers, steering], killed.is_set, process)
        killer.join(2 * PATIENCE_S)
        process.start()
        assert findings.wrong == []
        check(process.address, writers)
    assert victims == list(programs)
    assert findings.commits > 0
    assert changing == len(programs), "a process was killed while no table changed its residency"
    process.terminate()
