"""DISTINCT and DISTINCT ON.

Where equal values may look different (1.0 and 1.00, 'a' and 'a ' as character), Spark's own DISTINCT would
keep both, so rows are grouped by what PostgreSQL compares.
"""

from collections.abc import Sequence

from sqlglot import exp

from rewrite.expressions import grouping_key
from rewrite.query.sql import aliased, call, column, named, select
from rewrite.values import Value


def compares_as_it_looks(value: Value) -> bool:
    """Whether two values are equal exactly when their representations are."""
    return len(value.parts) == 1 and grouping_key(value) == value.sql


def distinct_rows(rows: exp.Select, columns: Sequence[Value], alias: str) -> exp.Select:
    """Return the distinct rows of a SELECT under the same column names."""
    if all(compares_as_it_looks(value) for value in columns):
        rows.set("distinct", exp.Distinct())
        return rows
    keys, items = representatives(columns, alias)
    query = select(items, aliased(rows, alias))
    query.set("group", exp.Group(expressions=keys))
    outer = f"{alias}_d"
    names = [part.name for value in columns for part in value.parts]
    return select([named(column(name, outer), name) for name in names], aliased(query, outer))


def representatives(
    columns: Sequence[Value], alias: str, among: exp.Expression | None = None
) -> tuple[list[exp.Expression], list[exp.Expression]]:
    """Return what to group by and, per column, which of several equal values to show.

    With ``among`` it is one of the rows for which that condition holds.
    """
    keys: list[exp.Expression] = []
    items: list[exp.Expression] = []
    for value in columns:
        inside = value.with_parts([column(part.name, alias) for part in value.parts])
        keys.append(grouping_key(inside))
        for number, part in enumerate(inside.parts):
            shown: exp.Expression = part.copy()
            if among is not None:
                shown = exp.Case(ifs=[exp.If(this=among.copy(), true=shown)])
            # The smallest text of equal values, the largest scale: any will do, if always the same.
            items.append(named(call("max" if number else "min", shown), part.name))
    return keys, items
