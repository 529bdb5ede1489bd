"""The base of a divided table: a directory for each partition; changed ones are written anew."""

import hashlib
import itertools
import math
import random
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import divisions
from catalog.divisions import Division, DivisionField, Transform
from catalog.model import Column, Segment, SegmentKind
from pgwire_gateway.spark import (
    cut_files,
    divided_files,
    gathered_files,
    small_files,
    sorting,
)
from pgwire_gateway.spark.affected_partitions import AffectedPartitions
from pgwire_gateway.spark.api import Delivery, Reading
from pgwire_gateway.spark.executor import RunningStatement
from pgwire_gateway.spark.lookups import Lookups
from pgwire_gateway.spark.temporary_views import viewed
from pgwire_gateway.spark.warehouse import Warehouse
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.versions import storage_schema
from rewrite.results import SourcePart
from tests.support.fix_spark import ID, Journal

pytestmark = pytest.mark.spark

BY_NAME = Division(7, (DivisionField(Transform.IDENTITY, 2, 25),))
BY_BUCKET = Division(8, (DivisionField(Transform.BUCKET, 1, 23, 4),))

ROWS = "SELECT t.c1, t.c2, unix_micros(t.version_number) FROM $ AS t ORDER BY 1, 3"


def compact(journal: Journal) -> tuple[Segment, ...]:
    """Replace what is compacted; return the segments that have come."""
    result = journal.compactor().compact(journal.snapshot(), journal.tail, RunningStatement())
    kept = [s for s in journal.segments if s.segment_id not in result.retired]
    last = max((s.segment_id for s in journal.segments), default=0)
    added = tuple(replace(s, segment_id=last + i + 1) for i, s in enumerate(result.added))
    journal.segments = [*kept, *added]
    journal.tail = None
    return added


def base(journal: Journal) -> list[Segment]:
    return [s for s in journal.segments if s.kind is SegmentKind.BASE]


def values(segments) -> list:
    return sorted((s.partition.values[0] if s.partition else "?" for s in segments), key=str)


def directory(journal: Journal, segment: Segment) -> str:
    location, _, _ = segment.path.rpartition("/base-")
    return location.removeprefix(f"1/{journal.relid}").lstrip("/")


def let_spark_sort(monkeypatch, way: str) -> None:
    """Have Spark write the files of partitions, or rows of them together, which are cut."""
    monkeypatch.setattr("pgwire_gateway.spark.writer.MAX_BYTES", 1)
    monkeypatch.setattr(divided_files, "_MANY", 1 if way == "cut" else 10_001)


@pytest.mark.parametrize("way", ["held", "apart", "cut"])
def test_a_base_has_a_directory_for_each_partition(journal: Journal, monkeypatch, way):
    if way != "held":
        let_spark_sort(monkeypatch, way)
    journal.division = BY_NAME
    rows = [(3, "DE"), (1, "FR"), (2, "DE"), (4, None), (5, ""), (6, "a/b ü.."), (7, "x" * 99)]
    journal.write(journal.rows(*rows, version=10), kind=SegmentKind.BASE)
    digest = hashlib.sha256(b"x" * 99).hexdigest()
    assert sorted(directory(journal, s) for s in base(journal)) == [
        "name=DE",
        "name=FR",
        "name=__HIVE_DEFAULT_PARTITION__",
        "name=__HIVE_DEFAULT_PARTITION__",
        "name=a%2Fb%20%C3%BC%2E%2E",
        f"name=sha256%3A{digest}",
    ]
    found = {s.partition.values[0]: (s.rows, s.key_min, s.key_max) for s in base(journal)}
    assert found["DE"] == (2, 2, 3)
    assert found[None] == (1, 4, 4)
    assert found[""] == (1, 5, 5)
    assert [row[:2] for row in journal.fetch(ROWS, SourcePart.BASE)] == sorted(rows)


