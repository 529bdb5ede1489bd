"""Transactions under SERIALIZABLE each of which reads what the other one writes.

There is no order in which they could have run one after the other, so one of them has to fail
(40001). PostgreSQL may find that out at any statement or at COMMIT, and so may the gateway: only
who fails, who does not, and what is there at the end is looked at, not where it was found out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import psycopg
import pytest

from tests.support.sampling import crossed
from tests.support.scenarios import PATIENCE_S, Session, Stage, Step, steps
from tests.support.servers import Address
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

DATABASE = "write_skew"

ROWS = 3_000
"""More than are kept in the catalog of one write."""

SETUP = (
    "CREATE TABLE t (id integer PRIMARY KEY, v integer)",
    "CREATE TABLE u (id integer PRIMARY KEY, v integer)",
    f"INSERT INTO t SELECT g, 0 FROM generate_series(1, {ROWS}) g",
    f"INSERT INTO u SELECT g, 0 FROM generate_series(1, {ROWS}) g",
)

BACKENDS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "plain": ((), ()),
    "resident": ((), ()),
    "cold": (("t", "u"), ()),
    "hot": (
        ("t", "u"),
        [f"UPDATE {table} SET v = v WHERE id IN (1, 2, 3)" for table in ("t", "u")],
    ),
    "mixed": (("t",), ()),
}
"""Which tables are tiered, and what is done to them before."""


@dataclass(frozen=True)
class Skew:
    """What two transactions do, and what tells whether the effects of each are there."""

    dialogue: str
    effects: Mapping[str, str]


SKEWS = {
    "each changes its own row of what both sum up": Skew(
        """
        a: SELECT sum(v) FROM t
        b: SELECT sum(v) FROM t
        a: UPDATE t SET v = v - 100 WHERE id = 1
        b: UPDATE t SET v = v - 100 WHERE id = 2
        a: COMMIT
        b: COMMIT
        """,
        {
            "a": "SELECT v = -100 FROM t WHERE id = 1",
            "b": "SELECT v = -100 FROM t WHERE id = 2",
        },
    ),
    "the second reads when the first has written": Skew(
        """
        a: SELECT sum(v) FROM t
        a: UPDATE t SET v = v - 100 WHERE id = 1
        b: SELECT sum(v) FROM t
        b: UPDATE t SET v = v - 100 WHERE id = 2
        b: COMMIT
        a: COMMIT
        """,
        {
            "a": "SELECT v = -100 FROM t WHERE id = 1",
            "b": "SELECT v = -100 FROM t WHERE id = 2",
        },
    ),
    "each changes the row that the other has read by its key": Skew(
        """
        a: SELECT v FROM t WHERE id = 1
        b: SELECT v FROM t WHERE id = 2
        a: UPDATE t SET v = 7 WHERE id = 2
        b: UPDATE t SET v = 8 WHERE id = 1
        a: COMMIT
        b: COMMIT
        """,
        {"a": "SELECT v = 7 FROM t WHERE id = 2", "b": "SELECT v = 8 FROM t WHERE id = 1"},
    ),
    "by keys of two tables": Skew(
        """
        a: SELECT v FROM t WHERE id = 1
        b: SELECT v FROM u WHERE id = 1
        a: UPDATE u SET v = 7 WHERE id = 1
        b: DELETE FROM t WHERE id = 1
        a: COMMIT
        b: COMMIT
        """,
        {
            "a": "SELECT v = 7 FROM u WHERE id = 1",
            "b": f"SELECT count(*) = {ROWS - 1} FROM t",
        },
    ),
    "each inserts what the other has not found": Skew(
        f"""
        a: SELECT count(*) FROM t WHERE v = 5
        b: SELECT count(*) FROM t WHERE v = 5
        a: INSERT INTO t VALUES ({ROWS + 1}, 5)
        b: INSERT INTO t VALUES ({ROWS + 2}, 5)
        a: COMMIT
        b: COMMIT
        """,
        {
            "a": f"SELECT count(*) = 1 FROM t WHERE id = {ROWS + 1}",
            "b": f"SELECT count(*) = 1 FROM t WHERE id = {ROWS + 2}",
        },
    ),
    "each changes all rows of the table that the other has counted": Skew(
        """
        a: SELECT count(*) FROM u
        b: SELECT count(*) FROM t
        a: UPDATE t SET v = v + 1
        b: UPDATE u SET v = v + 1
        a: COMMIT
        b: COMMIT
        """,
        {"a": f"SELECT sum(v) = {ROWS} FROM t", "b": f"SELECT sum(v) = {ROWS} FROM u"},
    ),
    "all rows of one table, and one of the other": Skew(
        """
        a: SELECT sum(v) FROM u
        b: SELECT sum(v) FROM t
        a: UPDATE t SET v = v + 1
        b: UPDATE u SET v = 9 WHERE id = 1
        b: COMMIT
        a: COMMIT
        """,
        {"a": f"SELECT sum(v) = {ROWS} FROM t", "b": "SELECT v = 9 FROM u WHERE id = 1"},
    ),
    "all rows of one table, and one of the other, which is read by its key": Skew(
        """
        a: SELECT v FROM u WHERE id = 1
        b: SELECT v FROM t WHERE id = 1
        b: UPDATE u SET v = 9 WHERE id = 1
        a: UPDATE t SET v = v + 1
        a: COMMIT
        b: COMMIT
        """,
        {"a": f"SELECT sum(v) = {ROWS} FROM t", "b": "SELECT v = 9 FROM u WHERE id = 1"},
    ),
}

FREE = {
    "one after the other": Skew(
        """
        a: SELECT sum(v) FROM t
        a: UPDATE t SET v = v - 100 WHERE id = 1
        a: COMMIT
        b: SELECT sum(v) FROM t
        b: UPDATE t SET v = v - 100 WHERE id = 2
        b: COMMIT
        """,
        SKEWS["each changes its own row of what both sum up"].effects,
    ),
    "each reads what it writes": Skew(
        """
        a: SELECT sum(v) FROM t
        b: SELECT sum(v) FROM u
        a: UPDATE t SET v = v - 100 WHERE id = 1
        b: UPDATE u SET v = v + 1
        a: COMMIT
        b: COMMIT
        """,
        {
            "a": "SELECT v = -100 FROM t WHERE id = 1",
            "b": f"SELECT sum(v) = {ROWS} FROM u",
        },
    ),
}
"""Transactions that could have run one after the other: none has to fail."""


@dataclass
class _Actor:
    """One of the sessions, whose transaction goes on, has failed or is committed."""

    session: Session
    outcome: str = "goes on"

    def hear(self) -> None:
        """Take an answer for what it is; a transaction that has failed is rolled back."""
        answer = self.session.heard()
        if answer == "COMMIT":
            self.outcome = "committed"
        elif answer.startswith("error "):
            assert answer == "error 40001"
            self.outcome = "failed"
            self.session.connection.rollback()
        else:
            assert answer != "waits"


def outcomes(connect: Callable[[], psycopg.Connection], dialogue: str) -> dict[str, str]:
    """Play transactions step by step; return what became of each.

    A session that waits for the other one says what comes next when it need not any more. One that
    has failed with 40001, at whatever statement, says nothing more.
    """
    said = list(steps(dialogue))
    with ExitStack() as stack:
        stage = Stage(lambda: stack.enter_context(connect()), stack)
        actors: dict[str, _Actor] = {}
        for name in sorted({step.sessions[0] for step in said}):
            connection = stack.enter_context(connect())
            actors[name] = _Actor(Session(connection))
            stack.callback(actors[name].session.leave)
            connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        while said:
            step = _next(said, actors)
            said.remove(step)
            actor = actors[step.sessions[0]]
            if actor.session.answer is not None:
                actor.hear()
            if actor.outcome == "goes on":
                assert step.says
                actor.session.say(step.says)
                if not stage.is_waiting(actor.session, PATIENCE_S):
                    actor.hear()
        for actor in actors.values():
            if actor.session.answer is not None:
                actor.hear()
        return {name: actor.outcome for name, actor in actors.items()}


def _next(said: Sequence[Step], actors: Mapping[str, _Actor]) -> Step:
    """Return the first step of a session that does not wait; if all do, the first one."""
    ready = (step for step in said if _is_ready(actors[step.sessions[0]].session))
    return next(ready, said[0])


def _is_ready(session: Session) -> bool:
    return session.answer is None or session.answer.done()


def connect(server: Address, backend: str, schema: str) -> psycopg.Connection:
    return psycopg.connect(
        server.conninfo(f"{DATABASE}_{backend}"),
        autocommit=True,
        prepare_threshold=None,
        options=f"-c search_path={schema} -c lock_timeout=20s",
    )


@pytest.fixture(scope="module")
def servers(plain_postgres: Address, resident_gateway: Address) -> Iterator[Mapping[str, Address]]:
    """The server of each backend, with a database for it."""
    found = dict.fromkeys(BACKENDS, resident_gateway) | {"plain": plain_postgres}
    with ExitStack() as stack:
        for name, server in found.items():
            server.execute(f"CREATE DATABASE {DATABASE}_{name}")
            stack.callback(server.execute, f"DROP DATABASE {DATABASE}_{name} WITH (FORCE)")
        yield found


def played(
    server: Address, backend: str, number: int, skew: Skew
) -> tuple[dict[str, str], dict[str, bool]]:
    """Return what became of each transaction, and whether its effects are there."""
    schema = f"skew_{number}"
    tiered, prepared = BACKENDS[backend]
    with connect(server, backend, schema) as owner:
        for statement in (f"CREATE SCHEMA {schema}", *SETUP):
            owner.execute(statement)
        if tiered:
            make_tiered(owner, *tiered)
        for statement in prepared:
            owner.execute(statement)
        ended = outcomes(lambda: connect(server, backend, schema), skew.dialogue)
        there = {
            name: owner.execute(query).fetchall() == [(True,)]
            for name, query in skew.effects.items()
        }
        if backend != "plain":
            for table in "tu":
                assert owner.execute(f"SELECT gateway.check('{table}')").fetchall() == [(0,)]
    return ended, there


@pytest.mark.parametrize(("name", "backend"), crossed(list(SKEWS), list(BACKENDS), step=2))
def test_one_of_two_that_read_what_the_other_writes_fails(
    servers: Mapping[str, Address], name: str, backend: str
) -> None:
    number = list(SKEWS).index(name)
    ended, there = played(servers[backend], backend, number, SKEWS[name])
    assert sorted(ended.values()) == ["committed", "failed"]
    assert there == {name: outcome == "committed" for name, outcome in ended.items()}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FREE)
def test_none_fails_that_could_have_run_after_the_other(
    servers: Mapping[str, Address], name: str, backend: str
) -> None:
    number = len(SKEWS) + list(FREE).index(name)
    ended, there = played(servers[backend], backend, number, FREE[name])
    assert set(ended.values()) == {"committed"}
    assert all(there.values())
