"""Few row versions as the file of a segment, written and read in this process, without a job.

The file has the form that Spark gives to those of large writes (:mod:`.sorting`): types, order of
rows, pages, statistics.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from catalog.journal.layout import IDENTITY, SUBSEQUENT, VERSION, identity_names
from catalog.model import Column, JournalTable, Segment
from pgwire_gateway.spark.layouts import Layout
from pgwire_gateway.spark.sorting import PAGE_ROWS, Volume, group_rows
from pgwire_gateway.spark.staging import StagedSegment
from pgwire_gateway.spark.warehouse import DataFile, Warehouse
from pgwire_gateway.wire_types.datetimes import countable
from pgwire_gateway.wire_types.input_text import text_values
from pgwire_gateway.wire_types.versions import VERSION_TYPE, storage_schema

MAX_BYTES: Final = 16 << 20
"""Largest volume that is written here; more would keep clients' threads from running too long.

It takes a tenth of a second or two, as long as Spark takes for a single row.
"""

_FILE: Final = "part-{:05}.zstd.parquet"

_LEAST_PAGE_BYTES: Final = 64
"""Smallest page: more than an encoder counts for none.

Of the only row of a group Arrow writes an array's pages in two parts, the first of which is empty
(PyArrow 26). It would be a page of its own below 8 bytes, and reading ends at an empty page.
"""


def write_small(
    rows: pa.Table, table: JournalTable, staged: StagedSegment, volume: Volume, number: int = 0
) -> None:
    """Write rows, given in the columns of relations, sorted by key to a file of a segment.

    Raises:
        OSError: Storage failed.
    """
    rows = by_key(rows, table)
    staged.files.mkdir(exist_ok=True)
    Form.of(table).write(rows, staged.files, group_rows(volume), number)


def by_key(rows: pa.Table, table: JournalTable, first: Sequence[str] = ()) -> pa.Table:
    """Return rows, given in the columns of relations, sorted by key, in the columns of files.

    Args:
        rows: The rows.
        table: Whose they are.
        first: Columns that they are sorted by before, and that they keep.
    """
    layout = Layout.of(table)
    rows = rows.select([*first, *layout.names]).combine_chunks()
    keys = identity_names(table.key)
    rows = rows.take(_order(rows, [*first, *keys, VERSION]))
    return rows.rename_columns([*first, *layout.file_names])


@dataclass(frozen=True, slots=True)
class Form:
    """What the files of a table have in common."""

    schema: pa.Schema
    """Their columns."""
    encoded: tuple[str, ...]
    """Those that may have a dictionary: keys repeat too little to gain by it."""

    @classmethod
    def of(cls, table: JournalTable) -> "Form":
        """Return the form of files of a table as it is defined now."""
        types = storage_schema(table).types
        schema = pa.schema(zip(Layout.of(table).file_names, types, strict=True))
        keys = {table.column(attnum).storage_name for attnum in table.key} or {IDENTITY}
        return cls(schema, tuple(_leaves(field for field in schema if field.name not in keys)))

    def write(
        self, rows: pa.Table, directory: Path, in_group: int, number: int = 0
    ) -> tuple[Path, pq.FileMetaData]:
        """Write sorted rows as a file; return it and its footer.

        Args:
            rows: The rows, in the columns of files.
            directory: Where the file goes.
            in_group: How many rows there may be in a row group.
            number: What tells the file from others there.

        Raises:
            OSError: Storage failed.
        """
        path = directory / _FILE.format(number)
        footers: list[pq.FileMetaData] = []
        pq.write_table(
            rows,
            path,
            row_group_size=in_group,
            compression="zstd",
            use_dictionary=list(self.encoded),
            write_statistics=_leaves(
                field for field in rows.schema if not _has_nan(rows.column(field.name))
            ),
            write_page_index=True,
            # A page ends where there is a batch in it.
            write_batch_size=PAGE_ROWS,
            data_page_size=_LEAST_PAGE_BYTES,
            store_decimal_as_integer=True,
            store_schema=False,
            metadata_collector=footers,
        )
        return path, footers[0]


def has_columns(warehouse: Warehouse, table: JournalTable, segment: Segment) -> bool:
    """Tell whether the files of a segment have the columns of the table under their names of now.

    A column whose type has changed has another one; what is under the old one is history. A table
    that had no key then has an identity there, by which the rows are sorted.

    Raises:
        OSError: Storage failed.
    """
    wanted = set(Layout.of(table).file_names)
    return all(wanted == file_names(file) for file in warehouse.data_files(segment))


def encoded_bytes(warehouse: Warehouse, segment: Segment) -> int:
    """Return how many bytes the columns of a segment's files have, unpacked.

    Raises:
        OSError: Storage failed.
    """
    footers = [pq.read_metadata(file.path) for file in warehouse.data_files(segment)]
    return sum(
        footer.row_group(number).total_byte_size
        for footer in footers
        for number in range(footer.num_row_groups)
    )


def file_names(file: DataFile) -> set[str]:
    """Return the names of a file's columns, with those that are told beside a file of others."""
    names = set(pq.read_schema(file.path).names)
    return names | told_names(file)


