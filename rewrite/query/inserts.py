"""INSERT … SELECT: the rows to insert, in storage representation.

Not handled here: ON CONFLICT and RETURNING, which concern the rows once they are written.
"""

from sqlglot import exp

from catalog.model import JournalTable
from rewrite.errors import UnsupportedError
from rewrite.expressions import read_stored, to_stored
from rewrite.query.compilation import Compilation
from rewrite.query.from_clause import from_clause
from rewrite.query.scopes import FromScope
from rewrite.query.spark_text import spark_query
from rewrite.query.sql import column, named
from rewrite.results import OutputColumn, SparkQuery
from rewrite.tree import Node

_INSERT = 3
# Bit of attribute 0 in a bitmapset of columns (sysattr.h, FirstLowInvalidHeapAttributeNumber).
_FIRST_ATTRIBUTE = 7


def insert_source(compilation: Compilation, query: Node) -> tuple[SparkQuery, tuple[int, ...]]:
    """Return the rows an INSERT would insert and the attribute numbers of their columns.

    The columns are those the statement names; defaults of the others are the caller's business.
    """
    if query["commandType"] != _INSERT:
        raise UnsupportedError("this statement as a source of rows is not supported")
    if query.items("withCheckOptions"):
        raise UnsupportedError("row-level security and views with check option are not supported")
    scope = FromScope(compilation, query, None)
    target = scope.range_table[query.integer("resultRelation") - 1]
    relid = target.integer("relid")
    if relid not in compilation.context.snapshots:
        raise compilation.snapshot_missing(target.node("eref").text("aliasname") or "")
    table = compilation.context.snapshots[relid].table
    named_columns = _named_columns(query, target)
    layer, rows, bound = from_clause(scope, query.nodes("targetList"))
    columns: list[OutputColumn] = []
    attnums: list[int] = []
    for entry in sorted(query.nodes("targetList"), key=lambda entry: entry.integer("resno")):
        attno = entry.integer("resno")
        if entry["resjunk"] or attno not in named_columns:
            continue
        value = layer.compile(entry.node("expr"))
        name = f"o{len(columns) + 1}"
        columns.append(_add(rows, table, attno, to_stored(value, *_type(table, attno)), name))
        attnums.append(attno)
    query_result = spark_query(compilation, rows, columns, bound)
    return query_result, tuple(attnums)


def _type(table: JournalTable, attno: int) -> tuple[int, int]:
    definition = table.column(attno)
    return definition.type_oid, definition.typmod


def _add(
    rows: exp.Select, table: JournalTable, attno: int, stored: exp.Expression, name: str
) -> OutputColumn:
    rows.append("expressions", named(stored, name))
    definition = table.column(attno)
    value = read_stored(column(name), definition.type_oid, definition.typmod)
    scale = value.scale if isinstance(value.scale, int) else None
    return OutputColumn(definition.name, definition.type_oid, definition.typmod, name, scale)


def _named_columns(query: Node, target: Node) -> set[int]:
    permissions = query.nodes("rteperminfos")[target.integer("perminfoindex") - 1]
    return {bit - _FIRST_ATTRIBUTE for bit in permissions.integers("insertedCols")}
