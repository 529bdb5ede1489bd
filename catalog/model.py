"""Frozen values that describe journals: tables, columns, segments, and what a statement sees."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from catalog.divisions import Division, Partition

BORROWED: Final = "-borrowed"
"""End of the paths of segments that are made of files of others."""
LEAF: Final = 2_000
"""Number of a column that tables do not have: the OID of the leaf that a row is in, where leaves of
a partitioned table are read as one table."""


class SegmentKind(Enum):
    """Part of a journal a segment belongs to."""

    BASE = "base"
    """At most one version of each row, no tombstones."""
    DELTA = "delta"
    """Row versions newer than the base."""
    ARCHIVE = "archive"
    """Superseded row versions and tombstones, successor filled in."""


@dataclass(frozen=True, slots=True)
class Column:
    """A live column of a journaled table."""

    attnum: int
    """PostgreSQL's attribute number; never reused, survives renames."""
    name: str
    """Current name."""
    type_oid: int
    """OID of the data type in the catalog."""
    typmod: int
    """Type modifier, -1 when there is none."""
    not_null: bool
    """True for NOT NULL columns."""
    storage_name: str
    """Name of the column in data files, unique per table ignoring case."""
    missing_value: str | None = None
    """PostgreSQL text of the value for row versions older than the column; None is NULL."""
    generated: str | None = None
    """Expression of a GENERATED ALWAYS AS … STORED column."""


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    """A CHECK constraint of a journaled table."""

    name: str
    expression: str
    """SQL over the table's columns, true or NULL for rows that satisfy it."""


class DomainCheck(NamedTuple):
    """A CHECK constraint of a domain."""

    name: str
    expression: str
    """``pg_constraint.conbin``: PostgreSQL's tree with CoerceToDomainValue for the value."""


@dataclass(frozen=True, slots=True)
class Domain:
    """What a value has to be to be one of a domain."""

    schema: str
    name: str
    spelled: str
    """The name as messages have it: with the schema where it has to be named."""
    is_not_null: bool
    checks: tuple[DomainCheck, ...]
    """In the order in which PostgreSQL looks at them, those of what it is made of first."""


@dataclass(frozen=True, slots=True)
class ComputedKey:
    """What the values of a unique index are that are not those of plain columns in all rows."""

    index_oid: int
    labels: tuple[str, ...]
    """How errors name the parts of a value: columns and expressions."""
    parts: tuple[int, ...]
    """Attribute numbers; 0 stands for the next of the expressions."""
    expressions: str | None
    """``pg_index.indexprs``."""
    predicate: str | None
    """``pg_index.indpred``: the rows that are compared with each other; None for all."""
    nulls_distinct: bool
    """Whether rows with NULL in a part are not compared."""


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A unique constraint or index of a tiered table, besides the primary key."""

    name: str
    columns: tuple[int, ...]
    """Attribute numbers, in the order of the index; of a computed one, all that it looks at."""
    computed: ComputedKey | None = None

    @classmethod
    def told(
        cls, name: str, columns: Sequence[int], computed: Sequence[Any] | None = None
    ) -> "UniqueKey":
        """Return the key that the catalog tells."""
        if computed is None:
            return cls(name, tuple(columns))
        index_oid, labels, parts, *rest = computed
        return cls(name, tuple(columns), ComputedKey(index_oid, tuple(labels), tuple(parts), *rest))


@dataclass(frozen=True, slots=True)
class ExternalJournal:
    """A journal, or a table, that others keep, too: where it lies, and how it names columns."""

    format: str
    """Format of files, or ``jdbc``."""
    location: str
    """Directory of the files, or the relation in the other database, as SQL."""
    version: str
    """Name of the column with the version number; empty for a plain table, whose rows are all
    there is of it."""
    subsequent: str
    """Name of the column that is set in tombstones, and may be in superseded row versions."""
    counts: bool = False
    """Whether versions are counted (BIGINT), instead of being moments."""
    schema: str = ""
    """All columns in the journal's order, as Spark's JSON of a schema."""
    connection: str | None = None
    """File that tells how the other database is reached."""

    @property
    def is_plain(self) -> bool:
        """Whether it is a table, and no journal."""
        return not self.version


@dataclass(frozen=True, slots=True)
class JournalTable:
    """Definition of a journaled table as one catalog snapshot shows it."""

    relid: int
    """OID of the catalog table."""
    schema: str
    name: str
    columns: tuple[Column, ...]
    """Live columns in attribute-number order."""
    key: tuple[int, ...]
    """Attribute numbers of the primary key; empty when rows have a hidden identity."""
    key_name: str | None
    """Name of the primary key constraint."""
    definition_version: int
    """Grows with every change of the definition."""
    location: str
    """Directory of the data files, relative to the warehouse."""
    checks: tuple[CheckConstraint, ...] = ()
    """CHECK constraints, NOT NULL excluded."""
    unique_keys: tuple[UniqueKey, ...] = ()
    """In the order of their OIDs; of resident tables, whose are PostgreSQL's to keep, none."""
    referencing: tuple[int, ...] = ()
    """Attribute numbers of the columns of foreign keys."""
    external: ExternalJournal | None = None
    """Set where the row versions are in a journal of others."""
    division: Division | None = None
    """How the base is divided into partitions; None for one in no partitions."""
    row_bytes: int | None = None
    """How large rows may be, their values counted as text; None for any size."""

    def column(self, attnum: int) -> Column:
        """Return the column with this attribute number; KeyError when there is none."""
        for column in self.columns:
            if column.attnum == attnum:
                return column
        raise KeyError(attnum)


