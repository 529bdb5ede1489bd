"""Statements on single rows of a tiered table that PostgreSQL runs as they came, on hot rows.

The session announces its write, the keys it can touch that are not hot yet are looked up and made
so, and the statement runs beside those of others. What it changes is captured. Above READ COMMITTED
the transaction makes them hot itself (:mod:`.own_hot_rows`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from catalog.bookkeeping.calls import Call
from catalog.errors import CatalogError, HotRowsError
from catalog.failpoints import Failpoint, reach
from catalog.hot import hot_keys
from catalog.hot.hot_keys import Announcement, Thawed, Writing
from catalog.pg import sqlstate
from catalog.session import session_state
from pgwire_gateway.hot import further_rows, hot_runs, own_hot_rows, single_trips, unwaited_rows
from pgwire_gateway.hot.announcements import (
    ATTEMPTS,
    NotHotError,
    Probe,
    announce,
    announce_cold,
    announce_insert,
    announcing_leaves,
    definitions_of,
    give_way,
    has_locked,
    note_warm,
    require_insertable,
    thawing_of,
    undo,
)
from pgwire_gateway.hot.hot_runs import afterwards, kept, searched, writing_of
from pgwire_gateway.hot.late_rows import LateRows
from pgwire_gateway.hot.thawing import Sufficiency, probe, remembers_all, require_not_vain, thaw
from pgwire_gateway.planning import forced
from pgwire_gateway.planning.plans import Route, WrittenLeaves
from pgwire_gateway.rows import source_rows
from pgwire_gateway.rows.needed_rows import NeededRows, WantedRows, known_rows, needed_rows
from pgwire_gateway.rows.row_search import Finder, find
from pgwire_gateway.rows.source_rows import NO_ROWS, SourceRows, is_proved
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.old_snapshots import before_running
from pgwire_gateway.session.portals import StatementResult
from rewrite.context import ParameterValue
from rewrite.needs.results import Refusal
from rewrite.row_locks import row_locks

ATTEMPTS_OF_SEVERAL: Final = 10
"""How often one on several tables is begun, one whose keys others write, or one that takes rows of
a queue.

