"""Queries that Spark cannot compute, of few rows of tiered tables: PostgreSQL answers them.

What a query can see of these tables is made hot, as it is for a statement that writes
(:mod:`pgwire_gateway.hot.hot_rows`), and PostgreSQL runs it as it was sent.
"""

from dataclasses import replace
from typing import Final

from catalog.errors import OutdatedPlanError, OutdatedTransactionError
from pgwire_gateway.hot import further_rows, hot_rows
from pgwire_gateway.hot.announcements import ATTEMPTS, NotHotError, undo
from pgwire_gateway.planning import forced
from pgwire_gateway.planning.plans import Route
from pgwire_gateway.rows.needed_rows import needed_rows
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import StatementResult
from rewrite.command import called_functions
from rewrite.dialect.oids import FIRST_USER_OID
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal

_SAVEPOINT: Final = "pgwire_read"
_WAITING: Final = "pgwire_wait"


def read(call: Invocation, refused: UnsupportedError) -> StatementResult:
    """Answer a query that locks nothing; its rows are held when this returns.

    Args:
        call: The query.
        refused: Why Spark does not compute it.

    Raises:
        UnsupportedError: That, where the rows it can see are not few, or cannot be hot for it.
        GatewayError: PostgreSQL's own errors.
    """
    return _run(call, refused, lasts=has_effects(call))


def declare(call: Invocation, refused: UnsupportedError) -> StatementResult:
    """Have PostgreSQL keep a cursor, which goes on showing what the rows are now.

    Args:
        call: DECLARE CURSOR.
        refused: Why Spark does not compute its query.

    Raises:
        UnsupportedError: As of `read`.
        GatewayError: PostgreSQL's own errors.
    """
    query = call.plan.explained
    if query is None:
        raise TypeError(call.plan.route)
    plan = replace(
        query,
        statement=call.plan.statement,
        analysis=query.analysis and replace(query.analysis, columns=None),
        prepared=call.plan.prepared,
    )
    return _run(replace(call, plan=plan), refused, lasts=True)


def insert(call: Invocation, refused: UnsupportedError) -> StatementResult:
    """Run an INSERT of the rows of a query; all is written when this returns.

    Args:
        call: The statement, of which nothing has been done.
        refused: Why Spark does not compute the query.

    Raises:
        UnsupportedError: As of `read`.
        GatewayError: PostgreSQL's own errors.
    """
    return _run(replace(call, plan=replace(call.plan, route=Route.THAW)), refused, lasts=True)


def require_possible(call: Invocation, refused: UnsupportedError) -> None:
    """Find the rows that a query can see, to know whether it would be answered this way.

    Raises:
        UnsupportedError: It would not; why Spark does not compute it.
    """
    try:
        further_rows.require_possible(call, needed_rows(call))
        hot_rows.probe_all(call)
    except (Refusal, NotHotError, UnsupportedError) as reason:
        raise _told(refused, reason) from reason


def _told(refused: UnsupportedError, reason: Exception) -> UnsupportedError:
    """Return why Spark does not compute a query, with why PostgreSQL does not."""
    refused.detail = refused.detail or f"Nor does PostgreSQL answer it on hot rows: {reason}."
    return refused


def _run(call: Invocation, refused: UnsupportedError, *, lasts: bool) -> StatementResult:
    """Run a statement; where nothing of it `lasts` the transaction keeps none of its locks."""
    if forced.is_forced(call.plan):
        raise refused
    session = call.session
    began = not session.transaction.open
    if not began:
        session.catalog.transaction.savepoint(_SAVEPOINT)
    try:
        result = _tried(call)
    except (Refusal, NotHotError, UnsupportedError) as reason:
        if began:
            undo(call)
        else:
            session.catalog.transaction.abandon(_SAVEPOINT)
        raise _told(refused, reason) from reason
    except (OutdatedPlanError, OutdatedTransactionError) as error:
        if began:
            raise
        session.catalog.transaction.abandon(_SAVEPOINT)
        raise OutdatedPlanError(error.message) from error
    if not began:
        # Who writes the tables as a whole waits until it is known that their rows may go cold.
        transaction = session.catalog.transaction
        leave = transaction.release if lasts else transaction.abandon
        leave(_SAVEPOINT)
    return result


def _tried(call: Invocation) -> StatementResult:
    for _ in range(ATTEMPTS):
        try:
            return hot_rows.run(call)
        except NotHotError as reason:
            if not reason.for_now:
                raise
            _wait(call)
    raise NotHotError(for_now=True)


def _wait(call: Invocation) -> None:
    """Wait for those who write one of the tables as a whole, as for locks; keep none of them."""
    session, needed = call.session, needed_rows(call)
    began = not session.transaction.open
    session.transaction.begin_implicit()
    session.catalog.transaction.savepoint(_WAITING)
    session.catalog.writes.hold([part.table.relid for part in (needed, *needed.further)])
    session.catalog.transaction.abandon(_WAITING)
    if began:
        undo(call)


def has_effects(call: Invocation) -> bool:
    """Return whether a query calls a function that may do something beside returning a value.

    One of a user's may, whatever it is said to do.
    """
    functions = called_functions(call.query)
    of_users = any(function >= FIRST_USER_OID for function in functions)
    return of_users or call.session.volatilities.is_any_volatile(functions)
