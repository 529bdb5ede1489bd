"""Rows that a bulk load drains from the catalog table are all in its files, or it fails (XX001)."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from catalog.model import Column, JournalTable, Segment, SegmentKind, TableSnapshot
from catalog.pg import sqlstate
from catalog.results import CaptureReceipt, DrainedRows
from pgwire_gateway.rows import journal_writes
from pgwire_gateway.rows.journal_writes import JournalWriter
from pgwire_gateway.spark.statements import RunningStatement

TABLE = JournalTable(
    1, "public", "t", (Column(1, "k", 23, -1, True, "k"),), (1,), "t_pkey", 1, "5/1"
)


class Segments:
    """Stands for what writes files; tells of as many rows as it was given."""

    def __init__(self, *_: Any) -> None:
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        self.rows += batch.num_rows

    def finish(self, _: RunningStatement) -> tuple[Segment, ...]:
        """Return a segment."""
        return (Segment(1, SegmentKind.BASE, "5/1/base-1", self.rows, 100, (1,), 1, 1),)

    def abort(self) -> None:
        """Remove nothing."""


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> JournalWriter:
    """A writer of an empty table whose catalog table has three rows."""
    seen = SimpleNamespace(snapshots={1: TableSnapshot(TABLE, "s", 1, (), 0)})
    observer = SimpleNamespace(
        requests=lambda _: [], complete=lambda *_: SimpleNamespace(result=seen)
    )
    monkeypatch.setattr(journal_writes, "Observer", lambda _: observer)
    monkeypatch.setattr(journal_writes, "SegmentWriter", Segments)
    catalog = SimpleNamespace(
        writes=SimpleNamespace(begin_write=lambda *_: ({1: 7}, None)),
        journals=SimpleNamespace(
            drain=lambda _: DrainedRows((1,), iter([b"1,\n2,\n", b"3,\n"])),
            publish=lambda *_: {},
            clear_drained=lambda *_, **__: None,
        ),
    )
    session: Any = SimpleNamespace(
        catalog=catalog,
        services=SimpleNamespace(engine=None),
        transaction=SimpleNamespace(written=set(), implicit=True),
    )
    return JournalWriter(session, 1, RunningStatement())


def test_all_rows_are_in_files(writer: JournalWriter) -> None:
    (segment,) = writer.settle(CaptureReceipt(3, False, 0))
    assert segment.rows == 3


@pytest.mark.parametrize("count", [2, 4])
def test_other_rows_than_there_were_fail(writer: JournalWriter, count: int) -> None:
    with pytest.raises(GatewayError) as caught:
        writer.settle(CaptureReceipt(count, False, 0))
    assert caught.value.sqlstate == sqlstate.DATA_CORRUPTED
