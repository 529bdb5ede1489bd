"""Circles of keys that rows take from each other."""

import pytest

from pgwire_gateway.rows.moved_keys import circle


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        ("", None),
        ("1>1 2>2", None),
        ("1>2 2>3 3>9", None),
        ("1>2 2>1", ("2",)),
        ("9>8 2>1 1>2", ("1",)),
        ("1>5 7>2 2>3 3>7", ("2",)),
        ("1>1 2>4 4>2", ("4",)),
    ],
)
def test_the_first_key_of_a_circle_is_told(moves: str, expected: tuple[str, ...] | None) -> None:
    pairs = [([old], [new]) for old, new in (move.split(">") for move in moves.split())]
    assert circle(pairs) == expected
