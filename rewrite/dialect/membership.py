"""``= ANY``, ``<> ALL`` and their relatives over arrays and IN lists."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from rewrite.context import SessionConstants
from rewrite.dialect import builders as b
from rewrite.dialect import oids
from rewrite.dialect.arrays import element_value
from rewrite.dialect.bindings import bind
from rewrite.dialect.calls import is_null_constant
from rewrite.dialect.comparisons import operands
from rewrite.dialect.numerics import is_fixed
from rewrite.errors import UnsupportedError
from rewrite.values import Value


@dataclass(frozen=True, slots=True)
class Membership:
    """``left operator ANY (array)``, or ALL."""

    left: Value
    operate: Callable[[Value, Value], b.Tree]
    """The operator, for one element."""
    comparison: type[exp.Binary] | None
    """Spark's operator when it is a comparison."""
    any_: bool
    """ANY rather than ALL."""
    constants: SessionConstants

    def of_elements(self, elements: list[Value]) -> Value:
        """Return the test over an array whose elements are known."""
        if not elements:
            return Value(b.FALSE if self.any_ else b.TRUE, oids.BOOL)
        if self.comparison is (exp.EQ if self.any_ else exp.NEQ):
            listed = _in_list(self.left, elements, self.constants)
            if listed is not None:
                return Value(listed if self.any_ else b.negation(listed), oids.BOOL)

        def body(bound: Value, *others: Value) -> Value:
            tests = [self.operate(bound, element) for element in others]
            return Value(b.either(*tests) if self.any_ else b.both(*tests), oids.BOOL)

        return bind([self.left, *elements], body)

    def of_array(self, array: Value) -> Value:
        """Return the test over an array that is computed."""
        element = oids.ELEMENTS.get(array.type_oid)
        if element is None:
            raise UnsupportedError(
                f"ANY and ALL of {oids.type_name(array.type_oid)} are not supported"
            )
        quantifier = "exists" if self.any_ else "forall"

        def body(bound: Value, elements: Value) -> Value:
            def test(name: str) -> b.Tree:
                condition = self.operate(bound, element_value(b.variable(name), element))
                return b.call(quantifier, elements.sql, b.lambda_function(condition, name))

            return Value(b.fresh_variable(test), oids.BOOL)

        return bind([self.left, array], body)


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
    if left.type_oid == oids.FLOAT8 and not all(map(_is_known, elements)):
        # Spark does not find NaN in a long list of constants where one of them may be NULL.
        return None
    pairs = [operands(left, element, constants, equality=True) for element in elements]
    subject = pairs[0][0]
    if any(pair[0] != subject for pair in pairs[1:]):
        return None
    return exp.In(this=b.group(subject), expressions=[pair[1] for pair in pairs])


def _is_known(element: Value) -> bool:
    return element.constant is not None and not is_null_constant(element)
