"""What clients see of upkeep (``gateway.maintenance``), and what upkeep does not wait for."""

import threading

import pytest

from catalog.errors import CatalogError
from catalog.hot import resident_upkeep
from catalog.session import residency
from catalog.upkeep.work import Work
from tests.support.fix_catalog import PATIENCE_S, Client, wait_until_waiting

pytestmark = pytest.mark.catalog

PATIENCE = "SET statement_timeout = '10s'"
"""What does not wait ends long before."""


@pytest.fixture
def table(client, inspector):
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int)")
    client.run("INSERT INTO t VALUES (1, 10), (2, 20)")
    inspector.run(PATIENCE)
    return client.relid("t")


@pytest.fixture
def hot(client, inspector, catalog, database):
    """A tiered table that can have hot rows."""
    client.run("CREATE TABLE h (a int PRIMARY KEY, b int)")
    relid = client.relid("h")
    resident_upkeep.make_tiered(inspector.session, relid)
    assert catalog.thawing(database).warm(relid)
    inspector.run(PATIENCE)
    return relid


def shown(client, *columns, table="t"):
    """Return columns of a table's row in gateway.maintenance."""
    query = f"SELECT {', '.join(columns)} FROM pg_journal.maintenance WHERE table_name = '{table}'"
    (row,) = client.run(query)
    return row


# what is seen -------------------------------------------------------------------------------------


def test_what_there_is_of_a_table(client, table, hot):
    assert shown(client, "schema_name", "state", "options") == ("public", "resident", None)
    assert shown(client, "tail_rows", "tail_bytes > 0", "table_bytes > 0") == ("2", "t", "t")
    assert shown(client, "state", "hot_rows", table="h") == ("hot", "0")
    never = ("last_flushed", "last_compacted", "last_cooled", "work", "last_failure")
    assert shown(client, *never) == (None,) * len(never)


def test_roles_see_what_they_may_read_or_maintain(client, table, reader):
    def seen():
        return reader.run("SELECT table_name FROM pg_journal.maintenance")

    role = reader.value("SELECT current_user")
    assert seen() == []
    for privilege in ("SELECT", "MAINTAIN"):
        client.run(f"GRANT {privilege} ON t TO {role}")
        assert seen() == [("t",)]
        client.run(f"REVOKE {privilege} ON t FROM {role}")
    assert seen() == []


def test_work_is_seen_while_it_lasts(client, inspector, table):
    with Work(inspector.session, table, "flush") as work:
        work.begin("reading the tail")
        (since,) = shown(client, "working_since")
        work.begin("writing files", 7)
        assert shown(client, "work", "phase", "phase_rows") == ("flush", "writing files", "7")
        assert shown(client, "working_since") == (since,)
    assert shown(client, "work", "phase", "phase_rows", "working_since") == (None,) * 4
    assert shown(client, "failures", "last_failure", "next_attempt") == ("0", None, None)


def test_failures_are_counted_until_one_succeeds(client, inspector, table):
    def fail():
        with Work(inspector.session, table, "cooling") as work:
            work.pause_s = 60.0
            work.begin("waiting for writers")
            inspector.run("SELECT 1 / 0")

    for number in (1, 2):
        with pytest.raises(CatalogError):
            fail()
        found = shown(client, "work", "failures", "last_failure", "next_attempt > now() + '50 s'")
        assert found == (None, str(number), "22012", "t")
    with Work(inspector.session, table, "cooling") as work:
        work.begin("waiting for writers")
    assert shown(client, "failures", "last_failure", "next_attempt") == ("0", None, None)


def test_what_somebody_did_who_died_is_not_taken_for_going_on(client, catalog, database, table):
    session = catalog.admin(database)
    Work(session, table, "flush").begin("writing files")
    assert shown(client, "work") == ("flush",)
    client_pid = session.backend_pid
    session.close()
    for _ in range(100):
        if client.run(f"SELECT FROM pg_stat_activity WHERE pid = {client_pid}") == []:
            break
        client.run("SELECT pg_sleep(0.05)")
    assert shown(client, "work", "working_since") == (None, None)


