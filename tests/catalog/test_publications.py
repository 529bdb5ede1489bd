"""Segments are given up when no transaction can publish them any more, whatever the time is."""

import time

import pytest

from catalog.hot import resident_upkeep
from catalog.model import Segment, SegmentKind
from catalog.upkeep import vacuum
from catalog.upkeep.publications import Publications

pytestmark = pytest.mark.catalog


@pytest.fixture
def administrator(catalog, database):
    session = catalog.admin(database)
    yield session
    session.close()


@pytest.fixture
def table(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    return client.relid("t")


@pytest.fixture
def path(client, table):
    return client.segment_path("t", "delta", 1)


def begin(session, table):
    versions, _ = session.writes.begin_write([table])
    return versions[table]


def publish(session, table, path):
    segment = Segment(0, SegmentKind.DELTA, path, 1, 1, (1,), 1, 1)
    session.journals.publish(table, begin(session, table), [segment])


def await_settled(publications, administrator, written, is_kept):
    until_s = time.monotonic() + 30
    while not (told := publications.settled(administrator, written)):
        assert time.monotonic() < until_s
    assert told == dict.fromkeys(written, is_kept)


@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK", "ROLLBACK TO s", "lost"])
def test_segments_are_settled_when_their_transaction_is(administrator, other, table, path, ends):
    publications = Publications()
    other.run("BEGIN")
    other.run("SAVEPOINT s")
    publish(other.session, table, path)
    for _ in range(3):
        assert publications.settled(administrator, {path: table}) == {}
    if ends == "lost":
        other.session.close()
    else:
        other.run(ends)
        if ends == "ROLLBACK TO s":
            other.run("COMMIT")
    await_settled(publications, administrator, {path: table}, ends == "COMMIT")


def test_who_has_locked_the_table_may_be_about_to_publish(administrator, other, table, path):
    publications = Publications()
    other.run("BEGIN")
    begin(other.session, table)
    assert publications.settled(administrator, {path: table}) == {}
    other.run("ROLLBACK")
    await_settled(publications, administrator, {path: table}, False)


def test_so_may_who_is_making_the_table(administrator, other, client, path, table):
    publications = Publications()
    other.run("BEGIN")
    other.run("CREATE TABLE made (a int PRIMARY KEY)")
    made = {"5/1/base-0": other.relid("made")}
    assert publications.settled(administrator, made) == {}
    assert publications.settled(administrator, {path: table}) == {path: False}
    other.run("COMMIT")
    await_settled(publications, administrator, made, False)


def test_so_may_upkeep_which_locks_tails_alone(catalog, database, administrator, table, path):
    publications, upkeep = Publications(), catalog.admin(database)
    upkeep.transaction.begin()
    resident_upkeep.seize(upkeep, table)
    assert publications.settled(administrator, {path: table}) == {}
    upkeep.close()
    await_settled(publications, administrator, {path: table}, False)


def test_readers_are_not_waited_for(administrator, other, table, path):
    other.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    other.run("LOCK TABLE t IN ROW SHARE MODE")
    assert Publications().settled(administrator, {path: table}) == {path: False}


def test_who_has_begun_since_is_not_waited_for(administrator, client, other, table, path):
    publications = Publications()
    other.run("BEGIN")
    other.run("LOCK TABLE t IN ROW EXCLUSIVE MODE")
    assert publications.settled(administrator, {path: table}) == {}
    client.run("BEGIN")
    client.run("LOCK TABLE t IN ROW EXCLUSIVE MODE")
    other.run("ROLLBACK")
    await_settled(publications, administrator, {path: table}, False)
    publications.forget([path])
    # Of what is asked for now it may be the one.
    assert publications.settled(administrator, {path: table}) == {}
    client.run("ROLLBACK")


def test_segments_of_dropped_tables_go_with_these(administrator, client, table, path):
    publish(client.session, table, path)
    client.session.transaction.commit()
    client.run("DROP TABLE t")
    assert Publications().settled(administrator, {path: table}) == {path: True}
    vacuum.forget_locations(administrator, [path.rpartition("/")[0]])
    assert Publications().settled(administrator, {path: table}) == {path: False}
