"""INSERT … SELECT: the rows to insert, as the statement computes them.

Not handled here: ON CONFLICT and RETURNING, which concern the rows once they are written.
"""

from catalog.pg.nodes import CmdType
from rewrite.command import FIRST_ATTRIBUTE
from rewrite.errors import UnsupportedError
from rewrite.query.compilation import Compilation, projected
from rewrite.query.from_clause import from_clause
from rewrite.query.scopes import FromScope
from rewrite.query.spark_text import output, spark_query
from rewrite.results import SparkQuery
from rewrite.tree import Node

_INSERT = CmdType.INSERT


def insert_source(compilation: Compilation, query: Node) -> SparkQuery:
    """Return the rows an INSERT would insert; the columns are named as those of the table.

    The columns are those the statement names; defaults of the others are the caller's business.
    """
    if query["commandType"] != _INSERT:
        raise UnsupportedError("this statement as a source of rows is not supported")
    if query.items("withCheckOptions"):
        raise UnsupportedError("row-level security and views with check option are not supported")
    scope = FromScope(compilation, query, None)
    target = scope.range_table[query.integer("resultRelation") - 1]
    named_columns = _named_columns(query, target)
    layer, rows, bound = from_clause(scope, query.nodes("targetList"))
    entries = [
        entry
        for entry in sorted(query.nodes("targetList"), key=lambda entry: entry.integer("resno"))
        if not entry["resjunk"] and entry.integer("resno") in named_columns
    ]
    items, values = projected([layer.compile(entry.node("expr")) for entry in entries], "o")
    rows.set("expressions", items)
    columns = [
        output(entry.text("resname") or "", value)
        for entry, value in zip(entries, values, strict=True)
    ]
    return spark_query(compilation, rows, columns, bound)


def _named_columns(query: Node, target: Node) -> set[int]:
    permissions = query.nodes("rteperminfos")[target.integer("perminfoindex") - 1]
    return {bit - FIRST_ATTRIBUTE for bit in permissions.integers("insertedCols")}
