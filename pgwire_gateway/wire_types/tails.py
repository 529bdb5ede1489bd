"""Tails as Arrow tables, kept from one statement to the next so that only new rows are fetched."""

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.journal.layout import SUBSEQUENT, VERSION, column_names, identity_names
from catalog.journal.order import OURS
from catalog.model import JournalTable, TableSnapshot
from catalog.results import SnapshotRequest, TailRows
from pgwire_gateway.wire_types.catalog_rows import tail_of
from pgwire_gateway.wire_types.plain_keys import has_one_form, plain, tuples
from pgwire_gateway.wire_types.settling import captured, settle

MOST_MISSED: Final = 200
"""So many rows cost about as much to fetch as one more trip."""


@dataclass(frozen=True, slots=True)
class HeldTail:
    """The tail of a table in one of its states."""

    state: str
    version: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class TailRequest(SnapshotRequest):
    """Ask for a table's snapshot; what is held is kept for the answer, whatever others read."""

    held: HeldTail | None = field(default=None, compare=False, repr=False)
    """The tail in the state that is named."""


class TailCache:
    """The newest committed tail of each table, shared by all sessions.

    A tail only grows between two flushes, in the order of its version numbers, so rows newer than a
    known state complete it. Uncommitted rows never enter the cache: they may be rolled back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, int], HeldTail] = {}
        self._missed: dict[tuple[str, int], int] = {}
        """How many rows came besides what is held, last, with a state that is not committed."""

    def clear(self) -> None:
        """Hold nothing any more."""
        with self._lock:
            self._entries.clear()
            self._missed.clear()

    def take_outdated(self, database: str, relid: int) -> bool:
        """Return, once, whether a table had better be read before it is written again.

        What is seen after a write is not committed yet, so it is not held: each one would fetch
        what has come since somebody has only read.
        """
        key = (database, relid)
        if self._missed.get(key, 0) <= MOST_MISSED:
            return False
        with self._lock:
            self._missed.pop(key, None)
        return True

    def request(self, database: str, relid: int) -> TailRequest:
        """Return what asks for a table, naming the state whose rows are held, if any."""
        with self._lock:
            held = self._entries.get((database, relid))
        return TailRequest(relid, known_state=held.state if held else None, held=held)

    def complete(  # noqa: PLR0913 - what was asked for, what came, and where the rest is
        self,
        database: str,
        snapshot: TableSnapshot,
        request: SnapshotRequest,
        fetched: TailRows | None,
        *,
        committed: bool,
        stored: Callable[[], pa.Table],
    ) -> pa.Table:
        """Return the whole tail of a snapshot from what is held and what was fetched.

        Args:
            database: Name of the database of the table.
            snapshot: What the statement sees.
            request: What was asked for; it may name the state of a tail that is held.
            fetched: Rows the catalog sent; None when that state is still the current one.
            committed: False when the snapshot holds uncommitted changes of the session.
            stored: Returns the current rows of the segments, for tails that have to be settled.
        """
        key = (database, snapshot.table.relid)
        held = request.held if isinstance(request, TailRequest) else None
        before = 0 if held is None else held.rows.num_rows
        if fetched is None or fetched.increment:
            if held is None:
                raise ValueError(snapshot.state)
            rows = held.rows
            if fetched is not None and (fetched.rows or fetched.parts):
                added = tail_of(snapshot.table, fetched)
                rows = pa.concat_tables([rows, added]).combine_chunks()
        else:
            rows = self._whole(snapshot, fetched, stored)
        if committed:
            self._keep(key, HeldTail(snapshot.state, snapshot.version, rows))
        elif fetched is not None and isinstance(request, TailRequest):
            with self._lock:
                self._missed[key] = rows.num_rows - (before if fetched.increment else 0)
        return rows

    def _keep(self, key: tuple[str, int], tail: HeldTail) -> None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.version <= tail.version:
                self._entries[key] = tail
            self._missed.pop(key, None)

    @staticmethod
    def _whole(
        snapshot: TableSnapshot, fetched: TailRows, stored: Callable[[], pa.Table]
    ) -> pa.Table:
        if snapshot.seen is None:
            return tail_of(snapshot.table, fetched).combine_chunks()
        return settle(snapshot, captured(snapshot.table, fetched), stored)


def only_version(tail: pa.Table, version: int) -> pa.Table:
    """Return the rows of a tail with one version number (microseconds since 1970 UTC)."""
    return tail.filter(pc.equal(version_numbers(tail), version)).combine_chunks()


def older_than(tail: pa.Table, version: int) -> pa.Table:
    """Return the rows of a tail with smaller version numbers."""
    return tail.filter(pc.less(version_numbers(tail), version)).combine_chunks()


def newer_than(tail: pa.Table, version: int) -> pa.Table:
    """Return the rows of a tail with larger version numbers."""
    return tail.filter(pc.greater(version_numbers(tail), version)).combine_chunks()


def newest_version(tail: pa.Table) -> int:
    """Return the largest version number in a tail that has rows."""
    return int(pc.max(version_numbers(tail)).as_py())


def version_numbers(rows: pa.Table) -> pa.ChunkedArray:
    """Return the version numbers of rows in storage layout (microseconds since 1970 UTC)."""
    return rows.column(VERSION).cast(pa.int64())


def only_key(tail: pa.Table, attnums: Sequence[int], key: Sequence[object]) -> pa.Table:
    """Return the rows of a tail with one key, given as plain values."""
    return tail.filter(of_key(tail, column_names(attnums), key)).combine_chunks()


def of_key(
    rows: pa.Table | pa.RecordBatch, names: Sequence[str], key: Sequence[object]
) -> pa.Array | pa.ChunkedArray:
    """Tell of each row whether the named columns have the plain values of a key."""
    chosen = None
    for name, value in zip(names, key, strict=True):
        column = plain(rows.column(name))
        equal = pc.equal(column, pa.scalar(value, column.type))
        chosen = equal if chosen is None else pc.and_(chosen, equal)
    return chosen


def indices_of_keys(
    rows: pa.Table | pa.RecordBatch, names: Sequence[str], keys: Collection[Sequence[object]]
) -> pa.Array:
    """Return the places of rows that have one of some keys, given as plain values."""
    chosen = None
    for place, name in enumerate(names):
        values = {key[place] for key in keys}
        column = plain(rows.column(name))
        found = pc.is_in(column, pa.array(values, column.type))
        chosen = found if chosen is None else pc.and_(chosen, found)
    indices = pc.indices_nonzero(chosen)
    if len(names) == 1 or not len(indices):
        return indices
    wanted = set(map(tuple, keys))
    exact = [key in wanted for key in tuples(rows.select(names).take(indices), names)]
    return indices.filter(pa.array(exact, pa.bool_()))


def plain_identity(table: JournalTable) -> list[str] | None:
    """Return the columns that tell rows apart; None where equal ones may be stored differently."""
    if not has_one_form(table, table.key):
        return None
    return identity_names(table.key)


def latest_per_key(tail: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the newest version of each row, tombstones included, told apart by the named columns.

    Their values have to be equal where their stored forms are.
    """
    groups = row_numbers(tail, names)
    sorted_places = np.lexsort((*recency_columns(tail), groups))
    last = np.flatnonzero(np.diff(groups[sorted_places], append=-1))
    return tail.take(pa.array(np.sort(sorted_places[last]))).combine_chunks()


def row_numbers(versions: pa.Table, names: Sequence[str]) -> np.ndarray:
    """Return a number for each row version, the same for those of one row.

    Args:
        versions: The row versions.
        names: What tells rows apart, as in :func:`latest_per_key`.
    """
    numbers = np.zeros(versions.num_rows, np.int64)
    for name in names:
        column = versions.column(name).combine_chunks().dictionary_encode()
        codes = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, numbers = np.unique(numbers * len(column.dictionary) + codes, return_inverse=True)
    return numbers


def recency_columns(rows: pa.Table) -> tuple[np.ndarray, ...]:
    """Return what row versions of our journals are sorted by for the newest to be last.

    As `numpy.lexsort` takes it: what decides first comes last.
    """
    living = rows.column(SUBSEQUENT).is_null().to_numpy()
    newer = living if OURS.living_wins else ~living
    return newer, version_numbers(rows).to_numpy()
