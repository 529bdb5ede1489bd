"""Flush tails to deltas and merge a journal into a new base and archive."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from catalog.model import JournalTable, Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark.arrow_schemas import arrow_schema
from pgwire_gateway.spark.batches import collect
from pgwire_gateway.spark.engine import Driver, SessionKind, SparkEngine, SparkSession
from pgwire_gateway.spark.executor import RunningStatement, failures
from pgwire_gateway.spark.frames import Frame
from pgwire_gateway.spark.merging import Merge
from pgwire_gateway.spark.relations import Relation, Relations
from pgwire_gateway.spark.sorting import Volume, has_identity, install, write_sorted
from pgwire_gateway.spark.warehouse import StagedSegment
from pgwire_gateway.wire_types.versions import storage_schema
from rewrite.results import Source, SourcePart


@dataclass(frozen=True, slots=True)
class Compaction:
    """Segments that replace others."""

    added: tuple[Segment, ...]
    retired: tuple[int, ...]
    """segment_id of what `added` replaces."""
    tail_version: int
    """Tail rows up to this version number are contained in `added`."""


class Compactor:
    """Produces the segments of a compaction or flush; publishing them is the catalog's."""

    def __init__(self, engine: SparkEngine, relations: Relations) -> None:
        self._engine = engine
        self._relations = relations
        self._warehouse = relations.warehouse

    def compact(
        self, snapshot: TableSnapshot, tail: pa.Table | None, statement: RunningStatement
    ) -> Compaction:
        """Merge base, deltas and tail into a new base, moving superseded versions to an archive.

        Nothing is written when the base is all there is and it is sorted by the table's key.

        Raises:
            GatewayError: 57014 when cancelled, 58030 or 53100 when storage fails.
        """
        base = snapshot.of_kind(SegmentKind.BASE)
        deltas = snapshot.of_kind(SegmentKind.DELTA)
        if not deltas and not snapshot.tail_rows and self._is_sorted(snapshot.table, base):
            return Compaction((), (), snapshot.version)
        merge = Merge(snapshot)
        volume = self._volume(snapshot, (*base, *deltas), tail)
        added = self._write(snapshot, tail, statement, merge, volume)
        retired = tuple(segment.segment_id for segment in (*base, *deltas))
        return Compaction(added, retired, snapshot.version)

    def flush(
        self, snapshot: TableSnapshot, tail: pa.Table, statement: RunningStatement
    ) -> Compaction:
        """Write the tail as a delta.

        Raises:
            GatewayError: 57014 when cancelled, 58030 or 53100 when storage fails.
        """
        session = self._engine.sessions().large
        driver = session.driver
        added: tuple[Segment, ...] = ()
        staged = self._warehouse.stage(snapshot.table)
        try:
            with failures(self._engine, driver, statement):
                group = statement.begin(driver)
                session.enter(group)
                alone = Relation(
                    Source(0, SourcePart.RECENT, ""), _tail_only(snapshot), lambda: tail
                )
                frame = self._relations.frame(alone, driver, SessionKind.LARGE)
                volume = Volume(tail.num_rows, tail.nbytes)
                write_sorted(driver, frame, snapshot.table, staged, volume)
                statement.end(group)
                segment = install(
                    self._warehouse, staged, snapshot.table, SegmentKind.DELTA, volume
                )
            added = (segment,) if segment else ()
        finally:
            staged.discard()
        return Compaction(added, (), snapshot.version)

    def live_rows(
        self,
        snapshot: TableSnapshot,
        statement: RunningStatement,
        tail: pa.Table | None = None,
    ) -> pa.Table:
        """Return the current rows of a table's segments and tail, in storage layout.

        Raises:
            GatewayError: 57014 when cancelled, 58030 when storage fails.
        """
        if not snapshot.segments and not snapshot.tail_rows:
            return storage_schema(snapshot.table).empty_table()
        session = self._engine.sessions().large
        driver = session.driver
        with failures(self._engine, driver, statement):
            group = statement.begin(driver)
            session.enter(group)
            frame = self._frames(session, snapshot, tail, Merge(snapshot))[SegmentKind.BASE]
            schema = arrow_schema(str(frame.schema().json()))
            batches = collect(driver, frame.toArrowBatchRdd(10_000, "UTC", False, False), schema)
            statement.end(group)
        return pa.Table.from_batches(batches, schema)

    def _is_sorted(self, table: JournalTable, base: tuple[Segment, ...]) -> bool:
        return all(has_identity(self._warehouse, segment) != bool(table.key) for segment in base)

    def _volume(
        self, snapshot: TableSnapshot, segments: Iterable[Segment], tail: pa.Table | None
    ) -> Volume:
        read = tuple(segments)
        rows = sum(segment.rows for segment in read) + snapshot.tail_rows
        size = sum(self._warehouse.value_bytes(segment) for segment in read)
        return Volume(rows, size + (tail.nbytes if tail is not None else 0))

    def _write(
        self,
        snapshot: TableSnapshot,
        tail: pa.Table | None,
        statement: RunningStatement,
        merge: Merge,
        volume: Volume,
    ) -> tuple[Segment, ...]:
        """Write the rows of each query as a segment; all or none are moved into place."""
        session = self._engine.sessions().large
        driver = session.driver
        staged: dict[SegmentKind, StagedSegment] = {}
        try:
            with failures(self._engine, driver, statement):
                group = statement.begin(driver)
                session.enter(group)
                for kind, frame in self._frames(session, snapshot, tail, merge).items():
                    statement.check()
                    staged[kind] = self._warehouse.stage(snapshot.table)
                    write_sorted(driver, frame, snapshot.table, staged[kind], volume)
                statement.end(group)
                statement.check()
                segments = [
                    install(self._warehouse, directory, snapshot.table, kind, volume)
                    for kind, directory in staged.items()
                ]
        finally:
            for directory in staged.values():
                directory.discard()
        return tuple(segment for segment in segments if segment is not None)

    def _frames(
        self,
        session: SparkSession,
        snapshot: TableSnapshot,
        tail: pa.Table | None,
        merge: Merge,
    ) -> dict[SegmentKind, Frame]:
        driver: Driver = session.driver
        parts = [
            Relation(Source(snapshot.table.relid, part, name), snapshot, lambda: tail)
            for part, name in ((SourcePart.BASE, "base"), (SourcePart.RECENT, "recent"))
        ]
        frames = {
            part.source.view: self._relations.frame(part, driver, SessionKind.LARGE)
            for part in parts
        }
        with session.views(frames) as names:
            queries = merge.queries(names["base"], names["recent"])
            return {kind: session.sql(text) for kind, text in queries.items()}


def _tail_only(snapshot: TableSnapshot) -> TableSnapshot:
    return TableSnapshot(
        snapshot.table, snapshot.state, snapshot.version, (), max(snapshot.tail_rows, 1)
    )
