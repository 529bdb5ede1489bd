"""INSERT … ON CONFLICT as a MERGE that does the same, where its rows come from a query.

Before: ``INSERT INTO t (a, b) SELECT x, y FROM s ON CONFLICT (a) DO UPDATE SET b = excluded.b``.
After: ``MERGE INTO t USING (SELECT a, b FROM (SELECT x, y FROM s) AS proposed (a, b)) AS excluded
ON t.a = excluded.a WHEN MATCHED THEN UPDATE SET b = excluded.b WHEN NOT MATCHED THEN INSERT (a, b)
VALUES (excluded.a, excluded.b)``; DO NOTHING takes one row of each key, the first one where they
are ordered. Rows that constraints refuse become of the row that they meet, which fails as they
would.

Not handled: ``excluded`` as a whole; arbiters that are no columns.
"""

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.session import row_orders
from catalog.session.names import quoted
from catalog.session.proposed_rows import RefusedRows
from catalog.session.statement_parts import UnfaithfulTextError, faithful_text, nodes
from catalog.statements.splitting import RelationName, parse_tree

_EXCLUDED = "excluded"
_ROWS = "proposed"
_CONDITION, _MARK = "pgwire_condition", "pgwire_mark"
"""Where the condition of the statement goes, and what it assigns."""
_REFUSED, _NUMBER = '"row refused"', '"row number"'
_PLACE, _FIRST = '"row place"', '"row first"'
"""Columns beside those of proposed rows."""
_THERE, _ROWS_SEEN = '"row there"', '"rows seen"'
"""Names of the table, and of proposed rows that are compared with it."""
_UPDATE = "ONCONFLICT_UPDATE"


@dataclass(frozen=True, slots=True)
class Cast:
    """What is proposed for a column, as its type has it."""

    type: str = ""
    """The type, as SQL; nothing where the values are of it."""
    unlimited: str = ""
    """The type without the length that what is proposed may exceed; nothing without any."""
    length: int = 0
    """That length, in characters."""


def too_long(columns: Mapping[str, Cast]) -> list[str]:
    """Return conditions, as SQL, of proposed rows with values that are too long for a column.

    Blanks at the end do not count.
    """
    return [
        f"pg_catalog.length(pg_catalog.rtrim({_given(name)}::text)) OPERATOR(pg_catalog.>)"
        f" {cast.length}"
        for name, cast in columns.items()
        if cast.unlimited
    ]


def _given(name: str) -> str:
    """Return the name of a column with what is proposed, of whatever length."""
    return quoted(f"given {name}")


@dataclass(frozen=True, slots=True)
class ArbiterKeys:
    """The unique keys by which proposed rows are in conflict, by the names of their columns."""

    columns: tuple[tuple[str, ...], ...]
    """One key, or all of those that rows are proposed with, where it may be any."""
    is_primary: bool
    """Whether it is the primary key, whose values are not NULL, alone."""
    table: RelationName

    @property
    def first(self) -> tuple[str, ...]:
        """The first one, or the only one."""
        return self.columns[0]

    @property
    def known(self) -> str:
        """The condition, as SQL, that a proposed row is in conflict with no row of the table."""
        table = f"{quoted(self.table.schema or '')}.{quoted(self.table.name)}"
        tests = []
        for key in self.columns:
            same = _same(key, _THERE, _ROWS_SEEN)
            tests.append(f"NOT EXISTS (SELECT FROM {table} AS {_THERE} WHERE {same})")
        return " AND ".join(tests)


def _same(key: Sequence[str], one: str, other: str) -> str:
    """Return the condition that two rows have one key."""
    return " AND ".join(
        f"{one}.{column} OPERATOR(pg_catalog.=) {other}.{column}" for column in map(quoted, key)
    )


def _is_missing(key: Sequence[str]) -> str:
    """Return the condition that a row has no value of a key that others could have, too."""
    return " OR ".join(f"{column} IS NULL" for column in map(quoted, key))


