"""Ranges that have some integers, without the wide gaps between them."""

import pyarrow as pa
import pytest

from pgwire_gateway.wire_types.value_ranges import MOST_RANGES, value_ranges


@pytest.mark.parametrize(
    ("values", "ranges"),
    [
        ([], ()),
        ([5], ((5, 5),)),
        ([7, 1, 2, 3, 3, 1], ((1, 7),)),
        ([900_001, 3, 1, 900_000], ((1, 3), (900_000, 900_001))),
        (range(0, 100_000, 99), ((0, 99_990),)),
        ([-(2**63), 0, 2**63 - 1], ((-(2**63), -(2**63)), (0, 0), (2**63 - 1, 2**63 - 1))),
    ],
)
def test_wide_gaps_are_left_out(values: list[int], ranges: tuple[tuple[int, int], ...]) -> None:
    assert value_ranges(pa.chunked_array([list(values)], pa.int64())) == ranges


def test_narrow_integers() -> None:
    found = pa.chunked_array([[30_000], [-30_000]], pa.int16())
    assert value_ranges(found) == ((-30_000, -30_000), (30_000, 30_000))


def test_ranges_are_few_and_the_widest_gaps_between_them() -> None:
    values = [number**2 * 1000 for number in range(30)]
    ranges = value_ranges(pa.chunked_array([values]))
    assert len(ranges) == MOST_RANGES
    assert ranges[0] == (0, values[30 - MOST_RANGES])
    assert all(first == last for first, last in ranges[1:])
    assert [first for first, _ in ranges[1:]] == values[31 - MOST_RANGES :]
