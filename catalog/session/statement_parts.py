"""The parts of a statement that read relations, each of which can be replaced by what it yields.

Works on PostgreSQL's raw trees. Which relations names stand for is for others to know.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import postgast
from google.protobuf import json_format
from postgast.pg_query_pb2 import ParseResult

from catalog.session.names import qualified, quoted
from catalog.statements.splitting import RelationName, parse_tree

_SUBSELECTS: Final = frozenset({"selectStmt", "subquery", "subselect", "ctequery"})
"""Fields that hold a whole query."""

_FROM: Final = frozenset({"fromClause", "usingClause", "sourceRelation", "larg", "rarg"})
"""Fields that hold what is read by name."""

_PLACES: Final = frozenset(
    {
        "location",
        "stmt_location",
        "stmt_len",
        "list_start",
        "list_end",
        "rexpr_list_start",
        "rexpr_list_end",
    }
)
"""Fields that tell where something stands in the text."""

_DEPTH: Final = 10_000
"""Depth of trees that Python has long given up on."""


class UnfaithfulTextError(Exception):
    """A tree could not be written as text that reads the same."""


@dataclass(frozen=True, slots=True)
class Yielded:
    """A column of what stands for a part."""

    name: str
    expression: str
    """SQL over the relation that holds the rows."""


@dataclass(slots=True)
class Part:
    """A query inside a statement, or a relation named in it, and where it stands."""

    _tree: "StatementTree"
    _holder: Any
    _key: Any
    relation: RelationName | None
    """The relation; None for a query."""
    names: frozenset[RelationName]
    """Relations named in it, those of WITH excluded."""
    closed: bool
    """Whether it names nothing that WITH defines outside of it."""
    is_source: bool
    """Whether it is all that an INSERT inserts."""
    inner: tuple["Part", ...] = ()
    """The parts inside."""

    @property
    def query(self) -> str:
        """The query as a statement of its own.

        Raises:
            UnfaithfulTextError: There is no text for it.
        """
        if self.relation is not None:
            return f"SELECT * FROM {self.named}"  # noqa: S608 - quoted
        return faithful_text(self._holder[self._key])

    @property
    def named(self) -> str:
        """The relation as SQL."""
        return qualified(self.relation) if self.relation else ""

    @property
    def item(self) -> dict[str, Any]:
        """The node, as long as nothing has replaced it."""
        node: dict[str, Any] = self._holder[self._key]
        return node

    @property
    def alias(self) -> str:
        """What the relation is called in expressions beside it."""
        variable = self.item["RangeVar"]
        name: str = variable.get("alias", {}).get("aliasname") or variable["relname"]
        return name

    def selection(self, columns: Sequence[str], clauses: Mapping[str, Any]) -> str:
        """Return a query of columns of the relation, by the names they have beside it.

        Args:
            columns: The columns; without any its rows have one all the same.
            clauses: What else the query has, as fields of its node.

        Raises:
            UnfaithfulTextError: There is no text for it.
        """
        listed = ", ".join(map(quoted, columns)) or "true"
        (query,) = parse_tree(f"SELECT {listed}")
        query["SelectStmt"] |= {"fromClause": [self.item], **clauses}
        return faithful_text(query)

    @property
    def column_aliases(self) -> list[str]:
        """New names FROM gives to the first columns of the relation."""
        alias = self._holder[self._key].get("RangeVar", {}).get("alias", {})
        return [item["String"]["sval"] for item in alias.get("colnames", ())]

    def replace(self, rows: str, columns: Sequence[Yielded]) -> None:
        """Have the statement read columns of a relation, given as SQL, in place of this part."""
        listed = ", ".join(f"{column.expression} AS {quoted(column.name)}" for column in columns)
        (query,) = parse_tree(f"SELECT {listed} FROM {rows}")  # noqa: S608 - quoted
        if self.relation is None:
            self._holder[self._key] = query
        else:
            self._put(query, self.relation, {})

    def expand(self, query: str, columns: Sequence[str]) -> tuple["Part", ...]:
        """Have the statement read a query in place of a relation; return the parts in that.

        Args:
            query: What the relation stands for, in which WITH of the statement means nothing.
            columns: Names of its columns in the statement.
        """
        if self.relation is None:
            raise TypeError(self.names)
        (tree,) = parse_tree(query)
        named = {"colnames": [{"String": {"sval": column}} for column in columns]}
        return self._tree.parts_of(self._put(tree, self.relation, named))

    def _put(
        self, query: dict[str, Any], relation: RelationName, named: dict[str, Any]
    ) -> dict[str, Any]:
        """Put a query in place of a relation, with names of its columns if any; return its node."""
        alias = self.item["RangeVar"].get("alias", {}).get("aliasname")
        if alias is None:
            alias = self._tree.alias_of(relation)
        node = {"subquery": query, "alias": {"aliasname": alias, **named}}
        self._holder[self._key] = {"RangeSubselect": node}
        return node


@dataclass(slots=True)
class _Found:
    """What has been come across so far in a part, or in the statement."""

    parts: list[Part] = field(default_factory=list)
    names: set[RelationName] = field(default_factory=set)
    expressions: set[int] = field(default_factory=set)
    """Numbers of the WITH queries that are named."""


class StatementTree:
    """A statement as a tree whose parts can be replaced."""

    def __init__(self, text: str) -> None:
        """Take a statement apart.

        Raises:
            UnfaithfulTextError: It cannot be put together again.
        """
        tree = parse_tree(text)
        if not tree:
            raise UnfaithfulTextError
        self._tree = tree[0]
        faithful_text(self._tree)
        self._numbers = count(1)
        self._assigned: dict[str, Any] = {}
        found = _Found()
        self._look(self._tree, {}, found)
        self.parts = tuple(found.parts)
        """The outermost parts."""

    @property
    def root(self) -> dict[str, Any]:
        """The statement as it is now."""
        return self._tree

    @property
    def text(self) -> str:
        """The statement as it is now, as SQL.

        Raises:
            UnfaithfulTextError: There is no text for it.
        """
        return faithful_text(self._tree)

    @property
    def reads_source_only(self) -> bool:
        """Whether it is an INSERT that reads relations in its source only."""
        return len(self.parts) == 1 and self.parts[0].is_source

    def alias_of(self, relation: RelationName) -> str:
        """Return what a relation without alias can be called that is replaced by its rows.

        Columns that are named with its schema are named with that instead.
        """
        schema, name = relation.schema, relation.name
        if schema is None:
            return name
        others = {
            node.get("schemaname")
            for node in nodes(self._tree)
            if node.get("relname") == name and "relpersistence" in node and "alias" not in node
        }
        alias = name if others <= {schema} else f"pgwire {schema}.{name}"
        for node in nodes(self._tree):
            fields = node.get("ColumnRef", {}).get("fields", ())
            if [_string(item) for item in fields[-3:-1]] == [schema, name]:
                fields[:-1] = [{"String": {"sval": alias}}]
        return alias

    def parts_of(self, node: dict[str, Any]) -> tuple[Part, ...]:
        """Return the outermost parts in a node that has been put into the statement."""
        found = _Found()
        self._look(node, {}, found)
        return tuple(found.parts)

    def _look(self, value: Any, visible: Mapping[str, int], found: _Found) -> None:
        """Find the parts of a node; ``visible`` are the WITH queries that can be named there."""
        if isinstance(value, list):
            for item in value:
                self._look(item, visible, found)
        elif isinstance(value, dict) and not self._is_assigned_again(value):
            if "RangeTableSample" in value:
                # Nothing stands for it: its rows are chosen by where they are stored.
                found.names.add(_name(value["RangeTableSample"]["relation"]["RangeVar"]))
            if "withClause" in value:
                visible = self._look_at_with(value["withClause"], visible, found)
            for key, item in value.items():
                if key in _SUBSELECTS and "SelectStmt" in item:
                    self._look_at_query(value, key, visible, found)
                elif key in _FROM:
                    self._look_at_from(value, key, visible, found)
                elif key not in {"withClause", "lockedRels"}:
                    self._look(item, visible, found)

    def _is_assigned_again(self, node: dict[str, Any]) -> bool:
        """Tell whether a row assigned to several columns has been seen with the first of them.

        All of them share it; in the text of the tree each has a copy.
        """
        reference = node.get("MultiAssignRef")
        if reference is None:
            return False
        if reference["colno"] == 1:
            self._assigned = reference["source"]
            return False
        reference["source"] = self._assigned
        return True

    def _look_at_with(
        self, clause: dict[str, Any], visible: Mapping[str, int], found: _Found
    ) -> Mapping[str, int]:
        expressions = [entry["CommonTableExpr"] for entry in clause.get("ctes", ())]
        numbers = {entry["ctename"]: next(self._numbers) for entry in expressions}
        after = {**visible, **numbers}
        seen = dict(after) if "recursive" in clause else dict(visible)
        for entry in expressions:
            self._look(entry, seen, found)
            # A name before this one; without RECURSIVE its own means a relation.
            seen[entry["ctename"]] = numbers[entry["ctename"]]
        return after

    def _look_at_query(
        self, holder: dict[str, Any], key: str, visible: Mapping[str, int], found: _Found
    ) -> None:
        query = holder[key]["SelectStmt"]
        if "valuesLists" in query:
            self._look(query, visible, found)
            return
        inside = _Found()
        self._look(query, visible, inside)
        if inside.names or inside.parts:
            part = Part(
                self,
                holder,
                key,
                None,
                frozenset(inside.names),
                inside.expressions.isdisjoint(visible.values()),
                key == "selectStmt",
                tuple(inside.parts),
            )
            found.parts.append(part)
        found.names |= inside.names
        found.expressions |= inside.expressions

    def _look_at_from(
        self, holder: dict[str, Any], key: str, visible: Mapping[str, int], found: _Found
    ) -> None:
        items: Any = holder
        places: list[Any] = [key]
        if isinstance(holder[key], list):
            items, places = holder[key], list(range(len(holder[key])))
        for place in places:
            fields = items[place].get("RangeVar")
            if fields is None:
                self._look(items[place], visible, found)
                continue
            name = _name(fields)
            if name.schema is None and name.name in visible:
                found.expressions.add(visible[name.name])
                continue
            found.names.add(name)
            found.parts.append(
                Part(self, items, place, name, frozenset({name}), closed=True, is_source=False)
            )


def faithful_text(tree: dict[str, Any]) -> str:
    """Write a raw tree as SQL, and make sure that it reads the same."""
    document = {"stmts": [{"stmt": tree}]}
    try:
        result = json_format.ParseDict(document, ParseResult(), max_recursion_depth=_DEPTH)
        text: str = postgast.deparse(result)
        again = parse_tree(text)
        if len(again) != 1 or _placeless(again[0]) != _placeless(tree):
            raise UnfaithfulTextError
    except (RecursionError, json_format.ParseError, postgast.PgQueryError) as error:
        raise UnfaithfulTextError from error
    return text


def _placeless(value: Any) -> Any:
    if isinstance(value, list):
        return [_placeless(item) for item in value]
    if isinstance(value, dict):
        return {key: _placeless(item) for key, item in value.items() if key not in _PLACES}
    return value


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every node of a raw tree."""
    if isinstance(value, list):
        for item in value:
            yield from nodes(item)
    elif isinstance(value, dict):
        yield value
        for item in value.values():
            yield from nodes(item)


def _name(fields: dict[str, Any]) -> RelationName:
    return RelationName(fields.get("schemaname"), fields["relname"])


def _string(item: dict[str, Any]) -> str | None:
    text: str | None = item.get("String", {}).get("sval")
    return text
