"""Write the base of a divided table: a segment for each partition, in a directory of its own.

Spark writes rows to staged directories by the encoded values of their partitions, or, where those
have few rows each, all of them in order, which this process cuts into files. Deltas and archives
are not divided: they are merged as a whole, and a small write would become many small files. So is
a base of too many partitions.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from catalog.divisions import (
    DIGEST,
    LONGEST_TEXT,
    MICROS_PER_HOUR,
    MOST_PARTITIONS,
    Division,
    DivisionField,
    Partition,
    PartitionValue,
    Transform,
)
from catalog.journal.layout import column_name
from catalog.model import JournalTable, Segment, SegmentKind
from pgwire_gateway.spark.api import Driver, Frame
from pgwire_gateway.spark.cut_files import cut, sorted_rows
from pgwire_gateway.spark.layouts import Layout
from pgwire_gateway.spark.small_files import by_key, write_small
from pgwire_gateway.spark.sorting import Volume, described, install, write_sorted
from pgwire_gateway.spark.staging import StagedSegment
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.spark.warehouse import Warehouse
from pgwire_gateway.wire_types import plain_keys, type_oids

_NUMBER: Final = "number"
_MANY: Final = 8
_SMALL: Final = 1 << 20
"""Partitions of fewer bytes of rows are many files for Spark, which writes others itself."""

_Written = tuple[tuple[PartitionValue, ...], Path, Sequence[pq.FileMetaData]]
"""Values of a partition, the directory of its files, and their footers."""

_TEXTS: Final = frozenset({type_oids.TEXT, type_oids.VARCHAR, type_oids.UUID})


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How rows are divided."""

    division: Division
    partitions: int
    """How many partitions they are in."""


def partitioning_for(frame: Frame, table: JournalTable, kind: SegmentKind) -> Partitioning | None:
    """Return how rows, given in the columns of relations, are to be divided; None for not at all.

    Args:
        frame: The rows.
        table: Whose they are.
        kind: The part of the journal that they belong to.
    """
    division = _of_part(table, kind)
    if division is None:
        return None
    expressions = list(partition_columns(division).values())
    partitions = frame.select(expressions).distinct().limit(MOST_PARTITIONS + 1).count()
    return Partitioning(division, partitions) if 0 < partitions <= MOST_PARTITIONS else None


def _of_part(table: JournalTable, kind: SegmentKind) -> Division | None:
    return table.division if kind is SegmentKind.BASE else None


@dataclass(frozen=True, slots=True)
class Output:
    """A part of a journal that is being written."""

    warehouse: Warehouse
    table: JournalTable
    kind: SegmentKind
    staged: StagedSegment
    volume: Volume
    partitioning: Partitioning | None = None
    """How it is divided, if it is."""

    def write(self, driver: Driver, frame: Frame) -> None:
        """Write rows, given in the columns of relations."""
        write_sorted(
            driver,
            frame,
            self.table,
            self.staged,
            self.volume,
            partitions=self._partition_columns(),
            together=self._together if self._is_cut else None,
        )

    def write_held(self, rows: pa.Table) -> tuple[Segment, ...]:
        """Write rows held in memory, which are few, divide them and move them into place.

        Raises:
            OSError: Storage failed.
        """
        division = _of_part(self.table, self.kind)
        partitions = {} if division is None else rows_by_partition(rows, division)
        if division is None or len(partitions) > MOST_PARTITIONS:
            write_small(rows, self.table, self.staged, self.volume)
            segment = install(self.warehouse, self.staged, self.table, self.kind, self.volume)
            return (segment,) if segment else ()
        numbers = np.empty(rows.num_rows, dtype=np.int32)
        for number, places in enumerate(partitions.values()):
            numbers[places] = number
        rows = by_key(rows.append_column(_NUMBER, pa.array(numbers)), self.table, [_NUMBER])
        values = list(partitions)
        parts = cut([rows], [_NUMBER], self.table, self.staged.files)
        return self._installed(
            division, [(values[part.marks[0]], part.directory, part.footers) for part in parts]
        )

    def install(self, statement: RunningStatement) -> tuple[Segment, ...]:
        """Move files that have been written into place, and describe them; none for no rows.

        Raises:
            QueryCanceledError: 57014 when the statement was cancelled.
            OSError: Storage failed.
        """
        if self.partitioning is None:
            segment = install(self.warehouse, self.staged, self.table, self.kind, self.volume)
            return (segment,) if segment else ()
        division = self.partitioning.division
        if self._is_cut:
            rows = _checked(sorted_rows(self.warehouse.files(self._together)), statement)
            parts = cut(rows, list(self._partition_columns()), self.table, self.staged.files)
            written: list[_Written] = [
                (tuple(map(decoded, part.marks)), part.directory, part.footers) for part in parts
            ]
        else:
            written = [
                (_decoded(directory, division), directory, _footers(self.warehouse, directory))
                for directory in sorted(_leaves(self.staged.files, len(division.fields)))
            ]
        return self._installed(division, written)

    @property
    def _is_cut(self) -> bool:
        """Whether all rows are written together, and divided when they are moved into place."""
        if self.partitioning is None or self.partitioning.partitions < _MANY:
            return False
        return self.volume.value_bytes < self.partitioning.partitions * _SMALL

    @property
    def _together(self) -> Path:
        return self.staged.root / "together"

    def _partition_columns(self) -> dict[str, str]:
        if self.partitioning is None:
            return {}
        taken = {name.lower() for name in Layout.of(self.table).file_names}
        columns = partition_columns(self.partitioning.division)
        while taken.intersection(columns):
            columns = {f"{name}p": expression for name, expression in columns.items()}
        return columns

    def _installed(self, division: Division, written: Sequence[_Written]) -> tuple[Segment, ...]:
        """Move partitions into place and describe them."""
        names = [self.table.column(field.attnum).storage_name for field in division.fields]
        staged = [(place, division.directory(names, values)) for values, place, _ in written]
        paths = self.warehouse.install_partitions(self.table, staged)
        self.staged.discard()
        found = []
        for (values, _, footers), path in zip(written, paths, strict=True):
            files = self.warehouse.files(self.warehouse.absolute(path))
            told = described(files, footers, self.table, self.kind, path)
            partition = Partition(division.number, self.volume.row_bytes * told.rows, values)
            found.append(replace(told, partition=partition))
        return tuple(found)


