"""What the rewriter hands back: Spark SQL, the relations it reads and the columns it yields."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class SourcePart(Enum):
    """Part of a journal one Spark view shows."""

    BASE = "base"
    """Rows of the base segments: at most one version of each row, no tombstones."""
    RECENT = "recent"
    """Row versions of the deltas and the tail."""
    JOURNAL = "journal"
    """Row versions of all parts, the archive included."""


@dataclass(frozen=True, slots=True)
class Source:
    """A Spark view that must exist before the query runs."""

    relid: int
    """OID of the journaled table."""
    part: SourcePart
    view: str
    """Qualified name of the view, equal only for equal contents."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of a result as the client knows it, and where it is found."""

    name: str
    type_oid: int
    typmod: int
    column: str
    """Name of the Spark column."""
    scale: int | str | None = None
    """Display scale of a decimal: fixed, or the name of the column that holds it per row."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A query that does nothing but select columns of one view, and maybe stop early."""

    source: Source
    columns: Mapping[str, str]
    """Names of columns of the view by their names in the result."""
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class SparkQuery:
    """A query in Spark SQL with all that is needed to run it and to read its rows."""

    sql: str
    columns: tuple[OutputColumn, ...]
    sources: tuple[Source, ...]
    row_bound: int | None
    """Proven upper bound of the number of result rows."""
    input_rows: int
    """Number of row versions in the sources."""
    scan: Scan | None = None
    """The same query as a scan, where it is no more than that."""
    selected: tuple[str, ...] = ()
    """Names of the columns of relations that the result consists of, where it does."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """The rows an UPDATE or DELETE changes, as a query over the current rows."""

    kind: str
    """``update`` or ``delete``."""
    relid: int
    query: SparkQuery
    """Columns: ``n{attnum}`` new value (of a delete: old value) of every live column;
    ``row_identity`` for tables without key; ``k{attnum}`` old key columns when ``changes_key``;
    ``r1…`` returning columns; ``check_1…`` per CHECK constraint a boolean, false where violated."""
    changes_key: bool
    returning: tuple[OutputColumn, ...]
    row_bound: int | None
    old: tuple[OutputColumn, ...] = ()
    """Where they were asked for, the old values of all live columns: ``o{attnum}`` of those that
    get another one, else ``n{attnum}``."""
