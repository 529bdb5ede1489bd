"""What files hold is counted before it is published: a row version too few ends the statement."""

from typing import Any

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from catalog.model import SegmentKind
from pgwire_gateway.spark import compactor, divided_files, small_files
from pgwire_gateway.spark.executor import RunningStatement
from pgwire_gateway.spark.writer import SegmentWriter
from pgwire_gateway.wire_types.merged_versions import merged
from rewrite.journal.compaction import Merge
from tests.support.fix_spark import Journal

pytestmark = pytest.mark.spark


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


def test_a_bulk_write_writes_all(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divided_files, "write_small", loses_one)
    writer = SegmentWriter(journal.engine, journal.table)
    writer.write(journal.rows((1, "a"), (2, "b")))
    with pytest.raises(GatewayError, match="hold 1 row versions of 2"):
        writer.finish(RunningStatement())
    writer.abort()
