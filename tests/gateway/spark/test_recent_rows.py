"""What is newer than a base, resolved in memory: from deltas and tail, once for each state."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from catalog.journal.key_bitmap import WORDS
from catalog.model import Column, JournalTable, Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark.recent_rows import (
    LEAST_BASE_ROWS,
    MOST_ROWS,
    MOST_STORED_BYTES,
    RecentRows,
)
from pgwire_gateway.wire_types.versions import storage_schema

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def table(type_oid: int = 23) -> JournalTable:
    columns = (Column(1, "k", type_oid, -1, True, "k"), Column(2, "v", 25, -1, False, "v"))
    return JournalTable(1, "public", "t", columns, (1,), "t_pkey", 1, "5/1")


def rows(*found: tuple[object, str, int, bool]) -> pa.Table:
    """Return rows of (key, value, version number in microseconds, whether it is a tombstone)."""
    instants = [EPOCH + timedelta(microseconds=row[2]) for row in found]
    gone = [instant if row[3] else None for row, instant in zip(found, instants, strict=True)]
    values = [[row[0] for row in found], [row[1] for row in found], instants, gone]
    return pa.table(values, names=storage_schema(table()).names).cast(storage_schema(table()))


def delta(number: int, count: int) -> Segment:
    return Segment(number, SegmentKind.DELTA, f"delta_{number}", count, 100, (1, 2), 1, 9)


def shown(found: pa.Table | None) -> list[tuple[int, str, bool]]:
    assert found is not None
    listed = found.to_pylist()
    return sorted((row["c1"], row["c2"], bool(row["subsequent_version_number"])) for row in listed)


class Deltas:
    """Files of deltas, and how often they were read."""

    def __init__(self, **held: pa.Table) -> None:
        self.held = held
        self.reads = 0
        self.read_paths: list[str] = []

    def read(self, _: JournalTable, segments: Sequence[Segment]) -> pa.Table | None:
        self.reads += 1
        self.read_paths += [segment.path for segment in segments]
        return pa.concat_tables(
            [
                storage_schema(table()).empty_table(),
                *(self.held[segment.path] for segment in segments),
            ]
        )


def test_the_newest_version_is_taken_from_wherever_it_is() -> None:
    files = Deltas(
        delta_1=rows((1, "old", 1, False), (2, "b", 2, False), (3, "c", 2, False)),
        delta_2=rows((1, "new", 4, False), (3, "c", 5, True)),
    )
    tail = rows((2, "newest", 7, False), (1, "older than the file", 3, False))
    deltas = (delta(1, 3), delta(2, 2))
    snapshot = TableSnapshot(table(), "s1", 7, deltas, tail.num_rows)
    found = RecentRows(files.read).latest(snapshot, tail)
    assert shown(found) == [(1, "new", False), (2, "newest", False), (3, "c", True)]


def test_files_are_read_again_only_when_there_are_others() -> None:
    files = Deltas(delta_1=rows((1, "a", 1, False)), delta_2=rows((2, "b", 2, False)))
    recent = RecentRows(files.read)
    first = TableSnapshot(table(), "s1", 1, (delta(1, 1),), 0)
    once = recent.latest(first, None)
    assert recent.latest(first, None) is once
    tail = rows((1, "b", 3, False))
    assert shown(recent.latest(replace(first, state="s2", tail_rows=1), tail)) == [(1, "b", False)]
    assert files.reads == 1
    second = replace(first, state="s3", segments=(delta(1, 1), delta(2, 1)))
    assert shown(recent.latest(second, None)) == [(1, "a", False), (2, "b", False)]
    assert files.reads == 2


def test_only_what_has_come_is_read() -> None:
    files = Deltas(
        delta_1=rows((1, "a", 1, False), (2, "b", 1, False), (3, "c", 1, False)),
        delta_2=rows((1, "a2", 2, False), (2, "b", 2, True)),
        delta_3=rows((2, "b3", 3, False)),
        delta_4=rows((1, "a", 1, False), (4, "d", 1, False)),
    )
    recent = RecentRows(files.read)
    segments: tuple[Segment, ...] = ()
    for number, count in ((1, 3), (2, 2), (3, 1)):
        segments += (delta(number, count),)
        snapshot = TableSnapshot(table(), f"s{number}", number, segments, 0)
        found = recent.latest(snapshot, None)
        assert shown(found) == shown(RecentRows(files.read).latest(snapshot, None))
    assert shown(found) == [(1, "a2", False), (2, "b3", False), (3, "c", False)]
    files.read_paths.clear()
    tailed = replace(snapshot, state="s4", tail_rows=1)
    found = recent.latest(tailed, rows((3, "c", 4, True)))
    assert shown(found) == [(1, "a2", False), (2, "b3", False), (3, "c", True)]
    assert files.read_paths == []
    # A reader of an earlier moment, and files that were joined to one.
    assert shown(recent.latest(replace(snapshot, state="s1", segments=segments[:1]), None)) == [
        (1, "a", False),
        (2, "b", False),
        (3, "c", False),
    ]
    joined = replace(snapshot, state="s5", segments=(segments[0], delta(4, 2)))
    assert shown(recent.latest(joined, None))[-1] == (4, "d", False)
    assert files.read_paths == ["delta_1", "delta_4"]
    redefined = replace(joined, state="s6", table=replace(table(), definition_version=2))
    assert shown(recent.latest(redefined, None))[-1] == (4, "d", False)
    assert files.read_paths == ["delta_1", "delta_4", "delta_1", "delta_4"]


def test_many_rows_are_left_to_spark() -> None:
    files = Deltas()
    snapshot = TableSnapshot(table(), "s1", 1, (delta(1, MOST_ROWS + 1),), 0)
    assert RecentRows(files.read).latest(snapshot, None) is None
    assert files.reads == 0


@pytest.mark.parametrize(("type_oid", "simple"), [(23, True), (1700, False), (1042, False)])
def test_keys_that_are_equal_in_several_forms_are_left_to_spark(
    type_oid: int, simple: bool
) -> None:
    tail = storage_schema(table(type_oid)).empty_table()
    snapshot = TableSnapshot(table(type_oid), "s1", 5, (), 1)
    recent = RecentRows(Deltas().read)
    found = recent.latest(snapshot, tail)
    assert (found is not None) is simple
    assert recent.latest(snapshot, tail) is found


def test_deltas_that_add_up_to_much_are_left_to_spark() -> None:
    wide = "x" * (MOST_STORED_BYTES // 3)
    found = {f"delta_{number}": rows((number, wide, number, False)) for number in range(1, 5)}
    files = Deltas(**found)
    recent = RecentRows(files.read)
    deltas: tuple[Segment, ...] = ()
    answers = []
    for number in range(1, 5):
        deltas = (*deltas, delta(number, 1))
        snapshot = TableSnapshot(table(), f"s{number}", number, deltas, 0)
        answers.append(recent.latest(snapshot, None) is not None)
    assert answers == [True, True, False, False]
    assert files.read_paths[-4:] == [one.path for one in deltas]


def test_keys_newer_than_a_large_base_have_a_bitmap() -> None:
    recent = RecentRows(Deltas().read)
    base = replace(delta(1, LEAST_BASE_ROWS), kind=SegmentKind.BASE)
    small = replace(base, rows=LEAST_BASE_ROWS - 1)
    tail = rows((1, "a", 1, False), (3, "b", 2, True), (70, "c", 3, False))
    snapshot = TableSnapshot(table(), "s1", 3, (base,), tail.num_rows)
    assert recent.bitmap(snapshot) is None, "nothing was asked for"
    recent.latest(snapshot, tail)
    bitmap = recent.bitmap(snapshot)
    assert bitmap is not None
    assert bitmap.relation.column(WORDS).to_pylist() == [[1 << 1 | 1 << 3, 1 << 70 - 64]]
    assert recent.bitmap(replace(snapshot, state="s2")) is None, "another state"
    recent.latest(replace(snapshot, state="s3", segments=(small,)), tail)
    assert recent.bitmap(replace(snapshot, state="s3", segments=(small,))) is None
    nothing = storage_schema(table()).empty_table()
    recent.latest(replace(snapshot, state="s4", tail_rows=0), nothing)
    assert recent.bitmap(replace(snapshot, state="s4", tail_rows=0)) is None
