"""Statements on partitioned tables, narrowed down to the leaves that they can reach.

PostgreSQL says which: its plan for the statement, with the values it is run with, names them. What
it prunes while a statement runs is not known then, and counts as reached. A statement that reaches
one leaf of a table is planned as one on that leaf; PostgreSQL runs it by the name it came with.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from catalog.results import Leaf, PartitionTree, RelationKind
from catalog.session import names
from pgwire_gateway.planning import forced
from pgwire_gateway.planning.answerable import Answerable
from pgwire_gateway.planning.plans import Plan, Route, WrittenLeaves
from pgwire_gateway.session import binding
from pgwire_gateway.session.invocation import Invocation
from rewrite.command import (
    Command,
    assigned_columns,
    command,
    merge_actions,
    source_relations,
)
from rewrite.context import Leaves
from rewrite.errors import UnsupportedError
from rewrite.partitions import as_leaf, named_alone
from rewrite.routed_rows import Routed, routed_rows
from rewrite.tree import Node, walk

MOST_ROWS: Final = 100
"""Rows of an INSERT that are routed one by one; more may go to all leaves."""

Reached = Mapping[int, tuple[Leaf, ...]]
"""The leaves that a statement can reach of each partitioned table, by its OID."""

_WRITING: Final = frozenset(
    {Route.INSERT, Route.INSERT_QUERY, Route.CHANGE, Route.MERGE, Route.THAW}
)

_INSERTING: Final = frozenset({Route.INSERT, Route.INSERT_QUERY})

RESIDENT_ONLY: Final = "resident partitions only"


def narrowed(call: Invocation, *, by_spark: bool = False) -> Invocation:
    """Return a statement with a plan that knows which leaves it can reach.

    Args:
        call: The statement.
        by_spark: Whether Spark is to read it, whatever it reaches.

    Raises:
        GatewayError: 42501 when the role may not run it; 0A000 for leaves that cannot be written
            together.
    """
    plan = call.plan
    if plan.explained is not None:
        # What PostgreSQL would run for a cursor is not looked at by it when rows are fetched.
        by_spark = by_spark or plan.route is Route.CURSOR
        inner = narrowed(replace(call, plan=plan.explained), by_spark=by_spark)
        return replace(call, plan=replace(plan, explained=inner.plan))
    if not plan.trees:
        return call
    if named_alone(call.query, plan.trees):
        raise UnsupportedError("ONLY of a partitioned table with tiered leaves is not supported")
    reached = _reached(call)
    # In a transaction the locks that readers have are taken by who looks again.
    checked = not call.session.transaction.open or plan.target is not None
    call = replace(call, plan=(plan := replace(plan, checked=checked, pruned=True)))
    if plan.locks is not None and plan.locks.relids & reached.keys():
        return replace(call, plan=_locking(call, reached))
    if plan.route in _WRITING and plan.target in plan.trees:
        return replace(call, plan=_writing(call, reached))
    if plan.route is Route.READ and not by_spark and _answered_by_postgresql(call, reached):
        return replace(call, plan=_local(call, reached))
    return replace(call, plan=_reading(plan, reached))


# what is reached ----------------------------------------------------------------------------------


def _reached(call: Invocation) -> Reached:
    """Return the leaves that PostgreSQL's plan names."""
    trees = call.plan.trees
    answer = call.session.catalog.analyses.explain(
        call.statement.text,
        call.values,
        parameter_oids=call.parameter_oids,
        formats=call.formats,
    )
    named = _named(answer)
    return {relid: _among(tree, named) for relid, tree in trees.items()}


def _among(tree: PartitionTree, named: frozenset[str] | None) -> tuple[Leaf, ...]:
    if named is None:
        return tree.leaves
    return tuple(leaf for name in sorted(named) for leaf in tree.named.get(name, ()))


def _named(answer: bytes) -> frozenset[str] | None:
    """Return the relations in a plan; None where some are pruned when it begins to run."""
    found = set()
    for node in _nodes(json.loads(answer)):
        if node.get("Subplans Removed"):
            return None
        if "Relation Name" in node:
            found.add(node["Relation Name"])
    return frozenset(found)


