"""Rows that are written to the tail of a tiered table without being hot are there, or XX001."""

from collections.abc import Callable

import pytest

from catalog.errors import GatewayError
from catalog.pg import sqlstate
from catalog.results import SnapshotRequest
from tests.support.fix_catalog import Client
from tests.support.lossy_tails import lose

pytestmark = pytest.mark.catalog

KEYED = "CREATE TABLE t (id int PRIMARY KEY, v int)"

KEYLESS = "CREATE TABLE t (id int, v int)"


def appended(client: Client, rows: list[list[str | None]], gone: list[list[str | None]]) -> None:
    """Write row versions and tombstones."""
    relid = client.relid("t")
    versions, _ = client.session.writes.begin_write([relid], [])
    client.session.journals.append(relid, versions[relid], rows, gone)


WRITES: dict[str, tuple[str, str, Callable[[Client], object]]] = {
    "INSERT": (KEYED, "new.c1 = 5", lambda c: c.insert("t", "INSERT INTO t VALUES (5, 1), (6, 1)")),
    "INSERT without key": (
        KEYLESS,
        "new.c1 = 5",
        lambda c: c.insert("t", "INSERT INTO t VALUES (5, 1), (6, 1)"),
    ),
    "a row": (KEYED, "new.c1 = 5", lambda c: appended(c, [["5", "1"], ["6", "1"]], [])),
    "a row without key": (
        KEYLESS,
        "new.c1 = 5",
        lambda c: appended(c, [["5", "1", "-9"], ["6", "1", "-8"]], []),
    ),
    "a tombstone": (
        KEYED,
        "new.subsequent_version_number IS NOT NULL",
        lambda c: appended(c, [], [["1", None, None]]),
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_row_that_is_lost_fails_its_write(client, catalog, database, name):
    definition, condition, write = WRITES[name]
    client.run(definition)
    client.insert("t", "INSERT INTO t VALUES (1, 1), (2, 1)")
    before = client.tail("t")
    administrator = Client(catalog.admin(database))
    lose(administrator, client.relid("t"), condition)
    administrator.session.close()
    with pytest.raises(GatewayError, match=r"got \d row versions of \d by") as caught:
        write(client)
    assert caught.value.sqlstate == sqlstate.DATA_CORRUPTED
    client.session.transaction.rollback()
    assert client.tail("t") == before


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("read", [0, 1, 3])
def test_what_was_read_of_a_tail_is_what_is_taken_out_of_it(client, inspector, resident, read):
    inspector.run(f"SELECT pg_journal.configure({10000 if resident else 0}, 1000000, 1000000)")
    client.run(KEYED)
    if resident:
        client.run("INSERT INTO t VALUES (1, 1), (2, 1)")
    else:
        client.insert("t", "INSERT INTO t VALUES (1, 1), (2, 1)")
    (snapshot,) = inspector.session.observations.snapshot(
        [SnapshotRequest(client.relid("t"))]
    ).snapshots.values()
    assert (snapshot.seen is not None) is resident

    def replace(tail_read: int) -> None:
        inspector.session.journals.replace(
            client.relid("t"),
            [],
            [],
            snapshot.version,
            expected_state=snapshot.state,
            seen=snapshot.seen,
            tail_read=tail_read,
        )

    before = client.tail("t")
    with pytest.raises(GatewayError, match=f"{read} row .* were read .*, and 2 taken") as caught:
        replace(read)
    assert caught.value.sqlstate == sqlstate.DATA_CORRUPTED
    assert client.tail("t") == before
    replace(2)
    assert client.tail("t") == []


@pytest.mark.parametrize("read", [0, 1, 3])
def test_what_was_read_of_a_tail_is_what_truncate_takes_out_of_it(client, read):
    client.run(KEYED)
    client.insert("t", "INSERT INTO t VALUES (1, 1), (2, 1)")
    relid, before = client.relid("t"), client.tail("t")

    def truncate(tail_read: int) -> None:
        client.session.transaction.begin()
        versions, _ = client.session.writes.begin_write([relid], command="TRUNCATE TABLE")
        client.run("TRUNCATE t")
        client.session.journals.truncate(relid, versions[relid], [], tail_read=tail_read)

    with pytest.raises(GatewayError, match=f"{read} row .* were read .*, and 2 taken") as caught:
        truncate(read)
    assert caught.value.sqlstate == sqlstate.DATA_CORRUPTED
    client.session.transaction.rollback()
    assert client.tail("t") == before
    truncate(2)
    client.session.transaction.commit()
    assert client.tail("t") == []


def test_a_row_that_comes_while_all_end_is_not_lost(client, catalog, database):
    client.run(KEYED)
    client.insert("t", "INSERT INTO t VALUES (1, 1), (2, 1)")
    relid = client.relid("t")
    client.session.transaction.begin()
    versions, result = client.session.writes.begin_write(
        [relid], [SnapshotRequest(relid)], command="TRUNCATE TABLE"
    )
    read = result.snapshots[relid].tail_rows
    client.run("TRUNCATE t")
    administrator = Client(catalog.admin(database))
    tail = f"pg_journal.tail_{relid}"
    administrator.run(f"CREATE TEMP TABLE planted AS SELECT * FROM {tail} LIMIT 1")
    administrator.run("UPDATE planted SET c1 = 3")
    administrator.run(f"INSERT INTO {tail} SELECT * FROM planted")
    administrator.session.close()
    with pytest.raises(GatewayError, match=r"2 row .* were read .*, and 3 taken") as caught:
        client.session.journals.truncate(relid, versions[relid], [], tail_read=read)
    assert caught.value.sqlstate == sqlstate.DATA_CORRUPTED
    client.session.transaction.rollback()
    assert sorted(client.tail("t")) == [[1, 1], [2, 1], [3, 1]]