def _checked(tables: Iterable[pa.Table], statement: RunningStatement) -> Iterator[pa.Table]:
    for rows in tables:
        statement.check()
        yield rows


def _footers(warehouse: Warehouse, directory: Path) -> list[pq.FileMetaData]:
    return [pq.read_metadata(file) for file in warehouse.files(directory)]


def _leaves(directory: Path, depth: int) -> Iterator[Path]:
    if not depth:
        yield directory
        return
    for below in directory.iterdir():
        if below.is_dir():
            yield from _leaves(below, depth - 1)


def rows_by_partition(
    rows: pa.Table, division: Division
) -> Mapping[tuple[PartitionValue, ...], list[int]]:
    """Return the places of rows, given in the columns of relations, by the values of partitions."""
    plain = plain_keys.tuples(rows, [column_name(field.attnum) for field in division.fields])
    known: dict[tuple[object, ...], tuple[PartitionValue, ...]] = {}
    found: dict[tuple[PartitionValue, ...], list[int]] = defaultdict(list)
    for place, values in enumerate(plain):
        partition = known.get(values)
        if partition is None:
            partition = known[values] = division.values(values)
        found[partition].append(place)
    return found


# what Spark computes ----------------------------------------------------------------------------


def partition_columns(division: Division) -> dict[str, str]:
    """Return names and expressions of columns that tell the partition of a row.

    They are never NULL or empty, which Spark would take for the same, and of plain letters, as
    names of directories are in the JVM's own encoding.
    """
    return {f"p{n}": _encoded(field) for n, field in enumerate(division.fields)}


def _encoded(field: DivisionField) -> str:
    column = column_name(field.attnum)
    if field.type_oid in _TEXTS and field.transform is not Transform.BUCKET:
        text = f"substring({column}, 1, {field.argument})" if field.argument else column
        return (
            f"coalesce(CASE WHEN octet_length({text}) > {LONGEST_TEXT}"
            f" THEN concat('d', sha2(CAST({text} AS BINARY), 256))"
            f" ELSE concat('x', hex(CAST({text} AS BINARY))) END, 'n')"
        )
    return f"coalesce(concat('v', CAST({_number(field, column)} AS STRING)), 'n')"


def _number(field: DivisionField, column: str) -> str:
    whole = _whole(field, column)
    text = column if field.type_oid in _TEXTS else f"CAST({whole} AS STRING)"
    micros = f"unix_micros(CAST({column} AS TIMESTAMP))"
    return {
        Transform.IDENTITY: whole,
        Transform.BUCKET: f"(crc32(CAST({text} AS BINARY)) % {field.argument})",
        Transform.TRUNCATE: _quotient(whole, field.argument),
        Transform.HOUR: _quotient(micros, MICROS_PER_HOUR),
        Transform.DAY: f"unix_date(CAST({column} AS DATE))",
        Transform.YEAR: f"(year({column}) - 1970)",
        Transform.MONTH: f"((year({column}) - 1970) * 12 + month({column}) - 1)",
    }[field.transform]


def _whole(field: DivisionField, column: str) -> str:
    if field.type_oid == type_oids.DATE:
        return f"unix_date({column})"
    return f"CAST({column} AS BIGINT)"


def _quotient(number: str, divisor: int) -> str:
    """Return the largest number of times that a divisor fits; no intermediate result overflows."""
    below = f"-((-({number} + 1L)) DIV {divisor}L) - 1L"
    return f"(CASE WHEN {number} >= 0 THEN {number} DIV {divisor}L ELSE {below} END)"


def _decoded(directory: Path, division: Division) -> tuple[PartitionValue, ...]:
    parts = directory.parts[-len(division.fields) :]
    return tuple(decoded(part.partition("=")[2]) for part in parts)


def decoded(text: str) -> PartitionValue:
    """Return the value that Spark has encoded.

    >>> decoded("v-5"), decoded("x4445"), decoded("n")
    (-5, 'DE', None)
    """
    kind, rest = text[:1], text[1:]
    if kind == "v":
        return int(rest)
    if kind == "x":
        return bytes.fromhex(rest).decode()
    return DIGEST + rest if kind == "d" else None
