"""GROUP BY, grouping sets and aggregates: groups of rows become rows of a subquery.

Before: ``SELECT a + 1, sum(b) FROM t GROUP BY a HAVING count(*) > 1``.
After: ``SELECT g.k1 + 1, g.a1 FROM (SELECT a AS k1, SUM(b) AS a1, COUNT(*) AS a2 FROM t GROUP BY a)
AS g WHERE g.a2 > 1``.
"""

from dataclasses import dataclass
from itertools import product

from sqlglot import exp
from typing_extensions import override

from catalog.pg import types
from catalog.pg.nodes import GroupingSetKind
from rewrite.errors import UnsupportedError
from rewrite.expressions import distinct_key, literal
from rewrite.query.known_counts import known_count
from rewrite.query.outer_references import LEVELS
from rewrite.query.scopes import RTE_GROUP, LayerScope, QueryScope, fresh
from rewrite.query.sql import aliased, call, select
from rewrite.tree import Item, Node, same, transform, walk
from rewrite.values import Value

# Numbers no range table has, for Vars that stand for what the grouping computed.
AGGREGATES = -100
KEYS = -101

_EMPTY, _SIMPLE, _ROLLUP, _CUBE, _SETS = GroupingSetKind
_INT4, _INT8 = types.INT4, types.INT8


@dataclass(slots=True)
class _Key:
    reference: int
    """``tleSortGroupRef``."""
    node: Node
    """The grouped expression over the rows."""
    sql: exp.Expression
    """What Spark groups by."""
    value: Value
    """The group's value, a column of the grouped subquery."""


class GroupedScope(LayerScope):
    """Groups of rows: keys, aggregates, and columns that depend on the keys."""

    def __init__(self, inner: QueryScope, rows: exp.Select, alias: str) -> None:
        super().__init__(inner, rows, alias, "d")
        self.item = aliased(rows, alias)
        self.keys: list[_Key] = []
        self.totals = 0
        """How many of several grouping sets are empty."""
        self.has_several_sets = False
        """Whether there are several grouping sets."""
        self.count: int | None = None
        """What all aggregates are, where that is known."""
        self._nodes: list[Node] = []
        self._aggregates: list[Value] = []
        self._group_entry = next(
            (
                number
                for number, entry in enumerate(inner.query.nodes("rtable"), 1)
                if entry["rtekind"] == RTE_GROUP
            ),
            None,
        )
        self._grouped = (
            []
            if self._group_entry is None
            else inner.query.nodes("rtable")[self._group_entry - 1].nodes("groupexprs")
        )

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return an aggregate, a key, or a column that has one value per group."""
        if varno == AGGREGATES:
            return fresh(self._aggregates[attno])
        if varno == KEYS:
            return fresh(self.keys[attno].value)
        if varno == self._group_entry:
            for key in self.keys:
                if same(key.node, self._grouped[attno - 1]):
                    return fresh(key.value)
            raise UnsupportedError("grouped expression that is no key is not supported")
        return super().local(varno, attno)

    @override
    def carry(self, value: Value) -> Value:
        """Carry a column that depends on the keys; any row of the group has its value."""
        parts = [call("any_value", part) for part in value.parts]
        return super().carry(value.with_parts(parts))

    @override
    def prepare(self, node: Node) -> Node:
        """Replace aggregates and (before PostgreSQL 18) grouped expressions by columns."""
        prepared = transform(node, self._replacement)
        return prepared if isinstance(prepared, Node) else node

    def _replacement(self, node: Node, depth: int) -> Item | None:
        if node.tag == "AGGREF" and node["agglevelsup"] == depth:
            return _column(AGGREGATES, self._aggregate(lifted(node, depth)), depth)
        if self._group_entry is None and node.tag not in {"CONST", "PARAM"}:
            for number, key in enumerate(self.keys):
                if depth == 0 and same(node, key.node):
                    return _column(KEYS, number, depth)
        return None

    def _aggregate(self, node: Node) -> int:
        """Return the number of an aggregate's column."""
        for number, known in enumerate(self._nodes):
            if same(node, known):
                return number
        value = self.inner.compile(node) if self.count is None else literal(self.count, _INT8)
        self._nodes.append(node)
        self._aggregates.append(self.add(value, f"{self.alias}_a{len(self._nodes)}"))
        return len(self._nodes) - 1

    def finish(self) -> None:
        """Complete the SELECT once all that is asked of the groups is known.

        An empty input has a grand total in PostgreSQL, one for each empty grouping set, and has
        none in Spark.
        """
        if not self.select.expressions:
            self.add(Value(call("count", exp.Literal.number(1)), _INT8), f"{self.alias}_rows")
        if not self.totals:
            return
        total = self.select.copy()
        for item in total.expressions:
            item.set("this", _of_total(item.this))
        total.set("group", None)
        total.set(
            "having",
            exp.Having(
                this=exp.EQ(
                    this=call("count", exp.Literal.number(1)), expression=exp.Literal.number(0)
                )
            ),
        )
        source = total.args["from_"].this
        source.set("this", source.this.limit(1, copy=False))
        rows: exp.Expression = self.select
        for _ in range(self.totals):
            rows = exp.Union(this=rows, expression=total.copy(), distinct=False)
        self.item.set("this", rows)

    @override
    def local_grouping(self, node: Node) -> Value:
        """Return GROUPING(…): one bit per argument, set where it is not grouped by."""
        if not self.has_several_sets:
            return literal(0, _INT4)
        bits: list[exp.Expression] = []
        references = node.integers("refs")
        for place, reference in enumerate(reversed(references)):
            key = next(key for key in self.keys if key.reference == reference)
            bit: exp.Expression = exp.Cast(
                this=call("grouping", key.sql.copy()), to=exp.DataType.build("INT")
            )
            if place:
                bit = exp.Mul(this=bit, expression=exp.Literal.number(1 << place))
            bits.append(bit)
        total = bits[0]
        for bit in bits[1:]:
            total = exp.Add(this=total, expression=bit)
        self._count += 1
        return self.add(Value(total, _INT4), f"{self.alias}_g{self._count}")


