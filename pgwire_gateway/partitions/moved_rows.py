"""UPDATE of what a partitioned table is partitioned by: rows go from leaf to leaf.

PostgreSQL moves rows of resident leaves. Of tiered ones Spark computes the new rows, which
PostgreSQL puts where they belong, and the old ones end where they were: all of it as the leaves
were when they had been locked, in one transaction.
"""

from dataclasses import replace

from catalog.session import names
from pgwire_gateway.dml import changes, inserts
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
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


def end(part: Invocation, version: int, observation: Observation) -> int:
    """End the old versions of the rows that an UPDATE of one leaf changes; count them."""
    fields = {"commandType": int(Command.DELETE), "targetList": None, "returningList": None}
    deleting = Node(part.query.tag, {**part.query.fields, **fields})
    call = replace(part, plan=replace(part.plan, query=deleting))
    done = changes.compute(call, version, observation)
    return int(done.status().rpartition(" ")[2])


def copy(part: Invocation, tree: int, observation: Observation) -> None:
    """Copy the new versions of these rows into the partitioned table, which has the leaf."""
    observer, session = Observer(part.session), part.session
    context = observer.context(part.plan, observation, binding.bind(part))
    changed = pipeline.compile_update(part.query, context)
    table = observation.result.snapshots[part.target].table
    columns = [column for column in table.columns if column.generated is None]
    wanted = {f"n{column.attnum}": column.name for column in columns}
    found = {column.column: column for column in changed.query.columns}
    query = replace(changed.query, columns=tuple(found[name] for name in wanted))
    with observer.run(changed.query, observation, part.running) as batches:
        inserts.copy(
            session,
            query,
            batches,
            names.relation_name(session.catalog, tree),
            list(wanted.values()),
        )