def told_names(file: DataFile) -> set[str]:
    """Return the names of columns that are not in a file of others, but told beside it."""
    if file.borrowed is None:
        return set()
    return {VERSION, SUBSEQUENT} | ({IDENTITY} if file.borrowed.identity is not None else set())


def read_rows(
    warehouse: Warehouse,
    table: JournalTable,
    segment: Segment,
    names: Sequence[str] | None = None,
) -> pa.Table:
    """Return the rows of a segment that has the table's columns, in the columns of relations.

    Args:
        warehouse: Where it is.
        table: The table.
        segment: The segment.
        names: Those of the columns that are wanted; all where there are none.

    Raises:
        OSError: Storage failed.
    """
    layout = Layout.of(table)
    stored = dict(zip(layout.names, layout.file_names, strict=True))
    wanted = layout.names if names is None else names
    columns = [stored[name] for name in wanted]
    parts = []
    for file in warehouse.data_files(segment):
        with pq.ParquetFile(file.path) as opened:
            present = [name for name in columns if name not in told_names(file)]
            rows = with_told_columns(opened.read(present), file, table)
        parts.append(rows.select(columns).rename_columns(list(wanted)))
    return pa.concat_tables(parts)


def with_told_columns(rows: pa.Table, file: DataFile, table: JournalTable) -> pa.Table:
    """Return rows of a file, by the names of columns in files, with what is told beside it.

    Where rows have an identity, all of the file are given.
    """
    if file.borrowed is None:
        return rows
    rows = of_storage_types(rows, file, table)
    version = pa.scalar(file.version, pa.int64()).cast(VERSION_TYPE)
    rows = rows.append_column(VERSION, pa.repeat(version, rows.num_rows))
    rows = rows.append_column(SUBSEQUENT, pa.nulls(rows.num_rows, VERSION_TYPE))
    if file.borrowed.identity is not None:
        first = file.borrowed.identity
        numbers = pa.array(range(first, first + rows.num_rows), pa.int64())
        rows = rows.append_column(IDENTITY, numbers)
    return rows


def with_missing_columns(
    rows: pa.Table, columns: Iterable[Column], attnums: Collection[int]
) -> pa.Table:
    """Return rows of a file, by the names of columns in files, with those that it does not have.

    Args:
        rows: The rows.
        columns: Those that are wanted.
        attnums: Columns that there were when the file was written. One of these that it does not
            have has another type since, of which it has no value.
    """
    present = set(rows.column_names)
    for column in columns:
        if column.storage_name not in present:
            text = None if column.attnum in attnums else column.missing_value
            values = text_values([text], column.type_oid, column.typmod)
            repeated = values.take(pa.array([0] * rows.num_rows, pa.int64()))
            rows = rows.append_column(column.storage_name, repeated)
    return rows


def of_storage_types(rows: pa.Table, file: DataFile, table: JournalTable) -> pa.Table:
    """Return rows, by the names of columns in files, in the types that values are stored in.

    Those of a file of others may come as dictionaries or as long strings, as its writer noted.
    """
    if file.borrowed is None:
        return rows
    kinds = dict(zip(Layout.of(table).file_names, storage_schema(table).types, strict=True))
    return rows.cast(pa.schema([(name, kinds[name]) for name in rows.column_names]))


def _order(rows: pa.Table, names: list[str]) -> pa.Array:
    """Return the places of rows in the order Spark sorts them in."""
    parts = [part for name in names for part in _comparable(rows.column(name).combine_chunks())]
    columns = {f"k{number}": part for number, part in enumerate(parts)}
    return pc.sort_indices(pa.table(columns), [(name, "ascending") for name in columns])


def _comparable(values: pa.Array) -> list[pa.Array]:
    """Return columns that Arrow can sort, in the order of values of types that it cannot."""
    if pa.types.is_struct(values.type):
        return list(values.flatten())
    if pa.types.is_list(values.type):
        return [_ranks(values)]
    return [values]


def _ranks(arrays: pa.Array) -> pa.Array:
    lists = countable(arrays).to_pylist()
    sortable = [tuple((item is not None, item) for item in found or ()) for found in lists]
    ranks = {key: rank for rank, key in enumerate(sorted(set(sortable), key=_nulls_first))}
    return pa.array([ranks[key] for key in sortable], pa.int64())


def _nulls_first(key: tuple[tuple[bool, object], ...]) -> tuple[tuple[object, ...], ...]:
    return tuple(item if item[0] else (False,) for item in key)


def _leaves(fields: Iterator[pa.Field]) -> list[str]:
    """Return the paths of the columns that Parquet makes of these."""
    return [path for field in fields for path in _paths(field.name, field.type)]


def _paths(name: str, kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_list(kind):
        yield from _paths(f"{name}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _paths(f"{name}.{field.name}", field.type)
    else:
        yield name


def _has_nan(column: pa.ChunkedArray) -> bool:
    """Tell whether a column has values that Arrow leaves out of statistics.

    To PostgreSQL and Spark NaN is the largest number: without it, statistics would say that rows
    are not there which are.
    """
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_nan(column)).as_py())
