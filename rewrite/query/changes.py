"""UPDATE and DELETE: the current rows a statement changes, with their new values.

Before: ``UPDATE t SET b = b + 1 FROM u WHERE t.a = u.a RETURNING b``.
After: ``SELECT m.a AS n1, m.new_b AS n2, m.new_b AS r1 FROM (SELECT t.a, t.b, t.b + 1 AS new_b,
ROW_NUMBER() OVER (PARTITION BY t.a …) AS place FROM t, u WHERE t.a = u.a) AS m
WHERE m.place = 1``.
"""

from collections.abc import Iterator

from sqlglot import exp
from typing_extensions import override

from catalog.journal.layout import IDENTITY
from catalog.model import LEAF, Column
from catalog.pg import types
from catalog.pg.nodes import CmdType
from rewrite.errors import UnsupportedError
from rewrite.expressions import grouping_key, to_stored
from rewrite.journal.current_rows import CurrentRows
from rewrite.query.changed_rows import (
    ChangedScope,
    Target,
    check_conditions,
    generated_values,
    returning_columns,
    stored_output,
)
from rewrite.query.compilation import Compilation
from rewrite.query.from_clause import from_clause
from rewrite.query.scopes import FromScope, QueryScope
from rewrite.query.spark_text import spark_query
from rewrite.query.sql import aliased, column, literal, named, row_number, select
from rewrite.results import OutputColumn, RowChange
from rewrite.tree import Node
from rewrite.values import Value

UPDATE, DELETE = CmdType.UPDATE, CmdType.DELETE

# A number no range table has.
_IDENTITY = -203

_INT8 = types.INT8


