"""Announcing writes of hot rows of a tiered table, which PostgreSQL makes row by row.

Who announces has passed the gate of the table: nothing of it goes cold before the transaction ends.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.calls import Call, array
from catalog.errors import GatewayError
from catalog.hot import hot_keys
from catalog.hot.hot_keys import Announcement, Writing
from catalog.hot.thawing import Thawing
from catalog.pg import sqlstate
from catalog.session import session_state
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import WrittenLeaves
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from rewrite.errors import UnsupportedError
from rewrite.needs.keys import Key

ATTEMPTS: Final = 5
"""How often a statement is begun again while others lock the table, or make its rows cold."""

PAUSE_S: Final = 0.02
"""How long it waits before, times the number of attempts."""


class NotHotError(Exception):
    """The table cannot have hot rows for this statement; nothing has been done."""

    def __init__(
        self,
        *,
        by_snapshot: bool = False,
        for_now: bool = False,
        is_full: bool = False,
        is_own: bool = False,
        is_changed: bool = False,
    ) -> None:
        """Tell why: the transaction reads by one snapshot, or the table just has none yet.

        Or it has too many, and they cannot go cold as others are writing them; or the transaction
        has locked it; or it is changed as a whole, and has no key.
        """
        super().__init__(
            "the transaction is REPEATABLE READ or SERIALIZABLE"
            if by_snapshot
            else "too many rows are locked one by one"
            if is_full
            else "the transaction has locked the table as a whole"
            if is_own
            else "others are writing the table as a whole"
        )
        self.by_snapshot = by_snapshot
        self.for_now = for_now
        self.is_full = is_full
        self.is_own = is_own
        self.is_changed = is_changed

    def unwaited(self, table: str) -> GatewayError:
        """Return the error for a statement that does not wait for rows others have locked.

        Where nobody else has locked any it is no error of PostgreSQL's.
        """
        if self.is_own:
            return UnsupportedError(
                "NOWAIT and SKIP LOCKED of rows of several tables are not supported where the"
                " transaction has locked one of the tables as a whole",
                hint="Lock the rows of one table at a time, or before it is written as a whole.",
            )
        if self.by_snapshot:
            return UnsupportedError(
                "NOWAIT and SKIP LOCKED are not supported here on the tiered table"
                f' "{table}": {self}',
                hint="Lock the rows in a READ COMMITTED transaction, or wait for them.",
            )
        return GatewayError(
            f'could not obtain lock on relation "{table}"',
            sqlstate=sqlstate.LOCK_NOT_AVAILABLE,
            detail=f"Rows cannot be locked one by one while {self}.",
        )


@dataclass(frozen=True, slots=True)
class Probe:
    """Finds the rows of a statement before its table gets hot rows for it.

    A transaction that reads by one snapshot can, from then on, not write the table as a whole any
    more. What is raised keeps it from that.
    """

    run: Callable[[], None]
    always: bool = False
    """Whether other transactions try it, too: many rows are not to make the table hot."""


def announce(
    call: Invocation,
    writing: Writing,
    *,
    began: bool,
    searched: bool = False,
    probe: Probe | None = None,
) -> Announcement | None:
    """Announce a write; None where it is to be tried again, as the table can have hot rows now.

    Rows of a table that has too many hot ones go cold first.

    Args:
        call: The statement.
        writing: What it is going to do.
        began: Whether the transaction is for this statement.
        searched: Whether rows are to be made hot that are still to be found.
        probe: What is tried before the table gets hot rows.

    Raises:
        NotHotError: The table cannot have hot rows.
    """
    call.session.transaction.expect_implicit()
    _, (answer,) = call.session.catalog.writes.run_between(
        None,
        router.named(call.statement),
        call.plan.basis,
        began=began,
        before=[writing.announced(strict=False, searched=searched)],
    )
    told = hot_keys.announced(answer)
    return _announced(call, writing, told, began=began, probe=probe)


def announce_cold(
    call: Invocation,
    writing: Writing,
    keys: Sequence[Key],
    *,
    began: bool,
    probe: Probe,
) -> tuple[Announcement | None, Observation | None]:
    """Announce a write as `announce` does; return also what is seen of the table, where it is hot.

    That is for keys of which one is probably cold, and is asked for in the same trip.

    Raises:
        NotHotError: The table cannot have hot rows.
    """
    call.session.transaction.expect_implicit()
    calling = writing.announced(strict=False)
    observer = Observer(call.session)
    answer, seen = observer.announce(call, writing.relid, calling, keys, began=began)
    told = hot_keys.announced(answer)
    announced = _announced(call, writing, told, began=began, probe=probe)
    # What came is kept, for whoever asks next, also where it is not needed now.
    return announced, seen() if announced is not None else None


def _announced(
    call: Invocation,
    writing: Writing,
    announced: Announcement,
    *,
    began: bool,
    probe: Probe | None,
) -> Announcement | None:
    """Return what was told of a table that has hot rows; make it have some where it has not."""
    thawing = thawing_of(call)
    if announced.hot:
        _note(call, writing, announced)
        return announced
    # What this transaction has written as a whole it has locked as a whole.
    is_own = has_locked(call, [writing.relid])
    # Made hot since its snapshot, it could not be changed as a whole any more.
    is_late = announced.own and announced.unkeyed and not began
    lasts = announced.by_snapshot or announced.never or is_own or is_late
    if probe is not None and not lasts and (announced.own or probe.always):
        probe.run()
    if not announced.by_snapshot and not announced.is_full:
        thawing.note_cold(writing.relid)
    if began:
        undo(call)
    if announced.is_full:
        if not thawing.cool(writing.relid):
            raise NotHotError(is_full=True)
        return None
    if announced.never and call.plan.basis:
        thawing.note_never(writing.relid, definitions_of(call))
    if lasts or not thawing.warm(writing.relid):
        raise NotHotError(by_snapshot=announced.by_snapshot, for_now=not lasts, is_own=is_own)
    return None


def _note(call: Invocation, writing: Writing, announced: Announcement) -> None:
    """Note that a write of a table with hot rows has been announced."""
    transaction = call.session.transaction
    if not call.plan.only_reads:
        transaction.written.add(writing.relid)
    if announced.new:
        transaction.newly_hot.add(writing.relid)
    if announced.unkeyed:
        transaction.unkeyed.add(writing.relid)
        thawing_of(call).note_unkeyed(writing.relid, definitions_of(call))
    thawing_of(call).note_warm(writing.relid)


def require_insertable(call: Invocation, relid: int) -> None:
    """Refuse to insert rows into a table beside others where that is known to be of no use.

    Raises:
        NotHotError: The table has to be locked for them.
    """
    thawing = thawing_of(call)
    if thawing.is_never(relid, definitions_of(call)):
        raise NotHotError
    if thawing.is_changed(relid, in_block=call.session.transaction.open):
        by_snapshot = session_state.keeps_snapshot(call.session.catalog)
        raise NotHotError(by_snapshot=by_snapshot, is_changed=True)


def announce_insert(call: Invocation, writing: Writing, *, began: bool) -> Announcement:
    """Announce rows whose keys are searched when they are there.

    Args:
        call: The statement that brings them.
        writing: The table.
        began: Whether the transaction is for this statement.

    Raises:
        NotHotError: The table has to be locked for it.
    """
    require_insertable(call, writing.relid)
    announced = announce(call, writing, began=began) or announce(call, writing, began=began)
    if announced is None:
        raise NotHotError
    return announced


def announcing_leaves(leaves: WrittenLeaves) -> Call:
    """Return the call that announces a write by the name of a partitioned table."""
    tree, tiered = str(leaves.tree).encode(), array((*leaves.tiered, *leaves.others))
    return bookkeeping.ANNOUNCE_TREE, [tree, array(leaves.resident), tiered]


def has_locked(call: Invocation, relids: Iterable[int]) -> bool:
    """Return whether the transaction has locked tables as a whole, as it has written them.

    Then nobody else has locked rows of them. A lock that was rolled back to a savepoint is none.
    """
    return all(
        relid in call.session.transaction.written and _is_locked(call, relid) for relid in relids
    )


def _is_locked(call: Invocation, relid: int) -> bool:
    said = f"SELECT pg_catalog.current_setting('pg_journal.locked_{relid}', true)"
    ((locked,),) = call.session.catalog.execute(said).rows
    return bool(locked)


def is_warm(call: Invocation) -> bool:
    """Return whether the table a statement writes was found to have hot rows."""
    return thawing_of(call).is_warm(call.target)


def note_warm(call: Invocation) -> None:
    """Note that the table a statement writes was found to have hot rows."""
    thawing_of(call).note_warm(call.target)


def give_way(call: Invocation, attempt: int, *, began: bool) -> None:
    """Let those go first who wait for this transaction's locks, where that can be.

    Raises:
        NotHotError: The transaction has done something before. Locking the table as a whole waits
            where PostgreSQL can see it.
    """
    if not began:
        raise NotHotError
    undo(call)
    time.sleep(PAUSE_S * attempt)


def undo(call: Invocation) -> None:
    """Roll back the transaction, which was begun for the statement."""
    call.session.catalog.transaction.rollback()
    call.session.transaction.settle()


def thawing_of(call: Invocation) -> Thawing:
    """Return what makes rows of the session's database hot."""
    return call.services.catalog.thawing(call.session.database)


def definitions_of(call: Invocation) -> int:
    """Return the fingerprint of the definitions a statement was planned on; 0 for none."""
    return call.plan.basis.definitions if call.plan.basis else 0
