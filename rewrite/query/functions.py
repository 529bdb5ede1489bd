"""Functions in FROM: generate_series over integers, unnest of one array, functions of one row.

Not handled (0A000): other set-returning functions, several in ROWS FROM, column definitions.
"""

from collections.abc import Callable

from sqlglot import exp

from rewrite.dialect import oids
from rewrite.dialect.arrays import element_value
from rewrite.dialect.type_mapping import storage_type
from rewrite.errors import UnsupportedError
from rewrite.expressions import raise_error
from rewrite.query.compilation import Block, projected
from rewrite.query.relations import BlockRelation, Relation
from rewrite.query.scopes import FromScope
from rewrite.query.sql import call, cast, closed, column, conjunction, disjunction, literal, select
from rewrite.tree import Node
from rewrite.values import Value

# pg_proc: generate_series(int4, int4[, step]) and (int8, int8[, step]).
_SERIES = {1066: oids.INT4, 1067: oids.INT4, 1068: oids.INT8, 1069: oids.INT8}
_UNNEST = 2331
_INVALID_PARAMETER_VALUE = "22023"


def function_relation(scope: FromScope, entry: Node) -> Relation:
    """Return the FROM item of a function."""
    functions = entry.nodes("functions")
    if len(functions) != 1 or functions[0].items("funccolnames"):
        raise UnsupportedError("ROWS FROM and column definition lists are not supported")
    ordinality = bool(entry.get("funcordinality"))
    block = _block(scope, functions[0].node("funcexpr"), ordinality=ordinality)
    return BlockRelation(scope.compilation, block, lateral=bool(entry.get("lateral")))


def _block(scope: FromScope, function: Node, *, ordinality: bool) -> Block:
    if function.tag == "FUNCEXPR" and function["funcretset"]:
        elements = _elements(function.integer("funcid"))(scope, function)
        return _exploded(scope, *elements, ordinality=ordinality)
    values = [scope.compile(function)]
    if ordinality:
        values.append(Value(cast(literal(1), "BIGINT"), oids.INT8))
    items, columns = projected(values, scope.compilation.name("r") + "_")
    return Block(select(items), columns, 1)


def _elements(funcid: int) -> Callable[[FromScope, Node], tuple[exp.Expression, Value]]:
    if funcid in _SERIES:
        return _series
    if funcid == _UNNEST:
        return _unnest
    raise UnsupportedError("this set-returning function in FROM is not supported")


def _exploded(
    scope: FromScope, array: exp.Expression, element: Value, *, ordinality: bool
) -> Block:
    """Return the elements of an array as rows, with their numbers if asked for."""
    name = scope.compilation.name("r")
    place, item = f"{name}_place", f"{name}_item"
    exploded = exp.Aliases(
        this=call("posexplode", array),
        expressions=[exp.to_identifier(place), exp.to_identifier(item)],
    )
    rows = exp.Subquery(this=select([exploded]), alias=exp.TableAlias(this=exp.to_identifier(name)))
    values = [element.with_parts([column(item, name)])]
    if ordinality:
        number = exp.Add(this=column(place, name), expression=literal(1))
        values.append(Value(cast(number, "BIGINT"), oids.INT8))
    items, columns = projected(values, f"{name}_")
    return Block(select(items, rows), columns, None)


def _unnest(scope: FromScope, function: Node) -> tuple[exp.Expression, Value]:
    array = scope.compile(function.nodes("args")[0])
    return array.sql, element_value(array.sql, oids.ELEMENTS[array.type_oid])


def _series(scope: FromScope, function: Node) -> tuple[exp.Expression, Value]:
    kind = _SERIES[function.integer("funcid")]
    arguments = [scope.compile(argument).sql for argument in function.nodes("args")]
    start, stop = arguments[0], arguments[1]
    step = arguments[2] if len(arguments) > 2 else literal(1)
    # Spark's sequence counts down by itself and refuses a step in the wrong direction.
    upwards = conjunction([_compare(exp.GT, step, literal(0)), _compare(exp.LTE, start, stop)])
    downwards = conjunction([_compare(exp.LT, step, literal(0)), _compare(exp.GTE, start, stop)])
    runs = disjunction([part for part in (upwards, downwards) if part is not None])
    spark_type = storage_type(kind, -1)
    numbers = call("sequence", start.copy(), stop.copy(), cast(step.copy(), spark_type))
    empty = cast(call("array"), f"ARRAY<{spark_type}>")
    zero = _compare(exp.EQ, step, literal(0))
    failure = raise_error(_INVALID_PARAMETER_VALUE, "step size cannot equal zero")
    branches = [
        exp.If(this=zero, true=cast(failure, f"ARRAY<{spark_type}>")),
        exp.If(this=runs, true=numbers),
    ]
    return exp.Case(ifs=branches, default=empty), Value(column("item"), kind)


def _compare(
    operator: type[exp.Expression], left: exp.Expression, right: exp.Expression
) -> exp.Expression:
    return operator(this=closed(left.copy()), expression=closed(right.copy()))
