"""Retired segments and dropped tables are forgotten when nobody can see them any more."""

import pytest

from catalog.model import Segment, SegmentKind
from catalog.upkeep import vacuum

pytestmark = pytest.mark.catalog


@pytest.fixture
def administrator(catalog, database):
    session = catalog.admin(database)
    yield session
    session.close()


def known(administrator):
    rows = administrator.execute("SELECT path FROM pg_journal.segments").rows
    return {path.decode() for (path,) in rows}


def deltas(client):
    return [client.segment_path("t", "delta", number) for number in (1, 2)]


@pytest.fixture
def table(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY)")
    relid = client.relid("t")
    paths = deltas(client)
    versions, _ = client.session.writes.begin_write([relid])
    segments = [Segment(0, SegmentKind.DELTA, path, 1, 1, (1,), 1, 1) for path in paths]
    client.session.journals.publish(relid, versions[relid], segments)
    client.session.transaction.commit()
    return relid


def test_visible_segments_are_never_offered(administrator, client, table):
    assert vacuum.retired_segments(administrator) == {}
    assert known(administrator) == set(deltas(client))


def compact(client, table):
    """Replace the segments of the table by another one."""
    (snapshot,) = client.snapshot("t").snapshots.values()
    numbers = [segment.segment_id for segment in snapshot.segments]
    path = client.segment_path("t", "base", 1)
    base = Segment(0, SegmentKind.BASE, path, 2, 1, (1,), 1, 1)
    client.session.journals.replace(table, [base], numbers, None, expected_state=snapshot.state)
    client.session.transaction.commit()


@pytest.fixture
def compacted(client, table):
    compact(client, table)


def test_retired_segments_are_offered_at_once(administrator, client, compacted):
    retired = vacuum.retired_segments(administrator)
    assert sorted(retired.values()) == deltas(client)
    vacuum.forget_segments(administrator, list(retired))
    assert known(administrator) == {client.segment_path("t", "base", 1)}


def test_segments_that_a_snapshot_shows_are_not_offered(administrator, client, other, table):
    other.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    other.run("SELECT 1")
    compact(client, table)
    assert vacuum.retired_segments(administrator) == {}
    other.session.transaction.commit()
    assert sorted(vacuum.retired_segments(administrator).values()) == deltas(client)


@pytest.mark.parametrize(("ends", "exists"), [("COMMIT", True), ("ROLLBACK", False)])
def test_what_a_transaction_is_making_may_become_a_table(
    administrator, client, other, ends, exists
):
    other.run("BEGIN")
    other.run("CREATE TABLE made (a int PRIMARY KEY)")
    relid = other.relid("made")
    assert vacuum.possible(administrator, {relid}) == {relid}
    other.run(ends)
    assert vacuum.possible(administrator, {relid}) == ({relid} if exists else set())


def test_a_truncated_table_keeps_its_segments(administrator, client, table):
    client.truncate("t")
    assert vacuum.retired_segments(administrator) == {}
    assert known(administrator) == set(deltas(client))


def test_a_dropped_table_leaves_its_location(administrator, client, table):
    (snapshot,) = client.snapshot("t").snapshots.values()
    client.run("DROP TABLE t")
    assert vacuum.dropped_locations(administrator) == [snapshot.table.location]
    vacuum.forget_locations(administrator, [snapshot.table.location])
    assert vacuum.dropped_locations(administrator) == []
