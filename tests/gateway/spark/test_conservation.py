"""What files hold is counted before it is published: a row version too few ends the statement."""

from typing import Any

import pyarrow as pa
import pytest

from catalog.divisions import Division, DivisionField, Transform
from catalog.errors import GatewayError
from catalog.model import SegmentKind
from pgwire_gateway.spark import compactor, divided_files, small_files
from pgwire_gateway.spark.compactor import Compactor
from pgwire_gateway.spark.executor import RunningStatement
from pgwire_gateway.spark.writer import SegmentWriter
from pgwire_gateway.wire_types.merged_versions import merged
from rewrite.journal.compaction import Merge, Queries
from tests.support.fix_spark import Journal

pytestmark = pytest.mark.spark

BY_NAME = Division(7, (DivisionField(Transform.IDENTITY, 2, 25),))


def tail(journal: Journal) -> pa.Table:
    return pa.Table.from_batches([journal.rows((1, "a"), (2, "b"), (1, "c"))])


def loses_one(rows: pa.Table, *others: Any) -> None:
    small_files.write_small(rows.slice(1), *others)


def test_a_flush_writes_all(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactor, "write_small", loses_one)
    with pytest.raises(GatewayError, match="hold 2 row versions of 3") as caught:
        journal.compactor().flush(journal.snapshot(), tail(journal), RunningStatement())
    assert caught.value.sqlstate == "XX001"


