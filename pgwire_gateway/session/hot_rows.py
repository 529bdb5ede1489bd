"""Statements on single rows of a tiered table that PostgreSQL runs as they came, on hot rows.

The session announces its write, the keys it can touch that are not hot yet are looked up and made
so, and the statement runs beside those of others. What it changes is captured. Above READ COMMITTED
the transaction makes them hot itself (:mod:`.own_hot_rows`).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from catalog import bookkeeping, hot_keys, session_state, sqlstate
from catalog.connections import Call
from catalog.errors import CatalogError, GatewayError, HotRowsError, OutdatedPlanError
from catalog.failpoints import Failpoint, reach
from catalog.hot_keys import Announcement, Reading, Thawed, Thawing, Unsearched, Writing
from catalog.results import LocalResult, Row
from catalog.steps import Execute, Query
from pgwire_gateway.session import (
    binding,
    forced,
    insert_sizes,
    own_hot_rows,
    router,
    source_rows,
    unwaited_rows,
)
from pgwire_gateway.session.announcements import (
    ATTEMPTS,
    NotHotError,
    announce,
    announce_insert,
    definitions_of,
    give_way,
    note_warm,
    thawing_of,
    undo,
)
from pgwire_gateway.session.arbiters import Arbiters
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.journal_writes import JournalWriter
from pgwire_gateway.session.needed_rows import (
    Finder,
    NeededRows,
    WantedRows,
    find,
    known_rows,
    needed_rows,
)
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.plans import EXECUTORS, Route
from pgwire_gateway.session.portals import NoRows, StatementResult, format_codes
from pgwire_gateway.session.results import CatalogRows, field_descriptions
from pgwire_gateway.session.source_rows import NO_ROWS, SourceRows, is_proved
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.session.text_rows import texts_of
from pgwire_gateway.session.thawing import probe, thaw
from rewrite.context import ParameterValue
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal
from rewrite.row_locks import row_locks, runs_once

_ROUTES: Final = frozenset({Route.CHANGE, Route.MERGE, Route.THAW, Route.INSERT, Route.READ})
"""Routes of statements that can be on single rows."""

_TOO_MANY: Final = "a condition that too many rows satisfy is not supported"


ATTEMPTS_WITH_SOURCES: Final = 10
"""How often while others write what tells its keys; in the latter half they have to wait."""


MOST_GUARDED: Final = 50
"""Statements of a transaction that have savepoints of their own.