def _nodes(item: Any) -> Iterator[dict[str, Any]]:
    pending = [item]
    while pending:
        current = pending.pop()
        if isinstance(current, list):
            pending += current
        elif isinstance(current, dict):
            yield current
            pending += [value for value in current.values() if isinstance(value, dict | list)]


def _routed(call: Invocation, relid: int) -> tuple[Leaf, ...]:
    """Return the leaves that the rows of an INSERT go to; all where that is not known before."""
    tree, catalog = call.plan.trees[relid], call.session.catalog
    bound = partial(binding.bind, call)
    rows = routed_rows(call.query, tree.routed_by, bound) if tree.routed_by else None
    if not rows or len(rows) > MOST_ROWS or not names.may_select(catalog, relid):
        return tree.leaves
    named = [{tree.columns[n]: value for n, value in row.items()} for row in rows]
    return routed(call, relid, tree, named)


def routed(
    call: Invocation, relid: int, tree: PartitionTree, rows: Sequence[Mapping[str, Routed]]
) -> tuple[Leaf, ...]:
    """Return the leaves that rows are in which have some values in their columns, by name."""
    if not rows:
        return ()
    catalog = call.session.catalog
    wanted = {" AND ".join(_condition(*pair) for pair in row.items()) for row in rows}
    table = names.relation_name(catalog, relid)
    text = f"SELECT FROM {table} WHERE ({') OR ('.join(sorted(wanted))})"
    answer = catalog.analyses.explain(
        text, call.values, parameter_oids=call.parameter_oids, formats=call.formats
    )
    return _among(tree, _named(answer))


def _condition(column: str, value: Routed) -> str:
    if value is None:
        return f"{names.quoted(column)} IS NULL"
    if isinstance(value, int):
        return f"{names.quoted(column)} = ${value}"
    return f"{names.quoted(column)} = '{value.replace(chr(39), chr(39) * 2)}'"


# reading ------------------------------------------------------------------------------------------


def _reading(plan: Plan, reached: Reached) -> Plan:
    """Return a plan that reads these leaves."""
    query, tables, partitioned = plan.query, set(plan.tables), dict(plan.partitioned)
    for relid, leaves in reached.items():
        tree = plan.trees[relid]
        # Where none is reached, none of them has a row that matters.
        read = leaves or tree.leaves[:1]
        tables.update(leaf.relid for leaf in read)
        if len(read) == 1 and query is not None and not _is_whole(query, relid):
            query = as_leaf(query, relid, read[0].relid, tree.numbers(read[0].relid))
        else:
            relids = tuple(leaf.relid for leaf in read)
            partitioned[relid] = Leaves(relids, tree.columns, tree.key, tree.types)
    return replace(plan, query=query, tables=frozenset(tables), partitioned=partitioned, trees={})


def _is_whole(query: Node, relid: int) -> bool:
    """Return whether a query names whole rows, or system columns, of a table somewhere."""
    entries = any(
        node.tag == "RANGETBLENTRY" and node.get("relid") == relid for node, _ in walk(query)
    )
    return entries and any(
        node.tag == "VAR" and node.integer("varattno") <= 0 for node, _ in walk(query)
    )


def _answered_by_postgresql(call: Invocation, reached: Reached) -> bool:
    """Return whether a SELECT reaches nothing but resident leaves."""
    plan = call.plan
    if plan.journals or forced.is_forced(plan) or plan.tables:
        return False
    return all(leaves and not any(leaf.is_tiered for leaf in leaves) for leaves in reached.values())


def _local(call: Invocation, reached: Reached) -> Plan:
    """Return the plan of a SELECT that PostgreSQL answers from resident leaves."""
    plan = call.plan
    if plan.basis is None:
        raise TypeError(plan.route)
    relids = [leaf.relid for leaves in reached.values() for leaf in leaves]
    found = call.session.catalog.observations.relations(relids, definitions=plan.basis.definitions)
    return replace(
        plan,
        route=Route.CATALOG,
        trees={},
        answerable=Answerable.of(plan.basis.definitions, found.values()),
        reason=RESIDENT_ONLY,
    )


# writing ------------------------------------------------------------------------------------------


