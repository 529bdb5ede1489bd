"""What statements see: snapshots, versions, locks and conflicts of concurrent sessions."""

import threading

import pytest

from catalog.errors import GatewayError
from catalog.model import Segment, SegmentKind
from catalog.results import SnapshotRequest
from tests.support.fix_catalog import PATIENCE_S, cancel_when_waiting, wait_until_waiting

pytestmark = pytest.mark.catalog


@pytest.fixture
def table(client):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b text)")
    return client.relid("t")


def _keys(client, relid, known=None):
    result = client.session.observations.snapshot([SnapshotRequest(relid, known_state=known)])
    return [row[0] for row in result.tails[relid].rows], result.tails[relid].increment


def _delta(client, number=1):
    path = client.segment_path("t", "delta", number)
    return Segment(0, SegmentKind.DELTA, path, 5, 100, (1, 2), 10, 20, 1, 5)


def test_an_unchanged_table_is_answered_without_rows(client, table):
    client.insert("t", "INSERT INTO t VALUES (1)")
    state = client.state("t")
    result = client.snapshot("t", state)
    assert result.tails[table].increment
    assert result.tails[table].rows == []
    assert result.snapshots[table].state == state
    assert result.snapshots[table].tail_rows == 1


def test_a_known_state_is_continued_with_what_came_after(client, table):
    client.insert("t", "INSERT INTO t VALUES (1)")
    state = client.state("t")
    client.insert("t", "INSERT INTO t VALUES (2)")
    client.insert("t", "INSERT INTO t VALUES (3)")
    assert _keys(client, table, state) == ([2, 3], True)


def test_a_state_that_was_rolled_back_is_not_continued(client, table):
    client.insert("t", "INSERT INTO t VALUES (1)")
    client.insert("t", "INSERT INTO t VALUES (2)", commit=False)
    lost = client.state("t")
    client.session.transaction.rollback()
    client.insert("t", "INSERT INTO t VALUES (3)")
    assert _keys(client, table, lost) == ([1, 3], False)


def test_a_state_rolled_back_to_a_savepoint_is_not_continued(client, table):
    client.session.transaction.begin()
    client.insert("t", "INSERT INTO t VALUES (1)", commit=False)
    client.run("SAVEPOINT s")
    client.insert("t", "INSERT INTO t VALUES (2)", commit=False)
    lost = client.state("t")
    client.run("ROLLBACK TO s")
    client.insert("t", "INSERT INTO t VALUES (3)", commit=False)
    assert _keys(client, table, lost) == ([1, 3], False)
    client.session.transaction.rollback()


def test_nobody_else_sees_uncommitted_writes(client, other, table):
    client.insert("t", "INSERT INTO t VALUES (1)", commit=False)
    assert _keys(client, table)[0] == [1]
    assert _keys(other, table)[0] == []
    client.session.transaction.commit()
    assert _keys(other, table)[0] == [1]


