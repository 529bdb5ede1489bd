"""Sublinks: EXISTS, IN, ANY, ALL, scalar and array subqueries, row comparisons.

In a filter only "true" counts, so a sublink becomes a semi or anti join. As a value it must also
tell false from NULL, which Spark's own IN does not do outside of filters.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from catalog.pg.nodes import FrameOption, LimitOption, ParamKind, SubLinkType
from rewrite.dialect import oids
from rewrite.dialect.arrays import element_sql
from rewrite.errors import UnsupportedError
from rewrite.query.compilation import Block
from rewrite.query.constant_values import constant_integer, is_constant
from rewrite.query.lone_rows import merged
from rewrite.query.sql import (
    aliased,
    call,
    closed,
    conjunction,
    exists,
    is_not_false,
    is_not_true,
    is_null,
    literal,
    negation,
    select,
)
from rewrite.tree import Item, Node
from rewrite.values import Value

if TYPE_CHECKING:
    from rewrite.query.scopes import QueryScope

EXISTS, ALL, ANY = SubLinkType.EXISTS, SubLinkType.ALL, SubLinkType.ANY
ROW_COMPARE, EXPRESSION = SubLinkType.ROWCOMPARE, SubLinkType.EXPR
MULTIPLE, ARRAY = SubLinkType.MULTIEXPR, SubLinkType.ARRAY

PARAM_MULTIEXPR = ParamKind.MULTIEXPR

# FRAMEOPTION_DEFAULTS of parsenodes.h; pg_proc: row_number().
_DEFAULT_FRAME = int(
    FrameOption.RANGE | FrameOption.START_UNBOUNDED_PRECEDING | FrameOption.END_CURRENT_ROW
)
_ROW_NUMBER = 3100

_Branch: TypeAlias = tuple[exp.Expression, exp.Expression]
_ARRAYS = {element: array for array, element in oids.ELEMENTS.items()}


def value(node: Node, scope: "QueryScope", compile_node: Callable[[Node], Value]) -> Value:
    """Compile a sublink whose value is wanted, three-valued."""
    del compile_node  # the scope compiles, so that it can bind the sublink's columns
    kind = node["subLinkType"]
    if kind == EXISTS:
        return Value(_exists(node, scope), oids.BOOL)
    if kind == ANY:
        return Value(_any_value(node, scope), oids.BOOL)
    if kind == ALL:
        return Value(_all_value(node, scope), oids.BOOL)
    if kind == EXPRESSION:
        return column_value(node, scope, 1)
    if kind == ARRAY:
        return _array(node, scope)
    if kind == ROW_COMPARE:
        block, alias, condition = _tested(node, scope)
        return Value(_scalar(block, alias, condition), oids.BOOL)
    raise UnsupportedError("this kind of subquery is not supported")


def holds_sublink(item: Item) -> bool:
    """Whether an expression holds a sublink or a column of a multiple SET of its own query."""
    if isinstance(item, list):
        return any(holds_sublink(element) for element in item)
    if not isinstance(item, Node) or item.tag == "QUERY":
        return False
    if item.tag == "SUBLINK" or (item.tag == "PARAM" and item["paramkind"] == PARAM_MULTIEXPR):
        return True
    return any(holds_sublink(value) for value in item.fields.values())


def is_filter_sublink(node: Node) -> bool:
    """Whether :func:`condition` has a shorter form for this node than :func:`value`."""
    return node.tag == "SUBLINK" and node["subLinkType"] in {EXISTS, ANY, ALL}


def condition(node: Node, scope: "QueryScope", *, negated: bool) -> exp.Expression:
    """Compile a sublink in a filter: true exactly where it (or, negated, its negation) is true."""
    kind = node["subLinkType"]
    if kind == EXISTS:
        found = _exists(node, scope)
        return negation(found) if negated else found
    block, alias, test = _tested(node, scope)
    if kind == ANY and not negated:
        return _found(block, alias, test)
    if kind == ALL and negated:
        return _found(block, alias, negation(test))
    if kind == ANY:
        # NOT (x = ANY q): Spark has a null-aware anti join for it.
        return _not_in(block, alias, test) or negation(_found(block, alias, is_not_false(test)))
    if isinstance(test, exp.NEQ):
        equal = exp.EQ(this=test.this, expression=test.expression)
        anti = _not_in(block, alias, equal)
        if anti is not None:
            return anti
    return negation(_found(block, alias, is_not_true(test)))


def _exists(node: Node, scope: "QueryScope") -> exp.Expression:
    block = scope.compilation.block(_bare(node.node("subselect"), scope), scope, apart=True)
    return exists(block.query)


def _bare(query: Node, scope: "QueryScope") -> Node:
    """Return a query without what cannot change whether it has rows."""
    changes: dict[str, Item] = {"sortClause": None, "limitOption": int(LimitOption.COUNT)}
    plain = not (query["hasAggs"] or query.items("groupClause") or query.items("groupingSets"))
    if query.items("distinctClause") or query.get("setOperations") is not None:
        return query
    if plain and query["havingQual"] is None and not query.get("hasTargetSRFs"):
        changes |= {"targetList": None, "windowClause": None}
    count = query.optional("limitCount")
    if count is not None and query.get("limitOffset") is None:
        context = scope.compilation.context
        known = constant_integer(count, context) if is_constant(count) else None
        if known is not None and known > 0:
            changes["limitCount"] = None
    return query.replace(**changes)


def _tested(node: Node, scope: "QueryScope") -> tuple[Block, str, exp.Expression]:
    """Return the subquery, the alias to give it, and the test over its columns."""
    block = scope.compilation.block(node.node("subselect"), scope, apart=True)
    alias = scope.compilation.name("s")
    test = scope.compile_test(node.node("testexpr"), block.relation(alias))
    return block, alias, test.sql


def _found(block: Block, alias: str, test: exp.Expression | None) -> exp.Expression:
    return exists(select([literal(1)], aliased(block.query.copy(), alias), test and test.copy()))


def _not_in(block: Block, alias: str, test: exp.Expression) -> exp.Expression | None:
    """Return ``x NOT IN (SELECT …)``; None when the test is more than equalities with it."""
    sides = []
    for equality in _conjuncts(test):
        pair = _sides(equality, alias)
        if pair is None:
            return None
        sides.append(pair)
    outer = [pair[0].copy() for pair in sides]
    inner = [pair[1].copy() for pair in sides]
    this = outer[0] if len(outer) == 1 else exp.Tuple(expressions=outer)
    query = exp.Subquery(this=select(inner, aliased(block.query, alias)))
    return negation(exp.In(this=closed(this) if len(outer) == 1 else this, query=query))


def _conjuncts(test: exp.Expression) -> list[exp.Expression]:
    if isinstance(test, exp.Paren):
        return _conjuncts(test.this)
    if isinstance(test, exp.And):
        return [*_conjuncts(test.this), *_conjuncts(test.expression)]
    return [test]


def _sides(equality: exp.Expression, alias: str) -> tuple[exp.Expression, exp.Expression] | None:
    """Return the operands of an equality as (outer, subquery); None when they are not separated."""
    if type(equality) is not exp.EQ:
        return None
    for outer, inner in (
        (equality.this, equality.expression),
        (equality.expression, equality.this),
    ):
        if not _mentions(outer, alias) and _only(inner, alias):
            return outer, inner
    return None


def _mentions(expression: exp.Expression, alias: str) -> bool:
    return any(found.table == alias for found in expression.find_all(exp.Column))


def _only(expression: exp.Expression, alias: str) -> bool:
    columns = list(expression.find_all(exp.Column))
    return bool(columns) and all(found.table == alias for found in columns)


def _any_value(node: Node, scope: "QueryScope") -> exp.Expression:
    block, alias, test = _tested(node, scope)
    branches: list[_Branch] = [(_found(block, alias, test), exp.true())]
    branches += [(unknown, exp.Null()) for unknown in _unknown(block, alias, test)]
    return _case(branches, exp.false())


def _all_value(node: Node, scope: "QueryScope") -> exp.Expression:
    block, alias, test = _tested(node, scope)
    branches: list[_Branch] = [(_found(block, alias, negation(test)), exp.false())]
    branches += [(unknown, exp.Null()) for unknown in _unknown(block, alias, test)]
    return _case(branches, exp.true())


def _unknown(block: Block, alias: str, test: exp.Expression) -> list[exp.Expression]:
    """Return conditions one of which holds when the test is NULL for some row."""
    pair = _sides(test, alias)
    if pair is None:
        return [_found(block, alias, is_null(test))]
    # An equality is NULL where either side is; apart, neither needs a join of every pair.
    outer, inner = pair
    some_outer = conjunction([is_null(outer.copy()), _found(block, alias, None)])
    return [some_outer or exp.false(), _found(block, alias, is_null(inner))]


def _case(branches: Sequence[_Branch], default: exp.Expression) -> exp.Expression:
    return exp.Case(
        ifs=[exp.If(this=test, true=result) for test, result in branches], default=default
    )


def column_value(node: Node, scope: "QueryScope", number: int) -> Value:
    """Return one column of a sublink that yields at most one row."""
    block = scope.compilation.block(node.node("subselect"), scope, apart=True)
    alias = scope.compilation.name("s")
    found = block.relation(alias)[number - 1]
    if len(found.parts) > 1:
        return found.with_parts([_scalar(block, alias, part) for part in found.parts])
    compilation = scope.compilation
    query = select([found.sql.copy()], aliased(block.query.copy(), alias))
    return found.with_parts([exp.Subquery(this=merged(query, compilation.lone, compilation.name))])


def _scalar(block: Block, alias: str, expression: exp.Expression) -> exp.Expression:
    return exp.Subquery(this=select([expression.copy()], aliased(block.query.copy(), alias)))


def _array(node: Node, scope: "QueryScope") -> Value:
    """Return the rows of a one-column subquery as an array, in their order, NULLs included."""
    query = node.node("subselect")
    ordered = bool(query.items("sortClause"))
    block = scope.compilation.block(_numbered(query) if ordered else query, scope, apart=True)
    alias = scope.compilation.name("s")
    columns = block.relation(alias)
    element = columns[0]
    if element.type_oid not in _ARRAYS:
        raise UnsupportedError("an array of this type from a subquery is not supported")
    fields = [exp.Literal.string("v"), element_sql(element)]
    if ordered:
        fields = [exp.Literal.string("p"), columns[-1].sql, *fields]
    gathered = call("collect_list", call("named_struct", *fields))
    if ordered:
        # Spark gathers in no particular order, so the order travels with the elements.
        gathered = call("array_sort", gathered)
    item = exp.Identifier(this="e")
    unboxed = exp.Lambda(this=exp.Dot(this=item, expression=exp.Identifier(this="v")))
    unboxed.set("expressions", [item.copy()])
    array = call("transform", gathered, unboxed)
    return Value(
        exp.Subquery(this=select([array], aliased(block.query, alias))), _ARRAYS[element.type_oid]
    )


def _numbered(query: Node) -> Node:
    """Return a query with one more column: the place of each row in the query's order."""
    if query.items("distinctClause") or query.get("setOperations") is not None:
        raise UnsupportedError("ARRAY(SELECT … ORDER BY …) of distinct rows is not supported")
    windows = query.nodes("windowClause")
    number = 1 + max((window.integer("winref") for window in windows), default=0)
    window = Node(
        "WINDOWCLAUSE",
        {
            "partitionClause": None,
            "orderClause": query.items("sortClause"),
            "frameOptions": _DEFAULT_FRAME,
            "winref": number,
        },
    )
    function = Node(
        "WINDOWFUNC",
        {
            "winfnoid": _ROW_NUMBER,
            "wintype": oids.INT8,
            "wincollid": 0,
            "inputcollid": 0,
            "args": None,
            "aggfilter": None,
            "runCondition": None,
            "winref": number,
            "winstar": False,
            "winagg": False,
        },
    )
    entry = Node("TARGETENTRY", {"expr": function, "ressortgroupref": 0, "resjunk": False})
    return query.replace(
        targetList=[*query.items("targetList"), entry],
        windowClause=[*windows, window],
        hasWindowFuncs=True,
    )
