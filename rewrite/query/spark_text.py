"""The last step: the text of a compiled query, and the description of its columns."""

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator

from rewrite.query.compilation import Compilation
from rewrite.query.selection import selection
from rewrite.results import OutputColumn, Scan, SparkQuery
from rewrite.values import Value


class _Writer(SparkGenerator):
    """Writes trees as they are: there is nothing of another dialect in them to be rewritten."""

    TRANSFORMS = {  # noqa: RUF012 - the base class declares it so
        kind: write for kind, write in SparkGenerator.TRANSFORMS.items() if kind is not exp.Select
    }


class _SparkText(Spark):
    Generator = _Writer


_SPARK = _SparkText()


def text_of(query: exp.Expression) -> str:
    """Return the text of a tree, which is no longer used otherwise."""
    return str(_SPARK.generate(query, copy=False))


def output(name: str, value: Value, typmod: int | None = None) -> OutputColumn:
    """Describe a column of the result by the value whose parts are its column names."""
    scale = value.scale.name if isinstance(value.scale, exp.Expression) else value.scale
    modifier = value.typmod if typmod is None else typmod
    return OutputColumn(name, value.type_oid, modifier, value.sql.name, scale)


def spark_query(
    compilation: Compilation,
    query: exp.Expression,
    columns: Sequence[OutputColumn],
    bound: int | None,
    *,
    with_text: bool = True,
) -> SparkQuery:
    """Return the query with its common table expressions as text, which may be left out."""
    if compilation.ctes:
        query.set("with_", exp.With(expressions=compilation.ctes))
    return SparkQuery(
        sql=text_of(query) if with_text else "",
        columns=tuple(columns),
        sources=tuple(compilation.sources.values()),
        row_bound=bound,
        input_rows=sum(compilation.rows.values()),
        scan=_scan(query, compilation),
        selection=selection(query, compilation),
        selected=_selected(query),
        filters=compilation.filters,
    )


def _selected(query: exp.Expression) -> tuple[str, ...]:
    """Return the names of the columns that all of the result are, in order; else nothing."""
    if not isinstance(query, exp.Select):
        return ()
    columns = [
        item.this.name
        for item in query.expressions
        if isinstance(item, exp.Alias) and isinstance(item.this, exp.Column)
    ]
    return tuple(columns) if len(columns) == len(query.expressions) else ()


_SCAN_CLAUSES = frozenset({"expressions", "from_", "limit", "offset"})


def _scan(query: exp.Expression, compilation: Compilation) -> Scan | None:
    """Return a query that only selects columns of a view as a scan of it."""
    clauses = {name for name, value in query.args.items() if value}
    if not isinstance(query, exp.Select) or not clauses <= _SCAN_CLAUSES:
        return None
    origin = query.args.get("from_")
    table = origin.this if origin is not None else None
    if not isinstance(table, exp.Table) or table.args.get("joins"):
        return None
    source = compilation.sources.get(f"{table.db}.{table.name}")
    columns = {
        item.alias: item.this.name
        for item in query.expressions
        if isinstance(item, exp.Alias) and isinstance(item.this, exp.Column)
    }
    if source is None or not columns or len(columns) != len(query.expressions):
        return None
    limit, offset = query.args.get("limit"), query.args.get("offset")
    return Scan(
        source,
        columns,
        int(limit.expression.name) if limit else None,
        int(offset.expression.name) if offset else 0,
    )
