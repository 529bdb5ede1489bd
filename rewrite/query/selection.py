"""Which compiled queries are selections: read off the finished tree of Spark's SQL."""

import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final, TypeAlias

from sqlglot import exp

from rewrite.query.compilation import Compilation, PlainRows
from rewrite.results import Selection, SourcePart
from rewrite.row_expressions import Constant, Expression, Operation, Operator

_CLAUSES: Final = frozenset({"expressions", "from_", "where"})
_OUTERMOST: Final = _CLAUSES | {"limit", "offset"}

_BINARY: Final[Mapping[type[exp.Expression], Operator]] = {
    exp.Add: Operator.ADD,
    exp.Sub: Operator.SUBTRACT,
    exp.Mul: Operator.MULTIPLY,
    exp.Mod: Operator.REMAINDER,
    exp.EQ: Operator.EQUAL,
    exp.NEQ: Operator.DIFFERENT,
    exp.LT: Operator.LESS,
    exp.LTE: Operator.LESS_EQUAL,
    exp.GT: Operator.GREATER,
    exp.GTE: Operator.GREATER_EQUAL,
    exp.NullSafeEQ: Operator.SAME,
    exp.And: Operator.AND,
    exp.Or: Operator.OR,
}
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - without time zone, like what is compared
_LARGEST_INT: Final = 2**31 - 1
_LARGEST_BIGINT: Final = 2**63 - 1
_DECIMAL: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT: Final = re.compile(_DATE.pattern + r" [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?")
_WHOLE_NUMBERS: Final = frozenset({"BIGINT", "INT", "SMALLINT"})

_Scope: TypeAlias = Mapping[tuple[str, str], Expression]
"""What columns are, by alias of their relation and name; variables have no alias."""


class _NoSelectionError(Exception):
    """Something in the query has no counterpart in selections."""


