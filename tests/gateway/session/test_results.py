"""Rows on their way out: in order, ahead of the client, and nothing left behind when it goes."""

import threading
from collections.abc import Iterator

import pyarrow as pa

from pgwire_gateway.session.results import SparkRows
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
