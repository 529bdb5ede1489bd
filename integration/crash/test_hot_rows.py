"""Small writes of tiered tables beside bulk writers, upkeep and readers, and processes that die.

Every acknowledged transaction is in the tables exactly once, and of no other a part; the balances
have the same sum at any moment; no value of a UNIQUE column is there twice, and what rows reference
is there; what PostgreSQL holds is what the journal says.
"""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.support import hot_bulk_steps, hot_load, processes, related_rows, related_steps
from tests.support.fix_server import SPARK_OPTIONS
from tests.support.hot_clients import (
    BULK_PARTS,
    CATALOG_LOST,
    LEVELS,
    PATIENCE_S,
    READERS,
    REST_S,
    SPARK_LOST,
    TABLES,
    UNHEARD,
    WRITERS,
    Client,
    Door,
    Findings,
    Reader,
    Vacuuming,
    Writer,
    connected,
    work,
)
from tests.support.processes import descendants
from tests.support.races import RACES, Racing
from tests.support.servers import Address, GatewayProcess

SEED = int(os.environ.get("STRESS_SEED", "20251122"))
"""By which everything is drawn; the variable lets others be tried."""

OPTIONS = (
    *SPARK_OPTIONS,
    "--flush-rows=200",
    "--flush-age-s=1",
    "--thaw-rows=60",
    "--hot-rows=30",
    "--hot-age-s=1",
)

STRESS_S = 28.0

LEAST_COMMITS = 100

