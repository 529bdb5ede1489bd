"""INSERT: PostgreSQL evaluates, completes and checks the rows; the journal gets them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from typing import Any

from catalog.api import ResidentBounds
from catalog.bookkeeping import tail
from catalog.errors import GatewayError, HotRowsError, OutdatedPlanError
from catalog.model import JournalTable
from catalog.session import names, residency, session_state
from pgwire_gateway.dml import reads, temporary_rows, thawed_reads, unlocked_changes
from pgwire_gateway.hot import announcements, hot_rows, insert_sizes
from pgwire_gateway.hot.announcements import NotHotError
from pgwire_gateway.planning import router
from pgwire_gateway.rows.journal_writes import JournalWriter, begin_load
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.old_snapshots import before_running
from pgwire_gateway.session.portals import NoRows, StatementResult, format_codes
from pgwire_gateway.session.results import CatalogRows, SparkRows, field_descriptions
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.session.transactions import IN_TRANSACTION
from pgwire_gateway.spark.batches import Batches
from pgwire_gateway.spark.spools import Spool
from pgwire_gateway.wire_types.copy_encoder import CopyEncoder, CopyOptions
from pgwire_gateway.wire_types.row_encoder import ResultColumn
from rewrite import pipeline
from rewrite.command import target_relation
from rewrite.context import ParameterValue
from rewrite.errors import UnsupportedError
from rewrite.results import SparkQuery
from rewrite.returning import returning_query


def insert(call: Invocation) -> StatementResult:
    """Run an INSERT whose rows PostgreSQL can evaluate; all is written when this returns.

    Raises:
        GatewayError: PostgreSQL's own errors, and 23505 for a key the journal holds already.
    """
    if call.plan.is_external:
        return _insert_locked(call, cools=True)
    # Where the table cannot be locked any more, many rows are inserted as few are.
    is_new = call.target in call.session.transaction.newly_hot
    is_small, cools = is_new or insert_sizes.is_small(call), False
    for _ in range(announcements.ATTEMPTS):
        try:
            try:
                if is_small:
                    return hot_rows.insert(call)
                in_block = call.session.transaction.status == IN_TRANSACTION
                if in_block and announcements.is_warm(call):
                    _lock(call)
            except NotHotError as reason:
                if reason.by_snapshot:
                    _lock(call)
                cools = reason.is_full or reason.is_changed
            return _insert_locked(call, cools=cools or not is_small)
        except HotRowsError:
            call.session.transaction.settle()
            announcements.note_warm(call)
    raise OutdatedPlanError("rows become hot, and cold, faster than can be followed")


def insert_many(call: Invocation) -> StatementResult:
    """Run an INSERT as `insert` does, on a table that is locked as a whole.

    Raises:
        GatewayError: As of `insert`.
    """
    if session_state.keeps_snapshot(call.session.catalog):
        _lock(call)
    return _insert_locked(call, cools=True)


def _lock(call: Invocation) -> None:
    """Lock the table for a transaction whose snapshot may be older than its hot rows."""
    call.session.transaction.expect_implicit()
    call.session.transaction.written.add(call.target)
    with before_running():
        call.session.catalog.writes.begin_write([call.target], command="INSERT")


def _insert_locked(call: Invocation, *, cools: bool) -> StatementResult:
    """Run an INSERT on a table that is locked for it."""
    session = call.session
    session.transaction.expect_implicit()
    writer = JournalWriter(session, call.target, call.running)
    result, receipt = session.catalog.writes.insert_small(
        call.target,
        call.plan.prepared or call.statement.text,
        call.values,
        parameter_oids=call.parameter_oids,
        formats=call.formats,
        result_format=call.catalog_format,
        inline_rows=call.services.config.inline_rows,
        inline_bytes=call.services.config.inline_bytes,
        prepared=bool(call.plan.prepared),
        named=router.named(call.statement),
        basis=call.plan.basis,
        cools=cools,
    )
    if not call.plan.pruned:  # else some may be in resident partitions
        tail.require_all(result, receipt)
    writer.settle(receipt)
    tag = result.command_tag or f"INSERT 0 {receipt.count}"
    if call.columns is None:
        return StatementResult(None, NoRows(), lambda _: tag)
    columns = field_descriptions(call.columns, call.result_formats)
    types = [column.type_oid for column in call.columns]
    codes = format_codes(call.result_formats, len(types))
    returned = CatalogRows(result.rows, types, codes, are_held=True, encoding=session.encoding)
    return StatementResult(columns, returned, lambda taken: f"INSERT 0 {taken}")


def insert_query(call: Invocation) -> StatementResult:
    """Run an INSERT whose rows come from journaled tables, through COPY into the catalog table.

    Where Spark cannot compute them PostgreSQL does, if those that it reads for that are few.

    Raises:
        GatewayError: PostgreSQL's own errors for rows it refuses; 0A000 for what neither computes.
    """
    session = call.session
    bound = binding.bind(call)
    observer = Observer(session)
    try:
        is_unlocked = unlocked_changes.applies(call)
        if is_unlocked:
            _load_unlocked(call, bound)
        elif not call.plan.is_external and not call.plan.temporary:
            # Once the table is locked as a whole no rows of it can be hot.
            _require_computable(call, bound)
    except UnsupportedError as refused:
        return thawed_reads.insert(call, refused)
    if not is_unlocked:
        _, observation = observer.observe_for_write(call.plan)
        require_returnable(call, observation, bound)
        _load(call, observation, bound)
    writer = JournalWriter(session, call.target, call.running)
    receipt = session.catalog.journals.capture(call.target, *call.inline)
    segments = writer.settle(receipt)
    if call.columns is None:
        return StatementResult(None, NoRows(), lambda _: f"INSERT 0 {receipt.count}")
    written = observer.observe([call.target]).only_written(call.target, receipt.version, segments)
    with _nothing_else():
        returning = _returning(call, written, bound)
        rows = SparkRows(
            observer.run(returning, written, call.running),
            reads.encoder(session, returning.columns, call.result_formats),
        )
    columns = field_descriptions(call.columns, call.result_formats)
    return StatementResult(columns, rows, lambda taken: f"INSERT 0 {taken}")


def fill(call: Invocation) -> StatementResult:
    """Run an INSERT of rows of journaled tables into a table of PostgreSQL.

    Many rows for an empty table that may become tiered go to files at once.

    Raises:
        GatewayError: PostgreSQL's own errors for rows it refuses.
    """
    session, catalog = call.session, call.session.catalog
    bound = binding.bind(call)
    session.transaction.begin_implicit()
    observer = Observer(session)
    observation = observer.observe(call.plan.tables, call.plan)
    relid = target_relation(call.query)
    with source(call, observation, bound) as (query, batches):
        columns = [column.name for column in query.columns]
        first, is_large = _first(call.services.catalog.bounds, batches)
        # Few rows, which is most often so, take no trip to the catalog for this.
        is_loadable = is_large and residency.is_loadable(catalog, relid)
        is_load = is_loadable and begin_load(session, relid, "INSERT")
        rows = copy(session, query, chain(first, batches), call.plan.filled, columns)
    if is_load:
        receipt = catalog.journals.capture(relid, *call.inline)
        JournalWriter(session, relid, call.running).settle(receipt)
    return StatementResult(None, NoRows(), lambda _: f"INSERT 0 {rows}")


def _first(bounds: ResidentBounds, batches: Iterable[Any]) -> tuple[list[Any], bool]:
    """Take batches until they are more than a resident table may hold; tell whether they are."""
    taken: list[Any] = []
    rows = size = 0
    for batch in batches:
        taken.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows > bounds.rows or size > bounds.bytes:
            return taken, True
    return taken, False


@contextmanager
def source(
    call: Invocation, observation: Observation, bound: tuple[ParameterValue, ...]
) -> Iterator[tuple[SparkQuery, Batches]]:
    """Compile what yields the rows of an INSERT, and have it computed.

    Raises:
        UnsupportedError: Spark has no counterpart of something in it.
    """
    observer = Observer(call.session)
    context = observer.context(call.plan, observation, bound)
    with ExitStack() as ends:
        observation, context = temporary_rows.brought(call, observation, context, ends)
        query = pipeline.compile_insert_source(call.query, context)
        yield query, ends.enter_context(observer.run(query, observation, call.running))


def _require_computable(call: Invocation, bound: tuple[ParameterValue, ...]) -> None:
    """Refuse an INSERT, which reads no temporary tables, whose rows Spark cannot compute.

    Raises:
        UnsupportedError: Spark has no counterpart of something in it.
    """
    observer = Observer(call.session)
    observation = observer.observe(call.plan.tables, call.plan)
    pipeline.compile_insert_source(call.query, observer.context(call.plan, observation, bound))
    require_returnable(call, observation, bound)


def require_returnable(
    call: Invocation, observation: Observation, bound: tuple[ParameterValue, ...]
) -> None:
    """Refuse an INSERT whose RETURNING Spark cannot compute, before anything is written.

    Raises:
        UnsupportedError: Spark has no counterpart of something in it.
    """
    if call.columns is not None:
        _returning(call, observation, bound)


def _returning(
    call: Invocation, observation: Observation, bound: tuple[ParameterValue, ...]
) -> SparkQuery:
    context = Observer(call.session).context(call.plan, observation, bound)
    return pipeline.compile_query(returning_query(call.query), context)


@contextmanager
def _nothing_else() -> Iterator[None]:
    """Have what is refused once rows are written fail the statement, with nothing tried instead."""
    try:
        yield
    except UnsupportedError as error:
        raise GatewayError(
            error.message, sqlstate=error.sqlstate, detail=error.detail, hint=error.hint
        ) from error


def _load_unlocked(call: Invocation, bound: tuple[ParameterValue, ...]) -> None:
    """Read the rows of an INSERT, lock the table, and copy them into its catalog table.

    What others have written meanwhile is not read: the statement began before.
    """
    observer = Observer(call.session)
    observation = observer.observe(call.plan.tables, call.plan)
    require_returnable(call, observation, bound)
    table = observation.result.snapshots[call.target].table
    with closing(Spool(call.services.warehouse, table)) as spool:
        with source(call, observation, bound) as (query, batches):
            for batch in batches:
                spool.add(batch)
        observer.observe_for_write(call.plan)
        _copy_source(call, table, query, spool.batches())


def _load(call: Invocation, observation: Observation, bound: tuple[ParameterValue, ...]) -> None:
    """Copy the rows an INSERT reads into its catalog table, which is locked."""
    table = observation.result.snapshots[call.target].table
    with source(call, observation, bound) as (query, batches):
        _copy_source(call, table, query, batches)


def _copy_source(
    call: Invocation, table: JournalTable, query: SparkQuery, batches: Iterable[Any]
) -> None:
    columns = [column.name for column in query.columns]
    copy(call.session, query, batches, names.quoted(table.schema, table.name), columns)


def copy(
    session: ClientSession,
    query: SparkQuery,
    batches: Iterable[Any],
    table: str,
    columns: Sequence[str],
) -> int:
    """Copy the rows of a query into columns of a catalog table, given as SQL; count them.

    Raises:
        GatewayError: PostgreSQL's own errors for rows it refuses.
    """
    encoded = reads.wire_columns(query.columns, [0] * len(columns))
    return copy_columns(session, encoded, batches, table, columns)


def copy_columns(
    session: ClientSession,
    encoded: Sequence[ResultColumn],
    batches: Iterable[Any],
    table: str,
    columns: Sequence[str],
) -> int:
    """Copy columns of batches into columns of a catalog table, given as SQL; count the rows.

    Raises:
        GatewayError: PostgreSQL's own errors for rows it refuses.
    """
    encoder = CopyEncoder(encoded, columns, CopyOptions(), reads.ISO_SETTINGS)
    lines = (data for batch in batches for data in encoder.lines(batch))
    tag = names.load(session.catalog, table, columns, lines)
    return int(tag.rpartition(" ")[2])
