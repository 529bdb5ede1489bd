"""Scans of base segments: the rows Spark would give, bounded, ended early, never half."""

import threading

import pytest

from catalog.errors import GatewayError
from catalog.model import SegmentKind
from pgwire_gateway.spark.scans import FileScan, file_scan
from rewrite.results import Scan, Source, SourcePart
from tests.support.fix_spark import NAME, Journal

pytestmark = pytest.mark.spark

ROWS = [(number, f"row {number}" if number % 3 else None) for number in range(1, 5001)]


def scan_of(journal: Journal, columns: dict[str, str], batch_rows: int = 1000) -> FileScan | None:
    snapshot = journal.snapshot()
    source = Source(journal.relid, SourcePart.BASE, "")
    relation = journal.relation(source, snapshot)
    return file_scan(Scan(source, columns), relation, journal.relations.warehouse, batch_rows)


def fetch(scan: FileScan | None) -> list[tuple]:
    assert scan is not None
    return [tuple(row.values()) for batch in scan for row in batch.to_pylist()]


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "file scan"]


def test_a_scan_yields_the_rows_of_all_base_segments(journal: Journal) -> None:
    journal.write(journal.rows(*ROWS[:3000]), kind=SegmentKind.BASE)
    journal.write(journal.rows(*ROWS[3000:]), kind=SegmentKind.BASE)
    journal.write(journal.rows((9000, "archived")), kind=SegmentKind.ARCHIVE)
    assert sorted(fetch(scan_of(journal, {"o1": "c1", "o2": "c2"}))) == ROWS
    assert fetch(scan_of(journal, {"a": "c2", "b": "c1", "c": "c2"}))[0] == ("row 1", 1, "row 1")


def test_batches_have_the_rows_asked_for_at_most(journal: Journal) -> None:
    journal.write(journal.rows(*ROWS), kind=SegmentKind.BASE)
    scan = scan_of(journal, {"o1": "c1"}, batch_rows=700)
    assert scan is not None
    assert max(batch.num_rows for batch in scan) == 700


def test_a_column_that_is_not_in_the_files_is_left_to_spark(journal: Journal) -> None:
    journal.columns = journal.columns[:1]
    journal.write(journal.rows((1,)), kind=SegmentKind.BASE)
    journal.columns = (*journal.columns, NAME)
    assert scan_of(journal, {"o1": "c1", "o2": "c2"}) is None
    assert fetch(scan_of(journal, {"o1": "c1"})) == [(1,)]


def test_closing_ends_the_thread_that_reads_ahead(journal: Journal) -> None:
    journal.write(journal.rows(*ROWS), kind=SegmentKind.BASE)
    scan = scan_of(journal, {"o1": "c1"}, batch_rows=10)
    assert scan is not None
    assert next(iter(scan)).num_rows == 10
    (thread,) = readers()
    scan.close()
    thread.join(60)
    assert not thread.is_alive()


def test_a_missing_file_is_an_error(journal: Journal) -> None:
    segment = journal.write(journal.rows(*ROWS), kind=SegmentKind.BASE)
    assert segment is not None
    journal.relations.warehouse.remove(segment.path)
    with pytest.raises(GatewayError) as caught:
        scan_of(journal, {"o1": "c1"})
    assert caught.value.sqlstate == "58P01"


def test_a_damaged_file_is_an_error(journal: Journal) -> None:
    segment = journal.write(journal.rows(*ROWS), kind=SegmentKind.BASE)
    assert segment is not None
    (file,) = journal.relations.warehouse.files(journal.relations.warehouse.absolute(segment.path))
    data = bytearray(file.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    file.write_bytes(data)
    with pytest.raises(GatewayError) as caught:
        fetch(scan_of(journal, {"o1": "c1", "o2": "c2"}))
    assert caught.value.sqlstate == "58030"
