"""Statements that PostgreSQL begins, or the gateway's own: others see them, and end them."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from psycopg import errors

from tests.support.servers import GatewayProcess
from tests.support.tiers import PATIENCE_S, make_tiered

pytestmark = pytest.mark.server

DATABASE = "seen_at_work"

ROWS = 400_000

CHANGED = 100_000
"""Rows that the last commit has changed."""

SLOW = "SELECT max(md5(a.id::text || b.id::text)) FROM t a, t b WHERE a.id <= 10"
"""A query Spark takes seconds for."""

CHANGE = f"UPDATE t SET v = v + 1 WHERE id <= {2 * CHANGED}"

CHANGES = (
    f"SELECT max(commit) FROM gateway.commits WHERE table_name = 't' AND row_versions = {CHANGED}"
)

SETUP = (
    "CREATE TABLE r (id integer PRIMARY KEY, v text)",
    "INSERT INTO r SELECT g, md5(g::text) FROM generate_series(1, 60000) g",
    "CREATE TABLE t (id integer PRIMARY KEY, v integer)",
    "CREATE TABLE p (id integer PRIMARY KEY, v integer) PARTITION BY RANGE (id)",
    f"CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO ({4 * ROWS})",
)


def copies_to(client: psycopg.Connection, text: str) -> None:
    """Take what a COPY sends."""
    with client.cursor().copy(text) as copying:  # type: ignore[arg-type]
        for _ in copying:
            pass


def copies_from(client: psycopg.Connection, text: str) -> None:
    """Send many rows, whose keys lie between those that are there."""
    with client.cursor().copy(text) as copying:  # type: ignore[arg-type]
        for first in range(1, 2 * ROWS, 20_000):
            keys = range(first, first + 20_000, 2)
            copying.write("".join(f"{key}\t0\n" for key in keys))


def executes(client: psycopg.Connection, text: str) -> None:
    """Run a statement."""
    client.execute(text)  # type: ignore[call-overload]


@dataclass(frozen=True)
class Work:
    """A statement, and what runs it."""

    text: str
    run: Callable[[psycopg.Connection, str], None] = executes
    undo: str = "SELECT"
    """What takes it back, where it was over before it could be ended."""


WORKS = {
    "COPY TO": Work(f"COPY ({SLOW}) TO STDOUT", copies_to),
    "COPY FROM": Work("COPY t FROM STDIN", copies_from, undo="DELETE FROM t WHERE id % 2 = 1"),
    "check": Work("SELECT gateway.check('r')"),
    "register_journal": Work(
        "CALL gateway.register_journal(target => 'j', location => '{files}', key => 'k')",
        undo="DROP TABLE j",
    ),
    "rollback_commit": Work("SELECT gateway.rollback_commit('{commit}')", undo=CHANGE),
}


@dataclass(frozen=True)
class Place:
    """A database of its own with large tables, and a directory of files."""

    process: GatewayProcess
    files: Path

    def text_of(self, work: Work) -> str:
        """Return the statement, on the last change of table `t`."""
        with self.connect() as client:
            ((commit,),) = client.execute(CHANGES).fetchall()  # type: ignore[call-overload]
        return work.text.replace("{files}", str(self.files)).replace("{commit}", str(commit))

    def connect(self) -> psycopg.Connection:
        """Open a session."""
        return psycopg.connect(self.process.address.conninfo(DATABASE), autocommit=True)


@pytest.fixture(scope="module")
def place(resident_process: GatewayProcess, allowed_directory: Path) -> Iterator[Place]:
    files = allowed_directory / "seen_at_work"
    files.mkdir()
    keys = pa.array(range(4_000_000), pa.int64())
    moments = pa.array([0], pa.timestamp("us", "UTC")).take(pa.array([0] * len(keys)))
    table = pa.table(
        {
            "k": keys,
            "v": keys.cast(pa.string()),
            "version_number": moments,
            "subsequent_version_number": pa.nulls(len(keys), moments.type),
        }
    )
    pq.write_table(table, files / "rows.parquet")
    resident_process.address.execute(f"CREATE DATABASE {DATABASE}")
    found = Place(resident_process, files)
    with found.connect() as client:
        for statement in SETUP:
            client.execute(statement)  # type: ignore[call-overload]
        make_tiered(client, "t", "p1")
        for name in ("t", "p"):
            insert = f"INSERT INTO {name} SELECT 2 * g, 0 FROM generate_series(1, {ROWS}) g"
            client.execute(insert)  # type: ignore[call-overload]
        client.execute(CHANGE)  # type: ignore[call-overload]
    yield found
    resident_process.address.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


@pytest.fixture
def client(place: Place) -> Iterator[psycopg.Connection]:
    with place.connect() as connection:
        yield connection


def running(client: psycopg.Connection, work: Work, text: str) -> "Future[None]":
    """Run a statement in a thread of its own."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            future.set_result(work.run(client, text))
        except psycopg.Error as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def await_work(
    place: Place, client: psycopg.Connection, statement: "Future[None]", ends: str = ""
) -> bool:
    """Wait until others see that a session is at work with a statement, which PostgreSQL is not.

    Then call what `ends` it, if anything. False if the statement was over before it was seen.
    """
    query = (
        "SELECT FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
        " AND query LIKE '/* %%pg_sleep%%'"
    )
    deadline = time.monotonic() + PATIENCE_S
    with place.connect() as other:
        while not other.execute(query, [client.info.backend_pid]).fetchall():
            if statement.done():
                return False
            assert time.monotonic() < deadline, "the session is not seen to work"
            time.sleep(0.01)
        if ends:
            other.execute(f"SELECT {ends}({client.info.backend_pid})")  # type: ignore[call-overload]
    return True


