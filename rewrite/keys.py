"""Queries that guard primary keys: does a key exist already, do rows share one, is one NULL.

PostgreSQL enforces keys among the rows of one write; whether the journal holds them is asked here.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlglot import exp

from catalog.journal.layout import column_name
from catalog.model import TableSnapshot
from rewrite.context import ParameterValue, RewriteContext, SessionConstants
from rewrite.dialect.builders import infix
from rewrite.expressions import compile_parameter, grouping_key
from rewrite.journal.current_rows import CurrentRows
from rewrite.query.compilation import Compilation
from rewrite.query.select import compile_block
from rewrite.query.spark_text import spark_query
from rewrite.query.sql import conjunction, disjunction, is_null, literal, named, select
from rewrite.results import OutputColumn, SparkQuery

_NEUTRAL = SessionConstants(datetime(1970, 1, 1, tzinfo=UTC), "UTC", "", "", "", None)


def compile_key_lookup(
    snapshot: TableSnapshot, wanted: Sequence[Sequence[ParameterValue]]
) -> SparkQuery:
    """Return the query for those of some keys that current rows have.

    Args:
        snapshot: The table.
        wanted: Values of the key columns in key order.
    """
    compilation, rows = current_rows(snapshot)
    where = _one_of(rows.identity(), wanted)
    query = select(_key_items(rows, snapshot.table.key), rows.item(), where)
    return _finished(compilation, query, snapshot, len(wanted))


def compile_keys(snapshot: TableSnapshot) -> SparkQuery:
    """Return the query for the keys of all current rows."""
    compilation, rows = current_rows(snapshot)
    query = select(_key_items(rows, snapshot.table.key), rows.item())
    return _finished(compilation, query, snapshot, None)


def compile_values(snapshot: TableSnapshot, columns: Sequence[int]) -> SparkQuery:
    """Return the query for the values without NULL that some columns of current rows have.

    Args:
        snapshot: The table.
        columns: Attribute numbers of the columns.
    """
    compilation, rows = current_rows(snapshot)
    present = [exp.Not(this=is_null(rows.column(attnum).sql)) for attnum in columns]
    query = select(_key_items(rows, columns), rows.item(), conjunction(present)).distinct()
    return _finished(compilation, query, snapshot, None, columns)


def compile_whole_rows(snapshot: TableSnapshot) -> SparkQuery:
    """Return the query for all current rows, in the columns of relations."""
    compilation, rows = current_rows(snapshot)
    columns = [column.attnum for column in snapshot.table.columns]
    query = select(_stored(rows, columns), rows.item())
    return _finished(compilation, query, snapshot, None, columns)


def compile_stored_rows(
    snapshot: TableSnapshot, wanted: Sequence[Sequence[ParameterValue]]
) -> SparkQuery:
    """Return the query for the current rows that have some keys, in the columns of relations.

    Args:
        snapshot: The table.
        wanted: Values of the key columns in key order.
    """
    return _stored_rows(snapshot, snapshot.table.key, wanted, len(wanted))


def compile_holders(
    snapshot: TableSnapshot, columns: Sequence[int], wanted: Sequence[Sequence[ParameterValue]]
) -> SparkQuery:
    """Return the query for the current rows that have some values, in the columns of relations.

    Args:
        snapshot: The table.
        columns: Attribute numbers of the columns that have the values together.
        wanted: The values.
    """
    return _stored_rows(snapshot, columns, wanted, None)


def _stored_rows(
    snapshot: TableSnapshot,
    columns: Sequence[int],
    wanted: Sequence[Sequence[ParameterValue]],
    bound: int | None,
) -> SparkQuery:
    compilation, rows = current_rows(snapshot)
    where = _one_of([grouping_key(rows.column(attnum)) for attnum in columns], wanted)
    listed = [column.attnum for column in snapshot.table.columns]
    query = select(_stored(rows, listed), rows.item(), where)
    return _finished(compilation, query, snapshot, bound, listed)


def compile_duplicate_keys(before: TableSnapshot, added: TableSnapshot) -> SparkQuery:
    """Return the query for one key that two sets of rows of the same table share."""
    compilation, old = current_rows(before)
    new = CurrentRows(compilation, added)
    same = conjunction(
        [
            infix(exp.EQ, left, right)
            for left, right in zip(old.identity(), new.identity(), strict=True)
        ]
    )
    query = select(_key_items(new, before.table.key), new.item())
    query.append("joins", exp.Join(this=old.item(), on=same, kind="INNER"))
    return _finished(compilation, query.limit(1), before, 1)


def compile_shared_keys(
    snapshot: TableSnapshot,
    key: Sequence[int],
    among: Sequence[Sequence[ParameterValue]] = (),
) -> SparkQuery:
    """Return the query for one value without NULL of some columns that several current rows have.

    Args:
        snapshot: The table.
        key: Attribute numbers of the columns.
        among: The values that are looked at; all where there are none.
    """
    compilation, rows = current_rows(snapshot)
    present = [exp.Not(this=is_null(rows.column(attnum).sql)) for attnum in key]
    groups = [grouping_key(rows.column(attnum)) for attnum in key]
    listed = _one_of(groups, among)
    where = conjunction([*present, *([] if listed is None else [listed])])
    items = [
        named(one_of_group(group, rows.column(attnum).sql), f"o{number}")
        for number, (group, attnum) in enumerate(zip(groups, key, strict=True), start=1)
    ]
    query = select(items, rows.item(), where)
    query.set("group", exp.Group(expressions=[group.copy() for group in groups]))
    several = exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=literal(1))
    query.set("having", exp.Having(this=several))
    return _finished(compilation, query.limit(1), snapshot, 1, key)


def one_of_group(group: exp.Expression, value: exp.Expression) -> exp.Expression:
    """Return one of the values that a query groups by: equal ones may look different.

    Spark sorts all rows where it has to keep a text for each group.
    """
    return group.copy() if group == value else exp.AnyValue(this=value.copy())


def compile_mixed_nulls(snapshot: TableSnapshot, columns: Sequence[int]) -> SparkQuery:
    """Return the query for one current row with NULL in some of several columns, not in all."""
    compilation, rows = current_rows(snapshot)
    missing = [is_null(rows.column(attnum).sql) for attnum in columns]
    all_missing, any_missing = conjunction(missing), disjunction([one.copy() for one in missing])
    if all_missing is None or any_missing is None:
        raise ValueError(columns)
    mixed = conjunction([any_missing, exp.Not(this=exp.paren(all_missing))])
    query = select([named(literal(1), "o1")], rows.item(), mixed)
    return _finished(compilation, query.limit(1), snapshot, 1, ())


def _one_of(
    columns: Sequence[exp.Expression], values: Sequence[Sequence[ParameterValue]]
) -> exp.Expression | None:
    """Return the condition that grouping keys are those of one of some values; None for none."""
    conditions = [
        conjunction(
            [
                infix(exp.EQ, found.copy(), grouping_key(compile_parameter(value)))
                for found, value in zip(columns, one, strict=True)
            ]
        )
        for one in values
    ]
    return disjunction([condition for condition in conditions if condition is not None])


def current_rows(
    snapshot: TableSnapshot, *, computes: bool = False, constants: SessionConstants = _NEUTRAL
) -> tuple[Compilation, CurrentRows]:
    """Return the current rows of a table, and a query to be made of them.

    Args:
        snapshot: The table.
        computes: Whether the query has conditions on what is computed of columns, and may fail.
        constants: What these depend on, unless it is nothing.
    """
    context = RewriteContext({snapshot.table.relid: snapshot}, constants)
    compilation = Compilation(context, compile_block, computes=computes)
    return compilation, CurrentRows(compilation, snapshot)


def _stored(rows: CurrentRows, columns: Sequence[int]) -> list[exp.Alias]:
    return [named(rows.stored(attnum), column_name(attnum)) for attnum in columns]


def _key_items(rows: CurrentRows, key: Sequence[int]) -> list[exp.Alias]:
    return [named(rows.column(attnum).sql, f"o{n}") for n, attnum in enumerate(key, start=1)]


def _finished(
    compilation: Compilation,
    query: exp.Select,
    snapshot: TableSnapshot,
    bound: int | None,
    key: Sequence[int] | None = None,
) -> SparkQuery:
    table = snapshot.table
    columns = [table.column(attnum) for attnum in (table.key if key is None else key)]
    outputs = [
        OutputColumn(column.name, column.type_oid, column.typmod, f"o{number}")
        for number, column in enumerate(columns, start=1)
    ]
    return spark_query(compilation, query, outputs, bound)
