"""What the gateway needs of Spark, and nothing of how it is had.

Two packages implement it: ``internals`` calls the driver's own classes, ``public`` what PySpark
promises to keep. The rest of the gateway knows neither; ``engine`` chooses.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

import pyarrow as pa

from pgwire_gateway.spark.settings import SessionKind

__all__ = [
    "LAST_YEAR",
    "Delivery",
    "Driver",
    "Explanation",
    "Failure",
    "Frame",
    "JobProgress",
    "Reading",
    "Rows",
    "Session",
    "Told",
    "Writing",
]

LAST_YEAR: Final = 2130
"""No time zone has changes of its own beyond 2100."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read as rows: files, or a relation of another database."""

    form: str
    """Spark's name of the format."""
    paths: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    ddl: str | None = None
    """The columns as in CREATE TABLE; those that are found where this and `schema` are None."""
    schema: str | None = None
    """The columns in Spark's JSON."""


@dataclass(frozen=True, slots=True)
class Writing:
    """Where rows are written to: a directory that does not exist yet, if not said otherwise."""

    form: str
    """Spark's name of the format."""
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    """Columns that become directories."""
    appends: bool = False
    """Whether there may be rows already."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """How the rows of a result are handed out."""

    batch_rows: int
    collected: bool = True
    """True when the whole result is fetched at once, false when it may be streamed."""
    is_small: bool = False
    """Whether so little is read that a job costs more than what it computes."""
    part_rows: int = 0
    """Rows that a task may hold in memory."""
    may_exceed_part: bool = False
    """Whether the largest possible result has more than one part of that size."""
    may_multiply: bool = False
    """Whether there may be more rows than are read; then a part of them may not fit in memory."""
    may_be_few: bool = False
    """Whether conditions may leave little of each part, and nothing works on all rows together."""
    most_rows: int | None = None
    """How many rows the reader takes at most, in their order."""
    matches_patterns: bool = False
    """Whether planning may take any time: it evaluates conditions over rows that are at hand."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """How Spark runs a query, in its own words."""

    physical: str
    logical: str
    """Parsed, analysed, optimized."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """What the jobs of one group have done so far."""

    rows_read: int = 0
    """From files; 0 where Spark does not tell."""
    rows_written: int = 0
    """To files; 0 where Spark does not tell."""
    tasks_done: int = 0
    tasks_total: int = 0
    """Of the stages that have begun."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What Spark says about a failure."""

    condition: str
    """Spark's name of it; empty for none."""
    message: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Told:
    """What an exception tells of Spark."""

    failures: tuple[Failure, ...] = ()
    """The failure and its causes, outermost first."""
    is_lost: bool = False
    """Whether the driver does not answer any more."""


class Rows(Protocol):
    """The rows of a result."""

    @property
    def schema(self) -> pa.Schema:
        """Their columns."""

    @property
    def is_complete(self) -> bool:
        """Whether all of them are at hand: nothing runs, or will."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield them in their order; what is not at hand is computed meanwhile."""

    def close(self) -> None:
        """Take no more."""


class Frame(Protocol):
    """Rows that can be computed: a DataFrame.

    Whatever computes does so as part of the group of jobs that the thread has entered.
    """

    def schema(self) -> str:
        """Return the columns in Spark's JSON."""

    def select(self, items: Sequence[str]) -> Self:
        """Return expressions in SQL of each row."""

    def where(self, condition: str) -> Self:
        """Return the rows that a condition in SQL is true of."""

    def among(self, column: str, values: Collection[object]) -> Self:
        """Return the rows that have one of some integers or texts in a column."""

    def union(self, other: Self) -> Self:
        """Return the rows of both, which have the same columns."""

    def distinct(self) -> Self:
        """Return each row once."""

    def limit(self, rows: int) -> Self:
        """Return so many of the rows at most."""

    def coalesce(self, parts: int) -> Self:
        """Return the same rows in so many parts at most."""

    def by_range(self, parts: int, columns: Sequence[str]) -> Self:
        """Return the same rows in so many parts, each with a range of the values of columns."""

    def sorted_parts(self, columns: Sequence[str]) -> Self:
        """Return the same rows, each part sorted by columns."""

    def parts(self) -> int:
        """Return in how many parts the rows are computed."""

    def count(self) -> int:
        """Return how many rows there are."""

    def first(self) -> tuple[object, ...]:
        """Return the values of the first row, of which there must be one."""

    def rows(
        self,
        delivery: Delivery,
        *,
        check: Callable[[], None] | None = None,
        enter: Callable[[], None] | None = None,
    ) -> Rows:
        """Compute the rows, or begin with it.

        Args:
            delivery: How they are handed out.
            check: Raises when they are not wanted any more.
            enter: Makes the jobs of this thread those of the statement, which others may have had.
        """

    def write(self, writing: Writing) -> None:
        """Compute the rows and write them."""

    def insert_into(self, table: str) -> None:
        """Compute the rows and append them to a table of Spark's catalogs."""

    def register(self, name: str) -> None:
        """Be ``global_temp.name`` for queries, in place of what had that name."""


