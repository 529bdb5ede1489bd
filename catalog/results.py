"""Frozen values the catalog's connections return: analyses, rows, write receipts and snapshots.

Nothing here does I/O; the gateway may pass these values between threads.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from catalog.model import TableSnapshot, UniqueKey
from catalog.statements.splitting import SYSTEM_SCHEMAS

_TEMPORARY: Final = "pg_temp_"
"""What names of the schemas of temporary relations begin with."""

Row = list[bytes | None]
"""One result row: values in the requested formats, None for NULL."""


class ResultColumn(NamedTuple):
    """One field of a RowDescription message."""

    name: str
    table_oid: int
    attnum: int
    type_oid: int
    type_size: int
    typmod: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """What PostgreSQL found out about a statement while preparing it."""

    parameter_oids: tuple[int, ...]
    columns: tuple[ResultColumn, ...] | None
    """None when the statement returns no rows."""
    tree: str | None
    """Rewritten parse tree in PostgreSQL's node format; None for utility statements."""


class Basis(NamedTuple):
    """What the analysis of a statement rests on; while it is the same, so is the analysis."""

    definitions: int
    """Fingerprint of all definitions."""
    resolution: str
    """The role, schemas of the search path, and the relations that names stand for."""
    executor: str = ""
    """Setting ``gateway.executor``; empty where it is not set."""


@dataclass(slots=True)
class LocalResult:
    """Answer of a statement PostgreSQL evaluated; rows are fetched while they are iterated.

    ``rows`` must be exhausted or closed before the connection is used again. ``command_tag`` is
    complete only after the last row; it is empty for an empty query string.
    """

    columns: tuple[ResultColumn, ...] | None
    rows: Iterator[Row]
    command_tag: str | None = None
    format_code: int = 0
    """Format of all columns. Binary unasked where a text fetches from a binary cursor."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A NotificationResponse."""

    process_id: int
    channel: str
    payload: str


class RelationKind(Enum):
    """What a relation is to the gateway."""

    RESIDENT = "resident"
    """A table PostgreSQL answers for; what happens to its rows is captured in its journal."""
    JOURNALED = "journaled"
    """A tiered table: its rows live in the journal alone."""
    JOURNAL = "journal"
    """What stands for the journal of a table, read-only."""
    VIEW = "view"
    """A view; what it reads is in the rewritten tree."""
    CATALOG = "catalog"
    """Answered by PostgreSQL itself: system catalogs, temporary tables, sequences, bookkeeping."""


class Leaf(NamedTuple):
    """A partition that holds rows."""

    relid: int
    schema: str
    name: str
    is_tiered: bool


@dataclass(frozen=True, slots=True)
class PartitionTree:
    """A partitioned table: the leaves that its rows are in, whatever is between."""

    leaves: tuple[Leaf, ...]
    """In the order of their OIDs."""
    columns: Mapping[int, str]
    """Its own columns, by attribute number; leaves have others for the same names."""
    key: tuple[int, ...]
    """Attribute numbers of its primary key; empty where rows are not told apart by one."""
    routed_by: tuple[int, ...] | None
    """Columns that tell which leaf a row is in; None where expressions do."""
    moved: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Columns with other attribute numbers in leaves: by OID of the leaf, and number here."""
    named: Mapping[str, tuple[Leaf, ...]] = field(default_factory=dict)
    """The leaves by their names, without schema."""
    types: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """OIDs of types and modifiers by which its columns are read, where it has no leaves."""

    def numbers(self, leaf: int) -> dict[int, int]:
        """Return the attribute numbers of a leaf's columns, by those of the table's."""
        moved = self.moved.get(leaf, {})
        return {attno: moved.get(attno, attno) for attno in self.columns}


@dataclass(frozen=True, slots=True)
class Relation:
    """One relation as :meth:`Observations.relations` classifies it."""

    relid: int
    kind: RelationKind
    journal_of: int | None = None
    """For JOURNAL: OID of the journaled table."""
    schema: str = ""
    name: str = ""
    turns: int = 0
    """How often it has become tiered, or resident."""
    referenced: tuple[int, ...] = ()
    """The columns by which tables reference it: any tables where it is tiered, else such with rows
    that are not in PostgreSQL, or that change with it."""

    seeking: tuple[int, ...] = ()
    """The columns whose change may have something looked for in tiered tables: what rows of it
    reference, or rows that change with it. 0 is among them where DELETE may, too."""
    tree: PartitionTree | None = field(default=None, compare=False)
    """Of a partitioned table, which is tiered where a leaf is."""
    is_leaf: bool = False
    """Whether it is a partition."""
    routed_by: tuple[int, ...] | None = ()
    """Of a partition: columns that tell which rows it may have; None where expressions do."""
    is_external: bool = False
    """For JOURNALED: whether its rows are in a journal of others."""
    has_heirs: bool = False
    """Whether other tables inherit from it that are no partitions."""

    @property
    def seeks(self) -> bool:
        """Whether rows that are written to it, or because of that, may reference tiered tables."""
        return bool(self.seeking)

    @property
    def is_lasting(self) -> bool:
        """Whether nobody else can drop or replace it."""
        return self.schema in SYSTEM_SCHEMAS or self.schema.startswith(_TEMPORARY)

    @property
    def is_temporary(self) -> bool:
        """Whether it is a table, or a sequence, of the session's own."""
        return self.kind is RelationKind.CATALOG and self.schema.startswith(_TEMPORARY)


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """Ask for one table's snapshot, naming what the caller already holds."""

    relid: int
    known_definition: int | None = None
    """``definition_version`` already held (the session fills it from its own cache)."""
    known_state: str | None = None
    """``TableSnapshot.state`` whose tail rows the caller holds."""
    rows: bool = True
    """Whether the rows of a resident table's tail are wanted."""