def selection(query: exp.Expression, compilation: Compilation) -> Selection | None:
    """Return a query as a selection; None where it is more than that."""
    if compilation.ctes or len(compilation.plain_rows) != 1 or not compilation.context.reads_files:
        return None
    ((alias, rows),) = compilation.plain_rows.items()
    read = {one for one in compilation.sources.values() if one.part is not SourcePart.RECENT_KEYS}
    if read != {one for one in (rows.base, rows.recent) if one}:
        return None
    try:
        return _Reader(alias, rows).selection(query)
    except _NoSelectionError:
        return None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads queries over one relation."""

    alias: str
    rows: PlainRows

    def selection(self, query: exp.Expression) -> Selection:
        """Return a query as a selection."""
        columns, conditions = self._block(query, _OUTERMOST)
        return Selection(
            self.rows.base,
            self.rows.recent,
            self.rows.identity,
            columns,
            _all_of(conditions),
            _count(query.args.get("limit")),
            _count(query.args.get("offset")) or 0,
        )

    def _block(
        self, query: exp.Expression, clauses: frozenset[str]
    ) -> tuple[dict[str, Expression], list[Expression]]:
        """Return what a SELECT yields by name, and the conditions of it and of those inside."""
        used = {name for name, value in query.args.items() if value}
        if not isinstance(query, exp.Select) or "from_" not in used or not used <= clauses:
            raise _NoSelectionError
        names, conditions = self._origin(query.args["from_"].this)
        where = query.args.get("where")
        if where is not None:
            conditions.append(_expression(where.this, names))
        columns: dict[str, Expression] = {}
        for item in query.expressions:
            if not isinstance(item, exp.Alias | exp.Column):
                raise _NoSelectionError
            value = item.this if isinstance(item, exp.Alias) else item
            columns[item.alias_or_name] = _expression(value, names)
        return columns, conditions

    def _origin(self, item: exp.Expression) -> tuple[_Scope, list[Expression]]:
        """Return the columns of a FROM item, and conditions on its rows."""
        if item.args.get("joins") or not isinstance(item, exp.Table | exp.Subquery):
            raise _NoSelectionError
        if item.alias == self.alias:
            return {(self.alias, name): one for name, one in self.rows.columns.items()}, []
        if not isinstance(item, exp.Subquery):
            raise _NoSelectionError
        columns, conditions = self._block(item.this, _CLAUSES)
        return {(item.alias, name): value for name, value in columns.items()}, conditions


def _expression(tree: exp.Expression, names: _Scope) -> Expression:
    if isinstance(tree, exp.Paren):
        return _expression(tree.this, names)
    if isinstance(tree, exp.Column):
        return _column(tree, names)
    constant = _constant(tree)
    if constant is not None:
        return constant
    operator = _BINARY.get(type(tree))
    if operator is not None:
        return Operation(operator, tuple(_each((tree.this, tree.expression), names)))
    read = _READERS.get(type(tree))
    if read is None:
        raise _NoSelectionError
    return read(tree, names)


def _each(trees: tuple[exp.Expression, ...], names: _Scope) -> list[Expression]:
    return [_expression(tree, names) for tree in trees]


def _column(tree: exp.Column, names: _Scope) -> Expression:
    try:
        return names[tree.table, tree.name]
    except KeyError:
        raise _NoSelectionError from None


# constants --------------------------------------------------------------------------------------


def _constant(tree: exp.Expression) -> Constant | None:
    """Return a tree without columns as a constant; None for one that is not simply one."""
    if isinstance(tree, exp.Boolean):
        return Constant(bool(tree.this), "BOOLEAN")
    if isinstance(tree, exp.Literal):
        return Constant(tree.this, "STRING") if tree.is_string else _integer(tree.this)
    if isinstance(tree, exp.Neg) and isinstance(tree.this, exp.Literal):
        return _integer(f"-{tree.this.name}")
    if isinstance(tree, exp.Cast):
        return _cast_constant(_bare(tree.this), tree.to.sql("spark"))
    if _calls(tree, "timestamp_micros"):
        micros = _constant(tree.expressions[0])
        return None if micros is None else Constant(micros.value, "TIMESTAMP")
    return None


def _bare(tree: exp.Expression) -> exp.Expression:
    return _bare(tree.this) if isinstance(tree, exp.Paren) else tree


def _integer(text: str) -> Constant | None:
    """Return an integer literal; numbers with a point or a suffix are not."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        return None
    number = int(text)
    if abs(number) > _LARGEST_BIGINT:
        return None
    return Constant(number, "INT" if abs(number) <= _LARGEST_INT else "BIGINT")


def _cast_constant(tree: exp.Expression, kind: str) -> Constant | None:
    """Return the constant that a literal is when it is cast."""
    if isinstance(tree, exp.Null):
        return Constant(None, kind)
    constant = _constant(tree)
    given = None if constant is None else constant.value
    if kind in _WHOLE_NUMBERS and type(given) is int:
        return Constant(given, kind)
    return _parsed(given, kind) if isinstance(given, str) else None


