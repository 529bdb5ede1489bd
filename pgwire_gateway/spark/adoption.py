"""Files of others as the base of a table, without being written again."""

from catalog.model import JournalTable, Segment, SegmentKind
from pgwire_gateway.spark.borrowed_files import Borrowed
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.file_inspection import Contents, Inspection
from pgwire_gateway.spark.sorting import key_bounds
from pgwire_gateway.spark.warehouse import Warehouse


def adopted(
    warehouse: Warehouse,
    table: JournalTable,
    inspection: Inspection,
    contents: Contents,
    borrowed: Borrowed,
) -> Segment:
    """Return the segment that files with rows are from now on.

    Args:
        warehouse: Where the list of files goes.
        table: Whose columns are named in files as they are there.
        inspection: The files.
        contents: What was found out about their rows.
        borrowed: The files as they are kept in mind.

    Raises:
        GatewayError: 53100 when the disk is full, 58030 for other failures of storage.
    """
    with storage_failures():
        staged = warehouse.staging.begin()
        try:
            staged.files.mkdir()
            size = contents.value_bytes
            path = warehouse.install(staged, table, SegmentKind.BASE, size, borrowed)
        finally:
            staged.discard()
    keys = key_bounds([footer for _, footer in inspection.files], table)
    return Segment(
        segment_id=0,
        kind=SegmentKind.BASE,
        path=path,
        rows=inspection.rows,
        size_bytes=sum(file.size for file, _ in inspection.files),
        attnums=tuple(column.attnum for column in table.columns),
        min_version=borrowed.version,
        max_version=borrowed.version,
        key_min=min(keys) if keys else None,
        key_max=max(keys) if keys else None,
    )
