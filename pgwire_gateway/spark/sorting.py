"""Write a DataFrame of row versions as the files of a segment, sorted and laid out for point reads.

Rows are sorted by key, so that the smallest and largest value of each row group and page tell
where a key is. Pages are short, since a point read decodes whole pages; row groups are small enough
that a task holds one decoded. Key columns are not dictionary-encoded: a reader would search the
dictionary of each row group, and keys repeat too little to gain by it. Bloom filters are left out:
a row group that is asked for again is kept decoded, and halving it says whether it has a key in
less time than reading a filter takes (of sixteen deltas with random keys, in 4 ms).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow.parquet as pq

from catalog.journal.layout import IDENTITY, VERSION, identity_names
from catalog.model import JournalTable, Segment, SegmentKind
from pgwire_gateway.spark.api import Driver, Frame, Writing
from pgwire_gateway.spark.frames import PART_BYTES
from pgwire_gateway.spark.layouts import Layout
from pgwire_gateway.spark.staging import StagedSegment
from pgwire_gateway.spark.warehouse import Warehouse
from pgwire_gateway.wire_types.plain_keys import bounds

MAX_GROUP_ROWS: Final = 32_768
PAGE_ROWS: Final = 4096
ROWS_PER_FILE: Final = 2_000_000
_MIN_GROUP_ROWS: Final = 256
_MOST_GROUP_BYTES: Final = 64 << 20
"""Of rows that are long there are fewer in a group: tasks decode all of it at once."""
BOUNDED: Final = frozenset({20, 21, 23, 1082, 1114, 1184})
"""Types of keys that segments tell bounds of: integers, dates and timestamps."""
_PLAIN_NAME: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Volume:
    """How much is to be written, as far as it is known."""

    rows: int
    value_bytes: int
    """Size of the rows in memory."""

    @property
    def row_bytes(self) -> int:
        """Average size of a row in memory."""
        return max(self.value_bytes // max(self.rows, 1), 1)


def write_sorted(  # noqa: PLR0913 - what is written, and where
    driver: Driver,
    frame: Frame,
    table: JournalTable,
    staged: StagedSegment,
    volume: Volume,
    *,
    partitions: Mapping[str, str] = MappingProxyType({}),
    together: Path | None = None,
) -> None:
    """Write rows, given in the columns of relations, sorted by key to the files of a segment.

    With names and expressions of partitions each of these has a directory, and is sorted in itself.
    Or all are written together to another directory, in order, with what tells their partitions.
    """
    layout = Layout.of(table)
    key = [*partitions, *identity_names(table.key)]
    if partitions:
        computed = [f"{expression} AS {name}" for name, expression in partitions.items()]
        frame = frame.select(["*", *computed])
    files = min(-(-volume.rows // ROWS_PER_FILE), 4 * driver.cores)
    frame = frame.by_range(files, key) if files > 1 else frame.coalesce(1)
    frame = frame.sorted_parts([*key, VERSION]).select([*layout.to_files(), *partitions])
    options = {"compression": "zstd", **_options(table, volume)}
    directories = tuple(partitions) if together is None else ()
    frame.write(Writing("parquet", str(together or staged.files), options, directories))


def install(
    warehouse: Warehouse,
    staged: StagedSegment,
    table: JournalTable,
    kind: SegmentKind,
    volume: Volume,
) -> Segment | None:
    """Move written files into place and describe them; None when they hold no row."""
    files = warehouse.files(staged.files)
    footers = [pq.read_metadata(file) for file in files]
    rows = sum(footer.num_rows for footer in footers)
    if not rows:
        staged.discard()
        return None
    for file, footer in zip(files, footers, strict=True):
        if not footer.num_rows:
            file.unlink()
    path = warehouse.install(staged, table, kind, volume.row_bytes * rows)
    staged.discard()
    return described(warehouse.files(warehouse.absolute(path)), footers, table, kind, path)


def described(
    files: Sequence[Path],
    footers: Sequence[pq.FileMetaData],
    table: JournalTable,
    kind: SegmentKind,
    path: str,
) -> Segment:
    """Return what files tell of the segment that they are."""
    filled = [footer for footer in footers if footer.num_rows]
    versions = _bounds(filled, VERSION)
    keys = key_bounds(filled, table)
    return Segment(
        segment_id=0,
        kind=kind,
        path=path,
        rows=sum(footer.num_rows for footer in filled),
        size_bytes=sum(file.stat().st_size for file in files),
        attnums=tuple(column.attnum for column in table.columns),
        min_version=min(versions),
        max_version=max(versions),
        key_min=min(keys) if keys else None,
        key_max=max(keys) if keys else None,
    )


def group_rows(volume: Volume) -> int:
    """Return how many rows there may be in a row group, which tasks hold decoded."""
    least = max(min(_MOST_GROUP_BYTES // volume.row_bytes, _MIN_GROUP_ROWS), 1)
    return min(max(PART_BYTES // volume.row_bytes, least), MAX_GROUP_ROWS)


def has_identity(warehouse: Warehouse, segment: Segment) -> bool:
    """Tell whether the rows of a segment carry a hidden identity, by which they are sorted then."""
    files = warehouse.data_files(segment)
    if files and files[0].borrowed is not None:
        return files[0].borrowed.identity is not None
    return bool(files) and IDENTITY in pq.read_schema(files[0].path).names


def _options(table: JournalTable, volume: Volume) -> dict[str, str]:
    options = {
        "parquet.block.row.count.limit": str(group_rows(volume)),
        "parquet.page.row.count.limit": str(PAGE_ROWS),
    }
    names = [table.column(attnum).storage_name for attnum in table.key] or [IDENTITY]
    for name in [*names, VERSION]:
        if _PLAIN_NAME.fullmatch(name):
            options[f"parquet.enable.dictionary#{name}"] = str(name == VERSION).lower()
    return options


def leaf(footer: pq.FileMetaData, name: str) -> int | None:
    """Return the place of a column without parts among the leaves of a file's columns.

    Parts of other columns may have the same name. None where there is no such column, or no row.
    """
    if not footer.num_row_groups:
        return None
    group = footer.row_group(0)
    places = range(footer.num_columns)
    return next((n for n in places if group.column(n).path_in_schema == name), None)


def _bounds(footers: Sequence[Any], name: str) -> list[Any]:
    """Return the smallest and largest values of a column in each row group; empty if unknown."""
    values: list[Any] = []
    for footer in footers:
        index = leaf(footer, name)
        if index is None:
            return []
        for group in range(footer.num_row_groups):
            known = bounds(footer.row_group(group).column(index).statistics)
            if known is None:
                return []
            values += known
    return values


def key_bounds(footers: Sequence[Any], table: JournalTable) -> list[int]:
    """Return bounds of the key in each row group of files, as plain values; empty if unknown."""
    if len(table.key) != 1:
        return []
    column = table.column(table.key[0])
    return _bounds(footers, column.storage_name) if column.type_oid in BOUNDED else []
