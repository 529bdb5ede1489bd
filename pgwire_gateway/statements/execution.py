"""Run a planned statement: the one place that leads it to PostgreSQL, to Spark or to a command."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from catalog.bookkeeping.calls import OUTDATED
from catalog.errors import (
    CatalogError,
    GatewayError,
    OutdatedPlanError,
    OutdatedSnapshotError,
    OutdatedTransactionError,
)
from catalog.session import journal_names, names
from catalog.statements.splitting import Statement, StatementKind, split
from pgwire_gateway.dml import (
    applied_changes,
    changes,
    external_writes,
    extracted_reads,
    extracted_writes,
    inserts,
    large_inserts,
    partitions,
)
from pgwire_gateway.hot import hot_rows, single_trips
from pgwire_gateway.partitions import partitioned_writes, upserted_leaves
from pgwire_gateway.planning import own_statements, router
from pgwire_gateway.planning.plans import Plan, Route
from pgwire_gateway.references import parents
from pgwire_gateway.references import taking_away as references
from pgwire_gateway.session import local_queries, replanning
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import Portal, StatementResult
from pgwire_gateway.session.state import (
    ClientSession,
    position_error,
    require_not_failed,
)
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.statements import (
    commands,
    created_tables,
    cursor_commands,
    explaining,
    own_answers,
    prepared_statements,
)
from pgwire_gateway.tables import (
    archiving,
    conversions,
    divisions,
    registered_schemas,
    registrations,
    spark_tables,
)
from pgwire_gateway.wire_types.client_encodings import require_convertible
from rewrite.errors import (
    UnsupportedCollationError,
    UnsupportedFunctionError,
)

logger = logging.getLogger(__name__)


def execute(  # noqa: PLR0913 - a portal has this many parts
    session: ClientSession,
    plan: Plan,
    values: Sequence[bytes | None] = (),
    formats: Sequence[int] = (),
    result_formats: Sequence[int] = (),
    *,
    alone: bool = True,
    running: RunningStatement | None = None,
) -> StatementResult:
    """Run a statement; see :class:`Invocation` for the arguments.

    One that is part of another one is what is `running` already: they are cancelled together.

    Raises:
        GatewayError: Whatever went wrong, with PostgreSQL's SQLSTATE.
    """
    require_not_failed(session, plan.statement)
    if plan.statement.kind is StatementKind.SET:
        session.shortcuts.read_committed = False
    if journal_names.sets_lists(plan.statement):
        session.shortcuts.clear()
        session.passages.clear()
    if running is None:
        # What was looked after before is over, or waits: nothing limits the time until it goes on.
        session.finish_watch()
    session.running = running = running or RunningStatement()
    call = Invocation(session, plan, running, values, formats, result_formats, alone)
    try:
        with own_statements.refused_elsewhere(plan.statement):
            return _dispatch(call)
    except UnsupportedCollationError as error:
        raise error.named(names.collation(session.catalog, error.oid)) from error
    except UnsupportedFunctionError as error:
        raise error.named(names.function(session.catalog, error.oid)) from error
    except GatewayError as error:
        if plan.named is not None:
            plan.named.translate(error)
        raise position_error(error, plan.statement) from error
    finally:
        if plan.statement.kind is not StatementKind.TRANSACTION:
            session.transaction.note_run()


def begin(
    session: ClientSession, portal: Portal, plan: Plan, *, alone: bool = False
) -> StatementResult:
    """Run the statement of a portal, whose rows can be taken then.

    Raises:
        GatewayError: As of `execute`.
    """
    if portal.unreadable is not None:
        raise portal.unreadable
    current = session.statements.get(portal.statement.name)
    is_there = current is not None and current.plan and current.plan.source is plan.source
    name = ""
    if plan.prepared and not is_there:
        # What is bound outlives its statement, whose name may be another one's by now.
        name = session.prepared_name("")
        oids = plan.analysis.parameter_oids if plan.analysis else ()
        with session.planning():
            plan = router.plan(session.catalog, plan.source, oids, name)
    try:
        portal.result = execute(
            session,
            plan,
            portal.parameters,
            portal.parameter_formats,
            portal.result_formats,
            alone=alone,
        )
    finally:
        if name:
            session.catalog.analyses.deallocate_later(name)
    portal.running = session.running
    return portal.result


def _dispatch(call: Invocation) -> StatementResult:
    around = _AROUND_STATEMENTS.get(call.statement.kind)
    if around is not None:
        return around(call)
    composed = _composed(call.statement)
    if composed is not None:
        return composed(call, partial(_execute_within, call))
    if call.plan.route is Route.COMMAND:
        return commands.run(call)
    if not call.alone and not cursor_commands.needs_block(call.statement):
        call.session.transaction.begin_implicit()
    if call.statement.kind in cursor_commands.KINDS:
        if call.session.fetched(call.plan) is not None:
            require_convertible(call.session.encoding)
        done = cursor_commands.run(call, begin)
        if done is not None:
            return done
    is_own = not call.session.transaction.open
    done = single_trips.run_at_once(call) if not call.plan.trees else None
    if done is not None:
        return done
    is_guarded = not is_own and _guard(call)
    return _run_as_defined(_known(call, is_own=is_own), is_own=is_own, is_guarded=is_guarded)


def _known(call: Invocation, *, is_own: bool) -> Invocation:
    """Plan a statement again that would not find out whether its plan still holds."""
    plan = call.plan
    if plan.trees or plan.basis == replanning.NEVER:
        return replanning.refreshed(call)
    # What only reads finds it out by what it sees.
    if plan.only_reads:
        return call
    if is_own and hot_rows.finds_out(call):
        return replace(call, finds_out=True)
    return replanning.refreshed(call)


def _guard(call: Invocation) -> bool:
    """Guard a later statement of a block that may find out that its plan is outdated.

    That fails whatever has been done since a savepoint.
    """
    session, plan = call.session, call.plan
    is_first = session.transaction.beginning is not None
    if is_first or plan.only_reads or plan.route in {Route.CATALOG, Route.OWN}:
        return False
    if not session.transaction.may_guard():
        return False
    session.catalog.transaction.guard()
    return True


def _run_as_defined(call: Invocation, *, is_own: bool, is_guarded: bool) -> StatementResult:
    """Run a statement, which is planned again as often as definitions change.

    Args:
        call: The statement.
        is_own: Whether the transaction is for this statement, and can be begun again.
        is_guarded: Whether it can be taken back.
    """
    session = call.session
    beginning = session.transaction.beginning
    for attempt in range(1, replanning.ATTEMPTS + 1):
        if call.plan.route is Route.CATALOG and call.plan.replaceable:
            call = replanning.locked(call)
        try:
            result = _run(call)
        except GatewayError as error:
            if not _is_undone(session, error, beginning, is_own=is_own, is_guarded=is_guarded):
                raise
        else:
            if is_guarded:
                session.catalog.transaction.let_stand()
            return result
        session.finish_watch()
        session.transaction.settle()
        reads = call.plan.only_reads or call.plan.route in {Route.EXPLAIN, Route.CURSOR}
        if reads and attempt >= replanning.UNLOCKED_ATTEMPTS:
            session.transaction.begin_implicit()
        if is_guarded:
            session.catalog.transaction.guard()
        call = replanning.planned_again(call)
    raise replanning.outdated_too_often()


def _is_undone(
    session: ClientSession,
    error: GatewayError,
    beginning: str | None,
    *,
    is_own: bool,
    is_guarded: bool,
) -> bool:
    """Undo what an outdated statement has done; return whether it can be run again."""
    if isinstance(error, OutdatedSnapshotError):
        return session.transaction.begin_again(session.transaction.beginning)
    # The code itself is a guard's word: the table has become tiered meanwhile.
    has_done = isinstance(error, OutdatedTransactionError) or (
        isinstance(error, CatalogError) and error.sqlstate == OUTDATED
    )
    if not has_done and not isinstance(error, OutdatedPlanError):
        return False
    if is_guarded:
        session.catalog.transaction.take_back()
        return True
    if has_done and is_own:
        session.catalog.transaction.rollback()
        return True
    # Nobody has seen anything of a transaction that is at its first statement.
    return not has_done or session.transaction.begin_again(beginning, replanning.ATTEMPTS)


def _composed(statement: Statement) -> Callable[..., StatementResult] | None:
    """Return what runs a statement that is made of others; None for one that is not."""
    if statement.kind is StatementKind.CREATE_TABLE_USING:
        return spark_tables.create
    return next((run for applies, run in _COMPOSED if applies(statement)), None)


_COMPOSED: Final[tuple[tuple[Callable[[Statement], bool], Callable[..., StatementResult]], ...]] = (
    (registrations.applies, registrations.register),
    (registered_schemas.applies, registered_schemas.register),
    (archiving.applies, archiving.archive),
    (divisions.applies, divisions.partition_by),
    (conversions.applies, conversions.convert),
)


def _execute_within(
    call: Invocation, text: str, place: Callable[[int], int] | None = None
) -> StatementResult:
    """Run a statement that is part of another one, in the same transaction.

    Args:
        call: The other one.
        text: The statement.
        place: Tells where in the other one a position of the statement is, which errors lack else.
    """
    session = call.session
    # The transaction cannot be begun again without what came before.
    session.transaction.note_run()
    call.running.check()
    try:
        plan = router.plan(session.catalog, split(text)[0], (), "")
        return execute(session, plan, alone=False, running=call.running)
    except GatewayError as error:
        error.position = place(error.position) if place and error.position else None
        raise


def _create_table_as(call: Invocation) -> StatementResult:
    """Create a table of what a query yields."""
    return created_tables.create(call, _execute_in_place, partial(_execute_within, call))


def _execute_named(call: Invocation) -> StatementResult:
    """Run what EXECUTE names."""
    return prepared_statements.execute(call, _execute_in_place)


def _execute_in_place(call: Invocation) -> StatementResult:
    """Run a statement that another one stands for."""
    return execute(
        call.session,
        call.plan,
        call.values,
        call.formats,
        call.result_formats,
        alone=call.alone,
        running=call.running,
    )


def _run(call: Invocation) -> StatementResult:
    return large_inserts.run(call, _run_planned)


def _run_planned(call: Invocation) -> StatementResult:
    session, is_tree = call.session, bool(call.plan.trees)
    call = partitions.narrowed(call)
    done = single_trips.run_at_once(call) if is_tree and not call.plan.leaves else None
    if done is not None:
        return done
    if call.plan.route is not Route.OWN:
        session.last_decision = (call.plan.explained or call.plan).decision
        logger.debug("%s: %s", session.last_decision, call.statement.text)
    if call.plan.route not in {Route.CATALOG, Route.OWN}:
        require_convertible(session.encoding)
        if not call.plan.only_reads and not call.finds_out:
            session.watch(call.running, call.statement.text, call.limits or call.plan.limits)
    return _performed(call)


def _performed(call: Invocation) -> StatementResult:
    """Run a statement by its route; see to what references its rows, and what they reference."""
    takes = call.plan.takes and call.plan.route is not Route.REFERENCED
    result = references.run_tiered(call, _routed) if takes else _routed(call)
    if call.plan.seeks:
        parents.confirm(_with_extracts(call))
    return result


def _with_extracts(call: Invocation) -> Invocation:
    """Return a statement that has run, with what its names stand for beside its extracts.

    The first temporary table of a session brings a schema to be looked into.
    """
    plan = call.plan
    if plan.route not in _OVER_EXTRACTS:
        return call
    now = router.basis(call.session.catalog, plan.statement)
    return replace(call, plan=replace(plan, basis=now))


_OVER_EXTRACTS: Final = frozenset({Route.EXTRACT, Route.FILL, Route.INSERT_QUERY})
"""Routes of statements that may make temporary tables."""


def _routed(call: Invocation) -> StatementResult:
    if call.plan.leaves is not None:
        return partitioned_writes.run(call)
    if not call.plan.is_external:
        return ROUTES[call.plan.route](call)
    external_writes.require_allowed(call)
    result = ROUTES[call.plan.route](call)
    external_writes.append(call, call.target)
    return result


def _explain(call: Invocation) -> StatementResult:
    """Tell how a statement would be run; ANALYZE runs it as it would be by itself."""
    return explaining.explain(prepared_statements.explained(call), _performed)


def _answer(call: Invocation) -> StatementResult:
    """Answer a statement about the gateway itself, with statements of its own where these help."""
    return own_answers.answer(call, partial(_execute_within, call))


_AROUND_STATEMENTS: Final[Mapping[StatementKind, Callable[[Invocation], StatementResult]]] = {
    StatementKind.CREATE_TABLE_AS: _create_table_as,
    StatementKind.SELECT_INTO: _create_table_as,
    StatementKind.EXECUTE: _execute_named,
}
"""What runs a statement that is about another one."""


ROUTES = {
    Route.CATALOG: local_queries.run,
    Route.REFERENCED: references.run,
    Route.CURSOR: cursor_commands.declare,
    Route.EXPLAIN: _explain,
    Route.OWN: _answer,
    Route.READ: extracted_reads.read,
    Route.INSERT: inserts.insert,
    Route.INSERT_QUERY: extracted_writes.insert,
    Route.FILL: extracted_writes.fill,
    Route.EXTRACT: extracted_writes.run,
    Route.APPLY: applied_changes.run,
    Route.CHANGE: changes.change,
    Route.MERGE: changes.merge,
    Route.THAW: upserted_leaves.run_alone,
}
"""What executes each route."""
