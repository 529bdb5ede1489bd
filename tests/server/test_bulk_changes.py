"""Statements that change many rows of a tiered table while others write it.

They are computed first and lock the table then. What others commit in between counts as in
PostgreSQL: rows they have changed are looked at again, rows they have deleted are left out, and
rows they have inserted are not touched.

Scenarios are dialogues of sessions, as in `test_hot_rows`.
"""

import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from typing_extensions import override

from pgwire_gateway.messages import (
    Close,
    CommandComplete,
    DataRow,
    Execute,
    ObjectKind,
    Parse,
    PortalSuspended,
    Query,
    Sync,
)
from tests.support.data_files import data_files
from tests.support.dialogues import bind, wire
from tests.support.fix_server import Pair
from tests.support.sampling import crossed
from tests.support.scenarios import BLOCKED, Session, Stage, expected
from tests.support.servers import Address, GatewayProcess
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.server

PATIENCE_S = 120.0
"""How long a session may take to wait, or to answer."""

SETUP = (
    "CREATE TABLE t (id integer PRIMARY KEY, v integer CHECK (v < 90000), w text)",
    "INSERT INTO t SELECT g, g * 10, 'w' || g FROM generate_series(1, 2500) g",
    "CREATE TABLE u (g integer PRIMARY KEY)",
    "INSERT INTO u VALUES (1), (2), (3), (4), (5), (6), (7)",
)

STATES = {
    "warm": ("VACUUM t", "UPDATE t SET v = v WHERE id = 2400"),
    "hot": ("UPDATE t SET v = v WHERE id IN (1, 2, 3, 4, 5, 6)",),
    "cold": ("VACUUM t",),
}
"""What is done to the tiered table before."""

BULK = "UPDATE t SET v = v + 1 WHERE v <= 20000"
"""Changes 2,000 rows, more than go to the tail."""

MERGED = (
    "MERGE INTO t USING generate_series(1, 2100) g ON t.id = g"
    " WHEN MATCHED AND v <= 20000 THEN UPDATE SET v = t.v + 1"
)
"""Changes the same rows."""

UPSERT = (
    "MERGE INTO t USING generate_series(1001, 3000) g ON t.id = g"
    " WHEN MATCHED THEN UPDATE SET v = t.v + 1 WHEN NOT MATCHED THEN INSERT VALUES (g, -g)"
)

