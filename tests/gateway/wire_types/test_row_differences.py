"""What has become of rows, told by the row versions that have come since."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from pgwire_gateway.wire_types.row_differences import added_versions, superseded
from pgwire_gateway.wire_types.versions import VERSION_TYPE

Version = tuple[int, str | None, int]
"""Key, value and version number; a tombstone has no value."""

READ = pa.table({"c1": pa.array([1, 2, 3], pa.int32())})
"""The rows that were read."""


def versions(*rows: Version) -> pa.Table:
    return pa.table(
        {
            "c1": pa.array([key for key, _, _ in rows], pa.int32()),
            "c2": pa.array([value for _, value, _ in rows], pa.string()),
            "version_number": pa.array([number for *_, number in rows], VERSION_TYPE),
            "subsequent_version_number": pa.array(
                [number if value is None else None for _, value, number in rows], VERSION_TYPE
            ),
        }
    )


def found(*added: Version) -> tuple[list[int], list[str]] | None:
    """Return the keys with newer versions, and the values of those that are to be looked at."""
    result = superseded(READ, versions(*added))
    if result is None:
        return None
    keys = result.identities.column("c1").to_pylist()
    return sorted(keys), sorted(result.current.column("c2").to_pylist())


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ([], ([], [])),
        ([(7, "new", 10)], ([], [])),
        ([(1, "b", 10)], ([1], ["b"])),
        ([(1, "c", 11), (1, "b", 10), (3, "x", 10)], ([1, 3], ["c", "x"])),
        ([(1, None, 10)], ([1], [])),
        ([(1, "b", 10), (1, None, 11), (2, "c", 12)], ([1, 2], ["c"])),
    ],
    ids=["nothing", "others", "changed", "twice", "gone", "changed and gone"],
)
def test_rows_are_looked_at_as_they_are_now(
    added: Sequence[Version], expected: tuple[list[int], list[str]]
) -> None:
    assert found(*added) == expected


def test_what_comes_in_the_place_of_a_row_that_has_gone_is_another_row() -> None:
    assert found((1, None, 10), (1, "again", 11), (8, "new", 12)) == ([1], [])
    assert found((1, None, 10), (1, "again", 11), (1, "changed", 12)) == ([1], [])


def test_a_row_may_be_there_under_another_key() -> None:
    assert found((1, None, 10), (8, "moved", 10)) is None
    assert found((8, None, 10), (1, None, 11), (2, "moved", 11)) is None


def test_that_another_row_has_moved_is_no_matter() -> None:
    assert found((7, None, 10), (8, "moved", 10), (1, "b", 11)) == ([1], ["b"])


def test_keys_of_several_columns_are_told_apart_by_all() -> None:
    rows = versions((1, "b", 10), (2, "a", 10))
    read = pa.table({"c1": pa.array([1, 2], pa.int32()), "c2": ["a", "a"]})
    result = superseded(read, rows)
    assert result is not None
    assert result.identities.to_pylist() == [{"c1": 2, "c2": "a"}]


def test_versions_are_told_apart_by_key_and_number() -> None:
    before = versions((1, "a", 10), (2, "b", 11))
    now = versions((2, "b", 11), (2, "c", 12), (1, "a", 10), (3, "d", 10))
    assert added_versions(before, now, ["c1"]).column("c2").to_pylist() == ["c", "d"]
    assert added_versions(now, before, ["c1"]).num_rows == 0
    assert added_versions(before.slice(0, 0), now, ["c1"]).equals(now)
