"""Statements PostgreSQL evaluates alone: what it answers goes to the client as it comes."""

from dataclasses import replace
from functools import partial

from catalog.errors import GatewayError
from catalog.results import LocalResult
from catalog.session import residency
from catalog.statements.splitting import Statement, StatementKind
from pgwire_gateway.planning import answerable
from pgwire_gateway.planning.plans import Plan
from pgwire_gateway.session.explanation import without_capture
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import NoRows, StatementResult, format_codes
from pgwire_gateway.session.results import LocalRows, field_descriptions
from pgwire_gateway.session.state import ClientSession


def run(call: Invocation) -> StatementResult:
    """Let PostgreSQL evaluate a statement and pass its rows on.

    Raises:
        CatalogError: PostgreSQL's own errors; 0A000 for code that may reach tiered tables.
    """
    if call.statement.kind is StatementKind.DO:
        return _run_code(call)
    if call.plan.answerable is not None and _lasts(call.statement):
        # Where the proof fails, nothing has happened.
        call.session.transaction.begin_implicit()
    result = _execute(call)
    if call.statement.kind is StatementKind.EXPLAIN:
        result.rows = without_capture(result.rows)
    formats = call.result_formats or (result.format_code,)
    rows = LocalRows(result, formats, call.session.encoding)
    prove = partial(answerable.prove, call.session.catalog, call.plan.answerable)
    if result.columns is None:
        for _ in rows.take(0):
            pass
        return StatementResult(None, rows, rows.tag, prove)
    return StatementResult(field_descriptions(result.columns, formats), rows, rows.tag, prove)


def run_in_place(call: Invocation, plan: Plan) -> StatementResult:
    """Let PostgreSQL evaluate another statement in place of a call's; columns stay as announced.

    Raises:
        GatewayError: PostgreSQL's own errors, without positions, which are those of another text.
    """
    try:
        result = run(replace(call, plan=plan))
    except GatewayError as error:
        error.position = None
        raise
    if result.columns is None:
        return result
    formats = format_codes(call.result_formats, len(result.columns))
    return replace(result, columns=field_descriptions(call.columns or (), formats))


def _run_code(call: Invocation) -> StatementResult:
    """Run a DO block; no table becomes tiered meanwhile."""
    catalog = call.session.catalog
    gate = call.services.catalog.code_gate(call.session.database)
    with gate.held(catalog, call.running.check):
        residency.check_body(catalog, str(call.statement.details["body"]))
        tag = tag_of(call.session, call.statement.text)
    return StatementResult(None, NoRows(), lambda _: tag)


def _lasts(statement: Statement) -> bool:
    """Return whether a statement around a query leaves something: rows written, a cursor."""
    return statement.kind is StatementKind.EXPLAIN or bool(statement.details.get("hold"))


def pass_on(session: ClientSession, text: str) -> StatementResult:
    """Let PostgreSQL run a statement that returns no rows as it is."""
    rows = LocalRows(session.catalog.execute(text))
    for _ in rows.take(0):
        pass
    return StatementResult(None, NoRows(), rows.tag)


def tag_of(session: ClientSession, text: str) -> str:
    """Let PostgreSQL run a statement that returns no rows; return its command tag as it is."""
    result = session.catalog.execute(text)
    for _ in result.rows:
        pass
    return result.command_tag or ""


def _execute(call: Invocation) -> LocalResult:
    catalog = call.session.catalog
    code = call.catalog_format
    if call.plan.prepared:
        return catalog.execute_prepared(call.plan.prepared, call.values, call.formats, code)
    if call.values:
        return catalog.execute_parameters(
            call.statement.text,
            call.values,
            parameter_oids=call.parameter_oids,
            formats=call.formats,
            result_format=code,
        )
    return catalog.execute(call.statement.text, result_format=code)