SCENARIOS = {
    "MERGE: rows that others have changed and deleted": f"""
        a: BEGIN
        a: UPDATE t SET v = 15 WHERE id = 1
        a: UPDATE t SET v = 30000 WHERE id = 2
        a: DELETE FROM t WHERE id = 3
        a: INSERT INTO t VALUES (2600, 7)
        b: {MERGED} -- waits
        a: COMMIT
        b goes on => MERGE 1998
    """,
    "MERGE: a row that another deletes is inserted": f"""
        a: BEGIN
        a: DELETE FROM t WHERE id = 1500
        b: {UPSERT} -- waits
        a: COMMIT
        b goes on => MERGE 2000
        b: SELECT v FROM t WHERE id IN (1500, 1501) ORDER BY id => -1500, 15011
    """,
    "MERGE: a key that another inserts, and takes back": f"""
        a: BEGIN
        a: INSERT INTO t VALUES (2800, 0)
        b: {UPSERT} -- waits
        a: ROLLBACK
        b goes on => MERGE 2000
    """,
    "MERGE: one after the other": f"""
        a: BEGIN
        a: {MERGED} => MERGE 2000
        b: {MERGED} -- waits
        c: SELECT sum(v) FROM t WHERE id <= 2000 => 20010000
        a: COMMIT
        b goes on => MERGE 1999
    """,
    "MERGE: in a transaction": f"""
        b: BEGIN
        b: SAVEPOINT s
        b: {UPSERT} => MERGE 2000
        b: {UPSERT} => MERGE 2000
        b: ROLLBACK TO s
        b: {MERGED} => MERGE 2000
        b: COMMIT
    """,
    "MERGE: REPEATABLE READ fails": f"""
        b: BEGIN ISOLATION LEVEL REPEATABLE READ
        b: SELECT v FROM t WHERE id = 1 => 10
        a: UPDATE t SET v = 15 WHERE id = 1
        b: {MERGED} => error 40001
        b: ROLLBACK
    """,
    "rows that others have changed are looked at again": f"""
        a: BEGIN
        a: UPDATE t SET v = 15 WHERE id = 1
        a: UPDATE t SET v = 30000 WHERE id = 2
        a: UPDATE t SET w = 'a' WHERE id = 3
        a: UPDATE t SET v = 5 WHERE id = 2500
        b: {BULK} -- waits
        a: COMMIT
        b goes on => UPDATE 1999
    """,
    "rows that others have deleted are left out, and what they inserted is not touched": f"""
        a: BEGIN
        a: DELETE FROM t WHERE id = 1
        a: INSERT INTO t VALUES (3000, 7)
        a: UPDATE t SET v = v + 1000 WHERE id = 2
        a: DELETE FROM t WHERE id = 3
        a: INSERT INTO t VALUES (3, 33)
        b: {BULK} -- waits
        a: COMMIT
        b goes on => UPDATE 1998
    """,
    "a row that has got another key": f"""
        a: BEGIN
        a: UPDATE t SET id = 5000 WHERE id = 1
        b: {BULK} -- waits
        a: COMMIT
        b goes on => UPDATE 2000
    """,
    "what others have undone": f"""
        a: BEGIN
        a: UPDATE t SET v = 30000 WHERE id = 1
        a: DELETE FROM t WHERE id = 2
        b: {BULK} -- waits
        a: ROLLBACK
        b goes on => UPDATE 2000
    """,
    "deletion of rows that others change and delete": """
        a: BEGIN
        a: UPDATE t SET v = 0 WHERE id = 600
        a: DELETE FROM t WHERE id = 601
        a: UPDATE t SET v = v + 1 WHERE id = 602
        b: DELETE FROM t WHERE v > 5000 -- waits
        a: COMMIT
        b goes on => DELETE 1998
    """,
    "one after the other": f"""
        a: BEGIN
        a: {BULK} => UPDATE 2000
        b: {BULK} -- waits
        a: SELECT sum(v) FROM t WHERE id <= 2000 => 20012000
        c: SELECT sum(v) FROM t WHERE id <= 2000 => 20010000
        a: COMMIT
        b goes on => UPDATE 1999
    """,
    "a constraint that holds no more": """
        a: BEGIN
        a: UPDATE t SET v = 89999 WHERE id = 1
        b: UPDATE t SET v = v + 1 WHERE v <= 20000 OR v = 89999 -- waits
        a: COMMIT
        b goes on => error 23514
        b: SELECT v FROM t WHERE id IN (1, 2) ORDER BY id => 89999, 20
    """,
    "a constraint that would hold only afterwards": """
        a: BEGIN
        a: UPDATE t SET v = 30 WHERE id = 2500
        b: UPDATE t SET v = v + 65000 WHERE id <= 1500 OR v = 25000 => error 23514
        b: UPDATE t SET w = NULL, v = 1 / (v - 10) WHERE v <= 20000 => error 22012
        a: COMMIT
    """,
    "a subquery sees what was there when the statement began": """
        a: BEGIN
        a: SELECT v FROM t WHERE id = 1 FOR UPDATE
        a: UPDATE t SET v = 80000 WHERE id = 2500
        b: UPDATE t SET v = (SELECT max(v) FROM t) WHERE v <= 20000 -- waits
        a: COMMIT
        b goes on => UPDATE 2000
    """,
    "a subquery where a row is looked at again": """
        a: BEGIN
        a: UPDATE t SET v = v + 5 WHERE id = 1
        a: UPDATE u SET g = 8 WHERE g = 7
        b: UPDATE t SET v = v + (SELECT max(g) FROM u) WHERE v <= 20000 -- waits
        a: COMMIT
        b goes on => UPDATE 2000
    """,
    "a join where a row is looked at again": """
        a: BEGIN
        a: UPDATE t SET v = v + 5 WHERE id = 1
        b: UPDATE t SET v = v + g FROM u WHERE v <= 20000 AND t.id % 7 = u.g - 1 -- waits
        a: COMMIT
        b goes on => UPDATE 2000
    """,
    "in a transaction": f"""
        a: BEGIN
        a: UPDATE t SET v = 15 WHERE id = 1
        b: BEGIN
        b: SAVEPOINT s
        b: {BULK} -- waits
        a: COMMIT
        b goes on => UPDATE 2000
        b: {BULK} => UPDATE 1999
        c: UPDATE t SET v = 0 WHERE id = 1500 -- waits
        b: ROLLBACK TO s
        c goes on => UPDATE 1
        b: UPDATE t SET v = -v WHERE v <= 20000 => UPDATE 2000
        b: COMMIT
    """,
    "a cancel request ends the wait": f"""
        a: BEGIN
        a: UPDATE t SET v = 15 WHERE id = 1
        b: {BULK} -- waits
        a: cancels b
        b goes on => error 57014
        a: COMMIT
        b: {BULK} => UPDATE 2000
    """,
    "an insert of rows that it reads, and a key that another inserts": """
        a: BEGIN
        a: INSERT INTO t VALUES (2501, 0)
        b: INSERT INTO t SELECT id + 2500, v, w FROM t WHERE v <= 20000 -- waits
        a: COMMIT
        b goes on => error 23505
        a: BEGIN
        a: DELETE FROM t WHERE id = 2501
        a: UPDATE t SET v = v + 1 WHERE id = 1
        b: INSERT INTO t SELECT id + 2500, v, w FROM t WHERE v BETWEEN 1 AND 20000 -- waits
        a: COMMIT
        b goes on => INSERT 0 2000
        b: SELECT v FROM t WHERE id IN (1, 2501) ORDER BY id => 11, 10
    """,
    "REPEATABLE READ fails": f"""
        b: BEGIN ISOLATION LEVEL REPEATABLE READ
        b: SELECT v FROM t WHERE id = 1 => 10
        a: UPDATE t SET v = 15 WHERE id = 1
        b: {BULK} => error 40001
        b: ROLLBACK
    """,
}


