"""Readers of data files and queries of Spark find in random histories what a plain model finds.

One table has many histories, each of keys of its own: what is asked of Spark is asked for all.
Controls turn the tie-break of one reader round, and show that the comparison finds it.
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.journal.layout import SUBSEQUENT, VERSION, column_name, identity_names
from catalog.journal.order import OF_OTHERS, OURS
from catalog.model import Column, ExternalJournal, Outside, SegmentKind, TableSnapshot
from catalog.results import SnapshotResult, TailRows
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.spark import compactor as compactors
from pgwire_gateway.spark import recent_rows
from pgwire_gateway.spark.executor import Executor
from pgwire_gateway.spark.held_rows import HeldRows
from pgwire_gateway.spark.layouts import Layout as Layouts
from pgwire_gateway.spark.lookups import Lookups
from pgwire_gateway.spark.recent_rows import RecentRows
from pgwire_gateway.spark.relations import Relation
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.statements import checking
from pgwire_gateway.wire_types import tails
from pgwire_gateway.wire_types.key_bitmaps import KeyBitmap
from pgwire_gateway.wire_types.merged_versions import merged
from rewrite.context import RewriteContext, SessionConstants
from rewrite.journal import versions
from rewrite.journal.current_rows import CurrentRows
from rewrite.query.compilation import Compilation
from rewrite.query.select import compile_block
from rewrite.query.spark_text import spark_query
from rewrite.query.sql import named, select
from rewrite.results import Source, SourcePart, SparkQuery
from tests.support.fix_spark import NAME, Journal
from tests.support.journal_histories import (
    Layout,
    Rows,
    RowVersion,
    laid_out,
    random_history,
    replay,
    stored,
)

pytestmark = pytest.mark.spark

SEED = 20_261_126
HISTORIES = 40
KEYS = 12
COUNT = HISTORIES * KEYS
VALUE = column_name(NAME.attnum)
NEUTRAL = SessionConstants(datetime(1970, 1, 1, tzinfo=UTC), "UTC", "", "", "", None)

NUMERIC = (Column(1, "id", 1700, -1, True, "id"), NAME)
"""Numbers without scale are stored as text, and equal ones differently."""


@dataclass
class Written:
    """A journal that holds histories, and the rows that the model finds in them."""

    journal: Journal
    layout: Layout
    history: list[RowVersion]

    @property
    def expected(self) -> Rows:
        return replay(self.history)

    def observation(self) -> Observation:
        snapshot, tail = self.journal.snapshot(), self.journal.tail
        relid = snapshot.table.relid
        return Observation(SnapshotResult({relid: snapshot}, {}, 0, 0, 0), {relid: tail})

    def run(self, query: SparkQuery, observation: Observation) -> pa.Table:
        """Run a query as a session does, without Spark where that can be."""
        journal = self.journal
        batches = Executor(journal.relations).run(
            query,
            relations=observation.relations(query),
            sessions=journal.engine.sessions(),
            statement=RunningStatement(),
        )
        return batches.read_all()

    def run_resolved(self, *, by_bitmap: bool = False, **changes: Any) -> pa.Table:
        """Run the query for all rows, changed, with one version of each that is newer."""
        observation = self.observation()
        ((relid, snapshot),) = observation.result.snapshots.items()
        recent = RecentRows(self.journal.compactor().row_versions)
        with pytest.MonkeyPatch.context() as patch:
            if by_bitmap:
                patch.setattr(recent_rows, "LEAST_BASE_ROWS", 1)
            latest = recent.latest(snapshot, observation.tails[relid])
        assert latest is not None
        bitmap = recent.bitmap(snapshot)
        bitmaps = {} if bitmap is None else {relid: bitmap}
        resolved = observation.of_latest({relid: latest}, bitmaps)
        query = whole(resolved.result.snapshots[relid], resolved=True, bitmap=bitmaps.get(relid))
        assert query.selection is not None
        reads = {source.part for source in query.sources}
        assert (SourcePart.RECENT_KEYS in reads) is by_bitmap
        return self.run(replace(query, **changes), resolved)

    def compacted(self, most_bytes: int = 0) -> dict[SegmentKind, pa.Table]:
        """Return the row versions of a compaction; more bytes are Spark's to compact."""
        journal = self.journal
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compactors, "MAX_BYTES", most_bytes)
            compactor = journal.compactor()
            added = compactor.compact(journal.snapshot(), journal.tail, RunningStatement())
        found = {}
        for segment in added.added:
            rows = journal.compactor().row_versions(journal.table, [segment])
            assert rows is not None
            found[segment.kind] = rows
        return found

    def told(self, rows: pa.Table) -> Rows:
        """Return rows, in storage layout or less, as the model tells them."""
        if SUBSEQUENT in rows.column_names:
            assert rows.column(SUBSEQUENT).null_count == rows.num_rows, "a tombstone is a row"
        (name,) = identity_names(self.journal.key)
        found = [int(float(str(key))) for key in rows.column(name).to_pylist()]
        assert len(set(found)) == len(found), "a row is there twice"
        return dict(zip(found, rows.column(VALUE).to_pylist(), strict=True))