Of more than 64 subtransactions PostgreSQL loses sight, and then everybody's snapshots cost more.
"""

REASON: Final = "single rows by key"

_SAVEPOINT: Final = "pgwire_hot_rows"

_NOT_OF_ROWS: Final = frozenset({"08", "40", "53", "54", "55", "57", "58", "XX"})
"""Classes of errors that tell nothing of the rows a statement has seen."""


def names_rows(call: Invocation) -> bool:
    """Return whether a statement names all rows that it can touch, not too many, by their keys."""
    try:
        needed = needed_rows(call)
        # What sources tell is read when the statement is run.
        return bool(needed.sources) or not needed.wanted(binding.bind(call)).conditions
    except Refusal:
        return False


def run(call: Invocation, finder: Finder = find) -> StatementResult:
    """Run a statement on rows that are named by their keys, or few; nothing is committed.

    Args:
        call: The statement.
        finder: What finds the rows that satisfy a condition.

    Raises:
        Refusal: They are neither.
        NotHotError: The table has to be locked for it.
        GatewayError: PostgreSQL's own errors.
    """
    needed, bound = needed_rows(call), binding.bind(call)
    relid, sources, thawing = needed.table.relid, NO_ROWS, thawing_of(call)
    arbiters = Arbiters(call, needed)
    for attempt in range(1, (ATTEMPTS_WITH_SOURCES if needed.sources else ATTEMPTS) + 1):
        began = not call.session.transaction.open
        if needed.sources and attempt > ATTEMPTS:
            call.session.transaction.begin_implicit()
            source_rows.hold(call, needed.sources)
        sources = source_rows.read(call, needed.sources, needed.most)
        wanted = arbiters.added(needed.wanted(bound, sources.contents))
        _require_worth_searching(call, relid, wanted)
        own = own_hot_rows.can_be(needed)
        writing = replace(_writing(call, needed, wanted), draws=needed.draws, own=own)
        searched = not all(_is_remembered(thawing, relid, known) for _, known in wanted.conditions)
        trial = partial(probe, call, needed, wanted, bound, finder)
        announced = announce(call, writing, began=began, searched=searched, probe=trial)
        if announced is None:
            continue
        reach(Failpoint.ANNOUNCED)
        if announced.own and unwaited_rows.leaves_some(call, needed):
            return _run_bounded(call, needed, wanted, bound, finder)
        thawed, few = thaw(call, needed, wanted, announced, bound, finder=finder, began=began)
        if thawed is Thawed.DONE:
            reach(Failpoint.THAWED)
            result = _proved(call, needed, sources, bound, arbiters, few=few, began=began)
            if result is not None:
                _note(call, needed, writing, announced)
                return result
        elif thawed is not Thawed.STALE:
            give_way(call, attempt, began=began)
    if sources.marks:
        raise source_rows.outdated()
    arbiters.give_up()
    raise NotHotError


def _note(call: Invocation, needed: NeededRows, writing: Writing, announced: Announcement) -> None:
    """Look for keys that a statement has drawn, and note that those it has named are hot."""
    if needed.draws:
        _require_new(call, writing.relid, announced)
    if not announced.own:
        expected = thawing_of(call).expected
        expected.note(writing.relid, writing.keys or (), were_hot=not announced.cold)


def _run_bounded(
    call: Invocation,
    needed: NeededRows,
    wanted: WantedRows,
    bound: tuple[ParameterValue, ...],
    finder: Finder,
) -> StatementResult:
    """Run a statement that has been announced, and that leaves some of its rows unlocked."""

    def once(rows: WantedRows) -> StatementResult:
        announced = announce(call, replace(_writing(call, needed, rows), own=True), began=False)
        if announced is None:
            raise NotHotError(by_snapshot=True)
        thaw(call, needed, rows, announced, bound, finder=finder, began=False)
        result, answers = _run(call, _afterwards(needed.table.relid, needed), began=False)
        return _kept(call, needed, result, answers)

    return unwaited_rows.run(call, needed, wanted, once)


def run_or_unlock(call: Invocation, finder: Finder) -> StatementResult:
    """Run a statement as `run` does; what it has locked is free again where that is not possible.

    Raises:
        Refusal: The rows are not named by their keys, nor few.
        NotHotError: They cannot be locked one by one.
        GatewayError: PostgreSQL's own errors.
    """
    session = call.session
    began = not session.transaction.open
    # Where all rows are known to be hot there is nothing to be tried.
    tries = not began and _expected(call) is None
    if tries:
        _run_own(session, f"SAVEPOINT {_SAVEPOINT}")
    try:
        done = run(call, finder)
    except (Refusal, NotHotError):
        if began:
            undo(call)
        elif tries:
            _run_own(session, f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
            _run_own(session, f"RELEASE SAVEPOINT {_SAVEPOINT}")
        raise
    if tries:
        _run_own(session, f"RELEASE SAVEPOINT {_SAVEPOINT}")
    return done


def _run_own(session: ClientSession, command: str) -> None:
    for _ in session.catalog.execute(command).rows:
        pass


def _require_worth_searching(call: Invocation, relid: int, wanted: WantedRows) -> None:
    """Leave rows of conditions to others where these do better.

    Raises:
        Refusal: They have been too many lately.
        NotHotError: Spark can change them as a whole, and writers of others would not wait.
    """
    thawing = thawing_of(call)
    if relid in call.session.transaction.newly_hot:
        return
    is_cold = wanted.conditions and call.plan.route is Route.CHANGE and not thawing.is_warm(relid)
    if is_cold and not session_state.keeps_snapshot(call.session.catalog):
        raise NotHotError(for_now=True)
    whole = (known for condition, known in wanted.conditions if condition.need.enough is None)
    if any(thawing.is_vain(relid, known) for known in whole):
        raise Refusal(_TOO_MANY)


def _proved(  # noqa: PLR0913 - what is known of the rows
    call: Invocation,
    needed: NeededRows,
    sources: SourceRows,
    bound: tuple[ParameterValue, ...],
    arbiters: Arbiters,
    *,
    few: Reading | None,
    began: bool,
) -> StatementResult | None:
    """Run a statement; None where it may see other keys than these, and nothing is done."""
    relid = needed.table.relid
    after = _afterwards(relid, needed)
    if not sources.marks and not needed.needs.arbitrates and few is None:
        result, answers = _run(call, after, began=began)
        return _kept(call, needed, result, answers)
    # Searching takes longer than a trip to the catalog, and sources may have changed meanwhile.
    latest = source_rows.read(call, needed.sources, needed.most)
    asked, hot = (needed.wanted(bound, s.contents) for s in (latest, sources))
    if not frozenset(asked.keys) <= frozenset(hot.keys) or asked.values != hot.values:
        return None
    written = [] if few is None else [hot_keys.written_since(relid, few)]
    proofs = [*written, *latest.calls()]
    with source_rows.undone(call, began=began) as attempt:
        result, answers = _run(call, [*after, *proofs], began=began)
        told, proved = answers[: len(after)], answers[len(after) :]
        is_alone = not any(map(hot_keys.is_written, proved[: len(written)]))
        if is_alone and latest.prove(proved[len(written) :]) and not arbiters.learn(told):
            attempt.keep()
            return _kept(call, needed, result, told)
    error = attempt.error
    if error is not None and arbiters.may_have_caused(error):
        raise arbiters.unknown(error)
    if error is not None and error.sqlstate[:2] in _NOT_OF_ROWS:
        raise error
    if error is not None and not _is_written(call, written) and is_proved(call, latest):
        raise error
    return None


def _is_written(call: Invocation, written: Sequence[Call]) -> bool:
    """Return whether others have written a table that few rows of were enough for a statement."""
    catalog = call.session.catalog
    return any(hot_keys.is_written(catalog.call(name, *values)) for name, values in written)


def _kept(
    call: Invocation, needed: NeededRows, result: StatementResult, answers: Sequence[bytes]
) -> StatementResult:
    """Return the result of a statement, unless the journal held unique values it has written.

    Its keys were known before, or are drawn, and looked for apart.
    """
    if answers:
        writer = JournalWriter(call.session, needed.table.relid, call.running)
        values = hot_keys.unsearched(answers[0]).values
        with own_hot_rows.conflicting(call, needed.table.relid, Unsearched([], 0, values)):
            writer.require_new_values(values)
    return result


def _require_new(call: Invocation, relid: int, announced: Announcement) -> None:
    """Refuse keys that were drawn while a statement ran, and that the journal holds (0A000).

    With these rows at hand PostgreSQL would have found a conflict. Run again, it draws other keys.
    """
    function, values = hot_keys.searching(relid, announced.mark)
    found = hot_keys.unsearched(call.session.catalog.call(function, *values))
    try:
        writer = JournalWriter(call.session, relid, call.running)
        writer.require_absent(found.keys, found.mark)
    except GatewayError as error:
        if error.sqlstate != sqlstate.UNIQUE_VIOLATION:
            raise
        raise UnsupportedError(
            "a conflict with a key that is known only when the statement runs is not supported",
            detail=error.detail,
        ) from error


def run_or_lock(call: Invocation) -> StatementResult | tuple[int, Observation]:
    """Run a statement as `run` does, or else lock the table it writes.

    Returns:
        Its result; or the version number to write and what is seen, as the table is locked.

    Raises:
        Refusal: The rows are not named by their keys, nor few.
        NotHotError: They cannot be locked, and are not to be waited for.
        GatewayError: PostgreSQL's own errors.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return run(call)
        except NotHotError as reason:
            locks = row_locks(call.query)
            if locks is not None and not locks.waits:
                raise
            # Others may have made rows hot meanwhile, who would have to wait for one that locks.
            cools = not reason.for_now or attempt == ATTEMPTS
        try:
            return Observer(call.session).observe_for_write(call.plan, cools=cools)
        except HotRowsError:
            call.session.transaction.settle()
            note_warm(call)
    raise NotHotError