class _SourceScope(FromScope):
    """The FROM clause of an UPDATE or DELETE."""

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of the FROM clause, or the identity of the changed row."""
        target = self.relations.get(self.query.integer("resultRelation"))
        if varno == _IDENTITY and isinstance(target, CurrentRows):
            return target.row_identity()
        return super().local(varno, attno)


def compile_change(compilation: Compilation, query: Node, *, with_old: bool = False) -> RowChange:
    """Compile an UPDATE or DELETE into the rows it writes, and what they were if that is wanted."""
    _refuse(query)
    source = _SourceScope(compilation, query, None)
    assignments = [] if query["commandType"] == DELETE else query.nodes("targetList")
    scope, rows, bound = from_clause(source, assignments)
    varno = query.integer("resultRelation")
    relation = source.relations.get(varno)
    if not isinstance(relation, CurrentRows):
        raise UnsupportedError("UPDATE or DELETE of this relation is not supported")
    target = Target(relation)
    table = compilation.context.snapshots[source.range_table[varno - 1].integer("relid")].table
    assigned = _match(scope, rows, target, table.columns)
    alias = compilation.name("m")
    distinct = len(source.relations) > 1
    if distinct:
        place = row_number(_identity(scope, relation), [])
        rows.append("expressions", named(place, f"{alias}_place"))
        bound = _smaller(bound, relation.bound)
    first = exp.EQ(this=column(f"{alias}_place", alias), expression=literal(1))
    result = select([], aliased(rows, alias), first if distinct else None)
    changed = ChangedScope(scope, rows, alias, target)
    update = query["commandType"] == UPDATE
    _see_old_rows(target, table.columns, alias)
    if update:
        _see_new_rows(compilation, query, target, assigned)
    columns, returning = _outputs(changed, result, target, table.columns, update=update)
    computed = compilation.context.generated.get(relation.relid, {}).keys()
    changes_key = update and bool((set(assigned) | computed) & set(relation.key))
    if changes_key:
        for attno in relation.key:
            result.append("expressions", named(target.old[attno].copy(), f"k{attno}"))
            columns.append(stored_output(relation.definition(attno), f"k{attno}"))
    old: tuple[OutputColumn, ...] = ()
    if with_old:
        replaced = set(assigned) | set(computed) if update else set()
        old = tuple(_old_outputs(result, target, table.columns, replaced))
        columns += [one for one in old if one.column.startswith("o")]
    return RowChange(
        kind="update" if update else "delete",
        relid=table.relid,
        query=spark_query(compilation, result, columns, bound),
        changes_key=changes_key,
        returning=tuple(returning),
        row_bound=bound,
        old=old,
    )


def _old_outputs(
    result: exp.Select, target: Target, definitions: tuple[Column, ...], replaced: set[int]
) -> Iterator[OutputColumn]:
    """Select what columns that are replaced were; yield where the old row is found."""
    for definition in definitions:
        name = f"n{definition.attnum}"
        if definition.attnum in replaced:
            name = f"o{definition.attnum}"
            result.append("expressions", named(target.old[definition.attnum].copy(), name))
        yield stored_output(definition, name)


def _smaller(one: int | None, other: int | None) -> int | None:
    bounds = [bound for bound in (one, other) if bound is not None]
    return min(bounds, default=None)


def _refuse(query: Node) -> None:
    if query["commandType"] not in {UPDATE, DELETE}:
        raise UnsupportedError("this statement as a change of rows is not supported")
    if query.items("withCheckOptions"):
        raise UnsupportedError("row-level security and views with check option are not supported")
    if query.get("hasTargetSRFs"):
        raise UnsupportedError("set-returning functions in an UPDATE are not supported")


def _identity(scope: QueryScope, relation: CurrentRows) -> list[exp.Expression]:
    """Return what tells the rows of the target apart."""
    varno = scope.query.integer("resultRelation")
    if not relation.key:
        leaf = [scope.local(varno, LEAF).sql] if relation.has_leaves else []
        return [scope.local(_IDENTITY, 1).sql, *leaf]
    return [grouping_key(scope.local(varno, attno)) for attno in relation.key]


def _match(
    scope: QueryScope, rows: exp.Select, target: Target, columns: tuple[Column, ...]
) -> dict[int, str]:
    """Select the old row and the assigned values; return the names of the latter."""
    varno = scope.query.integer("resultRelation")
    for definition in columns:
        stored = scope.local(varno, definition.attnum).sql
        rows.append("expressions", named(stored, f"b{definition.attnum}"))
    if not target.rows.key:
        identity = scope.local(_IDENTITY, 1)
        rows.append("expressions", named(identity.sql, IDENTITY))
    assigned = {}
    if scope.query["commandType"] == UPDATE:
        for entry in scope.query.nodes("targetList"):
            if entry["resjunk"]:
                continue
            attno = entry.integer("resno")
            definition = target.rows.definition(attno)
            value = scope.compile(entry.node("expr"))
            stored = to_stored(value, definition.type_oid, definition.typmod)
            assigned[attno] = f"a{attno}"
            rows.append("expressions", named(stored, f"a{attno}"))
    return assigned


def _see_old_rows(target: Target, columns: tuple[Column, ...], alias: str) -> None:
    """Say where the old values are found once the rows are matched."""
    for definition in columns:
        target.old[definition.attnum] = column(f"b{definition.attnum}", alias)


def _see_new_rows(
    compilation: Compilation, query: Node, target: Target, assigned: dict[int, str]
) -> None:
    """Say where the new values are found: assigned, generated, or still the old ones."""
    for attno, old in target.old.items():
        name = assigned.get(attno)
        target.new[attno] = old if name is None else column(name, old.table)
    target.new.update(generated_values(compilation, query, target))


def _outputs(
    changed: ChangedScope,
    result: exp.Select,
    target: Target,
    definitions: tuple[Column, ...],
    *,
    update: bool,
) -> tuple[list[OutputColumn], list[OutputColumn]]:
    columns = []
    written = target.new if update else target.old
    for definition in definitions:
        name = f"n{definition.attnum}"
        result.append("expressions", named(written[definition.attnum].copy(), name))
        columns.append(stored_output(definition, name))
    if not target.rows.key:
        result.append("expressions", named(column(IDENTITY, changed.alias), IDENTITY))
        columns.append(OutputColumn(IDENTITY, _INT8, -1, IDENTITY))
    returning = returning_columns(changed, result)
    columns += returning
    if update:
        for told, condition in check_conditions(changed.compilation, changed.query, target):
            result.append("expressions", named(condition, told.column))
            columns.append(told)
    return columns, returning