def histories(journal: Journal, *, spelled: bool = False, deltas: int = 3) -> Written:
    """Write histories to a journal: base, archive, deltas and tail."""
    draw = random.Random(SEED)  # noqa: S311 - of tests
    history: list[RowVersion] = []
    layout = Layout([], [], [[] for _ in range(deltas)], [])
    for number in range(HISTORIES):
        alone = [
            replace(version, key=version.key + number * KEYS)
            for version in random_history(draw, keys=KEYS)
        ]
        parts = laid_out(draw, alone, deltas=deltas)
        history += alone
        layout.base += parts.base
        layout.archive += parts.archive
        layout.tail += parts.tail
        for one, other in zip(layout.deltas, parts.deltas, strict=True):
            one.extend(other)

    def rows(versions: Sequence[RowVersion]) -> pa.Table:
        if not spelled:
            return stored(journal.table, versions)
        # Equal keys look different in each part.
        zeros = draw.randrange(3)
        names = [f"{key}.{'0' * zeros}" if zeros else f"{key}" for key in range(COUNT)]
        return stored(journal.table, versions, names)

    for kind, part in (
        (SegmentKind.BASE, layout.base),
        (SegmentKind.ARCHIVE, layout.archive),
        *((SegmentKind.DELTA, delta) for delta in layout.deltas),
    ):
        journal.write(*rows(part).to_batches(), kind=kind)
    journal.tail = rows(layout.tail)
    return Written(journal, layout, history)


@pytest.fixture
def keyed(journal: Journal) -> Written:
    return histories(journal)


@pytest.fixture
def keyless(journal: Journal) -> Written:
    journal.columns, journal.key = (NAME,), ()
    return histories(journal)


@pytest.fixture
def numeric(journal: Journal) -> Written:
    journal.columns = NUMERIC
    return histories(journal, spelled=True)


def whole(
    snapshot: TableSnapshot,
    *,
    computes: bool = False,
    resolved: bool = False,
    bitmap: KeyBitmap | None = None,
) -> SparkQuery:
    """Return the query for the current rows of a table: what tells them apart, and the value."""
    table = snapshot.table
    context = RewriteContext(
        {table.relid: snapshot},
        NEUTRAL,
        latest_only=frozenset({table.relid} if resolved else ()),
        key_ranges={} if bitmap is None else {table.relid: bitmap.range},
    )
    compilation = Compilation(context, compile_block, computes=computes)
    rows = CurrentRows(compilation, snapshot)
    identity = rows.stored(table.key[0]) if table.key else rows.row_identity().sql
    (name,) = identity_names(table.key)
    items = [named(identity, name), named(rows.stored(NAME.attnum), VALUE)]
    return spark_query(compilation, select(items, rows.item()), (), None)


def by_window(written: Written) -> Rows:
    """By Spark's window over all that is newer than the base."""
    query = whole(written.journal.snapshot())
    return written.told(written.run(query, written.observation()))


def by_shielded_window(written: Written) -> Rows:
    """The same where rows that are there no more must not reach conditions."""
    query = whole(written.journal.snapshot(), computes=True)
    return written.told(written.run(query, written.observation()))


def by_newest_in_memory(written: Written) -> Rows:
    """By Spark, where what is newer than the base has been resolved in memory."""
    return written.told(written.run_resolved(selection=None, scan=None))


def by_bitmap(written: Written) -> Rows:
    """The same, where keys that have been superseded are found in a bitmap."""
    return written.told(written.run_resolved(by_bitmap=True, selection=None, scan=None))


def by_files(written: Written) -> Rows:
    """The same, from data files, without Spark."""
    return written.told(written.run_resolved(sql="SELECT 'spark'"))


def by_live_rows(written: Written) -> Rows:
    """As compaction reads few rows."""
    journal = written.journal
    return written.told(
        journal.compactor().live_rows(journal.snapshot(), RunningStatement(), journal.tail)
    )


def by_compaction(written: Written) -> Rows:
    """By what becomes the base where rows are many."""
    return written.told(written.compacted()[SegmentKind.BASE])


def by_merge(written: Written) -> Rows:
    """By what becomes the base where few rows are compacted."""
    journal = written.journal
    compactor = journal.compactor()
    parts = {
        kind: compactor.row_versions(journal.table, journal.snapshot().of_kind(kind))
        for kind in (SegmentKind.BASE, SegmentKind.DELTA)
    }
    base, deltas = parts[SegmentKind.BASE], parts[SegmentKind.DELTA]
    assert base is not None
    assert deltas is not None
    assert journal.tail is not None
    recent = pa.concat_tables([deltas, journal.tail])
    found = merged(base, recent, identity_names(journal.key))
    assert found is not None
    current, _ = found
    return written.told(current)


