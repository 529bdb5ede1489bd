"""Boolean operators, tests, CASE and its relatives, comparisons of rows."""

from dataclasses import replace
from typing import Final

from sqlglot import exp

from catalog.pg.nodes import BoolTestType, MinMaxOp, NullTestType
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.comparisons import compare
from rewrite.dialect.compiler import Compiler, NodeHandler
from rewrite.dialect.conditionals import choose, coalesce, extreme
from rewrite.dialect.literals import typed_null
from rewrite.errors import UnsupportedError
from rewrite.tree import Node
from rewrite.values import Value


def _boolean(compiler: Compiler, node: Node) -> Value:
    operands = [value.sql for value in compiler.compile_all(node.nodes("args"))]
    operator = node.text("boolop")
    if operator == "not":
        return Value(b.negation(operands[0]), oids.BOOL)
    return Value(b.both(*operands) if operator == "and" else b.either(*operands), oids.BOOL)


def _null_test(compiler: Compiler, node: Node) -> Value:
    if node["argisrow"]:
        raise UnsupportedError("IS NULL of rows is not supported")
    tested = b.is_null(compiler.compile(node.node("arg")).sql)
    return Value(
        tested if node["nulltesttype"] == NullTestType.NULL else b.negation(tested), oids.BOOL
    )


def _boolean_test(compiler: Compiler, node: Node) -> Value:
    value = compiler.compile(node.node("arg")).sql
    kind = BoolTestType(node.integer("booltesttype"))
    if kind in {BoolTestType.UNKNOWN, BoolTestType.NOT_UNKNOWN}:
        tested = b.is_null(value)
    else:
        is_true = kind in {BoolTestType.TRUE, BoolTestType.NOT_TRUE}
        tested = b.infix(exp.NullSafeEQ, value, b.TRUE if is_true else b.FALSE)
    return Value(b.negation(tested) if kind in _NEGATED else tested, oids.BOOL)


_NEGATED: Final = frozenset(
    {BoolTestType.NOT_TRUE, BoolTestType.NOT_FALSE, BoolTestType.NOT_UNKNOWN}
)


def _case(compiler: Compiler, node: Node) -> Value:
    argument = node.optional("arg")
    tested = compiler
    if argument is not None:
        tested = replace(compiler, case_value=compiler.compile(argument))
    branches = [
        (tested.compile(arm.node("expr")).sql, compiler.compile(arm.node("result")))
        for arm in node.nodes("args")
    ]
    default = node.optional("defresult")
    otherwise = compiler.compile(default) if default else typed_null(node.integer("casetype"))
    return choose(branches, otherwise)


def _coalesce(compiler: Compiler, node: Node) -> Value:
    return coalesce(compiler.compile_all(node.nodes("args")))


def _extreme(compiler: Compiler, node: Node) -> Value:
    return extreme(
        compiler.compile_all(node.nodes("args")), greatest=node["op"] == MinMaxOp.GREATEST
    )


def _row_comparison(compiler: Compiler, node: Node) -> Value:
    """Map ``(a, b) < (c, d)``: the first pair that is unequal decides, or is NULL."""
    lefts, rights = (_list_items(node, name) for name in ("largs", "rargs"))
    pairs = list(zip(compiler.compile_all(lefts), compiler.compile_all(rights), strict=True))
    operators = {1: exp.LT, 2: exp.LTE, 4: exp.GTE, 5: exp.GT}
    operator = operators.get(node.integer("cmptype" if "cmptype" in node.fields else "rctype"))
    if operator is None:
        raise UnsupportedError("this comparison of rows is not supported")
    strict_operator = exp.LT if operator in (exp.LT, exp.LTE) else exp.GT
    constants = compiler.scope.constants
    branches: list[tuple[b.Tree, b.Tree]] = []
    for left, right in pairs[:-1]:
        branches.append((b.either(b.is_null(left.sql), b.is_null(right.sql)), b.null_of("BOOLEAN")))
        unequal = compare(exp.NEQ, left, right, constants)
        branches.append((unequal, compare(strict_operator, left, right, constants)))
    last = compare(operator, *pairs[-1], constants)
    return Value(b.case(*branches, otherwise=last), oids.BOOL)


def _list_items(node: Node, name: str) -> list[Node]:
    value = node[name]
    if isinstance(value, list):
        return [item for item in value if isinstance(item, Node)]
    raise UnsupportedError("this comparison of rows is not supported")


NODES: Final[dict[str, NodeHandler]] = {
    "BOOLEXPR": _boolean,
    "NULLTEST": _null_test,
    "BOOLEANTEST": _boolean_test,
    "CASEEXPR": _case,
    "COALESCEEXPR": _coalesce,
    "MINMAXEXPR": _extreme,
    "ROWCOMPAREEXPR": _row_comparison,
}
