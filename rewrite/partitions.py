"""Partitioned tables: the union of leaves for Spark, or one leaf in place of the whole.

Leaves have the columns of the table by name. Numbers and order may be others: those of a leaf that
was attached, or made after a column had been dropped.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from catalog.journal.layout import column_name
from catalog.model import TableSnapshot
from rewrite.command import FIRST_ATTRIBUTE, Command
from rewrite.context import Leaves
from rewrite.dialect import builders as b
from rewrite.dialect.type_mapping import storage_type
from rewrite.errors import UnsupportedError
from rewrite.expressions import read_stored
from rewrite.journal.current_rows import CurrentRows
from rewrite.query.compilation import Compilation
from rewrite.query.sql import aliased, column, named, select
from rewrite.tree import Item, Node, transform, walk
from rewrite.values import Value


class PartitionedRows:
    """The current rows of some leaves of a partitioned table."""

    def __init__(
        self, compilation: Compilation, leaves: Leaves, snapshots: Mapping[int, TableSnapshot]
    ) -> None:
        self._names = leaves.columns
        self.key = leaves.key
        self.alias = compilation.name("t")
        found = [snapshots[relid] for relid in leaves.relids]
        self._parts = [_Part.of(CurrentRows(compilation, snapshot), snapshot) for snapshot in found]
        bounds = [part.rows.bound for part in self._parts]
        self.bound: int | None = sum(bound for bound in bounds if bound is not None)
        self._added: set[int] = set()
        self._bares: set[str] = set()
        self._item = aliased(_union([part.query for part in self._parts]), self.alias)
        if compilation.shielded:
            compilation.shielded[self.alias] = self._bare

    def column(self, attno: int) -> Value:
        """Return a live column by the attribute number that it has in the partitioned table."""
        if attno not in self._names:
            raise UnsupportedError("system column or whole-row reference is not supported")
        name = self._names[attno]
        if attno not in self._added:
            self._added.add(attno)
            for part in self._parts:
                stored = part.rows.stored(part.numbers[name])
                part.query.append("expressions", named(stored, column_name(attno)))
        first = self._parts[0]
        definition = first.rows.definition(first.numbers[name])
        return read_stored(
            column(column_name(attno), self.alias), definition.type_oid, definition.typmod
        )

    def _bare(self, name: str) -> str:
        """Return the name of a column that is not shielded."""
        bare = f"b{name}"
        if bare not in self._bares:
            self._bares.add(bare)
            shown = self._names[int(name.removeprefix("c"))]
            for part in self._parts:
                stored = part.rows.bare(part.numbers[shown])
                part.query.append("expressions", named(stored, bare))
        return bare

    def item(self) -> exp.Expression:
        """Return the FROM item."""
        return self._item


class NoRows:
    """The rows of a partitioned table that has no leaves."""

    bound: int | None = 0

    def __init__(self, compilation: Compilation, leaves: Leaves) -> None:
        self._types = leaves.types
        self.key = leaves.key
        self._alias = compilation.name("t")
        self._query = select([named(exp.Literal.number(1), "present")], where=b.FALSE)
        self._added: set[int] = set()

    def column(self, attno: int) -> Value:
        """Return a column, of its type, by attribute number."""
        if attno not in self._types:
            raise UnsupportedError("system column or whole-row reference is not supported")
        type_oid, typmod = self._types[attno]
        if attno not in self._added:
            self._added.add(attno)
            stored = b.null_of(storage_type(type_oid, typmod))
            self._query.append("expressions", named(stored, column_name(attno)))
        return read_stored(column(column_name(attno), self._alias), type_oid, typmod)

    def item(self) -> exp.Expression:
        """Return the FROM item."""
        return aliased(self._query, self._alias)


@dataclass(frozen=True, slots=True)
class _Part:
    """One leaf: its rows, a query of them, and the numbers of its columns."""

    rows: CurrentRows
    query: exp.Select
    numbers: Mapping[str, int]

    @classmethod
    def of(cls, rows: CurrentRows, snapshot: TableSnapshot) -> "_Part":
        present = named(exp.Literal.number(1), "present")
        numbers = {column.name: column.attnum for column in snapshot.table.columns}
        return cls(rows, select([present], rows.item()), numbers)


def _union(queries: Sequence[exp.Expression]) -> exp.Expression:
    """Return all rows of some queries, half of them on each side: not nested deeply."""
    if len(queries) == 1:
        return queries[0]
    middle = len(queries) // 2
    left, right = (
        query if isinstance(query, exp.Select) else exp.Subquery(this=query)
        for query in (_union(queries[:middle]), _union(queries[middle:]))
    )
    return exp.Union(this=left, expression=right, distinct=False)


def as_leaf(
    query: Node, table: int, leaf: int, numbers: Mapping[int, int], *, whole: bool = False
) -> Node:
    """Return a query in which a leaf stands wherever a partitioned table stood.

    Args:
        query: An analysed query.
        table: OID of the partitioned table.
        leaf: OID of the leaf.
        numbers: Attribute numbers of the leaf's columns by those of the table's.
        whole: Whether it is only looked at, so that system columns and whole rows may stay.

    Raises:
        UnsupportedError: 0A000 for these, where columns have other numbers.
    """
    changed = _Replacing(table, leaf, numbers, whole).query(query, [])
    if not isinstance(changed, Node):
        raise TypeError(query.tag)
    return changed


def named_alone(query: Node, tables: Collection[int]) -> bool:
    """Return whether a query reads partitioned tables with ONLY, which are without rows then."""
    for node, _ in walk(query):
        if node.tag != "QUERY":
            continue
        inserts = node["commandType"] == Command.INSERT
        written = node["resultRelation"] if inserts else 0
        for number, entry in enumerate(node.nodes("rtable"), 1):
            found = entry.get("relid") in tables and entry.get("relkind") == "p"
            if found and not entry["inh"] and number != written:
                return True
    return False


_NAMED_COLUMNS: Final = ("selectedCols", "insertedCols", "updatedCols")
"""Fields of a RTEPermissionInfo: columns that a statement names."""


@dataclass(frozen=True, slots=True)
class _Replacing:
    """A partitioned table on its way out of a query."""

    table: int
    leaf: int
    numbers: Mapping[int, int]
    whole: bool
    same: bool = field(init=False)
    """Whether columns have the numbers they had."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "same", all(a == b for a, b in self.numbers.items()))

    def query(self, query: Node, around: list[frozenset[int]]) -> Node:
        """Return a query inside of others, of which it is told where the table stands."""
        levels = [self._places(query), *around]
        conflict = query.get("onConflict")
        if isinstance(conflict, Node):
            # All that can be named of proposed rows is listed there, whole ones among it.
            query = query.replace(onConflict=conflict.replace(exclRelTlist=None))
        fields: dict[str, Item] = {
            name: self._item(value, levels) for name, value in query.fields.items()
        }
        if query["resultRelation"] in levels[0] and not self.same:
            if query["commandType"] in {Command.UPDATE, Command.INSERT}:
                fields["targetList"] = self._numbered(fields["targetList"])
            fields["mergeActionList"] = self._actions(fields.get("mergeActionList"))
            fields["onConflict"] = self._conflict(fields.get("onConflict"))
        return Node(query.tag, fields)

    def _places(self, query: Node) -> frozenset[int]:
        entries = enumerate(query.nodes("rtable"), 1)
        return frozenset(n for n, entry in entries if entry.get("relid") == self.table)

    def _item(self, item: Item, levels: list[frozenset[int]]) -> Item:
        return transform(item, lambda node, _: self._node(node, levels))

    def _node(self, node: Node, levels: list[frozenset[int]]) -> Item | None:
        if node.tag == "QUERY":
            return self.query(node, levels)
        if node.tag == "VAR" and not self.same:
            return self._var(node, levels)
        if node.tag in {"RANGETBLENTRY", "RTEPERMISSIONINFO"} and node.get("relid") == self.table:
            if node.tag == "RTEPERMISSIONINFO":
                named = {name: self._bits(node, name) for name in _NAMED_COLUMNS}
                return node.replace(relid=self.leaf, **named)
            if node["relkind"] != "p":  # what stands for the rows an INSERT proposes
                return node.replace(relid=self.leaf)
            return node.replace(relid=self.leaf, relkind="r", inh=False)
        return None

    def _bits(self, node: Node, name: str) -> Item:
        """Return a bitmapset of columns by their numbers in the leaf."""
        return [
            self.numbers.get(bit - FIRST_ATTRIBUTE, bit - FIRST_ATTRIBUTE) + FIRST_ATTRIBUTE
            for bit in node.integers(name)
        ]

    def _var(self, node: Node, levels: list[frozenset[int]]) -> Node:
        level, number = node.integer("varlevelsup"), node.integer("varattno")
        if node["varno"] not in levels[level]:
            return node
        if number <= 0:
            if self.whole:
                return node
            raise UnsupportedError("system column or whole-row reference is not supported")
        return node.replace(varattno=self.numbers[number])

    def _numbered(self, targets: Item) -> Item:
        if not isinstance(targets, list):
            return targets
        return [
            target.replace(resno=self.numbers[target.integer("resno")])
            if isinstance(target, Node) and not target["resjunk"]
            else target
            for target in targets
        ]

    def _actions(self, actions: Item) -> Item:
        if not isinstance(actions, list):
            return actions
        return [
            action.replace(targetList=self._numbered(action.get("targetList")))
            for action in actions
            if isinstance(action, Node)
        ]

    def _conflict(self, conflict: Item) -> Item:
        if not isinstance(conflict, Node):
            return conflict
        return conflict.replace(onConflictSet=self._numbered(conflict.get("onConflictSet")))
