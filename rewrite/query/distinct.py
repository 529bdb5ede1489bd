"""DISTINCT and DISTINCT ON.

Where equal values may look different (1.0 and 1.00, 'a' and 'a ' as character), Spark's own
DISTINCT would keep both, so rows are grouped by what PostgreSQL compares.
"""

from collections.abc import Sequence

from sqlglot import exp

from rewrite.expressions import distinct_key
from rewrite.query.sql import aliased, call, column, identifier, named, select
from rewrite.values import Value


def compares_as_it_looks(value: Value) -> bool:
    """Whether two values are equal exactly when their representations are."""
    return len(value.parts) == 1 and distinct_key(value) == value.sql


def distinct_rows(
    rows: exp.Select, columns: Sequence[Value], alias: str, first_by: str | None = None
) -> exp.Select:
    """Return the distinct rows of a SELECT under the same column names.

    ``first_by`` names a further column of the rows that tells which of equal values comes first.
    """
    if all(compares_as_it_looks(value) for value in columns):
        rows.set("distinct", exp.Distinct())
        return rows
    if first_by is not None:
        rows.append("expressions", column(first_by))
    keys, items = representatives(columns, alias, first_by)
    query = select(items, aliased(rows, alias))
    query.set("group", exp.Group(expressions=keys))
    outer = f"{alias}_d"
    names = [part.name for value in columns for part in value.parts]
    return select([named(column(name, outer), name) for name in names], aliased(query, outer))


def representatives(
    columns: Sequence[Value], alias: str, first_by: str | None = None
) -> tuple[list[exp.Expression], list[exp.Expression]]:
    """Return what to group by and, per column, which of several equal values to show.

    Any would do; it is always the same one, of the rows that come first by a named column.
    """
    keys: list[exp.Expression] = []
    items: list[exp.Expression] = []
    for value in columns:
        inside = value.with_parts([column(part.name, alias) for part in value.parts])
        key = distinct_key(inside)
        keys.append(key)
        if len(value.parts) == 1 and (first_by is None or key == inside.sql):
            items.append(named(call("min", inside.sql.copy()), value.sql.name))
            continue
        fields = [] if first_by is None else [exp.Literal.string("first"), column(first_by, alias)]
        for part in reversed(inside.parts):
            # The scale decides before the value does.
            fields += [exp.Literal.string(part.name), part.copy()]
        chosen = call("min", call("named_struct", *fields))
        for part in value.parts:
            field = exp.Dot(this=chosen.copy(), expression=identifier(part.name))
            items.append(named(field, part.name))
    return keys, items
