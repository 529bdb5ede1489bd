"""MERGE of many rows of several tiered leaves of a partitioned table.

Spark computes what becomes of the rows of all leaves, which are locked, by one query, which reads
the source once. Rows that are changed are written to the journal of their leaf; new ones PostgreSQL
puts where they belong, and looks at their constraints. A row stays in its leaf.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog import names
from catalog.model import LEAF, JournalTable
from catalog.results import PartitionTree
from pgwire_gateway.errors import UnsupportedError
from pgwire_gateway.session import (
    binding,
    changes,
    inserts,
    merge_conflicts,
    merge_sources,
    partitions,
    temporary_rows,
)
from pgwire_gateway.session.captured_leaves import capture
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.joined_results import joined
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.plans import WrittenLeaves
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.spark.spools import Spool
from rewrite import pipeline
from rewrite.command import Command, merge_actions, source_relations
from rewrite.context import RewriteContext
from rewrite.results import ACTION, CONFLICT, MergeConflict, RowChange

_LEAF: Final = f"n{LEAF}"
_ANY_NUMBER: Final = math.inf


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
        """Yield the rows that are inserted, in whatever leaf."""
        for batch in self.rows.batches():
            found = batch.filter(pc.equal(batch.column(ACTION), int(Command.INSERT)))
            if found.num_rows:
                yield found


def run(call: Invocation, leaves: WrittenLeaves) -> StatementResult:
    """Run a statement; all is written when this returns, nothing is committed.

    Raises:
        GatewayError: As of a MERGE of one table; 0A000 for rows that would go to other leaves, and
            for leaves that cannot be read as one table where rows are inserted.
    """
    tree = call.plan.trees[leaves.tree]
    adds = _adds(call)
    _require_mergeable(call, leaves, tree, adds=adds)
    locked = sorted(leaf.relid for leaf in tree.leaves) if adds else list(leaves.tiered)
    reads = call.plan.tables.union(leaves.tiered)
    versions, observation = Observer(call.session).observe_leaves(call.plan, locked, reads)
    with ExitStack() as ends:
        parts = _computed(call, leaves, observation, ends)
        if adds and len(parts) > 1:
            raise UnsupportedError(
                "MERGE that inserts rows into partitions that differ, or have very many recent"
                " changes, is not supported",
                hint="VACUUM the partitions, or merge into one of them.",
            )
        written = [_written(part, leaf, versions[leaf]) for part in parts for leaf in part.leaves]
        if adds:
            written.append(_added(parts[0], leaves.tree, locked))
        if not written:
            written = [changes.nothing(parts[0].call, parts[0].change, parts[0].context)]
        return joined(written, call.statement.kind.name)


def _adds(call: Invocation) -> bool:
    return any(action.command is Command.INSERT for action in merge_actions(call.query))


def _require_mergeable(
    call: Invocation, leaves: WrittenLeaves, tree: PartitionTree, *, adds: bool
) -> None:
    """Refuse what several leaves cannot have (0A000)."""
    bound = set(tree.columns if tree.routed_by is None else tree.routed_by)
    if any(
        action.command is Command.UPDATE and not bound.isdisjoint(action.assigned)
        for action in merge_actions(call.query)
    ):
        raise UnsupportedError(
            "MERGE that changes columns that a table is partitioned by, in many rows, is not"
            " supported",
            hint="Delete the rows, and insert them anew.",
        )
    if leaves.tree in source_relations(call.query):
        raise UnsupportedError(
            "MERGE of many rows of several partitions, by what is read of them, is not supported"
        )
    if not tree.key:
        raise UnsupportedError(
            "MERGE of many rows of several partitions without primary key is not supported"
        )
    if leaves.resident or (adds and not all(leaf.is_tiered for leaf in tree.leaves)):
        raise UnsupportedError(
            "MERGE of many rows of resident and tiered partitions together is not supported",
            hint="ALTER TABLE ... SET (gateway.residency = never) makes a partition tiered.",
        )


def _computed(
    call: Invocation, leaves: WrittenLeaves, observation: Observation, ends: ExitStack
) -> list[_MergedRows]:
    """Have Spark compute the rows, those of leaves that are alike together."""
    seen = Observer(call.session).united_for_write(
        observation, leaves.tree, leaves.tiered, most_rows=_ANY_NUMBER
    )
    united = seen.united.get(leaves.tree, ())
    alone = set(leaves.tiered).difference(*(some.leaves for some in united))
    parts = [(some.leaves[0], some.relid) for some in united]
    parts += [(leaf, leaf) for leaf in sorted(alone)]
    return [
        _merged(
            partitions.of_leaves(call, leaf, number),
            observation.result.snapshots[leaf].table,
            seen,
            ends,
        )
        for leaf, number in parts
    ]


def _merged(
    part: Invocation, sample: JournalTable, observation: Observation, ends: ExitStack
) -> _MergedRows:
    observer, bound = Observer(part.session), binding.bind(part)
    observation = observer.narrowed(part.plan, observation, bound)
    context = observer.context(part.plan, observation, bound)
    observation, context = temporary_rows.brought(part, observation, context, ends)
    observation, context = merge_sources.prepared(part, observation, context, ends)
    change = pipeline.compile_merge(part.query, context)
    leaves: set[int] = set()
    rows = ends.enter_context(closing(Spool(part.services.warehouse, sample)))
    with observer.run(change.query, observation, part.running) as batches:
        for batch in batches:
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
    """Write what has become of the rows of one leaf."""
    call = replace(part.call, plan=replace(part.call.plan, target=leaf))
    checks = part.context.checks.get(part.call.target, ())
    context = replace(part.context, checks={leaf: checks})
    return changes.write(call, replace(part.change, relid=leaf), context, part.of(leaf), version)


def _added(part: _MergedRows, tree: int, locked: Sequence[int]) -> StatementResult:
    """Have PostgreSQL put new rows into their leaves, and the journals take them."""
    session = part.call.session
    columns = [column for column in part.sample.columns if column.generated is None]
    outputs = {column.column: column for column in part.change.query.columns}
    query = replace(
        part.change.query, columns=tuple(outputs[f"n{column.attnum}"] for column in columns)
    )
    table, named = names.relation_name(session.catalog, tree), [one.name for one in columns]
    if inserts.copy(session, query, part.new(), table, named):
        capture(part.call, locked)
    return changes.done(part.call, part.change, part.context, part.new())
