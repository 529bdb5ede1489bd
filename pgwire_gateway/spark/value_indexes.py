"""Which rows have a value in columns other than the key's, or computed, told without Spark.

Beside each data file that is asked about lies an index: the values of some columns with the keys of
the row versions that have them, sorted by value, in Parquet. It is made when it is first needed,
and goes with its segment. Files that are lost or damaged are made again.

Who asks for computed values brings what computes them: PostgreSQL does, not this module.
"""

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from catalog.journal.layout import column_names
from catalog.model import JournalTable, Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.row_groups import RowGroup, row_groups
from pgwire_gateway.spark.small_files import of_storage_types
from pgwire_gateway.spark.warehouse import DataFile, Warehouse, synchronise
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.tails import indices_of_keys
from pgwire_gateway.wire_types.versions import storage_schema

MOST_ROWS: Final = 10_000_000
"""Files of more rows than these are left to Spark: they would be sorted in memory."""

_GROUP_ROWS: Final = 16_384
_KEPT_FILES: Final = 2_000
_COMPUTED_AT_ONCE: Final = 20_000

Value = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Computed:
    """Values that are computed from columns of a row, a text each."""

    name: str
    """Tells them from all others that were ever computed for the table."""
    columns: tuple[int, ...]
    """Attribute numbers of the columns."""
    compute: Callable[[pa.Table], pa.Array | None]
    """Returns the values of rows (``c<attnum>``), NULL for those that have none; None where one
    cannot be computed."""


@dataclass(frozen=True, slots=True)
class _Sought:
    """What an index lists, and how it is called there."""

    directory: str
    columns: tuple[int, ...]
    names: list[str]
    key: list[str]
    computed: Computed | None

    @classmethod
    def of(
        cls, table: JournalTable, columns: Sequence[int], computed: Computed | None
    ) -> "_Sought":
        if computed is not None:
            key = column_names(table.key)
            return cls(f"_values_{computed.name}", computed.columns, ["value"], key, computed)
        names, key = (
            [table.column(attnum).storage_name for attnum in some] for some in (columns, table.key)
        )
        directory = f"_values_{'_'.join(map(str, columns))}"
        return cls(directory, tuple(columns), names, key, None)

    @property
    def listed(self) -> list[str]:
        """The columns of the index."""
        return list(dict.fromkeys([*self.names, *self.key]))

    def stored(self, table: JournalTable) -> set[str]:
        """Return the names that the columns have in files that were written with them."""
        return {table.column(attnum).storage_name for attnum in (*self.columns, *table.key)}


@dataclass(frozen=True, slots=True)
class _Index:
    path: Path
    footer: pq.FileMetaData
    groups: tuple[RowGroup, ...]


