"""What rows were before some of their versions, as tail and files tell it, without Spark.

Commits of small statements lie in the tail or in few deltas, and what their rows were before is
found by key. What compaction has reached is Spark's to find: the archive is not sorted by key.
"""

from collections.abc import Collection, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.journal.layout import SUBSEQUENT
from catalog.journal.order import OURS
from catalog.model import SegmentKind, TableSnapshot
from catalog.upkeep.commits import CommittedVersions
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.services import Services
from pgwire_gateway.spark.lookups import Key
from pgwire_gateway.wire_types import plain_keys
from pgwire_gateway.wire_types.tails import indices_of_keys, plain_identity, version_numbers
from pgwire_gateway.wire_types.versions import storage_schema

GONE: Final = "gone"
"""Whether a row was not there; nothing but its key counts then."""

OVERTAKEN: Final = "overtaken"
"""Whether a row has later versions that count."""

_MOST_KEYS: Final = 1_000
"""More rows than these are found by Spark."""


def find(
    services: Services, observation: Observation, written: CommittedVersions
) -> pa.Table | None:
    """Return what the rows that were written were before.

    Args:
        services: Reads the files.
        observation: What is seen of the table.
        written: Row versions of a table that has a primary key.

    Returns:
        A row for each, in storage layout, with columns `GONE` and `OVERTAKEN`; None where that is
        Spark's to find.

    Raises:
        GatewayError: 58P01 or 58030 for files that cannot be read.
    """
    snapshot = observation.result.snapshots[written.relid]
    table = snapshot.table
    identity = plain_identity(table)
    if identity is None or snapshot.outside is not None:
        return None
    tail = observation.tails.get(written.relid)
    if tail is None:
        tail = storage_schema(table).empty_table()
    rows = _written(services, snapshot, tail, written.versions)
    if rows is None or not rows.num_rows:
        return None
    keys = list(dict.fromkeys(plain_keys.tuples(rows, identity)))
    stored = services.lookups.versions(snapshot, keys) if len(keys) <= _MOST_KEYS else None
    if stored is None:
        return None
    recent = tail.take(indices_of_keys(tail, identity, keys))
    return _former(pa.concat_tables([stored, recent]), identity, written)


def _written(
    services: Services, snapshot: TableSnapshot, tail: pa.Table, versions: Collection[int]
) -> pa.Table | None:
    """Return the row versions with some numbers; None where only Spark can tell what was before."""
    first, last = min(versions), max(versions)
    # A base tells the newest version of a row alone, and nothing of those that have ended.
    if any(s.max_version >= first for s in snapshot.segments if s.kind is not SegmentKind.DELTA):
        return None
    deltas = [
        delta
        for delta in snapshot.of_kind(SegmentKind.DELTA)
        if delta.min_version <= last and delta.max_version >= first
    ]
    stored = services.compactor.row_versions(snapshot.table, deltas)
    if stored is None:
        return None
    rows = pa.concat_tables([stored, tail])
    return rows.filter(pc.is_in(version_numbers(rows), pa.array(versions, pa.int64())))


def _former(rows: pa.Table, identity: Sequence[str], written: CommittedVersions) -> pa.Table:
    """Return what rows were before these versions, given all versions of these rows."""
    versions = frozenset(written.versions)
    numbers = version_numbers(rows).to_pylist()
    living = pc.is_null(rows.column(SUBSEQUENT)).to_pylist()
    places: dict[Key, list[int]] = {}
    for place, key in enumerate(plain_keys.tuples(rows, identity)):
        places.setdefault(key, []).append(place)
    chosen, gone, overtaken = [], [], []
    for found in places.values():
        found.sort(key=lambda place: OURS.recency(numbers[place], living=living[place]))
        own = [place for place in found if numbers[place] in versions]
        before = [place for place in found if numbers[place] < numbers[own[0]]]
        was_there = bool(before) and living[before[-1]]
        chosen.append(before[-1] if was_there else own[0])
        gone.append(not was_there)
        later = (numbers[place] for place in found if numbers[place] > numbers[own[-1]])
        overtaken.append(any(number not in written.settled for number in later))
    former = rows.take(pa.array(chosen, pa.int64()))
    return former.append_column(GONE, pa.array(gone, pa.bool_())).append_column(
        OVERTAKEN, pa.array(overtaken, pa.bool_())
    )