def run_at_once(call: Invocation) -> StatementResult | None:
    """Run a statement in one trip, which commits where it is a transaction of its own.

    None where that is not possible, as rows are not hot, or where nothing is known of it yet:
    nothing has been done then.

    Raises:
        GatewayError: PostgreSQL's own errors.
    """
    plan, transaction = call.plan, call.session.transaction
    if plan.route not in _ROUTES or plan.basis is None or plan.seeks or plan.takes:
        return None
    if transaction.runs_nothing_at_once or not _is_utf8(call.session):
        return None
    # What is wrong with these is to be told before anything is committed.
    format_codes(call.result_formats, len(call.columns or ()))
    if plan.route is Route.INSERT:
        return None if transaction.open else _insert_alone(call)
    writing, needed = _expected(call), known_rows(call)
    if writing is None or needed is None:
        return None
    if not thawing_of(call).expected.are_hot(writing.relid, writing.keys or ()):
        return None
    after = _afterwards(writing.relid, needed)
    if not transaction.open:
        done = _alone(call, writing, after, commits=not after)
    else:
        # What this transaction has written before is not looked for again.
        done = None if after else _within(call, writing)
    return done and _kept(call, needed, *done)


def _afterwards(relid: int, needed: NeededRows) -> list[Call]:
    """Return the call that tells what is to be looked for once a statement on hot rows has run."""
    return [hot_keys.searching(relid, None)] if needed.needs.written else []


def _is_utf8(session: ClientSession) -> bool:
    return session.settings.get("client_encoding", "UTF8") == "UTF8"


def _expected(call: Invocation) -> Writing | None:
    """Return what a statement is to do with rows that are hot, as far as is known here."""
    needed, thawing = known_rows(call), thawing_of(call)
    if needed is None or needed.sources or needed.draws or needed.needs.arbitrates:
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
    return replace(_writing(call, needed, wanted), heats=heats)


