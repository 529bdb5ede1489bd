"""Temporary tables in queries of tiered ones: what their rows are written to does not stay."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from pgwire_gateway.spark.warehouse import NO_DATABASE
from tests.support.data_files import data_files
from tests.support.fix_server import Pair
from tests.support.servers import GatewayProcess

pytestmark = pytest.mark.server

SCHEMA = "temporary_rows"

SETUP = (
    f"CREATE SCHEMA {SCHEMA}",
    "CREATE TABLE t (id integer PRIMARY KEY, v integer)",
    "ALTER TABLE t SET (autovacuum_enabled = false)",
    "INSERT INTO t SELECT g, g % 10 FROM generate_series(1, 4000) g",
    "CREATE TEMPORARY TABLE many AS SELECT g AS id, g % 7 AS x FROM generate_series(1, 6000) g",
)

PATIENCE_S = 30.0
"""How long a session may take to end on a slow machine."""

JOIN = "SELECT t.id, many.x FROM t JOIN many USING (id)"


@pytest.fixture
def session(shared_pair: Pair) -> Iterator[psycopg.Connection]:
    """A session with a tiered table, and a temporary one whose rows are too many for memory."""
    gateway, database = shared_pair.gateway, shared_pair.database
    conninfo = gateway.conninfo(database, options=f"-c search_path={SCHEMA}")
    try:
        with closing(psycopg.connect(conninfo, autocommit=True)) as connection:
            for statement in SETUP:
                connection.execute(statement)  # type: ignore[call-overload]
            yield connection
    finally:
        gateway.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", database=database)


@pytest.fixture
def files(session: psycopg.Connection, gateway_process: GatewayProcess) -> "Files":
    """The data files of temporary rows, which are those of no table."""
    return Files(gateway_process.data_dir / "warehouse" / str(NO_DATABASE))


class Files:
    """Data files below a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._before = self._found()

    def _found(self) -> set[Path]:
        return data_files(self._directory)

    @property
    def added(self) -> int:
        """How many have come."""
        return len(self._found() - self._before)


def test_queries_leave_no_files(session: psycopg.Connection, files: Files) -> None:
    assert len(session.execute(JOIN).fetchall()) == 4000
    assert files.added == 0
    with pytest.raises(errors.DivisionByZero):
        session.execute("SELECT 1 / (t.v - t.v) FROM t JOIN many USING (id)")
    assert files.added == 0
    with pytest.raises(errors.FeatureNotSupported):
        session.execute("SELECT t.ctid FROM t JOIN many USING (id)")
    assert files.added == 0
    assert session.execute(f"EXPLAIN {JOIN}").fetchone() == ("spark: tiered tables",)
    assert files.added == 0


def test_cursors_leave_no_files(session: psycopg.Connection, files: Files) -> None:
    with session.transaction():
        for taken in (0, 3, 4001):
            session.execute(f"DECLARE c CURSOR FOR {JOIN}")
            assert files.added > 0
            rows = session.execute(f"FETCH {taken} FROM c").fetchall() if taken else []
            assert len(rows) == min(taken, 4000)
            session.execute("CLOSE c")
            assert files.added == 0
        session.execute(f"DECLARE c CURSOR FOR {JOIN}")
    assert files.added == 0
    session.execute("BEGIN")
    session.execute(f"DECLARE c CURSOR FOR {JOIN}")
    session.execute("FETCH 3 FROM c")
    session.execute("ROLLBACK")
    assert files.added == 0
    failing = "SELECT 1 / (t.v - 3) FROM t JOIN many USING (id) WHERE t.id > 100"
    with pytest.raises(errors.DivisionByZero):
        session.execute(f"DECLARE h CURSOR WITH HOLD FOR {failing}")
    assert files.added == 0
    session.execute(f"DECLARE h CURSOR WITH HOLD FOR {JOIN}")
    assert len(session.execute("FETCH 3 FROM h").fetchall()) == 3
    session.execute("CLOSE h")
    assert files.added == 0


def test_sessions_that_go_leave_no_files(
    shared_pair: Pair, session: psycopg.Connection, files: Files
) -> None:
    conninfo = shared_pair.gateway.conninfo(
        shared_pair.database, options=f"-c search_path={SCHEMA}"
    )
    with closing(psycopg.connect(conninfo)) as other:
        other.execute(SETUP[-1])
        other.execute(f"DECLARE c CURSOR FOR {JOIN}")
        other.execute("FETCH 3 FROM c")
        assert files.added > 0
    deadline = time.monotonic() + PATIENCE_S
    while files.added:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(session.execute(JOIN).fetchall()) == 4000


def test_inserts_leave_no_files(session: psycopg.Connection, files: Files) -> None:
    """What is inserted into a tiered table, in few rows, is in its tail."""
    query = "INSERT INTO t SELECT -id, 0 FROM t JOIN many USING (id) WHERE id {}"
    assert session.execute(query.format("< 4")).statusmessage == "INSERT 0 3"
    assert files.added == 0
    with pytest.raises(errors.UniqueViolation):
        session.execute(query.format("= 3"))
    assert files.added == 0
    filled = "INSERT INTO many SELECT id, v FROM t JOIN many USING (id)"
    assert session.execute(filled).statusmessage == "INSERT 0 4000"
    assert files.added == 0


def test_a_journal_is_read_beside_them(session: psycopg.Connection) -> None:
    session.execute("UPDATE t SET v = v + 1 WHERE id < 3")
    query = "SELECT count(*), max(x) FROM t_journal JOIN many USING (id) WHERE id < 4"
    assert session.execute(query).fetchone() == (5, 3)
