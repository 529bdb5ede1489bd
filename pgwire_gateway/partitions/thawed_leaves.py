"""MERGE and INSERT with ON CONFLICT on single rows of several leaves of a partitioned table.

As on one table (:mod:`pgwire_gateway.dml.thawed_writes`), but rows are looked up in all leaves that
can have them. These are locked, the rows are put where they belong, PostgreSQL runs the statement
as it came, and each journal takes what has become of its rows. So rows go from leaf to leaf, too.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.calls import Call, array
from catalog.bookkeeping.tail import encode_rows
from catalog.model import JournalTable
from catalog.results import Leaf, PartitionTree
from catalog.session import names
from pgwire_gateway.dml import changes, partitions, upserts
from pgwire_gateway.hot import hot_rows, hot_runs, own_hot_rows
from pgwire_gateway.hot.announcements import NotHotError
from pgwire_gateway.partitions import merged_leaves, upserted_leaves
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import EXECUTORS, Route, WrittenLeaves
from pgwire_gateway.rows import source_rows
from pgwire_gateway.rows.journal_writes import JournalWriter
from pgwire_gateway.rows.needed_rows import needed_rows
from pgwire_gateway.rows.row_search import SingleRows, look_up
from pgwire_gateway.rows.source_rows import SourceRows
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.wire_types import plain_keys
from rewrite.errors import UnsupportedError
from rewrite.needs.keys import Key
from rewrite.needs.results import Refusal

MOST_ROUTED: Final = 200
"""More keys than these may be in any leaf."""

HINT: Final = (
    "Name the rows by constants for their keys, or name a condition on the columns that the table"
    " is partitioned by, for one partition alone."
)


def run(call: Invocation) -> StatementResult:
    """Run a statement on rows of several leaves; all is written when this returns.

    Raises:
        GatewayError: PostgreSQL's own errors; 0A000 where rows are not named by their keys, 40001
            when a leaf changed since the snapshot of a REPEATABLE READ transaction.
    """
    began = not call.session.transaction.open
    try:
        rows = _wanted(call)
    except Refusal as refusal:
        return _by_conditions(call, refusal, began=began)
    if len(rows.leaves) == 1 and rows.leaves[0].is_tiered:
        alone = partitions.of_leaf(call, rows.leaves[0].relid)
        return changes.merge(alone) if call.plan.route is Route.MERGE else upserts.run(alone)
    with suppress(Refusal, NotHotError):
        return hot_rows.run_or_wait(_among(call, rows.leaves))
    try:
        return _changed(call, rows, began=began)
    except Refusal as refusal:
        raise _unsupported(call, refusal) from refusal


def _by_conditions(call: Invocation, refusal: Refusal, *, began: bool) -> StatementResult:
    """Run a statement whose rows are not named by keys, for this reason."""
    is_merge = call.plan.route is Route.MERGE
    try:
        # Of many rows Spark knows better which they are.
        if not is_merge or hot_rows.names_rows(call):
            return hot_rows.run_or_wait(call)
        if has_written_rows(call):
            return on_hot_rows(call)
    except NotHotError as reason:
        if not is_merge:
            raise reason.unwaited(_name(call)) from reason
    except Refusal as other:
        refusal = other
    with changes.told(call, refusal):
        if is_merge:
            return merged_leaves.run(call, _leaves(call))
        done = upserted_leaves.run(call, began=began)
    if done is None:
        raise _unsupported(call, refusal) from refusal
    return done


def on_hot_rows(call: Invocation) -> StatementResult:
    """Have PostgreSQL run a statement on as many rows as may be hot, whatever names them.

    Raises:
        Refusal: They are more, or PostgreSQL cannot run it on single rows.
        NotHotError: Leaves cannot have hot rows for it.
        GatewayError: PostgreSQL's own errors.
    """
    return hot_rows.run_or_wait(replace(call, plan=replace(call.plan, route=Route.THAW)))


def has_written_rows(call: Invocation) -> bool:
    """Return whether a transaction has written, or locked, rows of leaves before.

    Others may have, too, whose end it would have to wait for to lock them as a whole, while they
    wait for these rows. And one that reads by one snapshot cannot lock them as a whole any more, as
    the definitions of hot rows are newer.
    """
    leaves, transaction = _leaves(call), call.session.transaction
    return not transaction.written.isdisjoint((*leaves.tiered, *leaves.others))


def _among(call: Invocation, leaves: Sequence[Leaf]) -> Invocation:
    """Return a statement that reaches these leaves and no others."""
    tiered = tuple(leaf.relid for leaf in leaves if leaf.is_tiered)
    resident = tuple(leaf.relid for leaf in leaves if not leaf.is_tiered)
    reached = replace(_leaves(call), tiered=tiered, resident=resident, by_key=True)
    return replace(call, plan=replace(call.plan, leaves=reached))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The rows that a statement can touch."""

    leaves: tuple[Leaf, ...]
    """The leaves that can have them."""
    key_names: list[str]
    keys: list[Key]
    sources: SourceRows
    """What tables that tell keys have held."""


