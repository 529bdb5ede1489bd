"""A new table from files or from another table, written as the base of its journal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from catalog.errors import GatewayError
from catalog.extensions.convert import Files, Table
from catalog.extensions.partition_fields import PartitionField
from catalog.journal.layout import IDENTITY, column_name
from catalog.model import JournalTable, SegmentKind
from catalog.pg import sqlstate as codes
from catalog.results import RelationKind
from catalog.session import names, residency
from catalog.statements.splitting import RelationName, split
from pgwire_gateway.dml import reads
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.rows.journal_writes import JournalWriter, begin_new
from pgwire_gateway.session import replanning
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.session.progress import ProgressReport
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.batches import Batches
from pgwire_gateway.spark.file_loads import FileLoad
from pgwire_gateway.spark.file_sources import Contents
from pgwire_gateway.tables import divisions
from pgwire_gateway.tables.source_files import file_source, reading
from pgwire_gateway.wire_types.catalog_rows import row_versions
from pgwire_gateway.wire_types.storage import conform
from rewrite.errors import UnsupportedError
from rewrite.results import OutputColumn, SparkQuery


@dataclass(frozen=True, slots=True)
class Load:
    """One statement that makes a table; its rows do not pass through PostgreSQL one by one."""

    call: Invocation
    run: Callable[[str], StatementResult]
    """Runs another statement as part of it."""
    progress: ProgressReport
    target: Table
    key: tuple[str, ...]
    """Columns of the primary key; none for a hidden identity."""
    key_position: int | None = None
    """Where the key stands in the statement."""
    deed: str = "CONVERT to"
    """What the statement does, as errors call it."""
    partitioned_by: tuple[PartitionField, ...] = ()
    """What the table is divided by."""

    @property
    def name(self) -> RelationName:
        """The table's name."""
        return RelationName(*self.target.relation)

    @property
    def session(self) -> ClientSession:
        """Whose statement it is."""
        return self.call.session

    @property
    def _key_sql(self) -> str:
        return f"PRIMARY KEY ({', '.join(map(names.quoted, self.key))})"

    def from_files(self, source: Files, form: str | None) -> int:
        """Make the table of files, and return the number of its rows.

        Args:
            source: Where the files are.
            form: Their format; None to go by their names.

        Raises:
            GatewayError: 42501, 58P01, 22P04 for the files, 23502 and 23505 for the key,
                PostgreSQL's own errors for the table.
            UnsupportedError: 0A000 for columns without counterpart.
        """
        self.session.transaction.begin_implicit()
        found = file_source(self.session, source, form)
        self.require_free()
        load = FileLoad(self.session.services.engine, found, self.call.running)
        self.progress.begin("looking at columns")
        with reading(source, found.format, found.files):
            load.open()
            expected = load.expected_rows()
        given = {column.name: column.postgres_type for column in load.columns}
        self.require_columns(given)
        self.progress.begin("examining rows", rows_total=expected)
        with reading(source, found.format, found.files):
            contents = load.examine(self.key)
        self.create(given)
        self._divide()
        with self.new_table() as (table, version):
            for column in contents.without:
                raise null_key(table, column)
            self.progress.begin("writing rows", rows_total=contents.rows)
            try:
                self._write(load, contents, table, version)
            except BaseException:
                load.abort()
                raise
            self.require_key(table, contents.rows)
        return contents.rows

    def create(self, columns: Mapping[str, str], *, if_not_exists: bool = False) -> StatementResult:
        """Make the table, of columns and their types as SQL."""
        elements = [f"{names.quoted(name)} {kind}" for name, kind in columns.items()]
        elements += [self._key_sql] if self.key else []
        head = f"CREATE TABLE {'IF NOT EXISTS ' if if_not_exists else ''}"
        return self.run(f"{head}{names.qualified(self.name)} ({', '.join(elements)})")

    def from_table(self, source: Table) -> int:
        """Make the table of another one, and return the number of its rows.

        Raises:
            GatewayError: PostgreSQL's own errors for both; 23502 and 23505 for the key.
        """
        self.session.transaction.begin_implicit()
        self.require_free()
        query = f"TABLE {names.qualified(RelationName(*source.relation))}"
        created = f"CREATE TABLE {names.qualified(self.name)} AS {query}"
        keyed = f"ALTER TABLE {names.qualified(self.name)} ADD {self._key_sql}"
        is_small = _whole(self.session, source).route is not Route.READ
        result = self.run(created if is_small else f"{created} WITH NO DATA")
        if self.key:
            self.run(keyed)
        self._divide()
        if is_small:
            return int(result.status().rpartition(" ")[2])
        with self.new_table() as (table, version):
            rows = self._copy(source, table, version)
            self.require_key(table, rows)
        return rows

    def _divide(self) -> None:
        if self.partitioned_by:
            divisions.divide(self.call, self.name, self.partitioned_by)

    def _write(self, load: FileLoad, contents: Contents, table: JournalTable, version: int) -> None:
        catalog = self.session.catalog
        block = 0
        if not table.key:
            block = residency.reserve_identities(catalog, table.relid, load.blocks)
        segments = load.write(table, contents, version, block)
        if sum(segment.rows for segment in segments) != contents.rows:
            raise GatewayError(
                "the files have changed while they were read",
                sqlstate=codes.OBJECT_NOT_IN_PREREQUISITE_STATE,
            )
        if segments:
            catalog.journals.publish(table.relid, version, segments)

    def _copy(self, source: Table, table: JournalTable, version: int) -> int:
        """Write the rows of a tiered table, which has the same columns in the same order."""
        catalog, rows = self.session.catalog, 0
        first = 0
        if not table.key:
            first = residency.reserve_identities(catalog, table.relid, 1) << 32
        # What the query names has been locked by the definition of the table.
        compiled, batches = started(self.call, source)
        self.progress.begin("copying rows")

        def versions() -> Iterator[pa.RecordBatch]:
            nonlocal rows
            for batch in batches:
                stored = _stored(batch, compiled.columns, table, first + rows)
                rows += batch.num_rows
                self.progress.add_read(batch.num_rows)
                yield row_versions(stored, table, version)

        with batches:
            JournalWriter(self.session, table.relid, self.call.running).publish(
                versions(), version, table, SegmentKind.BASE
            )
        return rows

    def require_free(self) -> None:
        """Refuse the name of a relation that exists, before its rows are read (42P07)."""
        names.require_unshadowed(self.session.catalog, self.name)
        (found,) = names.relation_oids(self.session.catalog, [self.name])
        if found and self._is_first_in_path(found):
            raise GatewayError(
                f'relation "{self.name.name}" already exists', sqlstate=codes.DUPLICATE_TABLE
            )

    def _is_first_in_path(self, relid: int) -> bool:
        """Tell whether a relation is where the table would be made."""
        return self.name.schema is not None or names.is_in_current_schema(
            self.session.catalog, relid
        )

    def require_columns(self, given: Mapping[str, str]) -> None:
        """Refuse key columns that the files do not have (42703)."""
        for name in self.key:
            if name not in given:
                similar = next((one for one in given if one.lower() == name.lower()), None)
                raise GatewayError(
                    f'column "{name}" named in key does not exist',
                    sqlstate=codes.UNDEFINED_COLUMN,
                    hint=similar and f'Perhaps you meant the column "{similar}".',
                    position=self.key_position,
                )

    @contextmanager
    def new_table(self) -> Iterator[tuple[JournalTable, int]]:
        """Lock the table that has been made, as a tiered one; remove its files when this fails.

        Yields it with the version number of its rows.
        """
        session, catalog = self.session, self.session.catalog
        relid = names.relation_oid(catalog, self.name)
        if catalog.observations.relations([relid])[relid].kind is RelationKind.RESIDENT and not (
            residency.is_loadable(catalog, relid) and begin_new(self.call, relid, "CONVERT")
        ):
            raise UnsupportedError(
                f'{self.deed} table "{self.name.name}", which has to stay resident,'
                " is not supported",
                hint="It has to where code of the database names it, and in transactions of other"
                " isolation levels than READ COMMITTED.",
            )
        observer = Observer(session)
        requests = observer.requests([relid])
        session.transaction.written.add(relid)
        versions, result = catalog.writes.begin_write([relid], requests, command="CONVERT")
        table = observer.complete(requests, result).result.snapshots[relid].table
        session.transaction.made[relid] = table.location
        try:
            yield table, versions[relid]
        except BaseException:
            session.services.warehouse.remove(table.location)
            raise

    def require_key(self, table: JournalTable, rows: int) -> None:
        """Refuse rows that share a key, or have none (23505, 23502)."""
        numbers = {column.name: column.attnum for column in table.columns}
        key = [numbers[name] for name in self.key] or list(table.key)
        if key:
            self.progress.begin("checking the key", rows_total=rows)
            writer = JournalWriter(self.session, table.relid, self.call.running)
            writer.require_unique(key)


