"""Compile PostgreSQL's analysed expression nodes into Spark SQL values."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from rewrite.values import Scope, Value

if TYPE_CHECKING:
    from rewrite.context import ParameterValue
    from rewrite.tree import Node


def compile_expression(node: "Node", scope: Scope) -> Value:
    """Compile one expression node; UnsupportedError (0A000) for what has no exact mapping."""
    raise NotImplementedError


def compile_parameter(parameter: "ParameterValue") -> Value:
    """Return the typed literal of a bound parameter."""
    raise NotImplementedError


def compile_sort_key(
    value: Value, sort_operator_oid: int, *, nulls_first: bool, reverse: bool = False
) -> exp.Ordered:
    """Return the ORDER BY element for a SortGroupClause."""
    raise NotImplementedError


def grouping_key(value: Value) -> exp.Expression:
    """Return an expression that is equal for two values exactly when PostgreSQL's ``=`` says so."""
    raise NotImplementedError


def align(values: Sequence[Value]) -> list[Value]:
    """Give values of one PostgreSQL type one representation (UNION branches, CASE arms, VALUES rows)."""
    raise NotImplementedError


def read_stored(column: exp.Expression, type_oid: int, typmod: int) -> Value:
    """Return the value of a column in storage representation (source views, see type_mapping)."""
    raise NotImplementedError


def to_stored(value: Value, type_oid: int, typmod: int) -> exp.Expression:
    """Return the storage representation of a value that already has the column's type and modifier."""
    raise NotImplementedError


def raise_error(sqlstate: str, message: str) -> exp.Expression:
    """Return an expression that fails with this SQLSTATE when it is evaluated."""
    raise NotImplementedError


def literal(value: bool | float | str | None, type_oid: int) -> Value:
    """Return a typed literal of a simple type: bool, int2/4/8, float8, text."""
    raise NotImplementedError
