"""The lock by which those take turns who lock leaves of a table: no role stops others by it."""

import pytest

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.calls import array
from catalog.errors import GatewayError
from tests.support.fix_catalog import Client, Inspector

pytestmark = pytest.mark.catalog

GATE = "(x'70676a70'::bigint << 32) + {}"


@pytest.fixture
def tree(client: Client, inspector: Inspector) -> int:
    """A partitioned table with a tiered and a resident leaf."""
    client.run("CREATE TABLE p (k int, id int, PRIMARY KEY (k, id)) PARTITION BY LIST (k)")
    client.run("CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1)")
    inspector.run("SELECT pg_journal.configure(0, 0, 0)")
    client.run("CREATE TABLE p_0 PARTITION OF p FOR VALUES IN (0)")
    client.run("SET statement_timeout = '3s'")
    return client.relid("p")


def announce(client: Client, tree: int) -> None:
    resident = array([client.relid("p_1")])
    client.session.call(bookkeeping.ANNOUNCE_TREE, str(tree).encode(), resident, b"{}")


@pytest.mark.parametrize("lock", ["pg_advisory_lock", "pg_advisory_lock_shared"])
def test_who_may_not_write_the_table_stops_nobody(
    client: Client, reader: Client, tree: int, lock: str
) -> None:
    reader.run(f"SELECT {lock}({GATE.format(tree)})")
    client.session.transaction.begin()
    announce(client, tree)
    client.run("INSERT INTO p VALUES (1, 1)")
    client.session.transaction.commit()


def test_who_locks_leaves_is_waited_for(client: Client, inspector: Inspector, tree: int) -> None:
    inspector.session.transaction.begin()
    inspector.run("LOCK TABLE p IN ROW EXCLUSIVE MODE")
    inspector.run(f"SELECT pg_advisory_lock({GATE.format(tree)})")
    client.run("SET statement_timeout = '300ms'")
    client.session.transaction.begin()
    with pytest.raises(GatewayError) as caught:
        announce(client, tree)
    assert caught.value.sqlstate == "57014"
    client.session.transaction.rollback()
    inspector.run("SELECT pg_advisory_unlock_all()")
    client.session.transaction.begin()
    announce(client, tree)
    client.session.transaction.rollback()
    inspector.session.transaction.rollback()


def test_leaves_are_locked_all_the_same(client: Client, reader: Client, tree: int) -> None:
    reader.run(f"SELECT pg_advisory_lock({GATE.format(tree)})")
    arrays = (array([client.relid("p_1")]), b"{}")
    client.session.transaction.begin()
    answers = [
        client.session.call(bookkeeping.HOLD_LEAVES, str(tree).encode(), *arrays, waits)
        for waits in (b"f", b"t")
    ]
    client.session.transaction.rollback()
    assert answers == [b"false", b"true"]
