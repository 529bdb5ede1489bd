"""Extracts hold so many rows, and so many bytes, and no batch more is taken."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from pgwire_gateway.config import Config
from pgwire_gateway.dml.extract_bounds import ExtractCount, ExtractSize, ExtractTooLargeError

WIDTH = 100_000


def batches(number: int, width: int = WIDTH) -> Iterator[pa.RecordBatch]:
    """Yield batches of two rows."""
    for _ in range(number):
        yield pa.record_batch({"v": ["x" * width] * 2})


def size(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes)


@pytest.mark.parametrize(
    ("most", "message"),
    [
        (ExtractSize(rows=1_000, bytes=1_000_000), "more than 1000000 bytes"),
        (ExtractSize(rows=9, bytes=1 << 40), "more than 9 rows"),
    ],
)
def test_a_batch_too_many_is_not_yielded(most: ExtractSize, message: str) -> None:
    count, source = ExtractCount(most), batches(500)
    taken = []
    with pytest.raises(ExtractTooLargeError, match=message):
        taken.extend(count.counted(source))
    assert len(taken) <= 4
    held = []
    again = ExtractCount(most).counted(batches(500))
    with pytest.raises(ExtractTooLargeError):
        held.extend(size(batch) for batch in again)
    assert sum(held) <= most.bytes
    assert len(list(source)) == 495, "no more are computed than the one that is too much"


def test_extracts_count_together() -> None:
    count = ExtractCount(ExtractSize(rows=1_000, bytes=1_000_000))
    assert len(list(count.counted(batches(3)))) == 3
    before = count.size
    with pytest.raises(ExtractTooLargeError):
        list(count.counted(batches(3)))
    # One that is given up counts no more.
    count.size = before
    assert len(list(count.counted(batches(1)))) == 1


def test_without_a_bound_all_are_yielded() -> None:
    count = ExtractCount()
    assert len(list(count.counted(batches(30)))) == 30
    assert count.size.rows == 60
    assert count.size.bytes >= 60 * WIDTH


def test_an_operator_decides() -> None:
    assert ExtractSize.most(Config()) == ExtractSize(1_000_000, 1 << 30)
    most = ExtractSize.most(Config(extract_rows=7, extract_bytes=8))
    assert most == ExtractSize(7, 8)
