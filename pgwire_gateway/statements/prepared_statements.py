"""Statements that SQL names: PREPARE, and EXECUTE by itself, in EXPLAIN and CREATE TABLE AS.

PostgreSQL keeps them, those the protocol has prepared among them, and runs those that it answers
alone. Any other one runs as if its text had been sent with the arguments of EXECUTE bound to it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
from catalog.pg import types
from catalog.session import prepared
from catalog.statements.splitting import Statement, StatementKind, split
from pgwire_gateway.planning import hidden_queries, router
from pgwire_gateway.planning.hidden_queries import HiddenQuery
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.session import local_queries, replanning
from pgwire_gateway.session.binding import BINARY
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import PreparedStatement, StatementResult
from pgwire_gateway.session.state import ClientSession
from rewrite.errors import UnsupportedError

Execute = Callable[[Invocation], StatementResult]

_OWN_PREFIX: Final = "pgwire_"
"""Start of the names under which the catalog keeps statements that no client has named."""

_OF_THE_TIME: Final = frozenset(
    {types.DATE, types.TIME, types.TIMETZ, types.TIMESTAMP, types.TIMESTAMPTZ}
)
"""Types of which a constant can name the time at which the transaction began."""


@dataclass(frozen=True, slots=True)
class Named:
    """What EXECUTE names, planned."""

    query: HiddenQuery
    plan: Plan

    @property
    def is_answerable(self) -> bool:
        """Whether it is a query that PostgreSQL runs alone, and as it is."""
        is_query = self.query.statement.kind in router.QUERIES
        return self.plan.route is Route.CATALOG and is_query and self.plan.loaded is None


def prepare(call: Invocation) -> StatementResult:
    """Let PostgreSQL prepare a statement; who runs it is decided each time it is executed."""
    return local_queries.pass_on(call.session, call.statement.text)


def execute(call: Invocation, run: Execute) -> StatementResult:
    """Run EXECUTE in PostgreSQL, or the statement that it names.

    Args:
        call: The EXECUTE.
        run: Runs another statement in its place.

    Raises:
        GatewayError: What either raises; 42601 for a wrong number of arguments; 0A000 when the
            columns of the result are not those that it was prepared with.
    """
    call.session.transaction.begin_implicit()
    with call.session.unnamed() as name:
        return _executed(call, run, name)


def _executed(call: Invocation, run: Execute, name: str) -> StatementResult:
    session = call.session
    named = find(session, call.statement, name)
    if named is not None and named.is_answerable:
        try:
            # What this locks stays what its names mean.
            answerable = hidden_queries.refuse_journaled(session.catalog, call.statement)
        except UnsupportedError:
            named = find(session, call.statement, name)
            if named is None or named.is_answerable:
                raise  # it was not for a table that has become tiered meanwhile
        else:
            return local_queries.run(replace(call, plan=replace(call.plan, answerable=answerable)))
    if named is None:
        return local_queries.run(call)
    if call.plan.analysis and replanning.row_type(named.plan) != replanning.row_type(call.plan):
        raise replanning.changed_row_type()
    call = _with_values(call, arguments(call, call.statement, named.query.parameter_oids))
    try:
        return run(replace(call, plan=named.plan))
    except GatewayError as error:
        error.position = None
        raise


def bindable(session: ClientSession, name: str) -> PreparedStatement | None:
    """Return a statement that SQL has prepared, for the protocol; None when there is none.

    Raises:
        GatewayError: What is wrong with the statement now.
    """
    if not _is_of_clients(name) or session.transaction.failed:
        return None
    query = hidden_queries.prepared_query(session.catalog, name)
    if query is None:
        return None
    with session.unnamed() as kept, session.planning():
        # It is planned anew under another name when it is executed.
        plan = router.plan(session.catalog, query.statement, query.parameter_oids, kept)
    return PreparedStatement(name, plan)


def close(session: ClientSession, name: str) -> None:
    """Drop a statement that SQL may have prepared."""
    if _is_of_clients(name):
        session.catalog.deallocate(name)


def _is_of_clients(name: str) -> bool:
    return bool(name) and not name.startswith(_OWN_PREFIX)


def find(session: ClientSession, statement: Statement, kept: str) -> Named | None:
    """Return what an EXECUTE names, None when there is no such name.

    Args:
        session: The session.
        statement: The EXECUTE.
        kept: Name under which the catalog keeps what is run.

    Raises:
        GatewayError: 26000 for a name of the gateway's own; what is wrong with the statement now.
    """
    name = str(statement.details["name"])
    if not _is_of_clients(name):
        raise GatewayError(
            f'prepared statement "{name}" does not exist',
            sqlstate=codes.INVALID_SQL_STATEMENT_NAME,
        )
    query = hidden_queries.prepared_query(session.catalog, name)
    if query is None:
        return None
    try:
        with session.planning():
            plan = router.plan(session.catalog, query.statement, query.parameter_oids, kept)
    except GatewayError as error:
        error.position = None
        raise
    return Named(query, plan)


def explained(call: Invocation) -> Invocation:
    """Return an EXPLAIN with the arguments of the EXECUTE in it, if there is one, as its values."""
    piece, plan = call.statement.details["query"], call.plan.explained
    (inner,) = split(piece.text)
    if inner.kind is not StatementKind.EXECUTE or plan is None or plan.analysis is None:
        return call
    return _with_values(call, arguments(call, inner, plan.analysis.parameter_oids, piece.offset))


def _with_values(call: Invocation, values: tuple[bytes | None, ...]) -> Invocation:
    return replace(call, values=values, formats=(BINARY,) * len(values))


def arguments(
    call: Invocation, statement: Statement, parameter_oids: tuple[int, ...], offset: int = 0
) -> tuple[bytes | None, ...]:
    """Return the values of an EXECUTE's arguments, in binary.

    Args:
        call: The statement that the EXECUTE is, or stands in.
        statement: The EXECUTE.
        parameter_oids: Types of the parameters.
        offset: Characters before it in the statement that it stands in.

    Raises:
        GatewayError: 42601 for a wrong number of them; what PostgreSQL says of them.
    """
    session, details = call.session, statement.details
    expected, count = len(parameter_oids), len(details["arguments"])
    if expected == 0:
        return ()  # PostgreSQL looks at no arguments then
    if count != expected:
        raise GatewayError(
            f'wrong number of parameters for prepared statement "{details["name"]}"',
            sqlstate=codes.SYNTAX_ERROR,
            detail=f"Expected {expected} parameters but got {count}.",
        )
    if not details["constant"] or not _OF_THE_TIME.isdisjoint(parameter_oids):
        session.transaction.begin_implicit()
    if not details["constant"]:
        session.transaction.note_run()
    try:
        return prepared.arguments(session.catalog, parameter_oids, details["given"])
    except GatewayError as error:
        error.position = error.position and error.position + offset
        raise