def _name(call: Invocation) -> str:
    relid = _leaves(call).tree
    return call.session.catalog.observations.relations([relid])[relid].name


def _unsupported(call: Invocation, refusal: Exception) -> UnsupportedError:
    return UnsupportedError(
        f"this {call.statement.kind.name} of several partitions, tiered ones among them, is not"
        f" supported: {refusal}",
        hint=HINT,
    )


def _wanted(call: Invocation) -> _Wanted:
    """Return the rows that a statement can touch.

    Raises:
        Refusal: They are not named by their keys, or are too many.
    """
    tree = _tree(call)
    sample = partitions.of_leaf(call, _leaves(call).tiered[0])
    needed = needed_rows(sample)
    if needed.draws:
        raise Refusal("keys that are known only when the statement runs")
    if needed.needs.arbitrates:
        raise Refusal(own_hot_rows.ARBITRATES)
    sources = source_rows.read(call, needed.sources, needed.most)
    keys = needed.keys(binding.bind(sample), sources.contents)
    table = needed.table
    return _Wanted(_holding(call, tree, table, keys), _key_names(table), keys, sources)


def _changed(call: Invocation, wanted: _Wanted, *, began: bool) -> StatementResult:
    """Put the rows into these leaves, have PostgreSQL run the statement, and capture them."""
    session = call.session
    tiered = sorted(leaf.relid for leaf in wanted.leaves if leaf.is_tiered)
    resident = [leaf.relid for leaf in wanted.leaves if not leaf.is_tiered]
    session.transaction.begin_implicit()
    versions, observation = Observer(session).observe_leaves(
        call.plan, tiered, tiered, checked=not tiered
    )
    after: list[Call] = []
    for relid in tiered:
        if _key_names(observation.result.snapshots[relid].table) != wanted.key_names:
            raise Refusal("partitions with other keys")
        rows = look_up(call.services.lookups, observation, relid, wanted.keys)
        places = session.catalog.journals.thaw(relid, rows.present)
        if not places:
            raise Refusal("a row that is stored does not satisfy a constraint now")
        after.append(_capturing(relid, versions[relid], places, rows))
    above = str(_leaves(call).tree).encode()
    before = [(bookkeeping.ANNOUNCE_TREE, [above, array(resident), array(tiered)])]
    session.last_decision = f"{EXECUTORS[Route.THAW]}: {call.plan.reason}"
    with source_rows.doubted(call, wanted.sources, began=began):
        result, answers = session.catalog.writes.run_between(
            hot_runs.step(call),
            router.named(call.statement),
            call.plan.basis,
            began=began,
            before=before,
            after=[*after, *wanted.sources.calls()],
        )
        values = answers[len(before) :]
        if not wanted.sources.prove(values[len(tiered) :]):
            raise source_rows.outdated()
    if result is None:
        raise TypeError(call.plan.route)
    for relid, told in zip(tiered, values, strict=False):
        JournalWriter(session, relid, call.running).require_new_values(json.loads(told))
    return hot_runs.result_of(call, result)


def _capturing(relid: int, version: int, places: bytes, rows: SingleRows) -> Call:
    """Return the call that has a journal take what has become of rows, and of keys without one."""
    found = (encode_rows(rows.present), encode_rows(rows.absent))
    numbers = (str(relid).encode(), str(version).encode())
    return bookkeeping.CAPTURE_THAWED, [*numbers, places, *found]


def _holding(
    call: Invocation, tree: PartitionTree, table: JournalTable, keys: Sequence[Key]
) -> tuple[Leaf, ...]:
    """Return the leaves that rows with some keys are in, or would be."""
    names_of_key = _key_names(table)
    types = [table.column(attnum).type_oid for attnum in table.key]
    rows = [dict(zip(names_of_key, plain_keys.written(types, key), strict=True)) for key in keys]
    # Settings tell how backslashes are read.
    odd = any("\\" in value for row in rows for value in row.values())
    may_select = names.may_select(call.session.catalog, _leaves(call).tree)
    if odd or len(keys) > MOST_ROUTED or not may_select:
        return tree.leaves
    return partitions.routed(call, _leaves(call).tree, tree, rows)


def _key_names(table: JournalTable) -> list[str]:
    return [table.column(attnum).name for attnum in table.key]


def _leaves(call: Invocation) -> WrittenLeaves:
    if call.plan.leaves is None:
        raise TypeError(call.plan.route)
    return call.plan.leaves


def _tree(call: Invocation) -> PartitionTree:
    tree = call.plan.trees[_leaves(call).tree]
    if not tree.key:
        raise Refusal("a partitioned table without primary key")
    return tree
