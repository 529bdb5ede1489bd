"""The simple query sub-protocol: one query string, several statements, one ReadyForQuery.

Follows "Simple Query" of PostgreSQL's protocol chapter: the statements of one string are one
transaction unless it contains transaction commands.
"""

from catalog.errors import GatewayError
from catalog.statements.splitting import Statement, StatementKind
from pgwire_gateway.messages.responses import CommandComplete, EmptyQueryResponse
from pgwire_gateway.messages.row_data import RowDescription
from pgwire_gateway.messages.simple_query import Query
from pgwire_gateway.planning import router
from pgwire_gateway.protocol import relaying
from pgwire_gateway.session import foresight
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.session.results import SparkRows
from pgwire_gateway.session.state import ClientSession, position_error, require_not_failed
from pgwire_gateway.statements import execution


def on_query(session: ClientSession, message: Query) -> None:
    """Run all statements of a query string; the first failure ends it."""
    session.forget_statement("")
    session.forget_portal("")
    try:
        _run(session, message.query_string)
    except Exception as error:  # noqa: BLE001 - whatever fails is told to the client
        session.fail(error)
        session.skip_until_sync = False
    session.ready_for_query()


def _run(session: ClientSession, query_string: str) -> None:
    statements = session.split(query_string)
    if not statements:
        session.send(EmptyQueryResponse())
        return
    for number, statement in enumerate(statements, start=1):
        require_not_failed(session, statement)
        try:
            with session.planning():
                plan = (
                    foresight.plan(session, query_string, statement)
                    if len(statements) == 1
                    else router.plan(session.catalog, statement, (), "")
                )
        except GatewayError as error:
            raise position_error(error, statement) from error
        if len(statements) == 1:
            relaying.remember_query(session, query_string, plan)
        if len(statements) > 1 and not _is_about_transactions(statement):
            session.transaction.begin_implicit()
        result = execution.execute(session, plan, alone=len(statements) == 1)
        if result.columns is not None:
            session.send(RowDescription(result.columns))
        taken = _send_rows(session, result)
        result.prove()
        last = number == len(statements)
        if last:
            # PostgreSQL commits before it acknowledges the last statement.
            session.transaction.end_implicit()
        session.send(CommandComplete(result.tag(taken)))
        if not last:  # ReadyForQuery looks at them, too
            session.note_settings()


def _is_about_transactions(statement: Statement) -> bool:
    """Return whether a statement begins or ends the transaction it is in, or is refused there."""
    if statement.kind is not StatementKind.TRANSACTION:
        return False
    return statement.details["action"] not in {"commit_prepared", "rollback_prepared"}


def _send_rows(session: ClientSession, result: StatementResult) -> int:
    """Send all rows and return their number.

    Raises:
        OSError: The client hung up; nothing computes rows for it any more.
    """
    taken = 0
    try:
        for data, rows in result.stream.take(0):
            session.frontend.send_encoded(data)
            taken += rows
    except BaseException as error:
        if isinstance(result.stream, SparkRows):
            if session.running is not None and isinstance(error, OSError):
                session.running.cancel()
            result.stream.close()
        raise
    return taken