Who writes what tells its keys has to wait in the latter half. Of a queue more rows become hot each
time.
"""


_SAVEPOINT: Final = "pgwire_hot_rows"

_NOT_OF_ROWS: Final = frozenset({"08", "40", "53", "54", "55", "57", "58", "XX"})
"""Classes of errors that tell nothing of the rows a statement has seen."""


def names_rows(call: Invocation, *, by_others: bool = True) -> bool:
    """Return whether a statement names all rows that it can touch, not too many, by their keys.

    Args:
        call: The statement.
        by_others: Whether keys count that rows of other tables tell when it is run.
    """
    try:
        needed = needed_rows(call)
        parts, bound = (needed, *needed.further), binding.bind(call)
        if any(part.sources for part in parts):
            return by_others
        return not any(part.wanted(bound).conditions for part in parts)
    except Refusal:
        return False


def run(call: Invocation, finder: Finder = find) -> StatementResult:
    """Run a statement on rows that are named by their keys, or few.

    It is committed where it is a transaction of its own, and nothing is to be looked at after it.

    Args:
        call: The statement.
        finder: What finds the rows that satisfy a condition.

    Raises:
        Refusal: They are neither.
        NotHotError: The table has to be locked for it.
        GatewayError: PostgreSQL's own errors.
    """
    needed, sources = needed_rows(call), NO_ROWS
    own_hot_rows.require_possible(call, needed)
    asked, late = needed.all_sources, LateRows(call, needed)
    is_long = asked or needed.further or needed.is_queue
    attempt, attempts = 1, ATTEMPTS_OF_SEVERAL if is_long else ATTEMPTS
    while attempt <= attempts:
        began = not call.session.transaction.open
        if asked and attempt > ATTEMPTS:
            call.session.transaction.begin_implicit()
            source_rows.hold(call, asked)
        sources = source_rows.read(call, asked, needed.most)
        result = _tried(call, needed, sources, late, finder=finder, attempt=attempt, began=began)
        if result is not None:
            return result
        if not late.has_learned():
            attempt += 1
    if sources.marks:
        raise source_rows.outdated()
    late.give_up()
    if needed.is_queue and not needed.further:
        raise Refusal("locking so many of more rows than may be hot")
    raise NotHotError(for_now=bool(needed.further))


def _tried(  # noqa: PLR0913 - what is known of the rows
    call: Invocation,
    needed: NeededRows,
    sources: SourceRows,
    late: LateRows,
    *,
    finder: Finder,
    attempt: int,
    began: bool,
) -> StatementResult | None:
    """Make what a statement needs hot, and run it; None where that is to be tried again."""
    relid, bound = needed.table.relid, binding.bind(call)
    further_rows.require_possible(call, needed)
    wanted = late.added(needed, needed.wanted(bound, sources.contents))
    _require_worth_searching(call, relid, wanted, began=began)
    own = needed.takes and own_hot_rows.can_be(needed)
    writing = replace(writing_of(call, needed, wanted.keys), draws=needed.draws, own=own)
    searched = not remembers_all(call, relid, wanted)

    def trial() -> None:
        probe(call, needed, wanted, bound, finder)
        further_rows.probe_all(call, needed, bound, sources.contents)

    probing = Probe(trial, always=bool(wanted.conditions) and not began)
    observation: Observation | None = None
    with before_running():
        # What others have found out meanwhile changes nothing of what this one does first.
        named = not wanted.conditions and not wanted.values
        if call.finds_out or (named and _is_cold(call, writing)):
            announced, observation = announce_cold(
                call, writing, wanted.keys, began=began, probe=probing
            )
        else:
            announced = announce(call, writing, began=began, searched=searched, probe=probing)
    if announced is None:
        return None
    reach(Failpoint.ANNOUNCED)
    if announced.own and unwaited_rows.leaves_some(call, needed):
        return _run_bounded(call, needed, wanted, bound, finder)
    thawed, enough = thaw(
        call,
        needed,
        wanted,
        announced,
        bound,
        finder=finder,
        began=began,
        attempt=attempt,
        seen=observation,
    )
    if thawed is not Thawed.DONE:
        if thawed is not Thawed.STALE:
            give_way(call, attempt, began=began)
        return None
    reach(Failpoint.THAWED)
    others = further_rows.heat(
        call, needed, bound, sources.contents, late, began=began, attempt=attempt
    )
    if others is None:
        return None
    late_calls = late.calls({relid: announced.mark, **others.marks})
    seen = Seen(sources, [*enough, *others.enough], late_calls)
    result = _proved(call, needed, bound, seen, late, began=began)
    if result is not None:
        _note(call, writing, announced)
    return result


def finds_out(call: Invocation) -> bool:
    """Return whether a statement finds out by the first thing it does whether its plan still holds.

    It announces a write of rows of which one is probably cold. An INSERT looks for its keys later.
    """
    plan = call.plan
    others = plan.seeks or plan.takes or plan.is_external or plan.leaves is not None
    if plan.basis is None or plan.route not in single_trips.ROUTES - {Route.INSERT} or others:
        return False
    writing = single_trips.expected(call)
    return writing is not None and writing.heats is None and _is_cold(call, writing)


def _is_cold(call: Invocation, writing: Writing) -> bool:
    """Return whether one of the rows that a statement names by their keys is probably cold."""
    if not writing.keys:
        return False
    thawing = thawing_of(call)
    is_warm = thawing.is_warm(writing.relid)
    return is_warm and not thawing.expected.are_hot(writing.relid, writing.keys)


def _note(call: Invocation, writing: Writing, announced: Announcement) -> None:
    """Note that the keys a statement has named are hot."""
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
    call.session.transaction.note_run()

    def once(rows: WantedRows) -> StatementResult:
        announced = announce(
            call, replace(writing_of(call, needed, rows.keys), own=True), began=False
        )
        if announced is None:
            raise NotHotError(by_snapshot=True)
        thaw(call, needed, rows, announced, bound, finder=finder, began=False)
        result, answers = hot_runs.run(call, afterwards(needed), began=False)
        return kept(call, needed, result, answers)

    return unwaited_rows.run(call, needed, wanted, once)


def probe_all(call: Invocation) -> None:
    """Find the rows that a statement needs, to know that it can be done.

    Raises:
        Refusal: They are too many, or Spark has to read the files.
        UnsupportedError: Spark cannot find them.
    """
    needed, bound = needed_rows(call), binding.bind(call)
    contents = source_rows.read(call, needed.all_sources, needed.most).contents
    probe(call, needed, needed.wanted(bound, contents), bound, find)
    further_rows.probe_all(call, needed, bound, contents)


def run_or_unlock(call: Invocation, finder: Finder) -> StatementResult:
    """Run a statement as `run` does; what it has locked is free again where that is not possible.

    Raises:
        Refusal: The rows are not named by their keys, nor few.
        NotHotError: They cannot be locked one by one.
        GatewayError: PostgreSQL's own errors.
    """
    return or_unlock(call, lambda: run(call, finder))


def or_unlock(call: Invocation, attempt: Callable[[], StatementResult]) -> StatementResult:
    """Return the result of an attempt; what it has locked is free again where there is none.

    It may be given up until the statement itself has been run, not afterwards.

    Raises:
        Refusal: As of the attempt.
        NotHotError: As of the attempt.
        GatewayError: PostgreSQL's own errors.
    """
    transaction = call.session.catalog.transaction
    began = not call.session.transaction.open
    # Where all rows are known to be hot there is nothing to be tried.
    if not began and single_trips.expected(call) is None:
        transaction.savepoint(_SAVEPOINT)
    try:
        done = attempt()
    except (Refusal, NotHotError):
        if began:
            undo(call)
        elif transaction.has_savepoint(_SAVEPOINT):
            transaction.abandon(_SAVEPOINT)
        raise
    _end_attempt(call)
    return done


def _end_attempt(call: Invocation) -> None:
    """Release what an attempt could go back to, where it is one.

    For a row that was changed in a subtransaction of ours, which has ended, others would wait until
    the whole transaction ends, also when the client goes back to a savepoint of its own.
    """
    transaction = call.session.catalog.transaction
    if transaction.has_savepoint(_SAVEPOINT):
        transaction.release(_SAVEPOINT)


def run_or_wait(call: Invocation) -> StatementResult:
    """Run a statement as `run` does; who writes one of its tables as a whole is waited for.

    Raises:
        Refusal: The rows are not named by their keys, nor few, or cannot be locked one by one.
        NotHotError: They are not to be waited for.
        GatewayError: PostgreSQL's own errors.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return run(call)
        except NotHotError as reason:
            further_rows.wait(call, needed_rows(call), reason, attempt)
    raise NotHotError


