"""Rows of many small files, read in this process: opening each of them takes Spark longer."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.journal.layout import column_name
from catalog.model import LEAF, Segment
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.layouts import Layout
from pgwire_gateway.spark.warehouse import Warehouse

_MANY: Final = 8
_MOST_ROWS: Final = 100_000
_FEW_ROWS: Final = 100
"""In a file on average: so many rows are read here in less time than Spark opens the file."""
_MOST_BYTES: Final = 16 << 20
_KEPT_BYTES: Final = 64 << 20
_LEAF: Final = column_name(LEAF)


class HeldRows:
    """Rows of segments that are read together, kept from one statement to the next."""

    def __init__(self, warehouse: Warehouse) -> None:
        """Read what is in a warehouse."""
        self._warehouse = warehouse
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Layout, str], pa.Table] = OrderedDict()
        self._bytes = 0

    def rows(
        self, layout: Layout, segments: Sequence[Segment], value_bytes: Callable[[Segment], int]
    ) -> pa.Table | None:
        """Return the rows of segments, in the columns of relations.

        None where the segments are few, or large, or have other columns.

        Args:
            layout: The columns.
            segments: The segments.
            value_bytes: Tells how large the rows of one are in memory.

        Raises:
            GatewayError: 58P01 or 58030 for files that cannot be read.
        """
        attnums = tuple(column.attnum for column in layout.columns if column.attnum != LEAF)
        if (
            len(segments) < _MANY
            or sum(segment.rows for segment in segments)
            > max(_MOST_ROWS, _FEW_ROWS * len(segments))
            or any(segment.attnums != attnums or segment.is_borrowed for segment in segments)
            or sum(map(value_bytes, segments)) > _MOST_BYTES
        ):
            return None
        parts = []
        with storage_failures():
            for segment in segments:
                rows = self._rows(layout, segment)
                if rows is None:
                    return None
                parts.append(rows)
        return pa.concat_tables(parts)

    def _rows(self, layout: Layout, segment: Segment) -> pa.Table | None:
        key = (layout, segment.path)
        with self._lock:
            rows = self._kept.get(key)
            if rows is not None:
                self._kept.move_to_end(key)
                return rows
        rows = self._read(layout, segment)
        if rows is None:
            return None
        with self._lock:
            if key not in self._kept:
                self._kept[key] = rows
                self._bytes += rows.nbytes
            while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return rows

    def _read(self, layout: Layout, segment: Segment) -> pa.Table | None:
        pairs = zip(layout.names, layout.file_names, strict=True)
        stored = {name: file_name for name, file_name in pairs if name != _LEAF}
        parts = []
        for path in self._warehouse.own_files(segment):
            with pq.ParquetFile(path) as file:
                if not set(stored.values()) <= set(file.schema_arrow.names):
                    return None
                rows = file.read(list(stored.values()), use_threads=False)
            parts.append(rows.rename_columns(list(stored)))
        found = pa.concat_tables(parts)
        if _LEAF in layout.names:
            leaf = pa.scalar(int(segment.path.split("/")[1]), pa.int64())
            found = found.append_column(_LEAF, pa.repeat(leaf, found.num_rows))
        return found
