"""UPDATE of what a partitioned table is partitioned by: rows go from leaf to leaf.

PostgreSQL moves rows of resident leaves. Of tiered ones Spark computes the new rows, which
PostgreSQL puts where they belong, and the old ones end where they were: all of it as the leaves
were when they had been locked, in one transaction.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from catalog.model import JournalTable
from catalog.results import PartitionTree
from catalog.session import names
from pgwire_gateway.dml import changes, inserts, temporary_rows
from pgwire_gateway.rows import unique_keys
from pgwire_gateway.rows.key_changes import ChangedKeys
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.wire_types.catalog_rows import key_texts
from pgwire_gateway.wire_types.row_differences import occur
from rewrite import pipeline
from rewrite.command import Command
from rewrite.errors import UnsupportedError
from rewrite.tree import Node, walk

_FUNCTIONS = frozenset({"funcid", "opfuncid"})


def require_repeatable(call: Invocation) -> None:
    """Refuse conditions that may find other rows when they are asked for a second time (0A000)."""
    volatility = call.session.volatilities.of
    called = {
        node.integer(name)
        for node, _ in walk(call.query)
        for name in _FUNCTIONS & node.fields.keys()
    }
    if any(volatility(function) == "v" for function in called):
        raise UnsupportedError(
            "UPDATE of columns that a table is partitioned by, with volatile functions, is not"
            " supported"
        )


def require_plain_keys(tree: PartitionTree, tables: Iterable[JournalTable]) -> None:
    """Refuse leaves of a table with a key whose equal values may look different (0A000).

    Rows that get each other's keys could not be told.
    """
    if tree.key and not all(map(ChangedKeys.applies, tables)):
        raise UnsupportedError(
            "moving rows between tiered partitions, where equal values of the primary key may look"
            " different, is not supported",
            hint="Delete the rows, and insert them anew.",
        )


def end(part: Invocation, version: int, observation: Observation) -> int:
    """End the old versions of the rows that an UPDATE of one leaf changes; count them."""
    fields = {"commandType": int(Command.DELETE), "targetList": None, "returningList": None}
    deleting = Node(part.query.tag, {**part.query.fields, **fields})
    call = replace(part, plan=replace(part.plan, query=deleting))
    done = changes.compute(call, version, observation)
    return int(done.status().rpartition(" ")[2])


@dataclass(frozen=True, slots=True)
class MovedKeys:
    """Primary keys that rows of one leaf had, and those that they get."""

    table: JournalTable
    keys: ChangedKeys


def copy(part: Invocation, tree: int, observation: Observation, *, keyed: bool) -> MovedKeys | None:
    """Copy the new versions of these rows into the partitioned table, which has the leaf.

    Args:
        part: The statement, on the leaf.
        tree: The partitioned table.
        observation: The leaves as they were.
        keyed: Whether the partitioned table has a primary key.

    Returns:
        Their keys, if they are those of the partitioned table.

    Raises:
        GatewayError: PostgreSQL's own errors for rows it refuses.
    """
    observer, session = Observer(part.session), part.session
    context = observer.context(part.plan, observation, binding.bind(part))
    table = observation.result.snapshots[part.target].table
    columns = [column for column in table.columns if column.generated is None]
    wanted = {f"n{column.attnum}": column.name for column in columns}
    names_of_keys, held = ChangedKeys.columns(table), []
    with ExitStack() as ends:
        observation, context = temporary_rows.brought(part, observation, context, ends)
        changed = pipeline.compile_update(part.query, context)
        found = {column.column: column for column in changed.query.columns}
        query = replace(changed.query, columns=tuple(found[name] for name in wanted))
        notes_keys = keyed and changed.changes_key

        def noted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if notes_keys:
                    held.append(batch.select(names_of_keys))
                yield batch

        batches = ends.enter_context(observer.run(changed.query, observation, part.running))
        inserts.copy(
            session,
            query,
            noted(batches),
            names.relation_name(session.catalog, tree),
            list(wanted.values()),
        )
    return MovedKeys(table, ChangedKeys.of(table, held)) if notes_keys else None


def require_no_circle(session: ClientSession, moved: Sequence[MovedKeys]) -> None:
    """Refuse rows that get each other's keys: whichever comes first, the key is still there.

    Raises:
        GatewayError: 23505 with the key, and the leaf that has it.
    """
    if not moved:
        return
    names_of_keys = moved[0].keys.old.column_names
    old, new = (
        pa.concat_tables([keys.rename_columns(names_of_keys) for keys in side])
        for side in ([one.keys.old for one in moved], [one.keys.new for one in moved])
    )
    old, new = old.combine_chunks(), new.combine_chunks()
    place = ChangedKeys(old, new).circled()
    if place is None:
        return
    taken = new.slice(place, 1)
    had = int(pc.index(occur(old, taken), True).as_py())
    for one in moved:
        table = one.table
        if had < one.keys.old.num_rows:
            types = [table.column(attnum).type_oid for attnum in table.key]
            (values,) = key_texts(taken, types)
            raise unique_keys.duplicate(session, table, unique_keys.primary(table), values)
        had -= one.keys.old.num_rows
