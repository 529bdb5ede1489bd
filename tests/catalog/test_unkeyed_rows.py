"""Rows without a key that are inserted beside those of others, as the bookkeeping has them."""

import pytest

from catalog.connection.steps import Query
from catalog.errors import CatalogError, OutdatedPlanError
from catalog.hot import hot_keys, resident_upkeep
from catalog.hot.hot_keys import Writing
from catalog.results import TailRows

pytestmark = pytest.mark.catalog

PUT = "INSERT INTO t VALUES (1), (1), (1)"


@pytest.fixture
def warm(client, thawing):
    client.run("CREATE TABLE t (a int)")
    relid = client.relid("t")
    assert thawing.warm(relid)
    return relid


def put(client, relid, sql=PUT, *, commits=False) -> None:
    """Announce and run a statement in the open transaction, or in one of its own."""
    call = Writing(relid).announced(strict=False)
    client.session.writes.run_between(
        Query(sql), (), None, began=commits, before=[call], commits=commits
    )


def identities(client) -> list[int]:
    (tail,) = client.snapshot("t").tails.values()
    assert isinstance(tail, TailRows)
    return [row[-1] for piece in tail.pieces() for row in piece]


@pytest.mark.parametrize("level", ["READ COMMITTED", "SERIALIZABLE"])
def test_rows_get_distinct_identities(client, other, warm, level):
    for session in (client, other):
        session.session.transaction.begin(f"BEGIN ISOLATION LEVEL {level}")
        session.run("SET LOCAL lock_timeout = '5s'")
    call = Writing(warm, own=True).announced(strict=False)
    for _ in range(2):
        for session in (client, other):
            session.session.writes.run_between(Query(PUT), (), None, began=False, before=[call])
    client.run("SAVEPOINT s")
    client.session.writes.run_between(Query(PUT), (), None, began=False, before=[call])
    client.run("ROLLBACK TO s")
    client.session.writes.run_between(Query(PUT), (), None, began=False, before=[call])
    for session in (client, other):
        session.session.transaction.commit()
    found = identities(client)
    assert len(found) == len(set(found)) == 15


def test_identities_are_told_from_those_of_writers_of_the_whole_table(client, administrator, warm):
    put(client, warm, commits=True)
    assert resident_upkeep.cool(administrator.session, warm)
    client.insert("t", PUT)
    found = identities(client)
    assert len(set(found)) == 6
    assert sorted(found)[:3] == sorted(found[:3])


@pytest.mark.parametrize("sql", ["UPDATE t SET a = 2", "DELETE FROM t"])
def test_rows_that_are_here_by_chance_are_not_changed(client, warm, sql):
    put(client, warm, commits=True)
    with pytest.raises((OutdatedPlanError, CatalogError)):
        put(client, warm, sql, commits=True)
    assert len(identities(client)) == 3


def test_more_rows_than_there_are_identities_for_are_refused(client, administrator, warm):
    administrator.run(
        "CREATE OR REPLACE FUNCTION pg_journal.identities_each() RETURNS bigint"
        " LANGUAGE sql IMMUTABLE RETURN 5"
    )
    with pytest.raises(CatalogError) as caught:
        put(client, warm, "INSERT INTO t SELECT generate_series(1, 100)", commits=True)
    assert caught.value.sqlstate == "54000"
    assert identities(client) == []


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_who_has_inserted_many_rows_goes_on_by_locking_the_table(
    client, administrator, warm, level
):
    administrator.run(
        "CREATE OR REPLACE FUNCTION pg_journal.identities_each() RETURNS bigint"
        " LANGUAGE sql IMMUTABLE RETURN 5"
    )
    client.session.transaction.begin(f"BEGIN ISOLATION LEVEL {level}")
    call = Writing(warm, own=True).announced(strict=False)
    for is_hot in (True, False):
        _, (answer,) = client.session.writes.run_between(
            Query(PUT) if is_hot else None, (), None, began=False, before=[call]
        )
        assert hot_keys.announced(answer).hot is is_hot
    client.session.transaction.rollback()


def test_rows_leave_the_catalog_table_beside_writers(client, administrator, warm):
    put(client, warm, commits=True)
    client.session.transaction.begin("BEGIN")
    put(client, warm)
    assert resident_upkeep.shed(administrator.session, warm) == 3
    client.session.transaction.commit()
    assert administrator.value("SELECT count(*) FROM ONLY t") == "3"
    assert len(identities(client)) == 6


def test_rows_leave_no_table_whose_keys_are_looked_for(client, administrator, thawing):
    client.run("CREATE TABLE k (a int PRIMARY KEY)")
    relid = client.relid("k")
    assert thawing.warm(relid)
    put(client, relid, "INSERT INTO k VALUES (1)", commits=True)
    assert resident_upkeep.shed(administrator.session, relid) == 0
    assert administrator.value("SELECT count(*) FROM ONLY k") == "1"


@pytest.mark.parametrize("definition", ["(a int UNIQUE)", "(a int REFERENCES p)"])
def test_tables_whose_rows_could_meet_others_have_no_hot_rows(client, thawing, definition):
    client.run("CREATE TABLE p (a int PRIMARY KEY)")
    client.run(f"CREATE TABLE t {definition}")
    assert not thawing.warm(client.relid("t"))


def test_a_table_that_was_changed_is_locked_for_a_while(thawing, monkeypatch):
    assert not thawing.is_changed(1, in_block=True)
    thawing.note_changed(1)
    assert thawing.is_changed(1, in_block=False)
    monkeypatch.setattr("catalog.hot.thawing.CHANGED_S", 0.0)
    assert not thawing.is_changed(1, in_block=True)
    thawing.note_locked_later(1)
    assert thawing.is_changed(1, in_block=True)
    assert not thawing.is_changed(1, in_block=False)
