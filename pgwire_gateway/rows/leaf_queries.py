"""A statement on partitioned tables as statements on leaves of them, for what it needs of each.

What a statement needs of a row depends on that row, and not on the leaf it is in. So the rows that
it needs of one leaf are those it would need if the partitioned table were this leaf alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from catalog.results import PartitionTree, Relation
from pgwire_gateway.planning.plans import Plan, WrittenLeaves
from rewrite.command import (
    Command,
    assigned_columns,
    command,
    inserts,
    merge_actions,
    target_relation,
)
from rewrite.needs.results import Refusal
from rewrite.partitions import as_leaf
from rewrite.tree import Node, walk

MOST_LEAVES: Final = 16
"""Leaves of which a statement has hot rows at once: each takes round trips of its own."""


@dataclass(frozen=True, slots=True)
class Division:
    """What a statement can reach of a partitioned table."""

    relid: int
    tree: PartitionTree
    reached: tuple[int, ...]
    """Tiered leaves of which it can read, change or lock rows."""
    others: tuple[int, ...]
    """Further tiered leaves, which may get rows."""
    resident: tuple[int, ...]
    is_written: bool

    @property
    def leaves(self) -> WrittenLeaves:
        """What PostgreSQL is told to be written."""
        return WrittenLeaves(self.relid, (*self.reached, *self.others), self.resident)


def divisions(plan: Plan, query: Node, relations: Mapping[int, Relation]) -> tuple[Division, ...]:
    """Return the partitioned tables that a statement reaches several leaves of.

    Raises:
        Refusal: They are too many leaves.
    """
    found = []
    for relid, relation in relations.items():
        if relation.tree is None:
            continue
        division = _division(plan, query, relid, relation.tree)
        if division is not None:
            found.append(division)
    if sum(len(one.reached) + len(one.others) for one in found) > MOST_LEAVES:
        raise Refusal(f"rows of more than {MOST_LEAVES} tiered partitions")
    return tuple(found)


def _division(plan: Plan, query: Node, relid: int, tree: PartitionTree) -> Division | None:
    tiered = {leaf.relid for leaf in tree.leaves if leaf.is_tiered}
    by_key = plan.leaves is not None and plan.leaves.tree == relid and plan.leaves.by_key
    reached = set(plan.partitioned[relid].relids) if relid in plan.partitioned else set()
    if plan.leaves is not None and plan.leaves.tree == relid:
        reached.update(plan.leaves.tiered, plan.leaves.resident)
    elif not reached:
        return None
    written = [
        node
        for node, _ in walk(query)
        if node.tag == "QUERY" and node["resultRelation"] and target_relation(node) == relid
    ]
    gets = any(_brings(node, tree) for node in written)
    if not gets and tiered.isdisjoint(reached):
        return None
    return Division(
        relid,
        tree,
        tuple(sorted(reached & tiered)),
        tuple(sorted(tiered - reached)) if gets and not by_key else (),
        tuple(sorted(reached - tiered)),
        is_written=bool(written),
    )


def _brings(query: Node, tree: PartitionTree) -> bool:
    """Return whether a query may bring rows to leaves that it does not find them in."""
    if inserts(query):
        return True
    bound = set(tree.columns if tree.routed_by is None else tree.routed_by)
    if command(query) is Command.MERGE:
        return any(not bound.isdisjoint(action.assigned) for action in merge_actions(query))
    return command(query) is Command.UPDATE and not bound.isdisjoint(assigned_columns(query))


def queries(query: Node, found: Sequence[Division]) -> Iterator[tuple[frozenset[int], Node]]:
    """Return queries that have leaves in the places of their tables, and which: all, in turn."""
    listed = [(one, (*one.reached, *one.others)) for one in found]
    for number in range(max((len(leaves) for _, leaves in listed), default=1)):
        changed, chosen = query, set()
        for one, leaves in listed:
            leaf = leaves[min(number, len(leaves) - 1)]
            chosen.add(leaf)
            changed = as_leaf(changed, one.relid, leaf, one.tree.numbers(leaf), whole=True)
        yield frozenset(chosen), changed