def started(call: Invocation, source: Table) -> tuple[SparkQuery, Batches]:
    """Have Spark begin to read a table, as part of a statement.

    Raises:
        GatewayError: PostgreSQL's own errors, without positions.
        UnsupportedError: 0A000 for relations without journal.
    """

    def run(plan: Plan) -> tuple[SparkQuery, Batches]:
        if plan.route is not Route.READ:
            raise UnsupportedError(
                f'CONVERT of "{source.relation[1]}", which has no journal, is not supported',
                hint="COPY ... TO STDOUT writes its rows.",
            )
        return reads.start(replace(call, plan=plan, values=(), formats=()))

    return replanning.as_defined(lambda: _whole(call.session, source), run)


def _whole(session: ClientSession, source: Table) -> Plan:
    """Return the plan of a query for all rows of a table.

    Raises:
        GatewayError: PostgreSQL's own errors, without positions.
    """
    query = f"TABLE {names.qualified(RelationName(*source.relation))}"
    try:
        return router.plan(session.catalog, split(query)[0], (), "")
    except GatewayError as error:
        error.position = None
        raise


def _stored(
    batch: pa.RecordBatch, given: Sequence[OutputColumn], table: JournalTable, identity: int
) -> pa.RecordBatch:
    """Return rows of a query in storage types, with identities from a number on."""
    columns: dict[str, Any] = {
        column_name(column.attnum): conform(
            batch.column(one.column), column.type_oid, column.typmod
        )
        for one, column in zip(given, table.columns, strict=True)
    }
    if not table.key:
        columns[IDENTITY] = pa.array(range(identity, identity + batch.num_rows), pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def null_key(table: JournalTable, column: str) -> GatewayError:
    """Return the error for a row without value in a column that has to have one."""
    return GatewayError(
        f'column "{column}" of relation "{table.name}" contains null values',
        sqlstate=codes.NOT_NULL_VIOLATION,
        fields={"s": table.schema, "t": table.name, "c": column},
    )
