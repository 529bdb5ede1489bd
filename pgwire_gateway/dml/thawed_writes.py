"""Statements on single rows of a tiered table: PostgreSQL runs them, on rows put there.

The rows that a statement can touch are named by constants for their keys, or few. Where they can be
hot, they are made so, and others write beside it (:mod:`pgwire_gateway.hot.hot_rows`). Else the
table is locked: the rows are looked up in tail and files, put into the catalog table, the
statement runs as it was sent, what it has made of them goes to the tail, and the catalog table is
empty again.
"""

import json
from dataclasses import replace

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.tail import encode_rows
from pgwire_gateway.hot import hot_rows, hot_runs, own_hot_rows
from pgwire_gateway.hot.announcements import NotHotError
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import EXECUTORS, Route
from pgwire_gateway.rows import source_rows
from pgwire_gateway.rows.journal_writes import JournalWriter
from pgwire_gateway.rows.needed_rows import needed_rows
from pgwire_gateway.rows.row_search import SingleRows, find, holders, look_up, stored_rows
from pgwire_gateway.rows.text_rows import key_texts
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import StatementResult
from rewrite.context import ParameterValue
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal

HINT = (
    "Name the rows by constants for their keys, have more rows be made hot: "
    "ALTER TABLE ... SET (gateway.thaw_rows = ...), or keep the table resident: "
    "ALTER TABLE ... SET (gateway.residency = always)."
)
HINT_OF_OTHERS = "Name the rows by constants for their keys, if the table has one."
"""A journal or a table of others cannot be resident."""


def run(call: Invocation) -> StatementResult:
    """Run a statement that only PostgreSQL can run; all is written when this returns.

    Raises:
        GatewayError: PostgreSQL's own errors; 0A000 where rows are not named by their keys, 40001
            when the table changed since the snapshot of a REPEATABLE READ transaction.
    """
    began = not call.session.transaction.open
    try:
        if call.plan.is_external:
            return _run_external(call, began=began)
        done = hot_rows.run_or_lock(call)
        if isinstance(done, StatementResult):
            return done
        version, observation = done
        rows = single_rows(call, observation, binding.bind(call))
        return change(call, rows, version, began=began)
    except NotHotError as reason:
        raise reason.unwaited(needed_rows(call).table.name) from reason
    except Refusal as refusal:
        raise _unsupported(call, refusal) from refusal


def _run_external(call: Invocation, *, began: bool) -> StatementResult:
    """Run such a statement on a journal of others, whose rows Spark looks up."""
    needed = needed_rows(call)
    if needed.draws:
        raise Refusal("keys that are known only when the statement runs")
    version, observation = Observer(call.session).observe_for_write(call.plan)
    sources = source_rows.read(call, needed.sources, needed.most)
    keys = needed.keys(binding.bind(call), sources.contents)
    found = stored_rows(call, observation, needed.table, keys)
    return change(call, replace(found, sources=sources), version, began=began)


def applies(call: Invocation) -> bool:
    """Return whether a statement would be run this way.

    Raises:
        UnsupportedError: It would not, and there is no other way for it.
    """
    try:
        needed, bound = needed_rows(call), binding.bind(call)
        if call.plan.route is Route.THAW or needed.further or needed.tells_late:
            hot_rows.probe_all(call)
            return True
        observation = Observer(call.session).observe(call.plan.tables, call.plan)
        single_rows(call, observation, bound)
    except Refusal as refusal:
        if call.plan.route is Route.THAW:
            raise _unsupported(call, refusal) from refusal
        return False
    return True


def _unsupported(call: Invocation, refusal: Refusal) -> UnsupportedError:
    kind, is_external = call.statement.kind.name, call.plan.is_external
    whose = "table of others" if is_external else "tiered table"
    name = call.session.catalog.observations.relations([call.target])[call.target].name
    return UnsupportedError(
        f'this {kind} of {whose} "{name}" is not supported: {refusal}',
        hint=HINT_OF_OTHERS if is_external else HINT,
    )


def single_rows(
    call: Invocation, observation: Observation, bound: tuple[ParameterValue, ...]
) -> SingleRows:
    """Look up the rows that a statement can touch.

    By conditions they are found where only PostgreSQL can run it.

    Raises:
        Refusal: They are not named by their keys, or are too many.
        UnsupportedError: Spark cannot read the table.
        GatewayError: 58P01 or 58030 for files that cannot be read.
    """
    needed = needed_rows(call)
    if needed.needs.arbitrates:
        raise Refusal(own_hot_rows.ARBITRATES)
    sources = source_rows.read(call, needed.sources, needed.most)
    relid = needed.table.relid
    if call.plan.route is not Route.THAW or not needed.conditions:
        keys = needed.keys(bound, sources.contents)
        return replace(look_up(call.services.lookups, observation, relid, keys), sources=sources)
    needed.require_alone()
    wanted = needed.wanted(bound, sources.contents)
    rows = look_up(call.services.lookups, observation, relid, wanted.keys)
    present = {key_texts(needed.table, row): row for row in rows.present}
    for condition, _ in wanted.conditions:
        found = find(call, needed, condition, observation, bound, most=needed.most, few=False)
        present |= {key_texts(needed.table, row): row for row in found}
    for attnums, values in wanted.values:
        held = holders(call, observation, needed.table, attnums, values)
        present |= {key_texts(needed.table, row): row for row in held}
    return replace(rows, present=tuple(present.values()), sources=sources)


def change(call: Invocation, rows: SingleRows, version: int, *, began: bool) -> StatementResult:
    """Let PostgreSQL run a statement on rows put there for it; all is written when this returns.

    Args:
        call: The statement, whose target is locked for writing.
        rows: The rows it can touch.
        version: The version number of what it writes.
        began: Whether the transaction was begun for it.

    Raises:
        Refusal: A row could not be thawed; nothing was done.
        OutdatedPlanError: Definitions have changed since it was planned; nothing was done.
        GatewayError: PostgreSQL's own errors; 0A000 when other keys were written, 40001 when other
            tables that tell the keys have changed meanwhile.
    """
    session, relid = call.session, str(call.target).encode()
    places = session.catalog.journals.thaw(call.target, rows.present)
    if not places:
        raise Refusal("a row that is stored does not satisfy a constraint now")
    session.last_decision = f"{EXECUTORS[Route.THAW]}: {hot_runs.REASON}"
    thawed = [str(version).encode(), places, encode_rows(rows.present), encode_rows(rows.absent)]
    after = [(bookkeeping.CAPTURE_THAWED, [relid, *thawed]), *rows.sources.calls()]
    with source_rows.doubted(call, rows.sources, began=began):
        result, (values, *answers) = session.catalog.writes.run_between(
            hot_runs.step(call),
            router.named(call.statement),
            call.plan.basis,
            began=began,
            after=after,
        )
        if not rows.sources.prove(answers):
            raise source_rows.outdated()
    if result is None:
        raise TypeError(call.plan.route)
    JournalWriter(session, call.target, call.running).require_new_values(json.loads(values))
    return hot_runs.result_of(call, result)
