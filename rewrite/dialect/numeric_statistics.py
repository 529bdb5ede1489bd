"""Variance and standard deviation of integers and numerics, exact as in numeric.c.

PostgreSQL computes them of three sums (``numeric_stddev_internal``); so does this, in decimals.
"""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.aggregates import Aggregation, Handler
from rewrite.dialect.bindings import bind
from rewrite.dialect.numeric_division import divide
from rewrite.dialect.numeric_functions import INTEGER_DIGITS
from rewrite.dialect.numerics import (
    WHOLE,
    fixed,
    floating,
    is_fixed,
    multiply,
    power_of_ten,
    scale_of,
    scaled_up,
    shape_of,
    subtract,
    too_many_digits,
)
from rewrite.values import DecimalShape, Value

_COUNT: Final = DecimalShape(15, 0)
"""What rows are counted in."""
_ROOT_DIGITS: Final = 18
"""Digits of a root whose square still has all its digits."""
_TIE: Final = 1e-12
"""How near to the middle of two numbers a root may not be: what is computed of it is nearer."""
_ONE: Final = b.cast(b.integer(1), "DECIMAL(1, 0)")


def _number(call: Aggregation) -> Value:
    """Return the argument as a fixed numeric."""
    value = call.args[0]
    if value.type_oid == oids.NUMERIC:
        if not is_fixed(value):
            raise call.refuse("of values of differing scale")
        return value
    digits = INTEGER_DIGITS[value.type_oid]
    return fixed(b.cast(value.sql, b.decimal_type(digits, 0)), digits, 0)


def _total(call: Aggregation, value: Value) -> Value:
    shape = shape_of(value)
    return fixed(call.spark("sum", value.sql), shape.precision + 10, shape.scale)


def _variance(call: Aggregation, *, sample: bool) -> Value:
    """Return ``(N * sum(X * X) - sum(X) ** 2) / (N * M)``, where M is N or one less.

    It is NULL of less than two rows of a sample, and a zero without decimal places is exact.
    """
    if call.distinct:
        raise call.refuse("of DISTINCT values")
    number = _number(call)
    count = fixed(b.cast(call.spark("count", number.sql), b.decimal_type(*_COUNT)), *_COUNT)
    total, squares = _total(call, number), _total(call, multiply(number, number))

    def quotient(count: Value, total: Value, squares: Value) -> Value:
        dividend = subtract(multiply(count, squares), multiply(total, total))
        divisor = multiply(count, subtract(count, fixed(_ONE, 1, 0)) if sample else count)
        zero = b.cast(b.integer(0), b.decimal_type(*shape_of(divisor)))
        some = fixed(b.call("nullif", divisor.sql, zero), *shape_of(divisor))
        return bind([divide(dividend, some)], _without_places_of_zero)

    return bind([count, total, squares], quotient)


def _without_places_of_zero(value: Value) -> Value:
    scale = b.case((_is_zero(value.sql), b.integer(0)), otherwise=scale_of(value))
    return floating(value.sql, scale)


def _is_zero(digits: b.Tree) -> b.Tree:
    return b.infix(exp.EQ, digits, b.integer(0))


def _deviation(call: Aggregation, *, sample: bool) -> Value:
    """Return the square root of the variance, with as many decimal places as that has."""
    return bind([_variance(call, sample=sample)], _root)


def _root(value: Value) -> Value:
    return floating(_rounded_root(value.sql, scale_of(value)), scale_of(value))


def _rounded_root(digits: b.Tree, scale: b.Tree) -> b.Tree:
    """Return the digits of a root, of a number that is not negative, with the scale of that.

    A double tells the first of them, and Newton's method as many as a number can have whose square
    has all its digits; the others are found of what is missing then.
    """
    half = b.divide(_double(scale), b.double(2.0))
    first = _times(b.call("sqrt", _double(digits)), b.call("power", b.double(10.0), half))

    def with_first(first: b.Tree) -> b.Tree:
        length = b.cast(b.call("ceil", b.call("log10", first)), "INT")
        later = b.infix(exp.Sub, length, b.integer(_ROOT_DIGITS))
        return b.let([b.call("greatest", b.integer(0), later)], lambda later: of_two(first, later))

    def of_two(first: b.Tree, later: b.Tree) -> b.Tree:
        power = b.call("power", b.double(10.0), _double(later))
        places = b.infix(exp.Sub, scale, _times(b.integer(2), later))
        squared = b.cast(scaled_up(digits, places), WHOLE)
        begun = [squared, b.cast(b.divide(first, power), WHOLE)]
        root = b.let(
            begun,
            lambda squared, root: b.let(
                [_better(squared, root)],
                lambda root: b.let(
                    [_rest(squared, root)],
                    lambda rest: b.case(
                        (_is_zero(later), _nearest(root, rest)),
                        otherwise=_with_later(root, rest, later),
                    ),
                ),
            ),
        )
        return b.checked(root, (b.infix(exp.LT, places, b.integer(0)), too_many_digits()))

    return b.case((_is_zero(digits), digits), otherwise=b.let([first], with_first))