@dataclass(frozen=True, slots=True)
class Upsert:
    """One statement."""

    target: RelationName
    columns: tuple[str, ...]
    """Columns that are named; none: the first ones."""
    source: str
    """The query, as SQL."""
    arbiter: tuple[str, ...]
    """Columns that are in conflict."""
    constraint: str | None
    """Or the name of the constraint."""
    updates: bool
    named: frozenset[str]
    """Columns of `excluded` that it names."""
    _fields: dict[str, Any]

    def moves(self, key: Collection[str]) -> bool:
        """Return whether it may give rows another key than the one in which they are met."""
        if not self.updates:
            return False
        own = {_EXCLUDED, self._alias}
        targets = [one["ResTarget"] for one in self._fields["onConflictClause"]["targetList"]]
        return any(
            target["name"] in key
            and _names(_assigned(target["val"])) not in {(one, target["name"]) for one in own}
            for target in targets
        )

    def merge(
        self,
        columns: Mapping[str, Cast],
        keys: ArbiterKeys,
        refused: RefusedRows | None,
        defaults: Mapping[str, str],
    ) -> str | None:
        """Return the statement as a MERGE; None where its text could not be trusted.

        Where it has a condition, or gives rows other keys, it deletes rows that one of several
        proposed rows changes: whether it may depends on which of these comes first.

        Args:
            columns: The columns that rows are proposed for.
            keys: The keys by which these are in conflict.
            refused: How rows are told that may not be proposed; None where any may.
            defaults: What other columns of `excluded` have, as SQL.
        """
        query = self._fields["selectStmt"]
        if self._takes_first:
            query = row_orders.numbered(query, len(columns))
            if query is None:
                return None
        (tree,) = parse_tree(self._outline(columns, keys, refused, defaults))
        merge = tree["MergeStmt"]
        merge["relation"] = self._fields["relation"]
        for node in nodes(merge["sourceRelation"]):
            subselect = node.get("RangeSubselect", {})
            if subselect.get("alias", {}).get("aliasname") == _ROWS:
                subselect["subquery"] = query
        conflict = self._fields["onConflictClause"]
        if self.updates:
            (clause,) = (
                one["MergeWhenClause"]
                for one in merge["mergeWhenClauses"]
                if _is_marked(one["MergeWhenClause"])
            )
            # What has no qualifier there is of a subquery: else it would be ambiguous.
            clause["targetList"] = conflict["targetList"]
        if "whereClause" in conflict:
            condition = conflict["whereClause"]
            merge["mergeWhenClauses"] = _with_condition(merge["mergeWhenClauses"], condition)
        if "returningClause" in self._fields:
            merge["returningClause"] = _qualified(self._fields["returningClause"], self._alias)
        if "withClause" in self._fields:
            merge["withClause"] = self._fields["withClause"]
        try:
            return faithful_text(tree)
        except UnfaithfulTextError:
            return None

    def _outline(
        self,
        columns: Mapping[str, Cast],
        keys: ArbiterKeys,
        refused: RefusedRows | None,
        defaults: Mapping[str, str],
    ) -> str:
        """Return the MERGE as SQL, without what the statement itself has."""
        alias, listed = quoted(self._alias), ", ".join(map(quoted, columns))
        given = ", ".join(
            f"{_EXCLUDED}.{_given(name) if cast.unlimited else quoted(name)}"
            for name, cast in columns.items()
        )
        same = _same(keys.first, alias, _EXCLUDED)
        source = self._source(columns, keys, refused, defaults)
        clauses = []
        if refused is not None and keys.is_primary:
            clauses.append(_failing(columns, keys.first, refused))
        elif refused is not None:
            # What may not be proposed is not matched, and fails as a new row.
            same = f"{same} AND NOT {_EXCLUDED}.{_REFUSED}"
        if self._is_one_of_several(keys.first):
            several = f"{_EXCLUDED}.{_NUMBER} OPERATOR(pg_catalog.>) 1"
            only = f" AND {_CONDITION}" if self._has_condition else ""
            clauses.append(f"WHEN MATCHED AND {several}{only} THEN DELETE")
        if self.updates:
            only = f" AND {_CONDITION}" if self._has_condition else ""
            clauses.append(f"WHEN MATCHED{only} THEN UPDATE SET {_MARK} = 1")
        first = ""
        if not self.updates and not self._takes_distinct(keys, refused):
            number = f"{_EXCLUDED}.{_NUMBER} OPERATOR(pg_catalog.=) 1"
            first = f" AND ({number})"
            if refused is not None:
                first = f" AND ({_EXCLUDED}.{_REFUSED} OR {number})"
        insert = f"INSERT ({listed}) VALUES ({given})"  # noqa: S608 - quoted
        clauses.append(f"WHEN NOT MATCHED{first} THEN {insert}")
        return f"MERGE INTO t USING {source} ON {same} {' '.join(clauses)}"

    def _source(
        self,
        columns: Mapping[str, Cast],
        keys: ArbiterKeys,
        refused: RefusedRows | None,
        defaults: Mapping[str, str],
    ) -> str:
        """Return the rows that are proposed, with what the clauses ask of them."""
        listed, keyed = (", ".join(map(quoted, some)) for some in (columns, keys.first))
        order = [quoted(row_orders.ORDER)] if self._takes_first else []
        rows = f"(SELECT 1) AS {_ROWS} ({', '.join([listed, *order])})"
        added = [_given(name) for name, cast in columns.items() if cast.unlimited]
        if any(cast.type for cast in columns.values()):
            values = [*(_cast(name, cast) for name, cast in columns.items()), *order]
            rows = f"(SELECT {', '.join(values)} FROM {rows}) AS x"  # noqa: S608 - quoted
        generated = {} if refused is None else refused.generated
        for level in ({**(refused.defaults if refused else {}), **defaults}, generated):
            more = "".join(f", {value} AS {quoted(name)}" for name, value in level.items())
            rows = f"(SELECT *{more} FROM {rows}) AS x" if level else rows  # noqa: S608 - quoted
        added += [quoted(name) for name in (*defaults, *generated) if name in self.named]
        distinct = ordered = ""
        if refused is not None:
            added.append(f"({refused.condition}) AS {_REFUSED}")
        if self._is_one_of_several(keys.first):
            added.append(f"pg_catalog.count(*) OVER (PARTITION BY {keyed}) AS {_NUMBER}")
        elif not self.updates and len(keys.columns) > 1:
            if refused is not None:
                rows = f"(SELECT *, ({refused.condition}) AS {_REFUSED} FROM {rows}) AS x"  # noqa: S608 - quoted
                added[-1] = _REFUSED
            rows = _compared(rows, keys, order, is_refused=refused is not None)
            added.append(_NUMBER)
        elif not self.updates and not self._takes_distinct(keys, refused):
            within = f" ORDER BY {order[0]}" if order else ""
            number = f"pg_catalog.row_number() OVER (PARTITION BY {keyed}{within})"
            if not keys.is_primary:
                number = f"CASE WHEN {_is_missing(keys.first)} THEN 1 ELSE {number} END"
            added.append(f"{number} AS {_NUMBER}")
        elif not self.updates:
            distinct = f"DISTINCT ON ({keyed}) "
            ordered = f" ORDER BY {', '.join([keyed, *order])}" if order else ""
        selected = ", ".join([listed, *added])
        return f"(SELECT {distinct}{selected} FROM {rows}{ordered}) AS {_EXCLUDED}"  # noqa: S608 - quoted

    def _takes_distinct(self, keys: ArbiterKeys, refused: RefusedRows | None) -> bool:
        """Return whether rows that are not updated are those with distinct keys, as they are."""
        return keys.is_primary and refused is None and len(keys.columns) == 1

    def _is_one_of_several(self, key: Sequence[str]) -> bool:
        """Return whether it matters which of several rows of one key comes first."""
        return self._has_condition or self.moves(key)

    @property
    def _takes_first(self) -> bool:
        """Whether of several rows of one key the first one is inserted."""
        return not self.updates and row_orders.is_ordered(self._fields["selectStmt"])

    @property
    def _has_condition(self) -> bool:
        return "whereClause" in self._fields["onConflictClause"]

    @property
    def _alias(self) -> str:
        relation = self._fields["relation"]
        alias: str = relation.get("alias", {}).get("aliasname", relation["relname"])
        return alias


