"""INSERT of many rows, which PostgreSQL computes, into an empty resident table.

The table would become tiered as soon as it has them, and they would be moved out of PostgreSQL one
by one. So it becomes tiered before, where PostgreSQL expects that many.
"""

from collections.abc import Callable
from typing import Final

from catalog.errors import GatewayError
from catalog.pg import sqlstate
from catalog.pg.text_codecs import codec_of
from catalog.session import residency
from pgwire_gateway.hot import insert_sizes
from pgwire_gateway.planning.plans import Route
from pgwire_gateway.rows.journal_writes import begin_load
from pgwire_gateway.session import replanning
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import StatementResult

Perform = Callable[[Invocation], StatementResult]

_SAVEPOINT: Final = "pgwire_load"


def run(call: Invocation, perform: Perform) -> StatementResult:
    """Run a statement; an INSERT of many rows on a table that has become tiered for them.

    What tiered tables do not offer, or cannot hold, is run on the table as it was.

    Args:
        call: The statement.
        perform: Runs it as it is planned.

    Raises:
        GatewayError: What it raises; what PostgreSQL finds wrong when it plans the statement.
    """
    relid, session = call.plan.loaded, call.session
    if call.plan.route is not Route.CATALOG or relid is None or not _is_large(call, relid):
        return perform(call)
    catalog = session.catalog
    catalog.transaction.savepoint(_SAVEPOINT)
    if begin_load(session, relid, "INSERT"):
        try:
            result = perform(replanning.locked(call))
        except GatewayError as error:
            if error.sqlstate != sqlstate.FEATURE_NOT_SUPPORTED:
                raise
            catalog.transaction.roll_back_to(_SAVEPOINT)
            session.transaction.written.discard(relid)
            call = replanning.locked(call)
        else:
            catalog.transaction.release(_SAVEPOINT)
            return result
    catalog.transaction.release(_SAVEPOINT)
    session.occupied.add(relid)
    return perform(call)


def _is_large(call: Invocation, relid: int) -> bool:
    """Return whether a table is empty, and PostgreSQL expects more rows than it is to hold."""
    session = call.session
    bounds = call.services.catalog.bounds
    is_convertible = codec_of(session.encoding) is not None
    if not bounds.rows or not is_convertible or not session.occupied.may_lack(relid):
        return False
    session.transaction.begin_implicit()
    if not residency.is_loadable(session.catalog, relid):
        session.occupied.add(relid)
        return False
    return insert_sizes.expected_rows(call) > bounds.rows
