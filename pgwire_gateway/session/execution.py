"""Run a planned statement: the one place that leads it to PostgreSQL, to Spark or to a command."""

from collections.abc import Sequence
from dataclasses import replace

from catalog import names
from catalog import sqlstate as codes
from catalog.errors import GatewayError, OutdatedPlanError
from catalog.results import Basis
from catalog.statements import StatementKind, split
from pgwire_gateway.errors import UnsupportedError
from pgwire_gateway.session import (
    changes,
    commands,
    hidden_queries,
    inserts,
    local_queries,
    reads,
    router,
)
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.plans import Plan, Route
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.session.state import ClientSession, ends_transaction, position_error
from pgwire_gateway.spark.statements import RunningStatement


def execute(  # noqa: PLR0913 - a portal has this many parts
    session: ClientSession,
    plan: Plan,
    values: Sequence[bytes | None] = (),
    formats: Sequence[int] = (),
    result_formats: Sequence[int] = (),
    *,
    alone: bool = True,
) -> StatementResult:
    """Run a statement; see :class:`Invocation` for the arguments.

    Raises:
        GatewayError: Whatever went wrong, with PostgreSQL's SQLSTATE.
    """
    if not ends_transaction(plan.statement):
        session.transaction.require_not_failed()
    running = RunningStatement()
    session.running = running
    call = Invocation(session, plan, running, values, formats, result_formats, alone)
    try:
        return _dispatch(call)
    except GatewayError as error:
        raise position_error(error, plan.statement) from error


def _dispatch(call: Invocation) -> StatementResult:
    if call.statement.kind in {StatementKind.CREATE_TABLE_AS, StatementKind.SELECT_INTO}:
        return create_table_as(call)
    if call.plan.route is Route.COMMAND:
        return commands.run(call)
    if not call.alone:
        call.session.transaction.begin_implicit()
    call = refreshed(call)
    for _ in range(ATTEMPTS):
        if call.plan.route is Route.CATALOG and call.plan.replaceable:
            call = locked(call)
        try:
            return _run(call)
        except OutdatedPlanError:
            call.session.finish_watch()
            call.session.transaction.settle()
            call = planned_again(call)
    raise GatewayError(
        "definitions change faster than they can be read", sqlstate=codes.SERIALIZATION_FAILURE
    )


def _run(call: Invocation) -> StatementResult:
    session = call.session
    if call.plan.route is not Route.CATALOG:
        _require_utf8(session)
        session.watch(call.running, names.statement_timeout_s(session.catalog))
    return ROUTES[call.plan.route](call)


def create_table_as(call: Invocation) -> StatementResult:
    """Create the table without rows, then insert what the query yields."""
    details = call.statement.details
    session = call.session
    if details.get("executes") and details["with_data"]:
        return _table_of_prepared(call)
    session.transaction.begin_implicit()
    with session.notices() as notices:
        created = local_queries.pass_on(session, details["create_sql"])
    exists = any(fields.get("C") == codes.DUPLICATE_TABLE for fields in notices)
    if exists or not details["with_data"]:
        return created
    schema, name = details["target"]
    target = names.quoted(schema, name) if schema else names.quoted(name)
    text = f"INSERT INTO {target} {details['query'].text}"
    insert = router.plan(session.catalog, split(text)[0], (), "")
    result = execute(session, insert, alone=False)
    rows = result.status().rpartition(" ")[2]
    return StatementResult(None, NoRows(), lambda _: f"SELECT {rows}")


def _table_of_prepared(call: Invocation) -> StatementResult:
    """Run CREATE TABLE AS EXECUTE where both the rows and the table are PostgreSQL's."""
    if not call.statement.details["temporary"]:
        raise UnsupportedError(
            "CREATE TABLE AS EXECUTE is not supported on journaled tables",
            hint="Name the query itself instead of the prepared statement.",
        )
    hidden_queries.refuse_journaled(call.session.catalog, call.statement)
    call.session.transaction.begin_implicit()
    result = call.session.catalog.execute(call.statement.text)
    for _ in result.rows:
        pass
    tag = result.command_tag or "SELECT 0"
    return StatementResult(None, NoRows(), lambda _: tag)