def parse(text: str) -> Upsert | None:
    """Return a statement that a MERGE can do; None for any other."""
    trees = parse_tree(text)
    fields = trees[0].get("InsertStmt") if len(trees) == 1 else None
    conflict = (fields or {}).get("onConflictClause")
    if not fields or not conflict or "selectStmt" not in fields:
        return None
    infer, columns = conflict.get("infer", {}), fields.get("cols", ())
    arbiter = [element["IndexElem"] for element in infer.get("indexElems", ())]
    plain = all(element.keys() <= _PLAIN and "name" in element for element in arbiter)
    written = [conflict.get("targetList"), conflict.get("whereClause")]
    if (
        not plain
        or "whereClause" in infer
        or any("indirection" in column["ResTarget"] for column in columns)
        or fields.get("override", _NO_OVERRIDE) != _NO_OVERRIDE
        or _names_row(written)
        or _EXCLUDED in {fields["relation"]["relname"], *_aliases(fields["relation"])}
    ):
        return None
    updates = conflict["action"] == _UPDATE
    try:
        source = faithful_text(_with(fields["selectStmt"], fields.get("withClause")))
    except UnfaithfulTextError:
        return None
    return Upsert(
        RelationName(fields["relation"].get("schemaname"), fields["relation"]["relname"]),
        tuple(column["ResTarget"]["name"] for column in columns),
        source,
        tuple(element["name"] for element in arbiter),
        infer.get("conname"),
        updates,
        frozenset(name[1] for name in _references(written) if name[0] == _EXCLUDED),
        fields,
    )


