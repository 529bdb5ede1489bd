"""Hot keys of transactions that read by one snapshot, and make them hot themselves."""

import threading

import pytest

from catalog.bookkeeping import calls as bookkeeping
from catalog.errors import CatalogError
from catalog.hot import hot_keys, resident_upkeep
from catalog.hot.hot_keys import Announcement, Locked, Writing
from tests.support.fix_catalog import Client, wait_until_waiting

pytestmark = pytest.mark.catalog

ROWS = {1: ["1", "10", None], 2: ["2", "20", None]}
"""Rows of the table: texts of all columns, and None."""

PATIENCE_S = 20.0


@pytest.fixture
def table(client):
    """A tiered table whose rows are in its tail."""
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int)")
    client.insert("t", "INSERT INTO t VALUES (1, 10), (2, 20)")
    return client.relid("t")


def begin(session: Client, level: str = "REPEATABLE READ", table: str = "t") -> None:
    """Begin a transaction, and have it take its snapshot."""
    session.run(f"BEGIN ISOLATION LEVEL {level}")
    session.snapshot(table)


def announce(session: Client, relid: int, *keys: int, own: bool = True) -> Announcement:
    writing = Writing(relid, tuple((str(key),) for key in keys) if keys else None, own=own)
    before = [writing.announced(strict=False)]
    *_, (answer,) = session.session.writes.run_between(None, (), None, began=False, before=before)
    return hot_keys.announced(answer)


def heat(session: Client, relid: int, *keys: int) -> None:
    """Make keys hot, as whoever has announced it does."""
    announced = announce(session, relid, *keys)
    assert announced.own
    cold = {int(key) for (key,) in announced.cold}
    absent = [[key, None, None] for (key,) in announced.held]
    function, values = hot_keys.heating(relid, [ROWS[key] for key in sorted(cold)], absent)
    session.session.call(function, *values)


def write(session: Client, relid: int, key: int, value: int) -> None:
    heat(session, relid, key)
    assert session.session.transaction_status == "T"
    session.run(f"UPDATE t SET b = {value} WHERE a = {key}")


def tail(session: Client, table: str = "t") -> list[list]:
    """Return the tail as this transaction sees it."""
    relid = session.relid(table)
    return [row[:2] for row in session.snapshot(table).tails[relid].rows]


def refused(action) -> str:
    with pytest.raises(CatalogError) as caught:
        action()
    return caught.value.sqlstate


def test_rows_of_a_cold_table_are_written_one_by_one(client, other, table, thawing):
    begin(client)
    begin(other)
    assert announce(client, table, 1) == Announcement(hot=False, own=True)
    assert thawing.warm(table)
    assert announce(client, table, 1).new
    write(client, table, 1, 11)
    write(other, table, 2, 22)
    assert client.run("SELECT * FROM t") == [("1", "11")]
    assert tail(client) == [[1, 10], [2, 20], [1, 11]]
    assert tail(other) == [[1, 10], [2, 20], [2, 22]]
    client.session.transaction.commit()
    other.session.transaction.commit()
    assert client.run("SELECT * FROM t ORDER BY a") == [("1", "11"), ("2", "22")]
    assert tail(client) == [[1, 10], [2, 20], [1, 11], [2, 22]]


def test_who_does_not_make_rows_hot_itself_gets_none(client, table, thawing):
    assert thawing.warm(table)
    begin(client)
    assert announce(client, table, 1, own=False) == Announcement(hot=False, by_snapshot=True)


def test_a_key_that_others_have_made_hot_since_fails(client, other, table, thawing):
    assert thawing.warm(table)
    begin(other)
    client.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    heat(client, table, 1)
    client.session.transaction.commit()
    assert refused(lambda: heat(other, table, 1)) == "40001"
    other.session.transaction.rollback()
    begin(other)
    write(other, table, 1, 11)
    other.session.transaction.commit()


def test_a_row_that_others_have_deleted_since_is_not_put_back(client, other, table, thawing):
    assert thawing.warm(table)
    client.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    announce(client, table)
    client.run("INSERT INTO t VALUES (3, 30)")
    client.session.transaction.commit()
    begin(other)
    # As a statement by a condition, which needs no key.
    client.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    announce(client, table)
    client.run("DELETE FROM t WHERE a = 3")
    client.session.transaction.commit()
    assert announce(other, table, 3).held == {("3",)}
    function, values = hot_keys.heating(table, [["3", "30", None]], [])
    other.session.call(function, *values)
    assert refused(lambda: other.run("UPDATE t SET b = 31 WHERE a = 3")) == "40001"


def test_a_table_that_was_written_since_before_it_got_hot_rows_fails(client, other, table, thawing):
    begin(other)
    client.insert("t", "INSERT INTO t VALUES (3, 30)")
    assert thawing.warm(table)
    assert refused(lambda: announce(other, table, 1)) == "40001"


def test_a_table_that_went_cold_since_fails(client, other, table, administrator, thawing):
    assert thawing.warm(table)
    begin(other)
    assert resident_upkeep.cool(administrator.session, table)
    assert announce(other, table, 1) == Announcement(hot=False, own=True)
    assert thawing.warm(table)
    assert refused(lambda: announce(other, table, 1)) == "40001"


def test_rows_stay_hot_while_a_transaction_has_them(client, table, administrator, thawing):
    assert thawing.warm(table)
    begin(client)
    client.run("SAVEPOINT s")
    heat(client, table, 1)
    administrator.run("SET lock_timeout = 100")
    assert refused(lambda: resident_upkeep.cool(administrator.session, table)) == "55P03"
    client.run("ROLLBACK TO s")
    assert client.run("SELECT * FROM t") == []
    assert resident_upkeep.cool(administrator.session, table)
    client.session.transaction.rollback()