@dataclass(frozen=True, slots=True)
class Segment:
    """Immutable output of one write."""

    segment_id: int
    """Number given by the catalog; 0 before publication."""
    kind: SegmentKind
    path: str
    """Directory relative to the warehouse."""
    rows: int
    size_bytes: int
    attnums: tuple[int, ...]
    """Columns present in the files."""
    min_version: int
    """Smallest version number, microseconds since 1970-01-01 UTC."""
    max_version: int
    key_min: int | None = None
    """Smallest key when the key is one integer column."""
    key_max: int | None = None
    partition: Partition | None = None
    """The partition that all rows are in, by the division of the table when it was written."""

    @property
    def is_borrowed(self) -> bool:
        """Whether it is made of files of others."""
        return self.path.endswith(BORROWED)


@dataclass(frozen=True, slots=True)
class Outside:
    """What a statement reads of a journal of others: which files there were when it began."""

    files: tuple[str, ...]
    state: str
    """Token that is equal only for equal contents, as far as names, sizes and times tell."""
    rows: int
    """A guess at the number of row versions."""


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """What one statement reads of one table: segments and tail at one moment."""

    table: JournalTable
    state: str
    """Token that is equal only for equal contents; names cached relations."""
    version: int
    """Largest version number of the table, microseconds since 1970-01-01 UTC; 0 at first."""
    segments: tuple[Segment, ...]
    tail_rows: int
    """Number of row versions inlined in the catalog."""
    seen: str | None = None
    """Of a resident table: PostgreSQL's text of the snapshot that the tail was read in."""
    outside: Outside | None = None
    """Row versions that are in a journal of others."""

    @property
    def stored_rows(self) -> int:
        """How many row versions are in files, without the archive's."""
        return sum(s.rows for s in self.segments if s.kind is not SegmentKind.ARCHIVE)

    @property
    def is_borrowed(self) -> bool:
        """Whether the base has files of others."""
        return any(segment.is_borrowed for segment in self.of_kind(SegmentKind.BASE))

    def of_kind(self, kind: SegmentKind) -> tuple[Segment, ...]:
        """Return the segments of one part of the journal."""
        return tuple(segment for segment in self.segments if segment.kind is kind)