@pytest.mark.parametrize("way", ["apart", "cut"])
def test_files_of_a_partition_are_sorted_by_key(journal: Journal, monkeypatch, way):
    let_spark_sort(monkeypatch, way)
    journal.division = BY_NAME
    keys = list(range(3000))
    random.Random(5).shuffle(keys)  # noqa: S311 - repeatable, not secret
    rows = journal.rows(*((key, "ab"[key % 2]) for key in keys), version=10)
    journal.write(rows, kind=SegmentKind.BASE)
    for segment in base(journal):
        for file in journal.relations.warehouse.data_files(segment):
            read = pq.read_table(file.path).column("id").to_pylist()
            assert read == sorted(read)
            assert len(read) == 1500


@pytest.mark.parametrize("way", ["apart", "cut"])
def test_partitions_have_the_values_of_all_types(journal: Journal, monkeypatch, way):
    """A column may have the name of one that tells partitions while they are written."""
    let_spark_sort(monkeypatch, way)
    columns = (("P0", 25, -1), ("f", 701, -1), ("n", 1700, (9 << 16) + 2 + 4), ("a", 1009, -1))
    columns = (*columns, ("z", 1184, -1), ("b", 17, -1), ("d", 1082, -1), ("s", 21, -1))
    journal.columns = (
        ID,
        *(Column(n, name, *kind, False, name) for n, (name, *kind) in enumerate(columns, 2)),
    )
    journal.division = BY_NAME
    schema = storage_schema(journal.table)
    given = {
        "c1": [1, 2, 3, 4],
        "c2": ["a", "b", "b", None],
        "c3": [math.inf, 1.5, math.nan, None],
        "c4": [Decimal("1.25"), Decimal("-9.99"), None, Decimal(7)],
        "c5": [["x", None], [], None, ["y"]],
        "c6": [datetime(1, 1, 1, tzinfo=UTC), None, datetime(2024, 7, 1, 12, 0, 0, 5, UTC), None],
        "c7": [b"\x00\xff", b"", None, b"x"],
        "c8": [date(1, 1, 1), date(1969, 12, 31), None, date(9999, 12, 31)],
        "c9": [-32768, 32767, 0, None],
        "version_number": [datetime(2024, 1, 1, tzinfo=UTC)] * 4,
        "subsequent_version_number": [None] * 4,
    }
    rows = pa.table(given, schema)
    journal.write(*rows.to_batches(), kind=SegmentKind.BASE)
    assert values(base(journal)) == [None, "a", "b"]
    warehouse = journal.relations.warehouse
    found = [small_files.read_rows(warehouse, journal.table, s).cast(schema) for s in base(journal)]
    read = pa.concat_tables(found).sort_by("c1")
    assert str(read.to_pylist()) == str(rows.to_pylist())
    (part,) = (s for s in base(journal) if s.partition and s.partition.values == ("b",))
    (file,) = warehouse.data_files(part)
    group = pq.read_metadata(file.path).row_group(0)
    floats = sorting.leaf(pq.read_metadata(file.path), "f")
    known = group.column(floats).statistics
    assert known is None or not known.has_min_max or math.isnan(known.max)
    assert group.column(0).statistics.has_min_max


