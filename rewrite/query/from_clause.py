"""FROM: the join tree, and how many rows it can yield at most.

Not handled (0A000): FULL JOIN whose condition reads columns of a query around it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from catalog.pg.nodes import CmdType, JoinType
from rewrite.errors import UnsupportedError
from rewrite.query import range_table
from rewrite.query.outer_references import reads_outside
from rewrite.query.predicates import compile_filter, conjuncts, is_join, needs_values
from rewrite.query.row_bounds import Factor, product
from rewrite.query.scopes import FromScope, QueryScope, over_sublinks
from rewrite.query.sql import select
from rewrite.query.sublinks import holds_sublink
from rewrite.query.subquery_rows import multiple_sublinks
from rewrite.tree import Node, walk

INNER, LEFT = JoinType.INNER, JoinType.LEFT
FULL, RIGHT = JoinType.FULL, JoinType.RIGHT

_SIDES: dict[int, str] = {LEFT: "LEFT", FULL: "FULL", RIGHT: "RIGHT"}


@dataclass(slots=True)
class _Joined:
    """A compiled item of the join tree: ``first`` and what is joined to it, left to right."""

    first: exp.Expression
    joins: list[exp.Join] = field(default_factory=list)
    factors: list[Factor] = field(default_factory=list)
    """Relations whose rows are combined, for the bound."""
    varnos: set[int] = field(default_factory=set)
    """Relations in it."""
    reads: set[int] = field(default_factory=set)
    """Relations that what is LATERAL in it reads."""

    @property
    def reads_neighbours(self) -> bool:
        """Return whether something in it reads relations that stand before it."""
        return not self.reads <= self.varnos

    def joined(self, other: "_Joined", join: exp.Join, factors: list[Factor]) -> "_Joined":
        """Return the item with another one joined to it."""
        varnos, reads = self.varnos | other.varnos, self.reads | other.reads
        return _Joined(self.first, [*self.joins, join], factors, varnos, reads)

    def as_operand(self) -> exp.Expression:
        """Return the item as the right side of a join.

        Raises:
            UnsupportedError: It consists of several, of which one reads what stands before it.
        """
        if not self.joins:
            return self.first
        if self.reads_neighbours:
            raise UnsupportedError(
                "LATERAL that reads relations outside of the join it is in is not supported"
            )
        self.first.set("joins", self.joins)
        return exp.Subquery(this=self.first)


@dataclass(slots=True)
class _Builder:
    scope: FromScope
    filters: list[Node] = field(default_factory=list)
    """Conditions of inner joins that only a WHERE clause can hold."""
    where: list[Node] = field(default_factory=list)
    """Those of WHERE that are not yet those of a join."""
    known: list[Node] = field(default_factory=list)
    """Conditions every result row satisfies."""

    def item(self, node: Node, *, inner: bool) -> _Joined:
        """Compile one node; ``inner`` while no outer join lies above it."""
        if node.tag == "RANGETBLREF":
            varno = node.integer("rtindex")
            relation = range_table.relation(self.scope, varno)
            self.scope.relations[varno] = relation
            return _Joined(
                relation.item(),
                factors=[Factor(varno, relation.bound, relation.key)],
                varnos={varno},
                reads=_lateral_reads(self.scope.range_table[varno - 1]),
            )
        if node.tag == "JOINEXPR":
            return self._join(node, inner=inner)
        raise UnsupportedError(f"{node.tag} in FROM is not supported")

    def _join(self, node: Node, *, inner: bool) -> _Joined:
        kind = node.integer("jointype")
        if kind not in {INNER, *_SIDES}:
            raise UnsupportedError("this kind of join is not supported")
        keeps = inner and kind == INNER
        left = self.item(node.node("larg"), inner=inner and kind in {INNER, LEFT})
        right = self.item(node.node("rarg"), inner=inner and kind in {INNER, RIGHT})
        quals = conjuncts(node["quals"])
        if kind == FULL and reads_outside(list(quals)):
            # Spark lifts what reads them above the join, where it drops the rows without a match.
            raise UnsupportedError("FULL JOIN whose condition reads outer columns is not supported")
        if keeps:
            self.known += quals
            # Spark looks for columns from further out in filters, not in these joins.
            held = [qual for qual in quals if holds_sublink(qual) or reads_outside(qual)]
            self.filters += held
            quals = [qual for qual in quals if qual not in held]
        condition = compile_filter(list(quals), self.scope)
        if kind == INNER and condition is None:
            join = exp.Join(this=right.as_operand(), kind="CROSS")
        else:
            join = exp.Join(this=right.as_operand(), on=condition or exp.true())
            if kind != INNER:
                join.set("side", _SIDES[kind])
        factors = [*left.factors, *right.factors]
        if kind != INNER:
            factors = self._outer(kind, left, right, quals)
        joined = left.joined(right, join, factors)
        # Merged columns of USING are its own.
        joined.varnos.add(node.integer("rtindex"))
        return joined

    def _outer(self, kind: int, left: _Joined, right: _Joined, quals: list[Node]) -> list[Factor]:
        """Return the factors of an outer join; relations that may be all NULL become one factor."""
        context = self.scope.compilation.context
        if kind in {LEFT, RIGHT}:
            kept, padded = (left, right) if kind == LEFT else (right, left)
            given = frozenset(factor.varno for factor in kept.factors)
            matches = product(padded.factors, quals, context, given)
            return [*kept.factors, Factor(0, None if matches is None else max(matches, 1), ())]
        one, other = product(left.factors, [], context), product(right.factors, [], context)
        bound = None if one is None or other is None else one * other + one + other
        return [Factor(0, bound, ())]

    def from_list(self, node: Node) -> _Joined | None:
        """Compile the comma-separated items of FROM, and what of WHERE joins them."""
        result: _Joined | None = None
        self.where = conjuncts(node["quals"])
        for child in node.nodes("fromlist"):
            joined = self.item(child, inner=True)
            if result is None:
                result = joined
                continue
            factors = [*result.factors, *joined.factors]
            further: list[exp.Join] = []
            if joined.reads_neighbours and all(join.side in {"", "LEFT"} for join in joined.joins):
                # One after the other, where all of them see what stands before.
                further, joined.joins = joined.joins, []
            join = exp.Join(this=joined.as_operand(), kind="CROSS")
            if not joined.reads_neighbours:
                self._join_by_filters(join, result.varnos, joined.varnos)
            result = result.joined(joined, join, factors)
            result.joins += further
        return result

    def _join_by_filters(self, join: exp.Join, left: set[int], right: set[int]) -> None:
        """Make conditions of a cross join that can fail those of the join."""
        joining = [qual for qual in self.where if is_join(qual, left, right)]
        condition = compile_filter(list(joining), self.scope)
        if condition is not None:
            self.where = [qual for qual in self.where if qual not in joining]
            join.set("kind", None)
            join.set("on", condition)


def _lateral_reads(entry: Node) -> set[int]:
    """Return the relations beside it that an entry of the range table reads."""
    if not entry.get("lateral"):
        return set()
    return {
        node.integer("varno")
        for node, depth in walk(entry)
        if node.tag == "VAR" and node.integer("varlevelsup") == depth
    }


def from_clause(
    scope: FromScope, computed: list[Node]
) -> tuple[QueryScope, exp.Select, int | None]:
    """Compile FROM and WHERE.

    Returns the scope of the rows for what is computed from them, a SELECT without columns over
    them, and their proven bound.
    """
    builder = _Builder(scope)
    jointree = scope.query.node("jointree")
    joined = builder.from_list(jointree)
    rows = select([], joined.first if joined else None)
    if joined is not None and joined.joins:
        rows.set("joins", joined.joins)
    scope.rows = rows
    quals = [*builder.filters, *builder.where]
    late = [qual for qual in quals if needs_values(qual)] if scope.query["hasSubLinks"] else []
    _filter(scope, rows, [qual for qual in quals if qual not in late])
    layer: QueryScope = scope
    if scope.query["hasSubLinks"] and (late or holds_sublink(list(computed))):
        layer, rows = over_sublinks(scope, rows, multiple=_multiple(scope.query, computed))
        layer.rows = rows
        _filter(layer, rows, late)
    if joined is None:
        return layer, rows, 1
    known = [*builder.known, *conjuncts(jointree["quals"])]
    return layer, rows, product(joined.factors, known, scope.compilation.context)


def _multiple(query: Node, computed: list[Node]) -> Mapping[int, Node] | None:
    """Return the subqueries of which SET takes several columns; None of what is no UPDATE."""
    return multiple_sublinks(computed) if query["commandType"] == CmdType.UPDATE else None


def _filter(scope: QueryScope, rows: exp.Select, quals: list[Node]) -> None:
    where = compile_filter(list(quals), scope)
    scope.compilation.filters |= where is not None
    if where is not None:
        rows.set("where", exp.Where(this=where))
