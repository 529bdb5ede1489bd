"""UNION, INTERSECT and EXCEPT, with and without ALL.

Not handled (0A000): INTERSECT ALL and EXCEPT ALL over values whose equals may look different.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from catalog.pg.nodes import SetOperation
from rewrite.errors import UnsupportedError
from rewrite.expressions import align
from rewrite.query.casts import coerced
from rewrite.query.compilation import Block, projected
from rewrite.query.distinct import compares_as_it_looks, distinct_rows, representatives
from rewrite.query.scopes import FromScope
from rewrite.query.sql import aliased, call, column, conjunction, literal, named, select
from rewrite.tree import Node
from rewrite.values import Value

UNION, INTERSECT, EXCEPT = SetOperation.UNION, SetOperation.INTERSECT, SetOperation.EXCEPT

_OPERATIONS: dict[int, type[exp.SetOperation]] = {INTERSECT: exp.Intersect, EXCEPT: exp.Except}


@dataclass(slots=True)
class _Branch:
    block: Block
    alias: str
    values: list[Value]


def leftmost(node: Node) -> int:
    """Return the range table index of the first branch, whose columns name the result."""
    while node.tag == "SETOPERATIONSTMT":
        node = node.node("larg")
    return node.integer("rtindex")


def set_operation(scope: FromScope, node: Node) -> Block:
    """Compile a tree of set operations."""
    if node.tag == "RANGETBLREF":
        entry = scope.range_table[node.integer("rtindex") - 1]
        return scope.compilation.block(entry.node("subquery"), scope)
    keeps_all = bool(node["all"])
    branches = [_branch(scope, operand, node.integers("colTypes")) for operand in _operands(node)]
    columns = [
        align(values) for values in zip(*(branch.values for branch in branches), strict=True)
    ]
    for number, branch in enumerate(branches):
        branch.values = [column_values[number] for column_values in columns]
    if node["op"] == UNION:
        return _union(scope, branches, keeps_all=keeps_all)
    return _compared(scope, branches, node.integer("op"), keeps_all=keeps_all)


def _operands(node: Node) -> list[Node]:
    """Return what is combined; a chain of UNION ALL over the same types is one operation."""
    operands = []
    for side in (node.node("larg"), node.node("rarg")):
        if (
            side.tag == "SETOPERATIONSTMT"
            and node["op"] == side["op"] == UNION
            and node["all"]
            and side["all"]
            and node.integers("colTypes") == side.integers("colTypes")
        ):
            operands += _operands(side)
        else:
            operands.append(side)
    return operands


def _branch(scope: FromScope, node: Node, types: Sequence[int]) -> _Branch:
    block = set_operation(scope, node)
    alias = scope.compilation.name("u")
    values = [
        coerced(scope.compilation, value, type_oid)
        for value, type_oid in zip(block.relation(alias), types, strict=True)
    ]
    return _Branch(block, alias, values)


def _selected(branch: _Branch, prefix: str) -> tuple[exp.Select, tuple[Value, ...]]:
    items, columns = projected(branch.values, prefix)
    items = items or [named(literal(1), "present")]
    return select(items, aliased(branch.block.query, branch.alias)), columns


def _total(branches: Sequence[_Branch]) -> int | None:
    total = 0
    for branch in branches:
        if branch.block.bound is None:
            return None
        total += branch.block.bound
    return total


def _union(scope: FromScope, branches: list[_Branch], *, keeps_all: bool) -> Block:
    prefix = scope.compilation.name("u") + "_"
    selects = [_selected(branch, prefix) for branch in branches]
    columns = selects[0][1]
    bound = _total(branches)
    if keeps_all:
        return Block(_union_all([query for query, _ in selects]), columns, bound)
    alias = scope.compilation.name("d")
    side = None
    if not all(compares_as_it_looks(value) for value in columns):
        side = f"{prefix}side"
        _number_sides(selects, side)
    names = [part.name for value in columns for part in value.parts]
    union = aliased(_union_all([query for query, _ in selects]), alias)
    rows = select([named(column(name, alias), name) for name in names], union)
    return Block(distinct_rows(rows, columns, f"{alias}_r", side), columns, bound)


def _union_all(queries: list[exp.Select]) -> exp.Expression:
    result: exp.Expression = queries[0]
    for query in queries[1:]:
        result = exp.Union(this=result, expression=query, distinct=False)
    return result


def _number_sides(selects: list[tuple[exp.Select, tuple[Value, ...]]], name: str) -> None:
    """Add a column with the number of the branch, whose values are shown first."""
    for number, (query, _) in enumerate(selects):
        query.append("expressions", named(literal(number), name))


def _compared(
    scope: FromScope, branches: list[_Branch], operation: int, *, keeps_all: bool
) -> Block:
    prefix = scope.compilation.name("u") + "_"
    selects = [_selected(branch, prefix) for branch in branches]
    (left, columns), (right, _) = selects
    bound = branches[0].block.bound
    if all(compares_as_it_looks(value) for value in columns):
        kind = _OPERATIONS[operation]
        query: exp.Expression = kind(this=left, expression=right, distinct=not keeps_all)
        return Block(query, columns, bound)
    if keeps_all:
        raise UnsupportedError(
            "INTERSECT ALL and EXCEPT ALL over numeric, floating-point or character columns"
            " are not supported"
        )
    side = f"{prefix}side"
    _number_sides(selects, side)
    alias = scope.compilation.name("d")
    keys, items = representatives(columns, alias, side)
    query = select(items, aliased(_union_all([left, right]), alias))
    query.set("group", exp.Group(expressions=keys))
    in_left = exp.EQ(this=call("min", column(side, alias)), expression=literal(0))
    in_right = exp.EQ(
        this=call("max", column(side, alias)), expression=literal(int(operation == INTERSECT))
    )
    query.set("having", exp.Having(this=conjunction([in_left, in_right])))
    return Block(query, columns, bound)