def refreshed(call: Invocation) -> Invocation:
    """Plan again what was prepared, when names or definitions mean something else now.

    What was planned for this call alone is compared with what it sees when it has seen that.

    Raises:
        GatewayError: 0A000 when the columns of the result are not those announced any more.
    """
    catalog, plan = call.session.catalog, call.plan
    if plan.prepared and plan.statement.kind in hidden_queries.HOLDERS:
        hidden_queries.refuse_journaled(catalog, plan.statement, call.parameter_oids)
    same = not plan.prepared or plan.basis == router.basis(catalog, plan.statement)
    return call if plan.basis is None or same else planned_again(call)


def locked(call: Invocation) -> Invocation:
    """Analyse a statement in the transaction that runs it, which locks the relations it names.

    Others could replace them by journaled ones, in which PostgreSQL would find no rows.

    Raises:
        GatewayError: 0A000 when the columns of the result are not those announced any more.
    """
    catalog, plan = call.session.catalog, call.plan
    call.session.transaction.begin_implicit()
    catalog.deallocate(LOCKED)
    new = router.plan(catalog, plan.statement, call.parameter_oids, LOCKED)
    _require_same_row_type(plan, new)
    return replace(call, plan=new)


def planned_again(call: Invocation) -> Invocation:
    """Plan a statement again by the definitions there are now.

    Raises:
        GatewayError: 0A000 when the columns of the result are not those announced any more.
    """
    catalog, plan = call.session.catalog, call.plan
    # What the catalog keeps under the name is lost, even if the definitions come back by ROLLBACK.
    outdated = replace(plan, basis=NEVER)
    call.session.replace_plan(plan, outdated)
    if plan.prepared:
        catalog.deallocate(plan.prepared)
    new = router.plan(catalog, plan.statement, call.parameter_oids, plan.prepared)
    _require_same_row_type(plan, new)
    call.session.replace_plan(outdated, new)
    return replace(call, plan=new)


ATTEMPTS = 100
"""How often a statement is planned while others change definitions."""

LOCKED = "pgwire_locked"
"""Name the catalog has for the statement whose relations are locked."""

NEVER = Basis(0, "never")
"""What no analysis rests on."""


def _require_same_row_type(announced: Plan, new: Plan) -> None:
    """Refuse other columns than those of a prepared statement, as PostgreSQL does."""
    if announced.prepared and _row_type(new) != _row_type(announced):
        raise UnsupportedError("cached plan must not change result type")


def _row_type(plan: Plan) -> list[tuple[str, int, int]] | None:
    columns = plan.analysis.columns if plan.analysis else None
    if columns is None:
        return None
    return [(column.name, column.type_oid, column.typmod) for column in columns]


def _require_utf8(session: ClientSession) -> None:
    """Refuse client encodings that rows of Spark are not converted to (0A000)."""
    encoding = session.settings.get("client_encoding", "UTF8")
    if encoding not in UNCONVERTED_ENCODINGS:
        raise UnsupportedError(
            f'client encoding "{encoding}" is not supported on journaled tables',
            hint="SET client_encoding TO 'UTF8' first.",
        )


UNCONVERTED_ENCODINGS = frozenset({"UTF8", "SQL_ASCII"})
"""Client encodings in which text arrives as the server holds it."""

ROUTES = {
    Route.CATALOG: local_queries.run,
    Route.READ: reads.read,
    Route.INSERT: inserts.insert,
    Route.INSERT_QUERY: inserts.insert_query,
    Route.FILL: inserts.fill,
    Route.CHANGE: changes.change,
}
"""What executes each route."""