class PatientStage(Stage):
    """A stage whose sessions may compute for long before they wait."""

    @override
    def _heard(self, session: Session, patience_s: float, polls: int) -> str:
        assert session.answer is not None
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if session.answer.done():
                return session.heard()
            if self.onlooker.execute(BLOCKED, [session.process_id]).fetchone() == (True,):
                time.sleep(0.1)
                if not session.answer.done():
                    return "waits"
            time.sleep(0.02)
        return "is late"

    @override
    @staticmethod
    def _go_on(sessions: list[Session]) -> str:
        (session,) = sessions
        return session.heard(PATIENCE_S)


@dataclass(frozen=True)
class Played:
    """What is to be seen of a scenario."""

    dialogue: list[str]
    rows: list[tuple]


def connected(address: Address, database: str) -> psycopg.Connection:
    return psycopg.connect(address.conninfo(database), autocommit=True, prepare_threshold=None)


def play(address: Address, database: str, scenario: str) -> Played:
    with ExitStack() as stack:
        dialogue = PatientStage(lambda: connected(address, database), stack).play(scenario)
    with connected(address, database) as owner:
        return Played(dialogue, owner.execute("SELECT * FROM t ORDER BY id").fetchall())


@pytest.fixture
def table(pair: Pair) -> Callable[..., None]:
    """Makes the table on both servers, and brings the tiered one into a state."""

    def make(*state: str) -> None:
        for address, statements in ((pair.plain, SETUP), (pair.gateway, (*SETUP, *state))):
            with connected(address, pair.database) as owner:
                for statement in statements:
                    owner.execute(statement)

    return make


@pytest.mark.parametrize(("name", "state"), crossed(list(SCENARIOS), list(STATES)))
def test_what_others_do_meanwhile_counts_as_in_postgresql(
    pair: Pair, table: Callable[..., None], name: str, state: str
) -> None:
    table(*STATES[state])
    plain = play(pair.plain, pair.database, SCENARIOS[name])
    assert plain.dialogue == expected(SCENARIOS[name], plain.dialogue)
    tiered = play(pair.gateway, pair.database, SCENARIOS[name])
    assert tiered.dialogue == plain.dialogue
    assert tiered.rows == plain.rows
    with connected(pair.gateway, pair.database) as owner:
        assert owner.execute("SELECT gateway.check('t')").fetchone() == (0,)


SLOW = "length(replace(repeat(w, 6000), '1', '22')) > 0"
"""A condition that takes a while on many rows, and holds."""


