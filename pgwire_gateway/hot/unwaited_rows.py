"""NOWAIT and SKIP LOCKED in transactions that make rows hot themselves (:mod:`.own_hot_rows`).

Whoever is making a row hot that others want has locked it, as far as these are concerned. Where
LIMIT leaves rows unlocked a statement runs twice: once to see which rows it locks, which are made
hot then, and no others.
"""

from collections.abc import Callable
from typing import Final

from catalog.hot import hot_keys
from catalog.hot.hot_keys import Locked, Thawed
from pgwire_gateway.hot import own_hot_rows
from pgwire_gateway.hot.announcements import ATTEMPTS, NotHotError
from pgwire_gateway.rows.needed_rows import NeededRows, WantedRows
from pgwire_gateway.rows.text_rows import key_of
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.wire_types.changed_rows import TextRow
from rewrite.row_locks import WaitPolicy, has_limit, row_locks, wait_policy

SAVEPOINT: Final = "pgwire_trial"


def heat(call: Invocation, relid: int, present: list[TextRow], absent: list[TextRow]) -> Thawed:
    """Make keys hot in the session's own transaction; those that are locked as the statement says.

    Raises:
        NotHotError: It also reads rows without locking them, or waits for some.
        GatewayError: As of `own_hot_rows.heat`; 55P03 for NOWAIT.
    """
    if waits(call) or not (present or absent):
        return own_hot_rows.heat(call, relid, present, absent)
    policy = wait_policy(call.plan.locking or call.query, relid)
    if policy is None:
        raise NotHotError(by_snapshot=True)
    # What is not there it cannot lock.
    return own_hot_rows.heat_by(
        call, hot_keys.heating_unwaited(relid, present, skips=policy is WaitPolicy.SKIP)
    )


def waits(call: Invocation) -> bool:
    """Return whether a statement waits for rows that others have locked: it says nothing else."""
    tree = call.plan.analysis and call.plan.analysis.tree
    if "ROWMARKCLAUSE" not in (tree or ""):
        return True
    locks = call.plan.locks or row_locks(call.query)
    return locks is None or locks.waits


def leaves_some(call: Invocation, needed: NeededRows) -> bool:
    """Return whether rows may become hot that a statement does not lock, and others look for."""
    # What sources tell is read each time, and keys that are drawn are others then.
    runs_twice = not needed.sources and not needed.draws
    return runs_twice and not waits(call) and has_limit(call.plan.locking or call.query)


def run(
    call: Invocation,
    needed: NeededRows,
    wanted: WantedRows,
    once: Callable[[WantedRows], StatementResult],
) -> StatementResult:
    """Run a statement that locks some of its rows; the others are free again.

    Args:
        call: The statement, which has been announced.
        needed: What it needs.
        wanted: The rows it may lock.
        once: Makes rows hot, and runs it.
    """
    for _ in range(ATTEMPTS):
        call.session.catalog.transaction.savepoint(SAVEPOINT)
        result = once(wanted)
        locked = _locked(call, needed)
        if not locked.others:
            call.session.catalog.transaction.release(SAVEPOINT)
            return result
        call.session.catalog.transaction.roll_back_to(SAVEPOINT)
        table = needed.table
        result = once(WantedRows([key_of(table, key) for key in sorted(locked.keys)], [], []))
        if _locked(call, needed).keys == locked.keys:
            call.session.catalog.transaction.release(SAVEPOINT)
            return result
        # Others were faster.
        call.session.catalog.transaction.abandon(SAVEPOINT)
    return once(wanted)


def _locked(call: Invocation, needed: NeededRows) -> Locked:
    function, values = hot_keys.looking_for_locks(needed.table.relid)
    return hot_keys.locked(call.session.catalog.call(function, *values))
