"""``= ANY``, ``<> ALL`` and their relatives over arrays and IN lists."""

from collections.abc import Callable

from sqlglot import exp

from rewrite.context import SessionConstants
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.arrays import element_value
from rewrite.dialect.bindings import bind
from rewrite.dialect.comparisons import operands
from rewrite.dialect.numerics import is_fixed
from rewrite.values import Value

Operate = Callable[[Value, Value], b.Tree]


def any_or_all(
    left: Value,
    elements: list[Value] | None,
    array: Value | None,
    operate: Operate,
    comparison: type[exp.Binary] | None,
    constants: SessionConstants,
    *,
    any_: bool,
) -> Value:
    """Return ``left operator ANY (…)`` or ``ALL``.

    Args:
        left: The scalar operand.
        elements: The array's elements where they are known.
        array: The array otherwise.
        operate: The operator for one element.
        comparison: Spark's operator when the operator is a comparison.
        constants: The session's.
        any_: ANY rather than ALL.
    """
    if elements is None:
        if array is None:
            raise TypeError("neither elements nor array")
        return _over_array(left, array, operate, any_=any_)
    if not elements:
        return Value(b.FALSE if any_ else b.TRUE, oids.BOOL)
    if comparison is (exp.EQ if any_ else exp.NEQ) and (listed := _in_list(left, elements, constants)) is not None:
        return Value(listed if any_ else b.negation(listed), oids.BOOL)

    def body(bound: Value, *others: Value) -> Value:
        tests = [operate(bound, element) for element in others]
        return Value(b.either(*tests) if any_ else b.both(*tests), oids.BOOL)

    return bind([left, *elements], body)


_IN_LIST_TYPES = frozenset(
    {
        oids.INT2,
        oids.INT4,
        oids.INT8,
        oids.TEXT,
        oids.VARCHAR,
        oids.NAME,
        oids.DATE,
        oids.UUID,
        oids.NUMERIC,
        oids.BPCHAR,
        oids.FLOAT8,
        *oids.OBJECT_IDS,
    }
)


def _in_list(left: Value, elements: list[Value], constants: SessionConstants) -> b.Tree | None:
    """Return ``left IN (…)`` where Spark's means the same."""
    types = {left.type_oid, *(element.type_oid for element in elements)}
    integers = types <= oids.INTEGERS
    if not types <= _IN_LIST_TYPES or (len(types) > 1 and not integers):
        return None
    if left.type_oid == oids.NUMERIC and not all(is_fixed(value) for value in (left, *elements)):
        return None
    pairs = [operands(left, element, constants, equality=True) for element in elements]
    subject = pairs[0][0]
    if any(pair[0] != subject for pair in pairs[1:]):
        return None
    return exp.In(this=b.group(subject), expressions=[pair[1] for pair in pairs])


def _over_array(left: Value, array: Value, operate: Operate, *, any_: bool) -> Value:
    element = oids.ELEMENTS.get(array.type_oid)
    if element is None:
        raise TypeError(f"not an array type: {array.type_oid}")

    def body(bound: Value, elements: Value) -> Value:
        def test(name: str) -> b.Tree:
            condition = operate(bound, element_value(b.variable(name), element))
            quantifier = "exists" if any_ else "forall"
            return b.call(quantifier, elements.sql, b.lambda_function(condition, name))

        return Value(b.fresh_variable(test), oids.BOOL)

    return bind([left, array], body)