LONGEST_S = 120.0
"""How long clients work at most until each kind of them has done something."""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway whose upkeep lets no row stay hot."""
    gateway = GatewayProcess(tmp_path / "data", *OPTIONS, module="tests.support.changeable")
    try:
        gateway.start()
        for schema in (hot_load.SCHEMA, related_rows.SCHEMA):
            gateway.address.execute(*schema.split(";"))
        yield gateway
    finally:
        gateway.kill_if_running()


def clients(findings: Findings) -> tuple[list[Writer], list[Client]]:
    """Return those who write, and those who do not, or nothing that lasts."""
    door = Door()
    small = [Writer(number, findings, door) for number in range(WRITERS)]
    by_snapshot = Writer(WRITERS, findings, door, levels=LEVELS[1:], rest_s=REST_S)
    bulk = Writer(WRITERS + 1, findings, door, BULK_PARTS, levels=LEVELS, rest_s=REST_S)
    readers = [Reader(number, findings) for number in range(READERS)]
    others = [*readers, Racing(findings, door), Vacuuming(findings, door)]
    return [*small, by_snapshot, bulk], others


def check(address: Address, writers: list[Writer], findings: Findings) -> None:
    """Compare what is stored with what was acknowledged; what was in doubt is decided now."""
    with connected(address) as connection:
        stored = sorted(connection.execute(hot_load.ROWS).fetchall())
        replayed = sorted(connection.execute(hot_load.REPLAYED).fetchall())
        found = connection.execute("SELECT writer, number FROM receipts").fetchall()
        unlike = {
            table: connection.execute(f"SELECT gateway.check('{table}')").fetchone()  # type: ignore[call-overload]
            for table in (*TABLES, "receipts")
        }
        related = check_related(connection)
    decide(writers, set(found), stored)
    state = hot_load.initial()
    state.update(related_rows.initial())
    for writer in writers:
        state.update(writer.state)
    expected = hot_load.rows_of(state.added)
    wrong = set(stored) ^ set(expected)
    last = {row: list(findings.last.get(row, ())) for row in sorted({row[0] for row in wrong})}
    assert stored == expected, f"SEED {findings.seed}; {sorted(wrong)}; {last}"
    assert replayed == stored
    assert sorted(found) == sorted((w.number, number) for w in writers for number in w.receipts)
    assert set(unlike.values()) == {(0,)}, unlike
    differences = related_rows.differences(state, related)
    told = {
        place: [*findings.last.get(place, ())] for place in {(d[0], d[1][0]) for d in differences}
    }
    assert differences == [], f"SEED {findings.seed}; {told}"


def check_related(connection: psycopg.Connection) -> related_rows.Rows:
    """Look for values that are there twice and for rows without what they reference.

    Returns:
        The rows, as Spark reads them.
    """
    connection.execute("SET gateway.executor TO spark")
    for query in (related_rows.VIOLATIONS, related_rows.REPLAYED_VIOLATIONS):
        assert connection.execute(query).fetchone() == related_rows.NO_VIOLATION  # type: ignore[call-overload]
    rows = related_rows.stored(connection)
    assert related_rows.stored(connection, replayed=True) == rows
    connection.execute("RESET gateway.executor")
    assert related_rows.stored(connection) == rows
    return rows


def decide(
    writers: list[Writer], receipts: set[tuple[int, int]], stored: Sequence[tuple[int, ...]]
) -> None:
    """Find out which of the transactions in doubt have been committed."""
    doubts = [(writer, doubt) for writer in writers for doubt in writer.doubts]
    for writer, doubt in doubts:
        if doubt.number is not None and (writer.number, doubt.number) in receipts:
            writer.receipts.add(doubt.number)
            writer.state.update(doubt.effects)
    counted = {row: n for row, _, _, n in stored}
    for writer, doubt in doubts:
        if doubt.number is None:
            ((place, _),) = doubt.effects.added.items()
            known = sum(other.state.added[place] for other in writers)
            if counted[place[1]] > known:
                writer.state.update(doubt.effects)
        writer.doubts = []


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
    races, lost = dict(findings.races), dict(findings.lost)
    return (
        f"{rate} commits/s, {cooled=}, {findings.reads=}, {races=}, {lost=}, {commits=}, {refused=}"
    )


def has_done_all(findings: Findings) -> bool:
    """Return whether everybody has had a turn, and small writers many."""
    return (
        sum(findings.commits.values()) > LEAST_COMMITS
        and findings.commits["vacuum"] > 1
        and any(findings.commits[part.step.__name__] for part in hot_bulk_steps.PARTS)
        and any(findings.commits[part.step.__name__] for part in related_steps.BULK_PARTS)
        and findings.reads > 0
        and len({race for race, *_ in findings.races}) > len(RACES) // 2
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_acknowledged_change_is_there_once(process: GatewayProcess) -> None:
    findings = Findings(SEED)
    writers, others = clients(findings)
    began = time.monotonic()

    def enough() -> bool:
        worked_s = time.monotonic() - began
        return worked_s > STRESS_S and (has_done_all(findings) or worked_s > LONGEST_S)

    work([*writers, *others], enough, process)
    print(report(findings, time.monotonic() - began, process))
    assert findings.wrong == [], f"SEED {SEED}"
    assert not findings.lost
    check(process.address, writers, findings)
    small_writes_work(process)
    assert has_done_all(findings)
    assert any("went cold" in line for line in process.log)
    assert process.terminate() == 0


def victim(process: GatewayProcess, program: str) -> int | None:
    """Return a process of this gateway: the postmaster, a backend of a client, or another."""
    wanted = program.removesuffix(" backend")
    found = [n for n in descendants(process.process_id) if processes.program(n) == wanted]
    if program.endswith(" backend"):
        found = [number for number in found if "postgres postgres" in processes.title(number)]
    return min(found, default=None)


def wait_for_progress(findings: Findings, before: int) -> None:
    """Wait until some transactions more have been acknowledged."""
    deadline = time.monotonic() + PATIENCE_S / 3
    while sum(findings.commits.values()) < before + 20 and time.monotonic() < deadline:
        time.sleep(0.01)


PROGRAMS = ("postgres", "postgres backend", "java")


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "programs",
    [
        pytest.param(("", *PROGRAMS), id="each once"),
        pytest.param(("", *PROGRAMS) * 4, id="each four times"),
    ],
)
def test_acknowledged_changes_survive_whichever_process_is_killed(
    process: GatewayProcess, programs: tuple[str, ...]
) -> None:
    moments = random.Random(SEED)  # noqa: S311 - not for secrets
    findings, victims = Findings(SEED), [""] * programs.count("")
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


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "programs",
    [pytest.param(PROGRAMS, id="each once"), pytest.param(PROGRAMS * 4, id="each four times")],
)
def test_a_gateway_goes_on_whichever_process_of_it_is_killed(
    process: GatewayProcess, programs: tuple[str, ...]
) -> None:
    moments = random.Random(SEED)  # noqa: S311 - not for secrets
    findings, number = Findings(SEED), process.process_id
    writers, others = clients(findings)
    for program in programs:
        healed = threading.Event()
        begun, rest_s = moments.uniform(3.0, 6.0), moments.uniform(0.0, 1.0)
        found: list[tuple[int | None, int]] = []
        findings.lost.clear()

        def kill(
            program: str = program,
            waits_s: tuple[float, ...] = (begun, rest_s),
            found: list[tuple[int | None, int]] = found,
            healed: threading.Event = healed,
        ) -> None:
            try:
                time.sleep(waits_s[0])
                wait_for_progress(findings, sum(findings.commits.values()))
                one = victim(process, program)
                if one is not None:
                    os.kill(one, signal.SIGKILL)
                found.append((one, sum(findings.commits.values())))
                wait_for_progress(findings, found[0][1])
                time.sleep(waits_s[1])
            finally:
                healed.set()

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        work([*writers, *others], healed.is_set, process)
        killer.join(PATIENCE_S)
        print(program, report(findings, begun, process))
        ((killed, before),) = found
        assert killed is not None, program
        assert findings.wrong == [], f"SEED {SEED}"
        told = {*findings.lost}
        assert told <= (SPARK_LOST if program == "java" else CATALOG_LOST | {UNHEARD})
        assert told & CATALOG_LOST or program == "java"
        assert sum(findings.commits.values()) > before + WRITERS, program
        check(process.address, writers, findings)
        small_writes_work(process)
        assert process.exit_status is None
    assert process.process_id == number
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
