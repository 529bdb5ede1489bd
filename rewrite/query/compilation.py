"""State of one statement's compilation: names given, sources read, WITH queries found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from rewrite.context import RewriteContext
from rewrite.errors import UnsupportedError
from rewrite.query.failing import filters_by_what_can_fail
from rewrite.query.sql import column, identifier, named, view
from rewrite.results import Source
from rewrite.row_expressions import Expression
from rewrite.tree import Node
from rewrite.values import Value

if TYPE_CHECKING:
    from rewrite.query.scopes import QueryScope


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Current rows of a table that are in views, resolved: what is newer is one version each."""

    base: Source | None
    recent: Source | None
    identity: tuple[str, ...]
    """Columns that tell rows apart."""
    columns: Mapping[str, Expression]
    """Stored columns, by each name under which they are read."""


CompileBlock = Callable[["Compilation", Node, "QueryScope | None", str, bool], "Block"]


@dataclass(slots=True)
class Block:
    """A compiled query: Spark SQL and the values its columns carry."""

    query: exp.Expression
    columns: tuple[Value, ...]
    """Parts are unqualified names of the query's columns."""
    bound: int | None
    """Proven upper bound of the number of rows."""

    def relation(self, alias: str) -> tuple[Value, ...]:
        """Return the columns as seen from outside, where the query has this alias."""
        return tuple(
            value.with_parts([column(part.name, alias) for part in value.parts])
            for value in self.columns
        )


@dataclass(slots=True)
class Compilation:
    """Mutable state shared by all blocks of one statement."""

    context: RewriteContext
    compile_block: CompileBlock
    """Compiles a subquery; handed in so that expressions and queries can contain each other."""
    sources: dict[str, Source] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    """Row versions per source view."""
    ctes: list[exp.CTE] = field(default_factory=list)
    """Common table expressions in the order they depend on each other."""
    cte_blocks: dict[int, tuple[str, Block]] = field(default_factory=dict)
    """Compiled common table expressions by identity of their node."""
    statement: Node | None = None
    """The statement, where conditions of users are compiled."""
    computes: bool = False
    """Whether conditions of our own are about what is computed of columns."""
    shielded: dict[str, Callable[[str], str]] = field(default_factory=dict)
    """Relations whose columns are NULL in rows that are there no more, by alias: what gives the
    name under which a column has its values."""
    plain_rows: dict[str, PlainRows] = field(default_factory=dict)
    """Tables whose rows can be read without Spark, by alias."""
    filters: bool = False
    """Whether a condition leaves rows out."""
    lone: set[str] = field(default_factory=set)
    """Aliases of aggregations that have one row, before HAVING."""
    _names: int = 0
    _shields: bool | None = None

    @property
    def shields(self) -> bool:
        """Whether rows that are there no more have to be kept from conditions."""
        if self._shields is None:
            self._shields = self.computes or (
                self.statement is not None and filters_by_what_can_fail(self.statement)
            )
        return self._shields

    def bare(self, condition: exp.Expression) -> exp.Expression:
        """Return a condition that cannot fail about columns as they are in files."""
        if not self.shielded:
            return condition
        changed = condition.copy()
        for found in changed.find_all(exp.Column):
            name = self.shielded.get(found.table)
            if name is not None:
                found.set("this", identifier(name(found.name)))
        return changed

    def name(self, prefix: str) -> str:
        """Return a name that occurs once in the statement."""
        self._names += 1
        return f"{prefix}{self._names}"

    def block(self, query: Node, parent: "QueryScope | None", *, apart: bool = False) -> Block:
        """Compile a subquery; ``apart`` where Spark sees only the query around it."""
        return self.compile_block(self, query, parent, self.name("q") + "_", apart)

    def read(self, source: Source, rows: int, alias: str) -> exp.Table:
        """Return a source view as a FROM item and note that it is read."""
        self.sources[source.view] = source
        self.rows[source.view] = rows
        return view(source.view, alias)

    def snapshot_missing(self, name: str) -> UnsupportedError:
        """Return the error for a relation that has no journal."""
        return UnsupportedError(f'relation "{name}" cannot be read together with journaled tables')


def part_names(value: Value, name: str) -> tuple[str, ...]:
    """Return the column names that carry a value called ``name``."""
    return (name, f"{name}_scale")[: len(value.parts)]


def projected(values: list[Value], prefix: str) -> tuple[list[exp.Expression], tuple[Value, ...]]:
    """Return select items that carry the values, and the values as unqualified columns."""
    items: list[exp.Expression] = []
    columns: list[Value] = []
    for number, value in enumerate(values, 1):
        names = part_names(value, f"{prefix}{number}")
        items += [named(part, name) for part, name in zip(value.parts, names, strict=True)]
        columns.append(value.with_parts([column(name) for name in names]))
    return items, tuple(columns)