def _cast(name: str, cast: Cast) -> str:
    """Return what is proposed for a column, as its type has it, and of whatever length."""
    column = quoted(name)
    value = f"{column}::{cast.type} AS {column}" if cast.type else column
    return f"{value}, {column}::{cast.unlimited} AS {_given(name)}" if cast.unlimited else value


def _compared(rows: str, keys: ArbiterKeys, order: Sequence[str], *, is_refused: bool) -> str:
    """Return proposed rows, with number 1 where none that is there or comes first is in conflict.

    Those of which the table has a key are left out, but for such as may not be proposed. What is in
    conflict with the first row of each of its keys is not inserted. Where a row is in conflict with
    such as are left out so alone, or are not told, it has number 1, too.
    """
    places = order or [quoted(name) for key in keys.columns for name in key]
    unknown = f"{_REFUSED} OR ({keys.known})" if is_refused else keys.known
    place = f"pg_catalog.row_number() OVER (ORDER BY {', '.join(places)}) AS {_PLACE}"
    rows = f"(SELECT * FROM {rows}) AS {_ROWS_SEEN}"  # noqa: S608 - quoted
    rows = f"(SELECT *, {place} FROM {rows} WHERE {unknown}) AS x"  # noqa: S608 - quoted
    firsts, others = [], []
    for key in keys.columns:
        window = f"OVER (PARTITION BY {', '.join(map(quoted, key))})"
        missing = _is_missing(key)
        first = f"pg_catalog.min({_PLACE}) {window} OPERATOR(pg_catalog.=) {_PLACE}"
        firsts.append(f"({missing} OR {first})")
        led = f"pg_catalog.max(CASE WHEN {_FIRST} THEN 1 ELSE 0 END) {window}"
        others.append(f"(NOT ({missing}) AND {led} OPERATOR(pg_catalog.=) 1)")
    rows = f"(SELECT *, ({' AND '.join(firsts)}) AS {_FIRST} FROM {rows}) AS x"  # noqa: S608 - quoted
    number = f"CASE WHEN NOT {_FIRST} AND ({' OR '.join(others)}) THEN 2 ELSE 1 END"
    return f"(SELECT *, {number} AS {_NUMBER} FROM {rows}) AS x"  # noqa: S608 - quoted


