"""Making the rows hot that an announced statement needs: they are found, and put into the table."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from catalog.bookkeeping.calls import Call
from catalog.hot import hot_keys
from catalog.hot.hot_keys import Ahead, Announcement, Reading, Thawed
from catalog.hot.thawing import Thawing
from catalog.session import session_state
from pgwire_gateway.hot import unwaited_rows
from pgwire_gateway.hot.announcements import announce, thawing_of, undo
from pgwire_gateway.hot.hot_runs import writing_of
from pgwire_gateway.planning.plans import Route
from pgwire_gateway.rows.needed_rows import NeededRows, WantedRows
from pgwire_gateway.rows.row_search import Finder, holders, look_up
from pgwire_gateway.rows.text_rows import key_of, key_row, key_texts
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.wire_types.changed_rows import TextRow
from rewrite.context import ParameterValue
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal
from rewrite.needs.search import Condition

Asked = Sequence[tuple[Condition, object]]
"""Conditions whose rows are to be found, each with what tells it from others."""


MOST_FOR_ONE: Final = 100_000
"""Rows of a condition that a transaction may make hot where it cannot write the table otherwise."""


FIRST_ROWS: Final = 1_000
"""How many rows are made hot of a queue that is too long to be hot as a whole."""

GROWTH: Final = 4
"""How many times as many are made hot when a statement may have got beyond them."""

AHEAD: Final = 25
"""So many of the last ones of these are looked at afterwards, and as many of all of them."""


@dataclass(frozen=True, slots=True)
class Sufficiency:
    """That fewer rows than satisfy a condition do for a statement, which is asked afterwards."""

    call: Call
    """The call that tells whether they may not have done."""
    forget: Callable[[], None] = lambda: None
    """Called where that is so."""


def remembers_all(call: Invocation, relid: int, wanted: WantedRows) -> bool:
    """Return whether all rows of the conditions are known to be hot."""
    thawing = thawing_of(call)
    heats = thawing.heats(relid) or 0
    return all(thawing.remembers(relid, heats, known) for _, known in wanted.conditions)


def require_not_vain(call: Invocation, relid: int, wanted: WantedRows) -> None:
    """Refuse conditions that too many rows have satisfied lately.

    Raises:
        Refusal: There is one, and all its rows are needed.
    """
    thawing = thawing_of(call)
    whole = (known for condition, known in wanted.conditions if _needs_all(condition))
    most = _most_found(call, Announcement(hot=False))
    if any(thawing.is_vain(relid, known, most) for known in whole):
        raise Refusal("a condition that too many rows satisfy is not supported")


def probe(
    call: Invocation,
    needed: NeededRows,
    wanted: WantedRows,
    bound: tuple[ParameterValue, ...],
    finder: Finder,
) -> None:
    """Find the rows of a statement, to know that it can be done.

    Raises:
        Refusal: They are too many, or Spark has to read the files.
        UnsupportedError: Spark cannot find them.
    """
    observation = Observer(call.session).observe([needed.table.relid], call.plan)
    look_up(call.services.lookups, observation, needed.table.relid, wanted.keys)
    most = _most_found(call, Announcement(hot=False))
    for condition, known in wanted.conditions:
        few = not _needs_all(condition, own=session_state.keeps_snapshot(call.session.catalog))
        sought = condition.first(FIRST_ROWS) if few and condition.need.queue else condition
        search = partial(finder, call, needed, observation=observation, bound=bound, most=most)
        try:
            if not few or _first_found(search, sought) is None:
                search(wanted=condition, few=False)
        except Refusal:
            thawing_of(call).note_vain(needed.table.relid, known, most)
            raise
    for attnums, values in wanted.values:
        holders(call, observation, needed.table, attnums, values)


def thaw(  # noqa: PLR0913 - the rows, and what is known of them
    call: Invocation,
    needed: NeededRows,
    wanted: WantedRows,
    announced: Announcement,
    bound: tuple[ParameterValue, ...],
    *,
    finder: Finder,
    began: bool,
    attempt: int = 1,
    seen: Observation | None = None,
) -> tuple[Thawed, list[Sufficiency]]:
    """Make hot what is not.

    What is seen of the table may be known already.

    Returns:
        What became of it; and what is to be asked where few of the rows that satisfy a condition
        were made hot.

    Raises:
        Refusal: The rows are too many, or do not satisfy a constraint.
        UnsupportedError: Spark cannot find them.
    """
    relid, thawing = needed.table.relid, thawing_of(call)

    def asked() -> tuple[Asked, list[Sufficiency]]:
        if announced.own:
            # What was made hot meanwhile the transaction's snapshot does not show.
            return wanted.conditions, []
        remembered = partial(thawing.remembers, relid, announced.heats)
        left = [one for one in wanted.conditions if not remembered(one[1])]
        ahead = [thawing.ahead(relid, announced.heats, _queue(*one)) for one in left]
        known = list(zip(left, ahead, strict=True))
        return [one for one, some in known if some is None], [
            _lasts_until(thawing, relid, _queue(*one), some) for one, some in known if some
        ]

    left, enough = asked()
    if announced.is_complete and not left and not wanted.values:
        return Thawed.DONE, enough
    shared = left and not announced.own
    try:
        # Whoever looks at it first may wait for locks of others, which are not to wait for him.
        observation = seen or Observer(call.session).observe([relid], call.plan)
        with thawing.one_search(relid, call.running.check) if shared else nullcontext() as waited:
            if waited:
                # Whoever was waited for has searched for what is remembered now.
                left, enough = asked()
                checked = replace(call.plan, checked=True)
                observation = Observer(call.session).observe([relid], checked)
            found = replace(wanted, conditions=left)
            thawed, few = _made_hot(
                call,
                needed,
                found,
                announced,
                bound,
                observation,
                finder=finder,
                began=began,
                attempt=attempt,
            )
            return thawed, [*enough, *few]
    except UnsupportedError:
        if began:
            undo(call)
        raise


def _made_hot(  # noqa: PLR0913, PLR0917 - as above
    call: Invocation,
    needed: NeededRows,
    wanted: WantedRows,
    announced: Announcement,
    bound: tuple[ParameterValue, ...],
    observation: Observation,
    *,
    finder: Finder,
    began: bool,
    attempt: int,
) -> tuple[Thawed, list[Sufficiency]]:
    """Find the rows of keys that are not hot, of values and of conditions, and make them hot."""
    relid, thawing = needed.table.relid, thawing_of(call)
    table = observation.result.snapshots[relid].table
    cold, held = (
        [key_of(table, texts) for texts in sorted(found)]
        for found in (announced.cold, announced.held)
    )
    rows = look_up(call.services.lookups, observation, relid, cold)
    most = _most_found(call, announced)
    search = partial(finder, call, needed, observation=observation, bound=bound, most=most)
    first = min(FIRST_ROWS * GROWTH ** (attempt - 1), most)
    sought = [
        _sought(search, thawing, relid, announced, one, first=first, most=most)
        for one in wanted.conditions
    ]
    found = [row for one in sought for row in one.rows]
    for attnums, values in wanted.values:
        found += holders(call, observation, table, attnums, values)
    if found and (announced.own or not began):
        found = _without_own(call, needed, announced, found)
    # Of what both keys and conditions ask for there is one row.
    present = list({key_texts(table, row): row for row in [*rows.present, *found]}.values())
    absent = [*rows.absent, *(key_row(table, key) for key in held)]
    if announced.own:
        return _fit(unwaited_rows.heat(call, relid, present, absent)), []
    reading = Reading.of(announced.heats, observation.result.snapshots[relid])
    lasting = any(
        condition.is_lasting and (one.is_whole or one.is_queue)
        for (condition, _), one in zip(wanted.conditions, sought, strict=True)
    )
    thawed = _fit(thawing.thaw(relid, reading, present, absent, lasting=lasting))
    enough: list[Sufficiency] = []
    for (condition, known), one in zip(wanted.conditions, sought, strict=True):
        lasts = condition.is_lasting and thawed is Thawed.DONE
        if one.is_whole and lasts:
            thawing.remember(relid, announced.heats, known)
        elif one.is_queue:
            looked_at = [*one.rows[:: len(one.rows) // AHEAD or 1], *one.rows[-AHEAD:]]
            ahead = Ahead(announced.heats, tuple(key_texts(table, row) for row in looked_at))
            if lasts:
                thawing.note_ahead(relid, _queue(condition, known), ahead)
            enough.append(_lasts_until(thawing, relid, _queue(condition, known), ahead))
        elif not one.is_whole:
            enough.append(Sufficiency(hot_keys.written_since(relid, reading)))
    return thawed, enough


@dataclass(frozen=True, slots=True)
class _Sought:
    """What has been found of a condition."""

    rows: list[TextRow]
    is_whole: bool = False
    """Whether these are all rows that satisfy it."""
    is_queue: bool = False
    """Whether they are the first ones of a queue, in order. Others do until somebody writes."""


def _sought(  # noqa: PLR0913 - the condition, and what is known of it
    search: Callable[..., list[TextRow]],
    thawing: Thawing,
    relid: int,
    announced: Announcement,
    asked: tuple[Condition, object],
    *,
    first: int,
    most: int,
) -> _Sought:
    """Find all rows of a condition, `most` at most, or as many as may do, `first` of a queue.

    Raises:
        Refusal: They are too many.
        UnsupportedError: Spark cannot find them.
    """
    condition, _ = asked
    if not _is_for_few(thawing, relid, announced, asked, most):
        rows = _all_found(search, thawing, relid, announced, asked, most)
        if rows is not None:
            return _Sought(rows, is_whole=True)
    is_queue = condition.need.queue is not None
    rows = _first_found(search, condition.first(first) if is_queue else condition)
    if rows is None:
        return _Sought(search(wanted=condition, few=False), is_whole=True)
    if not is_queue:
        return _Sought(rows)
    return _Sought(rows, is_whole=len(rows) < first, is_queue=len(rows) >= first)


def _first_found(
    search: Callable[..., list[TextRow]], condition: Condition
) -> list[TextRow] | None:
    """Find as many rows of a condition as are enough; None where Spark cannot tell which they are.

    It may find them among others.
    """
    try:
        return search(wanted=condition, few=True)
    except Refusal:
        raise
    except UnsupportedError:
        return None


def _needs_all(condition: Condition, *, own: bool = False) -> bool:
    """Return whether fewer rows than satisfy a condition never do.

    Args:
        condition: The condition.
        own: Whether rows are made hot once, by a transaction that reads by one snapshot.
    """
    return condition.need.enough is None and (own or condition.need.queue is None)


def _queue(condition: Condition, known: object) -> object:
    """Return what is equal only for equal conditions whose rows are taken in the same order."""
    return known, condition.order


def _lasts_until(thawing: Thawing, relid: int, queue: object, ahead: Ahead) -> Sufficiency:
    """Return that the first rows of a queue do, until a statement may have got beyond them."""
    forget = partial(thawing.forget_ahead, relid, queue, ahead)
    return Sufficiency(hot_keys.passed(relid, ahead), forget)


def _fit(thawed: Thawed) -> Thawed:
    if thawed is Thawed.UNFIT:
        raise Refusal("a row that is stored does not satisfy a constraint now")
    return thawed


def _is_for_few(
    thawing: Thawing,
    relid: int,
    announced: Announcement,
    asked: tuple[Condition, object],
    most: int,
) -> bool:
    """Return whether as many rows of a condition are to be found as are enough, and no more.

    Who asks a second time may ask again and again: with all rows hot nothing has to be searched.
    """
    condition, known = asked
    if _needs_all(condition, own=announced.own):
        return False
    if thawing.is_vain(relid, known, most):
        return True
    # All rows of a queue are needed sooner or later.
    return condition.need.queue is None and thawing.is_first(relid, announced.heats, known)


def _all_found(  # noqa: PLR0913, PLR0917 - the condition, and what is known of it
    search: Callable[..., list[TextRow]],
    thawing: Thawing,
    relid: int,
    announced: Announcement,
    asked: tuple[Condition, object],
    most: int,
) -> list[TextRow] | None:
    """Find all rows of a condition; None where they are too many, and fewer are enough.

    Raises:
        Refusal: They are too many.
        UnsupportedError: Spark cannot find them.
    """
    condition, known = asked
    needs_all = _needs_all(condition, own=announced.own)
    if needs_all and thawing.is_vain(relid, known, most):
        raise Refusal("a condition that too many rows satisfy is not supported")
    try:
        return search(wanted=condition, few=False)
    except Refusal:
        thawing.note_vain(relid, known, most)
        if needs_all:
            raise
    return None


def _most_found(call: Invocation, announced: Announcement) -> int:
    """Return how many rows that satisfy a condition may become hot."""
    config, asked = call.services.config, announced.thaw_rows
    if announced.new:
        return MOST_FOR_ONE
    if call.plan.route is not Route.CHANGE:
        return config.thaw_rows if asked is None else asked
    # More of them Spark changes as a whole, where it can.
    return config.inline_rows if asked is None else min(asked, config.inline_rows)


def _without_own(
    call: Invocation, needed: NeededRows, announced: Announcement, rows: list[TextRow]
) -> list[TextRow]:
    """Leave out rows that are hot, or that this transaction has inserted.

    For the latter the gateway would wait until it ends.
    """
    table = needed.table
    keys = {key_texts(table, row): row for row in rows}
    writing = replace(writing_of(call, needed, ()), draws=needed.draws, own=announced.own)
    again = announce(call, replace(writing, keys=tuple(keys)), began=False)
    return [row for key, row in keys.items() if again is not None and key in again.cold]
