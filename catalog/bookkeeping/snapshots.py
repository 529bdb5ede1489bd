"""What a statement sees: table snapshots, and the definitions and states already known.

Decodes the catalog's answers into frozen values; sends nothing itself.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from catalog.divisions import Division, DivisionField, Partition, Transform
from catalog.model import (
    CheckConstraint,
    Column,
    ExternalJournal,
    JournalTable,
    Segment,
    SegmentKind,
    TableSnapshot,
    UniqueKey,
)
from catalog.results import (
    Leaf,
    PartitionTree,
    Relation,
    RelationKind,
    SnapshotRequest,
    SnapshotResult,
    TailRows,
)

_K = TypeVar("_K")
_V = TypeVar("_V")


class _Recent(Generic[_K, _V]):
    """The most recently used entries, shared by threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[_K, _V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: _K) -> _V | None:
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def put(self, key: _K, value: _V) -> None:
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            if len(self._entries) > self._size:
                self._entries.popitem(last=False)


class KnownState:
    """Definitions, table states and relation kinds of one database, shared by its sessions."""

    def __init__(self) -> None:
        self._definitions: _Recent[int, JournalTable] = _Recent(20_000)
        self._snapshots: _Recent[tuple[int, str], TableSnapshot] = _Recent(5_000)
        self._relations: _Recent[tuple[int, int], Relation] = _Recent(50_000)

    def request(self, requests: Sequence[SnapshotRequest]) -> bytes:
        """Return the JSON that asks for snapshots, naming what is known."""
        asked = []
        for request in requests:
            known = self._definitions.get(request.relid)
            # An unchanged table is answered without its segments, so both must be known.
            snapshot = self.snapshot(request)
            asked.append(
                {
                    "relid": request.relid,
                    "definition": known.definition_version if known is not None else None,
                    "state": request.known_state if snapshot is not None else None,
                    "rows": request.rows,
                    "seen": snapshot.seen if snapshot is not None else None,
                }
            )
        return json.dumps(asked).encode()

    def snapshot(self, request: SnapshotRequest) -> TableSnapshot | None:
        """Return the snapshot of the state that a request names, if it is known."""
        state = request.known_state
        return None if state is None else self._snapshots.get((request.relid, state))

    def decode(self, answer: Sequence[bytes], *, unwritten: bool = False) -> SnapshotResult:
        """Return the snapshots of the catalog's answer: what there is, then parts of tails.

        What a transaction sees that has an ID is what others see as long as it is `unwritten`.
        """
        document = json.loads(answer[0])
        snapshots = {}
        tails = {}
        parts = _parts(answer[1:])
        for entry in document["tables"] or ():
            relid = entry["relid"]
            if entry["definition"] is not None:
                self._definitions.put(relid, _table(entry["definition"]))
            table = self._definitions.get(relid)
            if table is None or table.definition_version != entry["definition_version"]:
                # Another thread has put a definition this snapshot does not see; rare, so ask anew.
                raise StaleDefinitionError(relid)
            if entry["same"]:
                snapshot = self._snapshots.get((relid, entry["state"]))
                if snapshot is None:
                    raise StaleDefinitionError(relid)
            else:
                snapshot = TableSnapshot(
                    table=table,
                    state=entry["state"],
                    version=entry["version"],
                    segments=tuple(_segment(s) for s in entry["segments"] or ()),
                    tail_rows=entry["tail_rows"],
                    seen=entry.get("seen"),
                )
                of_others = entry.get("seen_of_others")
                if not entry.get("own"):
                    self._snapshots.put((relid, snapshot.state), snapshot)
                elif unwritten and of_others is not None:
                    lasting = replace(snapshot, seen=of_others)
                    self._snapshots.put((relid, snapshot.state), lasting)
            snapshots[relid] = snapshot
            tails[relid] = TailRows(
                increment=entry["same"] or entry["increment"],
                rows=entry.get("rows") or [],
                parts=tuple(parts.get(relid, ())),
            )
        return SnapshotResult(
            snapshots=snapshots,
            tails=tails,
            definitions=document["definitions"],
            temporary_schema=document["temporary_schema"],
            transaction_timestamp=document["transaction_timestamp"],
        )

    def forget(self, relid: int) -> None:
        """Forget what is known of a table's definition."""
        self._definitions.put(relid, _NOTHING)

    def relations(self, definitions: int, relids: Sequence[int]) -> dict[int, Relation] | None:
        """Return relations as these definitions have them, None unless all are known."""
        known = {}
        for relid in relids:
            relation = self._relations.get((definitions, relid))
            if relation is None:
                return None
            known[relid] = relation
        return known

    def decode_relations(self, answer: bytes, relids: Sequence[int]) -> dict[int, Relation]:
        """Return relations of the catalog's answer; OIDs that are no relation count as CATALOG."""
        definitions, entries = json.loads(answer)
        found = {relid: Relation(relid, RelationKind.CATALOG) for relid in relids}
        for relid, schema, name, kind, *rest in entries or ():
            (
                journal_of,
                turns,
                referenced,
                seeking,
                tree,
                routed_by,
                is_leaf,
                external,
                has_heirs,
            ) = rest
            found[relid] = Relation(
                relid,
                RelationKind(kind),
                journal_of,
                schema,
                name,
                turns,
                tuple(referenced or ()),
                tuple(seeking or ()),
                tree and _tree(tree),
                is_leaf,
                None if is_leaf and routed_by is None else tuple(routed_by or ()),
                external,
                has_heirs,
            )
        for relid, relation in found.items():
            self._relations.put((definitions, relid), relation)
        return found


