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
from catalog.errors import CatalogError, OutdatedAnswerError, OutdatedPlanError
from catalog.session import session_state
from catalog.session.session_state import Isolation
from catalog.statements.splitting import Statement
from pgwire_gateway.dml import extracts, reads, thawed_reads
from pgwire_gateway.dml.extract_bounds import ExtractSize
from pgwire_gateway.dml.extraction import Extraction, Tell
from pgwire_gateway.hot.announcements import undo
from pgwire_gateway.planning import forced
from pgwire_gateway.planning.plans import EXECUTORS, Plan, Route
from pgwire_gateway.session import local_queries
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.session.results import CatalogRows
from rewrite.command import called_functions, functions_named
from rewrite.errors import UnsupportedError

REASON: Final = "Spark cannot compute the whole query"
"""Why PostgreSQL answers, for people."""

_SAVEPOINT: Final = "pgwire_read"

_SETTING_TELLING: Final = functions_named("current_setting")
"""These tell how a transaction is isolated."""


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
    with over_extracts(call, refused) as plan:
        result = local_queries.run_in_place(call, plan)
        if not isinstance(result.stream, CatalogRows):
            raise TypeError(call.plan.route)
        result.stream.hold()
        result.prove()
    return replace(result, prove=lambda: None)


def spliced(around: Statement, query: str) -> str:
    """Return the text of a statement around a query with another query in it."""
    piece, text = around.details["query"], around.text
    return f"{text[: piece.offset]}{query}\n{text[piece.offset + len(piece.text) :]}"


@contextmanager
def over_extracts(
    call: Invocation,
    refused: UnsupportedError,
    tell: Tell | None = None,
    *,
    stay: bool = False,
) -> Iterator[Plan]:
    """Plan a SELECT over extracts, which last as long as the context.

    Args:
        call: The query.
        refused: Why Spark does not compute it.
        tell: Told of each extract, in place of filling it.
        stay: Whether the extracts, and what else is done meanwhile, last until the transaction
            ends.

    Raises:
        UnsupportedError: As of `read`.
    """
    if call.plan.locks is not None or forced.is_forced(call.plan):
        raise refused
    with _steady(call) as place:
        made = Extraction(call, tell, most=ExtractSize.most(call.services.config))
        with extracts.told(refused):
            plan = made.plan()
        call.session.last_decision = f"{EXECUTORS[Route.EXTRACT]}: {REASON}"
        if place.is_read_only:
            session_state.make_read_only(call.session.catalog)
        yield plan
        lasts = stay or (tell is None and thawed_reads.has_effects(call))
        place.leave(lasts=lasts)
        if lasts and not place.is_own and not stay:
            made.drop()


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
