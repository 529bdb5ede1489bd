"""New tables that become tiered for a load, and what keeps them from it."""

import pytest

from catalog.session import residency
from catalog.session.residency import Loading

pytestmark = [pytest.mark.catalog, pytest.mark.usefixtures("inspector")]


@pytest.fixture
def loaded(client):
    """The OID of a table that an open transaction has made."""
    client.session.transaction.begin()
    client.run("CREATE TABLE t (id int PRIMARY KEY)")
    return client.relid("t")


def test_an_empty_table_becomes_tiered(client, loaded):
    assert residency.begin_load(client.session, loaded) is Loading.BEGUN
    assert residency.begin_load(client.session, loaded) is Loading.RESIDENT


def test_a_table_with_rows_stays_resident(client, loaded):
    client.run("INSERT INTO t VALUES (1)")
    assert residency.begin_load(client.session, loaded) is Loading.RESIDENT


def test_code_of_others_that_may_come_to_the_table_is_told_apart(
    catalog, database, client, other, loaded
):
    gate = catalog.code_gate(database)
    with gate.held(other.session, pytest.fail), gate.held(other.session, pytest.fail):
        assert residency.begin_load(client.session, loaded) is Loading.BUSY
    assert residency.begin_load(client.session, loaded) is Loading.BEGUN
    catalog.release()


def test_code_in_a_transaction_block_is_told_apart(catalog, database, client, other, loaded):
    other.session.transaction.begin()
    with catalog.code_gate(database).held(other.session, pytest.fail):
        pass
    assert residency.begin_load(client.session, loaded) is Loading.BUSY
    other.session.transaction.commit()
    assert residency.begin_load(client.session, loaded) is Loading.BEGUN


def test_who_waits_to_run_code_can_be_cancelled(catalog, database, client, other, loaded):
    assert residency.begin_load(client.session, loaded) is Loading.BEGUN
    with pytest.raises(InterruptedError), catalog.code_gate(database).held(other.session, _cancel):
        pytest.fail("a table is becoming tiered")
    client.session.transaction.rollback()
    with catalog.code_gate(database).held(other.session, pytest.fail):
        pass
    catalog.release()


def _cancel():
    raise InterruptedError
