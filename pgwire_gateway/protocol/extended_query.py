"""The extended query sub-protocol: Parse, Bind, Describe, Execute, Close, Flush, Sync.

Follows "Extended Query" of PostgreSQL's protocol chapter: nothing is executed before Execute; after
an error everything up to Sync is skipped; statements up to Sync are one transaction unless the
client opened its own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from catalog.statements.splitting import StatementKind
from pgwire_gateway.messages.base import FrontendMessage
from pgwire_gateway.messages.extended_query import (
    Bind,
    BindComplete,
    Close,
    CloseComplete,
    Describe,
    Execute,
    Flush,
    ObjectKind,
    Parse,
    ParseComplete,
    PortalSuspended,
    Sync,
)
from pgwire_gateway.messages.responses import CommandComplete, EmptyQueryResponse
from pgwire_gateway.messages.row_data import NoData, ParameterDescription, RowDescription
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import Plan
from pgwire_gateway.protocol import relaying
from pgwire_gateway.session.binding import READ_AT_BIND
from pgwire_gateway.session.cursors import Cursor
from pgwire_gateway.session.portals import (
    Portal,
    PortalState,
    PreparedStatement,
    format_codes,
)
from pgwire_gateway.session.results import field_descriptions
from pgwire_gateway.session.state import ClientSession, ends_transaction, require_not_failed
from pgwire_gateway.statements import execution, prepared_statements
from pgwire_gateway.wire_types import plain_values


def on_parse(session: ClientSession, message: Parse) -> None:
    """Analyse a statement and keep it under its name."""
    name = message.statement_name
    statements = session.split(message.query_string)
    if len(statements) > 1:
        raise GatewayError(
            "cannot insert multiple commands into a prepared statement",
            sqlstate=codes.SYNTAX_ERROR,
        )
    if name and name in session.statements:
        if statements:
            require_not_failed(session, statements[0])
        raise GatewayError(
            f'prepared statement "{name}" already exists',
            sqlstate=codes.DUPLICATE_PSTATEMENT,
        )
    session.forget_statement(name)
    plan = None
    if statements:
        require_not_failed(session, statements[0])
        with session.planning():
            plan = router.plan(
                session.catalog,
                statements[0],
                message.parameter_type_oids,
                session.prepared_name(name),
            )
        relaying.remember_parse(session, message, plan)
    session.statements[name] = PreparedStatement(name, plan)
    session.send(ParseComplete())


def on_bind(session: ClientSession, message: Bind) -> None:
    """Make a portal of a prepared statement and its parameters."""
    statement = _statement(session, message.statement_name)
    name = message.destination_portal
    if name and name in session.portals:
        raise GatewayError(f'cursor "{name}" already exists', sqlstate=codes.DUPLICATE_CURSOR)
    _check_parameters(session, statement, message)
    if statement.plan is None or not ends_transaction(statement.plan.statement):
        session.transaction.require_not_failed()
    values, formats = _read(session, statement, message)
    session.forget_portal(name)
    session.portals[name] = Portal(
        name, statement, values, formats, tuple(message.result_format_codes)
    )
    session.send(BindComplete())


def _read(
    session: ClientSession, statement: PreparedStatement, message: Bind
) -> tuple[tuple[bytes | None, ...], tuple[int, ...]]:
    """Return parameter values with their formats, in binary once they have been read.

    PostgreSQL reads those that do not plainly say what they are.

    Raises:
        GatewayError: 22P02, 22P03 and the like for a value that is none of its type.
    """
    values = tuple(message.parameter_values)
    formats = tuple(format_codes(message.parameter_format_codes, len(values)))
    plan = statement.plan
    oids = plan.analysis.parameter_oids if plan and plan.analysis else ()
    if not values or session.transaction.failed or not READ_AT_BIND.issuperset(oids):
        return values, formats
    settings = session.settings
    is_utf8 = settings.get("client_encoding") == settings.get("server_encoding") == "UTF8"
    read = plain_values.read(oids, values, formats, is_utf8=is_utf8)
    if read is None:
        read = tuple(session.catalog.canonical_parameters(oids, values, formats))
    return read, (1,) * len(values)


def on_describe(session: ClientSession, message: Describe) -> None:
    """Tell parameter and result types of a statement, or the result types of a portal."""
    if message.kind is ObjectKind.STATEMENT:
        statement = _statement(session, message.name)
        plan = statement.plan
        formats: tuple[int, ...] = ()
    elif (cursor := session.declared(message.name)) is not None:
        session.transaction.require_not_failed()
        session.send(RowDescription(cursor.described(cursor.formats)))
        return
    elif message.name not in session.portals and message.name:
        _require_none_failed(session, message.name)
        _describe_cursor(session, message.name)
        return
    else:
        portal = _portal(session, message.name)
        plan, formats = portal.statement.plan, portal.result_formats
        if (cursor_name := _fetched_by_postgresql(session, plan)) is not None:
            # It may be another cursor than when the statement was prepared.
            _describe_cursor(session, cursor_name, formats)
            return
    fetched = session.fetched(plan)
    columns = plan.analysis.columns if plan and plan.analysis else None
    if fetched is not None or columns is not None:
        session.transaction.require_not_failed()
    if message.kind is ObjectKind.STATEMENT:
        oids = plan.analysis.parameter_oids if plan and plan.analysis else ()
        session.send(ParameterDescription(tuple(oids)))
    if fetched is not None:
        session.send(RowDescription(fetched.described(formats)))
    elif columns is None:
        session.send(NoData())
    else:
        session.send(RowDescription(field_descriptions(columns, formats)))


def _describe_cursor(
    session: ClientSession, name: str, formats: Sequence[int] | None = None
) -> None:
    """Tell the result types of a cursor that SQL has declared, which is a portal too.

    Its rows have a format of its own, unless what fetches them has others.
    """
    columns, code = session.catalog.analyses.describe_portal(name)
    codes = (code,) if formats is None else formats
    session.send(RowDescription(field_descriptions(columns, codes)) if columns else NoData())


def _fetched_by_postgresql(session: ClientSession, plan: Plan | None) -> str | None:
    """Return the name of the cursor of PostgreSQL's that a statement fetches from, if it does."""
    if plan is None or plan.statement.kind is not StatementKind.FETCH:
        return None
    details = plan.statement.details
    is_ours = details["name"] in session.portals
    return None if details["is_move"] or is_ours else str(details["name"])