def _rest(squared: b.Tree, root: b.Tree) -> b.Tree:
    return b.cast(b.infix(exp.Sub, squared, _times(root, root)), WHOLE)


def _better(squared: b.Tree, root: b.Tree) -> b.Tree:
    """Return a root after one step of Newton's method, which leaves less than one to be added."""
    step = b.divide(_double(_rest(squared, root)), _double(_twice(root)))
    return b.cast(b.infix(exp.Add, root, b.cast(step, WHOLE)), WHOLE)


def _nearest(root: b.Tree, rest: b.Tree) -> b.Tree:
    """Return the whole number that is nearest to a root, which is that or beside it."""
    above = b.cast(b.infix(exp.Add, root, _ONE), WHOLE)
    below = b.cast(b.infix(exp.Sub, root, _ONE), WHOLE)
    return b.case(
        (b.infix(exp.GT, rest, root), above),
        (b.infix(exp.LTE, b.infix(exp.Add, rest, root), b.integer(0)), below),
        otherwise=root,
    )


def _with_later(root: b.Tree, rest: b.Tree, later: b.Tree) -> b.Tree:
    """Return a root with so many later digits, rounded half up.

    With z for them, ``rest * 10 ** later = 2 * root * z + z * z / 10 ** later``.
    """
    shifted = scaled_up(rest, later)

    def of_most(shifted: b.Tree, most: b.Tree) -> b.Tree:
        remaining = b.infix(exp.Sub, shifted, _times(_twice(root), most))
        square = b.divide(_times(_double(most), _double(most)), _double(power_of_ten(later)))
        missing = b.infix(exp.Sub, _double(remaining), square)
        fraction = b.divide(missing, _double(_twice(root)))
        return b.let([b.infix(exp.Add, fraction, b.double(0.5))], lambda up: rounded(most, up))

    def rounded(most: b.Tree, up: b.Tree) -> b.Tree:
        distance = b.call("abs", b.infix(exp.Sub, up, b.call("rint", up)))
        added = b.infix(exp.Add, most, b.cast(b.call("floor", up), WHOLE))
        whole = b.infix(exp.Add, scaled_up(root, later), added)
        unsure = b.infix(exp.LT, distance, b.double(_TIE))
        return b.checked(b.cast(whole, WHOLE), (unsure, too_many_digits()))

    most = b.cast(b.divide(_double(shifted), _double(_twice(root))), WHOLE)
    return b.let([b.cast(shifted, WHOLE), most], of_most)


def _times(left: b.Tree, right: b.Tree) -> b.Tree:
    return b.infix(exp.Mul, left, right)


def _twice(number: b.Tree) -> b.Tree:
    return b.cast(_times(number, b.integer(2)), WHOLE)


def _double(number: b.Tree) -> b.Tree:
    return b.cast(number, "DOUBLE")


def _handler(compute: Callable[..., Value], *, sample: bool) -> Handler:
    return lambda call: compute(call, sample=sample)


_KINDS: Final[dict[str, Handler]] = {
    "var_pop": _handler(_variance, sample=False),
    "var_samp": _handler(_variance, sample=True),
    "variance": _handler(_variance, sample=True),
    "stddev_pop": _handler(_deviation, sample=False),
    "stddev_samp": _handler(_deviation, sample=True),
    "stddev": _handler(_deviation, sample=True),
}

FUNCTIONS: Final[dict[str, Handler]] = {
    f"{name}({type_})": handler
    for name, handler in _KINDS.items()
    for type_ in ("int2", "int4", "int8", "numeric")
}
