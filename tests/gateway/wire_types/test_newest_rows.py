"""The newest versions, completed by whatever has come, are those of all together."""

import random

import pyarrow as pa
import pytest

from catalog.journal.layout import SUBSEQUENT, VERSION
from pgwire_gateway.wire_types.newest_rows import with_added
from pgwire_gateway.wire_types.tails import latest_per_key
from pgwire_gateway.wire_types.versions import VERSION_TYPE

KEYS = ["c1", "c2"]


def versions(chance: random.Random, first: int, last: int, count: int) -> pa.Table:
    """Return row versions of some keys; a key has a version number once, or dies with it."""
    places = {
        (chance.randint(1, 6), chance.choice("ab"), chance.randint(first, last))
        for _ in range(count)
    }
    numbers = [version for *_, version in places]
    return pa.table(
        {
            "c1": pa.array([one for one, *_ in places], pa.int32()),
            "c2": pa.array([other for _, other, _ in places], pa.string()),
            VERSION: pa.array(numbers, VERSION_TYPE),
            SUBSEQUENT: pa.array(
                [version if chance.random() < 0.3 else None for version in numbers], VERSION_TYPE
            ),
        }
    )


def lines(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("first", [1, 8, 21])
def test_what_has_come_completes_what_is_known(seed: int, first: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same each time
    before = versions(chance, 1, 20, chance.randint(0, 12))
    added = versions(chance, first, first + 9, chance.randint(0, 12))
    if first < 21:  # one number of a key is one version
        known = {(row["c1"], row["c2"], row[VERSION]) for row in before.to_pylist()}
        fresh = [(row["c1"], row["c2"], row[VERSION]) not in known for row in added.to_pylist()]
        added = added.filter(pa.array(fresh, pa.bool_()))
    newest = latest_per_key(before, KEYS)
    together = latest_per_key(pa.concat_tables([before, added]).combine_chunks(), KEYS)
    assert lines(with_added(newest, added, KEYS)) == lines(together)
