"""Small segments are written without Spark, and nobody can tell them from those Spark writes."""

import decimal
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.errors import GatewayError
from catalog.model import Column, Segment, SegmentKind
from pgwire_gateway.spark import compactor
from pgwire_gateway.spark.errors import QueryCanceledError
from pgwire_gateway.spark.executor import RunningStatement
from pgwire_gateway.spark.sorting import PAGE_ROWS, Volume, group_rows
from pgwire_gateway.wire_types.registry import INTERVAL_TYPE, arrow_type
from pgwire_gateway.wire_types.type_oids import ELEMENT_OF_ARRAY
from pgwire_gateway.wire_types.versions import storage_schema
from tests.gateway.wire_types.test_storage_types import SCALARS
from tests.support.fix_spark import ID, NAME, TIMESTAMP, Journal

pytestmark = pytest.mark.spark


def numeric(precision: int, scale: int) -> int:
    return ((precision << 16) | scale) + 4


NUMERICS = tuple((1700, numeric(*shape)) for shape in ((4, 2), (9, 0), (18, 6), (38, 10)))
TYPES = (
    *((oid, -1) for oid in SCALARS if oid not in {600, 650, 718, 829, 869}),
    *((oid, -1) for oid in (1042, 1043, 1082, 1083, 1114, 1184, 1186, 1700, 2950, 3802, 20_000)),
    *NUMERICS,
    *((oid, -1) for oid in ELEMENT_OF_ARRAY),
    (1231, numeric(15, 2)),
)

MOST_MICROSECONDS = 9_223_371_936_000_000_000
"""Some days before the end of what 64 bits of microseconds tell."""

