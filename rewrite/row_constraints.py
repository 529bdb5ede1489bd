"""Queries for current rows that do not satisfy NOT NULL or CHECK.

``CHECK (n > 0)`` becomes ``SELECT 1 FROM … WHERE NOT COALESCE(n > 0, TRUE) LIMIT 1``.
"""

from sqlglot import exp

from catalog.model import TableSnapshot
from rewrite.context import SessionConstants
from rewrite.journal.current_rows import CurrentRows
from rewrite.keys import current_rows
from rewrite.query.compilation import Compilation
from rewrite.query.spark_text import spark_query
from rewrite.query.sql import is_not_false, is_null, literal, named, negation, select
from rewrite.results import SparkQuery
from rewrite.row_scope import RowScope, expression_node


def compile_null(snapshot: TableSnapshot, attnum: int) -> SparkQuery:
    """Return the query for one current row with NULL in a column."""
    compilation, rows = current_rows(snapshot)
    return _first(compilation, rows, is_null(rows.column(attnum).sql))


def compile_violation(
    snapshot: TableSnapshot, check: str, constants: SessionConstants
) -> SparkQuery:
    """Return the query for one current row that a CHECK constraint is false for.

    Args:
        snapshot: The table.
        check: The constraint, as ``pg_constraint.conbin``.
        constants: What is the same for all rows: moment, time zone, settings.

    Raises:
        UnsupportedError: Spark does not compute what PostgreSQL does.
    """
    compilation, rows = current_rows(snapshot, computes=True, constants=constants)
    condition = RowScope(compilation, rows).compile(expression_node(check)).sql
    return _first(compilation, rows, negation(is_not_false(condition)))


def _first(compilation: Compilation, rows: CurrentRows, where: exp.Expression) -> SparkQuery:
    query = select([named(literal(1), "o1")], rows.item(), where)
    return spark_query(compilation, query.limit(1), [], 1)
