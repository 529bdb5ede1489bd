"""What the expressions of a query can refer to, and how that changes from layer to layer of SQL.

A query compiles to nested SELECTs where Spark's own name resolution would not do: rows, groups of
rows, rows to be sorted. Each layer is a scope; it fetches columns from the one below when they are
asked for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlglot import exp
from typing_extensions import override

from catalog.model import Domain
from catalog.pg.nodes import RTEKind
from rewrite.errors import UnsupportedError
from rewrite.expressions import compile_expression, compile_parameter
from rewrite.query import sublinks
from rewrite.query.compilation import Compilation, part_names
from rewrite.query.relations import Relation
from rewrite.query.sql import aliased, column, named, select
from rewrite.query.subquery_rows import (
    MULTIPLE,
    SELECTED,
    SubqueryRow,
    place_of,
    with_multiple_columns,
)
from rewrite.query.windows import window_definition
from rewrite.tree import Node
from rewrite.values import Value, WindowDefinition

if TYPE_CHECKING:
    from rewrite.context import SessionConstants

RTE_JOIN, RTE_GROUP = RTEKind.JOIN, RTEKind.GROUP


class QueryScope:
    """Base of all layers of one query."""

    def __init__(
        self,
        compilation: Compilation,
        query: Node,
        parent: "QueryScope | None",
        *,
        apart: bool = False,
    ) -> None:
        self.compilation = compilation
        self.query = query
        self.parent = parent
        self.apart = apart
        """True for sublinks and LATERAL, from which Spark looks only one query up."""
        self._rows: exp.Select | None = None
        self._outer: exp.Select | None = None
        self._outer_alias = ""
        self._imported: dict[tuple[int, int, int], Value] = {}
        self._fetches = False

    @property
    def constants(self) -> "SessionConstants":
        """Values that stay the same during the statement."""
        return self.compilation.context.constants

    def up(self, levels: int) -> "QueryScope":
        """Return the scope of an enclosing query."""
        scope = self
        for _ in range(levels):
            if scope.parent is None:
                raise UnsupportedError(
                    "reference to a query that is not part of the statement is not supported"
                )
            scope = scope.parent
        return scope

    def local(self, varno: int, attno: int) -> Value:
        """Return a column of this query's own range table."""
        raise NotImplementedError

    @contextmanager
    def asked_where(self, condition: exp.Expression) -> Iterator[None]:
        """Compile what only those rows of the layer below ask for that satisfy a condition."""
        del condition
        yield

    def prepare(self, node: Node) -> Node:
        """Return the expression with what the layer below has computed replaced by its columns."""
        return node

    def compile(self, node: Node) -> Value:
        """Compile an expression of this query."""
        return self.compile_prepared(self.prepare(node))

    def compile_prepared(self, node: Node) -> Value:
        """Compile an expression that :meth:`prepare` has returned."""
        return compile_expression(node, self)

    # -- what compile_expression asks --------------------------------------------------------------

    def column(self, varno: int, attno: int, levelsup: int) -> Value:
        """Return the column a Var names.

        Spark's subqueries see one query up. A column from further away is fetched by the query in
        between.
        """
        return self._found(varno, attno, levelsup, self if self._fetches else None)

    def column_below(self, varno: int, attno: int, levelsup: int) -> Value:
        """Return the column a Var names where it stands one of Spark's subqueries further down."""
        return self._found(varno, attno, levelsup, self)

    def _found(self, varno: int, attno: int, levelsup: int, between: "QueryScope | None") -> Value:
        """Return a column, fetched by the last scope passed from which Spark still sees it."""
        scope: QueryScope | None = self
        between_level = 0
        for level in range(levelsup):
            if scope is None:
                break
            if scope.apart and between is not None:
                return between.imported(varno, attno, levelsup - between_level)
            if scope.apart:
                between, between_level = scope.parent, level + 1
            scope = scope.parent
        if scope is None:
            raise UnsupportedError(
                "reference to a query that is not part of the statement is not supported"
            )
        return scope.local(varno, attno)

    @contextmanager
    def fetching(self) -> Iterator[None]:
        """Have columns from further out fetched by this query as long as the context lasts."""
        before, self._fetches = self._fetches, True
        try:
            yield
        finally:
            self._fetches = before

    @property
    def rows(self) -> exp.Select | None:
        """The SELECT in which this scope's expressions stand, once it exists."""
        return self._rows

    @rows.setter
    def rows(self, rows: exp.Select) -> None:
        joins = self._outer is not None and rows is not self._rows
        self._rows = rows
        if joins and self._outer is not None:
            _join_first(rows, aliased(self._outer, self._outer_alias))

    def imported(self, varno: int, attno: int, levelsup: int) -> Value:
        """Return a column of a query further out as a column of this query's own FROM clause."""
        key = (varno, attno, levelsup)
        if key not in self._imported:
            value = self._found(varno, attno, levelsup, None)
            if self._outer is None:
                self._outer = select([])
                self._outer_alias = self.compilation.name("y")
                if self._rows is not None:
                    _join_first(self._rows, aliased(self._outer, self._outer_alias))
            names = part_names(value, self.compilation.name("x"))
            for part, name in zip(value.parts, names, strict=True):
                self._outer.append("expressions", named(part, name))
            columns = [column(name, self._outer_alias) for name in names]
            self._imported[key] = value.with_parts(columns)
        return fresh(self._imported[key])

    def parameter(self, paramid: int) -> Value:
        """Return the value of ``$paramid``."""
        return compile_parameter(self.compilation.context.parameters[paramid - 1])

    def domain(self, oid: int) -> Domain | None:
        """Return what the values of a domain have to be."""
        return self.compilation.context.domains.get(oid)

    def sublink(self, node: Node, compile_node: Callable[[Node], Value]) -> Value:
        """Return the value of a SubLink."""
        return sublinks.value(node, self, compile_node)

    def sublink_of_test(self, node: Node, test: "QueryScope") -> Value:
        """Return the value of a SubLink in the test of another one."""
        return sublinks.value(node, test, test.compile)

    def sublink_column(self, paramid: int) -> Value:
        """Return a column of the sublink whose test expression is being compiled."""
        raise UnsupportedError(f"parameter {paramid} of a subquery in this place is not supported")

    def compile_test(self, node: Node, columns: Sequence[Value]) -> Value:
        """Compile a sublink's test expression over the sublink's columns."""
        return compile_expression(node, TestScope(self, columns))

    def grouping(self, node: Node) -> Value:
        """Return the value of a GroupingFunc."""
        return self.up(node.integer("agglevelsup")).local_grouping(node)

    def local_grouping(self, node: Node) -> Value:
        """Return the value of a GroupingFunc of this query."""
        del node
        raise UnsupportedError("GROUPING() in this place is not supported")

    def window(self, winref: int) -> WindowDefinition:
        """Return the window clause a window function refers to."""
        for clause in self.query.nodes("windowClause"):
            if clause.integer("winref") == winref:
                return window_definition(clause, self)
        raise UnsupportedError("window function in this place is not supported")

    def target(self, reference: int) -> Node:
        """Return the target entry a sort or group clause refers to."""
        for entry in self.query.nodes("targetList"):
            if entry.integer("ressortgroupref") == reference:
                return entry
        raise UnsupportedError("sort or group clause without target is not supported")


