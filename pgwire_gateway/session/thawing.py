"""Making the rows hot that an announced statement needs: they are found, and put into the table."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from catalog.hot_keys import Announcement, Reading, Thawed, Writing
from catalog.model import JournalTable
from pgwire_gateway.session.announcements import announce, thawing_of, undo
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.needed_rows import (
    Finder,
    NeededRows,
    WantedRows,
    holders,
    look_up,
)
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.plans import Route
from pgwire_gateway.session.text_rows import key_of, key_row, key_texts
from pgwire_gateway.wire_types.changed_rows import TextRow
from rewrite.context import ParameterValue
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal
from rewrite.needs.search import Condition

Asked = Sequence[tuple[Condition, object]]
"""Conditions whose rows are to be found, each with what tells it from others."""


def thaw(  # noqa: PLR0913 - the rows, and what is known of them
    call: Invocation,
    needed: NeededRows,
    wanted: WantedRows,
    announced: Announcement,
    bound: tuple[ParameterValue, ...],
    *,
    finder: Finder,
    began: bool,
) -> Thawed:
    """Make hot what is not.

    Raises:
        Refusal: The rows are too many, or do not satisfy a constraint.
        UnsupportedError: Spark cannot find them.
    """
    relid, thawing = needed.table.relid, thawing_of(call)

    def asked() -> Asked:
        remembered = partial(thawing.remembers, relid, announced.heats)
        return [one for one in wanted.conditions if not remembered(one[1])]

    if announced.is_complete and not asked() and not wanted.values:
        return Thawed.DONE
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
) -> Thawed:
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
    for condition, known in wanted.conditions:
        try:
            most = _most_found(call, announced)
            found += finder(call, needed, condition, observation, bound, most=most)
        except Refusal:
            thawing.note_vain(relid, known)
            raise
    for attnums, values in wanted.values:
        found += holders(call, observation, table, attnums, values)
    if found and not began:
        found = _without_own(call, relid, table, found)
    present = [*rows.present, *found]
    absent = [*rows.absent, *(key_row(table, key) for key in held)]
    reading = Reading.of(announced.heats, observation.result.snapshots[relid])
    lasting = any(condition.is_lasting for condition, _ in wanted.conditions)
    thawed = thawing.thaw(relid, reading, present, absent, lasting=lasting)
    if thawed is Thawed.UNFIT:
        raise Refusal("a row that is stored does not satisfy a constraint now")
    for condition, known in wanted.conditions:
        if condition.is_lasting and thawed is Thawed.DONE:
            thawing.remember(relid, announced.heats, known)
    return thawed


def _most_found(call: Invocation, announced: Announcement) -> int:
    """Return how many rows that satisfy a condition may become hot."""
    config, asked = call.services.config, announced.thaw_rows
    if call.plan.route is not Route.CHANGE:
        return config.thaw_rows if asked is None else asked
    # More of them Spark changes as a whole, where it can.
    return config.inline_rows if asked is None else min(asked, config.inline_rows)


def _without_own(
    call: Invocation, relid: int, table: JournalTable, rows: list[TextRow]
) -> list[TextRow]:
    """Leave out rows that this transaction has inserted: the gateway would wait for its end."""
    keys = {key_texts(table, row): row for row in rows}
    announced = announce(
        call, Writing(relid, tuple(keys), call.plan.locks is not None), began=False
    )
    return [row for key, row in keys.items() if announced is not None and key in announced.cold]
