"""Rows of further tiered tables that a statement on hot rows reads, writes or locks.

    WITH gone AS (DELETE FROM waiting WHERE id = 7 RETURNING *) INSERT INTO done SELECT * FROM gone

Each table is announced, and what the statement can see of it is made hot, as of the first one.
Until the transaction ends nothing of them goes cold, and what others change meanwhile is hot by
that.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from catalog.hot.hot_keys import Thawed
from catalog.session import session_state
from pgwire_gateway.hot import own_hot_rows, unwaited_rows
from pgwire_gateway.hot.announcements import ATTEMPTS, NotHotError, Probe, announce, undo
from pgwire_gateway.hot.hot_runs import writing_of
from pgwire_gateway.hot.late_rows import LateRows
from pgwire_gateway.hot.thawing import Sufficiency, probe, remembers_all, require_not_vain, thaw
from pgwire_gateway.planning.plans import Route
from pgwire_gateway.rows.needed_rows import NeededRows, WantedRows
from pgwire_gateway.rows.row_search import find
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.old_snapshots import before_running
from rewrite.context import ParameterValue
from rewrite.needs.keys import Contents
from rewrite.needs.results import Refusal
from rewrite.row_locks import row_locks

_SAVEPOINT: Final = "pgwire_further"


@dataclass(frozen=True, slots=True)
class FurtherRows:
    """What has been made hot of further tables."""

    enough: list[Sufficiency]
    """That few rows of some of them do."""
    marks: dict[int, int]
    """By table, what was told when the write was announced."""


def heat(  # noqa: PLR0913 - what is known of the rows
    call: Invocation,
    needed: NeededRows,
    bound: tuple[ParameterValue, ...],
    contents: Contents,
    late: LateRows,
    *,
    began: bool,
    attempt: int,
) -> FurtherRows | None:
    """Make the rows hot; None where all is to be begun again.

    Args:
        call: The statement, which has announced what it needs of the first table.
        needed: What it needs.
        bound: Values of its parameters.
        contents: What its sources hold.
        late: What was found while it was tried.
        began: Whether the transaction is for this statement.
        attempt: How often that is now.

    Raises:
        Refusal: They are too many, or Spark finds them better.
        NotHotError: One of the tables cannot have hot rows for this statement.
    """
    found = FurtherRows([], {})
    for part in needed.further:
        try:
            wanted = late.added(part, _wanted(call, part, bound, contents))
        except Refusal:
            if began:
                undo(call)
            raise
        relid = part.table.relid
        own = part.takes and own_hot_rows.can_be(part)
        writing = writing_of(call, part, wanted.keys)
        writing = replace(writing, draws=part.draws, own=own)
        searched = not remembers_all(call, relid, wanted)
        trial = partial(probe, call, part, wanted, bound, find)
        with before_running():
            announced = announce(call, writing, began=began, searched=searched, probe=Probe(trial))
        if announced is None:
            return None
        thawed, enough = thaw(
            call, part, wanted, announced, bound, finder=find, began=began, attempt=attempt
        )
        if thawed is not Thawed.DONE:
            if began:
                undo(call)
            return None
        found.enough.extend(enough)
        found.marks[relid] = announced.mark
    return found


def _wanted(
    call: Invocation, part: NeededRows, bound: tuple[ParameterValue, ...], contents: Contents
) -> WantedRows:
    wanted = part.wanted(bound, contents)
    if wanted.conditions and call.plan.route in {Route.CHANGE, Route.MERGE}:
        raise Refusal("conditions on other tiered tables in a statement on single rows")
    require_not_vain(call, part.table.relid, wanted)
    return wanted


def require_possible(call: Invocation, needed: NeededRows) -> None:
    """Refuse what would have to write tables that a statement only reads.

    Nor is it known there, by several tables, which rows a statement leaves unlocked.

    Raises:
        Refusal: The transaction reads by one snapshot, which shows no rows that others make hot.
        NotHotError: It does, and the statement leaves rows unlocked.
    """
    parts = (needed, *needed.further)
    if not needed.further and needed.takes:
        return
    if not session_state.keeps_snapshot(call.session.catalog):
        return
    if not all(part.takes for part in parts):
        raise Refusal("reading other tiered tables above READ COMMITTED")
    if unwaited_rows.leaves_some(call, needed):
        raise NotHotError(by_snapshot=True)


def probe_all(
    call: Invocation, needed: NeededRows, bound: tuple[ParameterValue, ...], contents: Contents
) -> None:
    """Find the rows of further tables, to know that a statement can be done.

    Raises:
        Refusal: They are too many, or Spark has to read the files.
        UnsupportedError: Spark cannot find them.
    """
    for part in needed.further:
        probe(call, part, part.wanted(bound, contents), bound, find)


def wait(call: Invocation, needed: NeededRows, reason: NotHotError, attempt: int) -> None:
    """Wait for those who write one of the tables as a whole.

    They are waited for as PostgreSQL waits for locks: up to ``lock_timeout``, with deadlocks found.

    Args:
        call: The statement.
        needed: What it needs.
        reason: Why rows cannot be hot.
        attempt: How often that has been so.

    Raises:
        Refusal: It is not they who keep rows from being hot, or always others.
        NotHotError: They are not to be waited for.
        CatalogError: 40P01, 55P03, 57014 of the wait.
    """
    locks = row_locks(call.plan.locking or call.query)
    if locks is not None and not locks.waits:
        raise reason
    if not reason.for_now:
        raise Refusal("rows of several tiered tables, one of which cannot have hot rows here")
    if attempt == ATTEMPTS:
        raise Refusal(f"rows of several tiered tables while {reason}")
    session = call.session
    relids = [part.table.relid for part in (needed, *needed.further)]
    if not session.transaction.open:
        session.catalog.writes.hold(relids)
        return
    session.catalog.transaction.savepoint(_SAVEPOINT)
    session.catalog.writes.hold(relids)
    session.catalog.transaction.abandon(_SAVEPOINT)
