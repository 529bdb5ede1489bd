"""Flush tails to deltas and merge a journal into a new base and archive."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from catalog.model import JournalTable, Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark.engine import Driver, SessionKind, SparkEngine, SparkSession
from pgwire_gateway.spark.executor import RunningStatement, failures
from pgwire_gateway.spark.frames import Frame
from pgwire_gateway.spark.keys import key_expressions
from pgwire_gateway.spark.layouts import SUBSEQUENT, VERSION, Layout
from pgwire_gateway.spark.relations import Relation, Relations
from pgwire_gateway.spark.sorting import Volume, has_identity, install, write_sorted
from pgwire_gateway.spark.warehouse import StagedSegment
from rewrite.results import Source, SourcePart

_BROADCAST_ROWS: Final = 2_000_000


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
        merge = _Merge(snapshot, bool(base), bool(deltas or snapshot.tail_rows))
        volume = self._volume(snapshot, (*base, *deltas), tail)
        added = self._write(snapshot, tail, statement, merge.queries(), volume)
        retired = tuple(segment.segment_id for segment in (*base, *deltas))
        return Compaction(added, retired, snapshot.version)

    def flush(
        self, snapshot: TableSnapshot, tail: pa.Table, statement: RunningStatement
    ) -> Compaction:
        """Write the tail as a delta.

        Raises:
            GatewayError: 57014 when cancelled, 58030 or 53100 when storage fails.
        """
        driver = self._engine.driver
        session = self._engine.sessions("UTC").large
        added: tuple[Segment, ...] = ()
        staged = self._warehouse.stage(snapshot.table)
        try:
            with failures(self._engine, driver, statement):
                group = statement.begin(driver)
                session.enter(group)
                alone = Relation(Source(0, SourcePart.RECENT, ""), _tail_only(snapshot), lambda: tail)
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
        queries: Mapping[SegmentKind, str],
        volume: Volume,
    ) -> tuple[Segment, ...]:
        """Write the rows of each query as a segment; all or none are moved into place."""
        driver = self._engine.driver
        session = self._engine.sessions("UTC").large
        staged: dict[SegmentKind, StagedSegment] = {}
        try:
            with failures(self._engine, driver, statement):
                group = statement.begin(driver)
                session.enter(group)
                for kind, frame in self._frames(session, snapshot, tail, queries).items():
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
        queries: Mapping[SegmentKind, str],
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
            return {
                kind: session.sql(text.format_map(names)) for kind, text in queries.items()
            }


def _tail_only(snapshot: TableSnapshot) -> TableSnapshot:
    return TableSnapshot(
        snapshot.table, snapshot.state, snapshot.version, (), max(snapshot.tail_rows, 1)
    )


class _Merge:
    """The queries of a compaction over the views ``{base}`` and ``{recent}``.

    Of each key the newest row version survives, unless it is a tombstone. Where a statement moved a row
    away from a key and another one to it, both versions bear the same number: the living one is newer.
    """

    def __init__(self, snapshot: TableSnapshot, has_base: bool, has_recent: bool) -> None:  # noqa: FBT001
        self._has_base = has_base
        self._has_recent = has_recent
        self._columns = Layout.of(snapshot.table).names
        self._key = key_expressions(snapshot.table)
        self._hint = "/*+ BROADCAST(k) */ " if _recent_rows(snapshot) <= _BROADCAST_ROWS else ""

    def queries(self) -> dict[SegmentKind, str]:
        """Return what becomes the base, and what goes to the archive."""
        base, archive = [], []
        if self._has_base:
            base.append(self._untouched() if self._has_recent else self._all())
        if self._has_recent:
            base.append(self._ranked(f"age = 1 AND {SUBSEQUENT} IS NULL", SUBSEQUENT))
            successor = f"COALESCE({SUBSEQUENT}, successor)"
            archive.append(self._ranked(f"NOT (age = 1 AND {SUBSEQUENT} IS NULL)", successor))
            if self._has_base:
                archive.append(self._superseded())
        found = {SegmentKind.BASE: base, SegmentKind.ARCHIVE: archive}
        return {kind: " UNION ALL ".join(texts) for kind, texts in found.items() if texts}

    def _select(self, alias: str, subsequent: str | None = None) -> str:
        return ", ".join(
            f"{subsequent} AS {name}" if subsequent and name == SUBSEQUENT else f"{alias}.{name}"
            for name in self._columns
        )

    def _keys(self, alias: str) -> list[str]:
        return [expression(alias) for expression in self._key]

    def _all(self) -> str:
        return f"SELECT {self._select('b')} FROM {{base}} AS b"

    def _newer(self) -> str:
        """Return each key of the recent part with its first version there."""
        keys = self._keys("r")
        named = ", ".join(f"{key} AS k{index}" for index, key in enumerate(keys))
        return (
            f"SELECT {named}, MIN(r.{VERSION}) AS first_version FROM {{recent}} AS r "
            f"GROUP BY {', '.join(keys)}"
        )

    def _same_key(self) -> str:
        keys = enumerate(self._keys("b"))
        return " AND ".join(f"{key} = k.k{index}" for index, key in keys)

    def _untouched(self) -> str:
        return (
            f"SELECT {self._hint}{self._select('b')} FROM {{base}} AS b "
            f"LEFT ANTI JOIN ({self._newer()}) AS k ON {self._same_key()}"
        )

    def _superseded(self) -> str:
        return (
            f"SELECT {self._hint}{self._select('b', 'k.first_version')} FROM {{base}} AS b "
            f"JOIN ({self._newer()}) AS k ON {self._same_key()}"
        )

    def _ranked(self, condition: str, subsequent: str) -> str:
        window = (
            f"PARTITION BY {', '.join(self._keys('r'))} "
            f"ORDER BY r.{VERSION} DESC, r.{SUBSEQUENT} ASC NULLS FIRST"
        )
        return (
            f"SELECT {self._select('v', subsequent)} FROM (SELECT r.*, "
            f"ROW_NUMBER() OVER ({window}) AS age, LAG(r.{VERSION}) OVER ({window}) AS successor "
            f"FROM {{recent}} AS r) AS v WHERE {condition}"
        )


def _recent_rows(snapshot: TableSnapshot) -> int:
    deltas = snapshot.of_kind(SegmentKind.DELTA)
    return sum(segment.rows for segment in deltas) + snapshot.tail_rows
