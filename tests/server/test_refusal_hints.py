"""What is refused on tiered tables names the table, and what the hint says helps."""

import re
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import errors

from tests.support.fix_server import Pair
from tests.support.tiers import PATIENCE_S, make_tiered, schema_sessions

pytestmark = pytest.mark.server

SCHEMA = "refusal_hints"

SETUP = (
    "CREATE TABLE small (id integer PRIMARY KEY)",
    "INSERT INTO small VALUES (1)",
    "CREATE FUNCTION hinted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'",
    "CREATE FUNCTION volatile_one(integer) RETURNS integer LANGUAGE sql AS 'SELECT $1'",
)

DEFINITIONS = {
    "a trigger": "CREATE TRIGGER own BEFORE UPDATE ON {} FOR EACH ROW EXECUTE FUNCTION hinted()",
    "a rule": "CREATE RULE own AS ON DELETE TO {} DO ALSO NOTHING",
    "row security": "ALTER TABLE {} ENABLE ROW LEVEL SECURITY",
    "NOT NULL": "ALTER TABLE {} ADD CONSTRAINT present NOT NULL n NOT VALID",
    "CHECK": "ALTER TABLE {} ADD CHECK (n > 0) NOT VALID",
    "another key": "ALTER TABLE {0} DROP CONSTRAINT {0}_pkey",
}
"""Statements that resident tables know."""

STATEMENTS = {
    "UPDATE": "UPDATE {} SET n = 1 WHERE volatile_one(n) = 3",
    "DELETE": "DELETE FROM {} WHERE volatile_one(n) = 3",
    "SKIP LOCKED": "SELECT * FROM {} WHERE volatile_one(n) = 3 FOR UPDATE SKIP LOCKED",
    "NOWAIT": "SELECT * FROM {} WHERE volatile_one(n) = 3 FOR UPDATE NOWAIT",
}
"""Statements on rows, which may be named by their keys or be of a resident table."""


@pytest.fixture
def sessions(two_tiers_pair: Pair) -> Iterator[Callable[[], psycopg.Connection]]:
    """Yield what opens sessions."""
    conninfo = two_tiers_pair.gateway.conninfo(two_tiers_pair.database)
    with schema_sessions(conninfo, SCHEMA) as opened:
        first = opened()
        for statement in SETUP:
            first.execute(statement)  # type: ignore[call-overload]
        yield opened


def create(session: psycopg.Connection, *tables: str) -> None:
    """Create tiered tables of which nothing is hot."""
    for table in tables:
        session.execute(f"CREATE TABLE {table} (id integer PRIMARY KEY, n integer)")  # type: ignore[call-overload]
        session.execute(f"INSERT INTO {table} SELECT g, g FROM generate_series(1, 9) g")  # type: ignore[call-overload]
    make_tiered(session, *tables)


def refused(session: psycopg.Connection, statement: str) -> errors.Error:
    """Run a statement that is refused; return the error."""
    with pytest.raises(errors.FeatureNotSupported) as caught:
        session.execute(statement)  # type: ignore[call-overload]
    return caught.value


def await_resident(session: psycopg.Connection, table: str) -> None:
    """Wait until upkeep has made a table resident."""
    query = (
        "SELECT residency FROM gateway.tables"
        " WHERE schema_name = current_schema() AND table_name = %s"
    )
    deadline = time.monotonic() + PATIENCE_S
    while session.execute(query, [table]).fetchall() != [("resident",)]:
        assert time.monotonic() < deadline, "the table did not become resident"
        time.sleep(0.1)


def test_definitions_are_taken_once_the_hint_is_followed(
    sessions: Callable[[], psycopg.Connection],
) -> None:
    session = sessions()
    tables = {construct: f"defined_{n}" for n, construct in enumerate(DEFINITIONS)}
    create(session, *tables.values())
    for construct, table in tables.items():
        error = refused(session, DEFINITIONS[construct].format(table))
        hint = re.fullmatch(r"(ALTER TABLE .*) first\.", error.diag.message_hint or "")
        assert hint, (construct, error.diag.message_hint)
        assert f"{SCHEMA}.{table} " in hint[1]
        session.execute(hint[1])  # type: ignore[call-overload]
    for construct, table in tables.items():
        await_resident(session, table)
        session.execute(DEFINITIONS[construct].format(table))  # type: ignore[call-overload]


def test_statements_are_run_once_the_hint_is_followed(
    sessions: Callable[[], psycopg.Connection],
) -> None:
    session = sessions()
    create(session, "written")
    for construct, text in STATEMENTS.items():
        error = refused(session, text.format("written"))
        told = f"{error.diag.message_primary} {error.diag.message_detail}"
        assert '"written"' in told, (construct, told)
        assert "volatile_one(integer)" in told, (construct, told)
        assert "gateway.residency = always" in (error.diag.message_hint or ""), construct
    session.execute("ALTER TABLE written SET (gateway.residency = always)")
    await_resident(session, "written")
    for text in STATEMENTS.values():
        session.execute(text.format("written"))  # type: ignore[call-overload]


def test_queries_are_answered_once_the_hint_is_followed(
    sessions: Callable[[], psycopg.Connection],
) -> None:
    session = sessions()
    create(session, "queried", "joined")
    query = "SELECT count(q.ctid) FROM queried q JOIN joined USING (id) LEFT JOIN small USING (id)"
    error = refused(session, query)
    assert "system column" in (error.diag.message_primary or "")
    commands = (error.diag.message_hint or "").rstrip(".").partition(": ")[2].split("; ")
    assert commands == [
        f'ALTER TABLE "{SCHEMA}"."{table}" SET (gateway.residency = always)'
        for table in ("queried", "joined")
    ]
    for command in commands:
        session.execute(command)  # type: ignore[call-overload]
    for table in ("queried", "joined"):
        await_resident(session, table)
    assert session.execute(query).fetchall() == [(9,)]  # type: ignore[call-overload]
    session.execute("SET gateway.executor = spark")
    error = refused(session, query)
    assert error.diag.message_hint == "RESET gateway.executor first."


@pytest.mark.parametrize("referenced", ["small", "other"])
def test_a_foreign_key_is_added_without_not_valid(
    sessions: Callable[[], psycopg.Connection], referenced: str
) -> None:
    session = sessions()
    create(session, "referencing", "other")
    session.execute("INSERT INTO small SELECT g FROM generate_series(2, 9) g")
    added = f"ALTER TABLE referencing ADD FOREIGN KEY (n) REFERENCES {referenced}"
    error = refused(session, f"{added} NOT VALID")
    assert "not validated" in (error.diag.message_primary or "")
    assert "Leave" in (error.diag.message_hint or "")
    session.execute(added)  # type: ignore[call-overload]
