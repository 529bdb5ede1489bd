"""UPDATE and DELETE of several tiered leaves of a partitioned table.

Spark computes the rows of all leaves by as few queries as there are kinds of leaves; what each of
them changes is written to its own journal. In READ COMMITTED that is computed before anything is
locked, and then the leaves are that have such rows. Where others have written one of these
meanwhile, all leaves are locked, and it is computed again.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.model import LEAF
from catalog.session import session_state
from pgwire_gateway.dml import changes, partitions, temporary_rows
from pgwire_gateway.dml.unlocked_changes import compiled, versions_since
from pgwire_gateway.hot import announcements
from pgwire_gateway.planning.plans import WrittenLeaves
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import StatementResult
from pgwire_gateway.session.united_leaves import MOST_ROWS
from rewrite.command import source_relations
from rewrite.context import RewriteContext
from rewrite.errors import UnsupportedError
from rewrite.results import RowChange

MOST_BYTES: Final = 16 << 20
"""How much is held of rows of several leaves; more is computed leaf by leaf."""

_LEAF: Final = f"n{LEAF}"


@dataclass(frozen=True, slots=True)
class _LeafRows:
    """What a statement changes in one leaf, or nothing in one of several that are read together."""

    call: Invocation
    """The statement, on the leaf or on these."""
    change: RowChange
    context: RewriteContext
    batches: Sequence[pa.RecordBatch]

    @property
    def leaf(self) -> int:
        """OID of the leaf."""
        return self.call.target

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(batch.num_rows for batch in self.batches)


def change(call: Invocation, leaves: WrittenLeaves) -> list[StatementResult]:
    """Change the rows of tiered leaves; what is done is written, and not committed.

    Raises:
        GatewayError: As on a single table.
    """
    if leaves.resident or not _computes_first(call, leaves):
        return _locked(call, leaves)
    session, plan = call.session, call.plan
    observer, began = Observer(session), not session.transaction.open
    before = observer.observe(plan.tables.union(leaves.tiered), plan)
    found = _computed(call, leaves, before)
    if found is None:
        _require_one_query(call, leaves, len(leaves.tiered))
        return _locked(call, leaves)
    changed = sorted(part.leaf for part in found if part.rows)
    if not changed:
        return [changes.nothing(found[0].call, found[0].change, found[0].context)]
    versions, now = observer.observe_leaves(plan, changed, changed, checked=True)
    compactor = call.services.compactor
    for leaf in changed:
        added = versions_since(before, now, leaf, compactor)
        if added is None or added.num_rows:
            if began:
                # Leaves are locked in one order.
                announcements.undo(call)
            return _locked(call, leaves)
    return [_written(part, versions[part.leaf]) for part in found if part.rows]


def _computes_first(call: Invocation, leaves: WrittenLeaves) -> bool:
    """Return whether rows can be computed before leaves are locked."""
    catalog = call.session.catalog
    return (
        call.session.transaction.written.isdisjoint(leaves.tiered)
        and session_state.reads_committed(catalog)
        and not session_state.is_read_only(catalog)
    )


def _locked(call: Invocation, leaves: WrittenLeaves) -> list[StatementResult]:
    """Lock all leaves that a statement can write, and change their rows."""
    reads = call.plan.tables.union(leaves.tiered)
    versions, observation = Observer(call.session).observe_leaves(call.plan, leaves.tiered, reads)
    found = _computed(call, leaves, observation)
    if found is not None:
        done = [_written(part, versions[part.leaf]) for part in found if part.rows]
        return done or [changes.nothing(found[0].call, found[0].change, found[0].context)]
    _require_one_query(call, leaves, len(leaves.tiered))
    return [
        changes.compute(partitions.of_leaf(call, leaf), versions[leaf], observation)
        for leaf in leaves.tiered
    ]


def _computed(
    call: Invocation, leaves: WrittenLeaves, observation: Observation
) -> list[_LeafRows] | None:
    """Have Spark compute the rows; None where they are too many to be held."""
    most_rows = math.inf if reads_itself(call, leaves) else MOST_ROWS
    seen = Observer(call.session).united_for_write(
        observation, leaves.tree, leaves.tiered, most_rows=most_rows
    )
    united = seen.united.get(leaves.tree, ())
    alone = set(leaves.tiered).difference(*(some.leaves for some in united))
    parts = [partitions.of_leaves(call, some.leaves[0], some.relid) for some in united]
    parts += [partitions.of_leaf(call, leaf) for leaf in sorted(alone)]
    _require_one_query(call, leaves, len(parts))
    found: list[_LeafRows] = []
    size = 0
    for part in parts:
        rows = _rows(part, seen, MOST_BYTES - size)
        if rows is None:
            return None
        size += sum(batch.nbytes for batch in rows.batches)
        found += [rows] if part.target in alone else _by_leaf(rows)
    return found


def reads_itself(call: Invocation, leaves: WrittenLeaves) -> bool:
    """Return whether a statement reads the table it changes, apart from the rows it changes."""
    return leaves.tree in source_relations(call.query)


def _require_one_query(call: Invocation, leaves: WrittenLeaves, parts: int) -> None:
    """Refuse that one leaf is all there is to be read of a table, whose rows others have as well.

    Args:
        call: The statement.
        leaves: What it writes.
        parts: How many queries compute the rows.
    """
    if parts != 1 and reads_itself(call, leaves):
        raise UnsupportedError(
            "changing very many rows of several partitions, or partitions that differ, by what is"
            " read of them is not supported",
            hint="Name a condition on the columns that the table is partitioned by, for one alone.",
        )


def _rows(part: Invocation, observation: Observation, most_bytes: int) -> _LeafRows | None:
    observer, bound = Observer(part.session), binding.bind(part)
    observation = observer.narrowed(part.plan, observation, bound)
    context = observer.context(part.plan, observation, bound)
    with ExitStack() as ends:
        observation, context = temporary_rows.brought(part, observation, context, ends)
        change = compiled(part, context)
        batches = ends.enter_context(observer.run(change.query, observation, part.running))
        held = _held(batches, most_bytes)
    return None if held is None else _LeafRows(part, change, context, held)


def _held(batches: Iterable[Any], most_bytes: int) -> list[pa.RecordBatch] | None:
    held = []
    for batch in batches:
        most_bytes -= batch.nbytes
        if most_bytes < 0:
            return None
        if batch.num_rows:
            held.append(batch)
    return held


def _by_leaf(found: _LeafRows) -> list[_LeafRows]:
    """Return the rows of leaves that were read together, each for its own, if any."""
    parts: dict[int, list[pa.RecordBatch]] = {}
    for batch in found.batches:
        leaf_of = batch.column(_LEAF)
        for leaf in pc.unique(leaf_of).to_pylist():
            parts.setdefault(leaf, []).append(batch.filter(pc.equal(leaf_of, leaf)))
    checks = found.context.checks.get(found.leaf, ())
    return [
        _LeafRows(
            replace(found.call, plan=replace(found.call.plan, target=leaf)),
            replace(found.change, relid=leaf),
            replace(found.context, checks={leaf: checks}),
            batches,
        )
        for leaf, batches in sorted(parts.items())
    ] or [found]


def _written(part: _LeafRows, version: int) -> StatementResult:
    return changes.write(part.call, part.change, part.context, iter(part.batches), version)
