"""Functions in FROM: generate_series, unnest of one array, parts of jsonb, functions of one row.

Not handled (0A000): other set-returning functions, several in ROWS FROM, column definitions.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.arrays import element_value
from rewrite.dialect.calls import known_integer
from rewrite.dialect.functions import procedure
from rewrite.dialect.json_sets import SETS, Parts
from rewrite.dialect.type_mapping import storage_type
from rewrite.errors import UnsupportedError
from rewrite.query.compilation import Block, projected
from rewrite.query.number_series import numbers
from rewrite.query.relations import BlockRelation, Relation
from rewrite.query.scopes import FromScope
from rewrite.query.sql import call, cast, column, literal, select
from rewrite.query.time_series import TIME_SERIES, time_series
from rewrite.tree import Node
from rewrite.values import Value

# pg_proc: generate_series(int4, int4[, step]) and (int8, int8[, step]).
_SERIES = {1066: oids.INT4, 1067: oids.INT4, 1068: oids.INT8, 1069: oids.INT8}
_UNNEST = 2331
_BIGINT = 2**63

_Reader: TypeAlias = Callable[[exp.Expression], list[Value]]
"""From an element of an array to the columns of the row that it becomes."""
_Rows: TypeAlias = tuple[exp.Expression, _Reader]
"""An array, and how its elements become rows."""


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
        numbers = _known_series(scope, function)
        if numbers is not None:
            kind = _SERIES[function.integer("funcid")]
            return _range(scope, numbers, kind, ordinality=ordinality)
        array, read = _elements(function.integer("funcid"))(scope, function)
        return _exploded(scope, array, read, ordinality=ordinality)
    values = [scope.compile(function)]
    if ordinality:
        values.append(Value(cast(literal(1), "BIGINT"), oids.INT8))
    items, columns = projected(values, scope.compilation.name("r") + "_")
    return Block(select(items), columns, 1)


def _elements(funcid: int) -> Callable[[FromScope, Node], _Rows]:
    if funcid in _SERIES:
        return _series
    if funcid in TIME_SERIES:
        return _time_series
    if funcid == _UNNEST:
        return _unnest
    parts = SETS.get(procedure(funcid)[0])
    if parts is not None:
        return partial(_parts_of_document, parts)
    raise UnsupportedError("this set-returning function in FROM is not supported")


def _exploded(scope: FromScope, array: exp.Expression, read: _Reader, *, ordinality: bool) -> Block:
    """Return the elements of an array as rows, with their numbers if asked for."""
    name = scope.compilation.name("r")
    place, item = f"{name}_place", f"{name}_item"
    exploded = exp.Aliases(
        this=call("posexplode", array.transform(_compared)),
        expressions=[exp.to_identifier(place), exp.to_identifier(item)],
    )
    rows = exp.Subquery(this=select([exploded]), alias=exp.TableAlias(this=exp.to_identifier(name)))
    values = read(column(item, name))
    if ordinality:
        number = exp.Add(this=column(place, name), expression=literal(1))
        values.append(Value(cast(number, "BIGINT"), oids.INT8))
    items, columns = projected(values, f"{name}_")
    return Block(select(items, rows), columns, None)


def _compared(tree: exp.Expression) -> exp.Expression:
    """Return two comparisons in place of BETWEEN.

    Spark computes what that compares beforehand, and refuses to below rows of a LEFT JOIN LATERAL.
    """
    if not isinstance(tree, exp.Between):
        return tree
    tested, low, high = (tree.args[name].transform(_compared) for name in ("this", "low", "high"))
    return b.group(b.both(b.infix(exp.GTE, tested, low), b.infix(exp.LTE, tested.copy(), high)))


def _unnest(scope: FromScope, function: Node) -> _Rows:
    array = scope.compile(function.nodes("args")[0])
    element = element_value(array.sql, oids.ELEMENTS[array.type_oid])
    return array.sql, lambda item: [element.with_parts([item])]


def _parts_of_document(parts: Parts, scope: FromScope, function: Node) -> _Rows:
    document = scope.compile(function.nodes("args")[0])
    return parts.array(document.sql), parts.read


def _known_series(scope: FromScope, function: Node) -> range | None:
    """Return the numbers of a series whose bounds are known."""
    if function.integer("funcid") not in _SERIES:
        return None
    known = [known_integer(scope.compile(argument)) for argument in function.nodes("args")]
    start, stop, step = [*known, 1][:3]
    if start is None or stop is None or not step:
        return None
    last = stop + (1 if step > 0 else -1)
    return range(start, last, step) if abs(last) + abs(start) < _BIGINT else None


def _range(scope: FromScope, numbers: range, kind: int, *, ordinality: bool) -> Block:
    """Return numbers as rows, none of which is kept."""
    name = scope.compilation.name("r")
    bounds = [b.bigint(bound) for bound in (numbers.start, numbers.stop, numbers.step)]
    rows = exp.Table(
        this=exp.Anonymous(this="range", expressions=bounds),
        alias=exp.TableAlias(this=exp.to_identifier(name)),
    )
    number = column("id", name)
    values = [Value(cast(number, storage_type(kind, -1)), kind)]
    if ordinality:
        place = b.infix(
            exp.IntDiv, b.infix(exp.Sub, number, b.bigint(numbers.start)), b.bigint(numbers.step)
        )
        values.append(Value(b.infix(exp.Add, place, b.bigint(1)), oids.INT8))
    items, columns = projected(values, f"{name}_")
    return Block(select(items, rows), columns, len(numbers))


def _series(scope: FromScope, function: Node) -> _Rows:
    kind = _SERIES[function.integer("funcid")]
    start, stop, *steps = (scope.compile(argument).sql for argument in function.nodes("args"))
    step = steps[0] if steps else literal(1)
    return numbers(start, stop, step, storage_type(kind, -1)), lambda item: [Value(item, kind)]


def _time_series(scope: FromScope, function: Node) -> _Rows:
    kind = TIME_SERIES[function.integer("funcid")]
    return time_series(scope, function), lambda item: [Value(item, kind)]
