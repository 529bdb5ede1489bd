"""Which values of a test run every time, where all of them together take minutes.

The others are marked ``exhaustive``, which ``make integration`` runs.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def each(step: int, values: Iterable[Any]) -> list[Any]:
    """Let each ``step``-th of some values, or parameter sets, run every time."""
    return [_marked(value, is_exhaustive=place % step > 0) for place, value in enumerate(values)]


def crossed(rows: Sequence[Any], columns: Sequence[Any], step: int | None = None) -> list[Any]:
    """Return all pairs, of which those run every time that have each row, and each column.

    The columns take turns: a row runs with one of them, or with each ``step``-th.
    """
    step = step or len(columns)
    assert len(rows) >= step
    return [
        pytest.param(
            row,
            column,
            id=f"{row}-{column}",
            marks=_MARKS if (row_place + column_place) % step else (),
        )
        for row_place, row in enumerate(rows)
        for column_place, column in enumerate(columns)
    ]


def leave_out(items: Sequence[pytest.Item]) -> None:
    """Mark as exhaustive what runs with the exhaustive tests alone.

    That is what ``pytest.mark.turns`` and ``pytest.mark.sampled`` leave out, and most cases of the
    tests that have many, and need a whole gateway or a Spark for each.
    """
    _take_turns(items)
    _sample(items)


STEPS = ((24, 6), (12, 3), (8, 4), (4, 2))
"""From how many cases on which of them run: of 24 cases and more, each sixth."""


def _sample(items: Iterable[pytest.Item]) -> None:
    cases: dict[str, list[pytest.Function]] = {}
    for item in items:
        is_case = isinstance(item, pytest.Function) and hasattr(item, "callspec")
        if is_case and item.get_closest_marker("exhaustive") is None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in cases.values():
        step = _step(found[0], len(found))
        # As they are written, in whatever order they run.
        found.sort(key=lambda item: tuple(item.callspec.indices.values()))
        for place, item in enumerate(found):
            if place % step:
                item.add_marker(pytest.mark.exhaustive)


def _step(item: pytest.Item, count: int) -> int:
    marker = item.get_closest_marker("sampled")
    if marker is not None:
        return int(marker.args[0])
    if all(item.get_closest_marker(name) is None for name in ("server", "spark")):
        return 1
    return step_of(count)


def step_of(count: int) -> int:
    """Return which of the cases of a test on a server run: each one, or each second, and so on."""
    return next((step for least, step in STEPS if count >= least), 1)


def _take_turns(items: Iterable[pytest.Item]) -> None:
    """Let the values of a fixture take turns where ``pytest.mark.turns`` names it: a test has one.

    The other values are for the exhaustive tests.
    """
    turns: dict[tuple[str, tuple[tuple[str, int], ...]], list[tuple[int, pytest.Item]]] = {}
    for item in items:
        marker, chosen = item.get_closest_marker("turns"), getattr(item, "callspec", None)
        if marker is None or chosen is None or marker.args[0] not in chosen.params:
            continue
        (name,) = marker.args
        others = tuple(sorted((n, i) for n, i in chosen.indices.items() if n != name))
        test = (item.nodeid.partition("[")[0], others)
        turns.setdefault(test, []).append((chosen.indices[name], item))
    for place, test in enumerate(sorted(turns)):
        for value, item in turns[test]:
            if (place + value) % len(turns[test]):
                item.add_marker(pytest.mark.exhaustive)


_MARKS = (pytest.mark.exhaustive,)


def _marked(value: Any, *, is_exhaustive: bool) -> Any:
    given = value if isinstance(value, tuple) and hasattr(value, "marks") else pytest.param(value)
    if not is_exhaustive:
        return value
    return pytest.param(*given.values, id=given.id, marks=(*given.marks, *_MARKS))
