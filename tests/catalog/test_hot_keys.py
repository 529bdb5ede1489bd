"""Hot keys as the bookkeeping has them: announced, made hot, captured, refused, and gone."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from catalog.bookkeeping import calls as bookkeeping
from catalog.connection.steps import Query
from catalog.errors import CatalogError, HotRowsError, OutdatedPlanError
from catalog.hot import hot_keys, resident_upkeep
from catalog.hot.hot_keys import Announcement, Reading, Thawed, Writing
from catalog.hot.thawing import Thawing
from catalog.results import Basis, SnapshotRequest
from pgwire_gateway.spark.sorting import BOUNDED
from rewrite.key_types import COMPARED, has_one_form
from tests.support.fix_catalog import Client

pytestmark = pytest.mark.catalog

ROWS = (["1", "10", None], ["2", "20", None])
"""Rows of the table: texts of all columns, and None."""


@pytest.fixture
def table(client):
    """A tiered table whose rows are in its tail."""
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int)")
    client.insert("t", "INSERT INTO t VALUES (1, 10), (2, 20)")
    return client.relid("t")


@pytest.fixture
def warm(table, thawing: Thawing):
    assert thawing.warm(table)
    return table


def announce(client, relid, *keys, strict=False, **details) -> Announcement:
    writing = Writing(relid, tuple((str(key),) for key in keys) if keys else None, **details)
    call = writing.announced(strict=strict)
    *_, (answer,) = client.session.writes.run_between(None, (), None, began=True, before=[call])
    return hot_keys.announced(answer)


def write(client, relid, sql, *keys) -> None:
    """Announce and run a statement, and commit."""
    call = Writing(relid, tuple((str(key),) for key in keys)).announced(strict=True)
    client.session.writes.run_between(Query(sql), (), None, began=True, before=[call], commits=True)


def reading(administrator, relid, **changed) -> Reading:
    """Return what tells that rows were read now."""
    ((heats, epoch, seen),) = administrator.run(
        f"SELECT heats, epoch, pg_current_snapshot() FROM pg_journal.journals WHERE relid = {relid}"
    )
    return replace(Reading(int(heats), int(epoch), seen), **changed)


def thaw(thawing, administrator, relid, present=(), absent=()) -> Thawed:
    return thawing.thaw(relid, reading(administrator, relid), present, absent)


def cool(administrator, relid) -> bool:
    administrator.run("SET lock_timeout = 100")
    try:
        return resident_upkeep.cool(administrator.session, relid)
    except CatalogError as error:
        if error.sqlstate != "55P03":
            raise
        return False


def test_a_table_has_no_hot_rows_before_it_is_warm(client, table, thawing):
    assert announce(client, table, 1) == Announcement(hot=False)
    assert not thawing.is_warm(table)


def test_autovacuum_stands_aside_for_rows_to_become_hot(client, administrator, table, thawing):
    client.run(
        "ALTER TABLE t SET (autovacuum_vacuum_threshold = 1,"
        " autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)"
    )
    administrator.run("SET session_replication_role = replica")
    administrator.run("INSERT INTO t SELECT g, g FROM generate_series(3, 200000) g")
    administrator.run("DELETE FROM t")
    vacuuming = f"SELECT FROM pg_stat_progress_vacuum WHERE relid = {table}"
    deadline = time.monotonic() + 60
    while not administrator.run(vacuuming):
        assert time.monotonic() < deadline, "autovacuum has not come"
        time.sleep(0.2)
    assert thawing.warm(table)


def test_keys_are_cold_until_they_are_thawed(client, administrator, warm, thawing):
    assert announce(client, warm, 1, 3).cold == {("1",), ("3",)}
    client.session.transaction.rollback()
    assert thaw(thawing, administrator, warm, ROWS[:1], [["3", None, None]]) is Thawed.DONE
    assert announce(client, warm, 1, 2, 3).cold == {("2",)}
    assert client.run("SELECT * FROM t") == [("1", "10")]


def test_changes_of_hot_rows_go_to_the_tail(client, administrator, warm, thawing):
    thaw(thawing, administrator, warm, ROWS)
    write(client, warm, "UPDATE t SET b = b + 1", 1, 2)
    write(client, warm, "DELETE FROM t WHERE a = 2", 2)
    newest = f"""
        SELECT DISTINCT ON (c1) c1, c2, subsequent_version_number IS NULL
          FROM pg_journal.tail_{warm} ORDER BY c1, version_number DESC"""
    assert administrator.run(newest) == [("1", "11", "t"), ("2", "21", "f")]


def test_what_was_not_announced_is_refused(client, administrator, warm, thawing):
    thaw(thawing, administrator, warm, ROWS)
    assert client.sqlstate("UPDATE t SET b = 0 WHERE a = 3") == bookkeeping.OUTDATED
    assert client.sqlstate("TRUNCATE t") == bookkeeping.OUTDATED


def test_keys_that_nobody_has_looked_for_are_refused(client, administrator, warm, thawing):
    thaw(thawing, administrator, warm, ROWS)
    for sql in (
        "UPDATE t SET a = 7 WHERE a = 1",
        "INSERT INTO t VALUES (7, 7) ON CONFLICT DO NOTHING",
    ):
        with pytest.raises(CatalogError) as caught:
            write(client, warm, sql, 1)
        assert caught.value.sqlstate == "0A000"


def test_an_insert_tells_the_keys_that_are_to_be_looked_for(client, warm):
    announce(client, warm)
    client.run("INSERT INTO t VALUES (1, 0), (3, 0)")
    function, values = hot_keys.searching(warm, None)
    told = hot_keys.unsearched(client.session.call(function, *values))
    assert told.keys == [(1,)], "the tail has had it before"
    assert told.mark > 0
    assert told.values == []


@pytest.mark.parametrize(
    "names",
    [("found",), ("pgwire_present", "pgwire_keys"), ("h", "e"), ("u", "c1"), ("old", "new")],
)
def test_names_of_keys_are_none_of_ours(client, administrator, thawing, names):
    key, first = ", ".join(names), names[0]
    columns = "".join(f"{name} int, " for name in names)
    client.run(f"CREATE TABLE odd ({columns} v int, PRIMARY KEY ({key}))")
    ones, twos, threes = ([number] * len(names) for number in "123")
    client.insert("odd", f"INSERT INTO odd VALUES ({', '.join([*ones, '10'])})")
    relid = client.relid("odd")
    assert thawing.warm(relid)
    rows = [[*ones, "10", None]]
    assert thaw(thawing, administrator, relid, rows, [[*twos, None, None]]) is Thawed.DONE
    moved = ", ".join(f"{name} = 2" for name in names)
    call = Writing(relid, (tuple(ones), tuple(twos))).announced(strict=True)
    change = Query(f"UPDATE odd SET {moved}, v = 11 WHERE {first} = 1")
    client.session.writes.run_between(change, (), None, began=True, before=[call], commits=True)
    client.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    own = Writing(relid, (tuple(threes),), own=True).announced(strict=False)
    *_, (answer,) = client.session.writes.run_between(None, (), None, began=False, before=[own])
    assert hot_keys.announced(answer).cold == {tuple(threes)}
    function, values = hot_keys.heating(relid, [[*threes, "30", None]], [])
    client.session.call(function, *values)
    client.run("COMMIT")
    held = client.run(f"SELECT {first}, v FROM odd ORDER BY v")
    assert held == [("2", "11"), ("3", "30")]
    assert cool(administrator, relid)
    newest = f"SELECT c1, subsequent_version_number IS NULL FROM pg_journal.tail_{relid}"
    assert set(administrator.run(newest)) == {("1", "t"), ("1", "f"), ("2", "t")}


def test_values_of_unique_keys_are_told_unless_they_were_superseded(client, thawing):
    client.run("CREATE TABLE u (id int PRIMARY KEY, a text UNIQUE, b int, c int, UNIQUE (c, b))")
    relid = client.relid("u")
    assert thawing.warm(relid)
    announce(client, relid)
    client.run("INSERT INTO u VALUES (1, 'x', 1, 2), (2, NULL, 3, NULL), (3, 'y', 3, 4)")
    client.run("UPDATE u SET a = 'z', c = NULL WHERE id = 3")
    client.run("DELETE FROM u WHERE id = 1")
    function, values = hot_keys.searching(relid, None)
    assert hot_keys.unsearched(client.session.call(function, *values)).values == [[["z"]], []]


def test_rows_that_an_insert_brought_are_held(client, warm):
    announce(client, warm)
    client.run("INSERT INTO t VALUES (3, 0)")
    client.session.transaction.commit()
    announced = announce(client, warm, 3, 4)
    assert (announced.held, announced.cold) == ({("3",)}, {("4",)})


def test_a_strict_announcement_fails_unless_all_is_hot(client, administrator, warm, thawing):
    thaw(thawing, administrator, warm, ROWS[:1])
    assert announce(client, warm, 1, strict=True).is_complete
    client.session.transaction.rollback()
    for keys in ((2,), (1, 2)):
        with pytest.raises(CatalogError) as caught:
            announce(client, warm, *keys, strict=True)
        assert caught.value.sqlstate == bookkeeping.NOT_HOT
    with pytest.raises(CatalogError) as caught:
        announce(client, warm, 1, strict=True, heats=99)
    assert caught.value.sqlstate == bookkeeping.NOT_HOT


def test_rows_read_before_all_went_cold_are_not_thawed(administrator, warm, thawing):
    before = reading(administrator, warm)
    assert cool(administrator, warm)
    assert thawing.thaw(warm, before, ROWS, ()) is Thawed.COLD
    assert thawing.warm(warm)
    assert thawing.thaw(warm, before, ROWS, ()) is Thawed.COLD
    assert administrator.run("SELECT * FROM t") == []


def test_a_row_that_was_changed_since_it_was_read_is_not_thawed(
    client, administrator, warm, thawing
):
    announce(client, warm)
    client.run("INSERT INTO t VALUES (3, 30)")
    client.session.transaction.commit()
    before = reading(administrator, warm)
    # What a condition tells need not be hot by its key.
    write(client, warm, "DELETE FROM t WHERE b = 30")
    row = ["3", "30", None]
    assert thawing.thaw(warm, before, [row], ()) is Thawed.STALE
    assert thawing.thaw(warm, reading(administrator, warm, epoch=0), [row], ()) is Thawed.STALE
    assert administrator.run("SELECT * FROM t") == []
    assert announce(client, warm, 3).cold == {("3",)}


def test_rows_that_a_constraint_refuses_are_unfit(client, administrator, warm, thawing):
    assert thaw(thawing, administrator, warm, [["1", "no number", None]]) is Thawed.UNFIT


def test_values_that_files_cannot_hold_are_refused_in_these_words(client, thawing):
    client.run("CREATE TABLE d (a int PRIMARY KEY, day date, hidden text)")
    client.insert("d", "INSERT INTO d VALUES (1, '2024-01-01', 'hush')")
    relid = client.relid("d")
    assert thawing.warm(relid)
    announce(client, relid)
    with pytest.raises(CatalogError) as caught:
        client.run("INSERT INTO d VALUES (2, 'infinity', 'hush')")
    assert (caught.value.sqlstate, caught.value.detail) == ("0A000", None)


def test_who_writes_hot_rows_keeps_them_from_going_cold(client, administrator, warm, thawing):
    thaw(thawing, administrator, warm, ROWS)
    announce(client, warm, 1)
    assert not cool(administrator, warm)
    client.session.transaction.rollback()
    assert cool(administrator, warm)
    assert client.run("SELECT * FROM t") == []


def test_rows_that_reference_what_was_taken_away_do_not_go_cold(client, administrator, thawing):
    client.run("CREATE TABLE p (a int PRIMARY KEY)")
    client.insert("p", "INSERT INTO p VALUES (1), (2)")
    client.run("CREATE TABLE c (a int PRIMARY KEY, b int REFERENCES p INITIALLY DEFERRED)")
    referenced, referencing = client.relid("p"), client.relid("c")
    assert thawing.warm(referenced)
    assert thawing.warm(referencing)
    thaw(thawing, administrator, referenced, [["1", None]])
    thaw(thawing, administrator, referencing, [["7", "1", None]])
    key = client.value("SELECT oid FROM pg_constraint WHERE conname = 'c_b_fkey'").encode()
    announce(client, referenced, 1)
    client.run("DELETE FROM p")
    client.session.call(bookkeeping.END_DEFERRING, None)
    assert client.session.call(bookkeeping.TAKEN_REFERENCES, key) == b""
    assert not cool(administrator, referencing)
    assert client.sqlstate("COMMIT") == "23503"
    assert cool(administrator, referencing)


def test_who_locks_the_whole_table_lets_its_rows_go_cold(client, administrator, warm, thawing):
    thaw(thawing, administrator, warm, ROWS)
    write(client, warm, "UPDATE t SET b = 0 WHERE a = 1", 1)
    client.session.writes.begin_write([warm])
    assert client.run("SELECT * FROM t") == []
    assert client.tail("t") == [[1, 10], [2, 20], [1, 0]]
    client.session.transaction.rollback()
    assert client.run("SELECT * FROM t ORDER BY a") == [("1", "0"), ("2", "20")]


def test_a_writer_by_an_older_snapshot_is_refused(client, other, administrator, warm, thawing):
    thaw(thawing, administrator, warm, ROWS)
    other.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    other.snapshot("t")
    write(client, warm, "UPDATE t SET b = 0 WHERE a = 1", 1)
    with pytest.raises(CatalogError) as caught:
        other.session.writes.begin_write([warm])
    assert caught.value.sqlstate == "40001"


def test_who_closes_the_gate_by_an_older_snapshot_is_refused(
    client, other, administrator, warm, thawing
):
    thaw(thawing, administrator, warm, ROWS)
    for close in (
        lambda: other.session.writes.hold([warm], hot_only=True),
        lambda: other.run("ALTER TABLE t RENAME b TO c"),
    ):
        other.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.snapshot("t")
        write(client, warm, "UPDATE t SET b = b + 1 WHERE a = 1", 1)
        with pytest.raises(CatalogError) as caught:
            close()
        assert caught.value.sqlstate == "40001"
        other.session.transaction.rollback()
    assert client.run("SELECT b FROM t WHERE a = 1") == [("12",)]


def test_a_snapshot_that_shows_hot_rows_of_a_cold_table_keeps_nobody_waiting(
    client, other, administrator, warm
):
    client.session.transaction.begin("BEGIN ISOLATION LEVEL REPEATABLE READ")
    client.run("SET LOCAL lock_timeout = '5s'")
    client.snapshot("t")
    assert cool(administrator, warm)
    other.session.writes.begin_write([warm])
    with pytest.raises(CatalogError) as caught:
        client.session.writes.begin_write([warm])
    assert caught.value.sqlstate == "40001"
    other.session.transaction.rollback()


def test_a_writer_by_a_snapshot_that_shows_all_may_write(
    client, other, administrator, warm, thawing
):
    thaw(thawing, administrator, warm, ROWS)
    write(client, warm, "UPDATE t SET b = 0 WHERE a = 1", 1)
    other.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    other.snapshot("t")
    versions, _ = other.session.writes.begin_write([warm])
    assert versions[warm] > 0


def test_readers_get_what_was_added_since(client, other, administrator, warm, thawing):
    thaw(thawing, administrator, warm, ROWS)
    state = client.state("t")
    write(client, warm, "UPDATE t SET b = 0 WHERE a = 1", 1)
    found = other.session.observations.snapshot([SnapshotRequest(warm, known_state=state)])
    assert found.tails[warm].increment
    assert [row[:2] for row in found.tails[warm].rows] == [[1, 0]]


def test_what_a_transaction_sees_of_itself_is_not_taken_for_seen(
    client, other, administrator, warm, thawing
):
    thaw(thawing, administrator, warm, ROWS)
    state = other.state("t")
    announce(client, warm, 1)
    client.run("SELECT pg_current_xact_id()")
    administrator.run("SELECT pg_current_xact_id()")  # a later one that ends before
    assert client.state("t") == state
    client.run("UPDATE t SET b = 0 WHERE a = 1")
    client.session.transaction.commit()
    found = other.session.observations.snapshot([SnapshotRequest(warm, known_state=state)])
    assert [row[:2] for row in found.tails[warm].rows] == [[1, 0]]


def test_what_is_seen_with_an_announcement_is_known_to_others(
    client, other, administrator, warm, thawing
):
    thaw(thawing, administrator, warm, ROWS)
    write(client, warm, "UPDATE t SET b = 1 WHERE a = 2", 2)
    calling = Writing(warm, (("1",),)).announced(strict=False)
    asked = [SnapshotRequest(warm)]
    answer, _, seen = client.session.writes.announce(calling, (), None, asked, began=True)
    assert hot_keys.announced(answer).is_complete
    assert [row[:2] for row in seen.tails[warm].rows] == [[1, 10], [2, 20], [2, 1]]
    administrator.run("SELECT pg_current_xact_id()")  # a later one that ends before
    client.run("UPDATE t SET b = 0 WHERE a = 1")
    client.session.transaction.commit()
    state = seen.snapshots[warm].state
    found = other.session.observations.snapshot([SnapshotRequest(warm, known_state=state)])
    assert found.tails[warm].increment
    assert [row[:2] for row in found.tails[warm].rows] == [[1, 0]]


def test_what_others_take_a_snapshot_for_shows_the_transaction_as_one_that_goes_on(
    client, other, administrator
):
    client.run("BEGIN")
    client.run("SELECT pg_current_xact_id()")
    administrator.run("BEGIN")
    administrator.run("SELECT pg_current_xact_id()")
    other.run("SELECT pg_current_xact_id()")  # a later one that has ended
    ((own_is_seen, of_others, snapshot),) = administrator.run(
        "SELECT pg_visible_in_snapshot(pg_current_xact_id(), s.seen::pg_snapshot), s.seen,"
        " pg_current_snapshot() FROM pg_journal.snapshot_of_others() s(seen)"
    )
    ((own,),) = administrator.run("SELECT pg_current_xact_id()")
    administrator.run("ROLLBACK")
    client.run("ROLLBACK")
    least, end, going = snapshot.split(":")
    assert own_is_seen == "f"
    assert of_others == f"{least}:{end}:{going},{own}"


def test_who_would_rather_write_hot_rows_is_told(client, administrator, warm, thawing):
    thaw(thawing, administrator, warm, ROWS)
    with pytest.raises(HotRowsError):
        client.session.writes.begin_write([warm], cools=False)
    with pytest.raises(HotRowsError):
        client.session.writes.insert_small(
            warm, "INSERT INTO t VALUES (3, 30)", inline_rows=1000, inline_bytes=1000, cools=False
        )
    assert client.session.transaction_status == "I"
    assert client.run("SELECT count(*) FROM t") == [("2",)]


def test_a_connection_that_was_lost_is_replaced(administrator, warm, thawing):
    administrator.run(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE application_name = 'pgwire_gateway' AND pid <> pg_backend_pid()"
        " AND datname = current_database()"
    )
    assert thaw(thawing, administrator, warm, ROWS) is Thawed.DONE


def test_keys_of_other_types_are_not_made_hot(client, thawing):
    client.run("CREATE TABLE d (a float8 PRIMARY KEY)")
    client.run("CREATE TABLE b (a bpchar PRIMARY KEY)")
    assert not thawing.warm(client.relid("d"))
    assert not thawing.warm(client.relid("b"))


def test_a_definition_lets_all_rows_go_cold(client, administrator, warm, thawing):
    thaw(thawing, administrator, warm, ROWS)
    client.run("ALTER TABLE t RENAME b TO c")
    assert client.run("SELECT * FROM t") == []
    assert (
        administrator.value(f"SELECT is_hot FROM pg_journal.journals WHERE relid = {warm}") == "f"
    )


def test_nothing_is_left_of_a_table_that_is_dropped(client, administrator, warm):
    client.run("DROP TABLE t")
    left = f"""
        SELECT relname FROM pg_class WHERE relname ~ '_{warm}(_|$)' UNION ALL
        SELECT proname FROM pg_proc WHERE proname ~ '_{warm}$'"""
    assert administrator.run(left) == []


def test_conditions_are_remembered_until_rows_go_cold(thawing):
    thawing.remember(1, 5, "condition")
    assert thawing.remembers(1, 5, "condition")
    assert not thawing.remembers(1, 5, "other")
    assert not thawing.remembers(1, 6, "condition")
    thawing.remember(1, 6, "other")
    assert not thawing.remembers(1, 5, "condition")
    assert thawing.heats(1) == 6


# too many -----------------------------------------------------------------------------------------


@pytest.fixture
def full(warm, administrator, thawing):
    """A table with one hot row, of which too many rows are said to be hot."""
    assert thaw(thawing, administrator, warm, ROWS[:1]) is Thawed.DONE
    resident_upkeep.overheat(administrator.session, warm)
    return warm


def test_no_more_rows_become_hot_of_a_table_that_is_full(client, administrator, full):
    assert announce(client, full, 2) == Announcement(hot=False, is_full=True)
    assert announce(client, full) == Announcement(hot=False, is_full=True)
    searching = Writing(full, ()).announced(strict=False, searched=True)
    *_, (answer,) = client.session.writes.run_between(
        None, (), None, began=True, before=[searching]
    )
    assert hot_keys.announced(answer).is_full
    # Nobody has passed the gate, so that those who go on to lock the table meet nobody there.
    assert cool(administrator, full)


def test_what_is_announced_rests_on_the_plan(client, administrator, thawing, warm):
    assert thaw(thawing, administrator, warm, ROWS) is Thawed.DONE
    announced = Writing(warm, (("1",),)).announced(strict=True)
    basis = client.session.observations.basis(["t"])
    change = Query("UPDATE t SET b = b + 1 WHERE a = 1")

    def run() -> None:
        client.session.writes.run_between(
            change, ["t"], basis, began=True, before=[announced], commits=True
        )

    run()
    client.run("CREATE TEMP TABLE t (a int, b int)")
    with pytest.raises(OutdatedPlanError):
        run()
    client.run("DROP TABLE pg_temp.t")
    # Nothing is left of what has failed: others may let the rows go cold.
    assert cool(administrator, warm)
    assert client.run("SELECT count(*) FROM t") == [("0",)]


def test_hot_rows_of_a_table_that_is_full_are_written(client, full):
    write(client, full, "UPDATE t SET b = 11 WHERE a = 1", 1)
    assert client.run("SELECT b FROM t") == [("11",)]


def test_strict_inserts_are_told_that_rows_are_not_hot(client, full):
    with pytest.raises(CatalogError) as caught:
        announce(client, full, strict=True)
    assert caught.value.sqlstate == bookkeeping.NOT_HOT


def test_who_has_written_before_goes_on(client, full):
    assert announce(client, full, 1).is_complete
    assert announce(client, full, 2).cold == {("2",)}
    assert announce(client, full).hot
    client.session.transaction.rollback()
    assert announce(client, full, 2).is_full


def test_a_table_that_is_full_goes_cold_for_those_who_want_more(
    client, administrator, full, thawing
):
    assert thawing.cool(full)
    assert announce(client, full, 2) == Announcement(hot=False)
    assert thawing.warm(full)
    assert announce(client, full, 2).cold == {("2",)}
    client.session.transaction.rollback()
    # Who comes second leaves alone what has become hot since.
    assert thaw(thawing, administrator, full, ROWS) is Thawed.DONE
    assert thawing.cool(full)
    assert announce(client, full, 1, 2).is_complete


def test_a_table_that_is_written_does_not_go_cold_for_others(client, other, full, thawing):
    announce(client, full, 1)
    assert not thawing.cool(full)
    assert announce(other, full, 2).is_full


def test_only_hot_tables_are_full(client, administrator, table, thawing):
    resident_upkeep.overheat(administrator.session, table)
    assert thawing.warm(table)
    assert announce(client, table, 1).cold == {("1",)}


# upkeep -------------------------------------------------------------------------------------------


def test_upkeep_waits_for_nobody_who_may_wait_for_it(catalog, database, administrator, warm):
    """Whoever closes the gate has the tail, and comes to the journal's row afterwards."""
    administrator.run("SET statement_timeout = '10s'")
    closer = Client(catalog.admin(database))
    closer.run("SET search_path = public")
    closer.run("BEGIN")
    closer.run(f"LOCK TABLE pg_journal.tail_{warm} IN EXCLUSIVE MODE")
    administrator.session.transaction.begin()
    with pytest.raises(CatalogError) as caught:
        resident_upkeep.seize(administrator.session, warm)
    assert caught.value.sqlstate == "55P03"
    administrator.session.transaction.rollback()
    closer.run("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
    assert resident_upkeep.hot_tables(administrator.session) == []
    closer.session.close()


def await_waiter(administrator, condition: str) -> None:
    """Wait until a session waits for such a lock."""
    deadline = time.monotonic() + 30
    while not administrator.run(f"SELECT FROM pg_locks WHERE NOT granted AND {condition}"):
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.01)


