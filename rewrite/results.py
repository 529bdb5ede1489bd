"""What the rewriter hands back: Spark SQL, the relations it reads and the columns it yields."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum

from catalog.model import JournalTable
from rewrite.row_expressions import Expression


class SourcePart(Enum):
    """Part of a journal one Spark view shows."""

    BASE = "base"
    """Rows of the base segments: at most one version of each row, no tombstones."""
    RECENT = "recent"
    """Row versions of the deltas and the tail."""
    RECENT_KEYS = "recent_keys"
    """One row: the bitmap of the keys of these."""
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
class Selection:
    """A query for values of those current rows of one table that satisfy a condition."""

    base: Source | None
    recent: Source | None
    """Newer than the base: one version of each row."""
    identity: tuple[str, ...]
    """Columns that tell rows apart, where there are such newer ones."""
    columns: Mapping[str, Expression]
    """What is computed, by the names of the result's columns."""
    condition: Expression | None = None
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Cut:
    """The LIMIT and OFFSET of a query, as numbers."""

    sql: str
    """The query without them."""
    rows: int
    offset: int


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
    selection: Selection | None = None
    """The same query as a selection, where it is no more than that."""
    selected: tuple[str, ...] = ()
    """Names of the columns of relations that the result consists of, where it does."""
    filters: bool = False
    """Whether conditions leave rows out: there may be few, whatever is read."""
    works_on_all: bool = False
    """Whether rows are grouped, sorted or joined, whatever the number of rows in the result.

    Finding the current rows takes an anti join and a window, which are not meant: they leave a key
    lookup what it is.
    """
    sorts: bool = False
    """Whether rows are sorted somewhere."""
    matches_patterns: bool = False
    """Whether texts are matched with patterns, which may take any time with a single one."""
    cut: Cut | None = None
    """The LIMIT of the whole query, where it has one that is a number."""


@dataclass(frozen=True, slots=True)
class MergeSource:
    """The source of a MERGE, to be computed before the rest."""

    query: SparkQuery
    """Columns ``c1``, ``c2``, …, as they are stored."""
    table: JournalTable
    """A table of these columns without key, where the target is."""
    columns: tuple[tuple[int, int], ...]
    """What each of them is: range table index and attribute number."""
    ranged: frozenset[int]
    """Places of the columns that are integers, and compared with columns of the target."""


class MergeConflict(IntEnum):
    """Why a row that a MERGE would write must not be written."""

    SECOND_TIME = 1
    """Another row of the source has the same row of the target changed."""
    KEY_EXISTS = 2
    """Another row has the key of a new one."""
    KEY_DELETED = 3
    """A row with the key of a new one is deleted: it depends on the order whether it is there."""
    KEY_CHANGED = 4
    """The row gets another key."""
    ORDER = 6
    """Of several proposed rows of one key one would change the row that is there: it may, where it
    is the last."""
    KEY_LEFT = 5
    """A row with the key that it gets is deleted, or gets another one: as with `KEY_DELETED`."""


ACTION, CONFLICT, MOVED, PLACE = "action", "conflict", "moved", "place"
"""Columns of a MERGE's rows: the Command a row is of, the MergeConflict it is in, or 0, and, where
rows may get other keys, whether it is one of two that such a row is: deleted and inserted. Where
values are drawn, the number of the clause."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What is drawn for a row."""

    function: str
    """A function of PostgreSQL's."""
    sequence: int | None
    """OID of the sequence that it draws from."""
    owned: bool = False
    """Whether that is an identity column's, for which no right is asked."""


@dataclass(frozen=True, slots=True)
class DrawnColumn:
    """A column of new rows whose values are drawn when the rows are known."""

    attnum: int
    place: int
    """Number of the clause of the MERGE that inserts the rows."""
    drawn: Drawn
    returned: tuple[str, ...]
    """Columns of RETURNING that have the same value."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """The rows an UPDATE, DELETE or MERGE changes, as a query over the current rows."""

    kind: str
    """``update``, ``delete`` or ``merge``."""
    relid: int
    query: SparkQuery
    """Columns: ``n{attnum}`` new value (of a delete: old value) of every live column;
    of a merge ``action``, a ``Command``, ``conflict``, a ``MergeConflict`` or 0, and ``moved``
    where rows may get other keys;
    ``row_identity`` for tables without key; ``k{attnum}`` old key columns when ``changes_key``;
    ``r1…`` returning columns; ``check_1…`` per CHECK constraint a boolean, false where violated."""
    changes_key: bool
    returning: tuple[OutputColumn, ...]
    row_bound: int | None
    drawn: tuple[DrawnColumn, ...] = ()
    """Columns of new rows that are NULL still."""
    numbers_rows: bool = False
    """Whether there may be new rows without key, whose ``row_identity`` is NULL still."""
    old: tuple[OutputColumn, ...] = ()
    """Where they were asked for, the old values of all live columns: ``o{attnum}`` of those that
    get another one, else ``n{attnum}``."""
