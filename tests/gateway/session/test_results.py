"""Rows on their way out: in order, ahead of the client, and nothing left behind when it goes."""

import threading
from collections.abc import Iterator
from itertools import accumulate
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa
import pytest

from catalog.connection import tuple_stores
from catalog.errors import GatewayError
from pgwire_gateway.messages.row_data import encode_data_rows
from pgwire_gateway.session import results
from pgwire_gateway.session.results import CatalogRows, SparkRows
from pgwire_gateway.wire_types.row_encoder import ResultColumn, RowEncoder


class Source:
    """Batches of one row each; tells whether it was closed."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.taken = 0
        self.closed = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for number in range(self.rows):
            self.taken += 1
            yield pa.record_batch({"o1": pa.array([number], pa.int32())})

    def close(self) -> None:
        self.closed = True


def rows_of(source: Source) -> SparkRows:
    return SparkRows(source, RowEncoder([ResultColumn(23, -1, 0, "o1")]))


def texts(runs: list[tuple[bytes | memoryview, int]]) -> list[int]:
    return [int(bytes(data)[11:]) for data, _ in runs]


def encoders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "row encoder"]


def test_all_rows_come_in_order() -> None:
    source = Source(50)
    rows = rows_of(source)
    assert texts(list(rows.take(0))) == list(range(50))
    assert rows.exhausted
    assert source.closed
    assert encoders() == []


def test_a_limit_takes_no_more_than_it_says() -> None:
    source = Source(50)
    rows = rows_of(source)
    assert texts(list(rows.take(3))) == [0, 1, 2]
    assert texts(list(rows.take(2))) == [3, 4]
    assert source.taken == 5
    assert texts(list(rows.take(0))) == list(range(5, 50))


def test_an_empty_result_has_no_rows() -> None:
    rows = rows_of(Source(0))
    assert list(rows.take(0)) == []
    assert rows.exhausted


def test_closing_in_the_middle_ends_the_encoder() -> None:
    source = Source(10_000)
    rows = rows_of(source)
    runs = rows.take(0)
    for _ in range(5):
        next(runs)
    assert len(encoders()) == 1
    rows.close()
    assert encoders() == []
    assert source.closed
    assert source.taken < 20


@pytest.mark.parametrize("most_bytes", [0, 1000, 1 << 20])
def test_rows_that_wait_for_the_client_are_the_same_in_memory_and_in_a_file(
    monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    monkeypatch.setattr(tuple_stores, "MOST_BYTES", most_bytes)
    rows = [[b"%d" % number, None, b"", b"x" * number] for number in range(100)]
    fetched = iter(rows)
    taken = CatalogRows(fetched, [23, 25, 25, 25], [0] * 4)
    first = list(taken.take(3))
    assert list(fetched) == []
    rest = [run for limit in (50, 0) for run in taken.take(limit)]
    whole = list(CatalogRows(rows, [23, 25, 25, 25], [0] * 4).take(0))
    assert sum(count for _, count in (*first, *rest)) == 100
    assert b"".join(bytes(data) for data, _ in (*first, *rest)) == bytes(whole[0][0])


@pytest.mark.parametrize(
    ("codes", "encoding"), [([0, 0], "UTF8"), ([0, 1], "UTF8"), ([0, 0], "LATIN1")]
)
def test_runs_of_long_rows_are_short(
    monkeypatch: pytest.MonkeyPatch, codes: list[int], encoding: str
) -> None:
    monkeypatch.setattr(results, "RUN_BYTES", 10_000)
    lengths = [4000] * 7 + [30_000] * 2 + [10] * 1200 + [0]
    pulled = 0

    def fetched() -> Iterator[list[bytes | None]]:
        nonlocal pulled
        for pulled, length in enumerate(lengths, 1):  # noqa: B007 - told outside
            yield [b"x" * length, None]

    rows = CatalogRows(fetched(), [25, 23], codes)
    rows.encode_in(encoding)
    ends, counts, texts = [], [], []
    for data, count in rows.take(0):
        ends.append(pulled)
        counts.append(count)
        texts.append(bytes(data))
    assert counts[:5] == [3, 3, 2, 1, 417 if codes == [0, 0] and encoding == "UTF8" else 500]
    assert max(counts) <= results.RUN_ROWS
    assert ends == list(accumulate(counts))
    assert sum(counts) == len(lengths)
    assert b"".join(texts) == encode_data_rows([b"x" * length, None] for length in lengths)


def test_a_limit_ends_among_long_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RUN_BYTES", 10_000)
    rows = CatalogRows([[b"x" * 4000]] * 10, [25], [0])
    taken = [[count for _, count in rows.take(limit)] for limit in (4, 0, 0)]
    assert taken == [[3, 1], [3, 3], []]


def test_rows_that_nobody_asks_for_leave_no_file_open(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def kept() -> IO[bytes]:
        opened.append(TemporaryFile())  # noqa: SIM115 - who reads it is to close it
        return opened[0]

    monkeypatch.setattr(tuple_stores, "MOST_BYTES", 0)
    monkeypatch.setattr(tuple_stores, "TemporaryFile", kept)
    taken = CatalogRows([[b"1"], [b"2"], [b"3"], [b"4"]], [23], [0])
    assert [count for _, count in taken.take(2)] == [2]
    taken.close()
    del taken
    assert [file.closed for file in opened] == [True]


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> IO[bytes]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tuple_stores, "MOST_BYTES", 0)
    monkeypatch.setattr(tuple_stores, "TemporaryFile", full)
    with pytest.raises(GatewayError) as caught:
        list(CatalogRows([[b"1"], [b"2"]], [23], [0]).take(1))
    assert caught.value.sqlstate == "53100"
