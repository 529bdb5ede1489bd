"""Tables and files as plain Parquet files: a directory that appears when all are there."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from catalog.errors import GatewayError
from catalog.extensions.convert import Files, Table
from catalog.pg import sqlstate as codes
from pgwire_gateway.files.allowed_paths import require_privilege
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.progress import ProgressReport
from pgwire_gateway.session.transactions import IDLE
from pgwire_gateway.spark.errors import storage_failures
from pgwire_gateway.spark.file_loads import FileLoad
from pgwire_gateway.spark.staging import Staging
from pgwire_gateway.spark.warehouse import synchronise
from pgwire_gateway.tables.loads import started
from pgwire_gateway.tables.source_files import allowed, file_source, reading
from pgwire_gateway.wire_types.plain_columns import plain_batch, plain_schema

ROWS_PER_FILE = 2_000_000


def export(
    call: Invocation,
    progress: ProgressReport,
    target: Files,
    source: Table | Files,
    form: str | None,
) -> int:
    """Write the files, and return the number of rows in them.

    Args:
        call: The statement.
        progress: Is told how far it is.
        target: Where a directory of files is to be; nothing may be there.
        source: What is read.
        form: Format of the files that are read; None to go by their names.

    Raises:
        GatewayError: 25001 inside a transaction block, which could not undo it; 42501, 58P01 and
            58P02 for the paths, 22P04 for files that cannot be read, 53100 when the disk is full.
        UnsupportedError: 0A000 for relations without journal.
    """
    session = call.session
    if session.transaction.status != IDLE or not call.alone:
        raise GatewayError(
            "CONVERT to a path cannot run inside a transaction block",
            sqlstate=codes.ACTIVE_SQL_TRANSACTION,
        )
    require_privilege(session.catalog)
    place = allowed(session).new(target.path)
    if isinstance(source, Files):
        found = file_source(session, source, form)
        load = FileLoad(session.services.engine, found, call.running)
        progress.begin("writing files")
        with (
            _appearing(place, call.services.warehouse.staging) as directory,
            reading(source, form or "what its names say"),
        ):
            return load.export(directory)
    with _appearing(place, call.services.warehouse.staging) as directory:
        return _export_table(call, progress, source, directory)


def _export_table(
    call: Invocation, progress: ProgressReport, source: Table, directory: Path
) -> int:
    session = call.session
    session.transaction.begin_implicit()
    # Spark reads the journals of resident tables, too.
    for _ in session.catalog.execute("SET LOCAL gateway.executor = 'spark'").rows:
        pass
    query, batches = started(call, source)
    schema = plain_schema(query.columns)
    files = _NumberedFiles(directory)
    progress.begin("writing files")
    with batches, storage_failures():
        try:
            sink = files.next(schema)
            for batch in batches:
                call.running.check()
                if files.is_full:
                    sink = files.next(schema)
                sink.write_batch(plain_batch(batch, query.columns))
                files.rows_in_file += batch.num_rows
                files.rows += batch.num_rows
                progress.add_written(batch.num_rows)
        finally:
            files.close()
    return files.rows


class _NumberedFiles:
    """Parquet files of a directory, filled one after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._sink: pq.ParquetWriter | None = None
        self._number = 0
        self.rows = 0
        self.rows_in_file = 0

    @property
    def is_full(self) -> bool:
        """Whether the next rows belong in another file."""
        return self.rows_in_file >= ROWS_PER_FILE

    def next(self, schema: object) -> pq.ParquetWriter:
        """Begin another file."""
        self.close()
        path = self._directory / f"part-{self._number:05}.parquet"
        self._sink = pq.ParquetWriter(path, schema, compression="zstd")
        self._number += 1
        self.rows_in_file = 0
        return self._sink

    def close(self) -> None:
        """Finish the file, if there is one; harmless a second time."""
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close()


@contextmanager
def _appearing(place: Path, staging: Staging) -> Iterator[Path]:
    """Yield a directory that gets its name, durably, when all went well, and goes otherwise."""
    with ExitStack() as ends:
        with storage_failures():
            hidden = ends.enter_context(staging.outside(place.parent, f".{place.name}."))
            hidden.mkdir()
        yield hidden
        with storage_failures():
            for file in sorted(hidden.iterdir()):
                synchronise(file)
            synchronise(hidden)
            hidden.rename(place)
            synchronise(place.parent)
