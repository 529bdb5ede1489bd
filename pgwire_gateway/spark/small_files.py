"""Few row versions as the file of a segment, written and read in this process, without a job.

The file has the form that Spark gives to those of large writes (:mod:`.sorting`): types, order of
rows, pages, statistics.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from catalog.model import JournalTable, Segment
from pgwire_gateway.spark.layouts import IDENTITY, VERSION, Layout
from pgwire_gateway.spark.sorting import PAGE_ROWS, Volume, group_rows
from pgwire_gateway.spark.warehouse import StagedSegment, Warehouse
from pgwire_gateway.wire_types.datetimes import countable

MAX_BYTES: Final = 16 << 20
"""Largest volume that is written here; more would keep clients' threads from running too long.

It takes a tenth of a second or two, as long as Spark takes for a single row.
"""

_FILE: Final = "part-00000.zstd.parquet"


def write_small(rows: pa.Table, table: JournalTable, staged: StagedSegment, volume: Volume) -> None:
    """Write rows, given in the columns of relations, sorted by key to the file of a segment.

    Raises:
        OSError: Storage failed.
    """
    layout = Layout.of(table)
    rows = rows.select(list(layout.names)).combine_chunks()
    keys = [f"c{attnum}" for attnum in table.key] or [IDENTITY]
    rows = rows.take(_order(rows, [*keys, VERSION])).rename_columns(list(layout.file_names))
    key_names = {table.column(attnum).storage_name for attnum in table.key} or {IDENTITY}
    staged.files.mkdir()
    pq.write_table(
        rows,
        staged.files / _FILE,
        row_group_size=group_rows(volume),
        compression="zstd",
        use_dictionary=_leaves(field for field in rows.schema if field.name not in key_names),
        write_statistics=_leaves(
            field for field in rows.schema if not _has_nan(rows.column(field.name))
        ),
        write_page_index=True,
        # A page ends where there is a batch in it.
        write_batch_size=PAGE_ROWS,
        data_page_size=1,
        store_decimal_as_integer=True,
        store_schema=False,
    )


def has_columns(warehouse: Warehouse, table: JournalTable, segment: Segment) -> bool:
    """Tell whether the files of a segment have the columns of the table under their names of now.

    A column whose type has changed has another one; what is under the old one is history. A table
    that had no key then has an identity there, by which the rows are sorted.

    Raises:
        OSError: Storage failed.
    """
    wanted = set(Layout.of(table).file_names)
    files = warehouse.files(warehouse.absolute(segment.path))
    return all(wanted == set(pq.read_schema(file).names) for file in files)


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
    files = warehouse.files(warehouse.absolute(segment.path))
    parts = [pq.ParquetFile(file).read([stored[name] for name in wanted]) for file in files]
    return pa.concat_tables([part.rename_columns(list(wanted)) for part in parts])


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
