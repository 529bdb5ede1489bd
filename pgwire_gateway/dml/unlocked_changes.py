"""Changes of rows that Spark computes while others write the table, which is locked afterwards.

What others have committed meanwhile counts as it does to PostgreSQL under READ COMMITTED: a row
that has changed is looked at again as it is now, one that has gone is left out, and one that has
come since is none of the statement's business. Where it is not plain which of these has happened,
or too much has, all is computed again under the lock, as if the statement had come later.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import accumulate, chain

import pyarrow as pa
import pyarrow.compute as pc

from catalog.failpoints import Failpoint, reach
from catalog.model import Segment, SegmentKind, TableSnapshot
from catalog.session import session_state
from pgwire_gateway.dml import merge_sources, temporary_rows
from pgwire_gateway.rows import merge_conflicts, row_search
from pgwire_gateway.rows.needed_rows import NeededRows
from pgwire_gateway.rows.shown_columns import shown_columns
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.spark.batch_stores import BatchStore
from pgwire_gateway.spark.batches import Batches
from pgwire_gateway.spark.compactor import Compactor
from pgwire_gateway.spark.conservation import require_all
from pgwire_gateway.spark.small_files import MAX_BYTES
from pgwire_gateway.spark.writer import SegmentWriter
from pgwire_gateway.wire_types.catalog_rows import input_rows
from pgwire_gateway.wire_types.changed_rows import ChangedRows, TextRow
from pgwire_gateway.wire_types.row_differences import Superseded, added_versions, occur, superseded
from pgwire_gateway.wire_types.row_encoder import ResultColumn
from pgwire_gateway.wire_types.tails import plain_identity
from pgwire_gateway.wire_types.versions import storage_schema
from rewrite import pipeline
from rewrite.command import Command, assigned_columns, command, merge_actions
from rewrite.context import CheckConstraint, ParameterValue, RewriteContext
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal
from rewrite.needs.search import Condition, is_whole
from rewrite.results import RowChange
from rewrite.tree import walk


def applies(call: Invocation) -> bool:
    """Return whether what is to be written can be computed before the table is locked.

    Not so in a transaction that has written the table, and has it locked, or reads by one snapshot,
    nor of journals of others, whose row versions have no segments that tell what has come since.
    """
    session = call.session
    return (
        not call.plan.is_external
        and call.target not in session.transaction.written
        and session_state.reads_committed(session.catalog)
        and not session_state.is_read_only(session.catalog)
    )


def compiled(call: Invocation, context: RewriteContext, *, with_old: bool = False) -> RowChange:
    """Compile the statement.

    Raises:
        UnsupportedError: Spark cannot compute it.
    """
    kind = command(call.query)
    require_within(call)
    if kind is Command.MERGE:
        return pipeline.compile_merge(call.query, context)
    updates = kind is Command.UPDATE
    compile_change = pipeline.compile_update if updates else pipeline.compile_delete
    return compile_change(call.query, context, with_old=with_old)


def require_within(call: Invocation) -> None:
    """Refuse rows that may belong to other partitions than the one written (0A000)."""
    bound, query = call.plan.bound_columns, call.query
    if bound is not None and not bound:
        return
    if command(query) is Command.UPDATE:
        assigned = set(assigned_columns(query))
    else:
        actions = merge_actions(query) if command(query) is Command.MERGE else ()
        if any(action.command is Command.INSERT for action in actions):
            raise UnsupportedError("MERGE that inserts many rows into a partition is not supported")
        assigned = {attnum for action in actions for attnum in action.assigned}
    if assigned if bound is None else assigned & bound:
        raise UnsupportedError(
            "changing columns that a table is partitioned by, in many rows, is not supported",
            hint="Delete the rows, and insert them anew.",
        )


class UnlockedChange:
    """One statement: computed, and written to files where it is large, but not published."""

    def __init__(self, call: Invocation) -> None:
        """Do nothing yet."""
        self._call = call
        self._observer = Observer(call.session)
        self._bound = binding.bind(call)
        self._computation: _Computation | None = None

    @property
    def change(self) -> RowChange:
        """What was compiled."""
        return self._begun.change

    @property
    def staged(self) -> ChangedRows | None:
        """The rows, where they are so many that they are in files."""
        return self._begun.staged

    @property
    def is_small(self) -> bool:
        """Return whether the rows are few enough for the tail, as far as is known."""
        begun = self._computation
        return begun is None or begun.rows <= self._call.services.config.inline_rows

    def find(  # noqa: PLR0913 - as `row_search.find`
        self,
        call: Invocation,
        needed: NeededRows,
        wanted: Condition,
        observation: Observation,
        bound: tuple[ParameterValue, ...],
        *,
        most: int,
        few: bool,
    ) -> list[TextRow]:
        """Find the rows a condition asks for as `row_search.find` does, and what becomes of them.

        So nothing has been computed in vain when they are too many.

        Raises:
            Refusal: They are.
            UnsupportedError: Spark cannot evaluate the condition.
        """
        is_all = call.plan.tables <= observation.result.snapshots.keys()
        if is_all and is_whole(call.query, wanted.need):
            try:
                return self._begin(observation, with_old=True).old_rows(most)
            except Refusal:
                raise
            except UnsupportedError:
                # PostgreSQL may be able to do what Spark is not, if Spark finds the rows.
                self.close()
        return row_search.find(call, needed, wanted, observation, bound, most=most, few=few)

    def finish(self) -> None:
        """Compute all of it.

        Raises:
            GatewayError: 23502 or 23514 for a row that violates a constraint, 21000, 23505 or 0A000
                for conflicts of a MERGE, 57014 when cancelled, 53100 or 58030
                when storage fails, and whatever else Spark meets, or cannot do.
        """
        begun, plan = self._computation, self._call.plan
        if begun is None:
            begun = self._begin(self._observer.observe(plan.tables, plan), with_old=False)
        begun.finish()
        reach(Failpoint.COMPUTED)

    def rows_now(self, now: Observation) -> list[pa.RecordBatch] | None:
        """Return the rows to be written now that the table is locked, as the query yields them.

        None where they have to be computed again.
        """
        begun = self._begun
        if begun.is_later:
            return None
        found = self._superseded(now)
        if found is None or not found.identities.num_rows:
            return None if found is None else begun.held
        if not self._looks_again():
            return None
        return [*begun.without(found.identities), *self._again(found.current)]

    def publish(self, now: Observation, version: int) -> bool:
        """Publish what is in files; False, and nothing is done, where others have changed a row."""
        begun = self._begun
        if begun.segment is None or begun.version > version:
            return False
        found = self._superseded(now)
        if found is None or found.identities.num_rows:
            return False
        self._call.session.catalog.journals.publish(self._call.target, version, [begun.segment])
        begun.keep()
        return True

    def close(self) -> None:
        """Give up what has not been published."""
        begun, self._computation = self._computation, None
        if begun is not None:
            begun.close()

    @property
    def _begun(self) -> "_Computation":
        if self._computation is None:
            raise TypeError(self._call.plan.route)
        return self._computation

    def _begin(self, observation: Observation, *, with_old: bool) -> "_Computation":
        self.close()
        call, observer = self._call, self._observer
        seen = observer.narrowed(call.plan, observation, self._bound)
        context = observer.context(call.plan, seen, self._bound)
        with ExitStack() as ends:
            seen, context = temporary_rows.brought(call, seen, context, ends)
            seen, context = merge_sources.prepared(call, seen, context, ends)
            change = compiled(call, context, with_old=with_old)
            checks = context.checks.get(call.target, ())
            batches = observer.run(change.query, seen, call.running)
            ends.callback(batches.close)
            begun = _Computation(call, observation, change, checks, batches, ends.pop_all())
        self._computation = begun
        return begun

    def _superseded(self, now: Observation) -> Superseded | None:
        """Return which rows others have changed meanwhile; None where that cannot be told."""
        begun, relid = self._begun, self._call.target
        added = versions_since(begun.before, now, relid, self._call.services.compactor)
        if added is None or not added.num_rows:
            return None if added is None else Superseded(added, added)
        if not self._knows_conflicts():
            return None
        identities = begun.identities()
        return None if identities is None else superseded(identities, added)

    def _knows_conflicts(self) -> bool:
        """Return whether rows of others with which there is a conflict have keys that are known.

        An INSERT with ON CONFLICT may be in one with a row of another primary key.
        """
        arbiter = self._call.plan.arbiter
        table = self._begun.before.result.snapshots[self._call.target].table
        return arbiter is None or set(arbiter) == set(table.key)

    def _looks_again(self) -> bool:
        """Return whether single rows can be computed again: the table is read nowhere else.

        Subqueries see what was there when the statement began. Of a join, PostgreSQL looks again at
        the pair of rows that it has found. A MERGE is one.
        """
        query, relid = self._call.query, self._call.target
        read = [node.get("relid") for node, _ in walk(query) if node.tag == "RANGETBLENTRY"]
        return (
            command(query) is not Command.MERGE
            and read.count(relid) == 1
            and relid not in self._call.plan.journals.values()
            and len(query.node("jointree").items("fromlist")) == 1
            and not query.items("cteList")
        )

    def _again(self, rows: pa.Table) -> list[pa.RecordBatch]:
        """Compute rows again, as they are now."""
        if not rows.num_rows:
            return []
        call = self._call
        alone = self._begun.before.of_rows(call.target, rows)
        context = self._observer.context(call.plan, alone, self._bound)
        with ExitStack() as ends:
            alone, context = temporary_rows.brought(call, alone, context, ends)
            change = compiled(call, context)
            with self._observer.run(change.query, alone, call.running) as batches:
                return list(batches)


class _Computation:
    """The rows that a query yields, held in memory or, when they are many, in files."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it is begun with
        self,
        call: Invocation,
        before: Observation,
        change: RowChange,
        checks: Sequence[CheckConstraint],
        batches: Batches,
        ends: ExitStack,
    ) -> None:
        self.before = before
        self.change = change
        self.held: list[pa.RecordBatch] = []
        self.rows = 0
        self.staged: ChangedRows | None = None
        self.segment: Segment | None = None
        self.version = 0
        """Version number of what is in files: larger than all that the query has seen."""
        self._call = call
        self._checks = checks
        self._batches = batches
        self._ends = ends
        self._bytes = 0
        self._writer: SegmentWriter | None = None

    @property
    def is_later(self) -> bool:
        """Return whether it is computed when the table is locked alone."""
        change = self.change
        return change.changes_key or change.numbers_rows or bool(change.drawn)

    @property
    def _snapshot(self) -> TableSnapshot:
        return self.before.result.snapshots[self._call.target]

    def old_rows(self, most: int) -> list[TextRow]:
        """Return the old version of every row.

        Raises:
            Refusal: They are more than so many.
        """
        columns = [
            ResultColumn(column.type_oid, column.typmod, 0, column.column, column.scale)
            for column in self.change.old
        ]
        for batch in self._batches:
            self._hold(batch)
            if self.rows > most:
                raise Refusal(f"a condition that more than {most} rows satisfy is not supported")
        return [[*row, None] for batch in self.held for row in input_rows(batch, columns)]

    def finish(self) -> None:
        """Take all rows, and check constraints, which PostgreSQL does before it waits for a row.

        Not where keys change: what has become of such rows is not told by their keys. Nor where
        rows are given numbers, which is done when the table is locked.

        Raises:
            GatewayError: 23502 or 23514.
        """
        if self.is_later:
            return
        for batch in self._batches:
            self._hold(batch)
            if self._bytes > MAX_BYTES:
                self._stage()
        for batch in self.held:
            self._check(self._changed(), batch)

    def identities(self) -> pa.Table | None:
        """Return what tells the rows apart, in storage layout; None where keys are not plain."""
        table = self._snapshot.table
        names = plain_identity(table)
        if names is None:
            return None
        schema = pa.schema([storage_schema(table).field(name) for name in names])
        if self.segment is not None:
            stored = self._call.services.compactor.stored_columns(table, self.segment, names)
            return stored.cast(schema)
        return pa.Table.from_batches(
            [
                pa.RecordBatch.from_arrays(
                    [batch.column(_given(f.name)).cast(f.type) for f in schema], schema=schema
                )
                for batch in self.held
            ],
            schema,
        )

    def without(self, identities: pa.Table) -> list[pa.RecordBatch]:
        """Return the rows but for these."""
        found = self.identities()
        if found is None:
            raise TypeError(self.change.relid)
        kept = pc.invert(occur(found, identities))
        places = accumulate((batch.num_rows for batch in self.held), initial=0)
        return [
            batch.filter(kept.slice(place, batch.num_rows))
            for place, batch in zip(places, self.held, strict=False)
        ]

    def keep(self) -> None:
        """Leave what has been published."""
        self._writer = None

    def close(self) -> None:
        """Remove files that are not to be kept, and end the query."""
        self._ends.close()
        if self._writer is not None:
            self._writer.abort()
            if self.staged is not None:
                self.staged.close()

    def _hold(self, batch: pa.RecordBatch) -> None:
        self._call.running.check()
        self.held.append(batch)
        self.rows += batch.num_rows
        self._bytes += batch.nbytes

    def _stage(self) -> None:
        """Write the rows to files, with those that are still to come."""
        call, snapshot = self._call, self._snapshot
        self.version = max(snapshot.version + 1, self.before.result.transaction_timestamp)
        self._writer = SegmentWriter(call.services.engine, snapshot.table)
        self.staged = rows = self._changed(BatchStore(call.returned))
        held, self.held = self.held, []
        for batch in chain(held, self._batches):
            call.running.check()
            rows.add(batch)
            for part in rows.take():
                self._check(rows, part)
                self._writer.write(rows.storage(part, self.version))
        self.rows = rows.rows
        segments = self._writer.finish(call.running)
        require_all(snapshot.table, rows.versions, segments)
        self.segment = next(iter(segments), None)

    def _changed(self, returning: BatchStore | None = None) -> ChangedRows:
        shown = partial(shown_columns, self._call)
        return ChangedRows(self._snapshot.table, self.change, self._checks, returning, shown)

    def _check(self, rows: ChangedRows, batch: pa.RecordBatch) -> None:
        rows.require_valid(batch)
        if self.change.kind == "merge":
            merge_conflicts.require_none(self._call.session, self._snapshot.table, batch)


