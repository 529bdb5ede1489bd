"""As many row versions are written as follow from what a statement reports, or it fails (XX001)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from catalog.model import Column, JournalTable, Segment, SegmentKind
from catalog.pg import sqlstate
from pgwire_gateway.dml import changes
from pgwire_gateway.rows import journal_writes
from pgwire_gateway.rows.journal_writes import JournalWriter
from pgwire_gateway.spark.spools import Spool
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.spark.warehouse import Warehouse
from pgwire_gateway.wire_types.changed_rows import ChangedRows
from rewrite.command import Command
from rewrite.results import ACTION, CONFLICT, MOVED, RowChange, SparkQuery

INT4 = 23

TABLE = JournalTable(
    1,
    "public",
    "t",
    (Column(1, "k", INT4, -1, True, "k"), Column(2, "v", INT4, -1, False, "v")),
    (1,),
    "t_pkey",
    1,
    "5/1",
)


class Segments:
    """Stands for what writes files; tells of as many rows as it was given."""

    def __init__(self, *_: Any) -> None:
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        self.rows += batch.num_rows

    def finish(self, _: RunningStatement) -> tuple[Segment, ...]:
        """Return a segment, if there are rows."""
        path = "5/1/delta-1"
        segment = Segment(1, SegmentKind.DELTA, path, self.rows, 100, (1, 2), 1, 1)
        return (segment,) if self.rows else ()

    def abort(self) -> None:
        """Remove nothing."""


class Journal:
    """Stands for the journal; knows how many row versions have come to it."""

    def __init__(self) -> None:
        self.rows = 0

    def publish(self, _relid: int, _version: int, segments: list[Segment]) -> None:
        """Take segments."""
        self.rows += sum(segment.rows for segment in segments)

    def append(self, *parts: Any, check_keys: bool) -> None:
        """Take row versions and tombstones."""
        del check_keys
        self.rows += sum(map(len, parts[2:]))


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def session(journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    observer = SimpleNamespace(observe=lambda _: None)
    monkeypatch.setattr(journal_writes, "Observer", lambda _: observer)
    monkeypatch.setattr(journal_writes, "SegmentWriter", Segments)
    monkeypatch.setattr(JournalWriter, "require_disjoint", lambda *_: None)
    return SimpleNamespace(
        catalog=SimpleNamespace(journals=journal),
        services=SimpleNamespace(engine=None, warehouse=Warehouse(str(tmp_path))),
        transaction=SimpleNamespace(written=set()),
    )


def change(kind: str, *, changes_key: bool = False) -> RowChange:
    query = SparkQuery("", (), (), None, 0)
    return RowChange(kind, TABLE.relid, query, changes_key, (), None)


def batches(*rows: tuple[int, int], **columns: list[Any]) -> Iterator[pa.RecordBatch]:
    """Yield rows of old and new keys in batches of two."""
    old, new = zip(*rows, strict=True)
    whole = pa.table(
        {
            "k1": pa.array(old, pa.int32()),
            "n1": pa.array(new, pa.int32()),
            "n2": pa.array(new, pa.int32()),
            **columns,
        }
    )
    yield from whole.to_batches(max_chunksize=2)


KEPT = [(1, 1), (2, 2), (3, 3)]

MOVED_KEYS = [(1, 2), (2, 7), (3, 3), (4, 9)]
"""2 is left by one row and taken by another; 1 and 4 go, 7 and 9 come."""

ACTIONS = [Command.UPDATE, Command.DELETE, Command.INSERT, Command.DELETE, Command.INSERT]


def merged() -> Iterator[pa.RecordBatch]:
    """Yield what a MERGE does: one row changes, one goes, one comes, and one gets another key."""
    actions = pa.array(map(int, ACTIONS), pa.int8())
    moved = [False, False, False, True, True]
    conflicts = pa.array([0] * 5, pa.int8())
    rows = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]
    return batches(*rows, **{ACTION: actions, CONFLICT: conflicts, MOVED: moved})


Write = Callable[[Any], ChangedRows]


def plain(session: Any, kind: str, given: Iterator[pa.RecordBatch]) -> ChangedRows:
    compiled = change(kind)
    rows = ChangedRows(TABLE, compiled, ())
    writer = JournalWriter(session, TABLE.relid, RunningStatement())
    writer.write_changes(TABLE, compiled, rows, given, 7)
    return rows


def moving(session: Any) -> ChangedRows:
    compiled = change("update", changes_key=True)
    rows = ChangedRows(TABLE, compiled, ())
    writer = JournalWriter(session, TABLE.relid, RunningStatement())
    writer.write_changes(TABLE, compiled, rows, batches(*MOVED_KEYS), 7)
    return rows


def drawn(session: Any) -> ChangedRows:
    rows = ChangedRows(TABLE, change("merge"), ())
    writer = JournalWriter(session, TABLE.relid, RunningStatement())
    writer.write_drawn(TABLE, rows, merged(), 7)
    return rows


def small(session: Any, compiled: RowChange, given: Iterator[pa.RecordBatch]) -> ChangedRows:
    rows = ChangedRows(TABLE, compiled, ())
    for batch in given:
        rows.add(batch)
    changes._append(session, TABLE, compiled, rows, 7)
    return rows


LARGE: dict[str, tuple[Write, int, int]] = {
    "UPDATE": (lambda s: plain(s, "update", batches(*KEPT)), 3, 3),
    "DELETE": (lambda s: plain(s, "delete", batches(*KEPT)), 3, 3),
    "MERGE": (lambda s: plain(s, "merge", merged()), 4, 5),
    "UPDATE of keys": (moving, 4, 6),
    "MERGE that draws keys": (drawn, 4, 5),
}
"""What writes, how many rows are reported, and how many row versions that is."""

SMALL: dict[str, tuple[Write, int, int]] = {
    "UPDATE": (lambda s: small(s, change("update"), batches(*KEPT)), 3, 3),
    "DELETE": (lambda s: small(s, change("delete"), batches(*KEPT)), 3, 3),
    "MERGE": (lambda s: small(s, change("merge"), merged()), 4, 5),
    "UPDATE of keys": (
        lambda s: small(s, change("update", changes_key=True), batches(*MOVED_KEYS)),
        4,
        8,
    ),
}
"""The same of few rows; of all old keys the catalog is told."""


@pytest.mark.parametrize(("write", "told", "versions"), LARGE.values(), ids=LARGE)
def test_all_is_written(
    session: Any, journal: Journal, write: Write, told: int, versions: int
) -> None:
    assert write(session).rows == told
    assert journal.rows == versions


@pytest.mark.parametrize(("write", "told", "versions"), SMALL.values(), ids=SMALL)
def test_all_is_appended(
    session: Any, journal: Journal, write: Write, told: int, versions: int
) -> None:
    assert write(session).rows == told
    assert journal.rows == versions


def one_less(whole: Callable[..., Any], place: int) -> Callable[..., Any]:
    """Return what loses the first row of one result that has rows."""
    left = [place]

    def losing(*asked: Any, **named: Any) -> Any:
        found = whole(*asked, **named)
        if not len(found):
            return found
        left[0] -= 1
        return found if left[0] != -1 else found[1:]

    return losing


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("write", [case[0] for case in LARGE.values()], ids=LARGE)
def test_a_row_that_is_lost_on_its_way_fails(
    session: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch, write: Write, place: int
) -> None:
    monkeypatch.setattr(ChangedRows, "storage", one_less(ChangedRows.storage, place))
    with pytest.raises(GatewayError, match=r"hold \d row versions of \d") as caught:
        write(session)
    assert caught.value.sqlstate == sqlstate.DATA_CORRUPTED
    assert journal.rows == 0


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("write", [moving, drawn])
def test_a_row_that_is_lost_while_it_waits_fails(
    session: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch, write: Write, place: int
) -> None:
    whole = Spool.batches

    def losing(spool: Spool) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(whole(spool)):
            yield batch.slice(1) if number == place else batch

    monkeypatch.setattr(Spool, "batches", losing)
    with pytest.raises(GatewayError, match=r"hold \d row versions of \d") as caught:
        write(session)
    assert caught.value.sqlstate == sqlstate.DATA_CORRUPTED
    assert journal.rows == 0


@pytest.mark.parametrize("name", SMALL)
def test_a_row_that_is_lost_on_its_way_to_the_tail_fails(
    session: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(ChangedRows, "new_rows", one_less(ChangedRows.new_rows, 0))
    with pytest.raises(GatewayError, match=r"get \d row versions of \d") as caught:
        SMALL[name][0](session)
    assert caught.value.sqlstate == sqlstate.DATA_CORRUPTED
    assert journal.rows == 0
