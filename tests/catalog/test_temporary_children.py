"""Temporary tables that inherit from lasting ones: their rows are in no journal."""

import time
from collections.abc import Callable

import pytest

from catalog.errors import GatewayError
from catalog.hot import resident_upkeep
from tests.support.fix_catalog import PATIENCE_S, Client, Inspector

pytestmark = pytest.mark.catalog

MAKING = {
    "CREATE": ["CREATE TEMP TABLE child () INHERITS (t)"],
    "CREATE AS": ["CREATE TABLE pg_temp.child (w int) INHERITS (t)"],
    "ALTER": ["CREATE TEMP TABLE child (LIKE t INCLUDING ALL)", "ALTER TABLE child INHERIT t"],
    "grandchild": [
        "CREATE TEMP TABLE parent () INHERITS (t)",
        "CREATE TEMP TABLE child () INHERITS (parent)",
    ],
}

CHANGES = (
    "UPDATE t SET v = v + 1",
    "UPDATE t SET id = id + 100 WHERE id = 2",
    "DELETE FROM t WHERE v > 2",
    "DELETE FROM t",
)


def await_gone(client: Client, table: str) -> None:
    """Wait until a session that has ended has taken its temporary table with it."""
    deadline = time.monotonic() + PATIENCE_S
    while client.run(f"SELECT FROM pg_class WHERE relname = '{table}'"):
        assert time.monotonic() < deadline, "the temporary table is still there"
        time.sleep(0.05)


@pytest.mark.parametrize("key", ["PRIMARY KEY", "NOT NULL"])
@pytest.mark.parametrize("making", MAKING)
def test_rows_of_children_are_not_captured(
    client: Client, inspector: Inspector, making: str, key: str
) -> None:
    client.run(f"CREATE TABLE t (id int {key}, v int)")
    client.run("INSERT INTO t VALUES (1, 1)")
    for statement in MAKING[making]:
        client.run(statement)
    client.run("INSERT INTO child (id, v) VALUES (2, 2)")
    for number, statement in enumerate(CHANGES):
        client.run(statement)
        assert inspector.differences() == {}, statement
        client.run(f"INSERT INTO t VALUES ({number + 10}, 3)")


@pytest.mark.parametrize("making", MAKING)
def test_tiered_tables_have_none(client: Client, inspector: Inspector, making: str) -> None:
    inspector.run("SELECT pg_journal.configure(0, 0, 0)")
    client.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    *before, last = MAKING[making] if making != "grandchild" else MAKING[making][:1]
    for statement in before:
        client.run(statement)
    with pytest.raises(GatewayError, match="INHERITS") as caught:
        client.run(last)
    assert caught.value.sqlstate == "0A000"


def test_a_table_stays_resident_while_it_has_one(
    client: Client, inspector: Inspector, connect: Callable[..., Client]
) -> None:
    client.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    client.run("INSERT INTO t VALUES (1, 1)")
    owner = connect()
    for statement in MAKING["CREATE"]:
        owner.run(statement)
    with pytest.raises(GatewayError, match="INHERITS"):
        resident_upkeep.make_tiered(inspector.session, client.relid("t"))
    owner.session.close()
    await_gone(client, "child")
    client.run("UPDATE t SET v = v + 1")
    assert inspector.differences() == {}
    resident_upkeep.make_tiered(inspector.session, client.relid("t"))
