"""What a statement sees: snapshots and tails of the journaled tables it touches, of one moment."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.bookkeeping.moments import Moment
from catalog.journal.layout import SUBSEQUENT, column_names
from catalog.model import JournalTable, Segment, SegmentKind, TableSnapshot
from catalog.results import SnapshotResult
from pgwire_gateway.spark.lookups import Key, Lookups
from pgwire_gateway.spark.relations import Relation
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.key_bitmaps import KeyBitmap
from pgwire_gateway.wire_types.tails import (
    indices_of_keys,
    latest_per_key,
    newer_than,
    newest_version,
    older_than,
    only_key,
    only_version,
    plain_identity,
)
from pgwire_gateway.wire_types.versions import storage_schema
from rewrite.journal.current_rows import source as source_of
from rewrite.results import Source, SourcePart, SparkQuery

_OWN_STATES = count(1)
"""Numbers for states no other statement may take for its own."""


@dataclass(frozen=True, slots=True)
class UnitedLeaves:
    """Leaves of a partitioned table that are read as one table."""

    relid: int
    """Its number, below zero."""
    leaves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Observation:
    """Snapshots with their tails."""

    result: SnapshotResult
    tails: dict[int, Any]
    """Arrow tables of inlined row versions by OID of the table."""
    added: dict[int, TableSnapshot] = field(default_factory=dict)
    """Segments not yet part of a table, each as a table of its own."""
    latest_only: frozenset[int] = frozenset()
    """Tables of whose tails only the newest version of each row is left."""
    bitmaps: Mapping[int, KeyBitmap] = field(default_factory=dict)
    """Of the keys in such tails, by OID of the table, where there are any."""
    united: Mapping[int, tuple[UnitedLeaves, ...]] = field(default_factory=dict)
    """Leaves that are read together, by OID of the partitioned table."""
    single_rows: frozenset[int] = frozenset()
    """Tables with the versions of one row, which are in the tail whatever holds them."""
    moment: Moment | None = None
    """The session's settings then, where they have been asked for."""

    def relations(self, query: SparkQuery) -> list[Relation]:
        """Return what must be registered before a compiled query runs."""
        return [self._relation(source) for source in query.sources]

    def like(self, table: JournalTable) -> JournalTable:
        """Return a table, or one of those that are read as one."""
        for some in self.united.values():
            for one in some:
                if one.relid == table.relid:
                    return self.result.snapshots[one.leaves[0]].table
        return table

    def segments_only(self, relid: int) -> "Observation":
        """Return the same moment without the tail of a table."""
        stripped = without_tail(self.result.snapshots[relid])
        snapshots = self.result.snapshots | {relid: stripped}
        return Observation(replace(self.result, snapshots=snapshots), {})

    def of_keys(self, keys: Mapping[int, Key], lookups: Lookups | None) -> "Observation":
        """Return the same moment with what can matter of tables of which one row is read.

        A row with a version in the tail that is newer than the segments needs nothing else, and
        a row without one there needs no tail. The tail may hold older ones: large writes become
        segments although there is a tail. With ``lookups`` a row in segments is looked up at once.
        """
        snapshots, tails = dict(self.result.snapshots), dict(self.tails)
        single = set(self.single_rows)
        for relid, key in keys.items():
            snapshot, tail = snapshots[relid], tails.get(relid)
            if snapshot.outside is not None:
                continue  # which only Spark reads
            if tail is None or not snapshot.tail_rows:
                if lookups is None:
                    continue
                tail = storage_schema(snapshot.table).empty_table()
            found = only_key(tail, snapshot.table.key, key) if tail.num_rows else tail
            if not _is_newest(found, snapshot):
                stored = lookups.versions(snapshot, [key]) if lookups else None
                if stored is None:
                    if snapshot.tail_rows and not found.num_rows:
                        snapshots[relid] = without_tail(snapshot)
                    continue
                found = pa.concat_tables([stored, found]) if found.num_rows else stored
            tails[relid] = rows = found.combine_chunks()
            state = f"{snapshot.state}_{next(_OWN_STATES)}"
            snapshots[relid] = replace(snapshot, segments=(), tail_rows=rows.num_rows, state=state)
            single.add(relid)
        return replace(
            self,
            result=replace(self.result, snapshots=snapshots),
            tails=tails,
            single_rows=frozenset(single),
        )

    def current_row(self, relid: int) -> pa.Table:
        """Return the current row of a table of which one row is read; none where it has gone."""
        names, rows = plain_identity(self.result.snapshots[relid].table), self.tails[relid]
        latest = latest_per_key(rows, names or ()) if rows.num_rows > 1 else rows
        return latest.filter(pc.is_null(latest.column(SUBSEQUENT)))

    def current_rows(self, relid: int, keys: Sequence[Key], lookups: Lookups) -> pa.Table | None:
        """Return the current rows of some keys, in storage layout, in no order.

        None where the files of the table are Spark's to read.
        """
        snapshot, tail = self.result.snapshots[relid], self.tails.get(relid)
        table = snapshot.table
        names = column_names(table.key)
        if tail is None:
            tail = storage_schema(table).empty_table()
        found = tail.take(indices_of_keys(tail, names, keys)).combine_chunks()
        stored = max((segment.max_version for segment in snapshot.segments), default=0)
        newest = newer_than(found, stored)
        done = set(plain_keys.tuples(newest, names))
        rest = [key for key in keys if key not in done]
        versions = lookups.versions(snapshot, rest) if rest else None
        if rest and versions is None:
            return None
        rows = found if versions is None else pa.concat_tables([versions, found])
        latest = latest_per_key(rows.combine_chunks(), plain_identity(table) or ())
        return latest.filter(pc.is_null(latest.column(SUBSEQUENT)))

    def of_latest(
        self, tails: Mapping[int, Any], bitmaps: Mapping[int, KeyBitmap] | None = None
    ) -> "Observation":
        """Return the same moment with tails instead of deltas, of one version of each row."""
        snapshots = dict(self.result.snapshots)
        for relid, tail in tails.items():
            snapshot = snapshots[relid]
            snapshots[relid] = replace(
                snapshot,
                segments=tuple(s for s in snapshot.segments if s.kind is not SegmentKind.DELTA),
                tail_rows=tail.num_rows,
                state=f"{snapshot.state}_latest",
            )
        result = replace(self.result, snapshots=snapshots)
        return replace(
            self,
            result=result,
            tails=self.tails | dict(tails),
            latest_only=self.latest_only | tails.keys(),
            bitmaps={**self.bitmaps, **(bitmaps or {})},
        )

    def without_partitions(
        self, left_out: Mapping[int, Callable[[Segment], bool]]
    ) -> "Observation":
        """Return the same moment without segments of the bases of tables."""
        snapshots = dict(self.result.snapshots)
        for relid, is_left_out in left_out.items():
            snapshot = snapshots[relid]
            kept = tuple(
                segment
                for segment in snapshot.segments
                if segment.kind is not SegmentKind.BASE or not is_left_out(segment)
            )
            snapshots[relid] = replace(snapshot, segments=kept)
        return replace(self, result=replace(self.result, snapshots=snapshots))

    def older_than(self, relid: int, version: int) -> "Observation":
        """Return the same moment without the row versions of a table from one version on.

        Only those of the tail are looked at.
        """
        snapshot, tail = self.result.snapshots[relid], older_than(self.tails[relid], version)
        state = f"{snapshot.state}_{next(_OWN_STATES)}"
        before = replace(snapshot, tail_rows=tail.num_rows, state=state)
        snapshots = self.result.snapshots | {relid: before}
        return Observation(replace(self.result, snapshots=snapshots), {relid: tail})

    def with_segments(self, relid: int, segments: tuple[Segment, ...]) -> "Observation":
        """Return the same moment with segments that are not part of the table beside it."""
        snapshot = self.result.snapshots[relid]
        state = f"{snapshot.state}_{next(_OWN_STATES)}"
        alone = replace(snapshot, segments=segments, tail_rows=0, state=state, outside=None)
        return replace(self, added=self.added | {relid: alone})

    def of_rows(self, relid: int, rows: pa.Table) -> "Observation":
        """Return the same moment with nothing in a table but these rows, in storage layout."""
        snapshot = self.result.snapshots[relid]
        state = f"{snapshot.state}_{next(_OWN_STATES)}"
        alone = replace(snapshot, segments=(), tail_rows=rows.num_rows, state=state, outside=None)
        return replace(
            self,
            result=replace(self.result, snapshots=self.result.snapshots | {relid: alone}),
            tails=self.tails | {relid: rows.combine_chunks()},
            latest_only=self.latest_only | {relid},
        )

    def only_written(
        self, relid: int, version: int, segments: tuple[Segment, ...]
    ) -> "Observation":
        """Return the same moment with nothing in a table but the rows of one write.

        They are the tail's rows of this version number, or the rows of segments.
        """
        snapshot = self.result.snapshots[relid]
        tail = only_version(self.tails[relid], version) if not segments else None
        written = replace(
            snapshot,
            segments=segments,
            tail_rows=0 if tail is None else tail.num_rows,
            state=f"{snapshot.state}_{next(_OWN_STATES)}",
            outside=None,
        )
        snapshots = self.result.snapshots | {relid: written}
        return Observation(replace(self.result, snapshots=snapshots), {relid: tail})

    def _relation(self, source: Source) -> Relation:
        alone = self.added.get(source.relid)
        if alone is not None and source == source_of(alone, source.part):
            return Relation(source, alone, lambda: None)
        if source.part is SourcePart.RECENT_KEYS:
            relation = self.bitmaps[source.relid].relation
            return Relation(source, self.result.snapshots[source.relid], lambda: relation)
        return Relation(source, self.result.snapshots[source.relid], self._tail(source.relid))

    def _tail(self, relid: int) -> Callable[[], Any]:
        return lambda: self.tails.get(relid)


def _is_newest(found: pa.Table, snapshot: TableSnapshot) -> bool:
    """Return whether no segment can have a newer version of the rows found in the tail."""
    stored = max((segment.max_version for segment in snapshot.segments), default=0)
    return bool(found.num_rows) and newest_version(found) > stored


def without_tail(snapshot: TableSnapshot) -> TableSnapshot:
    """Return the segments of a table alone."""
    return replace(snapshot, tail_rows=0, state=f"{snapshot.state}_segments")


def own_states(result: SnapshotResult, written: Collection[int]) -> SnapshotResult:
    """Give tables that a transaction writes a state of their own.

    Such a state is seen by nobody else and may be rolled back: nothing kept under it may be
    taken for the contents of another one.
    """
    own = {
        relid: replace(snapshot, state=f"{snapshot.state}_{next(_OWN_STATES)}")
        for relid, snapshot in result.snapshots.items()
        if relid in written
    }
    return replace(result, snapshots=result.snapshots | own) if own else result
