"""What tells the rows of a table apart, as Spark SQL."""

from collections.abc import Callable

from catalog.model import Column, JournalTable
from pgwire_gateway.spark.layouts import IDENTITY
from rewrite.expressions import grouping_key, read_stored
from rewrite.query.sql import column

KeyExpression = Callable[[str], str]
"""Takes the alias of a relation, returns a SQL expression equal for equal keys."""


def key_expressions(table: JournalTable) -> list[KeyExpression]:
    """Return expressions over the key columns; equal exactly where PostgreSQL's ``=`` is true.

    A numeric without scale is stored as text, in which 1.0 and 1.00 are different.
    """
    if not table.key:
        return [lambda alias: f"{alias}.{IDENTITY}"]
    return [_expression(table.column(attnum)) for attnum in table.key]


def _expression(definition: Column) -> KeyExpression:
    def text(alias: str) -> str:
        stored = column(f"c{definition.attnum}", alias)
        value = read_stored(stored, definition.type_oid, definition.typmod)
        return str(grouping_key(value).sql(dialect="spark"))

    return text
