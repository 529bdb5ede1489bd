"""The one row of a subquery as a value, of which several columns may be asked for.

Before: ``SET (a, b) = (SELECT x, y + t.a FROM s WHERE s.k = t.id)``.
After: ``CASE WHEN p.r.n > 1 THEN RAISE_ERROR(…) WHEN p.r.n = 1 THEN p.r.v.f1 END`` and the same of
``p.r.v.f2 + p.a``, where the layer below has ``(SELECT NAMED_STRUCT('n', COUNT(1), 'v',
FIRST(NAMED_STRUCT('f1', s.x, 'f2', s.y))) FROM (…) AS s) AS r``. Spark joins these by what is
compared, which it does not where it has to see itself that there is one row at most, or where
what is selected is computed from the row outside. Where it has to, and not every row asks for the
subquery, that has one condition more: several rows must not be an error of the others.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from catalog.pg import sqlstate
from catalog.pg.nodes import SubLinkType
from rewrite.expressions import compile_expression, raise_error
from rewrite.query.compilation import part_names
from rewrite.query.sql import aliased, call, identifier, literal, select
from rewrite.query.sublinks import PARAM_MULTIEXPR, holds_sublink
from rewrite.tree import Item, Node, transform, walk
from rewrite.values import Value

if TYPE_CHECKING:
    from rewrite.query.scopes import QueryScope

MULTIPLE: Final = -202
"""Number no range table has: columns of what SET takes several columns of."""

SELECTED: Final = -207
"""Number no range table has: columns of the row that is at hand."""

_PLACES: Final = 16
"""A parameter has the number of the subquery, and in so many bits that of its column."""
_NUMBER, _ROW = "n", "v"

_NOT_ALONE: Final = (
    *("groupClause", "groupingSets", "havingQual", "distinctClause", "windowClause"),
    *("setOperations", "limitCount", "limitOffset", "hasAggs", "hasTargetSRFs"),
)
"""What makes the columns of a query depend on other rows than their own."""


@dataclass(frozen=True, slots=True)
class SubqueryRow:
    """A subquery whose row is one value."""

    query: exp.Expression
    """The value, as Spark SQL; NULL where there is no row."""
    columns: tuple[tuple[Value, tuple[str, ...]], ...]
    """The columns, and the fields that their parts are."""
    computed: tuple[Node, ...]
    """What is computed of these; nothing where they are the columns of the subquery."""
    counts: bool
    """Whether the value has the number of rows, too."""

    @staticmethod
    def of(node: Node, scope: "QueryScope", asks: exp.Expression | None) -> "SubqueryRow":
        """Compile a sublink with one row at most; several are an error (21000).

        Args:
            node: The sublink.
            scope: Where it stands.
            asks: The condition that a row asks for it; None where each does.
        """
        query, computed = _split(node.node("subselect"))
        block = scope.compilation.block(query, scope, apart=True)
        alias = scope.compilation.name("s")
        found = block.relation(alias)
        columns = tuple((one, part_names(one, f"f{n}")) for n, one in enumerate(found, 1))
        row = _struct({name: part for one, names in columns for name, part in _parts(one, names)})
        is_one = block.bound is not None and block.bound <= 1
        counts = bool(computed) or not (is_one or _looks_out(query.nodes("targetList")))
        if counts:
            row = _struct({_NUMBER: call("count", literal(1)), _ROW: call("first", row)})
        condition = None if asks is None or counts or is_one else asks.copy()
        subquery = exp.Subquery(this=select([row], aliased(block.query, alias), condition))
        return SubqueryRow(subquery, columns, computed, counts)

    def column(self, value: exp.Expression, number: int, scope: "QueryScope") -> Value:
        """Return a column of the row, by its number from 1 on, where the row is this value.

        Args:
            value: The row.
            number: The number.
            scope: Where it is asked for; while it is, `SELECTED` are columns of this row.
        """
        if not self.computed:
            found = self.selected(value, number)
        else:
            found = compile_expression(self.computed[number - 1], scope)
        if not self.counts:
            return found
        count = _field(value, _NUMBER)
        several = exp.GT(this=count, expression=literal(1))
        there = exp.EQ(this=count.copy(), expression=literal(1))
        parts = [
            exp.Case(
                ifs=[
                    exp.If(this=several.copy(), true=_failure()),
                    exp.If(this=there.copy(), true=part.copy()),
                ]
            )
            for part in found.parts
        ]
        return found.with_parts(parts)

    def selected(self, value: exp.Expression, number: int) -> Value:
        """Return what the subquery selects, by its number from 1 on."""
        column, names = self.columns[number - 1]
        row = _field(value, _ROW) if self.counts else value
        return column.with_parts([_field(row, name) for name in names])


def multiple_sublinks(entries: Iterable[Node]) -> Mapping[int, Node]:
    """Return the subqueries of which SET takes several columns, by the numbers they have."""
    nodes = (entry.get("expr") for entry in entries)
    return {
        node.integer("subLinkId"): node
        for node in nodes
        if isinstance(node, Node)
        and node.tag == "SUBLINK"
        and node["subLinkType"] == SubLinkType.MULTIEXPR
    }


def place_of(attno: int) -> tuple[int, int]:
    """Return which subquery and which of its columns a column of `MULTIPLE` is."""
    return attno >> _PLACES, attno & ((1 << _PLACES) - 1)


def with_multiple_columns(node: Node) -> Node:
    """Return an expression with columns for the parameters that stand for those of subqueries."""
    prepared = transform(node, _multiple_column)
    return prepared if isinstance(prepared, Node) else node


def _multiple_column(node: Node, depth: int) -> Item | None:
    if node.tag == "PARAM" and node["paramkind"] == PARAM_MULTIEXPR:
        fields: dict[str, Item] = {"varno": MULTIPLE, "varattno": node["paramid"]}
        return Node("VAR", {**fields, "varlevelsup": depth})
    return None


def _split(query: Node) -> tuple[Node, tuple[Node, ...]]:
    """Return a query that selects its own columns alone, and what its results are, outside.

    The latter is nothing where the query is as it was: where it selects nothing of the row outside,
    or where that cannot be parted.
    """
    entries = [entry for entry in query.nodes("targetList") if not entry["resjunk"]]
    if not _looks_out(entries) or holds_sublink(list(entries)):
        return query, ()
    if any(query.get(name) for name in _NOT_ALONE):
        return query, ()
    own: list[Node] = []

    def outside(node: Node, depth: int) -> Item | None:
        if node.tag != "VAR":
            return None
        if node["varlevelsup"] != depth:
            return node.replace(varlevelsup=node.integer("varlevelsup") - 1)
        places = [(one["varno"], one["varattno"]) for one in own]
        place = (node["varno"], node["varattno"])
        if place not in places:
            own.append(node)
            places.append(place)
        return node.replace(varno=SELECTED, varattno=places.index(place) + 1)

    computed = [transform(entry.node("expr"), outside) for entry in entries]
    # Without any column there is one row or none all the same.
    first = entries[0]
    selected: list[Item] = [
        first.replace(expr=node, resno=number, ressortgroupref=0)
        for number, node in enumerate(own, 1)
    ]
    plain = query.replace(targetList=selected, sortClause=None)
    return plain, tuple(one for one in computed if isinstance(one, Node))


def _looks_out(items: Iterable[Node]) -> bool:
    """Return whether what a query selects depends on the row of one around it."""
    return any(
        node.tag == "VAR" and node.integer("varlevelsup") > depth
        for item in items
        for node, depth in walk(item)
    )


def _parts(value: Value, names: tuple[str, ...]) -> Iterator[tuple[str, exp.Expression]]:
    return zip(names, value.parts, strict=True)


def _struct(fields: Mapping[str, exp.Expression]) -> exp.Expression:
    items = ((exp.Literal.string(name), value) for name, value in fields.items())
    return call("named_struct", *(one for item in items for one in item))


def _field(value: exp.Expression, name: str) -> exp.Expression:
    return exp.Dot(this=value.copy(), expression=identifier(name))


def _failure() -> exp.Expression:
    message = "more than one row returned by a subquery used as an expression"
    return raise_error(sqlstate.CARDINALITY_VIOLATION, message)