def by_lookups(written: Written) -> Rows:
    """By keys, looked up in tail and files."""
    observation = written.observation()
    lookups = Lookups(written.journal.relations.warehouse)
    keys = [(key,) for key in range(COUNT)]
    rows = observation.current_rows(written.journal.relid, keys, lookups)
    assert rows is not None
    return written.told(rows)


def by_check(written: Written) -> Rows:
    """As gateway.check reads them: it finds no difference from the rows of the model."""
    expected = written.expected
    journal = written.journal
    tail = [
        [version.key, version.value, version.number, version.subsequent, None]
        for version in written.layout.tail
    ]
    held = [[key, value] for key, value in expected.items()]
    reading = checking._Reading(journal.snapshot(), TailRows(False, tail), held, None)
    different = checking._differences(reading, journal.compactor(), RunningStatement())
    return expected if not different else {}


Reader = Callable[[Written], Rows]
OF_ANY: list[Reader] = [by_window, by_shielded_window, by_compaction]
OF_PLAIN: list[Reader] = [by_newest_in_memory, by_bitmap, by_files, by_live_rows, by_merge]
OF_KEYS: list[Reader] = [by_lookups, by_check]


@pytest.mark.parametrize("read", [*OF_ANY, *OF_PLAIN, *OF_KEYS])
def test_readers_of_a_table_with_a_key_agree_with_the_model(read: Reader, keyed: Written) -> None:
    assert read(keyed) == keyed.expected


@pytest.mark.parametrize("read", [*OF_ANY, *OF_PLAIN])
def test_readers_of_a_table_without_key_agree(read: Reader, keyless: Written) -> None:
    assert read(keyless) == keyless.expected


@pytest.mark.parametrize("read", [*OF_ANY, by_live_rows])
def test_readers_agree_where_equal_keys_are_stored_in_several_ways(
    read: Reader, numeric: Written
) -> None:
    assert read(numeric) == numeric.expected


def test_many_small_segments_are_read_without_spark_and_are_the_same(journal: Journal) -> None:
    written = histories(journal, deltas=9)
    snapshot = journal.snapshot()
    recent = Source(journal.relid, SourcePart.RECENT, "")
    segments = Relation(recent, snapshot, lambda: None).segments()
    held = HeldRows(journal.relations.warehouse)
    rows = held.rows(Layouts.of(journal.table), segments, lambda _: 1)
    assert rows is not None
    assert rows.num_rows == sum(map(len, written.layout.deltas))
    assert by_window(written) == written.expected


def test_more_rows_are_read_without_spark_where_files_have_few_each(journal: Journal) -> None:
    histories(journal, deltas=9)
    recent = Source(journal.relid, SourcePart.RECENT, "")
    segments = Relation(recent, journal.snapshot(), lambda: None).segments()
    held = HeldRows(journal.relations.warehouse)
    layout = Layouts.of(journal.table)
    for told, is_held in ((100, True), (600, False)):
        many = [replace(segment, rows=told) for segment in segments] * 200
        assert (held.rows(layout, many, lambda _: 1) is not None) is is_held


def test_live_rows_are_the_same_where_they_are_many(
    keyed: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compactors, "MAX_BYTES", 0)
    assert by_live_rows(keyed) == keyed.expected


@pytest.mark.parametrize("most_bytes", [0, compactors.MAX_BYTES])
@pytest.mark.parametrize("kind", ["keyed", "keyless"])
def test_compaction_keeps_every_version(
    request: pytest.FixtureRequest, kind: str, most_bytes: int
) -> None:
    written: Written = request.getfixturevalue(kind)
    found = written.compacted(most_bytes)
    (name,) = identity_names(written.journal.key)
    versions = [*written.layout.base, *written.layout.recent]
    assert sorted(shown(pa.concat_tables(found.values()), name)) == sorted(settled(versions))


def test_what_was_compacted_is_read_from_files(keyed: Written) -> None:
    journal = keyed.journal
    result = journal.compactor().compact(journal.snapshot(), journal.tail, RunningStatement())
    kept = [one for one in journal.segments if one.segment_id not in result.retired]
    numbered = [replace(one, segment_id=-n) for n, one in enumerate(result.added, 1)]
    journal.segments, journal.tail = [*kept, *numbered], None
    snapshot = journal.snapshot()
    query = replace(whole(snapshot), sql="SELECT 'spark'")
    assert query.scan is not None
    assert keyed.told(keyed.run(query, keyed.observation())) == keyed.expected
    assert by_window(keyed) == keyed.expected


