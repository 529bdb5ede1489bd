"""Range table entries: what each item of FROM reads.

Not handled (0A000): relations without journal, row security, security barrier views, TABLESAMPLE,
recursive and data-modifying common table expressions.
"""

from sqlglot import exp

from catalog.journal.layout import journal_name
from catalog.pg.nodes import RTEKind
from rewrite.errors import RowSecurityError, UnsupportedError
from rewrite.expressions import align
from rewrite.journal.current_rows import CurrentRows, JournalRows
from rewrite.partitions import NoRows, PartitionedRows
from rewrite.query.compilation import Block, Compilation, projected
from rewrite.query.functions import function_relation
from rewrite.query.outer_references import reads_outside
from rewrite.query.relations import BlockRelation, Relation, TableRelation
from rewrite.query.scopes import FromScope
from rewrite.query.sql import column, identifier, named, select, view
from rewrite.tree import Item, Node
from rewrite.values import Value

RELATION, SUBQUERY, JOIN = RTEKind.RELATION, RTEKind.SUBQUERY, RTEKind.JOIN
FUNCTION, TABLE_FUNCTION, VALUES = RTEKind.FUNCTION, RTEKind.TABLEFUNC, RTEKind.VALUES
CTE, TUPLE_STORE = RTEKind.CTE, RTEKind.NAMEDTUPLESTORE
RESULT, GROUP = RTEKind.RESULT, RTEKind.GROUP

_LITERALS = (exp.Literal, exp.Null, exp.Boolean)


def relation(scope: FromScope, varno: int) -> Relation:
    """Return the FROM item of a range table entry."""
    entry = scope.range_table[varno - 1]
    if entry.items("securityQuals"):
        _require_exempt(scope, entry)
    kind = entry["rtekind"]
    if kind == RELATION:
        return _table(scope, entry)
    if kind == SUBQUERY:
        return _subquery(scope, entry)
    if kind == VALUES:
        return _values(scope, entry)
    if kind == CTE:
        return _common_table(scope, entry)
    if kind == RESULT:
        return BlockRelation(scope.compilation, Block(select([_one()]), (), 1))
    if kind == FUNCTION:
        return function_relation(scope, entry)
    raise UnsupportedError(
        "table functions (XMLTABLE, JSON_TABLE) and transition tables are not supported"
    )


def _require_exempt(scope: FromScope, entry: Node) -> None:
    """Refuse what row security filters; of a journal, what it hides as a whole.

    Raises:
        RowSecurityError: A journal.
        UnsupportedError: A table.
    """
    context = scope.compilation.context
    table = context.journals.get(entry.integer("relid")) if entry.get("relid") else None
    if table is None:
        raise UnsupportedError("row-level security is not supported")
    if not all(_is_true(condition) for condition in entry.nodes("securityQuals")):
        raise RowSecurityError(journal_name(context.snapshots[table].table.name))


def _is_true(condition: Node) -> bool:
    datum = condition["constvalue"] if condition.tag == "CONST" else None
    return isinstance(datum, bytes) and any(datum)


def _one() -> exp.Expression:
    return named(exp.Literal.number(1), "present")


def _name(entry: Node) -> str:
    return entry.node("eref").text("aliasname") or ""


def _table(scope: FromScope, entry: Node) -> Relation:
    if entry.get("tablesample") is not None:
        raise UnsupportedError("TABLESAMPLE is not supported")
    context = scope.compilation.context
    relid = entry.integer("relid")
    if relid in context.journals:
        alias = entry.optional("alias")
        if alias is not None and alias.items("colnames"):
            raise UnsupportedError("renaming the columns of a journal is not supported")
        return _journal(scope.compilation, relid, entry.node("eref").items("colnames"))
    if relid in context.partitioned:
        leaves = context.partitioned[relid]
        if not leaves.relids:
            return NoRows(scope.compilation, leaves)
        return PartitionedRows(scope.compilation, leaves, context.snapshots)
    if relid not in context.snapshots:
        raise scope.compilation.snapshot_missing(_name(entry))
    return CurrentRows(scope.compilation, context.snapshots[relid])