@pytest.mark.parametrize("ends", ["pg_cancel_backend", "pg_terminate_backend"])
@pytest.mark.parametrize("name", WORKS)
def test_others_see_it_and_end_it(
    place: Place, client: psycopg.Connection, name: str, ends: str
) -> None:
    work = WORKS[name]
    for _ in range(5):
        statement = running(client, work, place.text_of(work))
        await_work(place, client, statement, ends)
        error = statement.exception(PATIENCE_S)
        if error is not None:
            break
        client.execute(work.undo)  # type: ignore[call-overload]
    if ends == "pg_cancel_backend":
        assert isinstance(error, errors.QueryCanceled)
        assert client.execute("SELECT count(*), sum(v) FROM t").fetchone() == (ROWS, CHANGED)
    else:
        assert isinstance(error, errors.AdminShutdown)
        assert client.closed
    with place.connect() as other:
        assert other.execute("SELECT count(*), sum(v) FROM t").fetchone() == (ROWS, CHANGED)
        assert other.execute("SELECT to_regclass('j')").fetchone() == (None,)


@pytest.mark.parametrize("name", [name for name in WORKS if "FROM" not in name])
def test_it_times_out(place: Place, client: psycopg.Connection, name: str) -> None:
    work = WORKS[name]
    client.execute("SET statement_timeout = '300ms'")
    with pytest.raises(errors.QueryCanceled, match="statement timeout"):
        work.run(client, place.text_of(work))
    client.execute("RESET statement_timeout")
    assert client.execute("SELECT count(*), sum(v) FROM t").fetchone() == (ROWS, CHANGED)


def test_it_is_seen_while_files_of_partitions_are_written(
    place: Place, client: psycopg.Connection
) -> None:
    work = Work("COPY p FROM STDIN", copies_from)
    for _ in range(5):
        statement = running(client, work, work.text)
        seen = await_work(place, client, statement)
        statement.result(PATIENCE_S)
        assert client.execute("SELECT count(*) FROM p").fetchone() == (2 * ROWS,)
        if seen:
            break
        # It was over before anybody looked.
        client.execute("DELETE FROM p WHERE id % 2 = 1")
    assert seen
