"""What proves the gateway's calls in a client's session: no role gets hold of it.

Calls of the bookkeeping carry a code, which stands for the gateway's own rights. What a role could
do with one is tried in ``tests/catalog/test_call_codes.py``.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import psycopg
import pytest
from psycopg import errors
from psycopg.pq import ExecStatus

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.call_codes import CallCodes
from catalog.bookkeeping.calls import Function
from tests.support.fix_server import Pair
from tests.support.tiers import make_tiered

pytestmark = pytest.mark.server

ROLE = "secrets_mallory"

SCHEMA = "secrets"

SETUP = (
    f"CREATE ROLE {ROLE} LOGIN",
    f"CREATE SCHEMA {SCHEMA}",
    f"GRANT ALL ON SCHEMA {SCHEMA} TO {ROLE}",
)

OWN = (
    f"CREATE TABLE {SCHEMA}.t (id integer PRIMARY KEY, v integer)",
    f"INSERT INTO {SCHEMA}.t SELECT g, g FROM generate_series(1, 100) g",
)

# Each makes calls that carry a code.
STATEMENTS = (
    "SELECT count(*) FROM t",
    "UPDATE t SET v = v + 1 WHERE id = 1",
    "INSERT INTO t VALUES (1000, 1)",
    "DELETE FROM t WHERE id = 1000",
    "UPDATE t SET v = v + 1 WHERE v > 0",
)

FUNCTIONS = [value for value in vars(bookkeeping).values() if isinstance(value, Function)]

SHOW_ALL = ("debug_print_parse", "debug_print_rewritten", "debug_print_plan")

TELL = "client_min_messages"
"""The setting that has the server's own log sent to the client."""


@pytest.fixture(scope="module")
def place(shared_pair: Pair) -> Iterator[str]:
    """A role without rights that owns a tiered table; how it connects."""
    gateway = shared_pair.gateway
    with psycopg.connect(gateway.conninfo(shared_pair.database), autocommit=True) as admin:
        for statement in SETUP:
            admin.execute(statement)  # type: ignore[call-overload]
        conninfo = psycopg.conninfo.make_conninfo(
            gateway.conninfo(shared_pair.database), user=ROLE, options=f"-c search_path={SCHEMA}"
        )
        with psycopg.connect(conninfo, autocommit=True) as owner:
            for statement in OWN:
                owner.execute(statement)  # type: ignore[call-overload]
            make_tiered(owner, "t")
        yield conninfo
        with psycopg.connect(conninfo, autocommit=True) as owner:
            owner.execute("DROP TABLE t")
        admin.execute(f"DROP SCHEMA {SCHEMA}")
        admin.execute(f"DROP ROLE {ROLE}")