class FromScope(QueryScope):
    """The rows of the FROM clause."""

    def __init__(
        self,
        compilation: Compilation,
        query: Node,
        parent: QueryScope | None,
        *,
        apart: bool = False,
    ) -> None:
        super().__init__(compilation, query, parent, apart=apart)
        self.range_table = query.nodes("rtable")
        self.relations: dict[int, Relation] = {}

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of a relation, or what a join or group column stands for."""
        if attno == 0:
            raise UnsupportedError("whole-row reference is not supported")
        relation = self.relations.get(varno)
        if relation is not None:
            return relation.column(attno)
        if not 0 < varno <= len(self.range_table):
            raise UnsupportedError(f"reference to relation {varno} is not supported")
        entry = self.range_table[varno - 1]
        kind = entry["rtekind"]
        if kind == RTE_JOIN:
            definition = entry.items("joinaliasvars")[attno - 1]
        elif kind == RTE_GROUP:
            definition = entry.items("groupexprs")[attno - 1]
        else:
            raise UnsupportedError("column of a relation outside the FROM clause is not supported")
        if not isinstance(definition, Node):
            raise UnsupportedError("dropped column of a join is not supported")
        return compile_expression(definition, self)


class LayerScope(QueryScope):
    """A SELECT over the layer below; columns are carried through it when they are asked for."""

    def __init__(
        self, inner: QueryScope, select: exp.Select, alias: str, prefix: str = "x"
    ) -> None:
        super().__init__(inner.compilation, inner.query, inner.parent, apart=inner.apart)
        self.inner = inner
        self.select = select
        self.alias = alias
        self.prefix = prefix
        self._carried: dict[tuple[int, int], Value] = {}
        self._count = 0

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of the layer below, carrying it through this one."""
        key = (varno, attno)
        if key not in self._carried:
            self._carried[key] = self.carry(self.inner.local(varno, attno))
        return fresh(self._carried[key])

    def carry(self, value: Value) -> Value:
        """Add a value to the SELECT and return it as a column of the SELECT."""
        self._count += 1
        return self.add(value, f"{self.alias}_{self.prefix}{self._count}")

    def add(self, value: Value, name: str) -> Value:
        """Add a value under a name and return it as a column of the SELECT."""
        names = part_names(value, name)
        for part, part_name in zip(value.parts, names, strict=True):
            self.select.append("expressions", named(part, part_name))
        return value.with_parts([column(part_name, self.alias) for part_name in names])