class ValueIndexes:
    """Finds the keys of rows by values of other columns; remembers the footers of its files."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = threading.Lock()
        self._making: dict[Path, threading.Lock] = {}
        self._known: OrderedDict[Path, _Index] = OrderedDict()

    def keys(
        self,
        snapshot: TableSnapshot,
        columns: Sequence[int],
        values: Collection[Value],
        computed: Computed | None = None,
    ) -> set[Value] | None:
        """Return the keys of rows of which some version in segments has one of some values.

        Args:
            snapshot: The table, which has a key.
            columns: Attribute numbers.
            values: What the columns have together, as plain values; or the computed values.
            computed: What the values are, if they are not those of the columns.

        Returns:
            The keys; None where the segments are not to be read this way.

        Raises:
            GatewayError: 58P01 for a missing file, 58030 for one that cannot be read.
        """
        table = snapshot.table
        whole = _Sought.of(table, columns, computed)
        found: set[Value] = set()
        with storage_failures():
            for segment in snapshot.segments:
                if segment.kind is SegmentKind.ARCHIVE:
                    continue
                sought, wanted = whole, values
                if computed is None:
                    there, wanted = _of_segment(segment, table, columns, values)
                    if not wanted:
                        continue
                    if not there:
                        return None
                    if there is not columns:
                        sought = _Sought.of(table, there, None)
                if not {*sought.columns, *table.key} <= set(segment.attnums):
                    return None
                for file in self._warehouse.data_files(segment):
                    index = self._index(file, table, sought)
                    if index is None:
                        return None
                    found |= _keys(index, sought.names, sought.key, wanted)
        return found

    def _index(self, data: DataFile, table: JournalTable, sought: _Sought) -> _Index | None:
        """Return the index of a data file; None where it is too large, or cannot be made."""
        path = data.beside / sought.directory / data.name
        with self._lock:
            known = self._known.get(path)
            if known is not None:
                self._known.move_to_end(path)
                return known
            making = self._making.setdefault(path, threading.Lock())
        with making:
            found = _opened(path, sought) or _made(data, path, table, sought)
        with self._lock:
            self._making.pop(path, None)
            if found is not None:
                self._known[path] = found
                while len(self._known) > _KEPT_FILES:
                    self._known.popitem(last=False)
        return found


def _of_segment(
    segment: Segment, table: JournalTable, columns: Sequence[int], values: Collection[Value]
) -> tuple[Sequence[int], Collection[Value]]:
    """Return those of some columns that a segment has, and what is sought of them there.

    Columns that are younger have one value in all of its rows.
    """
    younger = [place for place, attnum in enumerate(columns) if attnum not in segment.attnums]
    if not younger:
        return columns, values
    told = [table.column(columns[place]) for place in younger]
    texts = [column.missing_value for column in told if column.missing_value is not None]
    if len(texts) < len(told):
        return (), ()
    missing = plain_keys.read(told, texts)
    older = [place for place in range(len(columns)) if place not in younger]
    return [columns[place] for place in older], [
        tuple(value[place] for place in older)
        for value in values
        if tuple(value[place] for place in younger) == missing
    ]


def _opened(path: Path, sought: _Sought) -> _Index | None:
    """Return an index that is there; None where it is not, or is that of other columns."""
    try:
        footer = pq.read_metadata(path, memory_map=True)
    except (OSError, pa.ArrowInvalid):
        return None
    if footer.schema.to_arrow_schema().names != sought.listed:
        return None
    return _Index(path, footer, tuple(row_groups(footer, sought.names[0])))


def _made(data: DataFile, path: Path, table: JournalTable, sought: _Sought) -> _Index | None:
    footer = pq.read_metadata(data.path)
    if footer.num_rows > MOST_ROWS or not sought.stored(table) <= _names(footer):
        return None
    read = (
        _plain(data, table, sought) if sought.computed is None else _computed(data, table, sought)
    )
    if read is None:
        return None
    rows = read.sort_by([(sought.names[0], "ascending")])
    staged = path.with_name(f"{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows, staged, row_group_size=_GROUP_ROWS, compression="zstd")
        synchronise(staged)
        staged.rename(path)
    except OSError:
        with suppress(OSError):
            staged.unlink()
        return None
    return _opened(path, sought)


def _names(footer: pq.FileMetaData) -> set[str]:
    return set(footer.schema.to_arrow_schema().names)


def _plain(data: DataFile, table: JournalTable, sought: _Sought) -> pa.Table:
    with pq.ParquetFile(data.path, memory_map=data.borrowed is None) as opened:
        rows = of_storage_types(opened.read(sought.listed).select(sought.listed), data, table)
    for name in sought.names:
        rows = rows.filter(pc.is_valid(rows.column(name)))
    return rows


def _computed(data: DataFile, table: JournalTable, sought: _Sought) -> pa.Table | None:
    """Return the values of the rows of a file with their keys; None where one has none."""
    if sought.computed is None:
        raise TypeError(sought.directory)
    read = dict.fromkeys([*sought.columns, *table.key])
    stored = [table.column(attnum).storage_name for attnum in read]
    names = column_names(read)
    layout = pa.schema([storage_schema(table).field(name) for name in names])
    parts = []
    with pq.ParquetFile(data.path, memory_map=data.borrowed is None) as opened:
        for batch in opened.iter_batches(_COMPUTED_AT_ONCE, columns=stored):
            part = pa.Table.from_batches([batch]).select(stored).rename_columns(names)
            rows = part.cast(layout)
            values = sought.computed.compute(rows)
            if values is None:
                return None
            keyed = rows.select(sought.key)
            parts.append(keyed.add_column(0, "value", values).filter(pc.is_valid(values)))
    empty = layout.empty_table().select(sought.key)
    return pa.concat_tables([empty.add_column(0, "value", pa.array([], pa.string())), *parts])


def _keys(
    index: _Index, names: Sequence[str], key: Sequence[str], values: Collection[Value]
) -> set[Value]:
    found: set[Value] = set()
    groups = [
        (group.number, here)
        for group in index.groups
        if (here := [value for value in values if group.may_have(value[0])])
    ]
    if not groups:
        return found
    with pq.ParquetFile(index.path, metadata=index.footer, memory_map=True) as opened:
        for number, here in groups:
            rows = opened.read_row_group(number, use_threads=False)
            places = indices_of_keys(rows, names, here)
            # What ended when the key's type changed has none.
            keys = plain_keys.tuples(rows.take(places), key)
            found.update(found_key for found_key in keys if None not in found_key)
    return found
