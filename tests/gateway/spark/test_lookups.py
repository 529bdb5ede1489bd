"""Lookups of keys: the versions that a scan of all segments would find, however they lie."""

import random
import re
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from catalog.model import Column, SegmentKind
from pgwire_gateway.spark import lookups as lookups_module
from pgwire_gateway.spark import sorting
from pgwire_gateway.spark.decoded_groups import DecodedGroups
from pgwire_gateway.spark.executor import RunningStatement
from pgwire_gateway.spark.lookups import Key, Lookups
from pgwire_gateway.spark.scans import file_scan
from pgwire_gateway.spark.settings import SessionKind
from pgwire_gateway.wire_types.registry import INTERVAL_TYPE
from pgwire_gateway.wire_types.versions import storage_schema
from rewrite.results import Scan, Source, SourcePart
from tests.support.fix_spark import ID, NAME, TIMESTAMP, Journal

pytestmark = pytest.mark.spark

SEED = 20260125

SPARE_BYTES = 2_000_000
"""What opened files and their footers may hold."""


def versions(journal: Journal, key: Key, lookups: Lookups | None = None) -> list[tuple] | None:
    """Return the values and version numbers found for a key, in the order of versions."""
    lookups = lookups or Lookups(journal.relations.warehouse)
    found = lookups.versions(journal.snapshot(), [key])
    if found is None:
        return None
    rows = found.set_column(
        found.column_names.index("version_number"),
        "version_number",
        found.column("version_number").cast(pa.int64()),
    ).to_pylist()
    return sorted(
        (row["version_number"], *(row[f"c{column.attnum}"] for column in journal.columns))
        for row in rows
    )


def test_versions_of_all_segments_but_the_archive_are_found(journal: Journal) -> None:
    journal.write(journal.rows(*((n, f"base {n}") for n in range(1, 101))), kind=SegmentKind.BASE)
    journal.write(journal.rows((7, "new"), (300, "added"), version=2))
    journal.write(journal.rows((7, "newer"), version=3))
    journal.write(journal.rows((7, "old"), version=0), kind=SegmentKind.ARCHIVE)
    assert versions(journal, (7,)) == [(1, 7, "base 7"), (2, 7, "new"), (3, 7, "newer")]
    assert versions(journal, (300,)) == [(2, 300, "added")]
    for absent in (0, 101, 299, 301):
        assert versions(journal, (absent,)) == []


