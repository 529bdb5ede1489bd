"""Rows a statement changes: what they were, what they become, and what is told of them.

Before: ``CHECK (b > 0)`` and ``RETURNING old.b, b`` of an UPDATE whose rows have the alias ``m``.
After: ``COALESCE(m.a2 > 0, TRUE) AS check_1, m.b2 AS r1, m.a2 AS r2``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from typing_extensions import override

from catalog.model import Column
from catalog.pg import types
from catalog.pg.nodes import VarReturningType
from rewrite.expressions import read_stored, to_stored
from rewrite.journal.current_rows import CurrentRows, typed_null
from rewrite.query.compilation import Compilation
from rewrite.query.scopes import LayerScope, QueryScope
from rewrite.query.spark_text import output
from rewrite.query.sql import column, is_not_false, named
from rewrite.results import OutputColumn
from rewrite.tree import Item, Node, parse_item, transform
from rewrite.values import Value

# Numbers no range table has: Vars of the target before and after the change.
_OLD = -200
_NEW = -201

_RETURNING_OLD, _RETURNING_NEW = VarReturningType.OLD, VarReturningType.NEW
_BOOLEAN = types.BOOL


@dataclass(slots=True)
class Target:
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


class ChangedScope(LayerScope):
    """The changed rows: the target's Vars are its new values, or its old ones where asked for."""

    def __init__(self, inner: QueryScope, matched: exp.Select, alias: str, target: Target) -> None:
        super().__init__(inner, matched, alias)
        self.row = target
        self._varno = inner.query.integer("resultRelation")

    def new_value(self, attno: int) -> Value:
        """Return a column of what the row has become."""
        return self.row.value(self.row.new, attno)

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of the old row, of the new row, or of the other relations."""
        target = self.row
        if varno == self._varno:
            return target.value(target.new or target.old, attno)
        if varno == _OLD:
            return target.value(target.old, attno)
        if varno == _NEW:
            return self.new_value(attno)
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


class NewRowScope(QueryScope):
    """The new row alone, as CHECK constraints and generated columns see it: relation 1."""

    def __init__(self, compilation: Compilation, query: Node, target: Target) -> None:
        super().__init__(compilation, query, None)
        self._target = target

    @override
    def local(self, varno: int, attno: int) -> Value:
        """Return a column of the new row."""
        del varno
        return self._target.value(self._target.new, attno)


def generated_values(
    compilation: Compilation, query: Node, target: Target
) -> dict[int, exp.Expression]:
    """Return the stored generated columns of the new row, by attribute number."""
    scope = NewRowScope(compilation, query, target)
    computed = {}
    for attno, text in compilation.context.generated.get(target.rows.relid, {}).items():
        node = parse_item(text)
        if isinstance(node, Node):
            definition = target.rows.definition(attno)
            value = scope.compile(node)
            computed[attno] = to_stored(value, definition.type_oid, definition.typmod)
    return computed


def check_conditions(
    compilation: Compilation, query: Node, target: Target
) -> Iterator[tuple[OutputColumn, exp.Expression]]:
    """Yield the CHECK constraints of the new row: how each is told, and whether it holds."""
    scope = NewRowScope(compilation, query, target)
    checks = compilation.context.checks.get(target.rows.relid, ())
    for number, check in enumerate(checks, 1):
        node = parse_item(check.expression)
        if isinstance(node, Node):
            condition = is_not_false(scope.compile(node).sql)
            yield OutputColumn(check.name, _BOOLEAN, -1, f"check_{number}"), condition


def stored_output(definition: Column, name: str) -> OutputColumn:
    """Describe a column of the result that holds a column of the table as it is stored."""
    value = read_stored(column(name), definition.type_oid, definition.typmod)
    scale = value.scale if isinstance(value.scale, int) else None
    return OutputColumn(definition.name, definition.type_oid, definition.typmod, name, scale)


def returning_columns(changed: ChangedScope, result: exp.Select) -> list[OutputColumn]:
    """Select what RETURNING asks for."""
    columns = []
    for number, entry in enumerate(changed.query.nodes("returningList"), 1):
        value = changed.compile(entry.node("expr"))
        names = (f"r{number}", f"r{number}_scale")
        for part, name in zip(value.parts, names, strict=False):
            result.append("expressions", named(part, name))
        outside = value.with_parts([column(name) for name in names[: len(value.parts)]])
        columns.append(output(entry.text("resname") or "?column?", outside))
    return columns
