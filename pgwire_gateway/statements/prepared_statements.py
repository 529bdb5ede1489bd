"""Statements that SQL names: PREPARE, and EXECUTE by itself, in EXPLAIN and CREATE TABLE AS.

PostgreSQL keeps them, those the protocol has prepared among them, and runs those that it answers
alone. Any other one runs as if its text had been sent with the arguments of EXECUTE bound to it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from catalog.errors import GatewayError
from catalog.pg import sqlstate as codes
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

Execute = Callable[[Invocation], StatementResult]


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
    """Let PostgreSQL prepare a statement; who runs it is decided each time it is executed.

    Raises:
        GatewayError: 42939 for a name of the gateway's own.
    """
    name = str(call.statement.details["name"])
    if not prepared.is_of_clients(name):
        raise GatewayError(
            f'unacceptable prepared statement name "{name}"',
            sqlstate=codes.RESERVED_NAME,
            detail=f'The prefix "{prepared.OWN_PREFIX}" is reserved.',
        )
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
    if named is None:
        return local_queries.run(call)
    if named.is_answerable:
        # What its analysis has locked stays what its names mean.
        plan = replace(call.plan, answerable=named.plan.answerable)
        return local_queries.run(replace(call, plan=plan))
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
    if not prepared.is_of_clients(name):
        return None
    session.transaction.require_not_failed()
    query = hidden_queries.prepared_query(session.catalog, name)
    if query is None:
        return None
    with session.unnamed() as kept, session.planning():
        # It is planned anew under another name when it is executed.
        plan = router.plan(session.catalog, query.statement, query.parameter_oids, kept)
    _require_same_columns(session, plan, name)
    return PreparedStatement(name, plan)


def _require_same_columns(session: ClientSession, plan: Plan, name: str) -> None:
    told = replace(plan, analysis=session.catalog.analyses.describe(name))
    if replanning.row_type(plan) != replanning.row_type(told):
        raise replanning.changed_row_type()


def close(session: ClientSession, name: str) -> None:
    """Drop a statement that SQL may have prepared."""
    if prepared.is_of_clients(name):
        session.catalog.analyses.deallocate(name)


def find(session: ClientSession, statement: Statement, kept: str) -> Named | None:
    """Return what an EXECUTE names, None when there is no such name.

    Args:
        session: The session.
        statement: The EXECUTE.
        kept: Name under which the catalog keeps what is run.

    Raises:
        GatewayError: 26000 for a name of the gateway's own; what is wrong with the statement now.
    """
    query = hidden_queries.prepared_query(session.catalog, str(statement.details["name"]))
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
    _require_same_columns(call.session, plan, str(inner.details["name"]))
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
    session.transaction.begin_implicit()
    if not details["constant"]:
        session.transaction.note_run()
    try:
        return prepared.arguments(session.catalog, parameter_oids, details["given"])
    except GatewayError as error:
        error.position = error.position and error.position + offset
        raise
