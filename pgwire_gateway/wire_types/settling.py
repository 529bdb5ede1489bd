"""What was captured of a resident table, as a tail that readers of journals understand.

Capture writes two things that no journal holds: a mark where the table was truncated, which ends
all rows before it, and, where rows have no key, images that came (row versions without identity)
and went (tombstones without identity). Settling makes tombstones of the marks, and gives the images
identities: which of several equal rows went cannot be told, so the oldest has gone.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import GatewayError
from catalog.journal.layout import IDENTITY, SUBSEQUENT, TRUNCATION, VERSION, column_name
from catalog.model import JournalTable, TableSnapshot
from catalog.pg.sqlstate import DATA_CORRUPTED
from catalog.results import TailRows
from pgwire_gateway.wire_types.catalog_rows import csv_batches, tail_of
from pgwire_gateway.wire_types.datetimes import countable
from pgwire_gateway.wire_types.versions import VERSION_TYPE, storage_schema

Image = tuple[str, ...]
"""What tells rows apart: values of the key, or of all columns."""


@dataclass(frozen=True, slots=True)
class _Alive:
    """A row that is there at some moment of the history."""

    identity: int
    table: pa.Table
    row: int


def captured(table: JournalTable, rows: TailRows) -> pa.Table:
    """Return captured rows as the catalog has sent them; identities may be missing."""
    return tail_of(replace(table, key=()), rows)


def captured_lines(table: JournalTable, lines: Iterable[bytes]) -> pa.Table:
    """Return captured rows, given as CSV of transfer forms."""
    schema = storage_schema(replace(table, key=()))
    return pa.concat_tables([schema.empty_table(), *captured_pieces(table, lines, 0)])


def captured_pieces(
    table: JournalTable, lines: Iterable[bytes], size_bytes: int
) -> Iterator[pa.Table]:
    """Yield captured rows, given as CSV of transfer forms, in pieces of about so many bytes."""
    schema = storage_schema(replace(table, key=()))
    gathered: list[pa.RecordBatch] = []
    for batch in csv_batches(table.columns, lines, trailing=(VERSION, SUBSEQUENT, IDENTITY)):
        gathered.append(batch)
        if sum(part.nbytes for part in gathered) >= size_bytes:
            yield pa.Table.from_batches(gathered).cast(schema)
            gathered.clear()
    if gathered:
        yield pa.Table.from_batches(gathered).cast(schema)


def settled_pieces(
    snapshot: TableSnapshot, pieces: Iterable[pa.Table], first_identity: int
) -> Iterator[pa.Table]:
    """Yield the tail of a table in storage layout, where it does not matter what was before.

    Args:
        snapshot: What the rows were read of.
        pieces: The rows as captured: no truncations, and none have gone that have no key.
        first_identity: Identities of new rows count up from this number.
    """
    for piece in pieces:
        if snapshot.table.key:
            yield piece.drop_columns([IDENTITY])
        elif snapshot.seen is None:
            yield piece
        else:
            yield settle(snapshot, piece, lambda: None, first_identity)
            first_identity += piece.num_rows


def settle(
    snapshot: TableSnapshot,
    rows: pa.Table,
    stored: Callable[[], pa.Table],
    first_identity: int = 0,
) -> pa.Table:
    """Return the tail of a resident table in storage layout.

    Args:
        snapshot: What the rows were read of.
        rows: The rows as captured, see :func:`captured`.
        stored: Returns the current rows of the segments; only called where they matter.
        first_identity: Identities of new rows count down from before this number when it is 0,
            else up from it.

    Raises:
        GatewayError: XX001 when a row has gone that was never there.
    """
    marking = _marking(rows)
    marks = rows.filter(marking).column(VERSION).cast(pa.int64()).to_pylist()
    tail = rows.filter(pc.invert(marking)) if marks else rows
    keyed = bool(snapshot.table.key)
    if keyed:
        tail = tail.drop_columns([IDENTITY])
        if not marks:
            return tail.combine_chunks()
    gone = tail.column(SUBSEQUENT).is_valid().to_pylist()
    if not keyed and not marks and not tail.column(IDENTITY).null_count:
        return tail.combine_chunks()
    numbers = _identities(first_identity)
    if not marks and not any(gone):
        return _identified(tail, [next(numbers) for _ in range(tail.num_rows)])
    history = _History(snapshot, stored() if snapshot.segments else None)
    identities: list[int | None] = [None] * tail.num_rows
    images = _images(snapshot, tail)
    versions = tail.column(VERSION).cast(pa.int64()).to_pylist()
    # What a statement took away was there before what it brought.
    order = sorted(range(tail.num_rows), key=lambda row: (versions[row], not gone[row]))
    ends = sorted(marks)
    for row in order:
        while ends and ends[0] < versions[row]:
            history.truncate(ends.pop(0))
        if gone[row]:
            identities[row] = history.end(images[row], keyed=keyed)
        else:
            identities[row] = next(numbers)
            history.begin(images[row], _Alive(identities[row] or 0, tail, row), keyed=keyed)
    for mark in ends:
        history.truncate(mark)
    settled = tail if keyed else _identified(tail, identities)
    return pa.concat_tables([settled, *history.tombstones(settled.schema)]).combine_chunks()


def has_marks(rows: pa.Table) -> bool:
    """Tell whether truncations are among captured rows."""
    return bool(pc.any(_marking(rows)).as_py())


def _marking(rows: pa.Table) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(rows.column(IDENTITY), TRUNCATION), False)


class _History:
    """Which rows are there, as a tail is read in the order of its versions."""

    def __init__(self, snapshot: TableSnapshot, stored: pa.Table | None) -> None:
        self._alive: dict[Image, deque[_Alive]] = {}
        self._ended: list[tuple[_Alive, int]] = []
        if stored is not None:
            has_identity = IDENTITY in stored.column_names
            numbers = stored.column(IDENTITY).to_pylist() if has_identity else []
            for row, image in enumerate(_images(snapshot, stored)):
                identity = numbers[row] if has_identity else 0
                self._alive.setdefault(image, deque()).append(_Alive(identity, stored, row))

    def begin(self, image: Image, row: _Alive, *, keyed: bool) -> None:
        rows = self._alive.setdefault(image, deque())
        if keyed:
            rows.clear()
        rows.append(row)

    def end(self, image: Image, *, keyed: bool) -> int | None:
        rows = self._alive.get(image)
        if not rows:
            if keyed:
                return None
            raise GatewayError(
                "the journal of a table is inconsistent: a row has gone that was not there",
                sqlstate=DATA_CORRUPTED,
            )
        return rows.popleft().identity

    def truncate(self, version: int) -> None:
        self._ended += [(row, version) for rows in self._alive.values() for row in rows]
        self._alive.clear()

    def tombstones(self, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield tombstones for the rows that truncations ended, in pieces."""
        pieces: dict[int, list[tuple[_Alive, int]]] = {}
        for row, version in self._ended:
            pieces.setdefault(id(row.table), []).append((row, version))
        for piece in pieces.values():
            taken = piece[0][0].table.take([row.row for row, _ in piece])
            ends = pa.array([version for _, version in piece], pa.int64()).cast(VERSION_TYPE)
            given = {VERSION: ends, SUBSEQUENT: ends}
            given[IDENTITY] = pa.array([row.identity for row, _ in piece], pa.int64())
            arrays = [
                given[field.name] if field.name in given else taken.column(field.name)
                for field in schema
            ]
            yield pa.Table.from_arrays(arrays, schema=schema)


def _identities(first: int) -> Iterator[int]:
    number = first
    while True:
        number += 1 if first else -1
        yield number


def _identified(tail: pa.Table, identities: Iterable[int | None]) -> pa.Table:
    index = tail.column_names.index(IDENTITY)
    return tail.set_column(index, IDENTITY, pa.array(list(identities), pa.int64()))


def images(table: JournalTable, rows: pa.Table) -> list[Image]:
    """Return all values of each row, in a form that is equal only for equal ones."""
    return _values(rows, [column.attnum for column in table.columns])


def _images(snapshot: TableSnapshot, rows: pa.Table) -> list[Image]:
    table = snapshot.table
    return _values(rows, table.key) if table.key else images(table, rows)


def _values(rows: pa.Table, attnums: Sequence[int]) -> list[Image]:
    columns = [
        [repr(v) for v in countable(rows.column(column_name(n))).to_pylist()] for n in attnums
    ]
    if not columns:
        return [()] * rows.num_rows
    return list(zip(*columns, strict=True))
