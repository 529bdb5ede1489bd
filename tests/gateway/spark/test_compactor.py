"""Compaction keeps every version: current ones in the base, all others in the archive."""

import errno
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from catalog.model import Column, Segment, SegmentKind
from pgwire_gateway.spark import compactor, small_files
from pgwire_gateway.spark.errors import QueryCanceledError
from pgwire_gateway.spark.executor import RunningStatement
from rewrite.results import SourcePart
from tests.support.fix_spark import NAME, Journal

pytestmark = pytest.mark.spark

VERSIONS = (
    "SELECT t.c1, t.c2, unix_micros(t.version_number), unix_micros(t.subsequent_version_number) "
    "FROM $ AS t ORDER BY 1, 3, 4"
)


@pytest.fixture(autouse=True, params=["in memory", "by Spark"])
def _by_whom(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have few rows compacted as they are, and as if they were many."""
    if request.param == "by Spark":
        monkeypatch.setattr(compactor, "MAX_BYTES", 0)


def compact(journal: Journal) -> None:
    """Replace the journal's segments and tail by their compaction."""
    result = journal.compactor().compact(journal.snapshot(), journal.tail, RunningStatement())
    if result.added:
        kept = [s for s in journal.segments if s.segment_id not in result.retired]
        numbered = [
            replace(s, segment_id=max(result.retired, default=0) + i + 1)
            for i, s in enumerate(result.added)
        ]
        journal.segments = [*kept, *numbered]
        journal.tail = None


def test_few_rows_are_compacted_without_a_job(journal: Journal) -> None:
    journal.write(journal.rows((1, "a"), (2, "b"), version=10), kind=SegmentKind.BASE)
    journal.append(journal.rows((1, "A"), version=20))
    scheduler = journal.engine.driver.machine.context.dagScheduler()  # type: ignore[attr-defined]
    before = scheduler.numTotalJobs()
    compact(journal)
    assert (scheduler.numTotalJobs() > before) is (compactor.MAX_BYTES == 0)


@pytest.mark.parametrize("key_type", [23, 1700])
def test_nothing_ends_where_nothing_is(journal: Journal, key_type: int) -> None:
    journal.columns = (Column(1, "id", key_type, -1, True, "id"), NAME)
    assert journal.compactor().end(journal.snapshot(), None, 77, RunningStatement()) == ()


@pytest.mark.parametrize("left", [0, 1 << 20])
def test_rows_of_many_bytes_are_not_held(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    journal.write(journal.rows((1, "a"), (2, "b"), version=10), kind=SegmentKind.BASE)
    journal.append(journal.rows((1, "A"), version=20))
    monkeypatch.setattr(compactor, "MOST_AT_ONCE", left)
    snapshot = journal.snapshot()
    found = journal.compactor()._merged(snapshot, journal.tail, RunningStatement())
    by_spark = compactor.MAX_BYTES == 0
    assert (found is None) is (by_spark or not left)


def test_a_compaction_that_fails_leaves_no_file(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.write(journal.rows((1, "a"), (2, "b"), version=10), kind=SegmentKind.BASE)
    journal.append(journal.rows((1, "A"), version=20))
    place = Path(journal.relations.warehouse.root)
    before = {file for file in place.rglob("*") if file.is_file()}
    written = []

    def fails_second(*given: object) -> None:
        written.append(given)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "full")
        small_files.write_small(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(compactor, "write_small", fails_second)
    monkeypatch.setattr(compactor, "MAX_BYTES", small_files.MAX_BYTES)
    with pytest.raises(GatewayError) as caught:
        journal.compactor().compact(journal.snapshot(), journal.tail, RunningStatement())
    assert caught.value.sqlstate == "53100"
    assert len(written) == 2
    assert {file for file in place.rglob("*") if file.is_file()} == before


def parts(journal: Journal) -> tuple[list, list]:
    base = journal.fetch(VERSIONS, SourcePart.BASE)
    everything = journal.fetch(VERSIONS, SourcePart.JOURNAL)
    return base, [row for row in everything if row not in base]


def test_the_newest_version_becomes_the_base(journal: Journal) -> None:
    journal.write(journal.rows((1, "a"), (2, "b"), version=10))
    journal.append(journal.rows((1, "A"), version=20))
    compact(journal)
    base, archive = parts(journal)
    assert base == [(1, "A", 20, None), (2, "b", 10, None)]
    assert archive == [(1, "a", 10, 20)]


def test_rows_of_the_base_are_superseded(journal: Journal) -> None:
    journal.write(journal.rows((1, "a"), (2, "b"), (3, "c"), version=10), kind=SegmentKind.BASE)
    journal.write(journal.rows((1, "x"), version=20))
    journal.append(journal.rows((1, "y"), version=30))
    journal.append(journal.rows((3, "c", 40), version=40))
    compact(journal)
    base, archive = parts(journal)
    assert base == [(1, "y", 30, None), (2, "b", 10, None)]
    assert archive == [(1, "a", 10, 20), (1, "x", 20, 30), (3, "c", 10, 40), (3, "c", 40, 40)]


def test_a_row_deleted_and_inserted_again(journal: Journal) -> None:
    journal.append(journal.rows((1, "a"), version=10))
    journal.append(journal.rows((1, "a", 20), version=20))
    journal.append(journal.rows((1, "b"), version=30))
    compact(journal)
    base, archive = parts(journal)
    assert base == [(1, "b", 30, None)]
    assert archive == [(1, "a", 10, 20), (1, "a", 20, 20)]


def test_a_key_left_and_taken_in_one_statement_lives(journal: Journal) -> None:
    journal.append(journal.rows((1, "a"), (2, "b"), version=10))
    journal.append(journal.rows((1, "a", 20), (2, "b", 20), version=20))
    journal.append(journal.rows((2, "a"), (1, "b"), version=20))
    compact(journal)
    base, _ = parts(journal)
    assert base == [(1, "b", 20, None), (2, "a", 20, None)]


def test_a_journal_of_tombstones_has_no_base(journal: Journal) -> None:
    journal.write(journal.rows((1, "a"), version=10), kind=SegmentKind.BASE)
    journal.append(journal.rows((1, "a", 20), version=20))
    compact(journal)
    assert [segment.kind for segment in journal.segments] == [SegmentKind.ARCHIVE]
    assert parts(journal) == ([], [(1, "a", 10, 20), (1, "a", 20, 20)])


def test_a_second_compaction_changes_nothing(journal: Journal) -> None:
    journal.append(journal.rows((1, "a"), version=10))
    compact(journal)
    result = journal.compactor().compact(journal.snapshot(), None, RunningStatement())
    assert (result.added, result.retired) == ((), ())


def test_rows_without_key_are_told_apart_by_identity(journal: Journal) -> None:
    journal.key = ()
    journal.write(journal.rows((1, "a", 1), (1, "a", 2), version=10))
    journal.append(journal.rows((1, "b", 2), version=20))
    compact(journal)
    found = journal.fetch("SELECT t.c2, t.row_identity FROM $ AS t ORDER BY 2", SourcePart.BASE)
    assert found == [("a", 1), ("b", 2)]


def test_a_new_key_sorts_the_base_by_it(journal: Journal) -> None:
    journal.key = ()
    journal.write(journal.rows((2, "a", 1), (1, "b", 2), version=10))
    compact(journal)
    journal.key = (1,)
    compact(journal)
    (base,) = journal.segments
    assert (base.key_min, base.key_max) == (1, 2)
    result = journal.compactor().compact(journal.snapshot(), None, RunningStatement())
    assert result.added == ()


def test_numerics_that_are_equal_are_one_key(journal: Journal) -> None:
    journal.columns = (Column(1, "id", 1700, -1, True, "id"), NAME)
    journal.write(journal.rows(("1.0", "old"), version=10), kind=SegmentKind.BASE)
    journal.append(journal.rows(("1.00", "new"), version=20))
    compact(journal)
    base, _ = parts(journal)
    assert [row[:2] for row in base] == [("1.00", "new")]


def test_a_flush_turns_the_tail_into_a_delta(journal: Journal) -> None:
    journal.append(journal.rows((2, "b"), (1, "a"), version=10))
    journal.append(journal.rows((2, "b", 20), version=20))
    result = journal.compactor().flush(journal.snapshot(), journal.tail, RunningStatement())
    (delta,) = result.added
    assert (delta.kind, delta.rows, result.retired) == (SegmentKind.DELTA, 3, ())
    assert (delta.min_version, delta.max_version) == (10, 20)
    before = journal.fetch(VERSIONS)
    journal.segments, journal.tail = [replace(delta, segment_id=1)], None
    assert journal.fetch(VERSIONS) == before


def test_a_cancelled_compaction_leaves_nothing(journal: Journal) -> None:
    journal.append(journal.rows((1, "a")))
    statement = RunningStatement()
    statement.cancel()
    with pytest.raises(QueryCanceledError):
        journal.compactor().compact(journal.snapshot(), journal.tail, statement)
    assert journal.segments == []


def test_a_tail_in_pieces_becomes_one_delta_of_several_files(journal: Journal) -> None:
    pieces = [
        pa.Table.from_batches([journal.rows((2 * n, "a"), (n, "b"), version=10 + n)])
        for n in (5, 3, 4)
    ]
    journal.tail = pa.concat_tables(pieces)
    before = journal.fetch(VERSIONS)
    flushed = journal.compactor().flush_pieces(journal.snapshot(), iter(pieces), RunningStatement())
    (delta,) = flushed.added
    assert (delta.rows, delta.min_version, delta.max_version) == (6, 13, 15)
    assert (delta.key_min, delta.key_max) == (3, 10)
    journal.segments, journal.tail = [replace(delta, segment_id=1)], None
    assert len(journal.relations.warehouse.data_files(journal.segments[0])) == 3
    assert journal.fetch(VERSIONS) == before
    nothing = journal.compactor().flush_pieces(journal.snapshot(), iter(()), RunningStatement())
    assert nothing.added == ()


def test_many_rows_in_memory_are_not_given_to_spark(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append(journal.rows(*((number, "a") for number in range(100))))
    rows = journal.tail
    assert rows is not None
    before = journal.fetch(VERSIONS)
    monkeypatch.setattr(compactor, "MAX_BYTES", rows.nbytes // 9)
    monkeypatch.setattr(compactor, "MOST_AT_ONCE", rows.nbytes - 1)
    (delta,) = journal.compactor().flush(journal.snapshot(), rows, RunningStatement()).added
    journal.segments, journal.tail = [replace(delta, segment_id=1)], None
    assert len(journal.relations.warehouse.data_files(delta)) == 10
    assert journal.fetch(VERSIONS) == before


def test_bases_of_like_size_become_one(journal: Journal) -> None:
    for first in (1, 3, 5):
        rows = journal.rows((first + 1, "b"), (first, "a"), version=10 + first)
        journal.write(rows, kind=SegmentKind.BASE)
    before = journal.fetch(VERSIONS)
    joined = journal.compactor().join_bases(journal.snapshot(), RunningStatement())
    assert joined is not None
    (base,) = joined.added
    assert (base.kind, base.rows) == (SegmentKind.BASE, 6)
    assert joined.retired == tuple(segment.segment_id for segment in journal.segments)
    journal.segments = [replace(base, segment_id=1)]
    assert journal.fetch(VERSIONS) == before
    assert journal.compactor().join_bases(journal.snapshot(), RunningStatement()) is None


@pytest.mark.parametrize(
    ("sizes", "joined"),
    [
        ((), ()),
        ((7,), ()),
        ((7, 7), (7, 7)),
        ((1, 4, 20), (1, 4, 20)),
        ((20, 4, 1), (1, 4, 20)),
        ((1, 5), ()),
        ((1, 1, 9), (1, 1)),
        ((0, 1), ()),
        ((compactor.LARGEST_JOINED, 1 << 29), (1 << 29, compactor.LARGEST_JOINED)),
        ((compactor.LARGEST_JOINED + 1, 1 << 29), ()),
    ],
)
def test_a_base_joins_smaller_ones_unless_it_is_much_larger(
    sizes: tuple[int, ...], joined: tuple[int, ...]
) -> None:
    found = compactor.like_sized(
        [
            (size, Segment(number, SegmentKind.BASE, "", size, size, (), 0, 0))
            for number, size in enumerate(sizes)
        ]
    )
    assert tuple(segment.rows for segment in found) == joined
