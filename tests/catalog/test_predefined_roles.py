"""What PostgreSQL's predefined roles open of the bookkeeping, although it is relations, too."""

from collections.abc import Callable

import pytest

from catalog.errors import GatewayError
from tests.support.fix_catalog import Client, Inspector

pytestmark = pytest.mark.catalog

DENIED = "42501"

MARKS = "definition_marks"
"""Random numbers, which every role reads."""

SETUP = (
    "CREATE TABLE parent (id int PRIMARY KEY, v int)",
    "CREATE TABLE child (id int PRIMARY KEY REFERENCES parent DEFERRABLE, v int)",
    "INSERT INTO parent VALUES (1, 1)",
    "INSERT INTO child VALUES (1, 1)",
)

OWN = (
    "SELECT c.relname, a.attname FROM pg_class c"
    " LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = 1"
    " WHERE c.relnamespace = 'pg_journal'::regnamespace AND c.relkind = 'r'"
    " AND NOT c.relname ~ '^journal_\\d+$' ORDER BY 1"
)
"""Tables, and a column of each. Those that stand for journals have no rows that anybody reads."""

WRITES = {
    "INSERT INTO pg_journal.{} DEFAULT VALUES": DENIED,
    "DELETE FROM pg_journal.{}": "DELETE 0",
    "UPDATE pg_journal.{} SET {} = {}": "UPDATE 0",
}


@pytest.fixture
def member(client: Client, inspector: Inspector, reader: Client) -> Callable[..., Client]:
    """Makes a role that owns nothing a member of predefined ones, beside tables of others."""
    for statement in SETUP:
        client.run(statement)

    def join(*roles: str) -> Client:
        inspector.run(f"GRANT {', '.join(roles)} TO {reader.value('SELECT CURRENT_USER')}")
        return reader

    return join


def answer(client: Client, statement: str) -> str:
    """Return the SQLSTATE a statement fails with, or its tag; its effects are undone."""
    client.run("BEGIN")
    try:
        result = client.session.execute(statement)
        for _ in result.rows:
            pass
    except GatewayError as error:
        return error.sqlstate
    finally:
        client.session.transaction.rollback()
    return result.command_tag or ""


def test_who_reads_all_data_reads_no_bookkeeping(
    member: Callable[..., Client], inspector: Inspector
) -> None:
    client = member("pg_read_all_data")
    own = [str(name) for name, _ in inspector.run(OWN) if name != MARKS]
    found = {name: answer(client, f"SELECT FROM pg_journal.{name}") for name in own}
    assert found == dict.fromkeys(own, "SELECT 0")
    client.run("SET row_security = off")
    assert answer(client, "SELECT FROM pg_journal.instance") == DENIED
    assert answer(client, "SELECT FROM parent") == "SELECT 1"


def test_who_reads_all_data_reads_no_statistics_of_tails(
    member: Callable[..., Client], client: Client, inspector: Inspector
) -> None:
    client.run("INSERT INTO parent SELECT g, 1 FROM generate_series(2, 9) g")
    inspector.run(f"ANALYZE parent, pg_journal.tail_{client.relid('parent')}")
    tables = "SELECT count(DISTINCT tablename) FROM pg_stats WHERE tablename ~ '^(parent$|tail_)'"
    assert inspector.run(tables) == [("2",)]
    assert member("pg_read_all_data").run(tables) == [("1",)]
    assert client.run(tables) == [("1",)]


@pytest.mark.parametrize("statement", WRITES)
def test_who_writes_all_data_writes_no_bookkeeping(
    member: Callable[..., Client], inspector: Inspector, statement: str
) -> None:
    client = member("pg_read_all_data", "pg_write_all_data")
    found = {}
    for name, column in inspector.run(OWN):
        if column is not None or "=" not in statement:
            found[str(name)] = answer(client, statement.format(name, column, column))
    expected = dict.fromkeys(found, WRITES[statement]) | {MARKS: DENIED}
    # Their own defaults fail first.
    assert {
        name: a for name, a in found.items() if a not in (expected[name], "23502", "428C9")
    } == {}
    assert answer(client, "UPDATE parent SET v = v + 1") == "UPDATE 1"
    assert answer(client, "INSERT INTO parent VALUES (2)") == "INSERT 0 1"


@pytest.mark.parametrize(
    "role",
    ["pg_maintain", "pg_monitor", "pg_signal_backend", "pg_read_all_settings", "pg_read_all_stats"],
)
def test_who_maintains_or_watches_calls_and_reads_no_bookkeeping(
    member: Callable[..., Client], inspector: Inspector, role: str
) -> None:
    client = member(role)
    for statement in (
        "SELECT FROM pg_journal.instance",
        "SELECT pg_journal.make_resident(1)",
        "DELETE FROM pg_journal.journals",
        "SELECT setval('pg_journal.calls_1', 1)",
    ):
        assert answer(client, statement) == DENIED, statement
    (pid,) = inspector.run("SELECT pg_backend_pid()")[0]
    assert answer(client, f"SELECT pg_terminate_backend({pid})") == DENIED
