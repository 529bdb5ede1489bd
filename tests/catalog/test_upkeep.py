"""What upkeep asks of resident tables: it counts what has changed, and nothing else."""

import time

import pytest

from catalog.hot import resident_upkeep
from catalog.session import residency
from tests.support.fix_catalog import PATIENCE_S

pytestmark = pytest.mark.catalog


@pytest.fixture
def look(client, inspector):
    """Returns what is known of ``t``, once statistics tell of so many row versions in its tail."""
    known = {}

    def visit(tail_changes):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            tables = resident_upkeep.resident_tables(inspector.session, known, 1.0)
            known.update((table.relid, table) for table in tables)
            found = known[client.relid("t")]
            if found.tail_changes == tail_changes:
                return found
            time.sleep(0.1)
        raise TimeoutError

    return visit


def tail(client):
    return f"pg_journal.tail_{client.relid('t')}"


def test_a_tail_that_has_not_grown_is_not_counted_again(client, inspector, look):
    client.run("CREATE TABLE t (id int PRIMARY KEY)")
    client.run("INSERT INTO t VALUES (1), (2)")
    client.run("SELECT pg_stat_force_next_flush()")
    first = look(2)
    assert (first.tail_rows, first.writers) == (2, 1)
    # Nobody but upkeep itself takes rows out of a tail.
    inspector.run(f"DELETE FROM {tail(client)}")
    second = look(2)
    assert (second.tail_rows, second.writers) == (2, 1)
    assert second.rest_s == pytest.approx(first.rest_s + 1.0)
    client.run("INSERT INTO t VALUES (3)")
    client.run("SELECT pg_stat_force_next_flush()")
    third = look(3)
    assert (third.tail_rows, third.writers) == (1, 1)


def test_without_statistics_tails_are_always_counted(client, inspector, look):
    client.run("CREATE TABLE t (id int PRIMARY KEY)")
    client.run("INSERT INTO t VALUES (1), (2)")
    client.run("SELECT pg_stat_force_next_flush()")
    assert look(2).tail_rows == 2
    inspector.run("SET track_counts = off")
    inspector.run(f"DELETE FROM {tail(client)}")
    assert look(2).tail_rows == 0


def test_rows_are_counted_when_they_have_changed(client, inspector, look):
    inspector.run("SELECT pg_journal.configure(10, 67108864, 1000)")
    client.run("CREATE TABLE t (id int PRIMARY KEY)")
    client.run("INSERT INTO t SELECT generate_series(1, 800)")
    client.run("SELECT pg_stat_force_next_flush()")
    assert look(800).rows == 800
    assert look(800).rows == 800
    client.run("DELETE FROM t WHERE id > 500")
    client.run("SELECT pg_stat_force_next_flush()")
    assert look(1100).rows == 500


def test_what_is_asked_for_is_told_though_no_row_has_changed(client, inspector, look):
    inspector.run("SELECT pg_journal.configure(10, 67108864, 1000)")
    client.run("CREATE TABLE t (id int PRIMARY KEY)")
    client.run("INSERT INTO t SELECT generate_series(1, 8)")
    client.run("SELECT pg_stat_force_next_flush()")
    assert (look(8).rows, look(8).asked) == (8, "auto")
    for asked in ("never", "always", "auto"):
        residency.ask(client.session, client.relid("t"), asked)
        assert (look(8).rows, look(8).asked) == (8, asked)