def _journal(compilation: Compilation, relid: int, names: list[Item]) -> Relation:
    context = compilation.context
    snapshot = context.snapshots[context.journals[relid]]
    return JournalRows(compilation, snapshot, tuple(str(name) for name in names))


def _subquery(scope: FromScope, entry: Node) -> Relation:
    compilation = scope.compilation
    relid = entry.get("relid")
    subquery = entry.node("subquery")
    if isinstance(relid, int) and relid in compilation.context.journals:
        names = [target["resname"] for target in subquery.nodes("targetList")]
        return _journal(compilation, relid, names)
    if entry.get("security_barrier"):
        raise UnsupportedError("security barrier views are not supported")
    # Only a LATERAL subquery may refer to its neighbours; PostgreSQL's analysis has seen to that.
    lateral = bool(entry.get("lateral"))
    block = compilation.block(subquery, scope, apart=lateral)
    return BlockRelation(compilation, block, lateral=lateral)


def _values(scope: FromScope, entry: Node) -> Relation:
    rows = [
        [scope.compile(cell) for cell in row if isinstance(cell, Node)]
        for row in entry.items("values_lists")
        if isinstance(row, list)
    ]
    columns = [align(cells) for cells in zip(*rows, strict=True)]
    aligned = [list(row) for row in zip(*columns, strict=True)] or [[] for _ in rows]
    return BlockRelation(
        scope.compilation,
        values_block(scope.compilation, aligned),
        lateral=bool(entry.get("lateral")),
    )


def values_block(compilation: Compilation, rows: list[list[Value]]) -> Block:
    """Return the query that yields the given rows, whose columns are aligned."""
    prefix = compilation.name("r") + "_"
    items, columns = projected(rows[0], prefix)
    if len(rows) == 1 or not items:
        query: exp.Expression = select(items or [_one()])
        for _ in rows[1:]:
            query = exp.Union(this=query, expression=select([_one()]), distinct=False)
        return Block(query, columns, len(rows))
    parts = [[part for value in row for part in value.parts] for row in rows]
    if all(_plain(part) for row in parts for part in row):
        names = [part.name for value in columns for part in value.parts]
        table = exp.Values(
            expressions=[exp.Tuple(expressions=row) for row in parts],
            alias=exp.TableAlias(
                this=identifier(f"{prefix}v"), columns=[identifier(name) for name in names]
            ),
        )
        return Block(select([column(name) for name in names], table), columns, len(rows))
    query = select(items)
    for row in rows[1:]:
        query = exp.Union(this=query, expression=select(projected(row, prefix)[0]), distinct=False)
    return Block(query, columns, len(rows))


def _plain(part: exp.Expression) -> bool:
    while isinstance(part, exp.Cast | exp.Paren | exp.Neg):
        part = part.this
    return isinstance(part, _LITERALS)


def _common_table(scope: FromScope, entry: Node) -> Relation:
    compilation = scope.compilation
    if entry.get("self_reference"):
        raise UnsupportedError("WITH RECURSIVE is not supported")
    owner = scope.up(entry.integer("ctelevelsup"))
    name = entry.text("ctename")
    for definition in owner.query.nodes("cteList"):
        if definition.text("ctename") == name:
            break
    else:
        raise UnsupportedError(f'common table expression "{name}" in this place is not supported')
    query = definition.node("ctequery")
    if definition.get("cterecursive"):
        raise UnsupportedError("WITH RECURSIVE is not supported")
    if query["commandType"] != 1:
        raise UnsupportedError("data-modifying statements in WITH are not supported")
    if reads_outside(list(query.fields.values())):
        if any(scope.up(level).apart for level in range(entry.integer("ctelevelsup"))):
            raise UnsupportedError(
                "common table expression over outer columns, used in a sublink is not supported"
            )
        return BlockRelation(compilation, compilation.block(query, owner))
    known = compilation.cte_blocks.get(id(definition))
    if known is None:
        known = compilation.name("w"), compilation.block(query, owner)
        compilation.cte_blocks[id(definition)] = known
        compilation.ctes.append(
            exp.CTE(this=known[1].query, alias=exp.TableAlias(this=identifier(known[0])))
        )
    alias = compilation.name("t")
    return TableRelation(view(known[0], alias), known[1].relation(alias), known[1].bound)