@pytest.fixture
def mallory(place: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(place, autocommit=True) as connection:
        yield connection


def told(connection: psycopg.Connection) -> list[psycopg.errors.Diagnostic]:
    """Run all statements; return what the server says to that."""
    notices: list[psycopg.errors.Diagnostic] = []
    connection.add_notice_handler(notices.append)
    for _ in range(3):  # what has been run before takes a shorter way
        for statement in STATEMENTS:
            connection.execute(statement, prepare=True)  # type: ignore[call-overload]
    return notices


def test_no_statement_that_is_given_it_has_a_name(mallory: psycopg.Connection) -> None:
    told(mallory)
    found = mallory.execute("SELECT statement FROM pg_catalog.pg_prepared_statement()").fetchall()
    calls = [f"pg_journal.{function.name}(" for function in FUNCTIONS]
    assert not [text for (text,) in found if any(call in text for call in calls)]


def test_statements_of_its_names_are_not_run_instead(mallory: psycopg.Connection) -> None:
    for name in {function.name for function in FUNCTIONS} | {"basis", "expect"}:
        stealing = "SELECT set_config('my.stolen', $1, false)"
        with pytest.raises(errors.ReservedName):
            mallory.execute(f"PREPARE pgwire_{name}(text) AS {stealing}")  # type: ignore[arg-type]
        prepared = mallory.pgconn.prepare(f"pgwire_{name}".encode(), stealing.encode())
        assert prepared.status == ExecStatus.COMMAND_OK
    told(mallory)
    assert mallory.execute("SELECT current_setting('my.stolen', true)").fetchone() == (None,)


@pytest.mark.parametrize(
    "door",
    [
        *(f"SELECT set_config('{name}', 'on', false)" for name in SHOW_ALL),
        "UPDATE pg_settings SET setting = 'on' WHERE name LIKE 'debug_print_p%'",
        *(f"options {name}" for name in SHOW_ALL),
    ],
)
@pytest.mark.parametrize("level", ["log", "debug5"])
def test_parse_trees_and_plans_do_not_reach_clients(place: str, door: str, level: str) -> None:
    options = f"-c search_path={SCHEMA}"
    if door.startswith("options "):
        options += f" -c {door.removeprefix('options ')}=on"
    with psycopg.connect(place, autocommit=True, options=options) as connection:
        if not door.startswith("options "):
            connection.execute(door)  # type: ignore[call-overload]
        connection.execute(f"SELECT set_config('{TELL}', '{level}', false)")
        assert told(connection) == []


@pytest.mark.parametrize("name", SHOW_ALL)
@pytest.mark.parametrize(
    "door",
    [
        "SET",
        f"ALTER ROLE {ROLE} SET",
        f"ALTER ROLE {ROLE} IN DATABASE postgres SET",
        "ALTER ROLE ALL SET",
        "ALTER DATABASE postgres SET",
    ],
)
def test_settings_that_print_them_are_refused(
    mallory: psycopg.Connection, door: str, name: str
) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        mallory.execute(f"{door} {name} = on")  # type: ignore[call-overload]


def test_functions_that_set_them_tell_nothing(resident_pair: Pair) -> None:
    notices: list[psycopg.errors.Diagnostic] = []
    conninfo = resident_pair.gateway.conninfo(resident_pair.database)
    options = f"-c search_path={SCHEMA}"
    with psycopg.connect(conninfo, autocommit=True, options=options) as connection:
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
        for statement in OWN:
            connection.execute(statement)  # type: ignore[call-overload]
        connection.add_notice_handler(notices.append)
        try:
            for name in SHOW_ALL:
                connection.execute(
                    f"CREATE FUNCTION {name}(integer) RETURNS void LANGUAGE plpgsql AS"  # type: ignore[arg-type]
                    " 'BEGIN UPDATE t SET v = v + 1 WHERE id = $1; END'"
                    f" SET {name} = on SET {TELL} = debug5"
                )
                for level in ("notice", "log", "debug5"):
                    connection.execute(f"SET {TELL} = {level}")  # type: ignore[arg-type]
                    connection.execute(f"SELECT {name}(1)")  # type: ignore[arg-type]
                    told(connection)
            assert connection.execute("SELECT v FROM t WHERE id = 1").fetchone() == (1 + 9 * 7,)
        finally:
            connection.remove_notice_handler(notices.append)
            connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    assert notices == []


def test_clients_hear_what_their_own_code_says(resident_pair: Pair) -> None:
    notices: list[str | None] = []
    conninfo = resident_pair.gateway.conninfo(resident_pair.database)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        connection.execute(f"SET {TELL} = debug1")
        connection.execute("DO $$ BEGIN RAISE LOG 'logged'; RAISE DEBUG 'debugged'; END $$")
    assert notices == ["logged", "debugged"]


def test_contexts_of_errors_do_not_tell_parameters(mallory: psycopg.Connection) -> None:
    mallory.execute("SELECT set_config('log_parameter_max_length_on_error', '-1', false)")
    for statement in STATEMENTS:
        with pytest.raises(errors.FeatureNotSupported) as caught:
            mallory.execute(statement)  # type: ignore[call-overload]
        assert caught.value.diag.context is None
        assert caught.value.diag.message_hint == "RESET log_parameter_max_length_on_error first."
    mallory.execute("RESET log_parameter_max_length_on_error")
    told(mallory)


CODE = re.compile(r"\d+ \d+ [0-9a-f]{64}")

WRITTEN = (
    *STATEMENTS,
    "INSERT INTO t SELECT g, g FROM generate_series(2000, 5999) g",
    "UPDATE t SET v = v + 1",
    "DELETE FROM t WHERE id >= 2000",
    "VACUUM t",
    "UPDATE t SET v = v + 1 WHERE id IN (2, 3, 4)",
    "BEGIN",
    "UPDATE t SET v = v + 1 WHERE id = 2",
    "SAVEPOINT s",
    "DELETE FROM t WHERE v = 77777",
    "MERGE INTO t USING (VALUES (5)) x (i) ON id = i WHEN MATCHED THEN UPDATE SET v = 0",
    "COMMIT",
    "VACUUM t",
    "SELECT v FROM t WHERE id = 6 FOR UPDATE SKIP LOCKED",
    "SELECT jsonb_agg(t) FROM t",
)
"""Rows that are hot, become hot, are many, are locked, and are read for PostgreSQL."""


def test_a_code_is_known_when_it_is_seen() -> None:
    codes = CallCodes(b"key", 1, 16384, count(1_700_000_000_000_000))
    assert CODE.fullmatch(codes.code("announce", [b"1", None]).decode())


def test_statements_that_run_do_not_show_it(place: str) -> None:
    def work() -> None:
        with psycopg.connect(place, autocommit=True) as connection:
            for prepare in (True, False):
                for statement in WRITTEN:
                    connection.execute(statement, prepare=prepare)  # type: ignore[call-overload]

    seen: set[str] = set()
    with (
        psycopg.connect(place, autocommit=True) as watcher,
        ThreadPoolExecutor(1) as pool,
    ):
        worked = pool.submit(work)
        while not worked.done():
            rows = watcher.execute("SELECT query FROM pg_catalog.pg_stat_get_activity(NULL)")
            seen.update(query or "" for (query,) in rows.fetchall())
        worked.result()
    calls = {
        function.name for function in FUNCTIONS if any(f".{function.name}(" in q for q in seen)
    }
    assert len(calls) > 3, seen
    assert [query for query in seen if CODE.search(query)] == []
