"""Settings by which the bookkeeping tells itself something, as a role writes them: no row is lost.

SET refuses them; functions that are told a setting's name do not.
"""

import pytest

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.calls import array
from catalog.errors import GatewayError
from tests.support.fix_catalog import Client, Inspector

pytestmark = pytest.mark.catalog


@pytest.fixture
def cold(client: Client, inspector: Inspector) -> int:
    """A tiered table."""
    inspector.run("SELECT pg_journal.configure(0, 0, 0)")
    client.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    return client.relid("t")


@pytest.fixture
def leaves(client: Client, inspector: Inspector) -> tuple[int, int]:
    """A partitioned table's leaves, of which the first is tiered and the second is not."""
    client.run("CREATE TABLE p (k int, id int, PRIMARY KEY (k, id)) PARTITION BY LIST (k)")
    client.run("CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1)")
    inspector.run("SELECT pg_journal.configure(0, 0, 0)")
    client.run("CREATE TABLE p_0 PARTITION OF p FOR VALUES IN (0)")
    return client.relid("p_0"), client.relid("p_1")


def forge(client: Client, name: str, value: str = "'x'") -> None:
    client.run(f"SELECT set_config('pg_journal.{name}', {value}, true)")


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("said", [("awaited", ""), ("arrived", "1000,")])
def test_all_rows_that_have_arrived_are_captured(
    client: Client, cold: int, said: tuple[str, str], rows: int
) -> None:
    kind, place = said
    forged = f"concat('{rows},{place}', pg_relation_filenode({cold}))"
    _, receipt = client.insert(
        "t",
        f"INSERT INTO t SELECT g, set_config('pg_journal.{kind}_{cold}', {forged}, true)"
        f" FROM generate_series(1, {rows}) g",
    )
    assert (receipt.count, len(client.tail("t"))) == (rows, rows)


def test_what_was_noted_in_another_transaction_says_nothing(client: Client, cold: int) -> None:
    noted = f"SELECT current_setting('pg_journal.arrived_{cold}')"
    client.session.transaction.begin()
    client.insert("t", "INSERT INTO t VALUES (1, '')", commit=False)
    earlier = client.value(noted)
    client.session.transaction.commit()
    _, receipt = client.insert(
        "t",
        f"INSERT INTO t SELECT 2, set_config('pg_journal.arrived_{cold}', '{earlier}', true)",
    )
    assert (receipt.count, len(client.tail("t"))) == (1, 2)


@pytest.mark.parametrize("kind", ["writing", "hot"])
def test_no_row_is_routed_to_a_leaf_that_nobody_looks_at(
    client: Client, leaves: tuple[int, int], kind: str
) -> None:
    tiered, resident = leaves
    for forged in (False, True):
        client.session.transaction.begin()
        client.session.call(
            bookkeeping.ANNOUNCE_TREE, str(client.relid("p")).encode(), array([resident]), b"{}"
        )
        client.run("INSERT INTO p VALUES (1, 1)")
        if forged:
            forge(client, f"{kind}_{tiered}")
        with pytest.raises(GatewayError) as caught:
            client.run("INSERT INTO p VALUES (0, 1)")
        assert caught.value.sqlstate == "0A000"
        client.session.transaction.rollback()


def test_leaves_that_were_announced_before_take_no_rows(
    client: Client, leaves: tuple[int, int]
) -> None:
    tiered, resident = leaves
    tree = str(client.relid("p")).encode()
    client.session.transaction.begin()
    client.session.writes.begin_write([tiered], command="INSERT")
    client.session.call(bookkeeping.ANNOUNCE_TREE, tree, array([resident]), array([tiered]))
    forge(client, f"leaves_{client.relid('p')}", "''")
    client.session.call(bookkeeping.ANNOUNCE_TREE, tree, array([resident]), b"{}")
    with pytest.raises(GatewayError) as caught:
        client.run("INSERT INTO p VALUES (0, 1)")
    assert caught.value.sqlstate == "0A000"
    client.session.transaction.rollback()


def test_truncate_is_not_announced_by_a_write(client: Client, cold: int) -> None:
    client.session.transaction.begin()
    client.session.writes.begin_write([cold], command="INSERT")
    forge(client, f"emptying_{cold}", f"current_setting('pg_journal.writing_{cold}')")
    with pytest.raises(GatewayError) as caught:
        client.run("TRUNCATE t")
    assert caught.value.sqlstate == "0A000"
    client.session.transaction.rollback()