def test_joined_deltas_are_the_same_versions(keyed: Written) -> None:
    journal = keyed.journal
    assert journal.tail is not None
    joined = journal.compactor().join(journal.snapshot(), journal.tail, RunningStatement())
    assert joined is not None
    base = [one for one in journal.segments if one.segment_id not in joined.retired]
    journal.segments = [*base, *(replace(one, segment_id=-1) for one in joined.added)]
    journal.tail = None
    assert by_window(keyed) == keyed.expected
    rows = journal.compactor().row_versions(journal.table, joined.added)
    assert rows is not None
    assert sorted(shown(rows)) == sorted(
        (version.key, version.value, version.number, version.subsequent)
        for version in keyed.layout.recent
    )


@pytest.mark.parametrize("most_bytes", [None, 0], ids=["few", "many"])
def test_all_current_rows_end(
    keyed: Written, monkeypatch: pytest.MonkeyPatch, most_bytes: int | None
) -> None:
    if most_bytes is not None:
        monkeypatch.setattr(compactors, "MAX_BYTES", most_bytes)
    journal = keyed.journal
    ended = journal.compactor().end(journal.snapshot(), journal.tail, 77, RunningStatement())
    monkeypatch.undo()
    rows = journal.compactor().row_versions(journal.table, ended)
    assert rows is not None
    tombstones = [row for row in shown(rows) if row[2] == 77]
    assert sorted(tombstones) == sorted(
        (key, value, 77, 77) for key, value in keyed.expected.items()
    )
    assert rows.num_rows == len(tombstones) + len(keyed.layout.tail)


def test_a_journal_of_others_has_its_own_order(keyed: Written, tmp_path: Path) -> None:
    written = of_others(keyed, tmp_path)
    expected = replay(written.history, ends_first=False)
    assert expected != written.expected
    assert by_window(written) == expected
    assert by_shielded_window(written) == expected


# controls -----------------------------------------------------------------------------------------


def other_way_round(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(versions, "order_of", lambda *, external: OURS if external else OF_OTHERS)


@pytest.mark.parametrize("read", OF_ANY)
@pytest.mark.parametrize("kind", ["keyed", "keyless", "numeric"])
def test_control_a_tie_broken_otherwise_by_spark_is_found(
    read: Reader, kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = request.getfixturevalue(kind)
    other_way_round(monkeypatch)
    assert read(written) != written.expected


@pytest.mark.parametrize("read", [*OF_PLAIN, *OF_KEYS])
def test_control_a_tie_broken_otherwise_in_memory_is_found(
    read: Reader, keyed: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "OURS", OF_OTHERS)
    assert read(keyed) != keyed.expected


def test_control_the_order_of_ours_is_found_in_a_journal_of_others(
    keyed: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = of_others(keyed, tmp_path)
    other_way_round(monkeypatch)
    assert by_window(written) == written.expected
    assert by_window(written) != replay(written.history, ends_first=False)


# support ------------------------------------------------------------------------------------------


def shown(rows: pa.Table, name: str = "c1") -> list[tuple[int, str, int, int | None]]:
    moments = [rows.column(name).cast(pa.int64()) for name in (VERSION, SUBSEQUENT)]
    columns = [rows.column(name), rows.column(VALUE), *moments]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def settled(versions: Sequence[RowVersion]) -> list[tuple[int, str, int, int | None]]:
    """Return row versions with the numbers of their successors."""
    found = []
    for key in {version.key for version in versions}:
        of_key = sorted(
            (version for version in versions if version.key == key),
            key=lambda one: (one.number, not one.ends),
        )
        for version, after in zip(of_key, [*of_key[1:], None], strict=True):
            successor = version.number if version.ends else after and after.number
            found.append((key, version.value, version.number, successor))
    return found


class _Other(Journal):
    """A journal of others: a file of all row versions, and nothing else."""

    outside: TableSnapshot

    def snapshot(self) -> TableSnapshot:
        return self.outside


def of_others(written: Written, directory: Path) -> Written:
    """Return the same histories as the journal that somebody else keeps."""
    journal = written.journal
    rows = stored(journal.table, written.history).rename_columns(["id", "name", "at", "ended"])
    file = directory / "part-0.parquet"
    pq.write_table(rows, file)
    kinds = {"id": "integer", "name": "string", "at": "timestamp", "ended": "timestamp"}
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in kinds.items()
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    external = ExternalJournal("parquet", str(directory), "at", "ended", schema=schema)
    other = _Other(journal.engine, journal.relations)
    outside = Outside((str(file),), f"others{journal.relid}", rows.num_rows)
    other.outside = TableSnapshot(
        replace(journal.table, external=external), outside.state, 99, (), 0, outside=outside
    )
    return Written(other, written.layout, written.history)
