"""Write row versions as one immutable segment: staged, sorted by key, then moved into place."""

import pyarrow as pa

from catalog.model import JournalTable, Segment, SegmentKind
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.executor import RunningStatement


class SegmentWriter:
    """Sink for record batches in storage layout; becomes one segment or nothing."""

    def __init__(
        self,
        engine: SparkEngine,
        table: JournalTable,
        kind: SegmentKind = SegmentKind.DELTA,
    ) -> None:
        raise NotImplementedError

    def write(self, batch: pa.RecordBatch) -> None:
        """Stage row versions: storage names, version_number, subsequent_version_number,
        row_identity for tables without key."""
        raise NotImplementedError

    def finish(self, statement: RunningStatement) -> Segment | None:
        """Sort, write, sync and move into place; None when no row was written."""
        raise NotImplementedError

    def abort(self) -> None:
        """Remove everything written; harmless after finish() or a second time."""
        raise NotImplementedError