SAMPLES = {
    pa.bool_(): (True, False),
    pa.int16(): (0, -32768, 32767),
    pa.int32(): (0, -(1 << 31), (1 << 31) - 1),
    pa.int64(): (0, -(1 << 63), (1 << 63) - 1),
    pa.float32(): (0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf")),
    pa.float64(): (-0.0, 0.0, 5e-324, float("nan"), float("inf"), float("-inf")),
    pa.string(): ("", "a", "é€😀", "z" * 5000, "NaN", "1.50"),
    pa.binary(): (b"", b"\x00\xff", b"z" * 5000),
    pa.date32(): (0, -2_440_588, 100_000_000),
    pa.timestamp("us"): (0, -210_866_803_200_000_000, MOST_MICROSECONDS),
    TIMESTAMP: (0, -210_866_803_200_000_000, MOST_MICROSECONDS),
    INTERVAL_TYPE: (
        {"months": 0, "days": 0, "microseconds": 0},
        {"months": -3, "days": 40, "microseconds": -(1 << 62)},
    ),
}


def samples(kind: pa.DataType) -> list[object]:
    """Return values of a storage type, NULL among them."""
    if pa.types.is_list(kind):
        inner = samples(kind.value_type)
        return [[], inner, None, inner[:1], [None]]
    if pa.types.is_decimal(kind):
        digits = (9,) * kind.precision
        signs = [decimal.Decimal((sign, digits, -kind.scale)) for sign in (0, 1)]
        return [*signs, None, decimal.Decimal((0, (0,), -kind.scale))]
    return [*SAMPLES[kind], None]


COLUMNS = tuple(
    Column(number, f"column {number}", oid, typmod, False, f"column {number}")
    for number, (oid, typmod) in enumerate(TYPES, start=2)
)
ROWS = 12


def everything(journal: Journal, first: int = 0) -> pa.Table:
    """Return rows of all types, the last ones first."""
    journal.columns = (ID, *COLUMNS)
    arrays = [pa.array(range(first + ROWS - 1, first - 1, -1), pa.int32())]
    for column in COLUMNS:
        kind = arrow_type(column.type_oid, column.typmod)
        values = islice(cycle(samples(kind)), column.attnum, column.attnum + ROWS)
        arrays.append(pa.array(values, kind))
    arrays.append(pa.array([10] * ROWS, TIMESTAMP))
    arrays.append(pa.array(([None] * 3 + [10]) * (ROWS // 4), TIMESTAMP))
    return pa.Table.from_arrays(arrays, schema=storage_schema(journal.table))


def written(journal: Journal, rows: pa.Table, monkeypatch: pytest.MonkeyPatch, by: str) -> Segment:
    """Return the delta that a tail becomes, by Spark or without it."""
    journal.tail = rows
    with monkeypatch.context() as context:
        if by == "spark":
            context.setattr(compactor, "MAX_BYTES", -1)
        (segment,) = journal.compactor().flush(journal.snapshot(), rows, RunningStatement()).added
    journal.tail = None
    journal.segments = [*journal.segments, replace(segment, segment_id=len(journal.segments) + 1)]
    return segment


def file(journal: Journal, segment: Segment) -> Path:
    (found,) = (Path(journal.engine.settings.warehouse) / segment.path).glob("*.parquet")
    return found


def jobs(journal: Journal) -> int:
    return int(journal.engine.driver.machine.context.dagScheduler().numTotalJobs())


def shown(table: pa.Table) -> list[list[str]]:
    """Return the values of columns as text, equal for equal bits."""
    numbers = {pa.date32(): pa.int32(), TIMESTAMP: pa.int64(), pa.timestamp("us"): pa.int64()}

    def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
        if pa.types.is_list(column.type) and column.type.value_type in numbers:
            return column.cast(pa.list_(numbers[column.type.value_type]))
        return column.cast(numbers.get(column.type, column.type))

    return [[repr(value) for value in plain(column).to_pylist()] for column in table.columns]


def test_values_of_all_types_are_read_the_same(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = everything(journal)
    found = {}
    for by in ("spark", "itself"):
        journal.segments = []
        written(journal, rows, monkeypatch, by)
        found[by] = journal.run("SELECT * FROM $ AS t ORDER BY t.c1").read_all()
    assert found["itself"].schema == found["spark"].schema
    assert shown(found["itself"]) == shown(found["spark"])
    assert shown(found["itself"]) == shown(rows.take(pa.array(range(ROWS - 1, -1, -1))))


@pytest.mark.parametrize("place", range(5))
def test_a_row_that_is_alone_is_read_without_spark(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    row = everything(journal).slice(place, 1)
    segment = written(journal, row, monkeypatch, "itself")
    found = journal.compactor().row_versions(journal.table, [segment])
    assert found is not None
    assert shown(found) == shown(row)


def test_both_are_read_together(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    written(journal, everything(journal, 0), monkeypatch, "spark")
    written(journal, everything(journal, ROWS), monkeypatch, "itself")
    assert len(journal.segments) == 2
    found = shown(journal.run("SELECT * FROM $ AS t ORDER BY t.c1").read_all())
    assert found[0] == [str(number) for number in range(2 * ROWS)]
    assert [column[:ROWS] for column in found[1:]] == [column[ROWS:] for column in found[1:]]


def test_files_have_the_same_columns(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = everything(journal)
    found = {}
    for by in ("spark", "itself"):
        schema = pq.read_metadata(file(journal, written(journal, rows, monkeypatch, by))).schema
        leaves = [schema.column(number) for number in range(len(schema.names))]
        found[by] = [
            (leaf.path, leaf.physical_type, str(leaf.logical_type), leaf.max_definition_level)
            for leaf in leaves
        ]
    assert found["itself"] == found["spark"]


def test_segments_are_described_the_same(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = everything(journal)
    descriptions = [
        replace(written(journal, rows, monkeypatch, by), path="", size_bytes=0)
        for by in ("spark", "itself")
    ]
    assert descriptions[0] == descriptions[1]
    assert (descriptions[0].key_min, descriptions[0].key_max) == (0, ROWS - 1)


@pytest.mark.parametrize("type_oid", [16, 17, 20, 25, 700, 701, 1082, 1114, 1184, 1186, 1005, 1115])
def test_rows_are_in_the_same_order(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, type_oid: int
) -> None:
    journal.columns, journal.key = (Column(1, "k", type_oid, -1, True, "k"), ID, NAME), (1,)
    journal.columns = (journal.columns[0], replace(ID, attnum=2), replace(NAME, attnum=3))
    kind = arrow_type(type_oid)
    keys = [value for value in samples(kind) if value is not None]
    rows = pa.Table.from_arrays(
        [
            pa.array([*keys, *reversed(keys)], kind),
            pa.array(range(2 * len(keys)), pa.int32()),
            pa.array([None] * 2 * len(keys), pa.string()),
            pa.array([2] * len(keys) + [1] * len(keys), TIMESTAMP),
            pa.nulls(2 * len(keys), TIMESTAMP),
        ],
        schema=storage_schema(journal.table),
    )
    places = {}
    for by in ("spark", "itself"):
        segment = written(journal, rows, monkeypatch, by)
        found = pq.ParquetFile(file(journal, segment)).read()
        places[by] = (shown(found.select(["k"])), shown(found.select(["version_number"])))
        if 0.0 not in keys:
            places[by] += (found.column("id").to_pylist(),)
    if 0.0 in keys:
        # Zeros are equal, whatever their sign.
        places = {by: str(found).replace("-0.0", "0.0") for by, found in places.items()}
    assert places["itself"] == places["spark"]


def test_no_job_is_started(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = everything(journal)
    before = jobs(journal)
    written(journal, rows, monkeypatch, "itself")
    assert jobs(journal) == before
    written(journal, rows, monkeypatch, "spark")
    assert jobs(journal) > before


def test_a_large_tail_is_left_to_spark(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.append(journal.rows((1, "a"), (2, "b")))
    rows = journal.tail
    assert rows is not None
    monkeypatch.setattr(compactor, "MAX_BYTES", rows.nbytes - 1)
    before = jobs(journal)
    journal.compactor().flush(journal.snapshot(), rows, RunningStatement())
    assert jobs(journal) > before


@pytest.mark.parametrize("by", ["spark", "itself"])
def test_rows_that_are_no_number_are_found(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    journal.columns = (ID, Column(2, "v", 701, -1, False, "v"))
    schema = storage_schema(journal.table)
    values = [[1, 2, 3], [1.5, float("nan"), 2.5], [10] * 3, [None] * 3]
    arrays = [pa.array(v, f.type) for v, f in zip(values, schema, strict=True)]
    written(journal, pa.Table.from_arrays(arrays, schema=schema), monkeypatch, by)
    for condition in ("t.c2 > 100", "t.c2 >= 'NaN'::double", "t.c2 = 'NaN'::double"):
        assert journal.fetch(f"SELECT t.c1 FROM $ AS t WHERE {condition}") == [(2,)]
    assert journal.fetch("SELECT t.c1 FROM $ AS t WHERE t.c2 < 2") == [(1,)]


def test_pages_are_as_short(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3 * PAGE_ROWS
    journal.append(journal.rows(*((number, f"name {number}") for number in range(count))))
    rows = journal.tail
    assert rows is not None
    statistics = {}
    for by in ("spark", "itself"):
        metadata = pq.read_metadata(file(journal, written(journal, rows, monkeypatch, by)))
        columns = [metadata.row_group(0).column(number) for number in range(4)]
        statistics[by] = [
            (
                column.has_column_index,
                column.has_offset_index,
                column.has_dictionary_page,
                column.compression,
                column.statistics.min if column.statistics.has_min_max else None,
                column.statistics.max if column.statistics.has_min_max else None,
                column.statistics.null_count,
            )
            for column in columns[:1]
        ]
        sizes = [column.total_uncompressed_size for column in columns]
        assert sizes[0] == pytest.approx(4 * count, rel=0.05)
    assert statistics["itself"] == statistics["spark"]


def test_rows_without_key_are_in_the_order_of_their_identities(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.key = ()
    journal.append(journal.rows((1, "a", 3), (1, "a", -2), (1, "b", 1), version=10))
    rows = journal.tail
    assert rows is not None
    segment = written(journal, rows, monkeypatch, "itself")
    assert pq.read_table(file(journal, segment)).column("row_identity").to_pylist() == [-2, 1, 3]


VERSIONS = "SELECT t.c1, t.c2, unix_micros(t.version_number) FROM $ AS t ORDER BY 1, 3"


def test_small_deltas_are_joined_without_a_job(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for by, name in (("spark", "a"), ("itself", "b")):
        journal.append(journal.rows((1, name), (2, name), version=ord(name)))
        tail = journal.tail
        assert tail is not None
        written(journal, tail, monkeypatch, by)
    journal.append(journal.rows((1, "c"), version=ord("c")))
    tail, before, snapshot = journal.tail, journal.fetch(VERSIONS), journal.snapshot()
    assert tail is not None
    started = jobs(journal)
    joined = journal.compactor().join(snapshot, tail, RunningStatement())
    assert jobs(journal) == started
    assert joined is not None
    assert joined.retired == (1, 2)
    (delta,) = joined.added
    assert (delta.kind, delta.rows) == (SegmentKind.DELTA, 5)
    journal.segments, journal.tail = [replace(delta, segment_id=9)], None
    assert journal.fetch(VERSIONS) == before


def test_deltas_that_are_large_or_of_other_columns_are_not_joined(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = pa.Table.from_batches([journal.rows((1, "a"))])
    written(journal, tail, monkeypatch, "itself")
    statement = RunningStatement()
    with monkeypatch.context() as context:
        context.setattr(compactor, "MAX_BYTES", tail.nbytes)
        assert journal.compactor().join(journal.snapshot(), tail, statement) is None
    assert journal.compactor().join(journal.snapshot(), tail, statement) is not None
    journal.key = ()
    assert journal.compactor().join(journal.snapshot(), tail, statement) is None
    journal.key, journal.columns = (1,), (ID, replace(NAME, attnum=3, storage_name="name_2"))
    assert journal.compactor().join(journal.snapshot(), tail, statement) is None


@pytest.mark.parametrize("by", ["spark", "itself"])
@pytest.mark.parametrize("key", [(1,), ()])
def test_current_rows_are_read_from_few_files(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, by: str, key: tuple[int, ...]
) -> None:
    journal.key = key
    history = [((1, "a"), 1), ((1, "b"), 2), ((2, "a"), 3), ((2, "a", 4), 4), ((2, "c"), 4)]
    for row, version in history:
        batch = journal.rows((*row, row[0]) if not key else row, version=version)
        if not key and len(row) > 2:
            gone = batch.schema.get_field_index("subsequent_version_number")
            batch = batch.set_column(
                gone, "subsequent_version_number", pa.array([version], TIMESTAMP)
            )
        rows = pa.Table.from_batches([batch]).cast(storage_schema(journal.table))
        written(journal, rows, monkeypatch, by)
    journal.append(journal.rows((3, "d") if key else (3, "d", 3), version=5))
    tail = journal.tail
    assert tail is not None
    before = jobs(journal)
    if by == "spark":
        monkeypatch.setattr(compactor, "MAX_BYTES", -1)
    found = journal.compactor().live_rows(journal.snapshot(), RunningStatement(), tail)
    current = {(row["c1"], row["c2"]) for row in found.to_pylist()}
    assert current == {(1, "b"), (2, "c"), (3, "d")}
    assert (jobs(journal) == before) == (by == "itself")


def test_a_table_with_nothing_but_an_archive_is_empty(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = pa.Table.from_batches([journal.rows((1, "a"))])
    written(journal, tail, monkeypatch, "itself")
    journal.segments = [replace(journal.segments[0], kind=SegmentKind.ARCHIVE)]
    assert journal.compactor().live_rows(journal.snapshot(), RunningStatement()).num_rows == 0


def test_a_cancelled_flush_leaves_nothing(journal: Journal) -> None:
    tail = pa.Table.from_batches([journal.rows((1, "a"))])
    statement = RunningStatement()
    statement.cancel()
    with pytest.raises(QueryCanceledError):
        journal.compactor().flush(journal.snapshot(), tail, statement)
    assert not list(
        Path(journal.engine.settings.warehouse).glob(f"{journal.table.location}/**/*.parquet")
    )


def test_a_failure_of_storage_is_told(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    tail = pa.Table.from_batches([journal.rows((1, "a"))])
    with pytest.raises(GatewayError) as caught:
        journal.compactor().flush(journal.snapshot(), tail, RunningStatement())
    assert caught.value.sqlstate == "53100"
    assert not journal.staged()


@pytest.mark.parametrize(
    ("row_bytes", "rows"),
    [
        (1, 32_768),
        (1 << 10, 24_576),
        (96 << 10, 256),
        (256 << 10, 256),
        (4 << 20, 16),
        (1 << 30, 1),
    ],
)
def test_a_group_of_long_rows_has_few_of_them(row_bytes: int, rows: int) -> None:
    assert group_rows(Volume(1000, 1000 * row_bytes)) == rows