def _failing(columns: Mapping[str, Cast], key: Sequence[str], refused: RefusedRows) -> str:
    """Return the clause that has rows fail which may not be proposed."""
    assigned = [
        f"{quoted(name)} = {_EXCLUDED}.{_given(name) if cast.unlimited else quoted(name)}"
        for name, cast in columns.items()
        if name not in key or cast.unlimited
    ]
    assigned += [f"{quoted(name)} = DEFAULT" for name in refused.others]
    action = f"UPDATE SET {', '.join(assigned)}" if assigned else "DO NOTHING"
    return f"WHEN MATCHED AND {_EXCLUDED}.{_REFUSED} THEN {action}"


def _assigned(node: Mapping[str, Any]) -> Any:
    """Return what is assigned to a column, by a row of values, too."""
    several = node.get("MultiAssignRef", {})
    values = several.get("source", {}).get("RowExpr", {}).get("args")
    return values[several["colno"] - 1] if values else node


def _names(node: Any) -> tuple[str, ...]:
    """Return the parts of the name that an expression is; the empty one stands for all columns."""
    fields = node.get("ColumnRef", {}).get("fields", ()) if isinstance(node, dict) else ()
    return tuple(one.get("String", {}).get("sval", "") for one in fields)


def _references(value: Any) -> Iterator[tuple[str, ...]]:
    for node in nodes(value):
        names = _names(node)
        if len(names) > 1:
            yield names


def _names_row(value: Any) -> bool:
    """Return whether an expression names the proposed row as a whole: here it has more columns."""
    return any(
        names[0] == _EXCLUDED and names[1:] in {(), ("",)}
        for names in map(_names, nodes(value))
        if names
    )


def _is_marked(clause: dict[str, Any]) -> bool:
    """Return whether a clause is that of what the statement assigns."""
    return any(one["ResTarget"].get("name") == _MARK for one in clause.get("targetList", ()))


def _with_condition(value: Any, condition: Any) -> Any:
    """Return clauses with the condition of the statement in its place."""
    if isinstance(value, list):
        return [_with_condition(item, condition) for item in value]
    if not isinstance(value, dict):
        return value
    names = [
        one.get("String", {}).get("sval") for one in value.get("ColumnRef", {}).get("fields", ())
    ]
    if names == [_CONDITION]:
        return copy.deepcopy(condition)
    return {key: _with_condition(item, condition) for key, item in value.items()}


_PLAIN = frozenset({"name", "ordering", "nulls_ordering"})
_NO_OVERRIDE = "OVERRIDING_NOT_SET"


def _aliases(relation: dict[str, Any]) -> list[str]:
    alias = relation.get("alias")
    return [] if alias is None else [alias["aliasname"]]


def _with(query: dict[str, Any], clause: Any) -> dict[str, Any]:
    """Return a query with the WITH clause of the statement that it is part of."""
    if clause is None:
        return query
    ((tag, fields),) = query.items()
    return {tag: {**fields, "withClause": fields.get("withClause", clause)}}


def _qualified(value: Any, alias: str) -> Any:
    """Return expressions in which columns without a qualifier are those of a relation.

    What subqueries name may be of them; where it is not, it is of a column of that name here, too,
    or ambiguous.
    """
    if isinstance(value, list):
        return [_qualified(item, alias) for item in value]
    if not isinstance(value, dict):
        return value
    found = {
        key: item if key == "subselect" else _qualified(item, alias) for key, item in value.items()
    }
    reference = found.get("ColumnRef")
    if reference is not None and len(reference["fields"]) == 1:
        reference["fields"] = [{"String": {"sval": alias}}, *reference["fields"]]
    return found
