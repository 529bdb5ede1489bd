"""Scalar subqueries that are the one row of an aggregation: what is made of it moves into it.

Before: ``SELECT s.q1 FROM (SELECT 0.5 * g.a1 AS q1 FROM (SELECT SUM(x) AS a1 FROM t
WHERE t.k = o.k) AS g) AS s``.
After: ``SELECT 0.5 * SUM(x) FROM t WHERE t.k = o.k``.

Spark joins a correlated aggregation with the rows that ask for it. If something is above the
aggregation, it first computes whom it asks for, so that what is outside is read twice. An
aggregation of another one stays below: Spark forgets the row that this has of no rows.
"""

from collections import Counter
from collections.abc import Callable, Collection

from sqlglot import exp

from rewrite.dialect.builders import bound_once, field, group, is_simple, struct, variable

_PROJECTION = frozenset({"expressions", "from_", "kind"})
"""What a SELECT has that computes each of its rows from one row below."""


def merged(query: exp.Select, lone: Collection[str], name: Callable[[str], str]) -> exp.Select:
    """Return a SELECT of one column as one on the aggregation below; itself where there is none.

    Args:
        query: The SELECT.
        lone: The aliases of aggregations that have one row, before HAVING.
        name: Returns a name nothing else has, from its first letter.
    """
    found = query
    while True:
        source = _source(found)
        if source is None:
            return query
        inner: exp.Select = source.this
        within = _within(found.expressions[0], source.alias, inner, name)
        if within is None:
            return query
        found = inner.copy()
        found.set("expressions", [within])
        if source.alias in lone:
            below = (part.alias for part in inner.find_all(exp.Subquery))
            return found if set(lone).isdisjoint(below) else query


def _source(query: exp.Select) -> exp.Subquery | None:
    """Return the SELECT that another computes its one column of, row by row."""
    if any(value for key, value in query.args.items() if key not in _PROJECTION):
        return None
    below = query.args.get("from_")
    source = below.this if below is not None else None
    is_one = len(query.expressions) == 1
    is_select = isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select)
    return source if is_one and is_select else None


def _within(
    expression: exp.Expression, alias: str, inner: exp.Select, name: Callable[[str], str]
) -> exp.Expression | None:
    """Return an expression over the columns of a SELECT as one over what these are made of."""
    wanted = expression.unalias()
    # Columns without a relation are variables of lambdas.
    columns = [column for column in wanted.find_all(exp.Column) if column.table]
    made = {item.alias: item.this for item in inner.expressions if isinstance(item, exp.Alias)}
    if any(column.table != alias or column.name not in made for column in columns):
        return None
    used: dict[str, exp.Expression] = {column.name: made[column.name] for column in columns}
    if not used or any(part.find(exp.Query, exp.Window) for part in (wanted, *used.values())):
        return None
    times = Counter(column.name for column in columns)
    times.update(column.name for column in columns if column.find_ancestor(exp.Lambda))
    costly = {
        key: value.copy() for key, value in used.items() if times[key] > 1 and not is_simple(value)
    }
    variable_name = name("r")

    def replaced(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column) or not node.table:
            return node
        if node.name not in costly:
            return group(used[node.name].copy())
        bound = variable(variable_name)
        return bound if len(costly) == 1 else field(bound, node.name)

    body = wanted.copy().transform(replaced)
    if not costly:
        return body
    value = next(iter(costly.values())) if len(costly) == 1 else struct(**costly)
    return bound_once(value, variable_name, body)
