"""Changed rows are held in memory up to a size, whatever their number is."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from pgwire_gateway.dml import gathered_rows
from pgwire_gateway.dml.gathered_rows import gather

WIDTH = 1 << 20


class Rows:
    """Counts what it is given."""

    def __init__(self) -> None:
        self.rows = 0
        self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self.bytes += batch.nbytes


def large_rows(number: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of a megabyte, each in a batch of its own."""
    value = "x" * WIDTH
    for _ in range(number):
        yield pa.record_batch({"v": [value]})


@pytest.mark.parametrize(
    ("number", "whole", "fits", "held"),
    [
        (3, False, True, 3),
        (16, False, False, 4),
        (9, True, True, 9),
        (1000, True, False, 10),
    ],
)
def test_bytes_are_bounded(
    monkeypatch: pytest.MonkeyPatch, number: int, whole: bool, fits: bool, held: int
) -> None:
    monkeypatch.setattr(gathered_rows, "MOST_BYTES", 10 * WIDTH)
    rows, batches = Rows(), large_rows(number)
    assert gather(rows, batches, 1000, 4 * WIDTH, whole=whole) is fits
    assert rows.rows == held
    assert rows.bytes <= 11 * WIDTH
    assert len(list(batches)) == number - held, "no more are taken"


def test_what_the_tail_takes_may_be_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered_rows, "MOST_BYTES", 2 * WIDTH)
    assert gather(Rows(), large_rows(7), 1000, 8 * WIDTH, whole=True)


@pytest.mark.parametrize("whole", [False, True])
def test_rows_are_bounded(whole: bool) -> None:
    rows = Rows()
    assert not gather(rows, large_rows(9), 5, 1 << 40, whole=whole)
    assert rows.rows == 6
