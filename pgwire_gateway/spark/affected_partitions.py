"""Which partitions of a divided base a compaction writes anew; the others stay as they are."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from catalog.divisions import MOST_PARTITIONS, Division, PartitionValue
from catalog.journal.layout import column_name
from catalog.model import JournalTable, Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark.divided_files import decoded
from pgwire_gateway.spark.sorting import BOUNDED
from pgwire_gateway.wire_types.plain_keys import plain

Values = tuple[PartitionValue, ...]


@dataclass(frozen=True, slots=True)
class AffectedPartitions:
    """What there is to be written of a table."""

    snapshot: TableSnapshot
    """The table."""
    division: Division
    undivided: tuple[Segment, ...]
    """Segments of the base whose rows are in partitions that are not known, or unsorted."""
    found: frozenset[Values]
    """Values of partitions that are written."""
    are_few: bool = True
    """Whether all partitions that are written are known."""

    @classmethod
    def of(
        cls, snapshot: TableSnapshot, division: Division, is_sorted: Callable[[Segment], bool]
    ) -> "AffectedPartitions":
        """Return what is known without a look at rows: partitions of several segments."""
        base = snapshot.of_kind(SegmentKind.BASE)
        undivided = tuple(
            segment
            for segment in base
            if segment.partition is None
            or segment.partition.division != division.number
            or not is_sorted(segment)
        )
        known = Counter(
            segment.partition.values
            for segment in base
            if segment.partition is not None and segment not in undivided
        )
        crowded = frozenset(values for values, segments in known.items() if segments > 1)
        return cls(snapshot, division, undivided, crowded)

    def asked(self, tail: pa.Table | None) -> TableSnapshot | None:
        """Return the table as rows are looked at; None where there are none to look at.

        Partitions are wanted of all rows that count as newer there, and of those in the base that
        these may supersede. Columns of the key are those of all versions of a row.

        Args:
            tail: Row versions of its tail, None for none.
        """
        newer = tuple(replace(segment, kind=SegmentKind.DELTA) for segment in self.undivided)
        deltas = self.snapshot.of_kind(SegmentKind.DELTA)
        if not newer and not deltas and not self.snapshot.tail_rows:
            return None
        base: tuple[Segment, ...] = ()
        if not self.division.attnums <= set(self.snapshot.table.key):
            ranges = _key_ranges(self.snapshot.table, (*newer, *deltas), tail)
            base = tuple(
                segment
                for segment in self.snapshot.of_kind(SegmentKind.BASE)
                if segment not in self.undivided and _may_have(segment, ranges)
            )
        return replace(self.snapshot, segments=(*base, *newer, *deltas))

    def with_partitions(self, rows: pa.Table) -> "AffectedPartitions":
        """Return the same with partitions that Spark has found."""
        if rows.num_rows > MOST_PARTITIONS:
            return replace(self, are_few=False)
        columns = [column.to_pylist() for column in rows.columns]
        found = {tuple(map(decoded, values)) for values in zip(*columns, strict=True)}
        return replace(self, found=self.found | found)

    def written(self) -> TableSnapshot:
        """Return the table without the segments that stay as they are."""
        segments = tuple(segment for segment in self.snapshot.segments if self._is_written(segment))
        return replace(self.snapshot, segments=segments)

    def _is_written(self, segment: Segment) -> bool:
        if segment.kind is not SegmentKind.BASE or not self.are_few or segment in self.undivided:
            return True
        return segment.partition is not None and segment.partition.values in self.found


def _key_ranges(
    table: JournalTable, segments: Sequence[Segment], tail: pa.Table | None
) -> list[tuple[int, int]] | None:
    """Return ranges that have the keys of row versions; None where they are not known."""
    ranges = []
    for segment in segments:
        if segment.key_min is None or segment.key_max is None:
            return None
        ranges.append((segment.key_min, segment.key_max))
    if tail is not None and tail.num_rows:
        if len(table.key) != 1 or table.column(table.key[0]).type_oid not in BOUNDED:
            return None
        found = pc.min_max(plain(tail.column(column_name(table.key[0])))).as_py()
        if found["min"] is None:
            return None
        ranges.append((found["min"], found["max"]))
    return ranges


def _may_have(segment: Segment, ranges: Sequence[tuple[int, int]] | None) -> bool:
    """Tell whether a segment may have a key in one of some ranges."""
    if ranges is None or segment.key_min is None or segment.key_max is None:
        return True
    return any(segment.key_min <= last and first <= segment.key_max for first, last in ranges)