def _column(varno: int, attno: int, depth: int) -> Node:
    return Node("VAR", {"varno": varno, "varattno": attno, "varlevelsup": depth})


def lifted(node: Node, levels: int) -> Node:
    """Return an expression found ``levels`` queries down as that many levels up it reads."""
    if not levels:
        return node

    def lift(inner: Node, depth: int) -> Item | None:
        name = LEVELS.get(inner.tag)
        if name is None or inner.integer(name) < depth:
            return None
        changed = inner.replace(**{name: inner.integer(name) - levels})
        if inner.tag == "VAR":
            return changed
        children = {
            field: transform(child, lift, depth)
            for field, child in changed.fields.items()
            if isinstance(child, Node | list)
        }
        return changed.replace(**children)

    result = transform(node, lift)
    return result if isinstance(result, Node) else node


def is_grouped(query: Node) -> bool:
    """Whether a query yields groups instead of rows."""
    return bool(
        query["hasAggs"]
        or query.items("groupClause")
        or query.items("groupingSets")
        or query["havingQual"] is not None
    )


def group(
    scope: QueryScope, rows: exp.Select, bound: int | None
) -> tuple[GroupedScope, exp.Select, int | None]:
    """Return the scope of the groups, a SELECT over them, and the proven bound of their number."""
    query = scope.query
    sets = expanded(query)
    expressions = [
        (item.integer("tleSortGroupRef"), _row_expression(scope, item.integer("tleSortGroupRef")))
        for item in query.nodes("groupClause")
    ]
    layer = None
    grouped = rows
    if expressions and (
        query.items("groupingSets") or any(_complex(node) for _, node in expressions)
    ):
        # Spark takes a constant for a position and matches expressions by form: make them columns.
        layer = LayerScope(scope, rows, scope.compilation.name("p"))
        layer.rows = grouped = select([], aliased(rows, layer.alias))
    alias = scope.compilation.name("g")
    groups = GroupedScope(layer or scope, grouped, alias)
    groups.has_several_sets = len(sets) > 1
    for number, (reference, node) in enumerate(expressions, 1):
        groups.keys.append(_key(groups, layer, reference, node, number))
    if groups.has_several_sets:
        bound = _set_groups(groups, sets, bound)
    elif groups.keys:
        keys = [key.sql.copy() for key in groups.keys]
        grouped.set("group", exp.Group(expressions=keys))
    else:
        bound = 1
        groups.count = known_count(scope)
        scope.compilation.lone.add(alias)
        if groups.count is not None:
            grouped.set("from_", None)
    return groups, select([], groups.item), bound


