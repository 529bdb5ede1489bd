"""What is newer than the bases of tables, resolved in memory: one version of each row.

Spark has nothing to resolve then: it reads the base without the rows that have a newer version, and
these versions. Where rows are few, that saves it the jobs of a window over the journal.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from catalog.model import JournalTable, Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark.small_files import MAX_BYTES
from pgwire_gateway.wire_types.key_bitmaps import KeyBitmap, key_bitmap
from pgwire_gateway.wire_types.newest_rows import with_added
from pgwire_gateway.wire_types.tails import plain_identity
from pgwire_gateway.wire_types.versions import storage_schema

MOST_ROWS: Final = 400_000
"""Deltas of more row versions than these are left to Spark, which reads them in parallel."""

MOST_STORED_BYTES: Final = 4 * MAX_BYTES
"""How much deltas may add up to; in memory rows are larger than in the files that are measured."""

MOST_BYTES: Final = 256 << 20
"""How much of all tables is held, but for what was asked for last."""


LEAST_BASE_ROWS: Final = 500_000
"""Of fewer rows the keys are looked up one by one in less time than it takes to plan a subquery for
a bitmap."""


@dataclass(frozen=True, slots=True)
class _Held:
    state: str
    latest: pa.Table
    origin: tuple[object, ...]
    """The definition of the table, and its deltas."""
    stored: pa.Table
    """The newest version of each row that these have."""

    nbytes: int
    """What it takes in memory."""
    bitmap: KeyBitmap | None
    """Of the keys of the newest versions."""


class RecentRows:
    """Keeps the newest versions of rows from one statement to the next."""

    def __init__(self, read: Callable[[JournalTable, Sequence[Segment]], pa.Table | None]) -> None:
        """Read deltas by a function that returns nothing for those that are Spark's to read."""
        self._read = read
        self._lock = threading.Lock()
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._bytes = 0

    def clear(self) -> None:
        """Hold nothing any more."""
        with self._lock:
            self._held.clear()
            self._bytes = 0

    def latest(self, snapshot: TableSnapshot, tail: pa.Table | None) -> pa.Table | None:
        """Return the newest version of each row that deltas and tail have, tombstones included.

        Args:
            snapshot: What a statement sees of the table.
            tail: The whole tail of that snapshot, None for none.

        Returns:
            The rows in storage layout; None where that is left to Spark.

        Raises:
            GatewayError: 58P01 or 58030 for files that cannot be read.
        """
        table = snapshot.table
        names = plain_identity(table)
        deltas = snapshot.of_kind(SegmentKind.DELTA)
        if names is None or sum(delta.rows for delta in deltas) > MOST_ROWS:
            return None
        with self._lock:
            held = self._held.get(table.location)
        if held is not None and held.state == snapshot.state:
            return held.latest
        origin = (table.definition_version, *(delta.path for delta in deltas))
        if held is None or held.origin[0] != origin[0] or not set(held.origin) <= set(origin):
            held = None
        known = set() if held is None else set(held.origin)
        added = [delta for delta in deltas if delta.path not in known]
        stored = None if held is None else held.stored
        if stored is None or added:
            found = self._read(table, added)
            if found is None:
                return None
            found = found.combine_chunks()
            nothing = storage_schema(table).empty_table()
            stored = with_added(nothing if stored is None else stored, found, names)
        if stored.nbytes > MOST_STORED_BYTES:
            # Asked for all of them next time, what reads them sees how large they are.
            with self._lock:
                self._drop(table)
            return None
        latest = stored
        if tail is not None and tail.num_rows:
            latest = with_added(stored, tail.cast(storage_schema(table)).combine_chunks(), names)
        base_rows = sum(segment.rows for segment in snapshot.of_kind(SegmentKind.BASE))
        pays = latest.num_rows > 0 and base_rows >= LEAST_BASE_ROWS
        bitmap = key_bitmap(latest, names) if pays else None
        kept = [latest, stored, *([bitmap.relation] if bitmap is not None else [])]
        nbytes = sum(int(rows.nbytes) for rows in kept)
        held = _Held(snapshot.state, latest, origin, stored, nbytes, bitmap)
        with self._lock:
            self._drop(table)
            self._held[table.location] = held
            self._bytes += held.nbytes
            while self._bytes > MOST_BYTES and len(self._held) > 1:
                self._bytes -= self._held.popitem(last=False)[1].nbytes
        return held.latest

    def bitmap(self, snapshot: TableSnapshot) -> KeyBitmap | None:
        """Return the bitmap of the keys of rows that have just been returned for a snapshot.

        None where their keys are not integers close to each other, where it would not pay, or where
        others were asked for in between.
        """
        with self._lock:
            held = self._held.get(snapshot.table.location)
        return held.bitmap if held is not None and held.state == snapshot.state else None

    def _drop(self, table: JournalTable) -> None:
        before = self._held.pop(table.location, None)
        self._bytes -= 0 if before is None else before.nbytes