def on_execute(session: ClientSession, message: Execute) -> None:
    """Run a portal, or take more rows of a suspended one."""
    portal = _portal(session, message.portal_name)
    if portal.statement.plan is None:
        session.send(EmptyQueryResponse())
        return
    if portal.result is not None:
        session.transaction.require_not_failed()
        portal.require_rows()
    else:
        require_not_failed(session, portal.statement.plan.statement)
    try:
        _run(session, portal, portal.statement.plan, message.maximum_rows)
    except GatewayError:
        session.forget_portal(message.portal_name)
        session.failed_portals.add(message.portal_name)
        raise
    session.note_settings()


def _run(session: ClientSession, portal: Portal, plan: Plan, maximum_rows: int) -> None:
    if portal.result is None:
        alone = not session.transaction.open and session.frontend.next_received() is Sync
        result = execution.begin(session, portal, plan, alone=alone)
    else:
        result = portal.result
        session.resume(portal)
    before = portal.taken
    for data in session.take(portal, maximum_rows):
        session.frontend.send_encoded(data)
    if portal.state is PortalState.SUSPENDED:
        session.send(PortalSuspended())
    else:
        session.send(CommandComplete(result.tag(portal.taken - before)))


def on_close(session: ClientSession, message: Close) -> None:
    """Forget a statement or portal; closing what does not exist is no error."""
    if message.kind is ObjectKind.PORTAL:
        session.forget_portal(message.name)
    elif message.name in session.statements:
        session.forget_statement(message.name)
    else:
        prepared_statements.close(session, message.name)
    session.send(CloseComplete())