@pytest.mark.parametrize(
    ("statement", "tag", "changed"),
    [
        (f"{BULK} AND {SLOW}", "UPDATE 2000", [(1, 11), (2, 21)]),
        (f"DELETE FROM t WHERE v BETWEEN 20 AND 20000 AND {SLOW}", "DELETE 1999", [(1, 10)]),
        (
            (
                f"MERGE INTO t USING (SELECT id FROM t WHERE {SLOW}) s ON t.id = s.id"
                " WHEN MATCHED AND v BETWEEN 20 AND 20000 THEN UPDATE SET v = t.v + 1"
            ),
            "MERGE 1999",
            [(1, 10), (2, 21)],
        ),
        (
            f"INSERT INTO t SELECT -id, v FROM t WHERE v <= 20000 AND {SLOW}",
            "INSERT 0 2000",
            [(-2, 20), (-1, 10), (1, 10), (2, 20)],
        ),
    ],
    ids=["UPDATE", "DELETE", "MERGE", "INSERT"],
)
def test_small_writes_go_on_while_a_bulk_write_is_computed(
    pair: Pair,
    table: Callable[..., None],
    statement: str,
    tag: str,
    changed: list[tuple[int, int]],
) -> None:
    table(*STATES["warm"])
    with (
        connected(pair.gateway, pair.database) as owner,
        connected(pair.gateway, pair.database) as writer,
        ThreadPoolExecutor(1) as worker,
    ):
        writer.execute("UPDATE t SET w = 'hot' WHERE id = 1")
        began = time.monotonic()
        bulk = worker.submit(lambda: owner.execute(statement).statusmessage)
        taken, number = [], 0
        while not bulk.done():
            number, start = number + 1, time.monotonic()
            writer.execute("UPDATE t SET w = %s WHERE id = 1", [str(number)])
            taken.append(time.monotonic() - start)
        lasted = time.monotonic() - began
        assert bulk.result() == tag
        assert max(taken) < lasted / 2
        assert len(taken) > 10
        found = owner.execute("SELECT id, v FROM t WHERE abs(id) < 3 ORDER BY id")
        assert found.fetchall() == changed
        last = owner.execute("SELECT w FROM t WHERE id = 1").fetchall()
        assert last == [(str(number),)]
        assert owner.execute("SELECT gateway.check('t')").fetchone() == (0,)


def test_what_a_source_was_written_to_is_removed(
    pair: Pair, table: Callable[..., None], gateway_process: GatewayProcess
) -> None:
    table(*STATES["cold"])

    def files() -> set[Path]:
        return data_files(gateway_process.data_dir)

    with connected(pair.gateway, pair.database) as owner:
        source = "(SELECT i AS id, 'y' || i AS y FROM generate_series(1, 2500) i, u WHERE u.g = 1)"
        clause = "WHEN MATCHED AND v < {} THEN DELETE"
        merge = f"MERGE INTO t USING {source} s ON t.id = s.id {clause}"
        before = files()
        assert owner.execute(merge.format(0)).statusmessage == "MERGE 0"
        assert files() == before
        with pytest.raises(errors.DivisionByZero):
            owner.execute(merge.format("1 / (length(s.y) - length(s.y))"))
        assert files() == before
        assert owner.execute(merge.format(20)).statusmessage == "MERGE 1"
        assert files() == before


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    ("action", "tag"),
    [("DO UPDATE SET v = t.v + 1", "INSERT 0 2200"), ("DO NOTHING", "INSERT 0 199")],
)
def test_a_unique_value_that_another_has_inserted_meanwhile_is_in_conflict(
    pair: Pair, table: Callable[..., None], state: str, action: str, tag: str
) -> None:
    table(*STATES[state])
    for address in (pair.plain, pair.gateway):
        with connected(address, pair.database) as owner:
            owner.execute("ALTER TABLE t ADD UNIQUE (w)")
    rows = "SELECT 9000 + i, 1, 'w' || i FROM generate_series(501, 2700) i, u WHERE u.g = 1"
    scenario = f"""
        a: BEGIN
        a: INSERT INTO t VALUES (9000, 5, 'w2600')
        b: INSERT INTO t {rows} ON CONFLICT (w) {action} -- waits
        a: COMMIT
        b goes on => {tag}
    """
    plain = play(pair.plain, pair.database, scenario)
    assert plain.dialogue == expected(scenario, plain.dialogue)
    tiered = play(pair.gateway, pair.database, scenario)
    assert tiered.dialogue == plain.dialogue
    assert tiered.rows == plain.rows
    with connected(pair.gateway, pair.database) as owner:
        assert owner.execute("SELECT gateway.check('t')").fetchone() == (0,)