def test_a_flush_in_pieces_writes_all(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tail(journal)
    monkeypatch.setattr(compactor, "write_small", loses_one)
    with pytest.raises(GatewayError, match="hold 1 row versions of 3"):
        journal.compactor().flush_pieces(
            journal.snapshot(), [rows.slice(0, 2), rows.slice(2)], RunningStatement()
        )


def merges_losing(lost: SegmentKind) -> Any:
    """Return what merges row versions in memory, and loses those of a kind."""

    def losing(*parts: Any) -> tuple[pa.Table, pa.Table]:
        found = merged(*parts)
        assert found is not None
        current, superseded = found
        if lost is SegmentKind.BASE:
            return current.slice(1), superseded
        return current, superseded.slice(1)

    return losing


@pytest.mark.parametrize("lost", [SegmentKind.BASE, SegmentKind.ARCHIVE])
def test_a_small_compaction_writes_all(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, lost: SegmentKind
) -> None:
    journal.append(journal.rows((1, "a"), (2, "b")))
    journal.append(journal.rows((1, "c"), version=20))
    monkeypatch.setattr(compactor, "merged", merges_losing(lost))
    with pytest.raises(GatewayError, match="hold 2 row versions of 3") as caught:
        journal.compactor().compact(journal.snapshot(), journal.tail, RunningStatement())
    assert caught.value.sqlstate == "XX001"


@pytest.mark.parametrize("lost", [SegmentKind.BASE, SegmentKind.ARCHIVE])
def test_a_compaction_writes_all(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, lost: SegmentKind
) -> None:
    monkeypatch.setattr(compactor, "MAX_BYTES", 0)

    class Losing(Merge):
        def queries(self, base_view: str, recent_view: str) -> dict[SegmentKind, str]:
            found = super().queries(base_view, recent_view)
            return {kind: text for kind, text in found.items() if kind is not lost}

    journal.append(journal.rows((1, "a"), (2, "b")))
    journal.append(journal.rows((1, "c"), version=20))
    assert journal.tail is not None
    whole = journal.compactor().compact(journal.snapshot(), journal.tail, RunningStatement())
    assert sum(segment.rows for segment in whole.added) == 3
    monkeypatch.setattr(compactor, "Merge", Losing)
    with pytest.raises(GatewayError, match="row versions of 3") as caught:
        journal.compactor().compact(journal.snapshot(), journal.tail, RunningStatement())
    assert caught.value.sqlstate == "XX001"


def test_joined_deltas_hold_all(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.write(journal.rows((1, "a"), (2, "b"), version=10))
    journal.write(journal.rows((3, "c"), version=20))
    joining = journal.compactor()
    whole = joining.join(journal.snapshot(), tail(journal), RunningStatement())
    assert whole is not None
    assert [segment.rows for segment in whole.added] == [6]

    def losing(*asked: Any) -> pa.Table:
        return Compactor._read(joining, *asked).slice(1)

    monkeypatch.setattr(joining, "_read", losing)
    with pytest.raises(GatewayError, match="hold 5 row versions of 6") as caught:
        joining.join(journal.snapshot(), tail(journal), RunningStatement())
    assert caught.value.sqlstate == "XX001"


def test_joined_bases_hold_all(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.write(journal.rows((1, "a"), (2, "b")), kind=SegmentKind.BASE)
    journal.write(journal.rows((3, "c")), kind=SegmentKind.BASE)
    whole = journal.compactor().join_bases(journal.snapshot(), RunningStatement())
    assert whole is not None
    assert [segment.rows for segment in whole.added] == [3]
    monkeypatch.setattr(compactor, "merged", merges_losing(SegmentKind.BASE))
    with pytest.raises(GatewayError, match="hold 2 row versions of 3") as caught:
        journal.compactor().join_bases(journal.snapshot(), RunningStatement())
    assert caught.value.sqlstate == "XX001"


def lose_a_partition(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Lose the rows of a partition when files are divided by partitions, in one of three ways."""
    monkeypatch.setattr(divided_files, "_MANY", 10_001 if way == "apart" else 1)
    cut = divided_files.cut
    if way == "apart":
        monkeypatch.setattr(divided_files, "_leaves", lambda root, _: sorted(root.iterdir())[-1:])
    else:
        monkeypatch.setattr(divided_files, "cut", lambda *asked: cut(*asked)[1:])


@pytest.mark.parametrize("way", ["held", "apart", "cut"])
def test_a_divided_base_holds_all(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    journal.division = BY_NAME
    rows = journal.rows((1, "a"), (2, "b"), (3, "b"))
    if way != "held":
        monkeypatch.setattr("pgwire_gateway.spark.writer.MAX_BYTES", 1)
    lose_a_partition(monkeypatch, way)
    writer = SegmentWriter(journal.engine, journal.table, SegmentKind.BASE)
    writer.write(rows)
    with pytest.raises(GatewayError, match=r"hold [12] row versions of 3") as caught:
        writer.finish(RunningStatement())
    assert caught.value.sqlstate == "XX001"
    writer.abort()


@pytest.mark.parametrize("way", ["apart", "cut"])
def test_a_compaction_of_partitions_writes_all(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    journal.division = BY_NAME
    journal.write(journal.rows((1, "a"), (2, "b"), (9, "z")), kind=SegmentKind.BASE)
    journal.append(journal.rows((1, "c"), (2, "b"), version=20))
    whole = journal.compactor().compact(journal.snapshot(), journal.tail, RunningStatement())
    assert sum(segment.rows for segment in whole.added) == 4
    lose_a_partition(monkeypatch, way)
    with pytest.raises(GatewayError, match="hold 3 row versions of 4") as caught:
        journal.compactor().compact(journal.snapshot(), journal.tail, RunningStatement())
    assert caught.value.sqlstate == "XX001"


@pytest.mark.parametrize("most_bytes", [None, 0], ids=["few", "many"])
def test_each_row_that_ends_has_a_tombstone(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, most_bytes: int | None
) -> None:
    class Losing(Merge):
        def tombstones(self, version: int) -> Queries:
            whole = super().tombstones(version)

            def queries(base_view: str, recent_view: str) -> dict[SegmentKind, str]:
                found = whole(base_view, recent_view)
                return {
                    kind: f"SELECT * FROM ({text}) WHERE c1 > 1" for kind, text in found.items()
                }

            return queries

    tombstones = compactor._tombstones

    def losing(rows: pa.Table, version: int) -> pa.Table:
        return tombstones(rows, version).slice(1)

    journal.write(journal.rows((1, "a"), (2, "b")), kind=SegmentKind.BASE)
    journal.write(journal.rows((2, "c"), (3, "d"), version=20))
    journal.append(journal.rows((1, "e"), (3, "d", 30), version=30))
    if most_bytes is not None:
        monkeypatch.setattr(compactor, "MAX_BYTES", most_bytes)

    def end() -> int:
        ended = journal.compactor().end(journal.snapshot(), journal.tail, 77, RunningStatement())
        return sum(segment.rows for segment in ended)

    assert end() == 2 + 2
    monkeypatch.setattr(compactor, "_tombstones", losing)
    monkeypatch.setattr(compactor, "Merge", Losing)
    with pytest.raises(GatewayError, match=r"hold [13] row versions of [24]") as caught:
        end()
    assert caught.value.sqlstate == "XX001"


def test_a_bulk_write_writes_all(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divided_files, "write_small", loses_one)
    writer = SegmentWriter(journal.engine, journal.table)
    writer.write(journal.rows((1, "a"), (2, "b")))
    with pytest.raises(GatewayError, match="hold 1 row versions of 2"):
        writer.finish(RunningStatement())
    writer.abort()
