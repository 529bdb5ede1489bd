"""What is left of a tail: rows of one key, of one write, or the newest version of each row."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from catalog.model import JournalTable, TableSnapshot
from catalog.results import SnapshotRequest, TailRows
from pgwire_gateway.wire_types.tails import (
    MOST_MISSED,
    TailCache,
    latest_per_key,
    newest_version,
    older_than,
    only_key,
    only_version,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def tail(*rows: Sequence[object]) -> pa.Table:
    """Return rows of (c1, c2, version number in microseconds, and whether it is a tombstone)."""
    instants = [EPOCH + timedelta(microseconds=int(str(row[2]))) for row in rows]
    gone = [instant if len(row) > 3 else None for row, instant in zip(rows, instants, strict=True)]
    return pa.table(
        {
            "c1": pa.array([row[0] for row in rows], pa.int32()),
            "c2": pa.array([row[1] for row in rows], pa.string()),
            "version_number": pa.array(instants, pa.timestamp("us", tz="UTC")),
            "subsequent_version_number": pa.array(gone, pa.timestamp("us", tz="UTC")),
        }
    )


def shown(table: pa.Table) -> list[tuple]:
    return [
        (row["c1"], row["c2"], (row["version_number"] - EPOCH).microseconds)
        for row in table.to_pylist()
    ]


ROWS = tail((1, "a", 1), (2, "b", 2), (1, "c", 3), (3, "b", 3), (2, "d", 5), (1, "a", 4))


TABLE = JournalTable(16400, "public", "t", (), (), None, 1, "5/16400")


def test_what_was_asked_for_is_completed_although_others_have_read_more() -> None:
    cache = TailCache()

    def complete(state: str, version: int, request, fetched: TailRows | None) -> pa.Table:
        snapshot = TableSnapshot(TABLE, state, version, (), 0)
        return cache.complete(
            "d", snapshot, request, fetched, committed=True, stored=lambda: ROWS.slice(0, 0)
        )

    first = complete("one", 1, cache.request("d", TABLE.relid), TailRows(increment=False, rows=[]))
    asked = cache.request("d", TABLE.relid)
    assert (asked.known_state, asked.held.rows) == ("one", first)
    complete("two", 2, asked, TailRows(increment=True, rows=[]))
    assert cache.request("d", TABLE.relid).known_state == "two"
    assert complete("one", 1, asked, None) == first
    # What is newer stays.
    assert cache.request("d", TABLE.relid).known_state == "two"


def test_much_that_comes_with_what_is_not_committed_is_read_before() -> None:
    cache = TailCache()

    def complete(
        number: int, rows: int, *, increment: bool, committed: bool, named: bool = True
    ) -> None:
        asked = cache.request("d", TABLE.relid)
        snapshot = TableSnapshot(TABLE, f"s{number}", number, (), 0)
        cache.complete(
            "d",
            snapshot,
            asked if named else SnapshotRequest(TABLE.relid),
            TailRows(increment=increment, rows=[[number, None, n] for n in range(rows)]),
            committed=committed,
            stored=lambda: ROWS.slice(0, 0),
        )

    def is_outdated() -> bool:
        return cache.take_outdated("d", TABLE.relid)

    complete(1, MOST_MISSED, increment=False, committed=False)
    assert not is_outdated()
    complete(2, MOST_MISSED + 1, increment=False, committed=False)
    assert is_outdated()
    assert not is_outdated()
    complete(2, MOST_MISSED + 1, increment=False, committed=False)
    assert not cache.take_outdated("d", TABLE.relid + 1)
    complete(3, MOST_MISSED + 1, increment=False, committed=True)
    complete(3, MOST_MISSED + 1, increment=False, committed=False, named=False)
    assert not is_outdated()
    complete(4, 1, increment=True, committed=False)
    assert not is_outdated()
    complete(5, MOST_MISSED + 1, increment=True, committed=False)
    assert is_outdated()
    cache.clear()
    assert not is_outdated()


def test_the_newest_version_of_each_key_is_left() -> None:
    assert shown(latest_per_key(ROWS, ["c1"])) == [(3, "b", 3), (2, "d", 5), (1, "a", 4)]


def test_keys_of_several_columns_are_compared_as_a_whole() -> None:
    found = shown(latest_per_key(ROWS, ["c2", "c1"]))
    assert found == [(2, "b", 2), (1, "c", 3), (3, "b", 3), (2, "d", 5), (1, "a", 4)]


def test_of_two_versions_with_one_number_the_living_one_is_newer() -> None:
    moved = [
        (1, "a", 1),
        (1, "gone", 2, True),
        (1, "came", 2),
        (2, "came", 2),
        (2, "gone", 2, True),
    ]
    assert shown(latest_per_key(tail(*moved), ["c1"])) == [(1, "came", 2), (2, "came", 2)]


def test_of_several_chunks_as_of_one() -> None:
    chunked = pa.concat_tables([ROWS.slice(0, 2), ROWS.slice(2)])
    assert shown(latest_per_key(chunked, ["c1"])) == shown(latest_per_key(ROWS, ["c1"]))


def test_rows_of_one_key_one_write_or_before_one() -> None:
    assert shown(only_key(ROWS, [1], [2])) == [(2, "b", 2), (2, "d", 5)]
    assert shown(only_key(ROWS, [1, 2], [2, "b"])) == [(2, "b", 2)]
    assert shown(only_key(ROWS, [1], [2**40])) == []
    assert shown(only_version(ROWS, 3)) == [(1, "c", 3), (3, "b", 3)]
    assert shown(older_than(ROWS, 3)) == [(1, "a", 1), (2, "b", 2)]
    assert newest_version(ROWS) == 5
