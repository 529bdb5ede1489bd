"""What a statement is compiled against: snapshots, parameters and the constants of the session."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from catalog.journal.key_bitmap import KeyRange
from catalog.model import Domain, TableSnapshot


@dataclass(frozen=True, slots=True)
class UnreadValue:
    """A value of a type that only PostgreSQL reads."""

    data: bytes
    """PostgreSQL's binary form."""
    refusal: str
    """Why a statement that depends on it is refused, if PostgreSQL does not run it."""


@dataclass(frozen=True, slots=True)
class ParameterValue:
    """The value bound to one ``$n``."""

    type_oid: int
    value: object
    """None for NULL; an `UnreadValue`; otherwise bool, int, float, Decimal, str, bytes, date,
    datetime, time, UUID, a tuple (months, days, microseconds) for interval, or a list for an array.
    Dates and times may be integers, too: days since 1970, microseconds since then or since
    midnight."""


ALWAYS: Final = (-(2**63), 2**63 - 1)
"""Microseconds from 1970 from which on and up to which there are times."""


class TimeZones(Protocol):
    """What is known of PostgreSQL's time zones, and of Spark's rules for them."""

    def is_missing(self, name: str) -> bool:
        """Tell whether PostgreSQL surely knows no zone of this name."""

    def difference(self, name: str) -> tuple[int, int] | None:
        """Return the microseconds from 1970 from which on and up to which clocks may differ."""


class SameTimeZones:
    """Time zones of which PostgreSQL and Spark have the same rules."""

    def is_missing(self, name: str) -> bool:
        """Answer that any zone may exist."""
        del name
        return False

    def difference(self, name: str) -> tuple[int, int] | None:
        """Return None."""
        del name
        return None


@dataclass(frozen=True, slots=True)
class SessionConstants:
    """What functions without arguments answer during one statement."""

    transaction_timestamp: datetime
    """Aware, UTC."""
    time_zone: str
    current_user: str
    session_user: str
    current_database: str
    current_schema: str | None
    date_style: str = "ISO, MDY"
    interval_style: str = "postgres"
    bytea_output: str = "hex"
    time_zones: TimeZones = field(default_factory=SameTimeZones)


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    """A CHECK constraint of a journaled table."""

    name: str
    expression: str
    """``pg_constraint.conbin``: PostgreSQL's tree with Vars of relation 1."""


@dataclass(frozen=True, slots=True)
class GivenSource:
    """The rows of the source of a MERGE, computed before the rest of it."""

    snapshot: TableSnapshot
    """They are all of a table that exists for the statement."""
    columns: tuple[tuple[int, int], ...]
    """Range table index and attribute number of each of its columns."""
    ranges: Mapping[int, tuple[tuple[int, int], ...]]
    """First and last value of ranges that have all values of columns, by the columns' places."""
    distinct: frozenset[int] = frozenset()
    """Places of columns that have no value twice; they may be NULL in several rows."""
    is_little: bool = False
    """Whether as many rows of the target are little in memory."""


@dataclass(frozen=True, slots=True)
class Leaves:
    """What a statement reads of a partitioned table."""

    relids: tuple[int, ...]
    """OIDs of the leaves that it can reach, one at least where there is one."""
    columns: Mapping[int, str]
    """The table's own columns, by attribute number."""
    key: tuple[int, ...]
    """Attribute numbers of its primary key; empty when there is none."""
    types: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """OIDs of types and modifiers of the columns, where it has no leaves."""


@dataclass(frozen=True, slots=True)
class RewriteContext:
    """Everything the compiler may know besides the statement's tree."""

    snapshots: Mapping[int, TableSnapshot]
    """What the statement reads, by OID of the journaled table."""
    constants: SessionConstants
    journals: Mapping[int, int] = field(default_factory=dict)
    """OID of each journal relation → OID of the journaled table whose row versions it shows."""
    partitioned: Mapping[int, Leaves] = field(default_factory=dict)
    """What is read of partitioned tables, by their OIDs."""
    parameters: tuple[ParameterValue, ...] = ()
    checks: Mapping[int, tuple[CheckConstraint, ...]] = field(default_factory=dict)
    """CHECK constraints by OID of the journaled table."""
    latest_only: frozenset[int] = frozenset()
    """Tables whose deltas and tail hold one version of each row at most."""
    key_ranges: Mapping[int, KeyRange] = field(default_factory=dict)
    """Those of them of whose keys in deltas and tail there is a bitmap, by OID of the table."""
    given: GivenSource | None = None
    """The source of a MERGE, where it has been computed."""
    moves: bool = True
    """Whether a MERGE may give rows other keys. Such a row is two then."""
    placed_by: frozenset[int] = frozenset()
    """Columns that tell the leaf of a row without key, where a MERGE `moves` rows."""
    arbiter: tuple[int, ...] | None = None
    """Set where a MERGE is an INSERT with ON CONFLICT: attribute numbers of the unique key by which
    rows are in conflict; nothing where they are by any. It deletes rows that a proposed row would
    change, of which there are several with one key."""
    routed: bool = False
    """Whether rows that a MERGE inserts go to whatever leaf, which knows whether it has the key."""
    domains: Mapping[int, Domain] = field(default_factory=dict)
    """Domains that values are cast to, by their OIDs."""
    generated: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    """Stored generated columns: OID of the table → attribute number → ``pg_attrdef.adbin``."""
    reads_files: bool = True
    """Whether queries may be answered from data files, without Spark."""
