"""Run a planned statement: the one place that leads it to PostgreSQL, to Spark or to a command."""

from collections.abc import Sequence
from dataclasses import replace

from catalog.errors import GatewayError
from catalog.statements import Statement, StatementKind, split
from pgwire_gateway.session import changes, commands, inserts, reads
from pgwire_gateway.session.plans import Plan, Route
from pgwire_gateway.session.portals import NoRows, StatementResult, format_codes
from pgwire_gateway.session.results import LocalRows, field_descriptions
from pgwire_gateway.session.router import plan as make_plan
from pgwire_gateway.session.state import ClientSession, ends_transaction, position_error
from pgwire_gateway.spark.executor import RunningStatement


def execute(
    session: ClientSession,
    plan: Plan,
    values: Sequence[bytes | None] = (),
    formats: Sequence[int] = (),
    result_formats: Sequence[int] = (),
    *,
    alone: bool = True,
) -> StatementResult:
    """Run a statement.

    Args:
        session: Who runs it.
        plan: The statement, analysed.
        values: Parameter values as bound.
        formats: Format code of each value.
        result_formats: Format codes asked for the result.
        alone: True when no other statement belongs to its implicit transaction.

    Raises:
        GatewayError: Whatever went wrong, with PostgreSQL's SQLSTATE.
    """
    if not ends_transaction(plan.statement):
        session.transaction.require_not_failed()
    statement = RunningStatement()
    session.running = statement
    try:
        return _dispatch(session, plan, values, formats, result_formats, statement, alone)
    except GatewayError as error:
        raise position_error(error, plan.statement) from error


def _dispatch(  # noqa: PLR0913 - the full description of one execution
    session: ClientSession,
    plan: Plan,
    values: Sequence[bytes | None],
    formats: Sequence[int],
    result_formats: Sequence[int],
    statement: RunningStatement,
    alone: bool,
) -> StatementResult:
    services = session.services
    if plan.statement.kind in {StatementKind.CREATE_TABLE_AS, StatementKind.SELECT_INTO}:
        return create_table_as(session, plan.statement, statement)
    if plan.route is Route.COMMAND:
        return commands.run(session, plan.statement, statement, alone=alone)
    if plan.route is Route.CATALOG:
        if not alone:
            session.transaction.begin_implicit()
        return local(session, plan, values, formats, result_formats)
    plan = refresh(session, plan)
    if not alone:
        session.transaction.begin_implicit()
    if plan.route is Route.INSERT:
        return inserts.insert(session, services, plan, values, formats, result_formats, statement)
    bound = reads.bind(session, plan, values, formats)
    if plan.route is Route.READ:
        return reads.read(session, services, plan, bound, result_formats, statement)
    if plan.route is Route.INSERT_QUERY:
        return inserts.insert_query(session, services, plan, bound, result_formats, statement)
    return changes.change(session, services, plan, bound, result_formats, statement)


def create_table_as(
    session: ClientSession, statement: Statement, running: RunningStatement
) -> StatementResult:
    """Create the table without rows, then insert what the query yields."""
    details = statement.details
    session.transaction.begin_implicit()
    definition = replace(statement, text=details["definition"])
    created = commands.pass_on(session, definition, running, alone=False)
    if not details["with_data"] or "skipping" in created.status():
        return created
    insert = make_plan(session.catalog, split(details["insert"])[0], (), "")
    result = execute(session, insert, alone=False)
    rows = result.status().rpartition(" ")[2]
    return StatementResult(None, NoRows(), lambda _: f"SELECT {rows}")


def refresh(session: ClientSession, plan: Plan) -> Plan:
    """Plan again when a definition changed since the statement was prepared."""
    if plan.definitions == session.catalog.definitions():
        return plan
    oids = plan.analysis.parameter_oids if plan.analysis else ()
    fresh = make_plan(session.catalog, plan.statement, oids, "")
    return replace(fresh, prepared="")


def local(
    session: ClientSession,
    plan: Plan,
    values: Sequence[bytes | None],
    formats: Sequence[int],
    result_formats: Sequence[int],
) -> StatementResult:
    """Let PostgreSQL evaluate a statement and pass its rows on."""
    catalog = session.catalog
    columns = plan.analysis.columns if plan.analysis else None
    codes = set(format_codes(result_formats, len(columns or ())))
    code = codes.pop() if len(codes) == 1 else 0
    if plan.prepared:
        result = catalog.execute_prepared(plan.prepared, values, formats, code)
    elif values:
        oids = plan.analysis.parameter_oids if plan.analysis else ()
        result = catalog.execute_parameters(
            plan.statement.text,
            values,
            parameter_oids=oids,
            formats=formats,
            result_format=code,
        )
    else:
        result = catalog.execute(plan.statement.text, result_formats=code)
    rows = LocalRows(result)
    described = result.columns
    if described is None:
        for _ in rows.take(0):
            pass
        return StatementResult(None, rows, rows.tag)
    return StatementResult(field_descriptions(described, result_formats), rows, rows.tag)
