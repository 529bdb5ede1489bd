"""What has come into a table between two looks at it, whatever upkeep has made of its files."""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pytest

from catalog.model import Segment, SegmentKind, TableSnapshot
from catalog.results import SnapshotResult
from pgwire_gateway.dml.unlocked_changes import versions_since
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.spark import compactor as compactors
from pgwire_gateway.spark.executor import RunningStatement
from tests.support.fix_spark import Journal

pytestmark = pytest.mark.spark

HOT = "100:100:"
"""What tells that a snapshot is of a table with hot rows."""


class Table:
    """A table that is looked at, written, and looked at again."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.version = 0
        self.numbers = 1000

    def add(self, *rows: tuple[int, str], version: int) -> None:
        """Append to the tail."""
        self.journal.append(self.journal.rows(*rows, version=version))
        self.version = version

    def store(self, *rows: tuple[int, str], version: int, base: bool = False) -> None:
        """Write a segment."""
        kind = SegmentKind.BASE if base else SegmentKind.DELTA
        self.journal.write(self.journal.rows(*rows, version=version), kind=kind)
        self.version = version

    def replace(self, gone: Iterable[Segment], come: Iterable[Segment]) -> None:
        """Swap segments, and empty the tail, as upkeep does."""
        paths = {segment.path for segment in gone}
        kept = [one for one in self.journal.segments if one.path not in paths]
        for segment in come:
            self.numbers += 1
            kept.append(replace(segment, segment_id=self.numbers))
        self.journal.segments[:] = kept
        self.journal.tail = None

    def look(self, seen: str | None = HOT) -> Observation:
        snapshot = replace(self.journal.snapshot(), version=self.version, seen=seen)
        tails = {} if self.journal.tail is None else {self.journal.relid: self.journal.tail}
        result = SnapshotResult({self.journal.relid: snapshot}, {}, 0, 0, 0)
        return Observation(result, tails)

    def snapshot(self) -> TableSnapshot:
        return self.look().result.snapshots[self.journal.relid]

    def flush(self) -> None:
        tail = self.journal.tail
        assert tail is not None
        flushed = self.journal.compactor().flush(self.snapshot(), tail, RunningStatement())
        self.replace((), flushed.added)

    def added(self, before: Observation, seen: str | None = HOT) -> list[str] | None:
        """Return the names in the row versions that have come."""
        found = versions_since(
            before, self.look(seen), self.journal.relid, self.journal.compactor()
        )
        return None if found is None else sorted(found.column("c2").to_pylist())


@pytest.fixture
def table(journal: Journal) -> Table:
    made = Table(journal)
    made.store((1, "a"), (2, "b"), (3, "c"), version=1, base=True)
    made.add((1, "d"), version=2)
    return made


def test_nothing_has_come(table: Table) -> None:
    assert table.added(table.look()) == []


def test_rows_come_into_the_tail_and_as_deltas(table: Table) -> None:
    before = table.look()
    table.add((2, "e"), version=4)
    table.store((3, "f"), (4, "g"), version=5)
    assert table.added(before) == ["e", "f", "g"]


def test_a_version_number_that_is_no_larger_is_found(table: Table) -> None:
    before = table.look()
    table.add((2, "e"), version=2)
    assert table.added(before) == ["e"]


def test_a_flush_brings_nothing(table: Table) -> None:
    before = table.look()
    table.flush()
    assert table.added(before) == []
    table.add((2, "e"), version=4)
    table.flush()
    assert table.added(before) == ["e"]


def test_deltas_that_are_joined_bring_nothing(table: Table) -> None:
    table.store((3, "f"), version=3)
    before = table.look()
    table.add((2, "e"), version=4)
    tail = table.journal.tail
    joined = table.journal.compactor().join(table.snapshot(), tail, RunningStatement())
    assert joined is not None
    table.replace(
        [one for one in table.journal.segments if one.kind is SegmentKind.DELTA], joined.added
    )
    assert table.added(before) == ["e"]


def test_a_new_base_tells_nothing_but_that_no_row_has_come_into_a_cold_table(table: Table) -> None:
    hot, cold = table.look(), table.look(seen=None)
    compacted = table.journal.compactor().compact(
        table.snapshot(), table.journal.tail, RunningStatement()
    )
    table.replace(list(table.journal.segments), compacted.added)
    assert table.added(cold, None) == []
    assert table.added(hot, None) is None
    table.add((2, "e"), version=4)
    assert table.added(cold, None) is None


def test_a_truncated_table_tells_nothing(table: Table) -> None:
    before = table.look()
    table.journal.segments[:] = [
        replace(one, kind=SegmentKind.ARCHIVE) for one in table.journal.segments
    ]
    table.version = 5
    assert table.added(before) is None


def test_large_deltas_are_not_looked_into(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before = table.look()
    table.store((3, "f"), version=5)
    monkeypatch.setattr(compactors, "MAX_BYTES", 0)
    assert table.added(before) is None


def test_keys_that_may_be_stored_in_several_ways_are_not_compared(table: Table) -> None:
    journal = table.journal
    journal.columns = (replace(journal.columns[0], type_oid=701), journal.columns[1])
    assert journal.tail is not None
    tail = journal.tail.set_column(0, "c1", pa.array([1.0]))
    journal.tail = tail
    before = table.look()
    assert table.added(before) == []
    journal.tail = pa.concat_tables([tail, tail])
    assert table.added(before) is None
