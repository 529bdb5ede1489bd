"""Keys that many rows are given by one statement."""

import random

import pyarrow as pa
import pytest

from catalog.model import Column, JournalTable
from pgwire_gateway.rows.key_changes import ChangedKeys
from pgwire_gateway.rows.moved_keys import circle

INT4, TEXT, NUMERIC = 23, 25, 1700


def table(*types: tuple[int, int]) -> JournalTable:
    columns = tuple(
        Column(number, f"c{number}", oid, typmod, not_null=True, storage_name=f"c{number}")
        for number, (oid, typmod) in enumerate(types, 1)
    )
    return JournalTable(
        relid=1,
        schema="s",
        name="t",
        columns=columns,
        key=tuple(range(1, len(types) + 1)),
        key_name="t_pkey",
        definition_version=1,
        location="t",
    )


PAIRS = table((INT4, -1), (TEXT, -1))


def changed(*rows: tuple[int, str, int, str]) -> ChangedKeys:
    columns = list(zip(*rows, strict=True)) or [()] * 4
    types = [pa.int32(), pa.string()] * 2
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, ChangedKeys.columns(PAIRS))
    return ChangedKeys.of(PAIRS, [batch.slice(0, 2), batch.slice(2)])


def test_what_goes_and_what_comes() -> None:
    keys = changed((1, "a", 2, "a"), (2, "a", 3, "a"), (4, "a", 4, "a"), (5, "a", 5, "b"))
    assert keys.comes.to_pylist() == [False, True, False, True]
    assert keys.goes.to_pylist() == [True, False, False, True]
    assert (keys.shared(), keys.circled()) == (None, None)


def test_a_key_that_two_rows_get_is_told_by_the_second() -> None:
    keys = changed((1, "a", 7, "x"), (2, "a", 7, "y"), (3, "a", 7, "x"), (4, "a", 7, "y"))
    assert keys.shared() == 2
    assert changed((1, "a", 1, "a"), (2, "a", 1, "a")).shared() == 1


def test_no_row_has_no_keys() -> None:
    keys = changed()
    assert (keys.shared(), keys.circled(), keys.comes.to_pylist()) == (None, None, [])


@pytest.mark.parametrize("seed", range(40))
def test_circles_are_those_of_rows_that_are_looked_at_one_by_one(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    old = chance.sample(range(12), chance.randint(1, 10))
    new = chance.sample(range(14), len(old))
    keys = changed(*((before, "a", after, "a") for before, after in zip(old, new, strict=True)))
    expected = circle(([str(a)], [str(b)]) for a, b in zip(old, new, strict=True))
    place = keys.circled()
    assert (None if place is None else (str(new[place]),)) == expected


@pytest.mark.parametrize(
    ("types", "applies"),
    [([(INT4, -1), (TEXT, -1)], True), ([(NUMERIC, -1)], False), ([], False)],
)
def test_it_is_for_keys_of_one_form(types: list[tuple[int, int]], applies: bool) -> None:
    assert ChangedKeys.applies(table(*types)) is applies