def test_a_table_that_has_just_been_warmed_is_not_at_rest(client, table, administrator, thawing):
    assert thawing.warm(table)
    begin(client)
    heat(client, table, 1)
    (told,) = resident_upkeep.hot_tables(administrator.session)
    assert told.hot_rows == 0
    assert told.rest_s < PATIENCE_S


def test_who_waits_goes_on_when_a_savepoint_is_gone_back_to(client, other, connect, table, thawing):
    assert thawing.warm(table)
    begin(client)
    begin(other)
    client.run("SAVEPOINT s")
    write(client, table, 1, 11)
    thread = threading.Thread(target=lambda: write(other, table, 1, 12))
    thread.start()
    wait_until_waiting(other, connect(), "Lock")
    client.run("ROLLBACK TO s")
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    other.session.transaction.commit()
    client.session.transaction.commit()
    assert client.run("SELECT * FROM t") == [("1", "12")]


def test_the_table_is_written_as_a_whole_afterwards(client, other, table, thawing):
    assert thawing.warm(table)
    begin(client)
    write(client, table, 1, 11)
    versions, _ = client.session.writes.begin_write([table])
    assert versions[table] > 0
    assert client.run("SELECT * FROM t") == []
    assert tail(client) == [[1, 10], [2, 20], [1, 11]]
    client.session.transaction.commit()
    begin(other)
    assert announce(other, table, 1) == Announcement(hot=False, own=True)


def test_but_not_where_it_was_cold(client, table, thawing):
    begin(client)
    assert thawing.warm(table)
    write(client, table, 1, 11)
    assert refused(lambda: client.session.writes.begin_write([table])) == "40001"


@pytest.mark.parametrize("deferrable", ["", "DEFERRABLE"])
def test_tables_whose_foreign_keys_can_be_deferred_are_written_as_a_whole(
    client, table, thawing, deferrable
):
    client.run(f"CREATE TABLE child (a int PRIMARY KEY, b int REFERENCES t {deferrable})")
    for name in ("t", "child"):
        relid = client.relid(name)
        assert thawing.warm(relid)
        begin(client, table=name)
        announced = announce(client, relid, 1)
        if deferrable:
            assert announced == Announcement(hot=False, by_snapshot=True)
        else:
            assert announced.own
        client.session.transaction.rollback()


def test_rows_that_others_are_making_hot_are_not_waited_for(client, other, table, thawing):
    assert thawing.warm(table)
    begin(client)
    begin(other)
    heat(client, table, 1)
    assert announce(other, table, 1, 2).own
    rows = [ROWS[1], ROWS[2]]
    other.run("SAVEPOINT s")
    function, values = hot_keys.heating_unwaited(table, rows, skips=False)
    assert refused(lambda: other.session.call(function, *values)) == "55P03"
    other.run("ROLLBACK TO s")
    function, values = hot_keys.heating_unwaited(table, rows, skips=True)
    other.session.call(function, *values)
    assert other.run("SELECT * FROM t") == [("2", "20")]
    client.session.transaction.rollback()
    function, values = hot_keys.heating_unwaited(table, rows[:1], skips=False)
    other.session.call(function, *values)
    other.run("SELECT FROM t WHERE a = 1 FOR SHARE")
    function, values = hot_keys.looking_for_locks(table)
    told = hot_keys.locked(other.session.call(function, *values))
    assert told == Locked(frozenset({("1",)}), others=True)
    other.session.transaction.commit()


def test_nobody_else_makes_keys_hot(client, table, thawing):
    assert thawing.warm(table)
    begin(client)
    with pytest.raises(CatalogError) as caught:
        client.session.execute_parameters(
            f"SELECT pg_journal.{bookkeeping.HEAT_KEYS.name}('x', {table}, '[]', '[]')", []
        )
    assert caught.value.sqlstate == "42501"
    client.session.transaction.rollback()
    assert client.run(
        f"SELECT has_function_privilege('pg_journal.heat_{table}(json, json)', 'EXECUTE'),"
        f" has_function_privilege('pg_journal.warmth_{table}()', 'EXECUTE')"
    ) == [("f", "f")]


@pytest.mark.parametrize("is_warm", [True, False])
def test_write_skew_of_single_rows_is_detected(client, other, thawing, is_warm):
    tables = ("x", "y")
    for name in tables:
        client.run(f"CREATE TABLE {name} (a int PRIMARY KEY)")
    if is_warm:
        assert all(thawing.warm(client.relid(name)) for name in tables)
    for session, read in ((client, "x"), (other, "y")):
        begin(session, "SERIALIZABLE", read)
    assert all(thawing.warm(client.relid(name)) for name in tables)
    for session, written in ((client, "y"), (other, "x")):
        assert announce(session, client.relid(written)).own
        session.run(f"INSERT INTO {written} VALUES (1)")
    client.session.transaction.commit()
    assert refused(other.session.transaction.commit) == "40001"


def test_single_rows_that_nobody_else_reads_are_written_under_serializable(
    client, other, table, thawing
):
    assert thawing.warm(table)
    client.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    heat(client, table, 1, 2)
    client.session.transaction.commit()
    for session in (client, other):
        session.run("BEGIN ISOLATION LEVEL SERIALIZABLE")
    for session, key in ((client, 1), (other, 2)):
        assert announce(session, table, key).is_complete
        session.run(f"UPDATE t SET b = 0 WHERE a = {key}")
    client.session.transaction.commit()
    other.session.transaction.commit()
    assert client.run("SELECT * FROM t ORDER BY a") == [("1", "0"), ("2", "0")]
