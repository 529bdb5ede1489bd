"""Queries that Spark cannot compute as a whole: PostgreSQL does, over what Spark finds for them.

Spark computes the parts of the query that read tiered tables, each into a temporary table
(:mod:`pgwire_gateway.dml.extraction`): subqueries that stand by themselves, else the rows of the
table that satisfy the conditions on it alone. All parts show the same moment.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from catalog.bookkeeping.calls import OUTDATED
from catalog.errors import CatalogError, GatewayError, OutdatedAnswerError, OutdatedPlanError
from catalog.pg import sqlstate
from catalog.pg.functions import PROCEDURES
from catalog.session import session_state
from catalog.session.session_state import Isolation
from pgwire_gateway.dml import reads, thawed_reads
from pgwire_gateway.dml.extraction import Extraction, Tell
from pgwire_gateway.hot.announcements import undo
from pgwire_gateway.planning import forced
from pgwire_gateway.planning.plans import EXECUTORS, Plan, Route
from pgwire_gateway.session import local_queries
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.session.results import CatalogRows
from rewrite.command import called_functions
from rewrite.errors import UnsupportedError


def _called(name: str) -> frozenset[int]:
    """Return the OIDs of PostgreSQL's functions of a name."""
    return frozenset(
        oid for oid, (_, signature) in PROCEDURES.items() if signature.startswith(f"{name}(")
    )


REASON: Final = "Spark cannot compute the whole query"
"""Why PostgreSQL answers, for people."""

_SAVEPOINT: Final = "pgwire_read"

_TYPE_TELLING: Final = _called("pg_typeof")
"""To these a row of an extract is not one of the relation."""

_SETTING_TELLING: Final = _called("current_setting")
"""These tell how a transaction is isolated."""

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
    try:
        return reads.read(call)
    except UnsupportedError as error:
        refused = error
    if call.plan.locks is not None or forced.is_forced(call.plan):
        raise refused
    with _steady(call) as place:
        return _answered(call, refused, place)


@contextmanager
def explained(call: Invocation, refused: UnsupportedError, tell: Tell) -> Iterator[Plan]:
    """Plan a SELECT over extracts, which are empty while the context lasts.

    Raises:
        UnsupportedError: As of `read`.
    """
    with _steady(call) as place:
        with _told(refused):
            plan = _extraction(call, tell).plan()
        yield plan
        place.leave()


def _extraction(call: Invocation, tell: Tell | None = None) -> Extraction:
    """Return what makes the extracts of a query; see there for the arguments."""
    stands_for_row = _TYPE_TELLING.isdisjoint(called_functions(call.query))
    most_rows = call.services.config.extract_rows
    return Extraction(call, tell, most_rows=most_rows, whole_rows=stands_for_row)


@contextmanager
def _told(refused: UnsupportedError) -> Iterator[None]:
    """Tell of what keeps extracts from being made why Spark does not compute the query, too."""
    try:
        yield
    except GatewayError as reason:
        reason.position = None  # that of other text
        if reason.sqlstate not in _REFUSALS:
            raise
        refused.detail = (
            f"{refused.detail or ''} Nor does PostgreSQL answer it over extracts: {reason}."
        ).strip()
        raise refused from reason


@dataclass(frozen=True, slots=True)
class _Place:
    """Where extracts are: a transaction of their own, else a savepoint of the client's."""

    call: Invocation
    isolation: Isolation | None
    """What the transaction would be by itself; None for a savepoint."""

    @property
    def is_own(self) -> bool:
        """Whether there is nothing else in the transaction."""
        return self.isolation is not None

    @property
    def is_read_only(self) -> bool:
        """Whether the query may write nothing."""
        return self.isolation is not None and self.isolation.is_read_only

    def leave(self, *, lasts: bool = False) -> None:
        """Let go of the extracts, and of what kept writers out of their tables.

        Args:
            lasts: Whether what else has been done stays; so do the locks.
        """
        transaction = self.call.session.catalog.transaction
        if self.isolation is None:
            end = transaction.release if lasts else transaction.abandon
            end(_SAVEPOINT)
        elif not lasts and self.isolation.name != session_state.SERIALIZABLE:
            undo(self.call)


@contextmanager
def _steady(call: Invocation) -> Iterator[_Place]:
    """Yield where all statements see one moment; nothing of it is left after a refusal.

    Raises:
        OutdatedPlanError: Definitions have changed, or a table has changed its tier.
    """
    session = call.session
    is_own = call.alone and (session.transaction.implicit or not session.transaction.open)
    if is_own and _SETTING_TELLING.isdisjoint(called_functions(call.query)):
        if session.transaction.open:
            undo(call)
        place = _Place(call, session.transaction.begin_steady())
    else:
        session.transaction.begin_implicit()
        session.catalog.transaction.savepoint(_SAVEPOINT)
        place = _Place(call, None)
    try:
        yield place
    except (OutdatedPlanError, UnsupportedError):
        place.leave()
        raise
    except (CatalogError, OutdatedAnswerError) as error:
        if isinstance(error, CatalogError) and error.sqlstate != OUTDATED:
            raise
        place.leave()
        raise OutdatedPlanError(error.message) from error


def _answered(call: Invocation, refused: UnsupportedError, place: _Place) -> StatementResult:
    """Answer a query; its rows are held when this returns."""
    session, made = call.session, _extraction(call)
    with _told(refused):
        plan = made.plan()
    if place.is_read_only:
        session_state.make_read_only(session.catalog)
    result = local_queries.run_in_place(call, plan)
    if not isinstance(result.stream, CatalogRows):
        raise TypeError(call.plan.route)
    result.stream.hold()
    result.prove()
    session.last_decision = f"{EXECUTORS[Route.EXTRACT]}: {REASON}"
    lasts = thawed_reads.has_effects(call)
    place.leave(lasts=lasts)
    if lasts and not place.is_own:
        made.drop()
    return replace(result, prove=lambda: None)