def on_flush(session: ClientSession, message: Flush) -> None:  # noqa: ARG001
    """Send what is waiting."""
    session.frontend.flush()


def on_sync(session: ClientSession, message: Sync) -> None:  # noqa: ARG001
    """End the implicit transaction and tell the transaction status."""
    session.skip_until_sync = False
    try:
        session.transaction.end_implicit()
    except GatewayError as error:
        session.fail(error)
        session.skip_until_sync = False
    session.ready_for_query()


def _check_parameters(session: ClientSession, statement: PreparedStatement, message: Bind) -> None:
    analysis = statement.plan.analysis if statement.plan else None
    expected = len(analysis.parameter_oids) if analysis else 0
    given = len(message.parameter_values)
    if given != expected:
        raise GatewayError(
            f"bind message supplies {given} parameters, but prepared statement "
            f'"{statement.name}" requires {expected}',
            sqlstate=codes.PROTOCOL_VIOLATION,
        )
    unknown = next((code for code in message.parameter_format_codes if code not in {0, 1}), None)
    if unknown is not None and given:
        raise GatewayError(
            f"unsupported format code: {unknown}", sqlstate=codes.INVALID_PARAMETER_VALUE
        )
    fetched = session.fetched(statement.plan)
    columns = len(analysis.columns or ()) if analysis else 0
    if fetched is not None:
        columns = len(fetched.consists_of)
    formats = len(message.result_format_codes)
    if formats > 1 and formats != columns:
        raise GatewayError(
            f"bind message has {formats} result formats but query has {columns} columns",
            sqlstate=codes.PROTOCOL_VIOLATION,
        )


def _statement(session: ClientSession, name: str) -> PreparedStatement:
    statement = session.statements.get(name) or prepared_statements.bindable(session, name)
    if statement is None:
        text = (
            f'prepared statement "{name}" does not exist'
            if name
            else "unnamed prepared statement does not exist"
        )
        raise GatewayError(text, sqlstate=codes.INVALID_SQL_STATEMENT_NAME)
    return _analysed(session, statement) if statement.parse else statement


def _analysed(session: ClientSession, statement: PreparedStatement) -> PreparedStatement:
    """Analyse a statement that was only passed through."""
    session.transaction.require_not_failed()
    parse = Parse.decode(b"\0" + statement.parse, statement.codec)
    with session.planning():
        plan = router.plan(
            session.catalog,
            session.split(parse.query_string)[0],
            parse.parameter_type_oids,
            session.prepared_name(statement.name),
        )
    if statement.codec == session.frontend.encoding:
        relaying.remember_parse(session, parse, plan)
    session.statements[statement.name] = PreparedStatement(statement.name, plan)
    return session.statements[statement.name]


def _require_none_failed(session: ClientSession, name: str) -> None:
    """Refuse a portal that is there until its failed transaction ends (25P02)."""
    if name in session.failed_portals:
        session.transaction.require_not_failed()


def _portal(session: ClientSession, name: str) -> Portal:
    portal = session.portals.get(name)
    if portal is None:
        _require_none_failed(session, name)
    if portal is None or isinstance(portal, Cursor):
        raise GatewayError(f'portal "{name}" does not exist', sqlstate=codes.INVALID_CURSOR_NAME)
    return portal


HANDLERS: Mapping[type[FrontendMessage], Callable[[ClientSession, Any], None]] = {
    Parse: on_parse,
    Bind: on_bind,
    Describe: on_describe,
    Execute: on_execute,
    Close: on_close,
    Flush: on_flush,
    Sync: on_sync,
}
"""What answers each message."""
