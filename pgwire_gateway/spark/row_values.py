"""Expressions over stored columns, evaluated a column at a time with Arrow.

What Arrow does not do as Spark does is not done: the query goes to Spark then, for its rows or its
error. So numbers with a floating point are only handed on, as NaN is equal to itself and larger
than all others there.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rewrite.row_expressions import Constant, Expression, Operation, Operator, Stored

Values: TypeAlias = Any
"""An Arrow array, or a scalar that stands for all rows."""

_KINDS: Final[Mapping[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}
_COUNTED: Final = {"DATE": pa.int32(), "TIMESTAMP": pa.int64(), "TIMESTAMP_NTZ": pa.int64()}


_UNKNOWN: Final = pa.scalar(None, pa.bool_())


class NotEvaluatedError(Exception):
    """An expression has no counterpart here, or a row has been met that is an error."""


def evaluate(expression: Expression, rows: pa.Table | pa.RecordBatch) -> Values:
    """Return the values of an expression for rows that have the stored columns it looks at.

    Raises:
        NotEvaluatedError: It is Spark's to evaluate.
    """
    try:
        return _value(expression, rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise NotEvaluatedError from error


def true_places(condition: Expression, rows: pa.Table | pa.RecordBatch) -> pa.Array | None:
    """Return the places of the rows for which a condition is true; None for all of them.

    Raises:
        NotEvaluatedError: It is Spark's to evaluate.
    """
    found = evaluate(condition, rows)
    if isinstance(found, pa.Scalar):
        return None if found.as_py() else pa.array([], pa.uint64())
    return pc.indices_nonzero(found)


def columns(
    expressions: Mapping[str, Expression], rows: pa.Table | pa.RecordBatch
) -> pa.RecordBatch:
    """Return what is computed of rows, by name.

    Raises:
        NotEvaluatedError: It is Spark's to evaluate.
    """
    found = {
        name: _whole(evaluate(expression, rows), rows.num_rows)
        for name, expression in expressions.items()
    }
    return pa.RecordBatch.from_pydict(found)


def _whole(values: Values, rows: int) -> pa.Array:
    if isinstance(values, pa.Scalar):
        return pa.repeat(values, rows)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _value(expression: Expression, rows: pa.Table | pa.RecordBatch) -> Values:
    if isinstance(expression, Stored):
        return rows.column(expression.name)
    if isinstance(expression, Constant):
        return _scalar(expression)
    if expression.operator is Operator.CASE:
        return _case(expression, rows)
    operands = [_value(operand, rows) for operand in expression.operands]
    if expression.operator is Operator.CAST:
        return _cast(operands[0], _kind(expression.kind))
    apply = _OPERATORS.get(expression.operator)
    if apply is None:
        raise NotEvaluatedError(expression.operator)
    return apply(*operands)


def _scalar(constant: Constant) -> pa.Scalar:
    kind = _kind(constant.kind)
    counted = _COUNTED.get(constant.kind)
    if counted is not None:
        return pa.scalar(constant.value, counted).cast(kind)
    return pa.scalar(constant.value, kind)


def _kind(name: str) -> pa.DataType:
    """Return the type that stands for a type of Spark."""
    if name.startswith("DECIMAL("):
        precision, scale = name.removeprefix("DECIMAL(").rstrip(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    if name not in _KINDS:
        raise NotEvaluatedError(name)
    return _KINDS[name]


# operators --------------------------------------------------------------------------------------


def _number(*operands: Values) -> None:
    for values in operands:
        if not (pa.types.is_integer(values.type) or pa.types.is_decimal(values.type)):
            raise NotEvaluatedError(values.type)


def _arithmetic(function: Callable[..., Values]) -> Callable[..., Values]:
    def apply(*operands: Values) -> Values:
        _number(*operands)
        if len({pa.types.is_decimal(values.type) for values in operands}) > 1:
            raise NotEvaluatedError("an integer and a decimal")
        return function(*operands)

    return apply


def _remainder(dividend: Values, divisor: Values) -> Values:
    """Return what remains of a division that is rounded towards zero."""
    if not (pa.types.is_integer(dividend.type) and pa.types.is_integer(divisor.type)):
        raise NotEvaluatedError(dividend.type)
    times = pc.divide_checked(dividend, divisor)
    return pc.subtract_checked(dividend, pc.multiply_checked(times, divisor))


def _comparison(function: Callable[..., Values]) -> Callable[..., Values]:
    def apply(left: Values, right: Values) -> Values:
        _require_comparable(left, right)
        return function(left, right)

    return apply


def _require_comparable(left: Values, right: Values) -> None:
    """Refuse values that Arrow and Spark may order differently."""
    exact = [pa.types.is_integer(v.type) or pa.types.is_decimal(v.type) for v in (left, right)]
    if all(exact):
        return
    if left.type != right.type or left.type not in _COMPARED:
        raise NotEvaluatedError(left.type)


_COMPARED: Final = frozenset(_KINDS.values())


def _same(left: Values, right: Values) -> Values:
    _require_comparable(left, right)
    unknown = [pc.is_null(left), pc.is_null(right)]
    return pc.if_else(pc.or_(*unknown), pc.and_(*unknown), pc.equal(left, right))


def _among(values: Values, *wanted: pa.Scalar) -> Values:
    if isinstance(values, pa.Scalar):
        raise NotEvaluatedError(values.type)
    for one in wanted:
        _require_comparable(values, one)
    known = [one for one in wanted if one.is_valid]
    if {one.type for one in known} == {values.type}:
        listed = pa.array([one.as_py() for one in known], values.type)
        found = pc.if_else(pc.is_valid(values), pc.is_in(values, listed), _UNKNOWN)
    else:
        found = reduce(pc.or_kleene, [pc.equal(values, one) for one in known], pa.scalar(False))
    # A value that is not found may be the one that is not known.
    return found if len(known) == len(wanted) else pc.or_kleene(found, _UNKNOWN)


def _coalesce(*operands: Values) -> Values:
    _require_one_type(operands)
    return pc.coalesce(*operands)


def _require_one_type(operands: Sequence[Values]) -> None:
    if len({values.type for values in operands}) > 1:
        raise NotEvaluatedError("values of several types")


def _cast(values: Values, kind: pa.DataType) -> Values:
    """Cast numbers that keep their value; where digits are lost, Arrow refuses."""
    if values.type == kind:
        return values
    _number(values)
    if not (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        raise NotEvaluatedError(kind)
    if pa.types.is_decimal(values.type) and not pa.types.is_decimal(kind):
        raise NotEvaluatedError(kind)
    return values.cast(kind)


def _case(expression: Operation, rows: pa.Table | pa.RecordBatch) -> Values:
    """Evaluate all arms; those that fail are taken by no row."""
    *arms, default = (
        expression.operands
        if len(expression.operands) % 2
        else (*expression.operands, Constant(None, ""))
    )
    conditions, values = [], []
    undecided: Values = pa.scalar(True)
    for condition, value in zip(arms[::2], arms[1::2], strict=True):
        holds = pc.coalesce(_value(condition, rows), pa.scalar(False))
        if _fails(value):
            _require_none(pc.and_(undecided, holds))
        else:
            conditions.append(holds)
            values.append(_value(value, rows))
        undecided = pc.and_(undecided, pc.invert(holds))
    if _fails(default):
        _require_none(undecided)
        default = Constant(None, "")
    is_unknown = isinstance(default, Constant) and default.value is None
    if not is_unknown:
        values.append(_value(default, rows))
    _require_one_type(values)
    if not values:
        raise NotEvaluatedError("nothing but errors")
    if not conditions:
        return values[0]
    held = [_whole(holds, rows.num_rows) for holds in conditions]
    flags = pa.StructArray.from_arrays(held, [str(place) for place in range(len(held))])
    return pc.case_when(flags, *values)


def _fails(expression: Expression) -> bool:
    if isinstance(expression, Operation) and expression.operator is Operator.CAST:
        return _fails(expression.operands[0])
    return isinstance(expression, Operation) and expression.operator is Operator.FAIL


def _require_none(holds: Values) -> None:
    reached = holds.as_py() if isinstance(holds, pa.Scalar) else pc.any(holds).as_py()
    if reached:
        raise NotEvaluatedError("a row is an error")


_OPERATORS: Final[Mapping[Operator, Callable[..., Values]]] = {
    Operator.ADD: _arithmetic(pc.add_checked),
    Operator.SUBTRACT: _arithmetic(pc.subtract_checked),
    Operator.MULTIPLY: _arithmetic(pc.multiply_checked),
    Operator.REMAINDER: _remainder,
    Operator.NEGATE: _arithmetic(pc.negate_checked),
    Operator.ABSOLUTE: _arithmetic(pc.abs_checked),
    Operator.EQUAL: _comparison(pc.equal),
    Operator.DIFFERENT: _comparison(pc.not_equal),
    Operator.LESS: _comparison(pc.less),
    Operator.LESS_EQUAL: _comparison(pc.less_equal),
    Operator.GREATER: _comparison(pc.greater),
    Operator.GREATER_EQUAL: _comparison(pc.greater_equal),
    Operator.SAME: _same,
    Operator.AND: pc.and_kleene,
    Operator.OR: pc.or_kleene,
    Operator.NOT: pc.invert,
    Operator.IS_NULL: pc.is_null,
    Operator.AMONG: _among,
    Operator.COALESCE: _coalesce,
}
