"""DataFrames over segments and tails: files listed once, schemas given, no job started."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from catalog.errors import GatewayError
from catalog.model import Segment, TableSnapshot
from catalog.pg.sqlstate import PROGRAM_LIMIT_EXCEEDED
from pgwire_gateway.spark.api import Driver, Frame, Reading, Session
from pgwire_gateway.spark.borrowed_files import Borrowed
from pgwire_gateway.spark.held_rows import HeldRows
from pgwire_gateway.spark.layouts import Layout
from pgwire_gateway.spark.settings import SessionKind
from pgwire_gateway.spark.warehouse import Warehouse

PART_BYTES: Final = 24 << 20
"""How much of a result one task may hold in memory."""
MAX_PART_ROWS: Final = 262_144
_MIN_SPLIT: Final = 64 << 10
MAX_SPLIT: Final = 128 << 20
_MAX_FRAMES: Final = 512
MOST_LOCAL_ROWS: Final = 20_000
MOST_LOCAL_BYTES: Final = 256 << 20
"""More would be a danger to the driver's memory, and so to all statements."""
_LOCAL_THRESHOLD: Final = "spark.sql.execution.arrow.localRelationThreshold"


class Frames:
    """Makes DataFrames for one driver and remembers those over files."""

    def __init__(self, driver: Driver, warehouse: Warehouse) -> None:
        self._driver = driver
        self._warehouse = warehouse
        self._lock = threading.Lock()
        self._files: OrderedDict[tuple[object, ...], Frame] = OrderedDict()
        self._readers: dict[int, Session] = {}
        self._scatterers: dict[SessionKind, Session] = {}
        self._value_bytes: OrderedDict[str, int] = OrderedDict()
        self._held_rows = HeldRows(warehouse)
        self._small = driver.session(SessionKind.SMALL)

    def row_bytes(self, snapshot: TableSnapshot) -> int:
        """Return how large a row version of a table is in memory on average."""
        rows = sum(segment.rows for segment in snapshot.segments)
        total = sum(self._segment_bytes(segment) for segment in snapshot.segments)
        return max(total // rows, 8 * len(snapshot.table.columns)) if rows else 256

    def segments(
        self, layout: Layout, segments: Sequence[Segment], kind: SessionKind
    ) -> list[Frame]:
        """Return frames whose union is the rows of the segments, in the columns of relations."""
        held = self._held(layout, segments, kind)
        if held is not None:
            return [held]
        groups: dict[tuple[int, ...], list[Segment]] = {}
        frames: list[Frame] = []
        for segment in segments:
            borrowed = self._warehouse.borrowed(segment)
            if borrowed is None:
                groups.setdefault(segment.attnums, []).append(segment)
            else:
                frames.append(self._read_borrowed(layout, segment, borrowed, kind))
        frames += [self._read(layout, given, members, kind) for given, members in groups.items()]
        return frames

    def _held(self, layout: Layout, segments: Sequence[Segment], kind: SessionKind) -> Frame | None:
        """Return the frame of rows in many small files; None where they are not."""
        rows = self._held_rows.rows(layout, segments, self._segment_bytes)
        return None if rows is None else self.local(layout, rows, kind)

    def local(self, layout: Layout, rows: pa.Table, kind: SessionKind) -> Frame:
        """Return the frame of rows held in memory: a local relation, made without a job.

        Many rows are given to the tasks as they are: the optimizer would look at each of them.
        """
        if rows.nbytes > MOST_LOCAL_BYTES:
            raise GatewayError(
                "the recent changes of a table are too many bytes for Spark",
                sqlstate=PROGRAM_LIMIT_EXCEEDED,
                detail=f"They take up {rows.nbytes} bytes; {MOST_LOCAL_BYTES} are the most.",
                hint="They are being written to files: repeat the transaction in a moment. "
                "Of what it has written itself a transaction can have no more.",
            )
        many = rows.num_rows > MOST_LOCAL_ROWS
        session = self._scattering(kind) if many else self.reader(kind, MAX_SPLIT)
        return session.local(rows.select(list(layout.names)), layout.relation_ddl())

    def union(self, frames: Iterable[Frame]) -> Frame:
        """Return all rows of one or more frames."""
        first, *others = frames
        for other in others:
            first = first.union(other)
        return first

    def _scattering(self, kind: SessionKind) -> Session:
        """Return the session that gives rows held in memory to tasks."""
        with self._lock:
            session = self._scatterers.get(kind)
            if session is None:
                session = self._driver.session(kind, **{_LOCAL_THRESHOLD: "0"})
                self._scatterers[kind] = session
        return session

    def reader(self, kind: SessionKind, split_bytes: int) -> Session:
        """Return the session whose settings decide how files are divided among tasks."""
        if kind is SessionKind.SMALL:
            return self._small
        with self._lock:
            reader = self._readers.get(split_bytes)
            if reader is None:
                extra = {
                    "spark.sql.files.maxPartitionBytes": str(split_bytes),
                    "spark.sql.files.openCostInBytes": str(max(split_bytes // 8, 4096)),
                }
                reader = self._driver.session(SessionKind.LARGE, **extra)
                self._readers[split_bytes] = reader
        return reader

    def _read(
        self, layout: Layout, attnums: tuple[int, ...], segments: list[Segment], kind: SessionKind
    ) -> Frame:
        paths = [self._warehouse.path(segment) for segment in segments]
        key = (layout, attnums, tuple(paths), kind)
        with self._lock:
            frame = self._files.get(key)
            if frame is not None:
                self._files.move_to_end(key)
                return frame
        # Spark takes what is there, and finds out by itself what is missing later.
        for segment in segments:
            self._warehouse.own_files(segment)
        session = self.reader(kind, self._split(segments))
        session.activate()
        reading = Reading("parquet", tuple(paths), ddl=layout.file_ddl(attnums))
        frame = session.read(reading).select(layout.from_files(attnums))
        with self._lock:
            self._files[key] = frame
            while len(self._files) > _MAX_FRAMES:
                self._files.popitem(last=False)
        return frame

    def _read_borrowed(
        self, layout: Layout, segment: Segment, borrowed: Borrowed, kind: SessionKind
    ) -> Frame:
        key = (layout, segment.path, kind)
        with self._lock:
            frame = self._files.get(key)
            if frame is not None:
                self._files.move_to_end(key)
                return frame
        session = self.reader(kind, self._split([segment]))
        session.activate()
        # Rows without key are numbered in each file for itself.
        groups: dict[int | None, list[str]] = {}
        for file in borrowed.files:
            groups.setdefault(file.identity, []).append(f"file://{file.path}")
        parts = []
        for identity, paths in groups.items():
            ddl = layout.borrowed_ddl(segment.attnums)
            part = session.read(Reading("parquet", tuple(paths), ddl=ddl))
            items = layout.from_borrowed(segment.attnums, borrowed.version, identity)
            parts.append(part.select(items))
        frame = self.union(parts)
        with self._lock:
            self._files[key] = frame
            while len(self._files) > _MAX_FRAMES:
                self._files.popitem(last=False)
        return frame

    def _split(self, segments: list[Segment]) -> int:
        """Return how many bytes of files a task reads, so that its rows fit in memory decoded."""
        rows = sum(segment.rows for segment in segments) or 1
        size = sum(segment.size_bytes for segment in segments)
        decoded = sum(self._segment_bytes(segment) for segment in segments)
        part_rows = min(MAX_PART_ROWS, PART_BYTES * rows // max(decoded, 1))
        split = size * max(part_rows, 1) // rows
        return min(max(1 << max(split, 1).bit_length(), _MIN_SPLIT), MAX_SPLIT)

    def _segment_bytes(self, segment: Segment) -> int:
        with self._lock:
            known = self._value_bytes.get(segment.path)
        if known is None:
            known = self._warehouse.value_bytes(segment)
            with self._lock:
                self._value_bytes[segment.path] = known
                while len(self._value_bytes) > 8 * _MAX_FRAMES:
                    self._value_bytes.popitem(last=False)
        return known
