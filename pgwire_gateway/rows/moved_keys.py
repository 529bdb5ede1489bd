"""Rows that an UPDATE gives each other's keys.

PostgreSQL compares a key when a row gets it. Whichever row of a circle comes first, it gets the key
of one that still has it. Of a chain that is no circle the order of rows decides; here it succeeds.
"""

from collections.abc import Iterable, Sequence

Key = Sequence[str]


def circle(moves: Iterable[tuple[Key, Key]]) -> tuple[str, ...] | None:
    """Return a key that is taken in a circle, the first that rows ask for; None without any.

    Args:
        moves: The key that each row had, and the one it gets; no two get the same.

    >>> circle([(["1"], ["2"]), (["2"], ["3"])])
    >>> circle([(["7"], ["8"]), (["1"], ["2"]), (["2"], ["1"])])
    ('2',)
    """
    after = {tuple(old): tuple(new) for old, new in moves}
    rounds: dict[tuple[str, ...], tuple[str, ...]] = {}
    for start in after:
        key = start
        while key in after and key not in rounds:
            rounds[key] = start
            key = after[key]
        if rounds.get(key) == start and after[key] != key:
            first = next(old for old in after if _leads_to(after, key, old))
            return after[first]
    return None


def _leads_to(
    after: dict[tuple[str, ...], tuple[str, ...]], start: tuple[str, ...], wanted: tuple[str, ...]
) -> bool:
    """Return whether a key is in the circle that another one is in."""
    key = after[start]
    while key not in {start, wanted}:
        key = after[key]
    return key == wanted
