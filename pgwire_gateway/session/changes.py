"""UPDATE and DELETE: Spark finds the rows and computes their new versions, the journal gets them."""

from collections.abc import Sequence

from pgwire_gateway.session.journal_writes import JournalWriter
from pgwire_gateway.session.observation import Observer
from pgwire_gateway.session.plans import Plan
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.session.reads import encoder
from pgwire_gateway.session.results import BatchRows, field_descriptions
from pgwire_gateway.session.services import Services
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.executor import Batches, RunningStatement
from pgwire_gateway.wire_types.changed_rows import ChangedRows
from rewrite import pipeline
from rewrite.context import ParameterValue
from rewrite.results import RowChange


def change(
    session: ClientSession,
    services: Services,
    plan: Plan,
    bound: tuple[ParameterValue, ...],
    result_formats: Sequence[int],
    statement: RunningStatement,
) -> StatementResult:
    """Run an UPDATE or DELETE; everything is written when this returns, nothing is committed.

    Raises:
        GatewayError: 23502, 23505, 23514 for rows that violate a constraint, 40001 when the table
            changed since the snapshot of a REPEATABLE READ transaction.
    """
    assert plan.query is not None
    assert plan.target is not None
    observer = Observer(session, services)
    requests = observer.requests(plan.tables)
    session.transaction.expect_implicit()
    writer = JournalWriter(session, services, plan.target, statement)
    versions, result = session.catalog.begin_write(
        [plan.target], requests, check=plan.statement.text
    )
    version = versions[plan.target]
    observation = observer.complete(requests, result)
    context = observer.context(plan, observation, bound)
    updates = plan.query.integer("commandType") == pipeline.CMD_UPDATE
    compiled = (pipeline.compile_update if updates else pipeline.compile_delete)(
        plan.query, context
    )
    table = observation.result.snapshots[plan.target].table
    rows = ChangedRows(table, compiled, context.checks.get(plan.target, ()))
    with observer.run(compiled.query, observation, statement) as batches:
        _write(session, services, writer, compiled, rows, batches, version)
    tag = f"{'UPDATE' if updates else 'DELETE'} {rows.rows}"
    if plan.analysis is None or plan.analysis.columns is None:
        return StatementResult(None, NoRows(), lambda _: tag)
    encode = encoder(session, compiled.returning, result_formats)
    return StatementResult(
        field_descriptions(plan.analysis.columns, result_formats),
        BatchRows(rows.returning, encode),
        lambda _: tag,
    )


def _write(  # noqa: PLR0913 - a stage of one statement, not an interface
    session: ClientSession,
    services: Services,
    writer: JournalWriter,
    compiled: RowChange,
    rows: ChangedRows,
    batches: Batches,
    version: int,
) -> None:
    iterator = iter(batches)
    limit = services.config.inline_rows
    while rows.rows <= limit and (batch := next(iterator, None)) is not None:
        rows.add(batch)
    if rows.rows <= limit:
        _append(session, writer, compiled, rows, version)
    else:
        writer.write_changes(compiled, rows, iterator, version)


def _append(
    session: ClientSession,
    writer: JournalWriter,
    compiled: RowChange,
    rows: ChangedRows,
    version: int,
) -> None:
    gathered = rows.take()
    new = rows.new_rows(gathered)
    if not new:
        return
    if compiled.kind == "delete":
        session.catalog.append(compiled.relid, version, [], new)
        return
    old = rows.old_keys(gathered) if compiled.changes_key else []
    receipt = session.catalog.append(
        compiled.relid, version, new, old, check_keys=compiled.changes_key
    )
    writer.require_new_keys(receipt.unresolved)
