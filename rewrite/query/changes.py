"""UPDATE and DELETE: the current rows a statement changes, with their new values.

Before: ``UPDATE t SET b = b + 1 FROM u WHERE t.a = u.a RETURNING b``.
After: ``SELECT m.a AS n1, m.new_b AS n2, m.new_b AS r1 FROM (SELECT t.a, t.b, t.b + 1 AS new_b,
ROW_NUMBER() OVER (PARTITION BY t.a …) AS place FROM t, u WHERE t.a = u.a) AS m
WHERE m.place = 1``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from typing_extensions import override

from catalog.model import Column
from rewrite.errors import UnsupportedError
from rewrite.expressions import grouping_key, read_stored, to_stored
from rewrite.query import sublinks
from rewrite.query.compilation import Compilation
from rewrite.query.from_clause import from_clause
from rewrite.query.scopes import FromScope, LayerScope, QueryScope
from rewrite.query.spark_text import output, spark_query
from rewrite.query.sql import aliased, column, is_not_false, literal, named, row_number, select
from rewrite.results import OutputColumn, RowChange
from rewrite.sources import ROW_IDENTITY, CurrentRows, typed_null
from rewrite.tree import Item, Node, parse_item, transform
from rewrite.values import Value

UPDATE, DELETE = 2, 4

# Numbers no range table has: Vars of the target before and after the change, of multiple SET, and
# the hidden row identity.
_OLD = -200
_NEW = -201
_MULTIPLE = -202
_IDENTITY = -203

_RETURNING_OLD, _RETURNING_NEW = 1, 2
_INT8, _BOOLEAN = 20, 16


@dataclass(slots=True)
class _Target:
    """The changed table: where its old and its new values are found."""

    rows: CurrentRows
    old: dict[int, exp.Column] = field(default_factory=dict)
    """Stored representation of the old row by attribute number."""
    new: dict[int, exp.Expression] = field(default_factory=dict)
    """Stored representation of the new row by attribute number; empty for DELETE."""

    def value(self, stored: Mapping[int, exp.Expression], attno: int) -> Value:
        """Return a column of the old or new row."""
        definition = self.rows.definition(attno)
        if attno not in stored:
            # What a deleted row became has no columns.
            return read_stored(typed_null(definition), definition.type_oid, definition.typmod)
        return read_stored(stored[attno].copy(), definition.type_oid, definition.typmod)


class _SourceScope(FromScope):
    """The FROM clause of an UPDATE, where SET may take several columns of one subquery."""

    @override
    def prepare(self, node: Node) -> Node:
        """Replace the parameters that stand for columns of a multiple SET by columns."""
        prepared = transform(node, _multiple_column)
        return prepared if isinstance(prepared, Node) else node

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of the FROM clause or of a subquery of a multiple SET."""
        target = self.relations.get(self.query.integer("resultRelation"))
        if varno == _IDENTITY and isinstance(target, CurrentRows):
            return target.row_identity()
        if varno != _MULTIPLE:
            return super().local(varno, attno)
        number, place = attno >> 16, attno & 0xFFFF
        for entry in self.query.nodes("targetList"):
            node = entry.node("expr")
            if node.tag == "SUBLINK" and node["subLinkId"] == number:
                return sublinks.column_value(node, self, place)
        raise UnsupportedError("SET of several columns in this place is not supported")


def _multiple_column(node: Node, depth: int) -> Item | None:
    if node.tag == "PARAM" and node["paramkind"] == sublinks.PARAM_MULTIEXPR:
        fields: dict[str, Item] = {"varno": _MULTIPLE, "varattno": node["paramid"]}
        return Node("VAR", {**fields, "varlevelsup": depth})
    return None


class _ChangedScope(LayerScope):
    """The changed rows: the target's Vars are its new values, or its old ones where asked for."""

    def __init__(self, inner: QueryScope, matched: exp.Select, alias: str, target: _Target) -> None:
        super().__init__(inner, matched, alias)
        self._target = target
        self._varno = inner.query.integer("resultRelation")

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of the old row, of the new row, or of the other relations."""
        target = self._target
        if varno == self._varno:
            return target.value(target.new or target.old, attno)
        if varno == _OLD:
            return target.value(target.old, attno)
        if varno == _NEW:
            return target.value(target.new, attno)
        return super().local(varno, attno)

    @override
    def prepare(self, node: Node) -> Node:
        """Give the Vars of OLD and NEW numbers of their own."""
        prepared = transform(node, self._returned)
        return prepared if isinstance(prepared, Node) else node

    def _returned(self, node: Node, depth: int) -> Item | None:
        if node.tag != "VAR" or node["varlevelsup"] != depth or node["varno"] != self._varno:
            return None
        kind = node.get("varreturningtype", 0)
        if kind == _RETURNING_OLD:
            return node.replace(varno=_OLD, varreturningtype=0)
        return node.replace(varno=_NEW, varreturningtype=0) if kind == _RETURNING_NEW else None


class _NewRowScope(QueryScope):
    """The new row alone, as CHECK constraints and generated columns see it: relation 1."""

    def __init__(self, compilation: Compilation, query: Node, target: _Target) -> None:
        super().__init__(compilation, query, None)
        self._target = target

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of the new row."""
        del varno
        return self._target.value(self._target.new, attno)


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
    target = _Target(relation)
    table = compilation.context.snapshots[source.range_table[varno - 1].integer("relid")].table
    assigned = _match(scope, rows, target, table.columns)
    alias = compilation.name("m")
    distinct = len(source.relations) > 1
    if distinct:
        place = row_number(_identity(scope, relation.key), [])
        rows.append("expressions", named(place, f"{alias}_place"))
        bound = _smaller(bound, relation.bound)
    first = exp.EQ(this=column(f"{alias}_place", alias), expression=literal(1))
    result = select([], aliased(rows, alias), first if distinct else None)
    changed = _ChangedScope(scope, rows, alias, target)
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
            columns.append(_stored_output(relation.definition(attno), f"k{attno}"))
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
    result: exp.Select, target: _Target, definitions: tuple[Column, ...], replaced: set[int]
) -> Iterator[OutputColumn]:
    """Select what columns that are replaced were; yield where the old row is found."""
    for definition in definitions:
        name = f"n{definition.attnum}"
        if definition.attnum in replaced:
            name = f"o{definition.attnum}"
            result.append("expressions", named(target.old[definition.attnum].copy(), name))
        yield _stored_output(definition, name)


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