class Session(Protocol):
    """A session of Spark: what is read and computed in it is under its settings."""

    @property
    def driver(self) -> "Driver":
        """Whose session it is."""

    def enter(self, group: str) -> None:
        """Make this thread's jobs run under the session's settings and in a group to cancel."""

    def activate(self) -> None:
        """Make this the session under whose settings this thread's frames are made."""

    def query(self, text: str) -> Frame:
        """Return the rows of a query in Spark's SQL; it is analysed now, and computed later."""

    def explain(self, text: str) -> Explanation:
        """Return how a query would be run."""

    def read(self, reading: Reading) -> Frame:
        """Return the rows of files, or of a relation of another database."""

    def local(self, rows: pa.Table, ddl: str) -> Frame:
        """Return rows held in memory; their columns are as in CREATE TABLE."""

    def empty(self, schema: str) -> Frame:
        """Return no rows, of columns in Spark's JSON."""

    def table(self, name: str) -> Frame:
        """Return the rows of a table of Spark's catalogs as they are now, whoever wrote them."""

    def has_table(self, name: str) -> bool:
        """Tell whether Spark's catalogs have such a table, which is no view of a session."""

    def types(self, schema: str) -> tuple[tuple[str, str], ...]:
        """Return the names and the types in SQL of columns in Spark's JSON."""

    def drop(self, name: str) -> None:
        """Forget what `Frame.register` has made known."""

    def quoted(self, url: str, name: str) -> str:
        """Return a name in the SQL of another database.

        Raises:
            GatewayError: 0A000 where this interface of Spark does not tell.
        """

    def relations(self, options: Mapping[str, str], schema: str) -> tuple[str, ...]:
        """Return the names of the tables and views in a schema of another database, in order.

        Raises:
            GatewayError: 0A000 where this interface of Spark does not tell.
        """

    def update(self, options: Mapping[str, str], statement: str) -> int:
        """Have another database run a statement; return how many rows it has changed.

        Raises:
            GatewayError: 0A000 where this interface of Spark cannot.
        """


class Driver(Protocol):
    """One life of Spark's driver: everything that dies with it."""

    @property
    def cores(self) -> int:
        """How many tasks run at the same time."""

    @property
    def alive(self) -> bool:
        """Whether it answers, as far as is known without asking it."""

    def session(self, kind: SessionKind, **extra: str) -> Session:
        """Return a new session."""

    def cancel(self, group: str) -> None:
        """Cancel what runs for a group, and the jobs that it starts later."""

    def progress(self, group: str) -> JobProgress | None:
        """Return how far the jobs of a group are; None where Spark does not tell."""

    def told(self, error: BaseException) -> Told | None:
        """Return what an exception tells of Spark; None for what has another origin."""

    def zone_steps(self, name: str) -> Sequence[tuple[int, int]] | None:
        """Return when Spark's clocks of a time zone change, up to LAST_YEAR; None for no zone.

        Returns:
            Instants in seconds from 1970, and the offset in seconds from each of them on. The first
            is before all others.
        """

    def kill(self) -> None:
        """End it at once."""

    def stop(self) -> None:
        """Let it end by itself."""