def test_nobody_waits_for_a_table_that_others_have_locked(client, other, table):
    client.run("BEGIN")
    client.run("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
    other.run(PATIENCE)
    sizes = ("table_bytes", "tail_rows", "tail_bytes")
    assert shown(other, "state", *sizes) == ("resident", None, None, None)


def test_who_has_looked_keeps_nobody_from_a_table(client, other, table, hot):
    other.run("BEGIN READ ONLY")
    assert shown(other, "tail_rows") == ("2",)
    client.run("SET lock_timeout = '5s'")
    client.run("BEGIN")
    client.run("LOCK TABLE t, h IN ACCESS EXCLUSIVE MODE")


def test_a_table_that_is_dropped_is_gone(client, inspector, table):
    with Work(inspector.session, table, "flush") as work:
        work.begin("writing files")
        client.run("DROP TABLE t")
        assert inspector.run("SELECT count(*) FROM pg_journal.upkeep") == [("0",)]
        work.begin("publishing")
    assert inspector.run("SELECT count(*) FROM pg_journal.upkeep") == [("0",)]
    assert client.run("SELECT * FROM pg_journal.maintenance") == []


# bounds of a table's own --------------------------------------------------------------------------


def test_bounds_of_a_table(client, inspector, hot):
    for bound, value in (("hot_rows", "7"), ("hot_age_s", "1.5"), ("thaw_rows", "0")):
        residency.ask_bound(client.session, hot, bound, value)
    assert shown(client, "options", table="h") == ("{hot_rows=7,hot_age_s=1.5,thaw_rows=0}",)
    (found,) = resident_upkeep.hot_tables(inspector.session)
    assert (found.asked_rows, found.asked_age_s) == (7, 1.5)
    residency.ask_bound(client.session, hot, "hot_rows", None)
    assert shown(client, "options", table="h") == ("{hot_age_s=1.5,thaw_rows=0}",)


@pytest.mark.parametrize(
    ("bound", "value"),
    [("hot_rows", "-1"), ("hot_rows", "1.5"), ("thaw_rows", "many"), ("hot_age_s", "1e9")],
)
def test_bounds_are_numbers(client, hot, bound, value):
    with pytest.raises(CatalogError) as caught:
        residency.ask_bound(client.session, hot, bound, value)
    assert caught.value.sqlstate == "22023"


def test_bounds_are_the_owners_to_set(client, reader, hot):
    client.run(f"GRANT ALL ON h TO {reader.value('SELECT current_user')}")
    with pytest.raises(CatalogError) as caught:
        residency.ask_bound(reader.session, hot, "hot_rows", "7")
    assert caught.value.sqlstate == "42501"


# what upkeep does not wait for --------------------------------------------------------------------


def test_locked_tables_are_not_counted(client, other, inspector, table, hot):
    client.run("BEGIN")
    client.run("LOCK TABLE t, h IN ACCESS EXCLUSIVE MODE")
    other.run("CREATE TABLE u (a int PRIMARY KEY)")
    known = resident_upkeep.resident_tables(inspector.session, {}, 0.0)
    assert [one.relid for one in known] == [other.relid("u")]
    assert resident_upkeep.hot_tables(inspector.session) == []
    client.session.transaction.rollback()
    known = resident_upkeep.resident_tables(inspector.session, {}, 0.0)
    assert {one.relid for one in known} == {table, other.relid("u")}
    assert [one.relid for one in resident_upkeep.hot_tables(inspector.session)] == [hot]


def test_rows_that_were_inserted_are_hot_too(client, inspector, hot):
    inspector.run("SET session_replication_role = replica")
    inspector.run("INSERT INTO h SELECT g, g FROM generate_series(1, 7) g")
    assert [one.hot_rows for one in resident_upkeep.hot_tables(inspector.session)] == [7]
    assert shown(client, "hot_rows", table="h") == ("7",)


def test_no_lock_is_kept_of_what_has_been_counted(client, inspector, table, hot):
    inspector.session.transaction.begin()
    assert resident_upkeep.resident_tables(inspector.session, {}, 0.0)
    assert resident_upkeep.hot_tables(inspector.session)
    client.run("SET lock_timeout = '5s'")
    client.run("BEGIN")
    client.run("LOCK TABLE t, h IN ACCESS EXCLUSIVE MODE")


def test_who_swaps_segments_waits_for_nobody_while_others_may_wait_for_it(
    catalog, database, inspector, table
):
    """Who drops a table, or lets its rows go cold, locks the tail before or after the journal."""
    closer = catalog.admin(database)
    closer.transaction.begin()
    for _ in closer.execute(f"LOCK TABLE pg_journal.tail_{table} IN EXCLUSIVE MODE").rows:
        pass
    inspector.session.transaction.begin()
    with pytest.raises(CatalogError) as caught:
        resident_upkeep.seize(inspector.session, table)
    assert caught.value.sqlstate == "55P03"
    inspector.session.transaction.rollback()
    closer.close()
    inspector.session.transaction.begin()
    resident_upkeep.seize(inspector.session, table)
    inspector.session.transaction.rollback()


def test_who_drops_a_table_and_who_swaps_its_segments_do_not_deadlock(client, inspector, table):
    inspector.session.transaction.begin()
    resident_upkeep.seize(inspector.session, table)
    dropped = threading.Thread(target=client.run, args=["DROP TABLE t"])
    dropped.start()
    wait_until_waiting(client, inspector, "Lock")
    state = Client(inspector.session).state("t")
    inspector.session.journals.replace(table, [], [], None, expected_state=state)
    inspector.session.transaction.commit()
    dropped.join(PATIENCE_S)
    assert client.run("SELECT to_regclass('t')") == [(None,)]
