"""Rows of files as the base of a new table, written by Spark without passing through PostgreSQL."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from catalog.journal.layout import IDENTITY, SUBSEQUENT, VERSION, column_name
from catalog.model import JournalTable, Segment, SegmentKind
from pgwire_gateway.spark.api import Frame, Session, Writing
from pgwire_gateway.spark.divided_files import Output, partitioning_for
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.executor import RunningStatement, failures
from pgwire_gateway.spark.file_sources import (
    Contents,
    FileSource,
    described,
    examine,
    open_files,
    quoted,
)
from pgwire_gateway.spark.row_sizes import require_size
from pgwire_gateway.spark.sorting import Volume
from pgwire_gateway.spark.source_types import SourceColumn
from pgwire_gateway.spark.staging import StagedSegment
from rewrite.dialect.type_mapping import storage_type

_BLOCKS_PER_TASK = 2
"""Blocks of 2^32 identities that the numbers of one task of Spark take."""


class FileLoad:
    """One reading of files into a table; what it has written is removed by abort()."""

    def __init__(
        self, engine: SparkEngine, source: FileSource, statement: RunningStatement
    ) -> None:
        self._engine = engine
        self._source = source
        self._statement = statement
        self._warehouse = engine.warehouse
        self._frame: Frame | None = None
        self._session: Session | None = None
        self._staged: StagedSegment | None = None
        self._installed: list[str] = []
        self.columns: tuple[SourceColumn, ...] = ()
        """Columns of the files, once they have been opened."""
        self.blocks = 0
        """How many blocks of identities the rows take."""

    def open(self) -> None:
        """Find out which columns the files have.

        Raises:
            GatewayError: 22P04 for files without columns, else what Spark finds wrong with them.
        """
        session = self._session = self._engine.sessions(self._statement.check).large
        with failures(self._engine, session.driver, self._statement):
            group = self._statement.begin(session.driver)
            session.enter(group)
            self._frame = open_files(session, self._source)
            self.columns = described(self._frame, self._source)
            self._statement.end(group)

    def expected_rows(self) -> int | None:
        """Return how many rows there are, where files tell without being read; else None."""
        if self._source.format != "parquet":
            return None
        with storage_failures():
            return sum(int(pq.read_metadata(file).num_rows) for file in self._source.files)

    def examine(self, key: Sequence[str]) -> Contents:
        """Read all rows once; see :func:`pgwire_gateway.spark.file_sources.examine`.

        Args:
            key: Columns that are looked at for NULL.
        """
        session, frame = self._opened()
        with failures(self._engine, session.driver, self._statement):
            group = self._statement.begin(session.driver)
            session.enter(group)
            contents = examine(frame, self._source, self.columns, key)
            self.blocks = _BLOCKS_PER_TASK * max(frame.parts(), 1)
            self._statement.end(group)
        self._statement.check()
        return contents

    def write(
        self, table: JournalTable, contents: Contents, version: int, first_block: int
    ) -> tuple[Segment, ...]:
        """Write all rows, with one version number, as the base of a table; none for no rows.

        Args:
            table: A table whose columns are those of the files, in their order.
            contents: What was found out about the rows.
            version: Version number in microseconds.
            first_block: The first of the blocks of identities, for a table without key.

        Raises:
            GatewayError: 54000 for a row that is too large, 57014 when cancelled, 53100 when the
                disk is full, 58030 for other failures of storage.
        """
        if not contents.rows:
            return ()
        require_size(table, contents.longest)
        session, frame = self._opened()
        driver = session.driver
        volume = Volume(contents.rows, contents.value_bytes)
        with failures(self._engine, driver, self._statement):
            group = self._statement.begin(driver)
            session.enter(group)
            rows = frame.select(self._row_versions(table, version, first_block))
            staged = self._staged = self._warehouse.staging.begin()
            partitioning = partitioning_for(rows, table, SegmentKind.BASE)
            kind = SegmentKind.BASE
            output = Output(self._warehouse, table, kind, staged, volume, partitioning)
            output.write(driver, rows)
            self._statement.end(group)
            self._statement.check()
            segments = output.install(self._statement)
        self._installed = [segment.path for segment in segments]
        return segments

    def export(self, directory: Path) -> int:
        """Write all rows as plain Parquet files into a directory; return their number.

        Raises:
            GatewayError: As for :meth:`open` and :meth:`write`.
        """
        self.open()
        session, frame = self._opened()
        with failures(self._engine, session.driver, self._statement):
            group = self._statement.begin(session.driver)
            session.enter(group)
            options = {"compression": "zstd"}
            frame.write(Writing("parquet", f"file://{directory}", options, appends=True))
            self._statement.end(group)
        self._statement.check()
        rows = 0
        for file in directory.iterdir():
            if file.suffix == ".parquet" and not file.name.startswith((".", "_")):
                rows += pq.read_metadata(file).num_rows
            else:
                file.unlink()
        return rows

    def abort(self) -> None:
        """Remove what has been written; harmless a second time."""
        if self._staged is not None:
            self._staged.discard()
        for path in self._installed:
            self._warehouse.remove(path)

    def _opened(self) -> tuple[Session, Frame]:
        if self._session is None or self._frame is None:
            raise TypeError(self._source)
        return self._session, self._frame

    def _row_versions(self, table: JournalTable, version: int, first_block: int) -> list[str]:
        items = [
            f"CAST({quoted(given.name)} AS {storage_type(column.type_oid, column.typmod)})"
            f" AS {column_name(column.attnum)}"
            for given, column in zip(self.columns, table.columns, strict=True)
        ]
        items += [
            f"timestamp_micros({version}L) AS {VERSION}",
            f"CAST(NULL AS TIMESTAMP) AS {SUBSEQUENT}",
        ]
        if not table.key:
            items.append(f"{first_block << 32}L + monotonically_increasing_id() AS {IDENTITY}")
        return items
