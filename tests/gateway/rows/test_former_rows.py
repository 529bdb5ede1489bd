"""What rows were before some of their versions: random histories, kept in tail, deltas and base."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from catalog.model import Column, JournalTable, Segment, SegmentKind, TableSnapshot
from catalog.results import SnapshotResult
from catalog.upkeep.commits import CommittedVersions
from pgwire_gateway.rows import former_rows
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.services import Services
from pgwire_gateway.wire_types.versions import storage_schema

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Version = tuple[int, str, int, bool]
"""Key, value, version number, and whether the row ended."""


def table(type_oid: int = 23) -> JournalTable:
    columns = (Column(1, "k", type_oid, -1, True, "k"), Column(2, "v", 25, -1, False, "v"))
    return JournalTable(1, "public", "t", columns, (1,), "t_pkey", 1, "5/1")


def stored(versions: Sequence[Version]) -> pa.Table:
    instants = [EPOCH + timedelta(microseconds=version[2]) for version in versions]
    ended = [at if version[3] else None for version, at in zip(versions, instants, strict=True)]
    values = [[v[0] for v in versions], [v[1] for v in versions], instants, ended]
    schema = storage_schema(table())
    return pa.table(values, names=schema.names).cast(schema)


class Files:
    """Segments that are read as the gateway reads files."""

    def __init__(self) -> None:
        self.held: dict[Segment, pa.Table] = {}

    def add(self, kind: SegmentKind, versions: Sequence[Version]) -> None:
        numbers = [version[2] for version in versions]
        if versions:
            path = f"{len(self.held)}"
            bounds = (min(numbers), max(numbers))
            segment = Segment(len(self.held), kind, path, len(versions), 100, (1, 2), *bounds)
            self.held[segment] = stored(versions)

    def row_versions(self, _: JournalTable, segments: Sequence[Segment]) -> pa.Table:
        return pa.concat_tables([stored([]), *(self.held[segment] for segment in segments)])

    def versions(self, snapshot: TableSnapshot, keys: Sequence[tuple[int]]) -> pa.Table:
        found = self.row_versions(snapshot.table, snapshot.segments)
        wanted = {key for (key,) in keys}
        chosen = [key in wanted for key in found.column("c1").to_pylist()]
        return found.filter(pa.array(chosen, pa.bool_()))


def find(
    files: Files, tail: Sequence[Version], numbers: Sequence[int], type_oid: int = 23
) -> dict[int, tuple[str | None, bool]] | None:
    """Return for each key the value before (None: not there) and whether it was overtaken."""
    snapshot = TableSnapshot(table(type_oid), "s", 1, tuple(files.held), len(tail))
    observation = Observation(SnapshotResult({1: snapshot}, {}, 0, 0, 0), {1: stored(tail)})
    services = cast("Services", cast("Any", SimpleNamespace(lookups=files, compactor=files)))
    found = former_rows.find(services, observation, CommittedVersions(1, tuple(numbers)))
    if found is None:
        return None
    return {
        row["c1"]: (None if row[former_rows.GONE] else row["c2"], row[former_rows.OVERTAKEN])
        for row in found.to_pylist()
    }


def expected(
    history: Sequence[Version], numbers: Sequence[int]
) -> dict[int, tuple[str | None, bool]]:
    """Replay a history row by row."""
    told: dict[int, tuple[str | None, bool]] = {}
    current: dict[int, str | None] = {}
    for key, value, number, ended in history:
        if number in numbers:
            told[key] = (told[key][0] if key in told else current.get(key), False)
        elif key in told:
            told[key] = (told[key][0], True)
        current[key] = None if ended else value
    return told


@pytest.mark.parametrize("seed", range(200))
def test_rows_are_found_wherever_their_versions_are(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - of tests
    history: list[Version] = []
    for number in range(1, draw.randrange(4, 60)):
        for key in draw.sample(range(6), draw.randrange(1, 4)):
            living = any(not ended for k, _, n, ended in history if k == key and n < number)
            if living and not draw.randrange(6):
                # A row that goes, and another one that comes in the same statement.
                history += [(key, "gone", number, True), (key, f"{number}", number, False)]
            else:
                history.append((key, f"{number}", number, living and not draw.randrange(3)))
    last = history[-1][2]
    compacted, flushed = sorted(draw.randrange(last) for _ in range(2))
    files = Files()
    latest = {version[0]: version for version in history if version[2] <= compacted}
    files.add(SegmentKind.BASE, [version for version in latest.values() if not version[3]])
    newer = [version for version in history if compacted < version[2] <= flushed]
    half = draw.randrange(len(newer) + 1)
    files.add(SegmentKind.DELTA, newer[:half])
    files.add(SegmentKind.DELTA, newer[half:])
    tail = [version for version in history if version[2] > flushed]
    first = draw.randrange(compacted + 1, last + 1)
    numbers = draw.choice([[first], list(range(first, last + 1))])
    assert find(files, tail, numbers) == expected(history, numbers)


def test_what_was_compacted_is_left_to_spark() -> None:
    files = Files()
    files.add(SegmentKind.BASE, [(1, "a", 3, False)])
    assert find(files, [(1, "b", 4, False)], [3]) is None
    assert find(files, [(1, "b", 4, False)], [4]) == {1: ("a", False)}


def test_keys_that_are_not_compared_as_they_are_stored_are_left_to_spark() -> None:
    assert find(Files(), [(1, "a", 1, False)], [1], type_oid=1700) is None


def test_versions_that_are_nowhere_are_left_to_spark() -> None:
    assert find(Files(), [(1, "a", 1, False)], [2]) is None
