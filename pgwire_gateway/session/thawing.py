"""Making the rows hot that an announced statement needs: they are found, and put into the table."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Final

from catalog.hot_keys import Announcement, Reading, Thawed, Thawing, Writing
from pgwire_gateway.session import unwaited_rows
from pgwire_gateway.session.announcements import announce, thawing_of, undo
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.needed_rows import NeededRows, WantedRows
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.plans import Route
from pgwire_gateway.session.row_search import Finder, holders, look_up
from pgwire_gateway.session.text_rows import key_of, key_row, key_texts
from pgwire_gateway.wire_types.changed_rows import TextRow
from rewrite.context import ParameterValue
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal
from rewrite.needs.search import Condition

Asked = Sequence[tuple[Condition, object]]
"""Conditions whose rows are to be found, each with what tells it from others."""


MOST_FOR_ONE: Final = 100_000
"""Rows of a condition that a transaction may make hot where it cannot write the table otherwise."""


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
    whole = (known for condition, known in wanted.conditions if condition.need.enough is None)
    if any(thawing.is_vain(relid, known) for known in whole):
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
        few = condition.need.enough is not None
        try:
            finder(call, needed, condition, observation, bound, most=most, few=few)
        except Refusal:
            thawing_of(call).note_vain(needed.table.relid, known)
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
) -> tuple[Thawed, Reading | None]:
    """Make hot what is not.

    Returns:
        What became of it; and, where few of the rows that satisfy a condition were made hot, when
        they were enough: they are until others write the table.

    Raises:
        Refusal: The rows are too many, or do not satisfy a constraint.
        UnsupportedError: Spark cannot find them.
    """
    relid, thawing = needed.table.relid, thawing_of(call)

    def asked() -> Asked:
        if announced.own:
            # What was made hot meanwhile the transaction's snapshot does not show.
            return wanted.conditions
        remembered = partial(thawing.remembers, relid, announced.heats)
        return [one for one in wanted.conditions if not remembered(one[1])]

    if announced.is_complete and not asked() and not wanted.values:
        return Thawed.DONE, None
    searching = thawing.searching(relid, call.running.check) if asked() else nullcontext()
    try:
        with searching:
            # Whoever was waited for has searched for what is remembered now.
            found = replace(wanted, conditions=asked())
            return _made_hot(call, needed, found, announced, bound, finder=finder, began=began)
    except UnsupportedError:
        if began:
            undo(call)
        raise


def _made_hot(  # noqa: PLR0913 - as above
    call: Invocation,
    needed: NeededRows,
    wanted: WantedRows,
    announced: Announcement,
    bound: tuple[ParameterValue, ...],
    *,
    finder: Finder,
    began: bool,
) -> tuple[Thawed, Reading | None]:
    """Find the rows of keys that are not hot, of values and of conditions, and make them hot."""
    relid, thawing = needed.table.relid, thawing_of(call)
    observation = Observer(call.session).observe([relid], call.plan)
    table = observation.result.snapshots[relid].table
    cold, held = (
        [key_of(table, texts) for texts in sorted(found)]
        for found in (announced.cold, announced.held)
    )
    rows = look_up(call.services.lookups, observation, relid, cold)
    found: list[TextRow] = []
    whole: list[tuple[Condition, object]] = []
    most = _most_found(call, announced)
    search = partial(finder, call, needed, observation=observation, bound=bound, most=most)
    for condition, known in wanted.conditions:
        rows_found = None
        if not _is_for_few(thawing, relid, announced.heats, (condition, known)):
            rows_found = _all_found(search, thawing, relid, (condition, known))
            whole += [(condition, known)] if rows_found is not None else []
        found += search(wanted=condition, few=True) if rows_found is None else rows_found
    for attnums, values in wanted.values:
        found += holders(call, observation, table, attnums, values)
    if found and (announced.own or not began):
        found = _without_own(call, needed, announced, found)
    present = [*rows.present, *found]
    absent = [*rows.absent, *(key_row(table, key) for key in held)]
    if announced.own:
        return _fit(unwaited_rows.heat(call, relid, present, absent)), None
    reading = Reading.of(announced.heats, observation.result.snapshots[relid])
    lasting = any(condition.is_lasting for condition, _ in whole)
    thawed = _fit(thawing.thaw(relid, reading, present, absent, lasting=lasting))
    for condition, known in whole:
        if condition.is_lasting and thawed is Thawed.DONE:
            thawing.remember(relid, announced.heats, known)
    return thawed, reading if len(whole) < len(wanted.conditions) else None


def _fit(thawed: Thawed) -> Thawed:
    if thawed is Thawed.UNFIT:
        raise Refusal("a row that is stored does not satisfy a constraint now")
    return thawed


def _is_for_few(thawing: Thawing, relid: int, heats: int, asked: tuple[Condition, object]) -> bool:
    """Return whether as many rows of a condition are to be found as are enough, and no more.

    Who asks a second time may ask again and again: with all rows hot nothing has to be searched.
    """
    condition, known = asked
    if condition.need.enough is None:
        return False
    return thawing.is_vain(relid, known) or thawing.is_first(relid, heats, known)


def _all_found(
    search: Callable[..., list[TextRow]],
    thawing: Thawing,
    relid: int,
    asked: tuple[Condition, object],
) -> list[TextRow] | None:
    """Find all rows of a condition; None where they are too many, and fewer are enough.

    Raises:
        Refusal: They are too many.
        UnsupportedError: Spark cannot find them.
    """
    condition, known = asked
    try:
        return search(wanted=condition, few=False)
    except Refusal:
        thawing.note_vain(relid, known)
        if condition.need.enough is None:
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
    writing = Writing(
        table.relid,
        tuple(keys),
        call.plan.locks is not None,
        draws=needed.draws,
        own=announced.own,
    )
    again = announce(call, writing, began=False)
    return [row for key, row in keys.items() if again is not None and key in again.cold]