def _parsed(text: str, kind: str) -> Constant | None:
    """Return the constant of a text that is written as the compiler writes it; None for others."""
    if kind.startswith("DECIMAL(") and _DECIMAL.fullmatch(text):
        return Constant(Decimal(text), kind)
    try:
        if kind == "DATE" and _DATE.fullmatch(text):
            return Constant(date.fromisoformat(text).toordinal() - _EPOCH.toordinal(), kind)
        if kind == "TIMESTAMP_NTZ" and _MOMENT.fullmatch(text):
            micros = (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
            return Constant(micros, kind)
    except ValueError:
        return None  # there is no such day
    return None


def _count(tree: exp.Expression | None) -> int | None:
    """Return the number of rows in LIMIT or OFFSET; None without."""
    return None if tree is None else int(tree.expression.name)


# operations -------------------------------------------------------------------------------------


def _all_of(conditions: list[Expression]) -> Expression | None:
    found: Expression | None = None
    for condition in conditions:
        found = condition if found is None else Operation(Operator.AND, (found, condition))
    return found


def _negated(tree: exp.Expression, names: _Scope) -> Expression:
    return Operation(Operator.NOT, (_expression(tree.this, names),))


def _negative(tree: exp.Expression, names: _Scope) -> Expression:
    return Operation(Operator.NEGATE, (_expression(tree.this, names),))


def _is(tree: exp.Expression, names: _Scope) -> Expression:
    if not isinstance(tree.expression, exp.Null):
        raise _NoSelectionError
    return Operation(Operator.IS_NULL, (_expression(tree.this, names),))


def _among(tree: exp.Expression, names: _Scope) -> Expression:
    values = _each(tuple(tree.expressions), names)
    if not values or not all(isinstance(value, Constant) for value in values):
        raise _NoSelectionError
    return Operation(Operator.AMONG, (_expression(tree.this, names), *values))


def _between(tree: exp.Expression, names: _Scope) -> Expression:
    value, low, high = _each((tree.this, tree.args["low"], tree.args["high"]), names)
    from_low = Operation(Operator.GREATER_EQUAL, (value, low))
    return Operation(Operator.AND, (from_low, Operation(Operator.LESS_EQUAL, (value, high))))


def _case(tree: exp.Expression, names: _Scope) -> Expression:
    if tree.this is not None:
        raise _NoSelectionError
    operands: list[Expression] = []
    for arm in tree.args["ifs"]:
        operands += _each((arm.this, arm.args["true"]), names)
    default = tree.args.get("default")
    operands += [] if default is None else [_expression(default, names)]
    return Operation(Operator.CASE, tuple(operands))


def _coalesce(tree: exp.Expression, names: _Scope) -> Expression:
    return Operation(Operator.COALESCE, tuple(_each((tree.this, *tree.expressions), names)))


def _cast(tree: exp.Expression, names: _Scope) -> Expression:
    kind = tree.args["to"].sql("spark")
    return Operation(Operator.CAST, (_expression(tree.this, names),), kind)


def _function(tree: exp.Expression, names: _Scope) -> Expression:
    read = _FUNCTIONS.get(tree.name)
    if read is None:
        raise _NoSelectionError
    return read(tree, names)


def _failure(tree: exp.Expression, names: _Scope) -> Expression:
    del tree, names
    return Operation(Operator.FAIL, ())


def _absolute(tree: exp.Expression, names: _Scope) -> Expression:
    return Operation(Operator.ABSOLUTE, tuple(_each(tuple(tree.expressions), names)))


def _first_known(tree: exp.Expression, names: _Scope) -> Expression:
    return Operation(Operator.COALESCE, tuple(_each(tuple(tree.expressions), names)))


def _let(tree: exp.Expression, names: _Scope) -> Expression:
    """Read ``element_at(transform(array(value), name -> body), 1)``: the body, with the value."""
    transform, place = tree.expressions
    is_first = isinstance(place, exp.Literal) and place.name == "1"
    if not is_first or not _calls(transform, "transform"):
        raise _NoSelectionError
    values, function = transform.expressions
    if not _calls(values, "array") or len(values.expressions) != 1:
        raise _NoSelectionError
    value = _expression(values.expressions[0], names)
    (variable,) = function.expressions
    inner: _Scope = ChainMap({("", variable.name): value}, names)  # type: ignore[arg-type]
    return _expression(function.this, inner)


def _calls(tree: exp.Expression, name: str) -> bool:
    return isinstance(tree, exp.Anonymous) and tree.name == name


_FUNCTIONS: Final[Mapping[str, Callable[[exp.Expression, _Scope], Expression]]] = {
    "element_at": _let,
    "raise_error": _failure,
    "abs": _absolute,
    "coalesce": _first_known,
}
_READERS: Final[Mapping[type[exp.Expression], Callable[[exp.Expression, _Scope], Expression]]] = {
    exp.Not: _negated,
    exp.Neg: _negative,
    exp.Is: _is,
    exp.In: _among,
    exp.Between: _between,
    exp.Case: _case,
    exp.Coalesce: _coalesce,
    exp.Cast: _cast,
    exp.Anonymous: _function,
}