@pytest.mark.parametrize("again", [False, True], ids=["anew", "again"])
def test_any_row_group_and_batch_can_hold_a_key(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    monkeypatch.setattr(sorting, "MAX_GROUP_ROWS", 12_000)
    count = 40_000
    batch = journal.rows(*((2 * n, f"row {n}") for n in range(count)))
    segment = journal.write(batch, kind=SegmentKind.BASE)
    assert segment is not None
    chance = random.Random(SEED)  # noqa: S311 - not for secrets
    edges = (0, 1, 8_191, 8_192, 11_999, 12_000, count - 1)
    lookups = Lookups(journal.relations.warehouse) if again else None
    for number in (*edges, *(chance.randrange(count) for _ in range(50))):
        assert versions(journal, (2 * number,), lookups) == [(1, 2 * number, f"row {number}")]
        assert versions(journal, (2 * number + 1,), lookups) == []


@pytest.mark.parametrize("again", [False, True], ids=["anew", "again"])
def test_versions_that_fill_several_batches_are_found(journal: Journal, again: bool) -> None:
    rows = [journal.rows((5, "x"), version=number) for number in range(9_000)]
    others = journal.rows(*((n, "y") for n in (1, 2, 9)))
    journal.write(pa.concat_batches([*rows, others]))
    lookups = Lookups(journal.relations.warehouse)
    if again:
        versions(journal, (1,), lookups)
    found = versions(journal, (5,), lookups)
    assert found is not None
    assert [row[0] for row in found] == list(range(9_000))


@pytest.mark.parametrize("again", [False, True], ids=["anew", "again"])
def test_a_key_of_two_columns_is_found_by_both(journal: Journal, again: bool) -> None:
    journal.columns, journal.key = (ID, NAME), (2, 1)
    rows = [(number, name) for name in ("", "a", "b", "é", "😀") for number in range(4_000)]
    journal.write(journal.rows(*rows), kind=SegmentKind.BASE)
    lookups = Lookups(journal.relations.warehouse) if again else None
    for key in (("a", 0), ("b", 3_999), ("é", 17), ("😀", 2_000), ("", 1), ("a", 1)):
        assert versions(journal, key, lookups) == [(1, key[1], key[0])]
    assert versions(journal, ("a", 4_000), lookups) == []
    assert versions(journal, ("c", 1), lookups) == []


@pytest.mark.parametrize("again", [False, True], ids=["anew", "again"])
def test_columns_come_and_go(journal: Journal, again: bool) -> None:
    lookups = Lookups(journal.relations.warehouse) if again else None
    note = Column(3, "note", 25, -1, False, "note")
    journal.columns = (ID, note)
    journal.write(journal.rows((1, "x"), (2, "y")), kind=SegmentKind.BASE)
    later = (ID, replace(NAME, missing_value="none")), (ID, NAME, note), (ID, note)
    for columns, found in zip(later, [(1, "none"), (1, None, "x"), (1, "x")], strict=True):
        journal.columns = columns
        for _ in range(3):
            assert versions(journal, (1,), lookups) == [(1, *found)]
            assert versions(journal, (3,), lookups) == []


def test_columns_that_came_later_have_their_default(journal: Journal) -> None:
    defaults = {
        "{1,NULL}": 1007,
        "2020-02-29": 1082,
        "1 mon 2 days 03:00:00": 1186,
        "2020-01-01 00:00:00+00": 1184,
        "1.50": 1700,
        "NaN": 701,
        "\\x00ff": 17,
    }
    journal.columns = (ID,)
    journal.write(journal.rows((1,), (2,)), kind=SegmentKind.BASE)
    journal.columns = (
        ID,
        *(
            Column(
                3 + place,
                f"d{place}",
                kind,
                655366 if kind == 1700 else -1,
                False,
                f"d{place}",
                text,
            )
            for place, (text, kind) in enumerate(defaults.items())
        ),
    )
    found = Lookups(journal.relations.warehouse).versions(journal.snapshot(), [(1,), (2,)])
    assert found is not None
    assert found.schema == storage_schema(journal.table)
    columns = [f"c{column.attnum}" for column in journal.columns]
    source = journal.run(f"SELECT {', '.join(columns)} FROM $")
    expected = pa.Table.from_batches(list(source))
    rows = [repr(row) for row in found.select(columns).to_pylist()]
    assert sorted(rows) == sorted(repr(row) for row in expected.to_pylist())


def test_what_lies_otherwise_is_left_to_spark(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups_module, "MOST_SEGMENTS", 3)
    journal.segments = [
        segment for _ in range(4) if (segment := journal.write(journal.rows((1, "a")))) is not None
    ]
    assert versions(journal, (1,)) is None
    assert versions(journal, (2,)) == []
    journal.segments = journal.segments[:1]
    assert versions(journal, (1,)) == [(1, 1, "a")]


def test_files_sorted_by_identity_are_left_to_spark(journal: Journal) -> None:
    journal.key = ()
    journal.write(journal.rows((1, "a", 10), (2, "b", 11)), kind=SegmentKind.BASE)
    journal.key = (1,)
    assert versions(journal, (1,)) is None


def test_a_missing_file_is_an_error(journal: Journal) -> None:
    segment = journal.write(journal.rows((1, "a")), kind=SegmentKind.BASE)
    assert segment is not None
    journal.relations.warehouse.remove(segment.path)
    with pytest.raises(GatewayError) as caught:
        versions(journal, (1,))
    assert caught.value.sqlstate == "58P01"


@pytest.mark.parametrize("damage", ["gone", "cut off"])
@pytest.mark.parametrize("reader", ["a lookup", "a scan", "Spark"])
def test_a_segment_that_is_not_whole_is_an_error(
    journal: Journal, damage: str, reader: str
) -> None:
    segment = journal.write(journal.rows((1, "a"), (2, "b")), kind=SegmentKind.BASE)
    assert segment is not None
    relations = journal.relations
    (file,) = relations.warehouse.own_files(segment)
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1])
    source = Source(journal.relid, SourcePart.BASE, "global_temp.base")
    relation = journal.relation(source, journal.snapshot())
    small = journal.engine.sessions().small
    read: Callable[[], object] = {
        "a lookup": lambda: versions(journal, (1,)),
        "a scan": lambda: file_scan(Scan(source, {"o1": "c1"}), relation, relations.warehouse, 9),
        "Spark": lambda: relations.lease([relation], small, SessionKind.SMALL).__enter__(),
    }[reader]
    with pytest.raises(GatewayError, match=re.escape(segment.path)) as caught:
        read()
    assert caught.value.sqlstate == "XX001"


