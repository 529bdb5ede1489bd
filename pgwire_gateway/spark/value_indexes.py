"""Which rows have a value in columns other than the key's, told without Spark.

Beside each data file that is asked about lies an index: the values of some columns with the keys of
the row versions that have them, sorted by value, in Parquet. It is made when it is first needed,
and goes with its segment. Files that are lost or damaged are made again.
"""

import threading
import uuid
from collections import OrderedDict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from catalog.model import JournalTable, Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.row_groups import RowGroup, row_groups
from pgwire_gateway.spark.warehouse import Warehouse
from pgwire_gateway.wire_types.tails import indices_of_keys

MOST_ROWS: Final = 10_000_000
"""Files of more rows than these are left to Spark: they would be sorted in memory."""

_GROUP_ROWS: Final = 16_384
_KEPT_FILES: Final = 2_000

Value = tuple[object, ...]


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
        self, snapshot: TableSnapshot, columns: Sequence[int], values: Collection[Value]
    ) -> set[Value] | None:
        """Return the keys of rows of which some version in segments has one of some values.

        Args:
            snapshot: The table, which has a key.
            columns: Attribute numbers.
            values: What the columns have together, integers and text, as Python's.

        Returns:
            The keys; None where the segments are not to be read this way.

        Raises:
            GatewayError: 58P01 for a missing file, 58030 for one that cannot be read.
        """
        table = snapshot.table
        names = [table.column(attnum).storage_name for attnum in columns]
        key = [table.column(attnum).storage_name for attnum in table.key]
        found: set[Value] = set()
        with storage_failures():
            for segment in snapshot.segments:
                if segment.kind is SegmentKind.ARCHIVE:
                    continue
                if not {*columns, *table.key} <= set(segment.attnums):
                    return None
                for path in self._warehouse.files(self._warehouse.absolute(segment.path)):
                    index = self._index(path, columns, list(dict.fromkeys([*names, *key])))
                    if index is None:
                        return None
                    found |= _keys(index, names, key, values)
        return found

    def prepare(self, table: JournalTable, segment: Segment) -> None:
        """Make the indexes of a segment that writers of a table are going to ask for."""
        alone = TableSnapshot(table, "", 0, (segment,), 0)
        for unique in table.unique_keys:
            self.keys(alone, unique.columns, [])

    def _index(self, data: Path, columns: Sequence[int], names: list[str]) -> _Index | None:
        """Return the index of a data file; None where it is too large, or cannot be written."""
        path = data.parent / f"_values_{'_'.join(map(str, columns))}" / data.name
        with self._lock:
            known = self._known.get(path)
            if known is not None:
                self._known.move_to_end(path)
                return known
            making = self._making.setdefault(path, threading.Lock())
        with making:
            found = _opened(path, names) or _made(data, path, names)
        with self._lock:
            self._making.pop(path, None)
            if found is not None:
                self._known[path] = found
                while len(self._known) > _KEPT_FILES:
                    self._known.popitem(last=False)
        return found


def _opened(path: Path, names: list[str]) -> _Index | None:
    """Return an index that is there; None where it is not, or is that of other columns."""
    try:
        footer = pq.read_metadata(path, memory_map=True)
    except (OSError, pa.ArrowInvalid):
        return None
    if footer.schema.to_arrow_schema().names != names:
        return None
    return _Index(path, footer, tuple(row_groups(footer, names[0])))


def _made(data: Path, path: Path, names: list[str]) -> _Index | None:
    if pq.read_metadata(data, memory_map=True).num_rows > MOST_ROWS:
        return None
    rows = pq.read_table(data, columns=names, memory_map=True).select(names)
    present = None
    for name in names:
        here = pc.is_valid(rows.column(name))
        present = here if present is None else pc.and_(present, here)
    rows = rows.filter(present).sort_by([(names[0], "ascending")])
    staged = path.with_name(f"{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows, staged, row_group_size=_GROUP_ROWS, compression="zstd")
        staged.rename(path)
    except OSError:
        with suppress(OSError):
            staged.unlink()
        return None
    return _opened(path, names)


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
            columns = [rows.column(name).take(places).to_pylist() for name in key]
            found.update(zip(*columns, strict=True))
    return found
