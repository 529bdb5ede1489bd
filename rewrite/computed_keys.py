"""Queries about unique keys whose values are computed: on expressions, of some rows, with NULLs.

A row has a value where the key's predicate is true; without NULL, unless NULLs are equal.
"""

from sqlglot import exp

from catalog.model import ComputedKey, TableSnapshot
from rewrite.errors import UnsupportedError
from rewrite.expressions import grouping_key
from rewrite.keys import current_rows, one_of_group
from rewrite.query.scopes import QueryScope
from rewrite.query.spark_text import output, spark_query
from rewrite.query.sql import column, conjunction, is_null, literal, named, select
from rewrite.results import SparkQuery
from rewrite.row_scope import RowScope, expression_node
from rewrite.tree import Node, parse_item
from rewrite.values import Value


def compile_shared_values(snapshot: TableSnapshot, key: ComputedKey) -> SparkQuery:
    """Return the query for one value of a unique key that several current rows have.

    Raises:
        UnsupportedError: Spark does not compute what PostgreSQL does.
    """
    compilation, rows = current_rows(snapshot, computes=True)
    scope = RowScope(compilation, rows)
    values = _values(key, scope)
    wanted = (
        [] if key.predicate is None else [scope.compile(expression_node(key.predicate)).sql.copy()]
    )
    if key.nulls_distinct:
        wanted += [exp.Not(this=is_null(value.sql.copy())) for value in values]
    groups = [grouping_key(value) for value in values]
    items = [
        named(one_of_group(group, value.sql), f"o{number}")
        for number, (group, value) in enumerate(zip(groups, values, strict=True), 1)
    ]
    query = select(items, rows.item(), conjunction(wanted))
    query.set("group", exp.Group(expressions=[group.copy() for group in groups]))
    several = exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=literal(1))
    query.set("having", exp.Having(this=several))
    outputs = [
        output(label, value.with_parts([column(f"o{number}")]))
        for number, (label, value) in enumerate(zip(key.labels, values, strict=True), 1)
    ]
    return spark_query(compilation, query.limit(1), outputs, 1)


def compile_columns(snapshot: TableSnapshot, attnums: tuple[int, ...]) -> SparkQuery:
    """Return the query for some columns of all current rows."""
    compilation, rows = current_rows(snapshot)
    items, outputs = [], []
    for attnum in attnums:
        value = rows.column(attnum)
        names = [f"o{attnum}", f"o{attnum}_scale"][: len(value.parts)]
        items += [named(part, name) for part, name in zip(value.parts, names, strict=True)]
        read = value.with_parts([column(name) for name in names])
        outputs.append(output(snapshot.table.column(attnum).name, read))
    return spark_query(compilation, select(items, rows.item()), outputs, rows.bound)


def _values(key: ComputedKey, scope: QueryScope) -> list[Value]:
    """Return the parts of a value, each of one column in the result."""
    expressions = iter(_list(key.expressions))
    values = [scope.local(1, n) if n else scope.compile(next(expressions)) for n in key.parts]
    if any(len(value.parts) > 1 for value in values):
        raise UnsupportedError("numbers of any scale in a unique index are not supported")
    return values


def _list(text: str | None) -> list[Node]:
    found = parse_item(text) if text else []
    return [item for item in found if isinstance(item, Node)] if isinstance(found, list) else []
