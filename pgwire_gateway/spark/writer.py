"""Write row versions as immutable segments: staged, sorted by key, then moved into place.

Few are held in memory and written in this process; Spark sorts what is more.
"""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.model import JournalTable, Segment, SegmentKind
from pgwire_gateway.spark.api import Reading
from pgwire_gateway.spark.conservation import require_all
from pgwire_gateway.spark.divided_files import Output, partitioning_for
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.errors import storage_failures, translate
from pgwire_gateway.spark.executor import RunningStatement, failures
from pgwire_gateway.spark.layouts import Layout
from pgwire_gateway.spark.row_sizes import require_sizes
from pgwire_gateway.spark.small_files import MAX_BYTES
from pgwire_gateway.spark.sorting import Volume
from pgwire_gateway.spark.staging import StagedSegment
from pgwire_gateway.wire_types.versions import storage_schema


class SegmentWriter:
    """Sink for record batches in the columns of relations; becomes one segment or nothing.

    Of the base of a divided table it becomes one for each partition.

    Columns are ``c{attnum}`` of every live column, ``version_number``,
    ``subsequent_version_number`` and, for tables without key, ``row_identity``.
    """

    def __init__(
        self,
        engine: SparkEngine,
        table: JournalTable,
        kind: SegmentKind = SegmentKind.DELTA,
    ) -> None:
        self._engine = engine
        self._table = table
        self._kind = kind
        self._layout = Layout.of(table)
        self._warehouse = engine.warehouse
        self._held: list[pa.Table] = []
        self._staged: StagedSegment | None = None
        self._sink: pq.ParquetWriter | None = None
        self._schema: pa.Schema | None = None
        self._rows = 0
        self._value_bytes = 0
        self._installed: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Take row versions; those that are too many to be held are staged.

        Raises:
            GatewayError: 54000 for a row that is too large, 53100 when the disk is full, 58030 for
                other failures of storage.
        """
        if not batch.num_rows:
            return
        require_sizes(self._table, batch)
        table = pa.Table.from_batches([batch]).select(list(self._layout.names))
        self._held.append(table)
        self._rows += batch.num_rows
        self._value_bytes += table.nbytes
        if self._value_bytes <= MAX_BYTES:
            return
        held, self._held = self._held, []
        try:
            for part in held:
                self._stage(part)
        except OSError as error:
            raise translate(error) from error

    def finish(self, statement: RunningStatement) -> tuple[Segment, ...]:
        """Sort, write, sync and move into place; no row makes no segment.

        A base is a segment for each partition where its table is divided.

        Raises:
            GatewayError: 57014 when cancelled, 53100 when the disk is full, 58030 for other
                failures of storage; nothing is left then but for abort() to remove.
        """
        if self._held:
            return self._finish_held(statement)
        if self._sink is None or self._staged is None:
            return ()
        volume = Volume(self._rows, self._value_bytes)
        staged = self._staged
        self._sink.close()
        self._sink = None
        session = self._engine.sessions(statement.check).large
        driver = session.driver
        with failures(self._engine, driver, statement):
            group = statement.begin(driver)
            session.enter(group)
            ddl = self._layout.relation_ddl()
            frame = session.read(Reading("parquet", (str(staged.incoming),), ddl=ddl))
            partitioning = partitioning_for(frame, self._table, self._kind)
            output = replace(self._output(staged, volume), partitioning=partitioning)
            output.write(driver, frame)
            statement.end(group)
            statement.check()
            segments = output.install(statement)
        return self._kept(segments)

    def _finish_held(self, statement: RunningStatement) -> tuple[Segment, ...]:
        statement.check()
        with storage_failures():
            schema = storage_schema(self._table)
            rows = pa.concat_tables([table.cast(schema) for table in self._held])
            staged = self._staged = self._warehouse.staging.begin()
            segments = self._output(staged, Volume(rows.num_rows, rows.nbytes)).write_held(rows)
        return self._kept(segments)

    def _kept(self, segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
        self._installed = [segment.path for segment in segments]
        require_all(self._table, self._rows, segments)
        return segments

    def _output(self, staged: StagedSegment, volume: Volume) -> Output:
        return Output(self._warehouse, self._table, self._kind, staged, volume)

    def abort(self) -> None:
        """Remove everything written, the finished segment included; harmless a second time."""
        self._held = []
        sink, self._sink = self._sink, None
        if sink is not None:
            with suppress(OSError, pa.ArrowException):
                sink.close()
        if self._staged is not None:
            self._staged.discard()
            self._staged = None
        installed, self._installed = self._installed, []
        for path in installed:
            self._warehouse.remove(path)

    def _stage(self, table: pa.Table) -> None:
        sink = self._sink or self._open(table.schema)
        sink.write_table(table if table.schema == self._schema else table.cast(self._schema))

    def _open(self, schema: pa.Schema) -> pq.ParquetWriter:
        self._staged = self._warehouse.staging.begin()
        self._schema = schema
        self._sink = pq.ParquetWriter(
            Path(self._staged.incoming) / "rows.parquet",
            schema,
            compression="lz4",
            use_dictionary=False,
            write_statistics=False,
        )
        return self._sink
