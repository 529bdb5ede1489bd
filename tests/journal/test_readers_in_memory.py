"""Readers that resolve row versions in memory find in random histories what a plain model finds.

Controls turn the tie-break of one of them round, and show that the comparison finds it.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from catalog.journal.layout import SUBSEQUENT, TRUNCATION, identity_names
from catalog.journal.order import OF_OTHERS, OURS
from catalog.model import Column, JournalTable, Segment, SegmentKind, TableSnapshot
from catalog.results import SnapshotResult, TailRows
from catalog.upkeep.commits import CommittedVersions
from pgwire_gateway.rows import former_rows
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.spark.recent_rows import RecentRows
from pgwire_gateway.wire_types import tails
from pgwire_gateway.wire_types.newest_rows import with_added
from pgwire_gateway.wire_types.row_differences import occur, superseded
from pgwire_gateway.wire_types.settling import captured, settle
from pgwire_gateway.wire_types.tails import TailCache, latest_per_key
from tests.support.journal_histories import (
    Layout,
    Rows,
    RowVersion,
    laid_out,
    random_history,
    replay,
    stored,
)

SEEDS = range(150)
KEY = Column(1, "k", 23, -1, True, "k")
VALUE = Column(2, "v", 25, -1, False, "v")
KEYED = JournalTable(1, "public", "t", (KEY, VALUE), (1,), "t_pkey", 1, "5/1")
KEYLESS = JournalTable(1, "public", "t", (VALUE,), (), None, 1, "5/1")


def living(table: JournalTable, rows: pa.Table) -> Rows:
    """Return the rows that newest versions are."""
    current = rows.filter(pc.is_null(rows.column(SUBSEQUENT)))
    (name,) = identity_names(table.key)
    keys = current.column(name).to_pylist()
    assert len(set(keys)) == len(keys), "a row is there twice"
    return dict(zip(keys, current.column("c2").to_pylist(), strict=True))


class Files:
    """The segments of a layout, read as the gateway reads files."""

    def __init__(self, table: JournalTable, layout: Layout) -> None:
        self.table, self.held = table, {}
        self.add(SegmentKind.BASE, layout.base)
        self.add(SegmentKind.ARCHIVE, layout.archive)
        for delta in layout.deltas:
            self.add(SegmentKind.DELTA, delta)

    def add(self, kind: SegmentKind, versions: Sequence[RowVersion]) -> None:
        if versions:
            numbers = [version.number for version in versions]
            number = len(self.held) + 1
            attnums = tuple(column.attnum for column in self.table.columns)
            bounds = min(numbers), max(numbers)
            segment = Segment(number, kind, f"{number}", len(versions), 9, attnums, *bounds)
            self.held[segment] = stored(self.table, versions)

    def read(self, _: JournalTable, segments: Sequence[Segment]) -> pa.Table:
        nothing = stored(self.table, [])
        return pa.concat_tables([nothing, *(self.held[segment] for segment in segments)])

    row_versions = read

    def of_kind(self, *kinds: SegmentKind) -> pa.Table:
        return self.read(self.table, [one for one in self.held if one.kind in kinds])

    def versions(self, snapshot: TableSnapshot, keys: Sequence[tuple[object, ...]]) -> pa.Table:
        found = self.of_kind(SegmentKind.BASE, SegmentKind.DELTA)
        (name,) = identity_names(snapshot.table.key)
        wanted = pa.array([key for (key,) in keys], found.schema.field(name).type)
        return found.filter(pc.is_in(found.column(name), wanted))


def observed(table: JournalTable, layout: Layout, files: Files) -> Observation:
    tail = stored(table, layout.tail)
    snapshot = TableSnapshot(table, "s1", 99, tuple(files.held), tail.num_rows)
    return Observation(SnapshotResult({1: snapshot}, {}, 0, 0, 0), {1: tail})


def by_newest(table: JournalTable, layout: Layout, draw: random.Random) -> Rows:
    """All row versions at once."""
    versions = [*layout.base, *layout.recent]
    draw.shuffle(versions)
    return living(table, latest_per_key(stored(table, versions), identity_names(table.key)))


def by_additions(table: JournalTable, layout: Layout, draw: random.Random) -> Rows:
    """Part after part, to what is known."""
    parts = [layout.base, *layout.deltas, layout.tail]
    if draw.randrange(2):
        parts.sort(key=lambda part: min((version.number for version in part), default=0))
    newest = stored(table, [])
    for part in parts:
        newest = with_added(newest, stored(table, part), identity_names(table.key))
    return living(table, newest)


def by_recent_rows(table: JournalTable, layout: Layout, draw: random.Random) -> Rows:
    """What is newer than the base, from one state of the table to the next; then the base."""
    files = Files(table, layout)
    recent, deltas = RecentRows(files.read), []
    tail = stored(table, layout.tail)
    found = stored(table, [])
    for segment in files.held:
        if segment.kind is SegmentKind.DELTA:
            deltas.append(segment)
            snapshot = TableSnapshot(table, f"s{len(deltas)}", 99, tuple(deltas), 0)
            assert recent.latest(snapshot, None) is not None
    snapshot = TableSnapshot(table, "last", 99, tuple(deltas), tail.num_rows)
    if deltas or tail.num_rows:
        found = recent.latest(snapshot, tail)
    names = identity_names(table.key)
    base = stored(table, layout.base)
    kept = base.filter(pc.invert(occur(base.select(names), found.select(names))))
    return living(table, found) | living(table, kept)


def by_lookups(table: JournalTable, layout: Layout, draw: random.Random) -> Rows:
    """Keys looked up in tail and files, all at once."""
    files = Files(table, layout)
    keys = [(key,) for key in range(12)]
    lookups = cast("Any", files)
    rows = observed(table, layout, files).current_rows(1, keys, lookups)
    return living(table, rows)


def by_single_rows(table: JournalTable, layout: Layout, draw: random.Random) -> Rows:
    """Keys looked up one by one."""
    files, found = Files(table, layout), {}
    for key in range(12):
        seen = observed(table, layout, files).of_keys({1: (key,)}, cast("Any", files))
        found |= living(table, seen.current_row(1))
    return found


def by_cached_tails(table: JournalTable, layout: Layout, draw: random.Random) -> Rows:
    """Tails that grow from one look to the next, with what segments have."""
    cache, versions = TailCache(), sorted(layout.tail, key=lambda one: one.number)
    places = sorted({0, len(versions), *(draw.randrange(len(versions) + 1) for _ in range(3))})
    # What one write has appended comes at once.
    numbers = [version.number for version in versions]
    places = [at for at in places if not 0 < at < len(versions) or numbers[at - 1] != numbers[at]]
    tail = stored(table, [])
    for start, end in zip([0, *places[:-1]], places, strict=True):
        added = [transferred(table, version) for version in versions[start:end]]
        newest = numbers[end - 1] if end else 0
        snapshot = TableSnapshot(table, f"s{end}", newest, (), end)
        asked = cache.request("d", table.relid)
        rows = TailRows(asked.held is not None, added)
        tail = cache.complete(
            "d", snapshot, asked, rows, committed=True, stored=lambda: stored(table, [])
        )
    files = Files(table, layout).of_kind(SegmentKind.BASE, SegmentKind.DELTA)
    whole = pa.concat_tables([files, tail.select(files.column_names)]).combine_chunks()
    return living(table, latest_per_key(whole, identity_names(table.key)))


def transferred(table: JournalTable, version: RowVersion) -> list[Any]:
    values = [version.key, version.value] if table.key else [version.value]
    identity = None if table.key else version.key
    return [*values, version.number, version.subsequent, identity]


Reader = Callable[[JournalTable, Layout, random.Random], Rows]
OF_KEYS: list[Reader] = [by_lookups, by_single_rows]
OF_ALL: list[Reader] = [by_newest, by_additions, by_recent_rows, by_cached_tails]


def histories() -> Iterator[tuple[random.Random, list[RowVersion]]]:
    for seed in SEEDS:
        draw = random.Random(seed)  # noqa: S311 - of tests
        yield draw, random_history(draw)


def disagreements(read: Reader, table: JournalTable) -> int:
    """Return in how many histories a reader does not find what the model finds."""
    found = 0
    for draw, history in histories():
        layout = laid_out(draw, history)
        found += read(table, layout, draw) != replay(history)
    return found


@pytest.mark.parametrize("table", [KEYED, KEYLESS], ids=["keyed", "keyless"])
@pytest.mark.parametrize("read", OF_ALL)
def test_readers_of_all_rows_agree_with_the_model(read: Reader, table: JournalTable) -> None:
    assert disagreements(read, table) == 0


@pytest.mark.parametrize("read", OF_KEYS)
def test_readers_of_keys_agree_with_the_model(read: Reader) -> None:
    assert disagreements(read, KEYED) == 0


@pytest.mark.parametrize("read", [*OF_ALL, *OF_KEYS])
def test_control_a_tie_broken_otherwise_is_found(
    read: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "OURS", OF_OTHERS)
    assert disagreements(read, KEYED)


def test_the_law_says_what_the_model_says() -> None:
    for _, history in histories():
        for order in (OURS, OF_OTHERS):
            told = {}
            for key in {version.key for version in history}:
                versions = [version for version in history if version.key == key]
                newest = max(
                    versions, key=lambda one: order.recency(one.number, living=not one.ends)
                )
                if not newest.ends:
                    told[key] = newest.value
            assert told == replay(history, ends_first=order.living_wins)


# what was before, and what has come since ---------------------------------------------------------


def former_disagreements() -> int:
    """Return how often what rows were before some statements is not what the model says."""
    found = 0
    for draw, history in histories():
        layout = laid_out(draw, history)
        files = Files(KEYED, layout)
        observation = observed(KEYED, layout, files)
        written = sorted({version.number for version in layout.recent})
        numbers = tuple(draw.sample(written, min(len(written), 2)))
        keys = {version.key for version in history if version.number in numbers}
        services = cast("Any", SimpleNamespace(lookups=files, compactor=files))
        rows = former_rows.find(services, observation, CommittedVersions(1, numbers))
        if rows is None:
            # A base, or an archive, has later versions than those: never here but for none.
            assert not numbers
            continue
        told = {row["c1"]: None if row[former_rows.GONE] else row["c2"] for row in rows.to_pylist()}
        expected = {}
        for key in keys:
            first = min(v.number for v in history if v.key == key and v.number in numbers)
            expected[key] = replay(v for v in history if v.number < first).get(key)
        found += told != expected
    return found


def test_rows_were_what_the_model_says() -> None:
    assert former_disagreements() == 0


def test_control_what_rows_were_depends_on_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(former_rows, "OURS", OF_OTHERS)
    assert former_disagreements()


def superseded_disagreements() -> int:
    """Return how often what has become of rows is not what the model says."""
    found = told = 0
    for draw, _ in histories():
        # Of a statement that moves rows and ends others it is not told what has become of them.
        history, moment = random_history(draw, keys=3), draw.randrange(1, 10)
        before = replay(version for version in history if version.number <= moment)
        added = [version for version in history if version.number > moment]
        identities = pa.table({"c1": pa.array(sorted(before), pa.int32())})
        result = superseded(identities, stored(KEYED, added))
        if result is None:
            continue
        told += 1
        touched = {version.key for version in added} & before.keys()
        # What comes under the key of a row that has gone is another row.
        gone = {version.key for version in added if version.ends}
        now = replay(history)
        expected = {key: now[key] for key in touched - gone}
        found += set(result.identities.column("c1").to_pylist()) != touched
        found += living(KEYED, result.current) != expected
    assert told > len(SEEDS) / 10
    return found


def test_what_has_become_of_rows_is_what_the_model_says() -> None:
    assert superseded_disagreements() == 0


# tails of resident tables -------------------------------------------------------------------------


def truncated_history(draw: random.Random) -> tuple[list[RowVersion], int]:
    """Return a history in which the table is truncated, and the number of that statement."""
    at = draw.randint(2, 6)
    before = random_history(draw, statements=at - 1)
    return [*before, *random_history(draw, statements=5, first=at + 1)], at


def settled(
    table: JournalTable,
    base: Sequence[RowVersion],
    tail: Sequence[RowVersion],
    mark: int | None = None,
) -> Rows:
    """Return the rows of a captured tail and a base."""
    segment = Segment(1, SegmentKind.BASE, "b", len(base), 9, (1, 2), 0, 0)
    segments = (segment,) if base else ()
    snapshot = TableSnapshot(table, "s", 99, segments, len(tail) + 1, seen="9:9:")
    nothing = [None] * len(table.columns)
    rows = [[*transferred(table, one)[:-1], None] for one in tail]
    if mark is not None:
        rows.append([*nothing, mark, mark, TRUNCATION])
    found = settle(snapshot, captured(table, TailRows(False, rows)), lambda: stored(table, base))
    whole = pa.concat_tables([stored(table, base), found.select(stored(table, []).column_names)])
    return living(table, latest_per_key(whole.combine_chunks(), identity_names(table.key)))


def test_captured_tails_with_truncations_agree_with_the_model() -> None:
    for draw, _ in histories():
        history, mark = truncated_history(draw)
        compacted = draw.randrange(mark)
        base = [
            RowVersion(key, value, compacted)
            for key, value in replay(one for one in history if one.number <= compacted).items()
        ]
        tail = [version for version in history if version.number > compacted]
        draw.shuffle(tail)
        expected = replay(version for version in history if version.number > mark)
        assert settled(KEYED, base, tail, mark) == expected


def images(history: Sequence[RowVersion]) -> Iterator[RowVersion]:
    """Yield what capture writes of a table without key: what has gone, and what has come."""
    before: Rows = {}
    for number in sorted({version.number for version in history}):
        now = replay(version for version in history if version.number <= number)
        for key in before.keys() | now.keys():
            if before.get(key) != now.get(key):
                if key in before:
                    yield RowVersion(key, before[key], number, ends=True)
                if key in now:
                    yield RowVersion(key, now[key], number)
        before = now


def test_captured_images_agree_with_the_model() -> None:
    for draw, _ in histories():
        history = [replace(version, value=f"{version.key % 3}") for version in random_history(draw)]
        came = list(images(history))
        compacted = draw.randrange(10)
        old = replay(one for one in history if one.number <= compacted)
        base = [RowVersion(key, value, compacted) for key, value in old.items()]
        tail = [version for version in came if version.number > compacted]
        draw.shuffle(tail)
        assert Counter(settled(KEYLESS, base, tail).values()) == Counter(replay(history).values())
