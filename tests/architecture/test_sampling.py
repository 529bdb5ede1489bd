"""How many cases of a test on a server run every time."""

import pytest

from tests.support.sampling import each, step_of


@pytest.mark.parametrize(
    ("count", "run"), [(1, 1), (2, 2), (3, 3), (4, 2), (7, 4), (8, 2), (11, 3), (12, 4), (60, 10)]
)
def test_of_more_cases_more_are_left_out(count, run):
    assert len(range(0, count, step_of(count))) == run


def test_what_does_not_run_every_time_is_exhaustive():
    first, *others, last = each(3, "abcd")
    assert (first, last) == ("a", "d")
    assert all([mark.name for mark in other.marks] == ["exhaustive"] for other in others)
