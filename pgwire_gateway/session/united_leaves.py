"""Leaves of a partitioned table that Spark reads, and changes, as if they were one table.

A union of a thousand relations takes Spark longer to plan than to run. So leaves of the same
columns are one: the list of the files of all their bases, and, of what is newer, the latest version
of each row, with a column that tells the leaf. It is part of the key: one leaf may have a tombstone
of a key that is another one's now.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from catalog.journal.layout import column_name
from catalog.model import LEAF, Column, JournalTable, SegmentKind, TableSnapshot
from catalog.pg.types import INT8
from pgwire_gateway.session.observation import Observation, UnitedLeaves
from rewrite.context import Leaves

MOST_ROWS: Final = 1_000_000
"""Leaves with more rows than these are read apart from others where nothing of them is newer than
their bases, in which Spark need not look for newer versions then."""

Latest = Callable[[TableSnapshot, Any], pa.Table | None]
"""Returns the latest versions of what is newer than a base, from a snapshot and its tail; None
where that is Spark's to find."""

_COLUMN: Final = Column(LEAF, "", INT8, -1, not_null=True, storage_name="")


def unite(
    observation: Observation, partitioned: Mapping[int, Leaves], latest: Latest
) -> Observation:
    """Return the same moment, where leaves of partitioned tables are united as far as can be."""
    for relid, leaves in partitioned.items():
        observation = united(observation, relid, leaves.relids, latest)
    return observation


def united(
    observation: Observation,
    tree: int,
    leaves: Iterable[int],
    latest: Latest,
    *,
    most_rows: float = MOST_ROWS,
) -> Observation:
    """Return the same moment, where some leaves of one partitioned table are united.

    Those of more rows are not, where of others something is newer than their bases.
    """
    snapshots, tails = dict(observation.result.snapshots), dict(observation.tails)
    found: list[UnitedLeaves] = []
    latest_only = set(observation.latest_only)
    for members in _alike([snapshots[leaf] for leaf in leaves if leaf in snapshots]):
        newer = {}
        for snapshot in members:
            relid = snapshot.table.relid
            if snapshot.tail_rows or snapshot.of_kind(SegmentKind.DELTA):
                newer[relid] = latest(snapshot, observation.tails.get(relid))
        rest = [snapshot for snapshot in members if snapshot.table.relid not in newer]
        resolved = [s for s in members if newer.get(s.table.relid) is not None]
        few = sum(segment.rows for one in members for segment in one.segments) <= most_rows
        for some in ([*rest, *resolved],) if few else (rest, resolved):
            number = next((n for n in _numbers(tree, some) if n not in snapshots), None)
            if len(some) < 2 or number is None:
                continue
            rows = _newer(some, newer)
            snapshots[number] = _together(number, some, rows)
            if rows is not None:
                tails[number] = rows
                latest_only.add(number)
            found.append(UnitedLeaves(number, tuple(s.table.relid for s in some)))
    if not found:
        return observation
    return replace(
        observation,
        result=replace(observation.result, snapshots=snapshots),
        tails=tails,
        latest_only=frozenset(latest_only),
        united={**observation.united, tree: tuple(found)},
    )


def relids(leaves: Leaves, united: Sequence[UnitedLeaves]) -> tuple[int, ...]:
    """Return what is read in place of the leaves of a partitioned table."""
    members = {leaf for one in united for leaf in one.leaves}
    rest = tuple(leaf for leaf in leaves.relids if leaf not in members)
    return (*(one.relid for one in united), *rest)


def _numbers(tree: int, snapshots: Sequence[TableSnapshot]) -> list[int]:
    """Return numbers that no table has."""
    return [-tree, *(-snapshot.table.relid for snapshot in snapshots)]


def _alike(snapshots: list[TableSnapshot]) -> list[list[TableSnapshot]]:
    """Return them by what they have in common: columns, key and constraints."""
    groups: dict[object, list[TableSnapshot]] = {}
    for snapshot in snapshots:
        table = snapshot.table
        # Where files of others lie tells nothing of the leaf.
        if table.external is None and not snapshot.is_borrowed:
            groups.setdefault((table.columns, table.key, table.checks), []).append(snapshot)
    return list(groups.values())


def _newer(
    snapshots: Sequence[TableSnapshot], newer: Mapping[int, pa.Table | None]
) -> pa.Table | None:
    """Return all that is newer than bases, with the leaf of each row; None where nothing is."""
    parts = []
    for snapshot in snapshots:
        rows = newer.get(snapshot.table.relid)
        if rows is not None and rows.num_rows:
            leaf = pa.repeat(pa.scalar(snapshot.table.relid, pa.int64()), rows.num_rows)
            parts.append(rows.append_column(column_name(LEAF), leaf))
    return pa.concat_tables(parts).combine_chunks() if parts else None


def _together(
    number: int, snapshots: Sequence[TableSnapshot], rows: pa.Table | None
) -> TableSnapshot:
    states = "/".join(f"{snapshot.table.relid}:{snapshot.state}" for snapshot in snapshots)
    return TableSnapshot(
        table=_table(number, snapshots[0].table),
        state=hashlib.sha256(states.encode()).hexdigest()[:24],
        version=max(snapshot.version for snapshot in snapshots),
        segments=tuple(
            segment for snapshot in snapshots for segment in snapshot.of_kind(SegmentKind.BASE)
        ),
        tail_rows=0 if rows is None else rows.num_rows,
    )


def _table(number: int, like: JournalTable) -> JournalTable:
    return replace(
        like,
        relid=number,
        columns=(*like.columns, _COLUMN),
        key=(LEAF, *like.key) if like.key else (),
        location=f"partitions{number}",
        division=None,
    )
