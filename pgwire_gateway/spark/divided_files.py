"""Write the base of a divided table: a segment for each partition, in a directory of its own.

Spark writes rows to staged directories by the encoded values of their partitions; few rows are
divided in this process. Deltas and archives are not divided: they are merged as a whole, and a
small write would become many small files. So is a base of too many partitions.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

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
from catalog.model import JournalTable, Segment, SegmentKind
from pgwire_gateway.spark.engine import Driver
from pgwire_gateway.spark.frames import Frame
from pgwire_gateway.spark.small_files import write_small
from pgwire_gateway.spark.sorting import Volume, described, install, write_sorted
from pgwire_gateway.spark.warehouse import StagedSegment, Warehouse
from pgwire_gateway.wire_types import plain_keys, type_oids

_TEXTS: Final = frozenset({type_oids.TEXT, type_oids.VARCHAR, type_oids.UUID})


def division_for(
    driver: Driver, frame: Frame, table: JournalTable, kind: SegmentKind
) -> Division | None:
    """Return how rows, given in the columns of relations, are to be divided; None for not at all.

    Args:
        driver: Where the rows are counted.
        frame: The rows.
        table: Whose they are.
        kind: The part of the journal that they belong to.
    """
    division = _of_part(table, kind)
    if division is None:
        return None
    expressions = list(partition_columns(division).values())
    found = frame.selectExpr(driver.strings(expressions)).distinct().limit(MOST_PARTITIONS + 1)
    return division if 0 < int(found.count()) <= MOST_PARTITIONS else None


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
    division: Division | None = None
    """How it is divided, if it is."""

    def write(self, driver: Driver, frame: Frame) -> None:
        """Write rows, given in the columns of relations."""
        partitions = {} if self.division is None else partition_columns(self.division)
        write_sorted(driver, frame, self.table, self.staged, self.volume, partitions=partitions)

    def write_held(self, rows: pa.Table) -> tuple[Segment, ...]:
        """Write rows held in memory, which are few, divide them and move them into place.

        Raises:
            OSError: Storage failed.
        """
        division = _of_part(self.table, self.kind)
        partitions = {} if division is None else rows_by_partition(rows, division)
        if division is None or len(partitions) > MOST_PARTITIONS:
            write_small(rows, self.table, self.staged, self.volume)
            return self.install()
        written = []
        for number, (values, places) in enumerate(partitions.items()):
            part = StagedSegment(self.staged.root / str(number))
            part.root.mkdir()
            chosen = rows.take(places)
            write_small(chosen, self.table, part, Volume(chosen.num_rows, chosen.nbytes))
            written.append((values, part.files))
        return self._install_partitions(division, written)

    def install(self) -> tuple[Segment, ...]:
        """Move files that have been written into place, and describe them; none for no rows."""
        if self.division is None:
            segment = install(self.warehouse, self.staged, self.table, self.kind, self.volume)
            return (segment,) if segment else ()
        division = self.division
        directories = sorted(_leaves(self.staged.files, len(division.fields)))
        written = [(_decoded(directory, division), directory) for directory in directories]
        return self._install_partitions(division, written)

    def _install_partitions(
        self, division: Division, written: Sequence[tuple[tuple[PartitionValue, ...], Path]]
    ) -> tuple[Segment, ...]:
        warehouse = self.warehouse
        names = [self.table.column(field.attnum).storage_name for field in division.fields]
        staged = [(place, division.directory(names, values)) for values, place in written]
        paths = warehouse.install_partitions(self.table, staged)
        self.staged.discard()
        found = []
        for (values, _), path in zip(written, paths, strict=True):
            files = warehouse.files(warehouse.absolute(path))
            footers = [pq.read_metadata(file) for file in files]
            told = described(files, footers, self.table, self.kind, path)
            partition = Partition(division.number, self.volume.row_bytes * told.rows, values)
            found.append(replace(told, partition=partition))
        return tuple(found)


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
    plain = plain_keys.tuples(rows, [f"c{field.attnum}" for field in division.fields])
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
    column = f"c{field.attnum}"
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
