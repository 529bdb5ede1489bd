"""Set-returning functions in FROM: generate_series over integers.

Everything else is refused (0A000).
"""

from sqlglot import exp

from rewrite.errors import UnsupportedError
from rewrite.query.compilation import Block
from rewrite.query.relations import BlockRelation, Relation
from rewrite.query.scopes import FromScope
from rewrite.query.sql import call, closed, column, conjunction, disjunction, literal, named, select
from rewrite.tree import Node
from rewrite.values import Value

# pg_proc: generate_series(int4, int4[, step]) and (int8, int8[, step]).
_SERIES = {1066: 23, 1067: 23, 1068: 20, 1069: 20}
_SPARK = {23: "INT", 20: "BIGINT"}


def function_relation(scope: FromScope, entry: Node) -> Relation:
    """Return the FROM item of a function."""
    functions = entry.nodes("functions")
    if len(functions) != 1 or entry.get("funcordinality"):
        raise UnsupportedError("ROWS FROM and WITH ORDINALITY are not supported")
    function = functions[0].node("funcexpr")
    kind = _SERIES.get(function.integer("funcid", 0)) if function.tag == "FUNCEXPR" else None
    if kind is None:
        raise UnsupportedError("this function in FROM is not supported")
    return BlockRelation(
        scope.compilation, _series(scope, function, kind), lateral=bool(entry.get("lateral"))
    )


def _series(scope: FromScope, function: Node, kind: int) -> Block:
    arguments = [scope.compile(argument).sql for argument in function.nodes("args")]
    start, stop = arguments[0], arguments[1]
    step = arguments[2] if len(arguments) > 2 else literal(1)
    # Spark's sequence counts down by itself and refuses a step in the wrong direction.
    upwards = conjunction([_compare(exp.GT, step, literal(0)), _compare(exp.LTE, start, stop)])
    downwards = conjunction([_compare(exp.LT, step, literal(0)), _compare(exp.GTE, start, stop)])
    runs = disjunction([part for part in (upwards, downwards) if part is not None])
    numbers = call("sequence", start.copy(), stop.copy(), _cast(step, kind))
    empty = exp.Cast(
        this=call("array"), to=exp.DataType.build(f"ARRAY<{_SPARK[kind]}>", dialect="spark")
    )
    zero = _compare(exp.EQ, step, literal(0))
    failure = exp.Cast(
        this=call(
            "raise_error",
            exp.Literal.string('{"sqlstate": "22023", "message": "step size cannot equal zero"}'),
        ),
        to=exp.DataType.build(f"ARRAY<{_SPARK[kind]}>", dialect="spark"),
    )
    branches = [exp.If(this=zero, true=failure), exp.If(this=runs, true=numbers)]
    name = scope.compilation.name("r") + "_1"
    series = call("explode", exp.Case(ifs=branches, default=empty))
    return Block(select([named(series, name)]), (Value(column(name), kind),), None)


def _cast(step: exp.Expression, kind: int) -> exp.Expression:
    return exp.Cast(this=step.copy(), to=exp.DataType.build(_SPARK[kind], dialect="spark"))


def _compare(
    operator: type[exp.Expression], left: exp.Expression, right: exp.Expression
) -> exp.Expression:
    return operator(this=closed(left.copy()), expression=closed(right))
