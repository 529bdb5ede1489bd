"""ORDER BY elements and grouping keys."""

from sqlglot import exp

from catalog.pg.functions import SORT_OPERATORS
from rewrite.dialect import builders as b
from rewrite.dialect.comparisons import equality_key, ordering_key, padded_width
from rewrite.dialect.floats import SPARK_TYPES
from rewrite.dialect.literals import float_literal
from rewrite.errors import UnsupportedError
from rewrite.values import Value


def compile_sort_key(
    value: Value, sort_operator_oid: int, *, nulls_first: bool, reverse: bool = False
) -> exp.Ordered:
    """Return the ORDER BY element of a SortGroupClause, NULLs placed explicitly.

    The operator alone gives the direction; ``reverse`` (``reverse_sort`` of PostgreSQL 18)
    repeats it.
    """
    del reverse
    descending = SORT_OPERATORS.get(sort_operator_oid)
    if descending is None:
        raise UnsupportedError(f"ordering by operator {sort_operator_oid} is not supported")
    return exp.Ordered(this=ordering_key(value), desc=descending, nulls_first=nulls_first)


def grouping_key(value: Value) -> exp.Expression:
    """Return an expression that is equal for two values exactly when PostgreSQL's ``=`` says so."""
    return equality_key(value)


def distinct_key(value: Value) -> exp.Expression:
    """Return a grouping key that is the value itself only where equal values look the same."""
    if value.type_oid in SPARK_TYPES:
        # Zero and minus zero are equal; Spark shows zero for both when it groups by them.
        return b.infix(exp.Add, value.sql, float_literal(0.0, SPARK_TYPES[value.type_oid]))
    if padded_width(value) is not None:
        return value.sql
    return grouping_key(value)