def test_a_gate_is_not_kept_by_who_waited_there_until_rows_had_gone_cold(
    catalog, database, client, administrator, warm
):
    keeper = Client(catalog.admin(database))
    keeper.session.transaction.begin()
    keeper.run(f"LOCK TABLE pg_journal.tail_{warm} IN ROW SHARE MODE")
    administrator.run("SET lock_timeout = '5s'")
    with ThreadPoolExecutor() as threads:
        late = threads.submit(client.session.writes.begin_write, [warm])
        await_waiter(administrator, f"relation = 'pg_journal.tail_{warm}'::regclass")
        administrator.run(f"UPDATE pg_journal.journals SET is_hot = false WHERE relid = {warm}")
        # Who comes now has the table first, and its tail when there is something to append.
        administrator.session.writes.begin_write([warm])
        keeper.session.transaction.commit()
        await_waiter(administrator, "(locktype = 'transactionid' OR relation = 't'::regclass)")
        administrator.run(f"LOCK TABLE pg_journal.tail_{warm} IN ROW EXCLUSIVE MODE")
        administrator.session.transaction.commit()
        versions, _ = late.result()
    assert versions.keys() == {warm}
    keeper.session.close()


def test_who_lets_rows_become_hot_keeps_nobody_from_the_tail(client, administrator, table, thawing):
    client.run("SET lock_timeout = '500ms'")
    client.session.writes.begin_write([table])
    with ThreadPoolExecutor() as threads:
        warming = threads.submit(thawing.warm, table)
        await_waiter(administrator, "relation = 't'::regclass")
        client.insert("t", "INSERT INTO t VALUES (3, 30)", commit=False)
        client.session.transaction.commit()
        assert warming.result()