@pytest.mark.parametrize("state", STATES)
def test_a_key_that_another_has_inserted_meanwhile_is_one_that_is_matched(
    pair: Pair, table: Callable[..., None], state: str
) -> None:
    table(*STATES[state])
    scenario = f"""
        a: BEGIN
        a: INSERT INTO t VALUES (2800, 5)
        b: {UPSERT} -- waits
        a: COMMIT
        b goes on => {{answer}}
    """
    for address, answer, rows in (
        (pair.plain, "error 23505", [5]),
        (pair.gateway, "MERGE 2000", [6]),
    ):
        played = play(address, pair.database, scenario.format(answer=answer))
        assert played.dialogue == expected(scenario.format(answer=answer), played.dialogue)
        assert [v for key, v, _ in played.rows if key == 2800] == rows


@pytest.mark.parametrize("state", ["warm", "cold"])
def test_two_that_compute_at_the_same_time_do_not_deadlock(
    pair: Pair, table: Callable[..., None], state: str
) -> None:
    table(*STATES[state])

    def run(connection: psycopg.Connection) -> str | None:
        with connection.transaction():
            return connection.execute(BULK).statusmessage

    with (
        connected(pair.gateway, pair.database) as one,
        connected(pair.gateway, pair.database) as other,
        ThreadPoolExecutor(2) as workers,
    ):
        assert sorted(map(str, workers.map(run, (one, other)))) == ["UPDATE 1999", "UPDATE 2000"]
        found = one.execute("SELECT sum(v) FROM t WHERE id <= 2000").fetchall()
        assert found == [(20_010_000 + 3999,)]
        assert one.execute("SELECT gateway.check('t')").fetchone() == (0,)


@pytest.mark.parametrize("changed", [1, 2500], ids=["its own", "another"])
def test_what_is_too_large_for_memory_is_written_before_the_table_is_locked(
    pair: Pair, table: Callable[..., None], changed: int
) -> None:
    table(*STATES["warm"])
    played = {}
    for address in (pair.plain, pair.gateway):
        with connected(address, pair.database) as owner:
            owner.execute("UPDATE t SET w = repeat('x', 9000) || id")
            owner.execute("UPDATE t SET v = v WHERE id IN (1, 2500)")
        waits = changed == 1 or address == pair.gateway
        scenario = f"""
            a: BEGIN
            a: UPDATE t SET v = v WHERE id = {changed}
            b: {BULK} {"-- waits" if waits else "=> UPDATE 2000"}
            a: UPDATE t SET v = v + 5 WHERE id = {changed}
            a: COMMIT
            {"b goes on => UPDATE 2000" if waits else ""}
        """
        played[address] = play(address, pair.database, scenario)
        assert played[address].dialogue == expected(scenario, played[address].dialogue)
    assert played[pair.gateway].rows == played[pair.plain].rows
    with connected(pair.gateway, pair.database) as owner:
        assert owner.execute("SELECT gateway.check('t')").fetchone() == (0,)
        numbers = owner.execute(
            "SELECT max(version_number) FILTER (WHERE id = 7),"
            f" max(version_number) FILTER (WHERE id = {changed} AND v % 10 = 5) FROM t_journal"
        )
        ((computed, written),) = numbers.fetchall()
        # Computed again for a row of its own that had changed: then all has the later number.
        assert (computed > written) is (changed == 1)


RETURNING = "RETURNING id, repeat(w, 3000) AS long"
"""Yields 16 kB for each row: some 30 MB of those of a statement on 2,000."""

RETURNED = {
    "UPDATE": f"{BULK} {RETURNING}",
    "DELETE": f"DELETE FROM t WHERE v <= 20000 {RETURNING}",
    "MERGE": f"{MERGED} {RETURNING.replace('id', 't.id', 1)}",
}


