"""Segments: sorted, described, in place or not there at all."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.errors import GatewayError
from catalog.model import Column, SegmentKind
from pgwire_gateway.spark import writer as writers
from pgwire_gateway.spark.errors import QueryCanceledError
from pgwire_gateway.spark.executor import RunningStatement
from pgwire_gateway.spark.sorting import MAX_GROUP_ROWS
from pgwire_gateway.spark.writer import SegmentWriter
from rewrite.results import SourcePart
from tests.support.fix_spark import TIMESTAMP, Journal

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True, params=["held", "staged"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write rows in this process, as they are few, or have Spark sort them."""
    if request.param == "staged":
        monkeypatch.setattr(writers, "MAX_BYTES", 0)
    return str(request.param)


def files(journal: Journal, path: str) -> list[Path]:
    root = Path(journal.engine.settings.warehouse)
    return sorted((root / path).glob("*.parquet"))


def leftovers(journal: Journal) -> list[Path]:
    table = Path(journal.engine.settings.warehouse) / journal.table.location
    places = (table, *journal.staged())
    return [path for place in places for path in place.rglob("*") if path.is_file()]


def test_rows_are_sorted_by_key_and_described(journal: Journal) -> None:
    segment = journal.write(
        journal.rows((5, "e"), (1, "a"), version=20), journal.rows((3, "c"), version=10)
    )
    assert segment is not None
    assert (segment.kind, segment.rows, segment.attnums) == (SegmentKind.DELTA, 3, (1, 2))
    assert (segment.key_min, segment.key_max) == (1, 5)
    assert (segment.min_version, segment.max_version) == (10, 20)
    (file,) = files(journal, segment.path)
    assert file.stat().st_size == segment.size_bytes
    assert pq.read_table(file).column("id").to_pylist() == [1, 3, 5]


def test_versions_of_one_key_are_sorted_by_number(journal: Journal) -> None:
    segment = journal.write(
        journal.rows((1, "new"), version=9), journal.rows((1, "old"), version=8)
    )
    assert segment is not None
    (file,) = files(journal, segment.path)
    assert pq.read_table(file).column("name").to_pylist() == ["old", "new"]


