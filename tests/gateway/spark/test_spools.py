"""Rows that wait: in memory, in a file, and nowhere any more."""

import errno
from pathlib import Path

import pyarrow as pa
import pytest

from catalog.errors import GatewayError
from catalog.model import JournalTable
from pgwire_gateway.spark import spools
from pgwire_gateway.spark.spools import Spool
from pgwire_gateway.spark.warehouse import Warehouse

TABLE = JournalTable(7, "public", "t", (), (), None, 1, "7")


def batch(*values: str) -> pa.RecordBatch:
    return pa.record_batch({"c": list(values)})


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file() and path.suffix != ".lock"]


@pytest.mark.parametrize(("most", "filed"), [(1 << 20, False), (60, True), (0, True)])
def test_batches_come_in_the_order_they_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, filed: bool
) -> None:
    monkeypatch.setattr(spools, "MAX_BYTES", most)
    spool = Spool(Warehouse(str(tmp_path)), TABLE)
    given = [batch(str(number) * 20) for number in range(5)]
    for one in given:
        spool.add(one)
    assert bool(files(tmp_path)) is filed
    assert list(spool.batches()) == given
    spool.close()
    spool.close()
    assert files(tmp_path) == []


@pytest.mark.parametrize("most", [1 << 20, 0])
def test_a_row_that_does_not_come_back_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(spools, "MAX_BYTES", most)
    spool = Spool(Warehouse(str(tmp_path)), TABLE)
    for number in range(3):
        spool.add(batch(str(number)))
    if most:
        spool._held.pop()
    else:
        (file,) = files(tmp_path)
        other = tmp_path / "other"
        with pa.ipc.new_stream(other, batch("0").schema) as stream:
            for number in range(2):
                stream.write_batch(batch(str(number)))
        other.replace(file)
    with pytest.raises(GatewayError, match='2 of 3 rows for table "t" came back') as caught:
        list(spool.batches())
    assert caught.value.sqlstate == "XX001"
    spool.close()


def test_no_batches_are_none(tmp_path: Path) -> None:
    spool = Spool(Warehouse(str(tmp_path)), TABLE)
    assert list(spool.batches()) == []
    spool.close()


def test_a_file_that_is_lost_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "MAX_BYTES", 0)
    spool = Spool(Warehouse(str(tmp_path)), TABLE)
    spool.add(batch("a"))
    for file in files(tmp_path):
        file.unlink()
    with pytest.raises(GatewayError) as caught:
        list(spool.batches())
    assert caught.value.sqlstate == "58P01"


def test_a_file_that_cannot_be_closed_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "MAX_BYTES", 0)

    class Full(pa.ipc.RecordBatchStreamWriter):
        def close(self) -> None:
            super().close()
            raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(pa.ipc, "new_stream", lambda *said, options: Full(*said, options=options))
    spool = Spool(Warehouse(str(tmp_path)), TABLE)
    spool.add(batch("a"))
    with pytest.raises(GatewayError) as caught:
        spool.close()
    assert caught.value.sqlstate == "53100"
    assert files(tmp_path) == []
