"""What the gateway knows of a statement before it is executed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from catalog.bookkeeping.moments import Seen, TimeOuts
from catalog.results import Analysis, Basis, PartitionTree, Relation
from catalog.session.journal_names import NamedJournals
from catalog.session.starred_merges import NamedColumns
from catalog.statements.splitting import Statement
from pgwire_gateway.planning.answerable import Answerable
from rewrite.context import CheckConstraint, Leaves
from rewrite.row_locks import RowLocks
from rewrite.tree import Node

ASKED_FOR = "asked for"
"""Why Spark answers a query of resident tables: as gateway.executor says."""


class Route(Enum):
    """Who executes a statement."""

    CATALOG = "catalog"
    """PostgreSQL alone: no journaled table is touched."""
    READ = "read"
    """Spark reads journaled tables."""
    INSERT = "insert"
    """PostgreSQL evaluates the rows; they move to the journal."""
    INSERT_QUERY = "insert query"
    """Spark reads the rows, PostgreSQL completes and checks them; they move to the journal."""
    FILL = "fill"
    """Spark reads the rows, PostgreSQL inserts them into a table of its own."""
    EXTRACT = "extract"
    """Spark computes what reads journaled tables, PostgreSQL the rest of a statement that writes
    tables of its own."""
    APPLY = "apply"
    """Spark finds the rows of a resident table to UPDATE or DELETE; PostgreSQL applies that."""
    CHANGE = "change"
    """Spark finds the rows to UPDATE or DELETE; their new versions are appended."""
    MERGE = "merge"
    """PostgreSQL on few rows that are put there, else Spark: it finds what a MERGE does to which
    rows; their new versions are appended."""
    THAW = "thaw"
    """PostgreSQL, on single rows of a tiered table that are put there for the statement."""
    REFERENCED = "referenced"
    """PostgreSQL, once rows of tiered tables that reference what the statement changes are hot."""
    PARTS = "parts"
    """PostgreSQL, on resident partitions of a table of which others are tiered."""
    CURSOR = "cursor"
    """Spark reads journaled tables, for a cursor from which rows are fetched."""
    EXPLAIN = "explain"
    """The gateway: how it would run a statement of one of the routes above, save the first."""
    OWN = "own"
    """The gateway: what it tells of itself."""
    COMMAND = "command"
    """The gateway: transactions, COPY, TRUNCATE, VACUUM, …"""


EXECUTORS = {
    Route.CATALOG: "postgres",
    Route.READ: "spark",
    Route.INSERT: "postgres, then the journal",
    Route.INSERT_QUERY: "spark, then postgres",
    Route.FILL: "spark, then postgres",
    Route.EXTRACT: "spark, then postgres",
    Route.APPLY: "spark, then postgres",
    Route.CHANGE: "spark",
    Route.MERGE: "spark",
    Route.THAW: "postgres, on thawed rows",
    Route.PARTS: "postgres",
    Route.REFERENCED: "postgres, with the rows that reference what it changes",
}
"""Who evaluates the rows of each route."""


@dataclass(frozen=True, slots=True)
class RowRules:
    """What new row versions of a table have to obey."""

    checks: tuple[CheckConstraint, ...]
    generated: Mapping[int, str]
    """Trees of the stored generated columns by attribute number."""


@dataclass(frozen=True, slots=True)
class WrittenLeaves:
    """Leaves of a partitioned table that a statement can write."""

    tree: int
    """OID of the partitioned table."""
    tiered: tuple[int, ...]
    """Those of which rows change, or to which rows go that are inserted."""
    resident: tuple[int, ...]
    others: tuple[int, ...] = ()
    """Further tiered ones, to which rows of these may move."""
    by_key: bool = False
    """Whether these are all that rows with the keys can be in which the statement names."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A classified and analysed statement."""

    statement: Statement
    route: Route
    analysis: Analysis | None = None
    """Parameter and result types; None for a statement sent as it is."""
    query: Node | None = None
    """PostgreSQL's tree, for the routes to Spark."""
    tables: frozenset[int] = frozenset()
    """Journaled tables read or written."""
    trees: Mapping[int, PartitionTree] = field(default_factory=dict)
    """Partitioned tables read or written, whose leaves are not among `tables` yet."""
    partitioned: Mapping[int, Leaves] = field(default_factory=dict)
    """What is read of partitioned tables."""
    leaves: WrittenLeaves | None = None
    """What is written of a partitioned table, unless it is one leaf alone."""
    bound_columns: frozenset[int] | None = frozenset()
    """Columns that tell which rows the table written may have as a partition; None: any may."""
    journals: Mapping[int, int] = field(default_factory=dict)
    """Journal relations read, with the tables they belong to."""
    temporary: tuple[Relation, ...] = ()
    """Temporary tables read beside journaled ones."""
    target: int | None = None
    """Journaled table written."""
    locks: RowLocks | None = None
    """What a query locks of tiered tables."""
    locking: Node | None = None
    """PostgreSQL's tree with its row locks, which `query` is without."""
    is_external: bool = False
    """Whether the table written is a journal of others."""
    loaded: int | None = None
    """Resident table that an INSERT of PostgreSQL's could fill with many rows."""
    filled: str = ""
    """Table of PostgreSQL that is filled, as SQL."""
    basis: Basis | None = None
    """What the analysis rests on; None when it holds whatever changes."""
    limits: TimeOuts | None = None
    """What limited the session when it was made, if that is known."""
    seen: Seen | None = field(default=None, compare=False, repr=False)
    """What a statement that is its own transaction was found to depend on with its analysis."""
    replaceable: bool = False
    """Whether others can replace relations PostgreSQL alone reads for it."""
    prepared: str = ""
    """Name of the catalog's prepared statement."""
    answerable: Answerable | None = None
    """What PostgreSQL answers for in it that could become tiered."""
    named: NamedJournals | NamedColumns | None = None
    """Set where the client named journals, which PostgreSQL knows by other names, or no columns."""
    sent: Statement | None = None
    """What the client sent in that case; see `source`."""
    takes: bool = False
    """Whether it may take away what others reference, and one of the tables is tiered."""
    seeks: bool = False
    """Whether rows that it writes may reference rows of tiered tables."""
    checked: bool = False
    """Whether PostgreSQL has planned it for these values, and so has looked at privileges."""
    pruned: bool = False
    """Whether it concerns the leaves that it reaches with these values, and no others."""
    arbiter: tuple[int, ...] | None = None
    """Set of a MERGE in the place of an INSERT with ON CONFLICT: attribute numbers of the unique
    key by which rows are in conflict; nothing where they are by any."""
    reason: str = "no journaled table"
    """Why this route, for people."""
    explained: "Plan | None" = None
    """What EXPLAIN tells about, or a cursor reads; set on these routes alone."""

    @property
    def source(self) -> Statement:
        """The statement as the client sent it."""
        return self.sent or self.statement

    @property
    def only_reads(self) -> bool:
        """Whether it locks and writes nothing; what it depends on can be asked at once then."""
        return self.route is Route.READ and self.locks is None and self.basis is not None

    @property
    def executor(self) -> str:
        """Who evaluates the rows; KeyError for statements without."""
        return EXECUTORS[self.route]

    @property
    def decision(self) -> str:
        """Who evaluates the rows, and why, in one line for people."""
        return f"{self.executor}: {self.reason}"