def files_without_name(process: GatewayProcess) -> int:
    """Count the files for what has no room in memory that a gateway has open."""
    count = 0
    for open_file in Path(f"/proc/{process.process_id}/fd").iterdir():
        with suppress(FileNotFoundError):
            path = open_file.readlink()
            is_temporary = path.parent == Path(tempfile.gettempdir())
            count += is_temporary and path.name.endswith(" (deleted)")
    return count


def settles(process: GatewayProcess, count: int) -> bool:
    """Wait until a gateway has so many of these files open."""
    deadline = time.monotonic() + PATIENCE_S
    while files_without_name(process) != count and time.monotonic() < deadline:
        time.sleep(0.05)
    return files_without_name(process) == count


@pytest.mark.parametrize(("verb", "state"), crossed(list(RETURNED), ["warm", "cold"]))
def test_rows_of_returning_that_are_many_wait_in_a_file(
    pair: Pair, table: Callable[..., None], gateway_process: GatewayProcess, verb: str, state: str
) -> None:
    table(*STATES[state])
    with connected(pair.plain, pair.database) as plain:
        rows = plain.execute(RETURNED[verb]).fetchall()
        expected_rows = {(str(key).encode(), long.encode()) for key, long in rows}
    before = files_without_name(gateway_process)
    with wire(pair.gateway, pair.database) as client:
        client.query("BEGIN")
        first = client.exchange(
            Parse("", RETURNED[verb]), bind(), Execute(maximum_rows=700), Sync()
        )
        assert isinstance(first[-2], PortalSuspended)
        assert files_without_name(gateway_process) == before + 1
        rest = client.exchange(Execute(), Sync())
        assert files_without_name(gateway_process) == before
    assert CommandComplete(f"{verb} 1300") in rest
    taken = [tuple(one.values) for one in (*first, *rest) if isinstance(one, DataRow)]
    assert len(taken) == 2000
    assert set(taken) == expected_rows


def test_rows_of_returning_that_nobody_takes_leave_no_file(
    pair: Pair, table: Callable[..., None], gateway_process: GatewayProcess
) -> None:
    table(*STATES["cold"])
    before = files_without_name(gateway_process)
    started = (Parse("", RETURNED["UPDATE"]), bind(), Execute(maximum_rows=700))

    def begun(client: WireClient) -> None:
        client.query("BEGIN")
        assert isinstance(client.exchange(*started, Sync())[-2], PortalSuspended)
        assert files_without_name(gateway_process) == before + 1

    with wire(pair.gateway, pair.database) as client:
        ends = (
            (Close(ObjectKind.PORTAL, ""), Sync()),
            (Query("ROLLBACK"),),
            (Query("SELECT 1 / 0"),),
        )
        for end in ends:
            begun(client)
            client.exchange(*end)
            assert files_without_name(gateway_process) == before
            client.query("ROLLBACK")
        begun(client)
    assert settles(gateway_process, before)


@pytest.mark.parametrize(
    "assigned", ["v = v", "id = id + 10000"], ids=["in files first", "of keys that change"]
)
def test_a_statement_that_fails_after_many_rows_of_returning_leaves_no_file(
    pair: Pair, table: Callable[..., None], gateway_process: GatewayProcess, assigned: str
) -> None:
    table(*STATES["cold"])
    before = files_without_name(gateway_process)
    update = f"UPDATE t SET {assigned} {RETURNING}"
    with connected(pair.gateway, pair.database) as owner:
        with pytest.raises(errors.DivisionByZero):
            owner.execute(f"{update}, 1 / (v - 24990)")
        assert files_without_name(gateway_process) == before
        timer = threading.Timer(0.5, owner.cancel)
        timer.start()
        with pytest.raises(errors.QueryCanceled):
            owner.execute(f"{update}, {SLOW.replace('6000', '20000')}")
        timer.join()
        assert files_without_name(gateway_process) == before
        assert owner.execute("SELECT sum(v), max(id) FROM t").fetchall() == [(31_262_500, 2500)]
    with wire(pair.gateway, pair.database) as client:
        client.send(Query(update))
        while not isinstance(client.receive(), DataRow):
            pass
        assert files_without_name(gateway_process) == before + 1
    assert settles(gateway_process, before)