def _locking(call: Invocation, reached: Reached) -> Plan:
    """Return the plan of a query that locks rows of partitioned tables."""
    plan, locks = call.plan, call.plan.locks
    if locks is None:
        raise TypeError(plan.route)
    locked = [leaf for relid in locks.relids & reached.keys() for leaf in reached[relid]]
    if not any(leaf.is_tiered for leaf in locked):
        return _native(call, reached, next(iter(locks.relids & reached.keys())))
    resident = frozenset(leaf.relid for leaf in locked if not leaf.is_tiered)
    narrow = _reading(plan, reached)
    locking = plan.locking
    for relid, leaves in reached.items():
        if len(leaves) == 1 and locking is not None:
            (leaf,) = leaves
            locking = as_leaf(locking, relid, leaf.relid, plan.trees[relid].numbers(leaf.relid))
    others = locks.relids - reached.keys()
    relids = others | {leaf.relid for leaf in locked if leaf.is_tiered}
    locks = replace(locks, relids=frozenset(relids), resident=locks.resident | resident)
    return replace(narrow, locking=locking, locks=locks)


def _writing(call: Invocation, reached: Reached) -> Plan:
    """Return the plan of a statement that writes a partitioned table."""
    plan, relid = call.plan, call.target
    tree = plan.trees[relid]
    written = _written(call, reached)
    tiered = [leaf for leaf in written if leaf.is_tiered]
    if len(tiered) < len(written) and plan.route not in _INSERTING:
        _require_unforced(plan)
    is_move = plan.route is Route.CHANGE and moves(call.query, tree)
    if not tiered and written and not is_move:
        return _native(call, reached, relid)
    if not tiered and not written:
        # PostgreSQL finds that out by itself.
        tiered = [leaf for leaf in tree.leaves if leaf.is_tiered][:1]
    others = {other: leaves for other, leaves in reached.items() if other != relid}
    inserts = plan.route in _INSERTING
    alone = len(tiered) == 1 and plan.route is not Route.INSERT_QUERY and not is_move
    alone = alone and not (len(tree.leaves) > 1 and _merges_elsewhere(call, tree))
    if alone and (inserts or len(tiered) == len(written) or not written):
        return _on_leaf(_reading(plan, others), relid, tree, tiered[0])
    if alone and plan.route is Route.THAW and command(call.query) is Command.INSERT:
        return _on_leaf(_reading(plan, others), relid, tree, tiered[0])
    leaves = WrittenLeaves(
        relid,
        tuple(leaf.relid for leaf in tiered),
        tuple(leaf.relid for leaf in written if not leaf.is_tiered),
        tuple(leaf.relid for leaf in tree.leaves if leaf.is_tiered and leaf not in tiered)
        if is_move
        else (),
    )
    # Of those by key, rows that are read of the table itself are rows that are written.
    by_key = plan.route in {Route.MERGE, Route.THAW}
    sources = reached if relid in source_relations(call.query) and not by_key else others
    narrow = _reading(plan, sources)
    return replace(narrow, trees={relid: tree}, leaves=leaves, reason="several partitions")


def merging(call: Invocation, plan: Plan) -> Invocation:
    """Return an INSERT with ON CONFLICT as the MERGE of this plan, of all leaves of its table.

    Which leaves of others are read the INSERT tells, for which the role has the rights.
    """
    relid = plan.target
    if relid is None:
        raise TypeError(plan.route)
    tree = plan.trees[relid]
    reached = dict(_reached(replace(call, plan=replace(plan, statement=call.statement))))
    reached.pop(relid)
    tiered, resident = (
        tuple(leaf.relid for leaf in tree.leaves if leaf.is_tiered is wanted)
        for wanted in (True, False)
    )
    if resident:
        _require_unforced(plan)
    narrow = _reading(plan, reached)
    leaves = WrittenLeaves(relid, tiered, resident)
    narrow = replace(narrow, trees={relid: tree}, leaves=leaves, reason="several partitions")
    return replace(call, plan=narrow)


def _require_unforced(plan: Plan) -> None:
    """Refuse to change resident leaves beside tiered ones where Spark is to change all rows."""
    if forced.is_forced(plan):
        raise UnsupportedError(
            "changing resident partitions beside tiered ones is not supported by"
            " gateway.executor = spark",
            hint=forced.HINT,
        )


