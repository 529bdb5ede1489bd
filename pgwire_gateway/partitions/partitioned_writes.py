"""Writes of several leaves of a partitioned table: one statement, one commit.

The tiered leaves are locked, in the order of their OIDs, and are empty then as PostgreSQL knows
them. So PostgreSQL can run the statement as it came: of what is there it finds the rows of resident
leaves, and rows that it inserts it puts where they belong. Spark changes the rows of tiered leaves.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from catalog.session import names
from pgwire_gateway.dml import changes, inserts, partitions
from pgwire_gateway.hot import hot_rows, hot_runs, insert_sizes
from pgwire_gateway.hot.announcements import NotHotError, announcing_leaves
from pgwire_gateway.partitions import changed_leaves, moved_rows, thawed_leaves
from pgwire_gateway.partitions.captured_leaves import capture
from pgwire_gateway.planning import router
from pgwire_gateway.planning.plans import Route, WrittenLeaves
from pgwire_gateway.rows.leaf_queries import MOST_LEAVES
from pgwire_gateway.rows.row_search import find
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.joined_results import joined
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.portals import NoRows, StatementResult
from rewrite.command import command
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal


def run(call: Invocation) -> StatementResult:
    """Run a statement; all is written when this returns, nothing is committed.

    Raises:
        GatewayError: As on a single table; 0A000 for what several leaves cannot have.
    """
    return _ROUTES[call.plan.route](call)


def native(call: Invocation) -> StatementResult:
    """Have PostgreSQL run a statement that concerns resident leaves alone, which stay resident."""
    return _native(call, began=not call.session.transaction.open)


def _native(call: Invocation, *, began: bool) -> StatementResult:
    """Do so in a transaction that was begun for the statement, or not."""
    leaves, session = _leaves(call), call.session
    session.transaction.expect_implicit()
    result, _ = session.catalog.writes.run_between(
        hot_runs.step(call),
        router.named(call.statement),
        call.plan.basis,
        began=began,
        before=[announcing_leaves(leaves)],
    )
    if result is None:
        raise TypeError(call.plan.route)
    return hot_runs.result_of(call, result)


def insert(call: Invocation) -> StatementResult:
    """Have PostgreSQL insert rows into whatever leaves they belong to."""
    leaves, session = _leaves(call), call.session
    if len(leaves.tiered) <= MOST_LEAVES and insert_sizes.is_small(call):
        with suppress(NotHotError):
            return hot_rows.insert_into_leaves(call, leaves)
    began = not session.transaction.open
    _lock(call, leaves)
    result, _ = session.catalog.writes.run_between(
        hot_runs.step(call), router.named(call.statement), call.plan.basis, began=began
    )
    if result is None:
        raise TypeError(call.plan.route)
    capture(call, leaves.tiered)
    return hot_runs.result_of(call, result)


def insert_query(call: Invocation) -> StatementResult:
    """Copy rows that Spark computes into a partitioned table."""
    if call.columns is not None:
        raise UnsupportedError(
            "RETURNING of rows that Spark inserts into several partitions is not supported"
        )
    leaves, session, bound = _leaves(call), call.session, binding.bind(call)
    _lock(call, leaves)
    observation = Observer(session).observe(call.plan.tables, call.plan)
    table = names.relation_name(session.catalog, leaves.tree)
    with inserts.source(call, observation, bound) as (query, batches):
        columns = [column.name for column in query.columns]
        rows = inserts.copy(session, query, batches, table, columns)
    capture(call, leaves.tiered)
    return StatementResult(None, NoRows(), lambda _: f"INSERT 0 {rows}")


def change(call: Invocation) -> StatementResult:
    """Have Spark change the rows of tiered leaves, and PostgreSQL those of resident ones."""
    leaves, query = _leaves(call), call.query
    if hot_rows.names_rows(call):
        with suppress(Refusal, NotHotError):
            return hot_rows.run_or_unlock(call, find)
    elif thawed_leaves.has_written_rows(call):
        with suppress(Refusal, NotHotError):
            return thawed_leaves.on_hot_rows(call)
    try:
        _require_changeable(call, leaves)
    except UnsupportedError as error:
        return _on_hot_rows(call, error)
    if changed_leaves.reads_itself(call, leaves):
        # Rows that it locks, and that others change meanwhile, are PostgreSQL's to look at again.
        with suppress(Refusal, NotHotError):
            return hot_rows.or_unlock(call, partial(thawed_leaves.on_hot_rows, call))
    if partitions.moves(query, call.plan.trees[leaves.tree]):
        return _move(call, leaves)
    began = not call.session.transaction.open
    done = changed_leaves.change(call, leaves)
    if leaves.resident:
        done.append(_native(call, began=began))
    return joined(done, command(query).name)


def is_for_hot_rows(call: Invocation) -> bool:
    """Return whether an UPDATE or a DELETE is PostgreSQL's, on hot rows, if these can be."""
    if hot_rows.names_rows(call):
        return True
    try:
        _require_changeable(call, _leaves(call))
    except UnsupportedError:
        return True
    return False


