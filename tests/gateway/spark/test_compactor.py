"""Compaction keeps every version: current ones in the base, all others in the archive."""

from dataclasses import replace

import pytest

from catalog.model import Column, SegmentKind
from pgwire_gateway.spark.errors import QueryCanceledError
from pgwire_gateway.spark.executor import RunningStatement
from rewrite.results import SourcePart
from tests.support.fix_spark import NAME, Journal

pytestmark = pytest.mark.spark

VERSIONS = (
    "SELECT t.c1, t.c2, unix_micros(t.version_number), unix_micros(t.subsequent_version_number) "
    "FROM $ AS t ORDER BY 1, 3, 4"
)


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
