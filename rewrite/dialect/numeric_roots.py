"""Square roots of numerics, rounded as sqrt_var of numeric.c does."""

from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect.bindings import bind
from rewrite.dialect.numerics import (
    ONE,
    WHOLE,
    as_floating,
    floating,
    is_zero,
    power_of_ten,
    scale_of,
    scaled_up,
    too_many_digits,
)
from rewrite.values import Value

_ROOT_DIGITS: Final = 18
"""Digits of a root whose square still has all its digits."""
_TIE: Final = 1e-10
"""How near to the middle of two numbers a root may not be: what is computed of it is nearer."""


def square_root(value: Value) -> Value:
    """Return the root of a numeric that is not negative, rounded to as many decimal places as that.

    It fails (0A000) for more digits than a DECIMAL has.
    """
    return bind(
        [as_floating(value)],
        lambda one: floating(_rounded_root(one.sql, scale_of(one)), scale_of(one)),
    )


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
        begun = [
            b.cast(scaled_up(digits, places), WHOLE),
            b.cast(b.divide(first, power), WHOLE),
            later,
        ]
        found = b.let(begun, _improved)
        return b.checked(found, (b.infix(exp.LT, places, b.integer(0)), too_many_digits()))

    return b.case((is_zero(digits), digits), otherwise=b.let([first], with_first))


def _rest(squared: b.Tree, root: b.Tree) -> b.Tree:
    return b.cast(b.infix(exp.Sub, squared, _times(root, root)), WHOLE)


def _improved(squared: b.Tree, first: b.Tree, later: b.Tree) -> b.Tree:
    """Return the root, with so many digits more, of which the first ones are nearly known."""

    def of_better(root: b.Tree) -> b.Tree:
        return b.let([_rest(squared, root)], lambda rest: of_rest(root, rest))

    def of_rest(root: b.Tree, rest: b.Tree) -> b.Tree:
        return b.case(
            (is_zero(later), _nearest(root, rest)), otherwise=_with_later(root, rest, later)
        )

    return b.let([_better(squared, first)], of_better)


def _better(squared: b.Tree, root: b.Tree) -> b.Tree:
    """Return a root after one step of Newton's method, which leaves less than one to be added."""
    step = b.divide(_double(_rest(squared, root)), _double(_twice(root)))
    return b.cast(b.infix(exp.Add, root, b.cast(step, WHOLE)), WHOLE)


def _nearest(root: b.Tree, rest: b.Tree) -> b.Tree:
    """Return the whole number that is nearest to a root, which is that or beside it."""
    above = b.cast(b.infix(exp.Add, root, ONE), WHOLE)
    below = b.cast(b.infix(exp.Sub, root, ONE), WHOLE)
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