def _on_hot_rows(call: Invocation, error: UnsupportedError) -> StatementResult:
    """Have PostgreSQL run what Spark does not, where all rows that it needs can be hot.

    Raises:
        GatewayError: PostgreSQL's own errors; the error given where they cannot.
    """
    try:
        return thawed_leaves.on_hot_rows(call)
    except NotHotError:
        raise error from None
    except Refusal as refusal:
        with changes.told(call, refusal):
            raise error from refusal


def _require_changeable(call: Invocation, leaves: WrittenLeaves) -> None:
    query = call.query
    if call.columns is not None and partitions.moves(query, call.plan.trees[leaves.tree]):
        raise UnsupportedError(
            "RETURNING of an UPDATE of columns that a table is partitioned by is not supported",
            hint="Name a condition that only rows of resident partitions satisfy, or leave it out.",
        )
    if changed_leaves.reads_itself(call, leaves) and (
        leaves.resident or partitions.moves(query, call.plan.trees[leaves.tree])
    ):
        raise UnsupportedError(
            "changing several partitions by what is read of them, where some are resident or rows"
            " move, is not supported",
            hint="Name a condition on the columns that the table is partitioned by, for one alone.",
        )
    if leaves.resident and call.plan.tables:
        raise UnsupportedError(
            "changing resident and tiered partitions together, by what other tables hold, is not"
            " supported",
            hint="Name a condition on the columns that the table is partitioned by.",
        )


def _move(call: Invocation, leaves: WrittenLeaves) -> StatementResult:
    """Run an UPDATE whose rows may go from leaf to leaf."""
    moved_rows.require_repeatable(call)
    began = not call.session.transaction.open
    parts = [partitions.of_leaf(call, leaf) for leaf in leaves.tiered]
    locked = sorted({*leaves.tiered, *leaves.others})
    reads = call.plan.tables.union(leaves.tiered)
    versions, observation = Observer(call.session).observe_leaves(call.plan, locked, reads)
    tables = [observation.result.snapshots[leaf].table for leaf in leaves.tiered]
    tree = call.plan.trees[leaves.tree]
    moved_rows.require_plain_keys(tree, tables)
    count = 0
    if leaves.resident:
        # First: what comes to resident leaves from others has been changed already.
        count += int(_native(call, began=began).status().rpartition(" ")[2])
        capture(call, locked)
        versions, _ = call.session.catalog.writes.begin_write(locked, command="UPDATE")
    for part in parts:
        count += moved_rows.end(part, versions[part.target], observation)
    keyed = bool(tree.key)
    moved = [moved_rows.copy(part, leaves.tree, observation, keyed=keyed) for part in parts]
    moved_rows.require_no_circle(call.session, [keys for keys in moved if keys is not None])
    capture(call, locked)
    return StatementResult(None, NoRows(), lambda _: f"UPDATE {count}")


def lock(call: Invocation, tree: int, tiered: Sequence[int], resident: Sequence[int]) -> None:
    """Lock leaves for a write by the name of their table, in a transaction."""
    session = call.session
    session.transaction.begin_implicit()
    session.transaction.written.update(tiered)
    if tiered:
        session.catalog.writes.begin_write(tiered, command=call.statement.kind.name)
    function, values = announcing_leaves(WrittenLeaves(tree, tuple(tiered), tuple(resident)))
    session.catalog.call(function, *values)


def _lock(call: Invocation, leaves: WrittenLeaves) -> None:
    lock(call, leaves.tree, leaves.tiered, leaves.resident)


def _leaves(call: Invocation) -> WrittenLeaves:
    if call.plan.leaves is None:
        raise TypeError(call.plan.route)
    return call.plan.leaves


_ROUTES = {
    Route.PARTS: native,
    Route.INSERT: insert,
    Route.INSERT_QUERY: insert_query,
    Route.CHANGE: change,
    Route.MERGE: thawed_leaves.run,
    Route.THAW: thawed_leaves.run,
}