def _identity(scope: QueryScope, key: tuple[int, ...]) -> list[exp.Expression]:
    """Return what tells the rows of the target apart."""
    varno = scope.query.integer("resultRelation")
    if not key:
        return [scope.local(_IDENTITY, 1).sql]
    return [grouping_key(scope.local(varno, attno)) for attno in key]


def _match(
    scope: QueryScope, rows: exp.Select, target: _Target, columns: tuple[Column, ...]
) -> dict[int, str]:
    """Select the old row and the assigned values; return the names of the latter."""
    varno = scope.query.integer("resultRelation")
    for definition in columns:
        stored = scope.local(varno, definition.attnum).sql
        rows.append("expressions", named(stored, f"b{definition.attnum}"))
    if not target.rows.key:
        identity = scope.local(_IDENTITY, 1)
        rows.append("expressions", named(identity.sql, ROW_IDENTITY))
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


def _see_old_rows(target: _Target, columns: tuple[Column, ...], alias: str) -> None:
    """Say where the old values are found once the rows are matched."""
    for definition in columns:
        target.old[definition.attnum] = column(f"b{definition.attnum}", alias)


def _see_new_rows(
    compilation: Compilation, query: Node, target: _Target, assigned: dict[int, str]
) -> None:
    """Say where the new values are found: assigned, generated, or still the old ones."""
    for attno, old in target.old.items():
        name = assigned.get(attno)
        target.new[attno] = old if name is None else column(name, old.table)
    scope = _NewRowScope(compilation, query, target)
    computed = {}
    for attno, text in compilation.context.generated.get(target.rows.relid, {}).items():
        node = parse_item(text)
        if isinstance(node, Node):
            definition = target.rows.definition(attno)
            value = scope.compile(node)
            computed[attno] = to_stored(value, definition.type_oid, definition.typmod)
    target.new.update(computed)


def _stored_output(definition: Column, name: str) -> OutputColumn:
    value = read_stored(column(name), definition.type_oid, definition.typmod)
    scale = value.scale if isinstance(value.scale, int) else None
    return OutputColumn(definition.name, definition.type_oid, definition.typmod, name, scale)


def _outputs(
    changed: _ChangedScope,
    result: exp.Select,
    target: _Target,
    definitions: tuple[Column, ...],
    *,
    update: bool,
) -> tuple[list[OutputColumn], list[OutputColumn]]:
    columns = []
    written = target.new if update else target.old
    for definition in definitions:
        name = f"n{definition.attnum}"
        result.append("expressions", named(written[definition.attnum].copy(), name))
        columns.append(_stored_output(definition, name))
    if not target.rows.key:
        result.append("expressions", named(column(ROW_IDENTITY, changed.alias), ROW_IDENTITY))
        columns.append(OutputColumn(ROW_IDENTITY, _INT8, -1, ROW_IDENTITY))
    returning = _returning(changed, result)
    columns += returning
    context = changed.compilation.context
    if update:
        scope = _NewRowScope(changed.compilation, changed.query, target)
        for number, check in enumerate(context.checks.get(target.rows.relid, ()), 1):
            node = parse_item(check.expression)
            if isinstance(node, Node):
                condition = is_not_false(scope.compile(node).sql)
                result.append("expressions", named(condition, f"check_{number}"))
                columns.append(OutputColumn(check.name, _BOOLEAN, -1, f"check_{number}"))
    return columns, returning


def _returning(changed: _ChangedScope, result: exp.Select) -> list[OutputColumn]:
    columns = []
    for number, entry in enumerate(changed.query.nodes("returningList"), 1):
        value = changed.compile(entry.node("expr"))
        names = (f"r{number}", f"r{number}_scale")
        for part, name in zip(value.parts, names, strict=False):
            result.append("expressions", named(part, name))
        outside = value.with_parts([column(name) for name in names[: len(value.parts)]])
        columns.append(output(entry.text("resname") or "?column?", outside))
    return columns
