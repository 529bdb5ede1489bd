"""Flush tails to deltas and merge a journal into a new base and archive."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from catalog.divisions import MOST_PARTITIONS, Division
from catalog.errors import CatalogUnavailableError, GatewayError
from catalog.journal.layout import SUBSEQUENT, VERSION
from catalog.model import JournalTable, Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark.affected_partitions import AffectedPartitions
from pgwire_gateway.spark.api import Delivery, Frame, Session
from pgwire_gateway.spark.conservation import require_all
from pgwire_gateway.spark.divided_files import Output, Partitioning, partition_columns
from pgwire_gateway.spark.engine import SessionKind, SparkEngine
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.executor import RunningStatement, failures
from pgwire_gateway.spark.gathered_files import Gathering
from pgwire_gateway.spark.relations import Relation, Relations
from pgwire_gateway.spark.small_files import (
    MAX_BYTES,
    encoded_bytes,
    has_columns,
    read_rows,
    write_small,
)
from pgwire_gateway.spark.sorting import Volume, has_identity, install, write_sorted
from pgwire_gateway.spark.staging import StagedSegment
from pgwire_gateway.spark.temporary_views import viewed
from pgwire_gateway.wire_types.merged_versions import merged
from pgwire_gateway.wire_types.tails import latest_per_key, plain_identity
from pgwire_gateway.wire_types.versions import VERSION_TYPE, storage_schema
from rewrite.journal.compaction import Merge, Queries
from rewrite.results import Source, SourcePart

MOST_TIMES: Final = 4
"""A base joins smaller ones when it is no more than this many times as large as all of them."""

MOST_AT_ONCE: Final = 64 << 20
"""Rows held in memory that are more bytes than this are not given to Spark, which would hold all
of them a second time."""

_AT_ONCE: Final = Delivery(batch_rows=10_000)

LARGEST_JOINED: Final = 1 << 30
"""Bases of more bytes stay as they are: readers would gain little by fewer of them."""

_Taken = TypeVar("_Taken")


@dataclass(frozen=True, slots=True)
class Compaction:
    """Segments that replace others."""

    added: tuple[Segment, ...]
    retired: tuple[int, ...]
    """segment_id of what `added` replaces."""
    tail_version: int
    """Tail rows up to this version number are contained in `added`."""
    tail_read: int
    """How many these are."""


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

        Nothing is written when the base is all there is, ours, and sorted by the table's key.

        Raises:
            GatewayError: 57014 when cancelled, 58030 or 53100 when storage fails.
        """
        division, partitioning = snapshot.table.division, None
        if division is not None:
            snapshot, partitioning = self._affected(snapshot, tail, statement, division)
        base = snapshot.of_kind(SegmentKind.BASE)
        deltas = snapshot.of_kind(SegmentKind.DELTA)
        is_done = not base if partitioning else self._is_sorted(snapshot.table, base)
        if not deltas and not snapshot.tail_rows and is_done:
            return Compaction((), (), snapshot.version, 0)
        added = self._merge(snapshot, tail, statement, partitioning)
        read = sum(segment.rows for segment in (*base, *deltas))
        tail_read = 0 if tail is None else tail.num_rows
        require_all(snapshot.table, read + tail_read, added)
        retired = tuple(segment.segment_id for segment in (*base, *deltas))
        return Compaction(added, retired, snapshot.version, tail_read)

    def flush(
        self, snapshot: TableSnapshot, tail: pa.Table, statement: RunningStatement
    ) -> Compaction:
        """Write the tail as a delta; Spark has work with it only when it is large.

        Raises:
            GatewayError: 57014 when cancelled, 58030 or 53100 when storage fails.
        """
        added = self._rows(snapshot.table, tail, SegmentKind.DELTA, statement)
        return Compaction(added, (), snapshot.version, tail.num_rows)

    def flush_pieces(
        self,
        snapshot: TableSnapshot,
        pieces: Iterable[pa.Table],
        statement: RunningStatement,
        kind: SegmentKind = SegmentKind.DELTA,
    ) -> Compaction:
        """Write a tail that comes in pieces, each of few bytes, as a segment of as many files.

        No more than one of them is in memory.

        Args:
            snapshot: The table.
            pieces: The rows.
            statement: What is cancelled with it.
            kind: A base where the rows are all there are, each of them once, else a delta.

        Raises:
            GatewayError: 57014 when cancelled, 58030 or 53100 when storage fails.
        """
        added = self._pieces(snapshot.table, pieces, kind, statement)
        # As many as have come, or it would have failed.
        return Compaction(added, (), snapshot.version, sum(segment.rows for segment in added))

    def join(
        self, snapshot: TableSnapshot, tail: pa.Table, statement: RunningStatement
    ) -> Compaction | None:
        """Write the tail and all deltas as one delta, without Spark; None when they are too large.

        Deltas of other columns than the table has now are not joined either.

        Raises:
            GatewayError: 57014 when cancelled, 58030 or 53100 when storage fails.
        """
        deltas = snapshot.of_kind(SegmentKind.DELTA)
        if not self._are_readable(snapshot.table, deltas, tail):
            return None
        joined = self._read(snapshot.table, deltas, tail)
        added = self._rows(snapshot.table, joined, SegmentKind.DELTA, statement)
        require_all(snapshot.table, sum(delta.rows for delta in deltas) + tail.num_rows, added)
        retired = tuple(delta.segment_id for delta in deltas)
        return Compaction(added, retired, snapshot.version, tail.num_rows)

    def join_bases(self, snapshot: TableSnapshot, statement: RunningStatement) -> Compaction | None:
        """Write bases of like size as one; None where there are none.

        Files of others stay where they are, and so do bases of partitions.

        Raises:
            GatewayError: 57014 when cancelled, 58030 or 53100 when storage fails.
        """
        if snapshot.table.division is not None:
            return None
        joined = like_sized(
            [
                (self._warehouse.value_bytes(segment), segment)
                for segment in snapshot.of_kind(SegmentKind.BASE)
                if not segment.is_borrowed
            ]
        )
        if not joined:
            return None
        alone = replace(snapshot, segments=joined, tail_rows=0)
        added = self._merge(alone, None, statement)
        require_all(snapshot.table, sum(base.rows for base in joined), added)
        return Compaction(added, tuple(base.segment_id for base in joined), snapshot.version, 0)

    def end(
        self,
        snapshot: TableSnapshot,
        tail: pa.Table | None,
        version: int,
        statement: RunningStatement,
    ) -> tuple[Segment, ...]:
        """Write what a journal gets when all rows of its table end: the tail, and tombstones.

        All of it is for the archive, where what the segments hold belongs from then on.

        Args:
            snapshot: The table before.
            tail: Row versions of its tail, None for none.
            version: Version number of the tombstones, in microseconds.
            statement: What this is part of.

        Raises:
            GatewayError: 57014 when cancelled, 58030 or 53100 when storage fails, XX001 when that
                is not a tombstone for each current row, and the tail.
        """
        table, segments = snapshot.table, _current(snapshot)
        history = tail if tail is not None else storage_schema(table).empty_table()
        if not segments and not history.num_rows:
            return ()
        if plain_identity(table) is not None and self._are_readable(table, segments, tail):
            live = self.live_rows(snapshot, statement, tail)
            written = self._rows(
                table,
                pa.concat_tables([history, _tombstones(live, version)]),
                SegmentKind.ARCHIVE,
                statement,
            )
            require_all(table, history.num_rows + live.num_rows, written)
            return written
        kept = self._rows(table, history, SegmentKind.ARCHIVE, statement)
        merge = Merge(snapshot).tombstones(version)
        ended = self._write(snapshot, tail, statement, merge)
        require_all(table, self.live_count(snapshot, statement, tail), ended)
        return (*kept, *ended)

    @contextmanager
    def publishing(self, written: Compaction) -> Iterator[None]:
        """Remove what was written when the context, which publishes and commits it, fails.

        It stays where the catalog was lost, as nobody knows then whether it is published.
        """
        try:
            yield
        except CatalogUnavailableError:
            raise
        except GatewayError:
            for segment in written.added:
                self._warehouse.remove(segment.path)
            raise

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
        found = self._live(snapshot, tail)
        return found if found is not None else self._of_live(snapshot, statement, tail, _all_rows)

    def live_count(
        self, snapshot: TableSnapshot, statement: RunningStatement, tail: pa.Table | None = None
    ) -> int:
        """Return how many rows :func:`live_rows` would; Spark fetches none of their values.

        Raises:
            GatewayError: 57014 when cancelled, 58030 when storage fails.
        """
        segments = _current(snapshot)
        if not snapshot.tail_rows and all(s.kind is SegmentKind.BASE for s in segments):
            return sum(segment.rows for segment in segments)
        found = self._live(snapshot, tail)
        if found is not None:
            return int(found.num_rows)
        return self._of_live(snapshot, statement, tail, lambda live: live.count())

    def _live(self, snapshot: TableSnapshot, tail: pa.Table | None) -> pa.Table | None:
        """Return the current rows where they are few; None where they are Spark's to find."""
        segments = _current(snapshot)
        if not segments and not snapshot.tail_rows:
            return storage_schema(snapshot.table).empty_table()
        identity = plain_identity(snapshot.table)
        if identity is not None and self._are_readable(snapshot.table, segments, tail):
            latest = latest_per_key(self._read(snapshot.table, segments, tail), identity)
            return latest.filter(pc.is_null(latest.column(SUBSEQUENT)))
        return None

    def _of_live(
        self,
        snapshot: TableSnapshot,
        statement: RunningStatement,
        tail: pa.Table | None,
        taken: Callable[[Frame], _Taken],
    ) -> _Taken:
        """Return what is taken of the current rows as Spark finds them."""
        session = self._engine.sessions(statement.check).large
        driver = session.driver
        with failures(self._engine, driver, statement):
            group = statement.begin(driver)
            session.enter(group)
            frames = self._frames(session, snapshot, tail, Merge(snapshot).queries)
            found = taken(frames[SegmentKind.BASE])
            statement.end(group)
        return found

    def row_versions(self, table: JournalTable, segments: Sequence[Segment]) -> pa.Table | None:
        """Return what few segments hold, in storage layout; None where it is Spark's to read.

        Raises:
            GatewayError: 58030 when storage fails.
        """
        readable = self._are_readable(table, segments, None)
        return self._read(table, segments, None) if readable else None

    def stored_columns(
        self, table: JournalTable, segment: Segment, names: Sequence[str]
    ) -> pa.Table:
        """Return columns, named as in relations, of a segment that has those of the table now.

        Raises:
            GatewayError: 58030 when storage fails.
        """
        with storage_failures():
            return read_rows(self._warehouse, table, segment, names)

    def _are_readable(
        self, table: JournalTable, segments: Sequence[Segment], tail: pa.Table | None
    ) -> bool:
        """Tell whether rows are few, and segments have the columns that the table has now."""
        size = sum(self._warehouse.value_bytes(segment) for segment in segments)
        attnums = tuple(column.attnum for column in table.columns)
        with storage_failures():
            return (
                size + (tail.nbytes if tail is not None else 0) <= MAX_BYTES
                and all(segment.attnums == attnums for segment in segments)
                and all(has_columns(self._warehouse, table, segment) for segment in segments)
            )

    def _read(
        self, table: JournalTable, segments: Sequence[Segment], tail: pa.Table | None
    ) -> pa.Table:
        """Return all row versions of few segments and a tail, without Spark."""
        schema = storage_schema(table)
        with storage_failures():
            rows = [read_rows(self._warehouse, table, segment).cast(schema) for segment in segments]
        return pa.concat_tables([schema.empty_table(), *rows, *([] if tail is None else [tail])])

    def _rows(
        self, table: JournalTable, rows: pa.Table, kind: SegmentKind, statement: RunningStatement
    ) -> tuple[Segment, ...]:
        """Write rows held in memory as a segment; no row makes none."""
        if not rows.num_rows:
            return ()
        if rows.nbytes > MOST_AT_ONCE:
            at_once = max(rows.num_rows * MAX_BYTES // rows.nbytes, 1)
            pieces = (rows.slice(start, at_once) for start in range(0, rows.num_rows, at_once))
            return self._pieces(table, pieces, kind, statement)
        statement.check()
        volume = Volume(rows.num_rows, rows.nbytes)
        with storage_failures():
            staged = self._warehouse.staging.begin()
            try:
                if rows.nbytes <= MAX_BYTES:
                    write_small(rows, table, staged, volume)
                else:
                    self._write_large(rows, table, staged, volume, statement)
                segment = install(self._warehouse, staged, table, kind, volume)
            finally:
                staged.discard()
        written = (segment,) if segment else ()
        require_all(table, rows.num_rows, written)
        return written

    def _write_large(
        self,
        rows: pa.Table,
        table: JournalTable,
        staged: StagedSegment,
        volume: Volume,
        statement: RunningStatement,
    ) -> None:
        session = self._engine.sessions(statement.check).large
        driver = session.driver
        with failures(self._engine, driver, statement):
            group = statement.begin(driver)
            session.enter(group)
            alone = TableSnapshot(table, "", 0, (), rows.num_rows)
            relation = Relation(Source(0, SourcePart.RECENT, ""), alone, lambda: rows)
            frame = self._relations.frame(relation, driver, SessionKind.LARGE)
            write_sorted(driver, frame, table, staged, volume)
            statement.end(group)

    def _pieces(
        self,
        table: JournalTable,
        pieces: Iterable[pa.Table],
        kind: SegmentKind,
        statement: RunningStatement,
    ) -> tuple[Segment, ...]:
        """Write pieces of few bytes as the files of a segment; no row makes none."""
        rows = size = 0
        with storage_failures():
            staged = self._warehouse.staging.begin()
            try:
                for number, piece in enumerate(pieces):
                    statement.check()
                    rows, size = rows + piece.num_rows, size + piece.nbytes
                    write_small(piece, table, staged, Volume(piece.num_rows, piece.nbytes), number)
                if not rows:
                    return ()
                segment = install(self._warehouse, staged, table, kind, Volume(rows, size))
            finally:
                staged.discard()
        written = (segment,) if segment else ()
        require_all(table, rows, written)
        return written

    def _is_sorted(self, table: JournalTable, base: Sequence[Segment]) -> bool:
        return all(
            not segment.is_borrowed and has_identity(self._warehouse, segment) != bool(table.key)
            for segment in base
        )

    def _affected(
        self,
        snapshot: TableSnapshot,
        tail: pa.Table | None,
        statement: RunningStatement,
        division: Division,
    ) -> tuple[TableSnapshot, Partitioning | None]:
        """Return a divided table without the base segments that stay as they are.

        They are those of partitions whose rows nothing supersedes, and that get none. The division
        comes with it, or None where the rest has too many partitions to be divided.
        """
        table = snapshot.table
        affected = AffectedPartitions.of(
            snapshot, division, lambda segment: self._is_sorted(table, [segment])
        )
        asked = affected.asked(tail)
        if asked is not None:
            session = self._engine.sessions(statement.check).large
            driver = session.driver
            with failures(self._engine, driver, statement), self._gathering() as gathering:
                wanted = {*table.key, *division.attnums}
                asked = gathering.of(asked, statement.check, wanted)
                group = statement.begin(driver)
                session.enter(group)
                queries = Merge(asked).concerned(sorted(division.attnums))
                frame = self._frames(session, asked, tail, queries)[SegmentKind.BASE]
                told = [f"{text} AS {name}" for name, text in partition_columns(division).items()]
                found = _all_rows(frame.select(told).distinct().limit(MOST_PARTITIONS + 1))
                statement.end(group)
            affected = affected.with_partitions(found)
        if not affected.are_few:
            return affected.written(), None
        return affected.written(), Partitioning(division, len(affected.found))

    def _volume(
        self, snapshot: TableSnapshot, segments: Iterable[Segment], tail: pa.Table | None
    ) -> Volume:
        read = tuple(segments)
        rows = sum(segment.rows for segment in read) + snapshot.tail_rows
        size = sum(self._warehouse.value_bytes(segment) for segment in read)
        return Volume(rows, size + (tail.nbytes if tail is not None else 0))

    def _merge(
        self,
        snapshot: TableSnapshot,
        tail: pa.Table | None,
        statement: RunningStatement,
        partitioning: Partitioning | None = None,
    ) -> tuple[Segment, ...]:
        """Write the current rows as a base and all others as an archive; few without Spark."""
        found = self._merged(snapshot, tail, statement)
        if found is None:
            queries = Merge(snapshot).queries
            return self._write(snapshot, tail, statement, queries, partitioning)
        current, superseded = found
        table = snapshot.table
        written = self._rows(table, current, SegmentKind.BASE, statement)
        try:
            return (*written, *self._rows(table, superseded, SegmentKind.ARCHIVE, statement))
        except BaseException:
            for segment in written:
                self._warehouse.remove(segment.path)
            raise

    def _merged(
        self, snapshot: TableSnapshot, tail: pa.Table | None, statement: RunningStatement
    ) -> tuple[pa.Table, pa.Table] | None:
        """Return the current rows and all others in storage layout; None where that is Spark's."""
        table, segments = snapshot.table, _current(snapshot)
        rows = plain_identity(table)
        if rows is None or table.division is not None or table.external is not None:
            return None
        if not self._are_readable(table, segments, tail):
            return None
        base: list[pa.Table] = []
        recent = [] if tail is None else [tail]
        left = MOST_AT_ONCE
        for segment in segments:
            statement.check()
            with storage_failures():
                left -= encoded_bytes(self._warehouse, segment)
            if left < 0:
                return None
            part = base if segment.kind is SegmentKind.BASE else recent
            part.append(self._read(table, [segment], None))
        nothing = storage_schema(table).empty_table()
        found = merged(
            pa.concat_tables([nothing, *base]), pa.concat_tables([nothing, *recent]), rows
        )
        statement.check()
        return found

    def _write(
        self,
        snapshot: TableSnapshot,
        tail: pa.Table | None,
        statement: RunningStatement,
        queries: Queries,
        partitioning: Partitioning | None = None,
    ) -> tuple[Segment, ...]:
        """Write the rows of each query as a segment; all or none are moved into place.

        The base is a segment for each partition where it is divided.
        """
        session = self._engine.sessions(statement.check).large
        driver = session.driver
        table, volume = snapshot.table, self._volume(snapshot, _current(snapshot), tail)
        outputs: list[Output] = []
        try:
            with failures(self._engine, driver, statement), self._gathering() as gathering:
                snapshot = gathering.of(snapshot, statement.check)
                group = statement.begin(driver)
                session.enter(group)
                for kind, frame in self._frames(session, snapshot, tail, queries).items():
                    statement.check()
                    divided = partitioning if kind is SegmentKind.BASE else None
                    staged = self._warehouse.staging.begin()
                    output = Output(self._warehouse, table, kind, staged, volume, divided)
                    outputs.append(output)
                    output.write(driver, frame)
                statement.end(group)
                statement.check()
                return tuple(segment for output in outputs for segment in output.install(statement))
        finally:
            for output in outputs:
                output.staged.discard()

    @contextmanager
    def _gathering(self) -> Iterator[Gathering]:
        """Have a directory for copies of files while the context lasts."""
        staged = self._warehouse.staging.begin()
        try:
            yield Gathering(self._warehouse, staged)
        finally:
            staged.discard()

    def _frames(
        self,
        session: Session,
        snapshot: TableSnapshot,
        tail: pa.Table | None,
        queries: Queries,
    ) -> dict[SegmentKind, Frame]:
        driver = session.driver
        parts = [
            Relation(Source(snapshot.table.relid, part, name), snapshot, lambda: tail)
            for part, name in ((SourcePart.BASE, "base"), (SourcePart.RECENT, "recent"))
        ]
        frames = {
            part.source.view: self._relations.frame(part, driver, SessionKind.LARGE)
            for part in parts
        }
        with viewed(session, frames) as names:
            texts = queries(names["base"], names["recent"])
            return {kind: session.query(text) for kind, text in texts.items()}


def _all_rows(frame: Frame) -> pa.Table:
    rows = frame.rows(_AT_ONCE)
    return pa.Table.from_batches(rows, rows.schema)


def like_sized(segments: Sequence[tuple[int, Segment]]) -> tuple[Segment, ...]:
    """Return the smallest of some segments, given with their sizes, that are to become one.

    A segment joins them unless it is much larger than they are together: so each row is written
    again a few times only, however often little comes.
    """
    joined: list[Segment] = []
    joined_bytes = 0
    for size, segment in sorted(segments, key=lambda found: (found[0], found[1].segment_id)):
        if size > LARGEST_JOINED or (joined and size > MOST_TIMES * joined_bytes):
            break
        joined.append(segment)
        joined_bytes += size
    return tuple(joined) if len(joined) > 1 else ()


def _current(snapshot: TableSnapshot) -> tuple[Segment, ...]:
    """Return the segments that current rows can be in."""
    return (*snapshot.of_kind(SegmentKind.BASE), *snapshot.of_kind(SegmentKind.DELTA))


def _tombstones(rows: pa.Table, version: int) -> pa.Table:
    """Return what ends rows, given in storage layout."""
    ends = pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows).cast(VERSION_TYPE)
    for name in (VERSION, SUBSEQUENT):
        rows = rows.set_column(rows.schema.get_field_index(name), name, ends)
    return rows
