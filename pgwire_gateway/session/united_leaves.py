"""Leaves of a partitioned table that Spark reads as if they were one table.

A union of a thousand relations takes Spark longer to plan than to run. Leaves that have a base and
nothing newer, in the same columns, are one list of files. What is newer has to be told apart leaf
by leaf: one may have a tombstone of a key that is another one's now.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from catalog.model import SegmentKind, TableSnapshot
from pgwire_gateway.session.observation import Observation
from rewrite.context import Leaves


def unite(observation: Observation, partitioned: Mapping[int, Leaves]) -> Observation:
    """Return the same moment, where leaves of partitioned tables are united as far as can be."""
    snapshots, united = dict(observation.result.snapshots), {}
    for relid, leaves in partitioned.items():
        plain = _alike([snapshots[leaf] for leaf in leaves.relids if leaf in snapshots])
        if len(plain) > 1:
            snapshots[-relid] = _together(relid, plain)
            united[relid] = frozenset(snapshot.table.relid for snapshot in plain)
    if not united:
        return observation
    result = replace(observation.result, snapshots=snapshots)
    return replace(observation, result=result, united=united)


def relids(leaves: Leaves, united: frozenset[int], relid: int) -> tuple[int, ...]:
    """Return what is read in place of the leaves of a partitioned table."""
    rest = tuple(leaf for leaf in leaves.relids if leaf not in united)
    return (-relid, *rest) if united else rest


def _alike(snapshots: list[TableSnapshot]) -> list[TableSnapshot]:
    """Return those with a base alone that have the columns which most of them have."""
    groups: dict[object, list[TableSnapshot]] = {}
    for snapshot in snapshots:
        if not snapshot.tail_rows and not snapshot.of_kind(SegmentKind.DELTA):
            table = snapshot.table
            groups.setdefault((table.columns, table.key), []).append(snapshot)
    return max(groups.values(), key=len, default=[])


def _together(relid: int, snapshots: list[TableSnapshot]) -> TableSnapshot:
    table = snapshots[0].table
    states = "/".join(f"{snapshot.table.relid}:{snapshot.state}" for snapshot in snapshots)
    return TableSnapshot(
        table=replace(table, relid=-relid, location=f"partitions-{relid}"),
        state=hashlib.sha256(states.encode()).hexdigest()[:24],
        version=max(snapshot.version for snapshot in snapshots),
        segments=tuple(
            segment for snapshot in snapshots for segment in snapshot.of_kind(SegmentKind.BASE)
        ),
        tail_rows=0,
    )
