"""Sessions that want the same rows of several partitions: who waits, what is seen then, who fails.

PostgreSQL itself plays each dialogue, resident tables, and tables all of whose partitions are
tiered, without hot rows before (cold), or with all of them hot. How dialogues are written down:
`tests.support.scenarios`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future

import pytest

from tests.support.scenarios import expected
from tests.support.servers import Address
from tests.support.theatre import PLAIN, Played, Theatre, once, opened

pytestmark = pytest.mark.server

SETUP = (
    "CREATE TABLE t (id integer, p integer, v integer, PRIMARY KEY (id, p)) PARTITION BY LIST (p)",
    "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)",
    "CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2)",
    "CREATE TABLE t3 PARTITION OF t DEFAULT",
    "INSERT INTO t SELECT g, 1 + g % 3, g * 10 FROM generate_series(1, 9) g",
    # Who defines a table lets its rows go cold.
    "ALTER TABLE t ALTER v DROP DEFAULT",
)

TIERED = {
    "cold": (),
    "hot": ("BEGIN", "SELECT * FROM t WHERE v > 0 FOR UPDATE SKIP LOCKED", "COMMIT"),
}
"""What is done to a table that is tiered before the rows are fought for."""

BACKENDS = (PLAIN, "resident", *TIERED)

TAKE = "WITH gone AS (DELETE FROM t WHERE v = {v} RETURNING id, p, v) SELECT * FROM gone"

MOVE = "UPDATE t SET p = {p} WHERE id = {id} RETURNING id, p, v"

ADD = (
    "INSERT INTO t SELECT id, p, 1 FROM t WHERE id IN ({id}) AND p IN (1, 2, 3)"
    " ON CONFLICT (id, p) DO UPDATE SET v = t.v + excluded.v"
)

FREE = "SELECT id FROM t WHERE v > 0 ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED"

QUEUE = (
    "UPDATE t SET v = -v WHERE (id, p) IN"
    " (SELECT id, p FROM t WHERE v > 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
)

SCENARIOS = {
    "different rows of the same partitions": f"""
        a: BEGIN
        a: {TAKE.format(v=10)} => 1|2|10
        b: BEGIN
        b: {TAKE.format(v=40)} => 4|2|40
        b: {MOVE.format(id=2, p=2)} => 2|2|20
        a: {MOVE.format(id=3, p=2)} => 3|2|30
        a: COMMIT
        b: COMMIT
    """,
    "a row that somebody is about to take away": f"""
        a: BEGIN
        a: {TAKE.format(v=10)} => 1|2|10
        b: {TAKE.format(v=10)} -- waits
        c: UPDATE t SET v = v + 1 WHERE id = 1 AND p = 2 -- waits
        a: COMMIT
        b goes on => no rows
        c goes on => UPDATE 0
    """,
    "a row that somebody is about to take away, and does not": f"""
        a: BEGIN
        a: {TAKE.format(v=10)} => 1|2|10
        b: {TAKE.format(v=10)} -- waits
        a: ROLLBACK
        b goes on => 1|2|10
    """,
    "a row that somebody moves": f"""
        a: BEGIN
        a: {MOVE.format(id=1, p=1)} => 1|1|10
        b: UPDATE t SET v = v + 1 WHERE id = 1 AND p = 2 -- waits
        a: COMMIT
        b goes on => error 40001
    """,
    "a place that somebody moves a row to": f"""
        a: BEGIN
        a: {MOVE.format(id=1, p=1)} => 1|1|10
        b: INSERT INTO t VALUES (1, 1, 5) ON CONFLICT (id, p) DO UPDATE SET v = t.v + 5 -- waits
        c: {MOVE.format(id=4, p=1)} => 4|1|40
        a: COMMIT
        b goes on => INSERT 0 1
    """,
    "rows that are changed by what is read of them": f"""
        a: BEGIN
        a: {ADD.format(id="1, 2")} => INSERT 0 2
        b: {ADD.format(id="2, 3")} -- waits
        a: COMMIT
        b goes on => INSERT 0 2
    """,
    "rows of a queue": f"""
        a: BEGIN
        a: {FREE} => 1, 2
        b: BEGIN
        b: {QUEUE} => 3
        c: {QUEUE} => 4
        b: ROLLBACK
        c: {QUEUE} => 3
        a: COMMIT
        c: {QUEUE} => 1
    """,
    "rows that were locked before, by a part of their keys": f"""
        a: BEGIN
        a: {FREE} => 1, 2
        b: BEGIN
        b: {FREE} => 3, 4
        a: UPDATE t SET v = v + 1 WHERE id = 1 => UPDATE 1
        b: UPDATE t SET v = v + 1, p = 3 WHERE id = 3 => UPDATE 1
        a: UPDATE t SET p = 3 WHERE id = 2 => UPDATE 1
        b: DELETE FROM t WHERE id = 4 => DELETE 1
        a: COMMIT
        b: COMMIT
    """,
    "rows that are locked without waiting": """
        a: BEGIN
        a: SELECT id FROM t WHERE id IN (1, 2, 3) ORDER BY id FOR UPDATE => 1, 2, 3
        b: SELECT id FROM t WHERE id IN (3, 4) FOR UPDATE NOWAIT => error 55P03
        b: SELECT id FROM t WHERE id IN (4, 5) ORDER BY id FOR UPDATE NOWAIT => 4, 5
        a: COMMIT
    """,
    "two that want the other's row": f"""
        a: BEGIN
        b: BEGIN
        a: {TAKE.format(v=10)} => 1|2|10
        b: {TAKE.format(v=20)} => 2|3|20
        a: {TAKE.format(v=20)} -- waits
        b: {TAKE.format(v=10)} -- waits
        a or b goes on => error 40P01
        a and b: ROLLBACK
    """,
    "rows that are inserted into several partitions": """
        a: BEGIN
        a: INSERT INTO t VALUES (10, 1, 1), (11, 2, 1) => INSERT 0 2
        b: INSERT INTO t VALUES (12, 1, 1), (13, 2, 1), (14, 3, 1) => INSERT 0 3
        c: INSERT INTO t VALUES (15, 1, 1), (11, 2, 2) -- waits
        b: INSERT INTO t VALUES (16, 1, 1), (1, 2, 2) => error 23505
        a: COMMIT
        c goes on => error 23505
    """,
    "writers of many rows, and of a partition as a whole": f"""
        a: BEGIN
        a: LOCK TABLE t2 IN EXCLUSIVE MODE
        b: {TAKE.format(v=10)} -- waits
        a: COMMIT
        b goes on => 1|2|10
    """,
}


def setup(backend: str, scenario: str) -> Sequence[str]:
    return (*SETUP, *TIERED.get(backend, ()))


@pytest.fixture(scope="module")
def theatre(
    plain_postgres: Address, gateway: Address, resident_gateway: Address
) -> Iterator[Theatre]:
    tiered = dict.fromkeys(TIERED, gateway)
    servers = {PLAIN: plain_postgres, "resident": resident_gateway, **tiered}
    with opened("hot_leaves", servers, setup, ("t1", "t2", "t3")) as theatre:
        yield theatre


@pytest.fixture(scope="module")
def played(
    theatre: Theatre, request: pytest.FixtureRequest
) -> Callable[[str], Mapping[str, Future[Played]]]:
    """Scenarios, each played once."""
    return once(theatre, SCENARIOS, request.session)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_rows_of_partitions_are_fought_for_as_in_postgresql(
    played: Callable[[str], Mapping[str, Future[Played]]], name: str, backend: str
) -> None:
    plain, found = (played(name)[one].result() for one in (PLAIN, backend))
    if backend == PLAIN:
        assert found.dialogue == expected(SCENARIOS[name], found.dialogue)
        return
    assert found.dialogue == plain.dialogue
    assert found.rows == plain.rows
    assert found.differences == [(0,)] * 3
