"""MERGE of many rows of several leaves of a partitioned table, tiered ones among them.

Spark computes what becomes of the rows of all leaves, which are locked, by one query, which reads
the source once. Rows that are changed are written to the journal of their leaf, those of resident
leaves by PostgreSQL (:mod:`.resident_leaves`); new ones PostgreSQL puts where they belong, and
looks at their constraints. A row that gets another key goes from where it was, and comes as a new
one does: to whatever leaf.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.model import LEAF, Column, JournalTable
from catalog.results import PartitionTree
from catalog.session import names
from pgwire_gateway.dml import changes, inserts, merge_sources, partitions, temporary_rows
from pgwire_gateway.hot import announcements
from pgwire_gateway.partitions import resident_leaves
from pgwire_gateway.partitions.captured_leaves import capture
from pgwire_gateway.planning.plans import WrittenLeaves
from pgwire_gateway.rows import drawn_values, merge_conflicts
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.joined_results import joined
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.spark.spools import Spool
from rewrite import pipeline
from rewrite.command import Command, merge_actions, source_relations
from rewrite.context import RewriteContext
from rewrite.errors import UnsupportedError
from rewrite.results import ACTION, CONFLICT, MOVED, MergeConflict, RowChange

_LEAF: Final = f"n{LEAF}"
_ANY_NUMBER: Final = math.inf

FIRST_PAUSE_S: Final = 0.01
"""How long leaves are left alone which could not be locked; twice as long each time."""

LONGEST_PAUSE_S: Final = 1.0
"""After such a pause they are waited for, and who waits in a circle is told so (40P01)."""


@dataclass(frozen=True, slots=True)
class _MergedRows:
    """What a statement does to leaves that are read as one table, or to one of them."""

    call: Invocation
    change: RowChange
    context: RewriteContext
    sample: JournalTable
    """One of the leaves."""
    rows: Spool
    leaves: tuple[int, ...]
    """The leaves with rows that are changed."""

    def of(self, leaf: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are changed in one leaf."""
        for batch in self.rows.batches():
            found = _changed(batch)
            if _LEAF in found.schema.names:
                found = found.filter(pc.equal(found.column(_LEAF), leaf))
            if found.num_rows:
                yield found

    def new(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that come to whatever leaf: those that move among them."""
        for batch in self.rows.batches():
            found = batch.filter(pc.equal(batch.column(ACTION), int(Command.INSERT)))
            if found.num_rows:
                yield found

    def inserted(self) -> Iterator[pa.RecordBatch]:
        """Yield those of them that no leaf had before."""
        for batch in self.new():
            moves = MOVED in batch.schema.names
            yield batch.filter(pc.invert(batch.column(MOVED))) if moves else batch


def run(call: Invocation, leaves: WrittenLeaves) -> StatementResult:
    """Run a statement; all is written when this returns, nothing is committed.

    Raises:
        GatewayError: As of a MERGE of one table; 0A000 for leaves that cannot be read as one table
            where rows come to any of them, and for resident ones that cannot become tiered.
    """
    tree = call.plan.trees[leaves.tree]
    moves = _changes_key(call, tree)
    comes = moves or any(one.command is Command.INSERT for one in merge_actions(call.query))
    _require_mergeable(call, leaves, tree)
    locked = sorted(leaf.relid for leaf in tree.leaves if leaf.is_tiered and comes)
    resident = [leaf.relid for leaf in tree.leaves if not leaf.is_tiered and comes]
    others = sorted(set(resident).difference(leaves.resident))
    # Else the bookkeeping does it, with whose rights no code of users may run.
    copies = comes and names.may_insert(call.session.catalog, leaves.tree)
    held, free = (leaves.resident, others) if copies else ((*leaves.resident, *others), ())
    tiered = locked or sorted(leaves.tiered)
    versions, observation = _locked(call, leaves, tiered, held, free)
    if comes:
        resident_leaves.expect(call, leaves.tree, resident, locked)
    with ExitStack() as ends:
        parts = _computed(call, leaves, observation, ends, moves=moves)
        if comes and len(parts) > 1:
            raise UnsupportedError(
                f"{_construct(call)} that inserts or moves rows into partitions that differ, or"
                " have very many recent changes, is not supported",
                hint="VACUUM the partitions, or name the rows by constants for their keys.",
            )
        if len(parts) > 1 and leaves.tree in source_relations(call.query):
            raise UnsupportedError(
                f"{_construct(call)} of many rows of several partitions that differ, by what is"
                " read of them, is not supported"
            )
        written = [
            _written(part, leaf, versions[leaf])
            if leaf in versions
            else _changed_by_key(part, leaf)
            for part in parts
            for leaf in part.leaves
        ]
        if comes:
            written.append(_added(parts[0], leaves.tree, locked, copies=copies))
        if not written:
            written = [changes.nothing(parts[0].call, parts[0].change, parts[0].context)]
        return joined(written, call.statement.kind.name)


def _changes_key(call: Invocation, tree: PartitionTree) -> bool:
    """Return whether rows may get another key, by which they would go to other leaves, too."""
    columns = tree.key or _routing(tree)
    return any(
        action.command is Command.UPDATE and not action.assigned.keys().isdisjoint(columns)
        for action in merge_actions(call.query)
    )


def _routing(tree: PartitionTree) -> tuple[int, ...]:
    """Return the columns that tell the leaf of a row; all where expressions do."""
    return tuple(tree.columns) if tree.routed_by is None else tree.routed_by


def _construct(call: Invocation) -> str:
    """Return what a statement is, for errors."""
    return "MERGE" if call.plan.arbiter is None else "INSERT with ON CONFLICT"


def _require_mergeable(call: Invocation, leaves: WrittenLeaves, tree: PartitionTree) -> None:
    """Refuse what several leaves without primary key cannot have (0A000)."""
    if leaves.resident and not tree.key:
        raise UnsupportedError(
            f"{_construct(call)} of many rows of tiered and resident partitions without primary"
            " key is not supported",
            hint="ALTER TABLE ... SET (gateway.residency = never) makes partitions tiered.",
        )


def _locked(
    call: Invocation,
    leaves: WrittenLeaves,
    tiered: Sequence[int],
    held: Sequence[int],
    others: Sequence[int],
) -> tuple[dict[int, int], Observation]:
    """Lock tiered leaves, then resident ones, which are `held`, or stay so; return what is seen.

    Who holds one of the latter may be waiting for one of the former, and be let pass.
    """
    observer, plan = Observer(call.session), call.plan
    if not held and not others:
        return observer.observe_leaves(plan, tiered, plan.tables.union(leaves.tiered))
    began, pause = not call.session.transaction.open, FIRST_PAUSE_S
    while True:
        versions, _ = observer.observe_leaves(plan, tiered, ())
        waits = not began or pause > LONGEST_PAUSE_S
        if resident_leaves.hold(call, leaves.tree, held, others, waits=waits):
            break
        announcements.undo(call)
        call.running.check()
        time.sleep(pause)
        pause *= 2
    return versions, observer.observe_held(plan, plan.tables.union(leaves.tiered, leaves.resident))


def _computed(
    call: Invocation,
    leaves: WrittenLeaves,
    observation: Observation,
    ends: ExitStack,
    *,
    moves: bool,
) -> list[_MergedRows]:
    """Have Spark compute the rows, those of leaves that are alike together."""
    reached = (*leaves.tiered, *leaves.resident)
    seen = Observer(call.session).united_for_write(
        observation, leaves.tree, reached, most_rows=_ANY_NUMBER
    )
    united = seen.united.get(leaves.tree, ())
    alone = set(reached).difference(*(some.leaves for some in united))
    tree = call.plan.trees[leaves.tree]
    placed_by = tree.key or _routing(tree) if moves else ()
    parts = [(some.leaves[0], some.relid) for some in united]
    parts += [(leaf, leaf) for leaf in sorted(alone)]
    return [
        _merged(
            partitions.of_leaves(call, leaf, number),
            observation.result.snapshots[leaf].table,
            seen,
            ends,
            placed_by=frozenset(tree.numbers(leaf)[attno] for attno in placed_by),
        )
        for leaf, number in parts
    ]


def _merged(
    part: Invocation,
    sample: JournalTable,
    observation: Observation,
    ends: ExitStack,
    *,
    placed_by: frozenset[int],
) -> _MergedRows:
    observer, bound = Observer(part.session), binding.bind(part)
    observation = observer.narrowed(part.plan, observation, bound)
    context = observer.context(part.plan, observation, bound)
    observation, context = temporary_rows.brought(part, observation, context, ends)
    observation, context = merge_sources.prepared(part, observation, context, ends)
    context = replace(context, moves=bool(placed_by), placed_by=placed_by, routed=True)
    change = pipeline.compile_merge(part.query, context)
    leaves: set[int] = set()
    rows = ends.enter_context(closing(Spool(part.services.warehouse, sample)))
    with observer.run(change.query, observation, part.running) as batches:
        for batch in drawn_values.filled(part, change, batches):
            part.running.check()
            _require_no_conflict(part, sample, batch)
            rows.add(batch)
            changed = _changed(batch)
            if _LEAF in changed.schema.names:
                leaves.update(pc.unique(changed.column(_LEAF)).to_pylist())
            elif changed.num_rows:
                leaves.add(part.target)
    return _MergedRows(part, change, context, sample, rows, tuple(sorted(leaves)))


def _changed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows that are there before a statement."""
    return batch.filter(pc.not_equal(batch.column(ACTION), int(Command.INSERT)))


def _require_no_conflict(part: Invocation, sample: JournalTable, batch: pa.RecordBatch) -> None:
    """Refuse rows in conflict, but for keys that are there: that is found when they are written."""
    others = pc.not_equal(batch.column(CONFLICT), int(MergeConflict.KEY_EXISTS))
    merge_conflicts.require_none(part.session, sample, batch.filter(others))


def _written(part: _MergedRows, leaf: int, version: int) -> StatementResult:
    """Write what has become of the rows of one tiered leaf."""
    call, change = _of_leaf(part, leaf)
    checks = part.context.checks.get(part.call.target, ())
    context = replace(part.context, checks={leaf: checks})
    return changes.write(call, change, context, part.of(leaf), version)


def _changed_by_key(part: _MergedRows, leaf: int) -> StatementResult:
    """Have PostgreSQL change the rows of one resident leaf."""
    call, change = _of_leaf(part, leaf)
    table = part.context.snapshots[leaf].table
    resident_leaves.change(call, table, change, lambda: part.of(leaf))
    return changes.done(call, change, part.context, part.of(leaf))


def _of_leaf(part: _MergedRows, leaf: int) -> tuple[Invocation, RowChange]:
    call = replace(part.call, plan=replace(part.call.plan, target=leaf))
    return call, replace(part.change, relid=leaf, drawn=(), numbers_rows=False)


def _columns(table: JournalTable) -> list[Column]:
    """Return what new rows are given."""
    return [column for column in table.columns if column.generated is None]


def _added(part: _MergedRows, tree: int, locked: Sequence[int], *, copies: bool) -> StatementResult:
    """Have PostgreSQL put new rows into their leaves, and the journals take them."""
    session = part.call.session
    if not copies:
        if resident_leaves.add(part.call, tree, part.sample, part.change, part.new()):
            capture(part.call, locked)
        return changes.done(part.call, part.change, part.context, part.inserted())
    columns = _columns(part.sample)
    outputs = {column.column: column for column in part.change.query.columns}
    query = replace(
        part.change.query, columns=tuple(outputs[f"n{column.attnum}"] for column in columns)
    )
    table, named = names.relation_name(session.catalog, tree), [one.name for one in columns]
    if inserts.copy(session, query, part.new(), table, named):
        capture(part.call, locked)
    return changes.done(part.call, part.change, part.context, part.inserted())