def _require_worth_searching(
    call: Invocation, relid: int, wanted: WantedRows, *, began: bool
) -> None:
    """Leave rows of conditions to others where these do better.

    A transaction that goes on would keep the table locked, and writers of other rows waiting, until
    it ends: there Spark does better only where the table is locked already, or never has hot rows.

    Raises:
        Refusal: They have been too many lately.
        NotHotError: Spark can change them as a whole, and writers of others would not wait.
    """
    transaction, thawing = call.session.transaction, thawing_of(call)
    if relid in transaction.newly_hot:
        return
    is_cold = wanted.conditions and call.plan.route is Route.CHANGE and not thawing.is_warm(relid)
    locks_anyway = relid in transaction.written or thawing.is_never(relid, definitions_of(call))
    is_for_spark = is_cold and (began or locks_anyway)
    if is_for_spark and not session_state.keeps_snapshot(call.session.catalog):
        raise NotHotError(for_now=True)
    if call.plan.only_reads or call.plan.route in {Route.CHANGE, Route.MERGE}:
        require_not_vain(call, relid, wanted)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a statement is thought to see, and how that is asked once it has run."""

    sources: SourceRows
    """Rows that tell keys."""
    enough: Sequence[Sufficiency]
    """That few rows of some tables do."""
    late: Sequence[Call]
    """What it has written, where that tells which rows it would have met."""

    @property
    def is_sure(self) -> bool:
        """Whether there is nothing to be asked."""
        return not self.sources.marks and not self.enough and not self.late


def _proved(  # noqa: PLR0913 - what is known of the rows
    call: Invocation,
    needed: NeededRows,
    bound: tuple[ParameterValue, ...],
    seen: Seen,
    late: LateRows,
    *,
    began: bool,
) -> StatementResult | None:
    """Run a statement; None where it may see other rows than those, and nothing is done."""
    call.session.transaction.note_run()
    if seen.is_sure:
        return _run_surely(call, needed, began=began)
    after, trees = afterwards(needed), [announcing_leaves(tree) for tree in needed.trees]
    # Searching takes longer than a trip to the catalog, and sources may have changed meanwhile.
    latest = source_rows.read(call, needed.all_sources, needed.most)
    for part in (needed, *needed.further):
        asked, hot = (part.wanted(bound, s.contents) for s in (latest, seen.sources))
        if not frozenset(asked.keys) <= frozenset(hot.keys) or asked.values != hot.values:
            return None
    enough = [one.call for one in seen.enough]
    calls = (after, seen.late, enough, latest.calls(), late.after())
    with call.session.proposed() as told, source_rows.undone(call, began=began) as attempt:
        following = [one for some in calls for one in some]
        result, answers = hot_runs.run(
            call, following, before=[*trees, *late.before()], began=began
        )
        searched_for, written, others, proved, _ = _parted(answers, calls)
        if _is_enough(seen.enough, others) and latest.prove(proved) and not late.learn(written):
            attempt.keep()
            return kept(call, needed, result, searched_for)
    error = attempt.error
    if error is None or (late.may_have_caused(error) and late.learn_of_failure(told)):
        return None
    # Before whoever was not waited for others may come that are cold.
    depends = seen.enough and error.sqlstate == sqlstate.LOCK_NOT_AVAILABLE
    if error.sqlstate[:2] in _NOT_OF_ROWS and not depends:
        raise error
    if is_proved(call, latest):
        catalog = call.session.catalog
        others = [catalog.call(one.call[0], *one.call[1]) for one in seen.enough]
        if _is_enough(seen.enough, others):
            raise error
    return None


def _run_surely(call: Invocation, needed: NeededRows, *, began: bool) -> StatementResult | None:
    """Run a statement that sees what it is thought to; None where it is to be committed apart."""
    _end_attempt(call)
    after, trees = afterwards(needed), [announcing_leaves(tree) for tree in needed.trees]
    commits = began and not after and hot_runs.may_commit(call)
    try:
        result, answers = hot_runs.run(call, after, before=trees, began=began, commits=commits)
    except CatalogError as error:
        if commits and hot_runs.commits_apart(call, error):
            return None
        raise
    if commits:
        call.session.transaction.settle()
    return kept(call, needed, result, answers)


def _parted(answers: Sequence[bytes], calls: Sequence[Sequence[Call]]) -> list[Sequence[bytes]]:
    """Return the answers of each of several lists of calls."""
    left = iter(answers)
    return [list(islice(left, len(some))) for some in calls]


def _is_enough(enough: Sequence[Sufficiency], answers: Sequence[bytes]) -> bool:
    """Return whether few rows have done for a statement; what is known of others is forgotten."""
    failed = [one for one, told in zip(enough, answers, strict=True) if hot_keys.is_written(told)]
    for one in failed:
        one.forget()
    return not failed


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
            needed = known_rows(call)
            if needed is not None and needed.further and call.plan.route is Route.THAW:
                further_rows.wait(call, needed, reason, attempt)
                continue
            locks = row_locks(call.query)
            if locks is not None and not locks.waits and not has_locked(call, locks.relids):
                raise
            # Others may have made rows hot meanwhile, who would have to wait for one that locks.
            cools = not reason.for_now or attempt == ATTEMPTS
        try:
            return Observer(call.session).observe_for_write(call.plan, cools=cools)
        except HotRowsError:
            call.session.transaction.settle()
            note_warm(call)
    raise NotHotError


def insert(call: Invocation) -> StatementResult:
    """Run an INSERT of few rows that PostgreSQL can evaluate; nothing is committed.

    Raises:
        NotHotError: The table has to be locked for it.
        GatewayError: PostgreSQL's own errors.
    """
    own, began = not forced.is_forced(call.plan), not call.session.transaction.open
    writing = Writing(call.target, own=own)
    with before_running():
        announced = announce_insert(call, writing, began=began)
    call.session.transaction.note_run()
    after = [] if announced.unkeyed else [hot_keys.searching(writing.relid, announced.mark)]
    done = hot_runs.run(call, after, began=began)
    return searched(call, writing, *done)


def insert_into_leaves(call: Invocation, leaves: WrittenLeaves) -> StatementResult:
    """Run an INSERT of few rows that go to these leaves of a partitioned table, as `insert` does.

    Raises:
        NotHotError: One of the leaves has to be locked for it.
        GatewayError: PostgreSQL's own errors.
    """
    own, began = not forced.is_forced(call.plan), not call.session.transaction.open
    writings = [Writing(leaf, own=own, beside=leaves.tiered) for leaf in leaves.tiered]
    for writing in writings:
        require_insertable(call, writing.relid)
    for _ in range(len(writings) + 1):
        with before_running():
            announced = _announce_each(call, writings, began=began)
        if announced is not None:
            break
    else:
        raise NotHotError
    call.session.transaction.note_run()
    after = [hot_keys.searching(leaf, mark) for leaf, mark in announced.items()]
    before = [announcing_leaves(leaves)]
    result, answers = hot_runs.run(call, after, before=before, began=began)
    for writing, answer in zip(writings, answers, strict=True):
        searched(call, writing, result, [answer])
    return result


def _announce_each(
    call: Invocation, writings: Sequence[Writing], *, began: bool
) -> dict[int, int] | None:
    """Announce writes of several leaves; return what was told of each, None where to begin anew."""
    found = {}
    for writing in writings:
        announced = announce(call, writing, began=began)
        if announced is None:
            return None
        found[writing.relid] = announced.mark
    return found
