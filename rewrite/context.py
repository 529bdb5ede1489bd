"""What a statement is compiled against: snapshots, parameters and the constants of the session."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from catalog.model import TableSnapshot


@dataclass(frozen=True, slots=True)
class ParameterValue:
    """The value bound to one ``$n``."""

    type_oid: int
    value: object
    """None for NULL; otherwise bool, int, float, Decimal, str, bytes, date, datetime, time, UUID, a
    tuple (months, days, microseconds) for interval, or a list for an array. Dates and times may be
    integers, too: days since 1970, microseconds since then or since midnight."""


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


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    """A CHECK constraint of a journaled table."""

    name: str
    expression: str
    """``pg_constraint.conbin``: PostgreSQL's tree with Vars of relation 1."""


@dataclass(frozen=True, slots=True)
class RewriteContext:
    """Everything the compiler may know besides the statement's tree."""

    snapshots: Mapping[int, TableSnapshot]
    """What the statement reads, by OID of the journaled table."""
    constants: SessionConstants
    journals: Mapping[int, int] = field(default_factory=dict)
    """OID of each journal relation → OID of the journaled table whose row versions it shows."""
    parameters: tuple[ParameterValue, ...] = ()
    checks: Mapping[int, tuple[CheckConstraint, ...]] = field(default_factory=dict)
    """CHECK constraints by OID of the journaled table."""
    latest_only: frozenset[int] = frozenset()
    """Tables whose deltas and tail hold one version of each row at most."""
    generated: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    """Stored generated columns: OID of the table → attribute number → ``pg_attrdef.adbin``."""
