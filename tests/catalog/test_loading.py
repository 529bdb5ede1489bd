"""New tables that become tiered for a load, and what keeps them from it."""

import pytest

from catalog import residency
from catalog.residency import Loading

pytestmark = [pytest.mark.catalog, pytest.mark.usefixtures("inspector")]


@pytest.fixture
def loaded(client):
    """The OID of a table that an open transaction has made."""
    client.session.begin()
    client.run("CREATE TABLE t (id int PRIMARY KEY)")
    return client.relid("t")


def test_an_empty_table_becomes_tiered(client, loaded):
    assert residency.begin_load(client.session, loaded) is Loading.BEGUN
    assert residency.begin_load(client.session, loaded) is Loading.RESIDENT


def test_a_table_with_rows_stays_resident(client, loaded):
    client.run("INSERT INTO t VALUES (1)")
    assert residency.begin_load(client.session, loaded) is Loading.RESIDENT


def test_code_of_others_that_may_come_to_the_table_is_told_apart(client, other, loaded):
    with residency.kept(other.session):
        assert residency.begin_load(client.session, loaded) is Loading.BUSY
    assert residency.begin_load(client.session, loaded) is Loading.BEGUN
