"""Hot rows that are not what the journal says: upkeep finds them, tells, and leaves them be."""

import logging
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from catalog.connection.steps import Query
from catalog.hot import resident_upkeep
from catalog.hot.hot_keys import Reading, Thawed, Writing
from pgwire_gateway.config import Config
from pgwire_gateway.upkeep import hot_tables
from pgwire_gateway.upkeep.filed_rows import FiledRows
from pgwire_gateway.upkeep.hot_tables import HotTables
from tests.support.fix_catalog import Client

pytestmark = pytest.mark.catalog

MANY = 1000

UNREAD = FiledRows(cast("Any", None))
"""There are no files."""


@pytest.fixture
def administrator(catalog, database) -> Iterator[Client]:
    """A superuser whose changes nothing captures."""
    opened = Client(catalog.admin(database))
    opened.run("SET search_path = public")
    opened.run("SET session_replication_role = replica")
    yield opened
    opened.session.close()


@pytest.fixture
def hot(client, administrator, catalog, database) -> int:
    """A tiered table of three rows and a key without row, all hot; one row has been changed."""
    client.run("CREATE TABLE t (a int PRIMARY KEY, b text, c timestamptz)")
    client.insert(
        "t", "INSERT INTO t VALUES (1, 'one', '2020-01-01'), (2, 'two', NULL), (3, NULL, NULL)"
    )
    relid = client.relid("t")
    thawing = catalog.thawing(database)
    assert thawing.warm(relid)
    ((heats, epoch, seen),) = administrator.run(
        f"SELECT heats, epoch, pg_current_snapshot() FROM pg_journal.journals WHERE relid = {relid}"
    )
    rows = [
        ["1", "one", "2020-01-01 00:00:00+00", None],
        ["2", "two", None, None],
        ["3", None, None, None],
    ]
    reading = Reading(int(heats), int(epoch), seen)
    absent = [["4", None, None, None]]
    assert thawing.thaw(relid, reading, rows, absent) is Thawed.DONE
    write(client, relid, "UPDATE t SET b = 'changed' WHERE a = 1", 1)
    return relid


def write(client, relid, sql, *keys) -> None:
    """Announce and run a statement, and commit."""
    call = Writing(relid, tuple((str(key),) for key in keys)).announced(strict=True)
    client.session.writes.run_between(Query(sql), (), None, began=True, before=[call], commits=True)


def differing(administrator, relid, most=MANY) -> int:
    return len(resident_upkeep.differing_keys(administrator.session, relid, most))


FALSIFIED = {
    "a value": "UPDATE t SET b = 'false' WHERE a = 1",
    "a value of a row that was only thawed": "UPDATE t SET b = 'false' WHERE a = 2",
    "a value that is NULL": "UPDATE t SET c = NULL WHERE a = 1",
    "a row that is gone": "DELETE FROM t WHERE a = 3",
    "a row that nobody has inserted": "INSERT INTO t VALUES (4, 'new')",
    "a row of a key that is not hot": "INSERT INTO t VALUES (7, 'new')",
    "the newest version": "DELETE FROM pg_journal.tail_{0} WHERE c1 = 1 AND c2 = 'changed'",
    "all versions": "DELETE FROM pg_journal.tail_{0} WHERE c1 = 2",
    "a version too many": (
        "INSERT INTO pg_journal.tail_{0} (c1, c2, version_number)"
        " VALUES (3, 'false', clock_timestamp())"
    ),
    "a tombstone too many": (
        "INSERT INTO pg_journal.tail_{0} (c1, version_number, subsequent_version_number)"
        " VALUES (3, clock_timestamp(), clock_timestamp())"
    ),
}


def test_rows_are_what_the_journal_says(client, administrator, hot):
    assert differing(administrator, hot) == 0
    write(client, hot, "DELETE FROM t WHERE a = 3", 3)
    write(client, hot, "INSERT INTO t VALUES (4, 'four')", 4)
    write(client, hot, "UPDATE t SET c = '2021-01-01 12:00+01' WHERE a = 2", 2)
    client.run("SET timezone = 'Asia/Tokyo'")
    client.run("SET datestyle = 'German'")
    assert differing(administrator, hot) == 0


@pytest.mark.parametrize("falsified", FALSIFIED)
def test_what_was_falsified_is_found(administrator, hot, falsified):
    administrator.run(FALSIFIED[falsified].format(hot))
    assert differing(administrator, hot) == 1
    assert differing(administrator, hot, 0) == 0


def test_what_a_transaction_has_not_committed_is_no_difference(client, other, administrator, hot):
    call = Writing(hot, (("2",),)).announced(strict=True)
    other.session.transaction.begin()
    change = Query("UPDATE t SET b = 'later' WHERE a = 2")
    other.session.writes.run_between(change, (), None, began=False, before=[call])
    assert differing(administrator, hot) == 0
    other.session.transaction.commit()
    assert differing(administrator, hot) == 0