def moves(query: Node, tree: PartitionTree) -> bool:
    """Return whether an UPDATE may move rows from leaf to leaf."""
    if command(query) is not Command.UPDATE:
        return False
    return tree.routed_by is None or not set(tree.routed_by).isdisjoint(assigned_columns(query))


def _merges_elsewhere(call: Invocation, tree: PartitionTree) -> bool:
    """Return whether a MERGE may bring rows to other leaves than it finds them in."""
    if call.plan.route is not Route.MERGE:
        return False
    bound = set(tree.columns if tree.routed_by is None else tree.routed_by)
    return any(
        action.command is Command.INSERT
        or (action.command is Command.UPDATE and not bound.isdisjoint(action.assigned))
        for action in merge_actions(call.query)
    )


def _written(call: Invocation, reached: Reached) -> tuple[Leaf, ...]:
    """Return the leaves whose rows a statement can write."""
    plan, relid, query = call.plan, call.target, call.query
    if plan.route in _INSERTING:
        return _routed(call, relid)
    upserts = plan.route is Route.THAW and command(query) is Command.INSERT
    if upserts and not query["hasModifyingCTE"]:
        found = dict.fromkeys((*_routed(call, relid), *reached[relid]))
        return tuple(found)
    inserts = {Command.INSERT} if plan.route is Route.THAW else set()
    if any(
        node.tag == "QUERY" and node["resultRelation"] and node["commandType"] in inserts
        for node, _ in walk(query)
    ):
        return plan.trees[relid].leaves
    return reached[relid]


def _on_leaf(
    plan: Plan, relid: int, tree: PartitionTree, leaf: Leaf, number: int | None = None
) -> Plan:
    """Return the plan of the same statement on one leaf, or on those like it with this number."""
    if plan.query is None:
        raise TypeError(plan.route)
    numbers = tree.numbers(leaf.relid)
    bound = None if tree.routed_by is None else frozenset(numbers[n] for n in tree.routed_by)
    target = leaf.relid if number is None else number
    return replace(
        plan,
        query=as_leaf(plan.query, relid, target, numbers),
        tables=plan.tables | {leaf.relid},
        target=target,
        bound_columns=bound,
        arbiter=None if plan.arbiter is None else tuple(numbers[n] for n in plan.arbiter),
    )


def of_leaf(call: Invocation, leaf: int) -> Invocation:
    """Return a statement that writes several leaves as one on one of them."""
    return of_leaves(call, leaf, leaf)


def of_leaves(call: Invocation, leaf: int, number: int) -> Invocation:
    """Return the same as one on leaves like this one, which are read as a table of that number."""
    plan = call.plan
    if plan.leaves is None:
        raise TypeError(plan.route)
    relid = plan.leaves.tree
    tree = plan.trees[relid]
    (found,) = (one for one in tree.leaves if one.relid == leaf)
    on_leaf = _on_leaf(plan, relid, tree, found, number)
    return replace(call, plan=replace(on_leaf, trees={}, leaves=None))


def _native(call: Invocation, reached: Reached, relid: int) -> Plan:
    """Return the plan of a statement that PostgreSQL runs, as it reaches resident leaves alone."""
    plan = call.plan
    everything = [leaf for leaves in reached.values() for leaf in leaves]
    written = [] if plan.locks else list(_written(call, reached))
    if any(leaf.is_tiered for leaf in everything) or _reads_tiered(call):
        raise UnsupportedError(
            "writing resident partitions in a statement that reads tiered tables is not supported",
            hint="ALTER TABLE ... SET (gateway.residency = never) makes a partition tiered.",
        )
    resident = tuple(sorted({leaf.relid for leaf in (*everything, *written)}))
    leaves = WrittenLeaves(relid, (), resident)
    return replace(plan, route=Route.PARTS, trees={}, leaves=leaves, reason=RESIDENT_ONLY)


def _reads_tiered(call: Invocation) -> bool:
    plan = call.plan
    if plan.journals:
        return True
    found = call.session.catalog.observations.relations(plan.tables)
    return any(relation.kind is not RelationKind.RESIDENT for relation in found.values())
