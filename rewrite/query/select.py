"""One query: FROM and WHERE, groups, windows and targets, DISTINCT, ORDER BY, LIMIT, in this order.

Not handled (0A000): FOR UPDATE, set-returning functions in the target list.
"""

from sqlglot import exp

from catalog.pg.nodes import CmdType
from rewrite.errors import UnsupportedError
from rewrite.expressions import grouping_key
from rewrite.query.compilation import Block, Compilation, projected
from rewrite.query.distinct import distinct_rows
from rewrite.query.from_clause import from_clause
from rewrite.query.grouping import GroupedScope, group, is_grouped
from rewrite.query.ordering import is_limited_by_place, limit_rows, order_by
from rewrite.query.predicates import compile_filter, conjuncts, needs_values
from rewrite.query.relations import BlockRelation
from rewrite.query.scopes import FromScope, QueryScope, over_sublinks
from rewrite.query.set_operations import leftmost, set_operation
from rewrite.query.sql import aliased, column, literal, named, row_number, select
from rewrite.query.sublinks import holds_sublink
from rewrite.tree import Node, walk
from rewrite.values import Value

_SELECT = CmdType.SELECT


def compile_block(
    compilation: Compilation, query: Node, parent: QueryScope | None, prefix: str, apart: bool
) -> Block:
    """Compile a query whose columns are called ``prefix`` and their number."""
    _refuse(query)
    scope = FromScope(compilation, query, parent, apart=apart)
    operations = query.optional("setOperations")
    if operations is not None:
        relation = BlockRelation(compilation, set_operation(scope, operations))
        scope.relations[leftmost(operations)] = relation
        scope.rows = rows = select([], relation.item())
        return _targets(scope, rows, relation.bound, prefix)
    grouped = is_grouped(query)
    if grouped and _is_one_group(query):
        scope.rows = rows = select([])
        return _targets(scope, rows, 1, prefix)
    computed = _aggregated(query) if grouped else _needed(query)
    layer, rows, bound = from_clause(scope, computed)
    return _targets(layer, rows, bound, prefix)


def _is_one_group(query: Node) -> bool:
    """Return whether there is one group whatever rows there are; PostgreSQL reads none."""
    return not any(query.get(name) for name in ("hasAggs", "groupClause", "groupingSets"))


def _refuse(query: Node) -> None:
    if query.tag != "QUERY" or query["commandType"] != _SELECT:
        raise UnsupportedError("statement inside a query is not supported")
    if query.items("rowMarks"):
        raise UnsupportedError("FOR UPDATE and FOR SHARE are not supported")
    if query.get("hasTargetSRFs"):
        raise UnsupportedError("set-returning functions in the select list are not supported")


def _aggregated(query: Node) -> list[Node]:
    """Return the expressions that are computed for each row of a group."""
    if not query["hasSubLinks"]:
        return []
    aggregates = [
        node
        for node, depth in walk([query.items("targetList"), query["havingQual"]])
        if node.tag == "AGGREF" and node["agglevelsup"] == depth
    ]
    keys = [node for entry in query.nodes("rtable") for node in entry.nodes("groupexprs")]
    return [*aggregates, *keys]


def _targets(scope: QueryScope, rows: exp.Select, bound: int | None, prefix: str) -> Block:
    query = scope.query
    layer = scope
    groups = None
    if is_grouped(query):
        groups, rows, bound = group(scope, rows, bound)
        layer, rows = _having(groups, rows)
    entries = _needed(query)
    values = [layer.compile(entry.node("expr")) for entry in entries]
    if groups is not None:
        groups.finish()
    rows, columns = _arranged(scope, rows, list(zip(entries, values, strict=True)), prefix)
    rows, bound = limit_rows(query, rows, bound, layer)
    return Block(rows, columns, bound)