class StaleDefinitionError(Exception):
    """What was assumed known has been replaced meanwhile; ask again without it."""

    def __init__(self, relid: int) -> None:
        super().__init__(relid)
        self.relid = relid


_NOTHING = JournalTable(
    relid=0,
    schema="",
    name="",
    columns=(),
    key=(),
    key_name=None,
    definition_version=-1,
    location="",
)


def _table(definition: dict[str, Any]) -> JournalTable:
    return JournalTable(
        relid=definition["relid"],
        schema=definition["schema"],
        name=definition["name"],
        columns=tuple(Column(*column) for column in definition["columns"] or ()),
        key=tuple(definition["key"]),
        key_name=definition["key_name"],
        definition_version=definition["definition"],
        location=definition["location"],
        checks=tuple(CheckConstraint(*check) for check in definition["checks"] or ()),
        unique_keys=tuple(UniqueKey.told(*key) for key in definition["unique_keys"] or ()),
        referencing=tuple(definition["referencing"] or ()),
        external=ExternalJournal(**external) if (external := definition["external"]) else None,
        division=_division(definition),
        row_bytes=definition["row_bytes"],
    )


def _division(definition: dict[str, Any]) -> Division | None:
    """Return how a table is divided; None where a column it depends on is another one now."""
    told = definition["division"]
    if told is None:
        return None
    fields = tuple(
        DivisionField(Transform(transform), attnum, type_oid, argument)
        for transform, attnum, type_oid, argument in told["fields"]
    )
    types = {attnum: type_oid for attnum, _, type_oid, *_ in definition["columns"] or ()}
    if any(types.get(field.attnum) != field.type_oid for field in fields):
        return None
    return Division(told["number"], fields)


def _tree(described: dict[str, Any]) -> PartitionTree:
    routed_by = described["routed_by"]
    leaves = tuple(Leaf(*leaf) for leaf in described["leaves"])
    named: dict[str, tuple[Leaf, ...]] = {}
    for leaf in leaves:
        named[leaf.name] = (*named.get(leaf.name, ()), leaf)
    return PartitionTree(
        leaves=leaves,
        columns=dict(described["columns"] or ()),
        key=tuple(described["key"]),
        routed_by=None if routed_by is None else tuple(routed_by),
        moved={
            int(relid): {int(number): own for number, own in numbers.items()}
            for relid, numbers in (described["moved"] or {}).items()
        },
        named=named,
        types={attnum: (oid, typmod) for attnum, oid, typmod in described["types"] or ()},
    )


def _parts(found: Sequence[bytes]) -> dict[int, list[bytes]]:
    """Return parts of tails, each of which follows the OID of its table, by these."""
    parts: dict[int, list[bytes]] = {}
    for part in found:
        relid, _, rows = part.partition(b" ")
        parts.setdefault(int(relid), []).append(rows)
    return parts


def _segment(entry: list[Any]) -> Segment:
    (
        segment_id,
        kind,
        path,
        rows,
        size_bytes,
        attnums,
        min_version,
        max_version,
        key_min,
        key_max,
        partition,
    ) = entry
    return Segment(
        segment_id=segment_id,
        kind=SegmentKind(kind),
        path=path,
        rows=rows,
        size_bytes=size_bytes,
        attnums=tuple(attnums),
        min_version=min_version,
        max_version=max_version,
        key_min=key_min,
        key_max=key_max,
        partition=None if partition is None else _partition(*partition),
    )


def _partition(division: int, value_bytes: int, values: list[Any]) -> Partition:
    return Partition(division, value_bytes, tuple(values))


def encode_segments(segments: Sequence[Segment]) -> bytes:
    """Return segments as the JSON the bookkeeping functions take."""
    return json.dumps(
        [
            {
                "kind": segment.kind.value,
                "path": segment.path,
                "row_count": segment.rows,
                "size_bytes": segment.size_bytes,
                "attnums": list(segment.attnums),
                "min_version": segment.min_version,
                "max_version": segment.max_version,
                "key_min": segment.key_min,
                "key_max": segment.key_max,
                "partition": (part := segment.partition)
                and [part.division, part.value_bytes, part.values],
            }
            for segment in segments
        ]
    ).encode()