def test_a_partition_may_have_several_files(tmp_path, journal: Journal, monkeypatch):
    table = replace(journal.table, division=BY_NAME)
    rows = small_files.by_key(
        pa.Table.from_batches([journal.rows(*((n, "ab"[n // 4]) for n in range(8)))]), table
    )
    rows = rows.append_column("p", rows.column("name"))
    monkeypatch.setattr(cut_files, "MAX_BYTES", 1)
    parts = cut_files.cut([rows.slice(0, 3), rows.slice(3)], ["p"], table, tmp_path)
    assert [(part.marks, [f.num_rows for f in part.footers]) for part in parts] == [
        (("a",), [3, 1]),
        (("b",), [4]),
    ]
    read = [pq.read_table(part.directory).column("id").to_pylist() for part in parts]
    assert read == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_many_small_files_are_read_as_one(journal: Journal, monkeypatch):
    """The copy has older columns as well, and goes when the compaction ends."""
    monkeypatch.setattr(gathered_files, "_MANY", 2)
    copied = []
    of = gathered_files.Gathering.of

    def spy(self, snapshot, check, attnums=None):
        found = of(self, snapshot, check, attnums)
        copied.append((len(snapshot.segments), len(found.segments)))
        return found

    monkeypatch.setattr(gathered_files.Gathering, "of", spy)
    journal.division = BY_NAME
    rows = [(n, f"n{n % 20}") for n in range(60)]
    journal.write(journal.rows(*rows, version=10), kind=SegmentKind.BASE)
    journal.columns = (*journal.columns, Column(3, "v", 23, -1, False, "v", missing_value="5"))
    added = [(100, "n7", 1), (101, "n20", 2), (102, "n21", 3)]
    journal.write(journal.rows(*added, version=20), kind=SegmentKind.BASE)
    journal.write(journal.rows((7, "n3", None), (100, None, None), version=30))
    compact(journal)
    assert copied == [(22, 3), (4, 3)]
    sql = "SELECT t.c1, t.c2, t.c3 FROM $ AS t ORDER BY 1"
    found = {row[0]: row[1:] for row in journal.fetch(sql, SourcePart.BASE)}
    expected = {n: (name, 5) for n, name in rows} | {n: rest for n, *rest in map(list, added)}
    expected |= {7: ("n3", None), 100: (None, None)}
    assert found == {key: tuple(value) for key, value in expected.items()}
    assert not journal.staged()


def test_only_partitions_that_changed_are_written_anew(journal: Journal):
    journal.division = BY_NAME
    rows = [(n, "abcd"[n % 4]) for n in range(40)]
    journal.write(journal.rows(*rows, version=10), kind=SegmentKind.BASE)
    before = {s.partition.values[0]: s.path for s in base(journal)}
    journal.append(journal.rows((1, "b"), (100, "e"), version=20))
    added = compact(journal)
    assert values(s for s in added if s.kind is SegmentKind.BASE) == ["b", "e"]
    after = {s.partition.values[0]: s.path for s in base(journal)}
    assert [name for name in "abcd" if before[name] != after[name]] == ["b"]
    kept = {row[0]: row[1] for row in journal.fetch(ROWS, SourcePart.BASE)}
    assert kept == dict(rows) | {100: "e"}


def test_a_row_that_moves_leaves_its_partition(journal: Journal):
    journal.division = BY_NAME
    rows = [(n, "abcd"[n % 4]) for n in range(40)]
    journal.write(journal.rows(*rows, version=10), kind=SegmentKind.BASE)
    journal.append(journal.rows((1, "c"), version=20))
    journal.write(journal.rows((3, "d", 30), version=30))
    added = compact(journal)
    assert values(s for s in added if s.kind is SegmentKind.BASE) == ["b", "c", "d"]
    kept = {row[0]: row[1] for row in journal.fetch(ROWS, SourcePart.BASE)}
    expected = dict(rows) | {1: "c"}
    del expected[3]
    assert kept == expected
    versions = journal.fetch(ROWS, SourcePart.JOURNAL)
    assert [row for row in versions if row[0] == 1] == [(1, "b", 10), (1, "c", 20)]


def test_partitions_whose_keys_are_others_are_not_looked_at(journal: Journal):
    journal.division = BY_NAME
    rows = journal.rows(*((n, "abcd"[n // 10]) for n in range(40)), version=10)
    journal.write(rows, kind=SegmentKind.BASE)
    journal.append(journal.rows((15, "z"), (16, "b"), version=20))
    journal.write(journal.rows((33, "d", 30), version=30))
    affected = AffectedPartitions.of(journal.snapshot(), BY_NAME, lambda _: True)
    asked = affected.asked(journal.tail)
    assert asked is not None
    assert values(asked.of_kind(SegmentKind.BASE)) == ["b", "d"]
    added = compact(journal)
    assert values(s for s in added if s.kind is SegmentKind.BASE) == ["b", "d", "z"]
    journal.key = ()
    assert affected.of(journal.snapshot(), BY_NAME, lambda _: True).asked(None) is None


def test_a_partition_whose_rows_have_gone_has_no_segment(journal: Journal):
    journal.division = BY_NAME
    journal.write(journal.rows((1, "a"), (2, "b"), version=10), kind=SegmentKind.BASE)
    journal.append(journal.rows((2, "b", 20), version=20))
    compact(journal)
    assert values(base(journal)) == ["a"]


def test_keys_are_looked_up_in_the_partitions_that_can_have_them(journal: Journal, monkeypatch):
    opened = []
    data_files = Warehouse.data_files
    monkeypatch.setattr(
        Warehouse,
        "data_files",
        lambda self, segment: opened.append(segment) or data_files(self, segment),
    )
    for division, most in ((BY_BUCKET, 1), (BY_NAME, 30)):
        journal.segments, journal.division = [], division
        rows = journal.rows(*((n, f"n{n % 30}") for n in range(90)), version=10)
        journal.write(rows, kind=SegmentKind.BASE)
        assert len(base(journal)) in {4, 30}
        opened.clear()
        found = Lookups(journal.relations.warehouse).versions(journal.snapshot(), [(41,)])
        assert found is not None
        assert found.column("c2").to_pylist() == ["n11"]
        assert 0 < len(opened) <= most


def test_where_the_key_tells_the_partition_no_base_is_looked_at(journal: Journal, monkeypatch):
    journal.division = BY_BUCKET
    journal.write(journal.rows(*((n, "x") for n in range(20)), version=10), kind=SegmentKind.BASE)
    assert values(base(journal)) == [0, 1, 2, 3]
    journal.append(journal.rows((5, "y"), version=20))
    added = compact(journal)
    (written,) = [s for s in added if s.kind is SegmentKind.BASE]
    assert written.partition.values == BY_BUCKET.values([5])
    assert (5, "y", 20) in journal.fetch(ROWS, SourcePart.BASE)
    assert len(journal.fetch(ROWS, SourcePart.BASE)) == 20


def test_what_was_not_divided_or_otherwise_is_divided_by_compaction(journal: Journal):
    journal.write(journal.rows((1, "a"), (2, "b"), version=10), kind=SegmentKind.BASE)
    journal.division = BY_BUCKET
    journal.write(journal.rows((3, "a"), (4, "c"), version=20), kind=SegmentKind.BASE)
    journal.division = BY_NAME
    journal.write(journal.rows((5, "c"), version=30), kind=SegmentKind.BASE)
    compact(journal)
    assert values(base(journal)) == ["a", "b", "c"]
    assert [row[:2] for row in journal.fetch(ROWS, SourcePart.BASE)] == [
        (1, "a"),
        (2, "b"),
        (3, "a"),
        (4, "c"),
        (5, "c"),
    ]
    assert compact(journal) == ()


def test_several_segments_of_a_partition_become_one(journal: Journal):
    journal.division = BY_NAME
    for version in (10, 20):
        rows = journal.rows((version, "a"), (version + 1, str(version)), version=version)
        journal.write(rows, kind=SegmentKind.BASE)
    untouched = [s for s in base(journal) if s.partition.values != ("a",)]
    compact(journal)
    assert values(base(journal)) == ["10", "20", "a"]
    assert set(untouched) <= set(base(journal))


def test_rows_of_too_many_partitions_stay_together(journal: Journal, monkeypatch):
    for module in (divided_files, divisions):
        monkeypatch.setattr(module, "MOST_PARTITIONS", 3)
    monkeypatch.setattr("pgwire_gateway.spark.affected_partitions.MOST_PARTITIONS", 3)
    monkeypatch.setattr("pgwire_gateway.spark.compactor.MOST_PARTITIONS", 3)
    journal.division = BY_NAME
    journal.write(
        journal.rows(*((n, f"n{n}") for n in range(5)), version=10), kind=SegmentKind.BASE
    )
    assert values(base(journal)) == ["?"]
    journal.append(journal.rows((2, "changed"), version=20))
    compact(journal)
    assert values(base(journal)) == ["?"]
    assert len(journal.fetch(ROWS, SourcePart.BASE)) == 5


@pytest.mark.parametrize("few", [1, 1000])
def test_random_writes_and_compactions_keep_all_rows(journal: Journal, monkeypatch, few):
    for module in (divided_files, gathered_files):
        monkeypatch.setattr(module, "_MANY", few)
    chosen = random.Random(20261124)  # noqa: S311 - repeatable, not secret
    journal.division = BY_NAME
    current: dict[int, str | None] = {}
    versions = itertools.count(1000, 10)
    for step in range(8):
        version = next(versions)
        changed: list[tuple] = []
        for key in chosen.sample(range(60), 15):
            name = chosen.choice(["a", "b", "c", "", None, "ü"])
            if key in current and chosen.random() < 0.3:
                changed.append((key, current.pop(key), version))
            else:
                current[key] = name
                changed.append((key, name))
        batch = journal.rows(*changed, version=version)
        if step % 2:
            journal.append(batch)
        else:
            journal.write(batch)
        if step % 3 == 2:
            compact(journal)
            found = {row[0]: row[1] for row in journal.fetch(ROWS, SourcePart.BASE)}
            assert found == current
            assert len(values(base(journal))) == len(set(current.values()))
    every = journal.fetch("SELECT count(*) FROM $ AS t")
    assert every == [(8 * 15,)]


FIELDS = [
    *((25, transform, n) for transform, n in ((Transform.IDENTITY, 0), (Transform.TRUNCATE, 2))),
    *((25, Transform.TRUNCATE, 70), (25, Transform.BUCKET, 16), (2950, Transform.IDENTITY, 0)),
    *((20, Transform.IDENTITY, 0), (20, Transform.TRUNCATE, 10), (20, Transform.BUCKET, 16)),
    *((21, Transform.TRUNCATE, 7), (16, Transform.IDENTITY, 0), (2950, Transform.BUCKET, 3)),
    *(
        (oid, transform, 0)
        for oid in (1082, 1114, 1184)
        for transform in (Transform.YEAR, Transform.MONTH, Transform.DAY, Transform.HOUR)
        if (oid, transform) != (1082, Transform.HOUR)
    ),
    *((1082, Transform.IDENTITY, 0), (1082, Transform.BUCKET, 5)),
]
_LAST = 2**63 - 1
_DAYS = [0, -1, -719163, -719528, 59, 60, 11016, 2932897, -2000000, 106751990]
_MICROS = [0, -1, 1, 86_399_999_999, 86_400_000_000, -62135596800000001, 951782400000000]
HOSTILE = {
    25: ["", "DE", "de", "ü", "日本語", "a/b=c%", "..", "n", "v1", "x" * 64, "x" * 65, "ü" * 40],
    2950: ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    20: [0, 1, -1, 9, 10, -10, -11, _LAST, -_LAST - 1, _LAST - 5],
    21: [0, 6, 7, -7, -8, 32767, -32768],
    16: [True, False],
    1082: _DAYS,
    1114: [*_MICROS, 9_000_000_000_000_000_000, -9_000_000_000_000_000_000],
    1184: _MICROS,
}


@pytest.mark.parametrize("type_oid", sorted(HOSTILE))
def test_spark_computes_partitions_as_conditions_are_compared(journal: Journal, type_oid: int):
    journal.columns = (ID, Column(2, "v", type_oid, -1, False, "v"))
    transforms = [(t, n) for oid, t, n in FIELDS if oid == type_oid]
    division = Division(1, tuple(DivisionField(t, 2, type_oid, n) for t, n in transforms))
    schema = storage_schema(journal.table)
    plain = [*HOSTILE[type_oid], None]
    kind = schema.field("c2").type
    integral = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    raw = pa.array(plain, pa.int64() if integral else kind)
    stored = raw.cast(pa.int32()).cast(kind) if pa.types.is_date(kind) else raw.cast(kind)
    ids = pa.array(range(len(plain)), pa.int32())
    versions = pa.array([1] * len(plain), pa.int64()).cast(schema.field("version_number").type)
    rows = pa.table(
        [ids, stored, versions, pa.nulls(len(plain), versions.type)], schema.names
    ).cast(schema)
    assert [v for (v,) in plain_keys.tuples(rows, ["c2"])] == plain
    expected = [division.values([value] * len(transforms)) for value in plain]
    journal.tail = rows
    columns = divided_files.partition_columns(division)
    told = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    found = journal.fetch(f"SELECT {told} FROM $ AS t ORDER BY c1")
    decoded = [tuple(map(divided_files.decoded, row)) for row in found]
    assert decoded == expected


def test_directories_read_as_people_write_dates():
    of = {t: DivisionField(t, 1, 1114) for t in Transform}
    noon = 951_825_600_000_000
    texts = {t.value: of[t].text(of[t].value(noon)) for t in list(Transform)[3:]}
    assert texts == {
        "year": "2000",
        "month": "2000-02",
        "day": "2000-02-29",
        "hour": "2000-02-29-12",
    }
    assert of[Transform.MONTH].text(of[Transform.MONTH].value(-1)) == "1969-12"


def test_plain_readers_find_all_row_versions_in_directories(journal: Journal):
    """Who knows the convention needs no list of segments; files have all columns."""
    journal.division = BY_NAME
    rows = [(n, ["a", "b", None, ""][n % 4]) for n in range(20)]
    journal.write(journal.rows(*rows, version=10), kind=SegmentKind.BASE)
    journal.write(journal.rows((1, "c"), (2, None, 20), version=20))
    compact(journal)
    journal.write(journal.rows((3, "a"), version=30))
    session = journal.engine.sessions().large
    location = Path(journal.relations.warehouse.root, "1", str(journal.relid))
    assert sorted(d.name for d in location.glob("*=*")) == [
        "name=__HIVE_DEFAULT_PARTITION__",
        "name=a",
        "name=b",
        "name=c",
    ]
    options = {"recursiveFileLookup": "true"}
    frame = session.read(Reading("parquet", (str(location),), options))
    with viewed(session, {"plain": frame}) as names:
        latest = session.query(
            "SELECT id, name FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY"
            " version_number DESC, subsequent_version_number NULLS LAST) AS age FROM"
            f" {names['plain']}) WHERE age = 1 AND subsequent_version_number IS NULL"
        )
        found = {
            row["id"]: row["name"]
            for batch in latest.rows(Delivery(100))
            for row in batch.to_pylist()
        }
    expected = dict(rows) | {1: "c", 3: "a"}
    del expected[2]
    assert found == expected


def test_files_nobody_knows_are_found_in_partitions_too(journal: Journal):
    journal.division = BY_NAME
    journal.write(journal.rows((1, "a-b"), (2, "c"), version=10), kind=SegmentKind.BASE)
    warehouse = journal.relations.warehouse
    one, other = base(journal)
    assert journal.relid not in warehouse.unclaimed(1).values()
    warehouse.staging.settle([other.path])
    assert {p for p, relid in warehouse.unclaimed(1).items() if relid == journal.relid} == {
        other.path
    }
    warehouse.remove(other.path)
    left = Path(warehouse.root, "1", str(journal.relid))
    assert [d.name for d in left.glob("*=*")] == [Path(one.path).parent.name]