def test_types_of_hot_keys_are_those_the_rewriter_compares(administrator):
    found = administrator.run(
        "SELECT oid::int8, pg_journal.is_compared_type(oid), pg_journal.has_key_bounds(oid)"
        " FROM pg_type"
    )
    assert {int(oid) for oid, is_compared, _ in found if is_compared == "t"} == set(COMPARED)
    assert {int(oid) for oid, _, is_bounded in found if is_bounded == "t"} == BOUNDED


def test_columns_of_hot_keys_are_those_with_one_form(administrator):
    modifiers = [-1, *(length + 4 for length in (0, 1, 5, 38))]
    modifiers += [
        ((precision << 16) | (scale & 2047)) + 4
        for precision in (1, 10, 38, 39, 1000)
        for scale in (0, 2, 10, 38, 39, -1)
    ]
    listed = ", ".join(map(str, modifiers))
    found = administrator.run(
        "SELECT t.oid::int8, m, pg_journal.is_hot_key_type(t.oid, m)"
        f" FROM pg_type t CROSS JOIN unnest(ARRAY[{listed}]) m WHERE t.typlen <> 0"
        " AND (m = -1 OR t.typmodin <> 0)"
    )
    told = {(int(oid), int(typmod)): is_hot == "t" for oid, typmod, is_hot in found}
    assert told == {value_type: has_one_form(*value_type) for value_type in told}