def test_a_table_without_hot_rows_has_none_that_differ(administrator, hot):
    administrator.run("SET session_replication_role = origin")
    assert resident_upkeep.cool(administrator.session, hot)
    assert differing(administrator, hot) == 0


def test_where_there_are_files_rows_are_compared_whose_versions_are_in_the_tail(
    client, administrator, hot
):
    administrator.run(f"DELETE FROM pg_journal.tail_{hot} WHERE c1 = 2")
    assert differing(administrator, hot) == 1
    administrator.run(
        "INSERT INTO pg_journal.segments (segment_id, relid, kind, path, row_count, size_bytes,"
        " attnums, min_version, max_version)"
        f" VALUES (1, {hot}, 'delta', '1/1/delta-1', 1, 1, '{{1,2,3}}',"
        " '2020-01-01', '2020-01-01')"
    )
    assert differing(administrator, hot) == 0
    administrator.run("UPDATE t SET b = 'false' WHERE a = 1")
    assert differing(administrator, hot) == 1


def test_a_version_in_files_may_be_newer_than_the_one_in_the_tail(client, administrator, hot):
    """A statement that changes many rows writes a file, beside a tail with older versions."""
    administrator.run("UPDATE t SET b = 'by many' WHERE a = 2")
    assert differing(administrator, hot) == 1
    administrator.run(
        "INSERT INTO pg_journal.segments (segment_id, relid, kind, path, row_count, size_bytes,"
        " attnums, min_version, max_version)"
        f" VALUES (1, {hot}, 'delta', '1/1/delta-1', 1, 1, '{{1,2,3}}', now(), now())"
    )
    assert differing(administrator, hot) == 0
    # What is written later is in the tail again.
    write(client, hot, "UPDATE t SET b = 'later' WHERE a = 1", 1)
    assert differing(administrator, hot) == 0
    administrator.run("UPDATE t SET b = 'false' WHERE a = 1")
    assert differing(administrator, hot) == 1


def test_files_may_be_newer_than_what_emptied_the_table(administrator, hot):
    administrator.run(
        f"INSERT INTO pg_journal.tail_{hot} (row_identity, version_number)"
        " VALUES (pg_journal.truncation_mark(), clock_timestamp())"
    )
    assert differing(administrator, hot) == 3
    administrator.run(
        "INSERT INTO pg_journal.segments (segment_id, relid, kind, path, row_count, size_bytes,"
        " attnums, min_version, max_version)"
        f" VALUES (1, {hot}, 'delta', '1/1/delta-1', 3, 1, '{{1,2,3}}',"
        " clock_timestamp(), clock_timestamp())"
    )
    assert differing(administrator, hot) == 0


# upkeep -------------------------------------------------------------------------------------------


@pytest.fixture
def visit(catalog, database, lanes) -> Callable[[], None]:
    """Upkeep that would let rows go cold at each visit."""
    upkeep = HotTables(database, Config(hot_rows=0, hot_age_s=0), catalog, UNREAD, lambda *_: None)
    return lambda: upkeep.visit(lanes)


def shown(client) -> tuple[str | None, ...]:
    (row,) = client.run(
        "SELECT state, failures > 0, last_failure, work FROM pg_journal.maintenance"
        " WHERE table_name = 't'"
    )
    return row


def test_upkeep_tells_and_lets_no_row_go_cold(client, administrator, hot, visit, caplog):
    administrator.run("UPDATE t SET b = 'false' WHERE a = 2")
    with caplog.at_level(logging.ERROR):
        visit()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert f"1 hot rows of table {hot} are not what its journal says" in "\n".join(caplog.messages)
    assert shown(client) == ("hot", "t", "XX001", None)
    assert administrator.run("SELECT count(*) FROM ONLY t") == [("3",)]
    administrator.run("UPDATE t SET b = 'two' WHERE a = 2")
    administrator.run("SET session_replication_role = origin")
    visit()
    assert shown(client) == ("tiered", "f", None, None)


@pytest.mark.usefixtures("hot")
def test_a_sample_that_is_equal_does_not_end_it(client, administrator, visit, monkeypatch):
    administrator.run("UPDATE t SET b = 'false' WHERE a = 2")
    visit()
    monkeypatch.setattr(hot_tables, "SAMPLE", 0)
    administrator.run("SET session_replication_role = origin")
    visit()
    assert shown(client) == ("hot", "t", "XX001", None)


@pytest.mark.usefixtures("hot")
def test_rows_that_are_to_stay_hot_are_compared_now_and_then(
    catalog, client, lanes, administrator, monkeypatch
):
    upkeep = HotTables("d", Config(hot_rows=1000, hot_age_s=3600), catalog, UNREAD, lambda *_: None)
    upkeep.visit(lanes)
    administrator.run("UPDATE t SET b = 'false' WHERE a = 2")
    upkeep.visit(lanes)
    assert shown(client) == ("hot", "f", None, None)
    monkeypatch.setattr(hot_tables, "COMPARE_S", 0.0)
    upkeep.visit(lanes)
    assert shown(client) == ("hot", "t", "XX001", None)
