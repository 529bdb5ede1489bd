"""Small writes that are committed in the trip that runs them, and what keeps others from that."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from pgwire_gateway.messages import Close, Execute, FrontendMessage, ObjectKind, Parse, Query, Sync
from tests.support.dialogues import bind, play, wire
from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

SCHEMA = "committed_at_once"

SETUP = (
    f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
    f"CREATE SCHEMA {SCHEMA}",
    f"SET search_path = {SCHEMA}",
    "CREATE TABLE t (id integer PRIMARY KEY, v integer, w text, at timestamptz)",
    (
        "INSERT INTO t SELECT g, g, 'w' || g, '2024-01-01 12:00:00+00'::timestamptz"
        " + g * interval '30 days' FROM generate_series(1, 20) g"
    ),
    "CREATE TABLE parent (id integer PRIMARY KEY)",
    "INSERT INTO parent SELECT generate_series(1, 20)",
    (
        "CREATE TABLE child (id serial PRIMARY KEY,"
        " above integer REFERENCES parent DEFERRABLE INITIALLY DEFERRED)"
    ),
)

FUNCTION = (
    "CREATE FUNCTION put(n integer) RETURNS integer LANGUAGE sql AS"
    " 'INSERT INTO child (above) VALUES (n) RETURNING above'"
)

TEXT, BINARY = 0, 1

PATIENCE_S = 30.0


@pytest.fixture
def pair(two_tiers_pair: Pair) -> Iterator[Pair]:
    """Two servers with the same tables, of which two of the gateway's are tiered."""
    for server in (two_tiers_pair.gateway, two_tiers_pair.plain):
        server.execute(*SETUP, database=two_tiers_pair.database)
    with connected(two_tiers_pair) as client:
        make_tiered(client, "t")
        make_tiered(client, "parent")
        client.execute(FUNCTION)
        client.execute("UPDATE t SET v = v WHERE id = 1")
    yield two_tiers_pair
    for server in (two_tiers_pair.gateway, two_tiers_pair.plain):
        server.execute(f"DROP SCHEMA {SCHEMA} CASCADE", database=two_tiers_pair.database)


def connected(pair: Pair) -> psycopg.Connection:
    options = f"-c search_path={SCHEMA}"
    return psycopg.connect(pair.gateway.conninfo(pair.database), autocommit=True, options=options)


def said(pair: Pair, *messages: FrontendMessage) -> list[str]:
    """Return what each server answers."""
    traces = []
    for server in (pair.plain, pair.gateway):
        with wire(server, pair.database) as connection:
            traces.append(play(connection, [Query(f"SET search_path = {SCHEMA}"), *messages]))
    return traces


@pytest.mark.parametrize("key", ["1", "7"], ids=["hot", "cold"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns"])
def test_columns_of_several_formats(pair: Pair, zone: str, key: str) -> None:
    change = "UPDATE t SET v = v + 1 WHERE id = $1 RETURNING id, w, at, v"
    run = [bind(key, statement="s", results=(BINARY, TEXT, BINARY, BINARY)), Execute("", 0), Sync()]
    plain, gateway = said(
        pair, Query(f"SET timezone = '{zone}'"), Parse("s", change, (23,)), Sync(), *run, *run
    )
    assert gateway == plain


@pytest.mark.parametrize("key", ["1", "7"], ids=["hot", "cold"])
def test_what_cannot_be_encoded_is_not_committed(pair: Pair, key: str) -> None:
    change = f"UPDATE t SET v = v + 1 WHERE id = {key} RETURNING id, point(1, 2)"
    with wire(pair.gateway, pair.database) as connection:
        trace = play(
            connection,
            [
                Query(f"SET search_path = {SCHEMA}"),
                Parse("", change, ()),
                bind(results=(TEXT, BINARY)),
                Execute("", 0),
                Sync(),
                Close(ObjectKind.STATEMENT, ""),
                Sync(),
            ],
        )
    assert "ErrorResponse" in trace
    assert "0A000" in trace
    with connected(pair) as client:
        assert client.execute("SELECT v FROM t WHERE id = %s", [key]).fetchone() == (int(key),)


def test_what_is_deferred_is_looked_at_before(pair: Pair) -> None:
    with connected(pair) as client:
        for key in (1, 7, 1):
            client.execute("UPDATE t SET v = put(%s) WHERE id = %s", [3, key])
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            client.execute("UPDATE t SET v = put(99) WHERE id = 1")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            client.execute("UPDATE t SET v = put(99) WHERE id = 8")
        rows = client.execute("SELECT id, v FROM t WHERE id IN (1, 7, 8) ORDER BY id").fetchall()
        assert rows == [(1, 3), (7, 3), (8, 8)]
        assert client.execute("SELECT count(*) FROM child").fetchone() == (3,)


@pytest.mark.parametrize("key", [1, 7], ids=["hot", "cold"])
def test_who_is_terminated_while_waiting_has_committed_nothing(pair: Pair, key: int) -> None:
    change = f"UPDATE t SET v = v + 1 WHERE id = {key}"
    with connected(pair) as writer, connected(pair) as waiting, connected(pair) as other:
        waiting.execute("UPDATE t SET v = v WHERE id = 1")
        with writer.transaction():
            writer.execute(change)
            with ThreadPoolExecutor(1) as pool:
                waits = pool.submit(waiting.execute, change)
                await_waiting(other, waiting.info.backend_pid)
                other.execute("SELECT pg_terminate_backend(%s)", [waiting.info.backend_pid])
                with pytest.raises(psycopg.errors.AdminShutdown):
                    waits.result(PATIENCE_S)
        assert other.execute(f"SELECT v FROM t WHERE id = {key}").fetchone() == (key + 1,)


def await_waiting(client: psycopg.Connection, pid: int) -> None:
    """Wait until a session waits for a lock."""
    query = "SELECT FROM pg_locks WHERE pid = %s AND NOT granted"
    deadline = time.monotonic() + PATIENCE_S
    while not client.execute(query, [pid]).fetchall():
        assert time.monotonic() < deadline, "the session does not wait"
        time.sleep(0.01)