def guarded(client, relid, sql, *keys, basis=None):
    """Announce and run a statement of an open transaction in one trip; return its tag."""
    call = Writing(relid, tuple((str(key),) for key in keys)).announced(strict=True)
    result, _ = client.session.writes.run_between(
        Query(sql), (), basis, began=False, before=[call], guarded=True
    )
    return result.command_tag


def test_a_transaction_goes_on_where_a_row_was_not_hot(client, administrator, warm, thawing):
    assert thaw(thawing, administrator, warm, ROWS[:1]) is Thawed.DONE
    client.run("BEGIN")
    client.run("SAVEPOINT pgwire_guard")
    assert guarded(client, warm, "UPDATE t SET b = 11 WHERE a = 1", 1) == "UPDATE 1"
    with pytest.raises(CatalogError) as raised:
        guarded(client, warm, "UPDATE t SET b = 12 WHERE a IN (1, 2)", 1, 2)
    assert raised.value.sqlstate == bookkeeping.NOT_HOT
    assert client.run("SELECT * FROM t") == [("1", "11")]
    with pytest.raises(OutdatedPlanError):
        guarded(client, warm, "UPDATE t SET b = 13 WHERE a = 1", 1, basis=Basis(0, "another"))
    assert guarded(client, warm, "UPDATE t SET b = b + 3 WHERE a = 1", 1) == "UPDATE 1"
    client.run("COMMIT")
    assert client.run("SELECT * FROM t") == [("1", "14")]
    written = f"SELECT c2 FROM pg_journal.tail_{warm} ORDER BY version_number DESC LIMIT 2"
    assert administrator.run(written) == [("14",), ("11",)]


def test_a_guarded_statement_that_fails_fails_its_transaction(client, administrator, warm, thawing):
    assert thaw(thawing, administrator, warm, ROWS[:1]) is Thawed.DONE
    client.run("BEGIN")
    client.run("SAVEPOINT own")
    with pytest.raises(CatalogError) as raised:
        guarded(client, warm, "UPDATE t SET b = 1 / 0 WHERE a = 1", 1)
    assert (raised.value.sqlstate, client.session.transaction_status) == ("22012", "E")
    client.run("ROLLBACK TO own")
    assert guarded(client, warm, "UPDATE t SET b = 15 WHERE a = 1", 1) == "UPDATE 1"
    client.run("COMMIT")
    assert client.run("SELECT * FROM t") == [("1", "15")]