def _is_remembered(thawing: Thawing, relid: int, condition: object) -> bool:
    return thawing.remembers(relid, thawing.heats(relid) or 0, condition)


def _writing(call: Invocation, needed: NeededRows, wanted: WantedRows) -> Writing:
    """Return what a statement is going to do with hot rows."""
    texts = tuple(texts_of(needed.table, key) for key in wanted.keys)
    return Writing(needed.table.relid, texts, call.plan.locks is not None)


def insert(call: Invocation) -> StatementResult:
    """Run an INSERT of few rows that PostgreSQL can evaluate; nothing is committed.

    Raises:
        NotHotError: The table has to be locked for it.
        GatewayError: PostgreSQL's own errors.
    """
    own, began = not forced.is_forced(call.plan), not call.session.transaction.open
    writing = Writing(call.target, own=own)
    if thawing_of(call).is_never(writing.relid, definitions_of(call)):
        raise NotHotError
    announced = announce_insert(call, writing, began=began)
    done = _run(call, [hot_keys.searching(writing.relid, announced.mark)], began=began)
    return _searched(call, writing, *done)


def _insert_alone(call: Invocation) -> StatementResult | None:
    writing, thawing = Writing(call.target), thawing_of(call)
    if not thawing.is_warm(writing.relid) or not insert_sizes.is_small(call):
        return None
    done = _alone(call, writing, [hot_keys.searching(writing.relid, None)])
    if done is None:
        return None
    return _searched(call, writing, *done)


def _searched(
    call: Invocation, writing: Writing, result: StatementResult, answers: Sequence[bytes]
) -> StatementResult:
    """Return the result of a statement, unless the journal held one of its new keys before."""
    if answers:
        writer = JournalWriter(call.session, writing.relid, call.running)
        written = hot_keys.unsearched(answers[0])
        with own_hot_rows.conflicting(call, writing.relid, written):
            writer.require_kept(written)
    return result


def _within(call: Invocation, writing: Writing) -> tuple[StatementResult, list[bytes]] | None:
    """Run a statement of an open transaction in the hope that all rows are hot; else None."""
    transaction = call.session.transaction
    transaction.guarded += 1
    if transaction.guarded == MOST_GUARDED:
        transaction.runs_nothing_at_once = True
    try:
        before = [writing.announced(strict=True)]
        done = _run(call, before=before, began=False, guarded=True)
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
        done = _run(call, after, before=before, began=True, commits=commits)
    except OutdatedPlanError:
        session.transaction.settle()
        return None
    except CatalogError as error:
        if error.sqlstate != bookkeeping.NOT_HOT:
            raise
        session.transaction.settle()
        thawing_of(call).expected.forget(writing.relid, writing.keys or ())
        return None
    if commits:
        session.transaction.settle()
    return done


def _run(  # noqa: PLR0913 - what goes along with it
    call: Invocation,
    after: Sequence[Call] = (),
    *,
    before: Sequence[Call] = (),
    began: bool,
    commits: bool = False,
    guarded: bool = False,
) -> tuple[StatementResult, list[bytes]]:
    """Run the statement; return its result and the answers of calls after it."""
    returned, result, answers = call.session.catalog.run_between(
        step(call),
        router.named(call.statement),
        call.plan.basis,
        began=began,
        before=before,
        after=after,
        commits=commits,
        guarded=guarded,
    )
    if result is None:
        raise TypeError(call.plan.route)
    reach(Failpoint.RUN)
    inserts = call.plan.route is Route.INSERT
    by_key = f"{EXECUTORS[Route.THAW]}: {REASON}"
    call.session.last_decision = call.plan.decision if inserts else by_key
    return result_of(call, returned, result), answers[len(before) :]


def step(call: Invocation) -> Query | Execute:
    """Return the statement as PostgreSQL runs it."""
    code = call.catalog_format
    tree = call.plan.analysis and call.plan.analysis.tree
    once = "ROWMARKCLAUSE" in (tree or "") and runs_once(call.plan.locking or call.query)
    # A plan that is kept has been made before.
    if call.plan.prepared and not once:
        return Execute(call.plan.prepared, call.values, call.formats, code)
    oids = call.parameter_oids
    return Query(
        call.statement.text, call.values, oids, call.formats, code, nested_loops=not once
    )


def result_of(call: Invocation, returned: list[Row], result: LocalResult) -> StatementResult:
    """Return what a statement that PostgreSQL has run says."""
    tag = result.command_tag or ""
    if call.columns is None:
        return StatementResult(None, NoRows(), lambda _: tag)
    columns = field_descriptions(call.columns, call.result_formats)
    types = [column.type_oid for column in call.columns]
    codes = format_codes(call.result_formats, len(types))
    verb = tag.rpartition(" ")[0]
    return StatementResult(
        columns, CatalogRows(returned, types, codes), lambda taken: f"{verb} {taken}"
    )
