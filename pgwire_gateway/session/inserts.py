"""INSERT: PostgreSQL evaluates, completes and checks the rows; the journal gets them."""

from collections.abc import Sequence

from catalog.results import ResultColumn
from pgwire_gateway.session import reads
from pgwire_gateway.session.journal_writes import JournalWriter
from pgwire_gateway.session.observation import Observer
from pgwire_gateway.session.plans import Plan
from pgwire_gateway.session.portals import NoRows, StatementResult, format_codes
from pgwire_gateway.session.results import CatalogRows, field_descriptions
from pgwire_gateway.session.services import Services
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.executor import RunningStatement
from pgwire_gateway.wire_types.copy_encoder import CopyEncoder, CopyOptions
from rewrite import pipeline
from rewrite.context import ParameterValue


def insert(
    session: ClientSession,
    services: Services,
    plan: Plan,
    values: Sequence[bytes | None],
    formats: Sequence[int],
    result_formats: Sequence[int],
    statement: RunningStatement,
) -> StatementResult:
    """Run an INSERT whose rows PostgreSQL can evaluate; all is written when this returns.

    Raises:
        GatewayError: PostgreSQL's own errors, and 23505 for a key the journal holds already.
    """
    assert plan.analysis is not None
    assert plan.target is not None
    columns = plan.analysis.columns
    codes = set(format_codes(result_formats, len(columns or ())))
    session.transaction.expect_implicit()
    writer = JournalWriter(session, services, plan.target, statement)
    rows, result, receipt = session.catalog.insert_small(
        plan.target,
        plan.prepared or plan.statement.text,
        values,
        parameter_oids=plan.analysis.parameter_oids,
        formats=formats,
        result_format=codes.pop() if len(codes) == 1 else 0,
        inline_rows=services.config.inline_rows,
        prepared=bool(plan.prepared),
    )
    writer.settle(receipt)
    tag = result.command_tag or f"INSERT 0 {receipt.count}"
    if columns is None:
        return StatementResult(None, NoRows(), lambda _: tag)
    return StatementResult(
        field_descriptions(columns, result_formats), CatalogRows(rows), lambda _: tag
    )


def insert_query(
    session: ClientSession,
    services: Services,
    plan: Plan,
    bound: tuple[ParameterValue, ...],
    result_formats: Sequence[int],
    statement: RunningStatement,
) -> StatementResult:
    """Run an INSERT whose rows come from journaled tables, through COPY into the catalog table.

    Raises:
        GatewayError: 0A000 for RETURNING; PostgreSQL's own errors for rows it refuses.
    """
    assert plan.query is not None
    assert plan.target is not None
    columns = plan.analysis.columns if plan.analysis else None
    observer = Observer(session, services)
    requests = observer.requests(plan.tables)
    session.transaction.expect_implicit()
    writer = JournalWriter(session, services, plan.target, statement)
    _, result = session.catalog.begin_write([plan.target], requests, check=plan.statement.text)
    observation = observer.complete(requests, result)
    query, attnums = pipeline.compile_insert_source(
        plan.query, observer.context(plan, observation, bound)
    )
    table = observation.result.snapshots[plan.target].table
    encoder = CopyEncoder(
        reads.wire_columns(query.columns, [0] * len(query.columns)),
        [column.name for column in query.columns],
        CopyOptions(),
        reads.ISO_SETTINGS,
    )
    with observer.run(query, observation, statement) as batches:
        session.catalog.load(
            table,
            attnums,
            (data for batch in batches for data in encoder.data(batch)),
        )
    receipt = session.catalog.capture(plan.target, services.config.inline_rows)
    writer.settle(receipt)
    tag = f"INSERT 0 {receipt.count}"
    _ = columns, result_formats
    return StatementResult(None, NoRows(), lambda _: tag)


_ = ResultColumn