@dataclass(frozen=True, slots=True)
class TailRows:
    """Row versions inlined in the catalog.

    Each row lists the transfer form of every live column in attribute-number order, then version
    number and subsequent version number (microseconds since 1970-01-01 UTC, the latter None unless
    it is a tombstone) and row identity (None for tables with a key).
    """

    increment: bool
    """True when ``rows`` are only those added since the known state."""
    rows: list[list[Any]]
    parts: tuple[bytes, ...] = ()
    """The rows as JSON, some in each, where they are too many bytes for ``rows`` to hold them."""

    def pieces(self) -> Iterator[list[list[Any]]]:
        """Yield the rows, a bounded number of bytes at a time."""
        if self.rows:
            yield self.rows
        for part in self.parts:
            yield json.loads(part)


@dataclass(frozen=True, slots=True)
class SnapshotResult:
    """Everything one statement reads, of one catalog snapshot."""

    snapshots: dict[int, TableSnapshot]
    tails: dict[int, TailRows]
    definitions: int
    """Fingerprint of all definitions this transaction sees; equal only for equal definitions."""
    temporary_schema: int
    """OID of the session's temporary schema; 0 while it has none."""
    transaction_timestamp: int
    """Microseconds since 1970-01-01 UTC."""


@dataclass(frozen=True, slots=True)
class CaptureReceipt:
    """What became of rows that an INSERT or COPY put into the catalog table."""

    count: int
    captured: bool
    """True when the rows are in the tail now; False when they are still in the catalog table."""
    version: int
    """Version number the rows got, 0 when not captured."""
    unresolved: tuple[tuple[Any, ...], ...] = ()
    """Keys (transfer forms, key order) that some segment may already contain."""
    tail_outdated: bool = False
    """True when the segments may hold newer versions of these rows than the tail."""
    values: tuple[list[list[Any]], ...] = ()
    """For each unique key of the table, values that were written, in transfer forms."""


@dataclass(frozen=True, slots=True)
class PendingCheck:
    """A CHECK constraint that was added to a table with rows."""

    name: str
    tree: str
    """As ``pg_constraint.conbin``."""


@dataclass(frozen=True, slots=True)
class PendingConstraints:
    """What the rows of a table must still be checked for."""

    relid: int
    primary: tuple[int, ...] = ()
    """Columns of a new primary key; empty for none."""
    unique: tuple[UniqueKey, ...] = ()
    checks: tuple[PendingCheck, ...] = ()
    not_null: tuple[int, ...] = ()
    """Columns that are NOT NULL now."""


@dataclass(frozen=True, slots=True)
class DrainedRows:
    """Rows of the catalog table as CSV in transfer forms, for a bulk write."""

    attnums: tuple[int, ...]
    """Column order of the CSV; a last field is the row identity (empty for keyed tables)."""
    chunks: Iterator[bytes]