def versions_since(
    before: Observation, now: Observation, relid: int, compactor: Compactor
) -> pa.Table | None:
    """Return the row versions that have come into a table between two observations.

    What flushes and compactions have done to it meanwhile is not among them.

    Args:
        before: The earlier one.
        now: The later one, of the same definitions, while the table was locked.
        relid: The table.
        compactor: What reads files.

    Returns:
        They in storage layout; None where they are not told easily.

    Raises:
        GatewayError: 58030 when storage fails.
    """
    earlier, later = before.result.snapshots[relid], now.result.snapshots[relid]
    table, schema = later.table, storage_schema(later.table)
    tails = [
        schema.empty_table() if tail is None else tail.cast(schema)
        for tail in (before.tails.get(relid), now.tails.get(relid))
    ]
    parts = [
        {(segment.segment_id, segment.kind): segment for segment in snapshot.segments}
        for snapshot in (earlier, later)
    ]
    if parts[0].keys() == parts[1].keys() and tails[0].equals(tails[1]):
        return schema.empty_table()
    if earlier.seen is None and earlier.version == later.version:
        # Each write of a table without hot rows has had a larger number than all before it.
        return schema.empty_table()
    names = plain_identity(table)
    gone = [parts[0][place] for place in parts[0].keys() - parts[1].keys()]
    come = [parts[1][place] for place in parts[1].keys() - parts[0].keys()]
    if names is None or any(one.kind is not SegmentKind.DELTA for one in (*gone, *come)):
        return None
    stored = [compactor.row_versions(table, segments) for segments in (gone, come)]
    if stored[0] is None or stored[1] is None:
        return None
    rows = [pa.concat_tables(pair) for pair in zip(stored, tails, strict=True)]
    return added_versions(rows[0], rows[1], names)


def _given(name: str) -> str:
    """Return the name that a column of the storage layout has in what the query yields."""
    return "n" + name[1:] if name.startswith("c") else name
