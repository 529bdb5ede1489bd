"""Batches that wait: in the order in which they came, in memory or in a file."""

import gc
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from catalog.model import JournalTable
from pgwire_gateway.session.results import SparkRows
from pgwire_gateway.spark import batch_stores
from pgwire_gateway.spark.batch_stores import BatchFile, BatchStore
from pgwire_gateway.wire_types.changed_rows import ChangedRows
from pgwire_gateway.wire_types.row_encoder import ResultColumn, RowEncoder
from rewrite.results import OutputColumn, RowChange, SparkQuery


def batch(*values: int | None, nullable: bool = True) -> pa.RecordBatch:
    schema = pa.schema([pa.field("r1", pa.int32(), nullable=nullable)])
    return pa.record_batch([pa.array(values, pa.int32())], schema)


def stored(values: range, file: BatchFile | None = None) -> BatchStore:
    store = BatchStore(file)
    for value in values:
        store.add(batch(value, value))
    return store


def values_of(store: BatchStore) -> list[int]:
    return [value for one in store for value in one.column(0).to_pylist()]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[IO[bytes]]:
    """The files that are opened where nothing may be held in memory."""
    files: list[IO[bytes]] = []

    def temporary() -> IO[bytes]:
        files.append(TemporaryFile())  # noqa: SIM115 - who writes it is to close it
        return files[-1]

    monkeypatch.setattr(batch_stores, "TemporaryFile", temporary)
    monkeypatch.setattr(batch_stores, "MOST_BYTES", 0)
    return files


@pytest.mark.parametrize("most_bytes", [0, 20, 1 << 20])
def test_batches_come_in_the_order_they_went(
    opened: list[IO[bytes]], monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    monkeypatch.setattr(batch_stores, "MOST_BYTES", most_bytes)
    store = stored(range(10))
    assert store.is_filed is (most_bytes < 1 << 20)
    assert list(store) == [batch(value, value) for value in range(10)]
    assert [file.closed for file in opened] == [True] * (most_bytes < 1 << 20)


def test_no_batches_are_none(opened: list[IO[bytes]]) -> None:
    store = BatchStore()
    assert list(store) == []
    store.close()
    assert opened == []


def test_stores_share_a_file_and_what_is_held(
    opened: list[IO[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_stores, "MOST_BYTES", 6 * batch(1, 1).nbytes)
    file = BatchFile()
    stores = [stored(range(start, start + 4), file) for start in range(0, 16, 4)]
    assert [store.is_filed for store in stores] == [False, True, True, True]
    assert file.held_bytes <= batch_stores.MOST_BYTES
    read = [iter(store) for store in stores]
    taken = [[next(one) for _ in range(4)] for one in read]
    assert taken == [[batch(v, v) for v in range(start, start + 4)] for start in range(0, 16, 4)]
    stores[1].close()
    stores[2].close()
    assert [one.closed for one in opened] == [False]
    stores[3].close()
    assert [one.closed for one in opened] == [True]


def test_what_is_left_is_forgotten(opened: list[IO[bytes]]) -> None:
    store = stored(range(10))
    assert next(iter(store)) == batch(0, 0)
    store.close()
    store.close()
    assert list(store) == []
    assert [file.closed for file in opened] == [True]


def test_a_store_that_nobody_holds_leaves_no_file_open(opened: list[IO[bytes]]) -> None:
    store = stored(range(10))
    assert [file.closed for file in opened] == [False]
    del store
    gc.collect()
    assert [file.closed for file in opened] == [True]


def test_queries_may_tell_otherwise_what_can_be_null(
    opened: list[IO[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [batch(1, nullable=False), batch(None), batch(3, nullable=False)]
    monkeypatch.setattr(batch_stores, "MOST_BYTES", sum(one.nbytes for one in given) - 1)
    store = BatchStore()
    for one in given:
        store.add(one)
    assert len(opened) == 1
    assert values_of(store) == [1, None, 3]


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> IO[bytes]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(batch_stores, "MOST_BYTES", 0)
    monkeypatch.setattr(batch_stores, "TemporaryFile", full)
    store = BatchStore()
    with pytest.raises(GatewayError) as caught:
        store.add(batch(1))
    assert caught.value.sqlstate == "53100"
    store.close()


def test_a_file_that_has_lost_what_was_written_is_told(opened: list[IO[bytes]]) -> None:
    store = stored(range(3))
    opened[0].truncate(200)
    with pytest.raises(GatewayError) as caught:
        list(store)
    assert caught.value.sqlstate == "58030"
    store.close()


def returned() -> SparkRows:
    """Rows of RETURNING of a statement that has written eight batches."""
    query = SparkQuery("", (), (), None, 0)
    change = RowChange("update", 7, query, False, (OutputColumn("c", 23, -1, "r1"),), None)
    table = JournalTable(7, "public", "t", (), (), None, 1, "7")
    changed = ChangedRows(table, change, (), BatchStore())
    for value in range(8):
        changed.add(batch(value, 10 * value))
        assert changed.take() == [batch(value, 10 * value)]
    assert changed.returning is not None
    return SparkRows(changed.returning, RowEncoder([ResultColumn(23, -1, 0, "r1")]))


def test_rows_of_returning_are_the_same_from_a_file(
    opened: list[IO[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    filed = returned()
    monkeypatch.setattr(batch_stores, "MOST_BYTES", 1 << 20)
    held = returned()
    for limit, count in ((3, 3), (2, 2), (0, 11)):
        assert [file.closed for file in opened] == [False]
        runs = [list(rows.take(limit)) for rows in (filed, held)]
        texts = [b"".join(bytes(data) for data, _ in some) for some in runs]
        assert texts[0] == texts[1]
        assert [sum(rows for _, rows in some) for some in runs] == [count, count]
    assert filed.exhausted
    assert [file.closed for file in opened] == [True]


def test_rows_of_returning_that_nobody_asks_for_leave_no_file_open(
    opened: list[IO[bytes]],
) -> None:
    rows = returned()
    assert sum(count for _, count in rows.take(3)) == 3
    rows.close()
    assert [file.closed for file in opened] == [True]
