"""Which elements arrays have: containment, overlap, places."""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.arrays import element_sql
from rewrite.dialect.calls import Call, Handler
from rewrite.dialect.comparisons import ARRAY_ELEMENTS
from rewrite.values import Value


def _require_plain(call: Call) -> None:
    """Refuse arrays whose elements Spark finds equal by another rule."""
    array = call.args[0].type_oid
    if oids.ELEMENTS.get(array) not in ARRAY_ELEMENTS:
        raise call.refuse(f"over {oids.type_name(array)}")


def _has(array: b.Tree, element: b.Tree) -> b.Tree:
    """Return whether an array has an element; NULL equals none."""

    def test(name: str) -> b.Tree:
        same = b.infix(exp.EQ, b.variable(name), element)
        return b.call("exists", array, b.lambda_function(same, name))

    return b.call("coalesce", b.fresh_variable(test), b.FALSE)


def _each(quantifier: str, array: b.Tree, other: b.Tree) -> b.Tree:
    """Return whether one, or all, of the elements of an array are in another one."""
    return b.fresh_variable(
        lambda name: b.call(
            quantifier, array, b.lambda_function(_has(other, b.variable(name)), name)
        )
    )


def _compared(compare: Callable[[b.Tree, b.Tree], b.Tree]) -> Handler:
    def handle(call: Call) -> Value:
        _require_plain(call)

        def body(left: b.Tree, right: b.Tree) -> b.Tree:
            known = b.both(b.is_not_null(left), b.is_not_null(right))
            return b.case((known, compare(left, right)))

        return call.result(b.let(call.trees, body))

    return handle


def _is(element: b.Tree, name: str) -> b.Tree:
    return b.infix(exp.NullSafeEQ, b.variable(name), element)


def _position(call: Call) -> Value:
    """Map ``array_position``, which finds NULL, too."""
    _require_plain(call)
    array, element = call.trees[0], element_sql(call.args[1])

    def places(element: b.Tree) -> b.Tree:
        found = b.fresh_variable(
            lambda name: b.call("transform", array, b.lambda_function(_is(element, name), name))
        )
        place = b.cast(b.call("array_position", found, b.TRUE), "INT")
        return b.call("nullif", place, b.integer(0))

    return call.result(b.let([element], places))


def _without(call: Call) -> Value:
    """Map ``array_remove``, which removes NULL, too."""
    _require_plain(call)
    array, element = call.trees[0], element_sql(call.args[1])

    def others(element: b.Tree) -> b.Tree:
        return b.fresh_variable(
            lambda name: b.call(
                "filter", array, b.lambda_function(b.negation(_is(element, name)), name)
            )
        )

    return call.result(b.let([element], others))


FUNCTIONS: Final[dict[str, Handler]] = {
    "arraycontains": _compared(lambda left, right: _each("forall", right, left)),
    "arraycontained": _compared(lambda left, right: _each("forall", left, right)),
    "arrayoverlap": _compared(lambda left, right: _each("exists", left, right)),
    "array_position": _position,
    "array_remove": _without,
}
