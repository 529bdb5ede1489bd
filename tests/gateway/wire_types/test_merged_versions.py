"""Versions in memory are divided as the law of journals says."""

import pyarrow as pa

from catalog.journal.layout import SUBSEQUENT, VERSION
from pgwire_gateway.wire_types.merged_versions import merged
from pgwire_gateway.wire_types.versions import VERSION_TYPE

Version = tuple[int, str, int, int | None]


def versions(*rows: Version) -> pa.Table:
    """Return versions: key, value, number, end."""
    keys, values, numbers, ends = zip(*rows, strict=True) if rows else ((), (), (), ())
    return pa.table(
        {
            "c1": pa.array(keys, pa.int32()),
            "c2": pa.array(values, pa.string()),
            VERSION: pa.array(numbers, VERSION_TYPE),
            SUBSEQUENT: pa.array(ends, VERSION_TYPE),
        }
    )


def told(rows: pa.Table) -> list[Version]:
    columns = [rows.column("c1"), rows.column("c2")]
    columns += [rows.column(name).cast(pa.int64()) for name in (VERSION, SUBSEQUENT)]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def divided(base: pa.Table, recent: pa.Table) -> tuple[list[Version], list[Version]]:
    """Return the current versions and the others, as they are given."""
    found = merged(base, recent, ["c1"])
    assert found is not None
    current, superseded = found
    return told(current), told(superseded)


def test_each_version_ends_where_the_next_begins():
    base = versions((1, "a", 10, None), (2, "b", 10, None))
    recent = versions((1, "y", 30, None), (1, "x", 20, None))
    assert divided(base, recent) == (
        [(2, "b", 10, None), (1, "y", 30, None)],
        [(1, "a", 10, 20), (1, "x", 20, 30)],
    )


def test_tombstones_keep_their_end():
    base = versions((1, "a", 10, None))
    recent = versions((1, "a", 20, 20), (2, "b", 20, None), (2, "b", 30, 30))
    assert divided(base, recent) == (
        [],
        [(1, "a", 10, 20), (1, "a", 20, 20), (2, "b", 20, 30), (2, "b", 30, 30)],
    )


def test_of_two_versions_with_one_number_the_living_one_is_current():
    recent = versions((1, "came", 20, None), (1, "gone", 20, 20))
    assert divided(versions((1, "a", 10, None)), recent) == (
        [(1, "came", 20, None)],
        [(1, "a", 10, 20), (1, "gone", 20, 20)],
    )


def test_rows_of_the_base_are_older_whatever_their_number():
    assert divided(versions((1, "a", 40, None)), versions((1, "b", 20, None))) == (
        [(1, "b", 20, None)],
        [(1, "a", 40, 20)],
    )


def test_nothing_is_divided_into_nothing():
    assert divided(versions(), versions()) == ([], [])


def test_a_base_with_two_versions_of_a_row_is_none():
    assert merged(versions((1, "a", 10, None), (1, "b", 20, None)), versions(), ["c1"]) is None