def test_files_are_laid_out_for_point_reads(journal: Journal) -> None:
    rows = 150_000
    batch = pa.record_batch(
        {
            "c1": pa.array(range(rows), pa.int32()),
            "c2": pa.array(["x"] * rows),
            "version_number": pa.array([1] * rows, TIMESTAMP),
            "subsequent_version_number": pa.nulls(rows, TIMESTAMP),
        }
    )
    segment = journal.write(batch)
    assert segment is not None
    (file,) = files(journal, segment.path)
    metadata = pq.read_metadata(file)
    key = metadata.row_group(0).column(0)
    assert metadata.num_row_groups == -(-rows // MAX_GROUP_ROWS) > 1
    assert key.has_column_index
    assert not key.has_dictionary_page


def test_no_row_makes_no_segment(journal: Journal) -> None:
    assert journal.write() is None
    assert journal.write(journal.rows()) is None
    assert leftovers(journal) == []


def test_only_the_segment_is_left(journal: Journal) -> None:
    segment = journal.write(journal.rows((1, "a")))
    assert segment is not None
    assert {path.parent.name for path in leftovers(journal)} == {Path(segment.path).name}
    suffixes = sorted(path.suffix for path in leftovers(journal))
    assert suffixes == [".json", ".parquet"]


def test_an_aborted_segment_leaves_nothing(journal: Journal, way: str) -> None:
    writer = SegmentWriter(journal.engine, journal.table)
    writer.write(journal.rows((1, "a")))
    assert bool(leftovers(journal)) is (way == "staged")
    writer.abort()
    writer.abort()
    assert leftovers(journal) == []


def test_what_became_too_much_to_be_held_is_staged(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, *others = (journal.rows((key, "a" * 100)) for key in (3, 1, 2))
    monkeypatch.setattr(writers, "MAX_BYTES", 2 * one.nbytes)
    writer = SegmentWriter(journal.engine, journal.table)
    writer.write(one)
    assert not leftovers(journal)
    for batch in others:
        writer.write(batch)
    assert leftovers(journal)
    (segment,) = writer.finish(RunningStatement())
    (file,) = files(journal, segment.path)
    assert pq.read_table(file).column("id").to_pylist() == [1, 2, 3]


def test_a_finished_segment_can_be_aborted(journal: Journal) -> None:
    writer = SegmentWriter(journal.engine, journal.table)
    writer.write(journal.rows((1, "a")))
    assert writer.finish(RunningStatement())
    writer.abort()
    assert leftovers(journal) == []


def test_a_cancelled_write_makes_no_segment(journal: Journal) -> None:
    writer = SegmentWriter(journal.engine, journal.table)
    writer.write(journal.rows((1, "a")))
    statement = RunningStatement()
    statement.cancel()
    with pytest.raises(QueryCanceledError):
        writer.finish(statement)
    writer.abort()
    assert leftovers(journal) == []


def test_a_missing_file_is_an_error_of_the_reader(journal: Journal) -> None:
    segment = journal.write(journal.rows((1, "a")))
    assert segment is not None
    sql = "SELECT t.c1 FROM $ AS t"
    assert journal.fetch(sql) == [(1,)]
    for file in files(journal, segment.path):
        file.unlink()
    with pytest.raises(GatewayError) as caught:
        journal.fetch(sql)
    assert caught.value.sqlstate == "58P01"


def test_a_damaged_file_is_an_error_of_the_reader(journal: Journal) -> None:
    segment = journal.write(journal.rows((1, "a")))
    assert segment is not None
    for file in files(journal, segment.path):
        # As many bytes as there were: else it is known before they are read.
        file.write_bytes(b"PAR1 this is no data PAR1".ljust(file.stat().st_size))
    with pytest.raises(GatewayError) as caught:
        journal.fetch("SELECT t.c1 FROM $ AS t")
    assert caught.value.sqlstate == "58030"


def test_a_table_without_key_is_sorted_by_identity(journal: Journal) -> None:
    journal.key = ()
    segment = journal.write(journal.rows((7, "a", 3), (8, "b", 1), (9, "c", 2)))
    assert segment is not None
    (file,) = files(journal, segment.path)
    assert pq.read_table(file).column("id").to_pylist() == [8, 9, 7]
    assert segment.key_min is None


def test_every_storage_type_survives(journal: Journal) -> None:
    interval = pa.struct(
        [("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())]
    )
    values = {
        16: (pa.bool_(), True),
        21: (pa.int16(), -5),
        20: (pa.int64(), 1 << 60),
        700: (pa.float32(), 1.5),
        701: (pa.float64(), float("inf")),
        17: (pa.binary(), b"\x00\xff"),
        1082: (pa.date32(), 0),
        1114: (pa.timestamp("us"), -1),
        1184: (TIMESTAMP, 253402300799999999),
        1083: (pa.int64(), 86399999999),
        1186: (interval, {"months": 14, "days": -3, "microseconds": 1}),
        1009: (pa.list_(pa.string()), ["a", None]),
        1016: (pa.list_(pa.int64()), []),
    }
    journal.columns = (
        journal.columns[0],
        *(Column(i, f"x{oid}", oid, -1, False, f"x{oid}") for i, oid in enumerate(values, 2)),
    )
    arrays = {"c1": pa.array([1, 2], pa.int32())}
    for i, (kind, value) in enumerate(values.values(), 2):
        arrays[f"c{i}"] = pa.array([value, None], kind)
    arrays["version_number"] = pa.array([1, 1], TIMESTAMP)
    arrays["subsequent_version_number"] = pa.nulls(2, TIMESTAMP)
    batch = pa.record_batch(arrays)
    journal.write(batch)
    names = [name for name in arrays if name.startswith("c")]
    select = f"SELECT {', '.join(names)} FROM $ AS t ORDER BY c1"
    written = journal.run(select).read_all()
    journal.segments.clear()
    journal.append(batch)
    inlined = journal.run(select, SourcePart.RECENT).read_all()
    for name in names:
        expected = batch.column(name).to_pylist()
        assert written.column(name).to_pylist() == expected, name
        assert inlined.column(name).to_pylist() == expected, name
