"""Queries that Spark cannot compute as a whole: PostgreSQL does, over what Spark finds for them.

Spark computes the parts of the query that read tiered tables, each into a temporary table
(:mod:`pgwire_gateway.dml.extraction`): subqueries that stand by themselves, else the rows of the
table that satisfy the conditions on it alone. All parts show the same moment.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from catalog.errors import GatewayError, OutdatedPlanError
from catalog.pg import sqlstate
from catalog.session import session_state
from pgwire_gateway.dml import reads, thawed_reads
from pgwire_gateway.dml.extraction import Extraction
from pgwire_gateway.hot.announcements import undo
from pgwire_gateway.planning import forced
from pgwire_gateway.planning.plans import EXECUTORS, Route
from pgwire_gateway.session import local_queries
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.session.results import CatalogRows
from rewrite.command import called_functions
from rewrite.errors import UnsupportedError

REASON: Final = "Spark cannot compute the whole query"
"""Why PostgreSQL answers, for people."""

_SAVEPOINT: Final = "pgwire_read"

_PG_TYPEOF: Final = 1619
"""OID of a function to which a row of an extract is not one of the relation."""

_REFUSALS: Final = frozenset(
    {
        sqlstate.FEATURE_NOT_SUPPORTED,
        sqlstate.INSUFFICIENT_PRIVILEGE,
        sqlstate.READ_ONLY_SQL_TRANSACTION,
    }
)
"""What keeps extracts from being made: the query itself has got past its privileges."""


def read(call: Invocation) -> StatementResult:
    """Run a SELECT: by Spark, else on hot rows, else over extracts.

    Raises:
        UnsupportedError: What Spark has no counterpart of, where none of this is possible.
        GatewayError: PostgreSQL's own errors, and those of Spark.
    """
    is_own = call.alone and not call.session.transaction.open
    try:
        return reads.read(call)
    except UnsupportedError as error:
        refused = error
    if call.plan.locks is not None or forced.is_forced(call.plan):
        raise refused
    if is_own and call.session.transaction.open:
        undo(call)
    return _answered(call, refused, is_own=is_own)


def extraction(
    call: Invocation, tell: Callable[[str, Invocation], None] | None = None
) -> Extraction:
    """Return what makes the extracts of a query; see there for the arguments."""
    is_typed = _PG_TYPEOF in called_functions(call.query)
    most_rows = call.services.config.extract_rows
    return Extraction(call, tell, most_rows=most_rows, whole_rows=not is_typed)


@contextmanager
def told(refused: UnsupportedError) -> Iterator[None]:
    """Tell of what keeps extracts from being made why Spark does not compute the query, too."""
    try:
        yield
    except GatewayError as reason:
        reason.position = None  # that of other text
        if reason.sqlstate not in _REFUSALS:
            raise
        refused.detail = f"{refused.detail or ''} Nor does it over extracts: {reason}.".strip()
        raise refused from reason


def _answered(call: Invocation, refused: UnsupportedError, *, is_own: bool) -> StatementResult:
    """Answer a query; its rows are held when this returns, and nothing is locked for it."""
    session, lasts = call.session, thawed_reads.has_effects(call)
    writes_nothing = is_own and session.transaction.begin_steady()
    if not is_own:
        session.catalog.transaction.savepoint(_SAVEPOINT)
    made = extraction(call)
    try:
        with told(refused):
            plan = made.plan()
    except (OutdatedPlanError, UnsupportedError):
        _leave(call, is_own=is_own)
        raise
    if writes_nothing:
        session_state.make_read_only(session.catalog)
    result = local_queries.run_in_place(call, plan)
    if isinstance(result.stream, CatalogRows):
        result.stream.hold()
    result.prove()
    session.last_decision = f"{EXECUTORS[Route.EXTRACT]}: {REASON}"
    if lasts:
        # What it has done stays; the extracts go now, or with the transaction.
        if not is_own:
            session.catalog.transaction.release(_SAVEPOINT)
            made.drop()
    else:
        _leave(call, is_own=is_own)
    return replace(result, prove=lambda: None)


def _leave(call: Invocation, *, is_own: bool) -> None:
    """Let go of the extracts, and of what kept writers out of their tables."""
    if is_own:
        undo(call)
    else:
        call.session.catalog.transaction.abandon(_SAVEPOINT)
