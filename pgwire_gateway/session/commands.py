"""Statements with work of the gateway's own around what PostgreSQL does."""

from collections.abc import Callable, Mapping

from catalog.results import RelationKind
from catalog.statements import Statement, StatementKind
from pgwire_gateway.errors import UnsupportedError
from pgwire_gateway.session import copy_mode, maintenance
from pgwire_gateway.session.portals import NoRows, StatementResult
from pgwire_gateway.session.results import LocalRows, field_descriptions
from pgwire_gateway.session.state import UNNAMED_PREFIX, ClientSession
from pgwire_gateway.spark.executor import RunningStatement


def run(
    session: ClientSession, statement: Statement, running: RunningStatement, *, alone: bool
) -> StatementResult:
    """Run a statement of one of the kinds in ``COMMANDS``.

    Raises:
        GatewayError: PostgreSQL's own errors, 25001 for commands that cannot be in a transaction.
    """
    return COMMANDS[statement.kind](session, statement, running, alone)


def transaction(
    session: ClientSession, statement: Statement, running: RunningStatement, alone: bool
) -> StatementResult:
    """Begin and end transactions and savepoints in the catalog."""
    details = statement.details
    if details["command"] == "begin" and session.transaction.begin_explicit():
        # The transaction of the query string becomes the client's own.
        if not details["options"]:
            return StatementResult(None, NoRows(), lambda _: "BEGIN")
    result = pass_on(session, statement, running, alone)
    session.transaction.settle()
    return result


def pass_on(
    session: ClientSession,
    statement: Statement,
    running: RunningStatement,  # noqa: ARG001
    alone: bool,  # noqa: ARG001
) -> StatementResult:
    """Let PostgreSQL run the statement as it is."""
    result = session.catalog.execute(statement.text)
    rows = LocalRows(result)
    if result.columns is not None:
        return StatementResult(field_descriptions(result.columns, ()), rows, rows.tag)
    for _ in rows.take(0):
        pass
    return StatementResult(None, NoRows(), rows.tag)


def definition(
    session: ClientSession, statement: Statement, running: RunningStatement, alone: bool
) -> StatementResult:
    """Run DDL; the journal follows in the same transaction."""
    if statement.details.get("outside_transaction") and alone:
        return pass_on(session, statement, running, alone)
    session.transaction.begin_implicit()
    result = pass_on(session, statement, running, alone)
    maintenance.complete_pending_keys(session, running)
    return result


def truncate(
    session: ClientSession, statement: Statement, running: RunningStatement, alone: bool
) -> StatementResult:
    """Empty the catalog tables (privileges, sequences) and their journals."""
    session.transaction.begin_implicit()
    result = pass_on(session, statement, running, alone)
    for name in statement.relations:
        relid = session.catalog.relation_oid(name)
        if session.catalog.relations([relid])[relid].kind is RelationKind.JOURNALED:
            session.transaction.written.add(relid)
            session.catalog.truncate(relid)
    return result


def vacuum(
    session: ClientSession,
    statement: Statement,
    running: RunningStatement,
    alone: bool,  # noqa: ARG001
) -> StatementResult:
    """Compact the journals named, or all the role may vacuum; ANALYZE has nothing to gather."""
    if statement.details["vacuum"]:
        session.transaction.require_no_block("VACUUM")
        maintenance.vacuum(session, statement.relations, running)
    tag = "VACUUM" if statement.details["vacuum"] else "ANALYZE"
    return StatementResult(None, NoRows(), lambda _: tag)


def copy(
    session: ClientSession,
    statement: Statement,
    running: RunningStatement,
    alone: bool,  # noqa: ARG001
) -> StatementResult:
    """Run COPY in its sub-protocol."""
    return copy_mode.copy(session, statement, running)


def deallocate(
    session: ClientSession, statement: Statement, running: RunningStatement, alone: bool
) -> StatementResult:
    """Forget prepared statements here as PostgreSQL forgets them there."""
    result = pass_on(session, statement, running, alone)
    name = statement.details.get("name")
    for known in [name] if name else [known for known in session.statements if known]:
        session.statements.pop(known, None)
    return result


def execute_prepared(
    session: ClientSession, statement: Statement, running: RunningStatement, alone: bool
) -> StatementResult:
    """Run EXECUTE in PostgreSQL, unless the statement it names was prepared for Spark.

    Raises:
        UnsupportedError: 0A000 for a statement on journaled tables.
    """
    name = str(statement.details.get("name"))
    known = session.statements.get(name)
    on_spark = known is not None and known.plan is not None and known.plan.tables
    if on_spark or name.startswith(UNNAMED_PREFIX):
        raise UnsupportedError("EXECUTE of a statement on journaled tables is not supported")
    return pass_on(session, statement, running, alone)


COMMANDS: Mapping[
    StatementKind,
    Callable[[ClientSession, Statement, RunningStatement, bool], StatementResult],
] = {
    StatementKind.TRANSACTION: transaction,
    StatementKind.DEFINITION: definition,
    StatementKind.TRUNCATE: truncate,
    StatementKind.VACUUM: vacuum,
    StatementKind.COPY: copy,
    StatementKind.DEALLOCATE: deallocate,
    StatementKind.DISCARD: deallocate,
    StatementKind.EXECUTE: execute_prepared,
}
"""The function of each kind."""