def _key(
    groups: GroupedScope, layer: LayerScope | None, reference: int, node: Node, number: int
) -> _Key:
    row_scope = groups.inner if layer is None else layer.inner
    value = row_scope.compile(node)
    sql = distinct_key(value)
    same_value = sql == value.sql
    if layer is not None:
        sql = layer.add(Value(sql, value.type_oid), f"{layer.alias}_k{number}").sql
        value = value.with_parts([sql, *value.parts[1:]]) if same_value else value
        value = _carried(layer, value, same_value)
    parts = list(value.parts)
    if not same_value:
        # Equal values may look different: any of them stands for the group, always the same one.
        parts[0] = call("min", parts[0])
        if groups.has_several_sets:
            grouped_by = exp.EQ(this=call("grouping", sql.copy()), expression=exp.Literal.number(0))
            parts[0] = exp.Case(ifs=[exp.If(this=grouped_by, true=parts[0])])
    parts[1:] = [call("max", part) for part in parts[1:]]
    column_value = groups.add(value.with_parts(parts), f"{groups.alias}_k{number}")
    return _Key(reference, node, sql, column_value)


def _carried(layer: LayerScope, value: Value, same_value: bool) -> Value:
    """Carry the parts of a grouped value that are no keys through the layer of the rows."""
    if same_value and len(value.parts) == 1:
        return value
    carried = layer.carry(value)
    return carried.with_parts([value.parts[0], *carried.parts[1:]]) if same_value else carried


def expanded(query: Node) -> list[list[int]]:
    """Return the grouping sets of a query as lists of the clauses each one groups by."""
    combined = [
        list(dict.fromkeys(reference for part in parts for reference in part))
        for parts in product(*(_expand(item) for item in query.nodes("groupingSets")))
    ]
    if not query.get("groupDistinct"):
        return combined
    return list({frozenset(found): found for found in combined}.values())


def _expand(node: Node) -> list[list[int]]:
    kind = node["kind"]
    if kind == _EMPTY:
        return [[]]
    if kind == _SIMPLE:
        return [node.integers("content")]
    children = [_expand(child) for child in node.nodes("content")]
    if kind == _SETS:
        return [found for child in children for found in child]
    elements = [child[0] for child in children]
    if kind == _ROLLUP:
        return [_merged(elements[:length]) for length in range(len(elements), -1, -1)]
    if kind == _CUBE:
        masks = range(2 ** len(elements) - 1, -1, -1)
        return [
            _merged([e for place, e in enumerate(reversed(elements)) if mask >> place & 1][::-1])
            for mask in masks
        ]
    raise UnsupportedError("this kind of grouping set is not supported")


def _merged(elements: list[list[int]]) -> list[int]:
    return [reference for element in elements for reference in element]


def _set_groups(groups: GroupedScope, sets: list[list[int]], bound: int | None) -> int | None:
    if not groups.keys:
        raise UnsupportedError("several empty grouping sets without others are not supported")
    keys = {key.reference: key.sql for key in groups.keys}
    tuples = [
        exp.Tuple(expressions=[keys[reference].copy() for reference in found]) for found in sets
    ]
    groups.select.set("group", exp.Group(expressions=[exp.GroupingSets(expressions=tuples)]))
    groups.totals = sum(not found for found in sets)
    if bound is None:
        return None
    return sum(bound if found else 1 for found in sets)


def _complex(node: Node) -> bool:
    return any(found.tag in {"SUBLINK", "CONST", "PARAM"} for found, _ in walk(node))


def _of_total(expression: exp.Expression) -> exp.Expression:
    """Return what a select item of the groups is for the group of everything."""
    if not expression.find(exp.Anonymous, exp.AggFunc):
        return exp.Null()  # a key

    def ungrouped(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Anonymous) and node.name.lower() == "grouping":
            return exp.Literal.number(1)
        return node

    return expression.transform(ungrouped)


def _row_expression(scope: QueryScope, reference: int) -> Node:
    """Return the expression over rows a group clause refers to."""
    node = scope.target(reference).node("expr")
    if node.tag == "VAR" and node["varlevelsup"] == 0:
        varno = node.integer("varno")
        entries = scope.query.nodes("rtable")
        if 0 < varno <= len(entries):
            entry = entries[varno - 1]
            if entry["rtekind"] == RTE_GROUP:
                return entry.nodes("groupexprs")[node.integer("varattno") - 1]
    return node
