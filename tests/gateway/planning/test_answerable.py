"""A table that becomes tiered between a plan and the snapshot it is run with is noticed."""

import pytest

from catalog.errors import GatewayError
from catalog.pg.sqlstate import SERIALIZATION_FAILURE
from pgwire_gateway.planning.answerable import Answerable, prove
from tests.support.fix_catalog import Client, Inspector


@pytest.fixture
def found(client: Client, inspector: Inspector) -> Answerable:
    assert inspector.differences() == {}  # it makes new tables resident
    client.run("CREATE TABLE t (id int PRIMARY KEY)")
    client.run("CREATE TABLE other (id int)")
    answerable = answers_for(client)
    assert answerable is not None
    return answerable


def answers_for(client: Client) -> Answerable | None:
    relations = client.session.observations.relations([client.relid("t"), client.relid("pg_class")])
    return Answerable.of(client.session.observations.definitions(), relations.values())


def turn(inspector: Inspector, client: Client, *turns: str) -> None:
    for residency in turns:
        inspector.run(f"SELECT pg_journal.make_{residency}({client.relid('t')})")


def is_proved(client: Client, found: Answerable | None) -> bool:
    try:
        prove(client.session, found)
    except GatewayError as error:
        if error.sqlstate != SERIALIZATION_FAILURE:
            raise
        return False
    return True


def test_what_stays_is_proved(client: Client, found: Answerable) -> None:
    assert is_proved(client, found)
    client.run("CREATE TABLE third (id int)")
    client.run("ALTER TABLE t ADD COLUMN v int")
    client.run("DROP TABLE other")
    assert is_proved(client, found)
    assert found.agrees(answers_for(client))


@pytest.mark.parametrize("turns", [("tiered",), ("tiered", "resident")], ids=" and ".join)
def test_a_table_that_became_tiered_is_noticed(
    client: Client, inspector: Inspector, found: Answerable, turns: tuple[str, ...]
) -> None:
    turn(inspector, client, *turns)
    assert not is_proved(client, found)
    later = answers_for(client)
    assert (later is None) == (turns[-1] == "tiered")
    if later is not None:
        assert not found.agrees(later)


def test_an_older_snapshot_still_finds_the_rows(
    client: Client, inspector: Inspector, found: Answerable
) -> None:
    client.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    client.run("SELECT FROM t")
    turn(inspector, client, "tiered")
    assert is_proved(client, found)
    client.run("COMMIT")
    assert not is_proved(client, found)


def test_other_relations_need_no_proof(client: Client) -> None:
    relations = client.session.observations.relations([client.relid("pg_class")])
    assert Answerable.of(0, relations.values()) is None
    assert is_proved(client, None)
