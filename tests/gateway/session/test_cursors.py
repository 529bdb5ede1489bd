"""Cursors: which rows a motion takes, and rows that are kept."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from pgwire_gateway.session.cursors import Cursor, CursorRows
from pgwire_gateway.session.portals import Motion, PreparedStatement
from pgwire_gateway.spark import batch_stores
from rewrite.errors import UnsupportedError


def batches(sizes: list[int]) -> Iterator[pa.RecordBatch]:
    start = 0
    for size in sizes:
        yield pa.record_batch({"n": pa.array(range(start, start + size), pa.int32())})
        start += size


def numbers(taken: Iterator[pa.RecordBatch]) -> list[int]:
    return [number for batch in taken for number in batch.column(0).to_pylist()]


def cursor(rows: CursorRows, *, no_scroll: bool = False) -> Cursor:
    return Cursor("c", PreparedStatement("", None), rows=rows, no_scroll=no_scroll)


def test_rows_are_taken_once_whatever_the_batches():
    rows = CursorRows(batches([3, 0, 1, 5]))
    assert numbers(rows.take(2)) == [0, 1]
    assert numbers(rows.take(3)) == [2, 3, 4]
    assert rows.position == 5
    assert rows.is_on_row
    assert numbers(rows.take(None)) == [5, 6, 7, 8]
    assert not rows.is_on_row
    assert numbers(rows.take(1)) == []


def test_all_that_were_asked_for_may_be_all_there_are():
    rows = CursorRows(batches([2]))
    assert numbers(rows.take(2)) == [0, 1]
    assert rows.is_on_row
    assert numbers(rows.take(1)) == []
    assert not rows.is_on_row


@pytest.mark.parametrize(
    ("direction", "count", "motion"),
    [
        ("forward", 1, Motion(0, 1)),
        ("forward", None, Motion(0, None)),
        ("forward", 0, None),
        ("backward", -3, Motion(0, 3)),
        ("backward", 0, None),
        ("relative", 4, Motion(3, 1)),
        ("relative", 0, None),
        ("absolute", 3, Motion(0, 1)),
        ("absolute", 10, Motion(7, 1)),
    ],
)
def test_motions_from_the_second_row(direction, count, motion):
    rows = CursorRows(batches([20]))
    list(rows.take(2))
    assert cursor(rows).motion(direction, count) == motion


@pytest.mark.parametrize(
    ("direction", "count"),
    [
        ("forward", -1),
        ("backward", 1),
        ("backward", None),
        ("relative", -1),
        ("absolute", 2),
        ("absolute", 0),
        ("absolute", -1),
    ],
)
def test_a_cursor_does_not_go_back_and_cannot_be_used_then(direction, count):
    for no_scroll, code in ((False, "0A000"), (True, "55000")):
        rows = CursorRows(batches([20]))
        list(rows.take(2))
        found = cursor(rows, no_scroll=no_scroll)
        with pytest.raises(GatewayError) as refused:
            found.motion(direction, count)
        assert refused.value.sqlstate == code
        with pytest.raises(GatewayError, match='portal "c" cannot be run'):
            found.require_usable()


def test_nothing_is_before_the_first_row():
    assert cursor(CursorRows(batches([3]))).motion("absolute", 0) is None


@pytest.mark.parametrize("most_bytes", [1 << 20, 20])
def test_many_rows_are_kept_in_a_file(monkeypatch, most_bytes):
    monkeypatch.setattr(batch_stores, "MOST_BYTES", most_bytes)
    closed = []
    rows = CursorRows(batches([4] * 10), lambda: closed.append(True))
    assert numbers(rows.take(2)) == [0, 1]
    rows.keep()
    assert rows.is_kept
    assert rows._kept is not None
    assert rows._kept.is_filed == (most_bytes <= 20)
    assert numbers(rows.take(3)) == [2, 3, 4]
    assert numbers(rows.take(None)) == list(range(5, 40))
    assert closed


def test_what_cannot_be_computed_breaks_the_cursor():
    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches([2])
        raise UnsupportedError("no")

    found = cursor(CursorRows(failing()))
    assert numbers(found.rows.take(2)) == [0, 1]
    with pytest.raises(UnsupportedError):
        list(found.rows.take(1))
    assert not found.holds_files
    with pytest.raises(GatewayError, match="cannot be run"):
        found.require_usable()
