"""What the rule of thaw-and-run answers: the rows that have to be hot before a statement runs."""

from dataclasses import dataclass
from enum import Enum

from rewrite.errors import UnsupportedError
from rewrite.tree import Node


class Refusal(UnsupportedError):  # noqa: N818 - a verdict; the caller takes another road
    """The statement cannot be run on hot rows; the message names the construct (0A000)."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Columns that together have one of some rows of values.

    A column and its value are equal as PostgreSQL compares them: by the operator of the condition
    this comes from, or of the unique key or foreign key that is searched.
    """

    columns: tuple[int, ...]
    rows: tuple[tuple[Node, ...], ...]
    """Expressions over constants and parameters alone, the same whenever they are evaluated in the
    statement's transaction (see `rewrite.needs.steady`)."""
    arrays: bool = False
    """Each value is an array any of whose elements the (single) column may have."""
    found: bool = False
    """There are no rows here: the values are those of hot rows that a subquery will have found, so
    nothing has to be searched for this. They are not known, what depends on them has to be."""

    def among(self, columns: tuple[int, ...]) -> "Fixed":
        """Return what this says of some columns."""
        kept = [n for n, column in enumerate(self.columns) if column in columns]
        if len(kept) == len(self.columns):
            return self
        rows = tuple(tuple(row[n] for n in kept) for row in self.rows)
        return Fixed(tuple(self.columns[n] for n in kept), rows, self.arrays, self.found)


@dataclass(frozen=True, slots=True)
class Queue:
    """An order in which a query locks rows until it has as many as LIMIT tells.

    No row comes before the first ones that is not among them: where one of those is found as it
    was, which nobody has locked, the query has not got that far, and needed no others.
    """

    sort: tuple[Node, ...] = ()
    """The query's ORDER BY: its sort clauses; none for any order."""
    values: tuple[Node, ...] = ()
    """The targets that these refer to, over Vars of the number `varno`."""


@dataclass(frozen=True, slots=True)
class Need:
    """Current rows of one table that have to be hot: those that satisfy everything said here."""

    conditions: tuple[Node, ...] = ()
    """Conditions on the table alone, whose Vars have the number `varno`."""
    varno: int = 0
    fixed: tuple[Fixed, ...] = ()
    enough: Node | None = None
    """How many of these rows do, whichever they are (see `rewrite.needs.limits`); None for all."""
    queue: Queue | None = None
    """The order in which these rows are locked, where the first of them may do."""

    @property
    def all_rows(self) -> bool:
        """Whether nothing limits the rows; the caller looks at how many the table has."""
        return not self.conditions and not self.fixed and self.enough is None

    def fixes(self, columns: tuple[int, ...]) -> bool:
        """Return whether each of some columns is compared with known values on its own."""
        return all(any(fixed.columns == (c,) for fixed in self.known) for c in columns)

    @property
    def known(self) -> tuple[Fixed, ...]:
        """The columns whose values are known before the statement runs."""
        return tuple(fixed for fixed in self.fixed if not fixed.found)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A tiered table where a statement, or an action of a foreign key, reads or writes it."""

    relid: int
    needs: tuple[Need, ...]
    """Rows that satisfy any of these have to be hot; without any, none."""


class Image(Enum):
    """Which row versions a statement's own changes are looked through for."""

    OLD = "old"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Recorded:
    """Rows whose keys are known once capture has recorded what the statement wrote.

    When the statement has run, cold rows of `searched` whose `keys` equal the `columns` of a row
    version that it wrote to `written` are thawed, its changes are undone and it runs again, until
    there are none. An error of a run, while anything is Recorded, proves nothing: in the full table
    another row could have been met before. Another road is taken then.
    """

    written: int
    columns: tuple[int, ...]
    image: Image
    searched: int
    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Needs:
    """What has to be hot for a statement to do on hot rows what it would do on all of them."""

    occurrences: tuple[Occurrence, ...]
    recorded: tuple[Recorded, ...] = ()
    written: frozenset[tuple[int, tuple[int, ...]]] = frozenset()
    """Unique keys that are kept afterwards and get values: table and columns."""
    arbitrates: bool = False
    """Whether rows that have computed values the statement writes decide what it does: ON CONFLICT.
    When it has run, cold rows that have such values are thawed, its changes are undone and it runs
    again, until there are none."""

    def of(self, relid: int) -> "Needs":
        """Return what of this is about one table."""
        return Needs(
            tuple(occurrence for occurrence in self.occurrences if occurrence.relid == relid),
            tuple(recorded for recorded in self.recorded if recorded.written == relid),
            frozenset(found for found in self.written if found[0] == relid),
            self.arbitrates,
        )

    @property
    def whole(self) -> frozenset[int]:
        """Tables of which all rows are needed."""
        return frozenset(
            occurrence.relid
            for occurrence in self.occurrences
            if any(need.all_rows for need in occurrence.needs)
        )