def _having(groups: GroupedScope, rows: exp.Select) -> tuple[QueryScope, exp.Select]:
    """Filter the groups, and give the sublinks of what is computed from them a layer."""
    groups.rows = rows
    query = groups.query
    quals = conjuncts(query["havingQual"])
    late = [qual for qual in quals if needs_values(qual)]
    having = compile_filter([qual for qual in quals if qual not in late], groups)
    if having is not None:
        rows.set("where", exp.Where(this=having))
    if not late and not holds_sublink(query.items("targetList")):
        return groups, rows
    layer, over = over_sublinks(groups, rows)
    layer.rows = over
    having = compile_filter(list(late), layer)
    if having is not None:
        over.set("where", exp.Where(this=having))
    return layer, over


def _needed(query: Node) -> list[Node]:
    """Return the target entries the result, its order or its distinctness depend on."""
    clauses = [*query.nodes("sortClause"), *query.nodes("distinctClause")]
    references = {clause.integer("tleSortGroupRef") for clause in clauses}
    return [
        entry
        for entry in query.nodes("targetList")
        if not entry["resjunk"] or entry["ressortgroupref"] in references
    ]


def _arranged(
    scope: QueryScope, rows: exp.Select, targets: list[tuple[Node, Value]], prefix: str
) -> tuple[exp.Select, tuple[Value, ...]]:
    """Give a SELECT its columns, which are returned, too, and apply DISTINCT and ORDER BY."""
    query = scope.query
    compilation = scope.compilation
    distinct = query.nodes("distinctClause")
    layered = (
        bool(query.get("hasDistinctOn"))
        or any(entry["resjunk"] for entry, _ in targets)
        or is_limited_by_place(query)
    )
    inner_prefix = compilation.name("q") + "_" if layered else prefix
    items, columns = projected([value for _, value in targets], inner_prefix)
    rows.set("expressions", items or [named(literal(1), f"{prefix}present")])
    if distinct and not query.get("hasDistinctOn"):
        rows = distinct_rows(rows, columns, compilation.name("d"))
    if layered:
        alias = compilation.name("q")
        if query.get("hasDistinctOn"):
            rows = _first_of_each(query, rows, targets, columns, alias)
        else:
            rows = select([], aliased(rows, alias))
        columns = tuple(
            value.with_parts([column(part.name, alias) for part in value.parts])
            for value in columns
        )
    order = order_by(query, _by_reference(targets, columns))
    if layered:
        kept = [
            value
            for (entry, _), value in zip(targets, columns, strict=True)
            if not entry["resjunk"]
        ]
        items, columns = projected(kept, prefix)
        rows.set("expressions", items or [named(literal(1), f"{prefix}present")])
    if order is not None:
        rows.set("order", order)
    return rows, columns


def _by_reference(
    targets: list[tuple[Node, Value]], columns: tuple[Value, ...]
) -> dict[int, Value]:
    return {
        entry.integer("ressortgroupref"): value
        for (entry, _), value in zip(targets, columns, strict=True)
        if entry["ressortgroupref"]
    }


def _first_of_each(
    query: Node,
    rows: exp.Select,
    targets: list[tuple[Node, Value]],
    columns: tuple[Value, ...],
    alias: str,
) -> exp.Select:
    """Return the first row, in the order of ORDER BY, of each group of DISTINCT ON."""
    inner = f"{alias}_i"
    inside = tuple(
        value.with_parts([column(part.name, inner) for part in value.parts]) for value in columns
    )
    found = _by_reference(targets, inside)
    order = order_by(query, found)
    keys = [
        grouping_key(found[clause.integer("tleSortGroupRef")])
        for clause in query.nodes("distinctClause")
    ]
    names = [part.name for value in columns for part in value.parts]
    place = row_number(keys, order.expressions if order is not None else [])
    numbered = select(
        [*(named(column(name, inner), name) for name in names), named(place, f"{alias}_place")],
        aliased(rows, inner),
    )
    first = exp.EQ(this=column(f"{alias}_place", alias), expression=literal(1))
    return select([], aliased(numbered, alias), first)