def test_repeatable_read_keeps_its_snapshot(client, other, table):
    other.session.transaction.begin("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert _keys(other, table)[0] == []
    client.insert("t", "INSERT INTO t VALUES (1)")
    assert _keys(other, table)[0] == []
    other.session.transaction.rollback()
    assert _keys(other, table)[0] == [1]


def test_a_state_of_the_future_is_not_continued_in_an_old_snapshot(client, other, table):
    client.insert("t", "INSERT INTO t VALUES (1)")
    other.session.transaction.begin("BEGIN ISOLATION LEVEL REPEATABLE READ")
    _keys(other, table)
    client.insert("t", "INSERT INTO t VALUES (2)")
    assert _keys(other, table, client.state("t")) == ([1], False)
    other.session.transaction.rollback()


def test_repeatable_read_fails_to_write_what_has_changed(client, other, table):
    other.session.transaction.begin("BEGIN ISOLATION LEVEL REPEATABLE READ")
    _keys(other, table)
    client.insert("t", "INSERT INTO t VALUES (1)")
    with pytest.raises(GatewayError) as caught:
        other.session.writes.begin_write([table])
    assert caught.value.sqlstate == "40001"
    other.session.transaction.rollback()


def test_serializable_detects_write_skew(client, other):
    client.run("CREATE TABLE x (a int PRIMARY KEY)")
    client.run("CREATE TABLE y (a int PRIMARY KEY)")
    x, y = client.relid("x"), client.relid("y")
    for session, read, written in ((client, x, "y"), (other, y, "x")):
        session.session.transaction.begin("BEGIN ISOLATION LEVEL SERIALIZABLE")
        _keys(session, read)
        session.insert(written, f"INSERT INTO {written} VALUES (1)", commit=False)
    client.session.transaction.commit()
    with pytest.raises(GatewayError) as caught:
        other.session.transaction.commit()
    assert caught.value.sqlstate == "40001"


def test_a_writer_waits_for_the_writer_before_and_reads_what_it_wrote(
    client, other, connect, table
):
    client.insert("t", "INSERT INTO t VALUES (1)", commit=False)
    seen = []

    def write():
        versions, result = other.session.writes.begin_write([table], [SnapshotRequest(table)])
        seen.append((versions[table], result))
        other.session.transaction.rollback()

    thread = threading.Thread(target=write)
    thread.start()
    wait_until_waiting(other, connect(), "Lock")
    assert thread.is_alive()
    client.session.transaction.commit()
    thread.join(PATIENCE_S)
    ((version, result),) = seen
    assert [row[0] for row in result.tails[table].rows] == [1]
    assert version > result.snapshots[table].version


def test_readers_do_not_wait_for_writers(client, other, table):
    client.session.writes.begin_write([table])
    other.run("SET lock_timeout = '1s'")
    assert _keys(other, table)[0] == []
    client.session.transaction.rollback()


def test_lock_timeout_ends_the_wait(client, other, table):
    client.session.writes.begin_write([table])
    other.run("SET lock_timeout = '50ms'")
    with pytest.raises(GatewayError) as caught:
        other.insert("t", "INSERT INTO t VALUES (1)")
    assert caught.value.sqlstate == "55P03"
    assert other.session.transaction_status == "I"
    client.session.transaction.rollback()


def test_a_cancelled_wait_leaves_the_session_usable(client, other, connect, table):
    client.session.writes.begin_write([table])
    cancel_when_waiting(other, connect(), "Lock")
    with pytest.raises(GatewayError) as caught:
        other.session.writes.begin_write([table])
    assert caught.value.sqlstate == "57014"
    assert other.value("SELECT 1") == "1"
    client.session.transaction.rollback()


def test_a_read_only_transaction_does_not_write(client, table):
    client.session.transaction.begin("BEGIN READ ONLY")
    with pytest.raises(GatewayError) as caught:
        client.session.writes.begin_write([table], command="DELETE")
    assert caught.value.sqlstate == "25006"
    assert caught.value.message == "cannot execute DELETE in a read-only transaction"
    client.session.transaction.rollback()


def test_privileges_are_checked_with_the_snapshot(client, reader, table):
    with pytest.raises(GatewayError) as caught:
        reader.session.observations.snapshot([SnapshotRequest(table)], check="SELECT b FROM t")
    assert caught.value.sqlstate == "42501"
    client.run("GRANT SELECT (a) ON t TO PUBLIC")
    reader.session.observations.snapshot([SnapshotRequest(table)], check="SELECT a FROM t")
    reader.session.analyses.analyse("UPDATE t SET b = $1 WHERE a = $2", name="u")
    with pytest.raises(GatewayError) as caught:
        reader.session.writes.begin_write([table], check_prepared="u")
    assert caught.value.sqlstate == "42501"
    assert reader.session.transaction_status == "I"


def test_published_segments_appear_and_disappear_with_the_transaction(client, other, table):
    deltas = [_delta(client, number) for number in (1, 2)]
    versions, _ = client.session.writes.begin_write([table])
    client.session.journals.publish(table, versions[table], deltas[:1])
    client.session.transaction.rollback()
    assert client.snapshot("t").snapshots[table].segments == ()
    versions, _ = client.session.writes.begin_write([table])
    numbers = client.session.journals.publish(table, versions[table], deltas)
    client.session.transaction.commit()
    segments = other.snapshot("t").snapshots[table].segments
    assert {s.path: s.segment_id for s in segments} == numbers
    assert (segments[0].rows, segments[0].key_max, segments[0].kind) == (5, 5, SegmentKind.DELTA)


def test_a_flush_keeps_what_was_written_meanwhile(client, other, table):
    client.insert("t", "INSERT INTO t VALUES (1)")
    (flushed,) = other.snapshot("t").snapshots.values()
    client.insert("t", "INSERT INTO t VALUES (2)")
    delta = _delta(client)
    other.session.journals.replace(
        table, [delta], [], flushed.version, expected_state=flushed.state, tail_read=1
    )
    (after,) = other.snapshot("t").snapshots.values()
    assert (len(after.segments), after.tail_rows) == (1, 1)
    assert _keys(client, table)[0] == [2]


def test_of_two_compactions_the_second_fails(client, other, table):
    delta = _delta(client)
    versions, _ = client.session.writes.begin_write([table])
    numbers = client.session.journals.publish(table, versions[table], [delta])
    client.session.transaction.commit()
    state = client.state("t")
    path = client.segment_path("t", "base", 1)
    base = Segment(0, SegmentKind.BASE, path, 5, 100, (1, 2), 10, 20)
    client.session.journals.replace(
        table, [base], [numbers[delta.path]], None, expected_state=state
    )
    with pytest.raises(GatewayError) as caught:
        other.session.journals.replace(
            table, [base], [numbers[delta.path]], None, expected_state=state
        )
    assert caught.value.sqlstate == "40001"


def test_truncate_leaves_nothing_and_rolls_back(client, table):
    client.insert("t", "INSERT INTO t VALUES (1)")
    client.session.transaction.begin()
    client.truncate("t")
    assert _keys(client, table)[0] == []
    client.session.transaction.rollback()
    assert _keys(client, table)[0] == [1]


def test_ddl_by_another_session_reaches_a_cached_definition(client, other, table):
    client.snapshot("t")
    other.run("ALTER TABLE t ADD COLUMN c int DEFAULT 7")
    (snapshot,) = client.snapshot("t").snapshots.values()
    assert [c.name for c in snapshot.table.columns] == ["a", "b", "c"]


def test_uncommitted_ddl_is_not_seen_by_others(client, other, table):
    client.session.transaction.begin()
    client.run("ALTER TABLE t ADD COLUMN c int")
    client.insert("t", "INSERT INTO t VALUES (1, 'x', 2)", commit=False)
    assert [c.name for c in client.snapshot("t").snapshots[table].table.columns] == ["a", "b", "c"]
    client.session.transaction.rollback()
    assert [c.name for c in other.snapshot("t").snapshots[table].table.columns] == ["a", "b"]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/delta-{0:032x}",
        "../delta-{0:032x}",
        "{1}/../delta-{0:032x}",
        "{1}/delta-{0:032x}/..",
        "{1}/delta-{0:032x}\n",
        "{1}/other-{0:032x}",
        "{1}0/delta-{0:032x}",
        "{1}/a=b/../delta-{0:032x}",
        "{1}/a=./delta-{0:032x}",
        "{1}/a/delta-{0:032x}",
        "{1}/=b/delta-{0:032x}",
        "{1}/a=b",
    ],
)
def test_segments_outside_of_the_tables_directory_are_refused(client, table, path):
    (snapshot,) = client.snapshot("t").snapshots.values()
    found = path.format(1, snapshot.table.location)
    outside = Segment(0, SegmentKind.DELTA, found, 5, 100, (1, 2), 10, 20, 1, 5)
    versions, _ = client.session.writes.begin_write([table])
    with pytest.raises(GatewayError) as caught:
        client.session.journals.publish(table, versions[table], [outside])
    assert caught.value.sqlstate == "XX001"


def test_how_values_travel_is_told_without_a_look_at_all_types(inspector):
    """There are two of each table: with many tables that would be many looks at many types."""
    inspector.run("CREATE DOMAIN small AS int; CREATE DOMAIN tiny AS small")
    inspector.run("BEGIN")
    read = "SELECT seq_tup_read FROM pg_stat_xact_sys_tables WHERE relname = 'pg_type'"
    before = inspector.run(read)
    told = inspector.run(
        "SELECT pg_journal.transfer_expression('v', t::regtype)"
        " FROM unnest(ARRAY['int', 'text', 'date', 'numeric', 'tiny']) t"
    )
    assert inspector.run(read) == before
    inspector.run("ROLLBACK")
    assert told[0] == ("v",)
    assert told[4] == ("v::integer",)