def test_bounds_of_segments_spare_their_files(journal: Journal) -> None:
    segment = journal.write(journal.rows((1, "a")), kind=SegmentKind.BASE)
    assert segment is not None
    journal.segments = [replace(segment, path="nowhere")]
    assert versions(journal, (2,)) == []


def test_parts_of_other_columns_may_have_the_name_of_the_key(journal: Journal) -> None:
    journal.columns = (
        Column(1, "span", 1186, -1, False, "span"),
        Column(2, "days", 23, -1, True, "days"),
    )
    journal.key = (2,)
    spans = pa.array([{"months": 0, "days": 0, "microseconds": 0}] * 3, INTERVAL_TYPE)
    tail = pa.table(
        {
            "c1": spans,
            "c2": pa.array([1, 2, 3], pa.int32()),
            "version_number": pa.array([1] * 3, TIMESTAMP),
            "subsequent_version_number": pa.nulls(3, TIMESTAMP),
        }
    )
    snapshot = replace(journal.snapshot(), tail_rows=3)
    (segment,) = journal.compactor().flush(snapshot, tail, RunningStatement()).added
    assert (segment.key_min, segment.key_max) == (1, 3)
    journal.segments = [segment]
    found = Lookups(journal.relations.warehouse).versions(journal.snapshot(), [(2,)])
    assert found is not None
    assert found.column("c2").to_pylist() == [2]


def test_columns_that_have_another_name_in_files_have_no_values(journal: Journal) -> None:
    journal.write(journal.rows((1, "a")), kind=SegmentKind.BASE)
    lookups = Lookups(journal.relations.warehouse)
    later = replace(journal, columns=(ID, replace(NAME, storage_name="name_2")))
    assert versions(later, (1,), lookups) == [(1, 1, None)]
    later = replace(journal, columns=(replace(ID, storage_name="i"), NAME))
    assert lookups.versions(later.snapshot(), [(1,)]) is None
    found = lookups.versions(journal.snapshot(), [(1,)])
    assert found is not None
    assert found.num_rows == 1


def test_retyped_columns_of_small_files_are_left_to_spark(journal: Journal) -> None:
    journal.write(journal.rows((1, "a")), kind=SegmentKind.DELTA)
    later = replace(journal, columns=(ID, replace(NAME, storage_name="name_2")))
    empty = storage_schema(journal.table).empty_table()
    assert later.compactor().join(later.snapshot(), empty, RunningStatement()) is None
    assert journal.compactor().join(journal.snapshot(), empty, RunningStatement()) is not None


def test_what_is_read_ahead_is_what_is_asked_for_then(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.write(journal.rows(*((n, f"base {n}") for n in range(1, 101))), kind=SegmentKind.BASE)
    lookups = Lookups(journal.relations.warehouse)
    lookups.read_ahead(journal.snapshot(), (7,))
    journal.write(journal.rows((7, "new"), version=2))
    found = versions(journal, (7,), lookups)
    assert found == [(1, 7, "base 7"), (2, 7, "new")]

    lookups.read_ahead(journal.snapshot(), (8,))
    monkeypatch.setattr(Lookups, "_versions", lambda *_: pytest.fail("files are read again"))
    assert versions(journal, (8,), lookups) == [(1, 8, "base 8")]
    with pytest.raises(pytest.fail.Exception):
        versions(journal, (8,), lookups)


def test_what_is_read_ahead_holds_no_more_than_its_rows(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DecodedGroups, "find", lambda *_: None)
    text = "x" * 1_000
    journal.write(journal.rows(*((n, text) for n in range(4_000))), kind=SegmentKind.BASE)
    lookups = Lookups(journal.relations.warehouse)
    before = pa.total_allocated_bytes()
    for key in range(100):
        lookups.read_ahead(journal.snapshot(), (key * 40,))
    assert pa.total_allocated_bytes() - before < 100 * 4 * len(text) + SPARE_BYTES


def test_what_cannot_be_read_ahead_fails_when_it_is_asked_for(journal: Journal) -> None:
    segment = journal.write(journal.rows((1, "x")), kind=SegmentKind.BASE)
    assert segment is not None
    journal.relations.warehouse.remove(segment.path)
    lookups = Lookups(journal.relations.warehouse)
    lookups.read_ahead(journal.snapshot(), (1,))
    with pytest.raises(GatewayError):
        versions(journal, (1,), lookups)
