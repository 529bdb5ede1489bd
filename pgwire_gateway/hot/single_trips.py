"""Statements on hot rows in one trip to the catalog, where all rows are known to be hot already."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.calls import Call
from catalog.errors import CatalogError, OutdatedPlanError
from catalog.hot import hot_keys
from catalog.hot.hot_keys import Writing
from catalog.pg.text_codecs import codec_of
from pgwire_gateway.hot import insert_sizes
from pgwire_gateway.hot.announcements import definitions_of, thawing_of
from pgwire_gateway.hot.hot_runs import (
    afterwards,
    commits_apart,
    kept,
    may_commit,
    run,
    searched,
    writing_of,
)
from pgwire_gateway.planning.plans import Route
from pgwire_gateway.rows.needed_rows import known_rows
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.session.state import ClientSession
from rewrite.needs.results import Refusal

ROUTES: Final = frozenset({Route.CHANGE, Route.MERGE, Route.THAW, Route.INSERT, Route.READ})
"""Routes of statements that can be on single rows."""


def run_at_once(call: Invocation) -> StatementResult | None:
    """Run a statement in one trip, which commits where it is a transaction of its own.

    None where that is not possible, as rows are not hot, or where nothing is known of it yet:
    nothing has been done then.

    Raises:
        GatewayError: PostgreSQL's own errors.
    """
    plan, transaction = call.plan, call.session.transaction
    if plan.route not in ROUTES or plan.basis is None or plan.seeks or plan.takes:
        return None
    _read_tail_before(call)
    # Rows that nobody locks may go cold before they are read.
    if plan.only_reads or transaction.runs_nothing_at_once or not _is_read(call.session):
        return None
    if plan.route is Route.INSERT:
        return None if transaction.open else _insert_alone(call)
    writing, needed = expected(call), known_rows(call)
    if writing is None or needed is None:
        return None
    if not thawing_of(call).expected.are_hot(writing.relid, writing.keys or ()):
        return None
    after = afterwards(needed)
    if not transaction.open:
        done = _alone(call, writing, after, commits=not after and may_commit(call))
    else:
        # What this transaction has written before is not looked for again.
        done = None if after else _within(call, writing)
    return done and kept(call, needed, *done)


def _read_tail_before(call: Invocation) -> None:
    """Have the tail at hand that a statement of its own transaction looks into when it has written.

    Nothing is done where its table is not what it was: that is found out by who runs it.
    """
    session, relid = call.session, call.plan.target
    if relid is None or session.transaction.open:
        return
    if session.services.tails.take_outdated(session.database, relid):
        with suppress(OutdatedPlanError):
            Observer(session).observe([relid])


def expected(call: Invocation) -> Writing | None:
    """Return what a statement is to do with rows that are hot, as far as is known here."""
    needed, thawing = known_rows(call), thawing_of(call)
    if (
        needed is None
        or needed.further
        or needed.trees
        or needed.sources
        or needed.draws
        or needed.needs.arbitrates
    ):
        return None
    if not thawing.is_warm(needed.table.relid):
        return None
    relid = needed.table.relid
    try:
        wanted = needed.wanted(binding.bind(call))
    except Refusal:
        return None
    if wanted.values:
        return None
    heats = thawing.heats(relid) if wanted.conditions else None
    if not all(thawing.remembers(relid, heats or 0, known) for _, known in wanted.conditions):
        return None
    return replace(writing_of(call, needed, wanted.keys), heats=heats)


def _insert_alone(call: Invocation) -> StatementResult | None:
    writing, thawing = Writing(call.target), thawing_of(call)
    is_warm = thawing.is_warm(writing.relid) and not thawing.is_changed(
        writing.relid, in_block=False
    )
    if not is_warm or not insert_sizes.is_small(call):
        return None
    # Rows without a key are looked for nowhere.
    unkeyed = thawing.is_unkeyed(writing.relid, definitions_of(call))
    after = [] if unkeyed else [hot_keys.searching(writing.relid, None)]
    done = _alone(call, writing, after, commits=not after and may_commit(call))
    if done is None:
        return None
    return searched(call, writing, *done)


def _within(call: Invocation, writing: Writing) -> tuple[StatementResult, list[bytes]] | None:
    """Run a statement of an open transaction in the hope that all rows are hot; else None."""
    transaction = call.session.transaction
    if not transaction.may_guard():
        return None
    try:
        before = [writing.announced(strict=True)]
        done = run(call, before=before, began=False, guarded=True)
    except OutdatedPlanError:
        return None
    except CatalogError as error:
        if error.sqlstate != bookkeeping.NOT_HOT:
            raise
        transaction.runs_nothing_at_once = True
        return None
    transaction.written.add(writing.relid)
    return done


def _alone(
    call: Invocation, writing: Writing, after: Sequence[Call] = (), *, commits: bool = False
) -> tuple[StatementResult, list[bytes]] | None:
    """Run a statement that is a transaction, in the hope that all rows are hot; else None."""
    session = call.session
    session.transaction.expect_implicit()
    session.transaction.written.add(writing.relid)
    try:
        before = [writing.announced(strict=True)]
        done = run(call, after, before=before, began=True, commits=commits)
    except OutdatedPlanError:
        session.transaction.settle()
        return None
    except CatalogError as error:
        if commits and commits_apart(call, error):
            return None
        if error.sqlstate != bookkeeping.NOT_HOT:
            raise
        session.transaction.settle()
        thawing_of(call).expected.forget(writing.relid, writing.keys or ())
        return None
    if commits:
        session.transaction.settle()
    return done


def _is_read(session: ClientSession) -> bool:
    """Return whether values that are bound can be read, in whatever encoding they are."""
    return session.encoding != "SQL_ASCII" and codec_of(session.encoding) is not None
