"""Small builders of Spark SQL trees: sqlglot's argument names are spelled out here alone."""

from collections.abc import Iterable, Sequence
from typing import Final

from sqlglot import exp

from rewrite.dialect.builders import chain

_CLOSED = (
    exp.Column,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Paren,
    exp.Subquery,
    exp.Exists,
    exp.Func,
    exp.Cast,
    exp.Case,
)
# sqlglot calls these functions, yet writes them as operators.
_OPEN = (exp.Connector, exp.Binary, exp.Unary, exp.Predicate)


def identifier(name: str) -> exp.Identifier:
    """Return a name; all names are made here and need no quotes."""
    return exp.Identifier(this=name, quoted=False)


def column(name: str, table: str | None = None) -> exp.Column:
    """Return a column reference."""
    if table is None:
        return exp.Column(this=identifier(name))
    return exp.Column(this=identifier(name), table=identifier(table))


def named(expression: exp.Expression, name: str) -> exp.Alias:
    """Return ``expression AS name``."""
    return exp.Alias(this=expression, alias=identifier(name))


def aliased(query: exp.Expression, alias: str) -> exp.Subquery:
    """Return ``(query) AS alias``."""
    return exp.Subquery(this=query, alias=exp.TableAlias(this=identifier(alias)))


def view(qualified_name: str, alias: str) -> exp.Table:
    """Return ``database.name AS alias``."""
    *database, name = qualified_name.split(".")
    table = exp.Table(this=identifier(name), alias=exp.TableAlias(this=identifier(alias)))
    if database:
        table.set("db", identifier(database[0]))
    return table


def select(
    expressions: Iterable[exp.Expression],
    source: exp.Expression | None = None,
    where: exp.Expression | None = None,
) -> exp.Select:
    """Return ``SELECT expressions FROM source WHERE where``."""
    query = exp.Select(expressions=list(expressions))
    if source is not None:
        query.set("from_", exp.From(this=source))
    if where is not None:
        query.set("where", exp.Where(this=where))
    return query


def literal(number: int) -> exp.Literal:
    """Return an integer literal."""
    return exp.Literal(this=str(number), is_string=False)


def closed(expression: exp.Expression) -> exp.Expression:
    """Return the expression in parentheses, unless it needs none as an operand."""
    if isinstance(expression, _CLOSED) and not isinstance(expression, _OPEN):
        return expression
    return exp.Paren(this=expression)


def conjunction(conditions: Sequence[exp.Expression]) -> exp.Expression | None:
    """Return the conditions joined by AND; None when there are none."""
    return _joined(exp.And, conditions)


def broadcast(query: exp.Select, alias: str) -> None:
    """Have Spark give all rows of a FROM item to each task that joins it."""
    hint = exp.Anonymous(this="BROADCAST", expressions=[column(alias)])
    query.set("hint", exp.Hint(expressions=[hint]))


def disjunction(conditions: Sequence[exp.Expression]) -> exp.Expression | None:
    """Return the conditions joined by OR; None when there are none."""
    return _joined(exp.Or, conditions)


def _joined(
    connector: type[exp.Connector], conditions: Sequence[exp.Expression]
) -> exp.Expression | None:
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return chain(connector, [closed(condition) for condition in conditions])


def negation(condition: exp.Expression) -> exp.Expression:
    """Return ``NOT condition``."""
    return exp.Not(this=closed(condition))


def is_null(expression: exp.Expression) -> exp.Expression:
    """Return ``expression IS NULL``."""
    return exp.Is(this=closed(expression), expression=exp.Null())


def is_not_false(condition: exp.Expression) -> exp.Expression:
    """Return a condition that is true where the given one is true or NULL."""
    return exp.Coalesce(this=condition, expressions=[exp.true()])


def is_not_true(condition: exp.Expression) -> exp.Expression:
    """Return a condition that is true where the given one is false or NULL."""
    return negation(exp.Coalesce(this=condition, expressions=[exp.false()]))


def exists(query: exp.Expression) -> exp.Expression:
    """Return ``EXISTS(query)``."""
    return exp.Exists(this=query)


LEAVES_CURRENT: Final = "leaves_current_rows"
"""Mark of a join that leaves the rows of a base which nothing supersedes."""


def row_number(
    partition_by: Sequence[exp.Expression], order_by: Sequence[exp.Expression]
) -> exp.Expression:
    """Return ``ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)``; Spark demands an order."""
    order = list(order_by) or [exp.Ordered(this=exp.Null(), nulls_first=True)]
    return windowed(exp.RowNumber(), partition_by, order)


def windowed(
    function: exp.Expression,
    partition_by: Sequence[exp.Expression],
    order_by: Sequence[exp.Expression],
) -> exp.Expression:
    """Return ``function OVER (PARTITION BY … ORDER BY …)``."""
    return exp.Window(
        this=function,
        partition_by=list(partition_by),
        order=exp.Order(expressions=list(order_by)),
        over="OVER",
    )


def union_all(queries: Sequence[exp.Expression]) -> exp.Expression:
    """Return the rows of one or more queries."""
    result, *others = queries
    for query in others:
        union = exp.Union(this=result, expression=query, distinct=False)
        result = union
    return result


def cast(expression: exp.Expression, spark_type: str) -> exp.Expression:
    """Return ``CAST(expression AS type)``."""
    return exp.Cast(this=expression, to=exp.DataType.build(spark_type, dialect="spark"))


def call(name: str, *arguments: exp.Expression) -> exp.Expression:
    """Return a call of a Spark function by its name."""
    return exp.Anonymous(this=name.upper(), expressions=list(arguments))
