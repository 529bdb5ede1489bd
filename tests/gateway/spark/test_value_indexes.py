"""Indexes of values beside data files: the keys that a scan of all segments would find."""

import random
from collections.abc import Collection
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.model import Column, SegmentKind
from pgwire_gateway.spark import value_indexes
from pgwire_gateway.spark.value_indexes import Computed, ValueIndexes
from tests.support.fix_spark import ID, NAME, Journal

pytestmark = pytest.mark.spark

SEED = 20260126


def keys(journal: Journal, *values: str | None) -> Collection[tuple[object, ...]] | None:
    wanted = [(value,) for value in values]
    return ValueIndexes(journal.relations.warehouse).keys(journal.snapshot(), [NAME.attnum], wanted)


def indexes(journal: Journal) -> list:
    root = journal.relations.warehouse.absolute(journal.table.location)
    return sorted(root.glob("*/_values_*/*.parquet"))


def test_keys_of_values_are_found_in_all_segments(journal: Journal) -> None:
    journal.write(journal.rows(*((n, f"n{n % 7}") for n in range(20))), kind=SegmentKind.BASE)
    journal.write(journal.rows((3, "new"), (30, "n4"), (31, None), version=2))
    journal.write(journal.rows((99, "n4"), version=0), kind=SegmentKind.ARCHIVE)
    assert keys(journal, "n4") == {(4,), (11,), (18,), (30,)}
    assert keys(journal, "new", "n6") == {(3,), (6,), (13,)}
    assert keys(journal, "", "n", "n44", "zzz") == set()
    assert len(indexes(journal)) == 2


def test_values_may_fill_many_row_groups(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_indexes, "_GROUP_ROWS", 64)
    chance = random.Random(SEED)  # noqa: S311 - not for secrets
    held = {n: f"v{chance.randrange(300)}" for n in range(1_000)}
    journal.write(journal.rows(*held.items()), kind=SegmentKind.BASE)
    for number in range(0, 320, 7):
        wanted = f"v{number}"
        assert keys(journal, wanted) == {(n,) for n, value in held.items() if value == wanted}


def test_an_index_that_is_damaged_is_made_again(journal: Journal) -> None:
    journal.write(journal.rows((1, "a"), (2, "b")))
    assert keys(journal, "b") == {(2,)}
    (index,) = indexes(journal)
    index.write_bytes(index.read_bytes()[:-20])
    assert keys(journal, "b") == {(2,)}
    assert pq.read_table(index).num_rows == 2
    index.unlink()
    assert keys(journal, "a") == {(1,)}


def test_large_files_are_left_to_spark(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_indexes, "MOST_ROWS", 2)
    journal.write(journal.rows((1, "a"), (2, "b")))
    assert keys(journal, "b") == {(2,)}
    journal.write(journal.rows((3, "a"), (4, "b"), (5, "c")))
    assert keys(journal, "b") is None


@pytest.mark.parametrize(
    ("missing", "columns", "wanted", "found"),
    [
        (None, (2,), [("b",)], {(2,)}),
        ("a", (2,), [("b",)], {(2,)}),
        ("a", (2,), [("a",)], None),
        (None, (2, 3), [("b", 7), ("c", 7)], {(2,)}),
        ("b", (2, 3), [("b", 7)], {(1,), (2,)}),
        ("b", (3, 2), [(7, "b"), (7, "c")], {(1,), (2,)}),
        ("b", (3, 2), [(8, "b"), (9, "c")], set()),
    ],
)
def test_segments_older_than_a_column_have_one_value_in_it(
    journal: Journal, missing: str | None, columns: tuple[int, ...], wanted: list, found: object
) -> None:
    number = Column(3, "n", 23, -1, False, "n")
    journal.columns = (ID, number)
    journal.write(journal.rows((1, 7), (3, None)))
    journal.columns = (ID, replace(NAME, missing_value=missing), number)
    journal.write(journal.rows((2, "b", 7), (4, None, 7), (5, "a", 9)))
    indexes = ValueIndexes(journal.relations.warehouse)
    assert indexes.keys(journal.snapshot(), columns, wanted) == found


def test_files_without_a_column_of_their_segment_are_left_to_spark(journal: Journal) -> None:
    journal.write(journal.rows((1, "a"), (2, "b")))
    journal.columns = (ID, replace(NAME, storage_name="name_2"))
    assert keys(journal, "b") is None


def lowered(rows: pa.Table) -> pa.Array | None:
    """Compute the lower case of names that begin with N, where none is numbered 13."""
    names = rows.column(f"c{NAME.attnum}").to_pylist()
    if "N13" in names:
        return None
    return pa.array([name.lower() if name and name[0] == "N" else None for name in names])


def computed_keys(journal: Journal, *values: str) -> Collection[tuple[object, ...]] | None:
    computed = Computed("lowered", (NAME.attnum,), lowered)
    wanted = [(value,) for value in values]
    indexes = ValueIndexes(journal.relations.warehouse)
    return indexes.keys(journal.snapshot(), (), wanted, computed)


def test_values_are_computed_once_for_each_file(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_indexes, "_COMPUTED_AT_ONCE", 3)
    rows = [(1, "N4"), (2, "n4"), (3, None), (4, "N5"), (5, "N4"), (6, "N9")]
    journal.write(journal.rows(*rows), kind=SegmentKind.BASE)
    journal.write(journal.rows((7, "N5"), (8, "x"), version=2))
    assert computed_keys(journal, "n4") == {(1,), (5,)}
    assert computed_keys(journal, "n5", "n9", "n6") == {(4,), (6,), (7,)}
    assert [pq.read_metadata(path).num_rows for path in indexes(journal)] == [4, 1]


def test_files_whose_values_cannot_be_computed_are_left_to_spark(journal: Journal) -> None:
    journal.write(journal.rows((1, "N4"), (2, "N13")))
    assert computed_keys(journal, "n4") is None
