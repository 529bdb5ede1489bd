"""Which partitions of a divided base a compaction writes anew; the others stay as they are."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from catalog.divisions import MOST_PARTITIONS, Division, PartitionValue
from catalog.model import Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark.divided_files import decoded

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

    def asked(self) -> TableSnapshot | None:
        """Return the table as rows are looked at; None where there are none to look at.

        Partitions are wanted of all rows that count as newer there, and of those in the base that
        these may supersede. Columns of the key are those of all versions of a row.
        """
        newer = tuple(replace(segment, kind=SegmentKind.DELTA) for segment in self.undivided)
        deltas = self.snapshot.of_kind(SegmentKind.DELTA)
        if not newer and not deltas and not self.snapshot.tail_rows:
            return None
        base: tuple[Segment, ...] = ()
        if not self.division.attnums <= set(self.snapshot.table.key):
            base = tuple(
                segment
                for segment in self.snapshot.of_kind(SegmentKind.BASE)
                if segment not in self.undivided
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
