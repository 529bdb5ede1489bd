"""Commands that wait for no writer in PostgreSQL, beside who writes a tiered table as a whole."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import Pair

pytestmark = pytest.mark.server

SCHEMA = "beside"

SETUP = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
    f"CREATE SCHEMA {SCHEMA}",
    f"CREATE TABLE {SCHEMA}.s (id integer PRIMARY KEY, v integer)",
    f"INSERT INTO {SCHEMA}.s SELECT g, 0 FROM generate_series(1, 60) g",
    f"CREATE TABLE {SCHEMA}.other (id integer PRIMARY KEY)",
    # Who defines a table lets its rows go cold.
    f"ALTER TABLE {SCHEMA}.s ALTER v DROP DEFAULT",
    f"VACUUM {SCHEMA}.s",
)

WHOLE = "UPDATE s SET v = v + 1"

ONE = "UPDATE s SET v = v + 1 WHERE id = 7"

SKIPPED = ("WARNING", "55P03", 'skipping vacuum of "s" --- lock not available')


def connected(pair: Pair) -> psycopg.Connection:
    options = f"-c search_path={SCHEMA}"
    return psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True, options=options)


@pytest.fixture
def beside(request: pytest.FixtureRequest) -> Pair:
    """The database: one of many tables, unless a test asks for an empty one."""
    pair: Pair = request.getfixturevalue(getattr(request, "param", "shared_pair"))
    return pair


@pytest.fixture
def writer(beside: Pair) -> Iterator[psycopg.Connection]:
    """A client in a transaction; tables are ``s``, which is tiered, and ``other``."""
    with connected(beside) as connection:
        for statement in SETUP:
            connection.execute(statement)
        connection.execute("BEGIN")
        yield connection


@pytest.fixture
def client(beside: Pair, writer: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """Another client."""
    with connected(beside) as connection:
        yield connection


def told(client: psycopg.Connection, statement: str) -> list[tuple[str | None, ...]]:
    """Return what a client is warned of while it executes a statement."""
    notices: list[tuple[str | None, ...]] = []

    def note(notice: errors.Diagnostic) -> None:
        notices.append((notice.severity, notice.sqlstate, notice.message_primary))

    client.add_notice_handler(note)
    try:
        client.execute(statement)
    finally:
        client.remove_notice_handler(note)
    return notices


@pytest.mark.parametrize("write", [WHOLE, ONE])
@pytest.mark.parametrize(
    "command",
    [
        "ALTER TABLE s SET (fillfactor = 90)",
        "ALTER TABLE s ALTER v SET STATISTICS 10",
        "GRANT SELECT ON s TO PUBLIC",
        "REVOKE SELECT ON s FROM PUBLIC",
    ],
)
def test_rights_statistics_and_parameters_wait_for_nobody(
    write: str, command: str, writer: psycopg.Connection, client: psycopg.Connection
) -> None:
    writer.execute(write)
    client.execute("SET lock_timeout = '2s'")
    client.execute(command)
    writer.execute("COMMIT")
    assert client.execute("SELECT sum(v) > 0 FROM s").fetchone() == (True,)


def test_what_waits_does_not_say_for_which_row_of_the_bookkeeping(
    writer: psycopg.Connection, client: psycopg.Connection
) -> None:
    writer.execute(WHOLE)
    client.execute("SET lock_timeout = '100ms'")
    with pytest.raises(errors.LockNotAvailable) as caught:
        client.execute("ALTER TABLE s ADD c integer")
    assert caught.value.diag.context is None


@pytest.mark.parametrize(
    ("command", "beside"),
    [
        ("VACUUM s", "shared_pair"),
        ("VACUUM (SKIP_LOCKED) s", "shared_pair"),
        # What others left in a shared database would be compacted too.
        ("VACUUM", "pair"),
    ],
    indirect=["beside"],
)
def test_vacuum_skips_a_table_that_is_being_written_as_a_whole(
    command: str, writer: psycopg.Connection, client: psycopg.Connection
) -> None:
    writer.execute(WHOLE)
    client.execute("SET lock_timeout = '500ms'")
    assert SKIPPED in told(client, command)
    writer.execute("COMMIT")
    assert told(client, "VACUUM s") == []
    assert client.execute("SELECT count(*), sum(v) FROM s").fetchone() == (60, 60)


def test_skip_locked_waits_for_nobody(
    writer: psycopg.Connection, client: psycopg.Connection
) -> None:
    writer.execute(WHOLE)
    began = time.monotonic()
    assert told(client, "VACUUM (SKIP_LOCKED) s, other") == [SKIPPED]
    skipping_s = time.monotonic() - began
    assert told(client, "VACUUM s") == [SKIPPED]
    waiting_s = time.monotonic() - began - skipping_s
    assert waiting_s > 5 > skipping_s


def test_vacuum_waits_a_moment(writer: psycopg.Connection, client: psycopg.Connection) -> None:
    writer.execute(WHOLE)
    with ThreadPoolExecutor(1) as thread:
        vacuum = thread.submit(told, client, "VACUUM s")
        time.sleep(1)
        assert not vacuum.done()
        writer.execute("COMMIT")
        assert vacuum.result() == []


def test_who_lets_hot_rows_go_cold_has_locked_the_table(
    writer: psycopg.Connection, client: psycopg.Connection
) -> None:
    client.execute(ONE)
    writer.execute(WHOLE)
    client.execute("SET lock_timeout = '2s'")
    client.execute("GRANT SELECT ON s TO PUBLIC")
    assert told(client, "VACUUM (SKIP_LOCKED) s") == [SKIPPED]
    client.execute("SET lock_timeout = '100ms'")
    for command in ("VACUUM s", "ANALYZE s", "ALTER TABLE s SET (fillfactor = 90)"):
        with pytest.raises(errors.LockNotAvailable) as caught:
            client.execute(command)
        assert caught.value.diag.context is None
    writer.execute("COMMIT")
    assert told(client, "VACUUM s") == []
    assert client.execute("SELECT count(*), sum(v) FROM s").fetchone() == (60, 61)


def test_vacuum_does_not_wait_for_writers_of_single_rows(
    writer: psycopg.Connection, client: psycopg.Connection
) -> None:
    writer.execute(ONE)
    assert told(client, "VACUUM s") == []
    assert told(client, "VACUUM (SKIP_LOCKED) s") == []
