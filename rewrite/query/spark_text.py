"""The last step: the text of a compiled query, and the description of its columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator

from rewrite.query.compilation import Compilation
from rewrite.query.selection import selection
from rewrite.query.sql import LEAVES_CURRENT
from rewrite.results import Cut, OutputColumn, Scan, SparkQuery
from rewrite.values import Value

_AGGREGATE: Final = re.compile(
    r"COUNT|SUM|MIN|MAX|AVG|ANY_VALUE|EVERY|SOME|BOOL_AND|BOOL_OR|BIT_AND|BIT_OR|BIT_XOR"
    r"|STDDEV\w*|VAR\w*|CORR|COVAR\w*|REGR_\w+|PERCENTILE\w*|MODE|FIRST|LAST|COLLECT_\w+"
    r"|ARRAY_AGG|LISTAGG|STRING_AGG|MAX_BY|MIN_BY",
    re.IGNORECASE,
)
"""Names of Spark's aggregates."""

_PATTERN: Final = re.compile(r"RLIKE|REGEXP_\w+|SPLIT", re.IGNORECASE)
"""Names of Spark's functions that match regular expressions."""


class _Writer(SparkGenerator):
    """Writes trees as they are: there is nothing of another dialect in them to be rewritten.

    It notes what it comes across that says how the query is best run.
    """

    works_on_all = False
    sorts = False
    matches_patterns = False

    def grouped(self, tree: exp.Group) -> str:
        """Write GROUP BY."""
        self.works_on_all = True
        return str(self.group_sql(tree))

    def distinct(self, tree: exp.Distinct) -> str:
        """Write DISTINCT."""
        self.works_on_all = True
        return str(self.distinct_sql(tree))

    def combined(self, tree: exp.Intersect | exp.Except) -> str:
        """Write INTERSECT or EXCEPT."""
        self.works_on_all = True
        return str(self.set_operations(tree))

    def ordered(self, tree: exp.Order) -> str:
        """Write ORDER BY."""
        self.works_on_all = self.sorts = True
        return str(self.order_sql(tree))

    def joined(self, tree: exp.Join) -> str:
        """Write a join."""
        self.works_on_all |= LEAVES_CURRENT not in tree.meta
        return str(self.join_sql(tree))

    def windowed(self, tree: exp.Window) -> str:
        """Write a window; that rows are numbered by columns is no work on all of them."""
        self.sorts |= tree.args.get("order") is not None
        numbers = _is_row_number(tree.this) and _is_by_columns(tree)
        self.works_on_all |= tree.args.get("order") is not None and not numbers
        return str(self.window_sql(tree))

    def called(self, tree: exp.Anonymous) -> str:
        """Write a call by its name."""
        self.works_on_all |= _AGGREGATE.fullmatch(tree.name) is not None
        self.matches_patterns |= _PATTERN.fullmatch(tree.name) is not None
        return str(self.anonymous_sql(tree))

    def liked(self, tree: exp.Like) -> str:
        """Write LIKE."""
        self.matches_patterns = True
        return str(self.like_sql(tree))

    def aggregated(self, tree: exp.Expression) -> str:
        """Write an aggregate that has a class of its own."""
        self.works_on_all = True
        known = SparkGenerator.TRANSFORMS.get(type(tree), SparkGenerator.function_fallback_sql)
        return str(known(self, tree))

    TRANSFORMS = {  # noqa: RUF012 - the base class declares it so
        **{k: write for k, write in SparkGenerator.TRANSFORMS.items() if k is not exp.Select},
        exp.Group: grouped,
        exp.Distinct: distinct,
        exp.Order: ordered,
        **dict.fromkeys((exp.Intersect, exp.Except), combined),
        exp.Join: joined,
        exp.Window: windowed,
        exp.Anonymous: called,
        exp.Like: liked,
        **dict.fromkeys((exp.Count, exp.Min, exp.AnyValue), aggregated),
    }


def _is_row_number(function: exp.Expression) -> bool:
    return isinstance(function, exp.RowNumber) or function.name.upper() == "ROW_NUMBER"


def _is_by_columns(window: exp.Expression) -> bool:
    order = window.args.get("order")
    keys = [*(window.args.get("partition_by") or ()), *(order.expressions if order else ())]
    return all(
        isinstance(key.this if isinstance(key, exp.Ordered) else key, exp.Column | exp.Null)
        for key in keys
    )


class _SparkText(Spark):
    Generator = _Writer


_SPARK = _SparkText()


def text_of(query: exp.Expression) -> str:
    """Return the text of a tree, which is no longer used otherwise."""
    return str(_SPARK.generate(query, copy=False))


@dataclass(frozen=True, slots=True)
class _Written:
    """The text of a query, and what has been noted on the way."""

    sql: str = ""
    works_on_all: bool = False
    sorts: bool = False
    matches_patterns: bool = False
    cut: Cut | None = None


def _written(query: exp.Expression) -> _Written:
    limit, offset = query.args.get("limit"), query.args.get("offset")
    rows, left_out = _number(limit), _number(offset) if offset else 0
    writer = _Writer(dialect=_SPARK)
    if rows is None or left_out is None:
        text = str(writer.generate(query, copy=False))
        return _Written(text, writer.works_on_all, writer.sorts, writer.matches_patterns)
    query.set("limit", None)
    query.set("offset", None)
    text = str(writer.generate(query, copy=False))
    query.set("limit", limit)
    query.set("offset", offset)
    whole = f"{text} LIMIT {rows}" + (f" OFFSET {left_out}" if offset else "")
    cut = Cut(text, rows, left_out)
    return _Written(whole, writer.works_on_all, writer.sorts, writer.matches_patterns, cut)


def _number(clause: exp.Expression | None) -> int | None:
    """Return the number of LIMIT or OFFSET; None for none, and for what is computed."""
    value = None if clause is None else clause.expression
    return int(value.name) if isinstance(value, exp.Literal) and value.name.isdigit() else None


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
    written = _written(query) if with_text else _Written()
    return SparkQuery(
        sql=written.sql,
        columns=tuple(columns),
        sources=tuple(compilation.sources.values()),
        row_bound=bound,
        input_rows=sum(compilation.rows.values()),
        scan=_scan(query, compilation),
        selection=selection(query, compilation),
        selected=_selected(query),
        filters=compilation.filters,
        works_on_all=written.works_on_all,
        sorts=written.sorts,
        matches_patterns=written.matches_patterns,
        cut=written.cut,
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