class SublinkScope(LayerScope):
    """A SELECT in which the values of sublinks become columns.

    Spark refuses subqueries in higher-order functions and in some aggregates; columns it takes.
    """

    def __init__(
        self,
        inner: QueryScope,
        select: exp.Select,
        alias: str,
        *,
        multiple: Mapping[int, Node] | None,
    ) -> None:
        super().__init__(inner, select, alias)
        self._multiple = multiple
        self._asks: exp.Expression | None = None
        self._at_hand: tuple[SubqueryRow, exp.Expression] | None = None
        self._found_rows: dict[int, tuple[SubqueryRow, exp.Expression]] = {}

    @override
    def prepare(self, node: Node) -> Node:
        """Leave it to the layer below, which computed what is replaced."""
        return with_multiple_columns(self.inner.prepare(node))

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of the layer below, or of a subquery."""
        if varno == SELECTED and self._at_hand is not None:
            row, value = self._at_hand
            return row.selected(value, attno)
        if varno != MULTIPLE:
            return super().local(varno, attno)
        number, place = place_of(attno)
        if self._multiple is None or number not in self._multiple:
            raise UnsupportedError("SET of several columns in this place is not supported")
        if number not in self._found_rows:
            self._found_rows[number] = self._row(self._multiple[number])
        return self._column(*self._found_rows[number], place)

    @override
    def sublink(self, node: Node, compile_node: Callable[[Node], Value]) -> Value:
        """Compute a sublink in the layer below."""
        if self._multiple is not None and node["subLinkType"] == sublinks.EXPRESSION:
            return self._column(*self._row(node), 1)
        return fresh(self.carry(sublinks.value(node, self.inner, compile_node)))

    @contextmanager
    @override
    def asked_where(self, condition: exp.Expression) -> Iterator[None]:
        """Have subqueries fail only for rows below that satisfy a condition."""
        before, self._asks = self._asks, condition
        try:
            yield
        finally:
            self._asks = before

    def _column(self, row: SubqueryRow, value: exp.Expression, number: int) -> Value:
        before, self._at_hand = self._at_hand, (row, value)
        try:
            return row.column(value, number, self)
        finally:
            self._at_hand = before

    def _row(self, node: Node) -> tuple[SubqueryRow, exp.Expression]:
        """Return the row of a subquery, and the column that it is."""
        row = SubqueryRow.of(node, self.inner, self._asks)
        name = self.compilation.name("w")
        self.select.append("expressions", named(row.query, name))
        return row, column(name, self.alias)

    @override
    def sublink_of_test(self, node: Node, test: QueryScope) -> Value:
        """Compute it in the layer below too."""
        return self.sublink(node, test.compile)

    @override
    def local_grouping(self, node: Node) -> Value:
        """Return GROUPING() of the layer below."""
        return fresh(self.carry(self.inner.local_grouping(node)))


class TestScope(QueryScope):
    """A sublink's test expression: of its query, but in Spark a condition inside the sublink."""

    def __init__(self, tested: QueryScope, columns: Sequence[Value]) -> None:
        super().__init__(tested.compilation, tested.query, tested.parent, apart=True)
        self._tested = tested
        self._columns = columns

    @override
    def column(self, varno: int, attno: int, levelsup: int) -> Value:
        """Return a column of the query, which fetches those from further out."""
        return self._tested.column_below(varno, attno, levelsup)

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Refuse what a sublink inside the test asks for: it is two queries down in Spark."""
        del varno, attno
        raise _beyond_the_test()

    @override
    def imported(self, varno: int, attno: int, levelsup: int) -> Value:
        """Refuse what a sublink inside the test asks for."""
        del varno, attno, levelsup
        raise _beyond_the_test()

    @override
    def sublink(self, node: Node, compile_node: Callable[[Node], Value]) -> Value:
        """Return the value of a sublink inside the test."""
        return self._tested.sublink_of_test(node, self)

    @override
    def sublink_column(self, paramid: int) -> Value:
        """Return a column of the sublink that is tested."""
        return self._columns[paramid - 1]

    @override
    def local_grouping(self, node: Node) -> Value:
        """Return GROUPING() of the query."""
        return self._tested.local_grouping(node)

    @override
    def window(self, winref: int) -> WindowDefinition:
        """Refuse a window function: the rows inside the sublink are not those of the window."""
        raise UnsupportedError(
            "window function compared with the rows of a subquery is not supported"
        )


def _beyond_the_test() -> UnsupportedError:
    return UnsupportedError(
        "correlated subquery compared with the rows of another one in this place is not supported"
    )


def over_sublinks(
    scope: QueryScope,
    rows: exp.Select,
    *,
    multiple: Mapping[int, Node] | None = None,
) -> tuple[SublinkScope, exp.Select]:
    """Return a layer over a SELECT for expressions that hold sublinks, and the SELECT over it.

    Args:
        scope: The rows.
        rows: The SELECT.
        multiple: Subqueries of which SET takes several columns, by their numbers, in a statement
            that changes rows.
    """
    scope.rows = rows
    alias = scope.compilation.name("p")
    layer = SublinkScope(scope, rows, alias, multiple=multiple)
    return layer, select([], aliased(rows, layer.alias))


def _join_first(rows: exp.Select, item: exp.Expression) -> None:
    """Put a FROM item before the others."""
    source = rows.args.get("from_")
    if source is not None:
        joins = rows.args.get("joins") or []
        first = source.this
        if any(join.side in {"RIGHT", "FULL"} for join in joins):
            first.set("joins", joins)
            first, joins = exp.Subquery(this=first), []
        rows.set("joins", [exp.Join(this=first, kind="CROSS"), *joins])
    rows.set("from_", exp.From(this=item))


def fresh(value: Value) -> Value:
    """Return a value whose column references are not shared with another tree."""
    return value.with_parts([part.copy() for part in value.parts])
