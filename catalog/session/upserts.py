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
"""Columns beside those of proposed rows."""
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
        key: Sequence[str],
        refused: RefusedRows | None,
        defaults: Mapping[str, str],
    ) -> str | None:
        """Return the statement as a MERGE; None where its text could not be trusted.

        Where it has a condition, or gives rows other keys, it deletes rows that one of several
        proposed rows changes: whether it may depends on which of these comes first.

        Args:
            columns: The columns that rows are proposed for.
            key: Those of the primary key.
            refused: How rows are told that may not be proposed; None where any may.
            defaults: What other columns of `excluded` have, as SQL.
        """
        query = self._fields["selectStmt"]
        if self._takes_first:
            query = row_orders.numbered(query, len(columns))
            if query is None:
                return None
        (tree,) = parse_tree(self._outline(columns, key, refused, defaults))
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
        key: Sequence[str],
        refused: RefusedRows | None,
        defaults: Mapping[str, str],
    ) -> str:
        """Return the MERGE as SQL, without what the statement itself has."""
        alias, listed = quoted(self._alias), ", ".join(map(quoted, columns))
        given = ", ".join(
            f"{_EXCLUDED}.{_given(name) if cast.unlimited else quoted(name)}"
            for name, cast in columns.items()
        )
        same = " AND ".join(
            f"{alias}.{column} OPERATOR(pg_catalog.=) {_EXCLUDED}.{column}"
            for column in map(quoted, key)
        )
        source = self._source(columns, key, refused, defaults)
        clauses = []
        if refused is not None:
            clauses.append(_failing(columns, key, refused))
        if self._is_one_of_several(key):
            several = f"{_EXCLUDED}.{_NUMBER} OPERATOR(pg_catalog.>) 1"
            only = f" AND {_CONDITION}" if self._has_condition else ""
            clauses.append(f"WHEN MATCHED AND {several}{only} THEN DELETE")
        if self.updates:
            only = f" AND {_CONDITION}" if self._has_condition else ""
            clauses.append(f"WHEN MATCHED{only} THEN UPDATE SET {_MARK} = 1")
        first = ""
        if not self.updates and refused is not None:
            number = f"{_EXCLUDED}.{_NUMBER} OPERATOR(pg_catalog.=) 1"
            first = f" AND ({_EXCLUDED}.{_REFUSED} OR {number})"
        insert = f"INSERT ({listed}) VALUES ({given})"  # noqa: S608 - quoted
        clauses.append(f"WHEN NOT MATCHED{first} THEN {insert}")
        return f"MERGE INTO t USING {source} ON {same} {' '.join(clauses)}"

    def _source(
        self,
        columns: Mapping[str, Cast],
        key: Sequence[str],
        refused: RefusedRows | None,
        defaults: Mapping[str, str],
    ) -> str:
        """Return the rows that are proposed, with what the clauses ask of them."""
        listed, keyed = (", ".join(map(quoted, some)) for some in (columns, key))
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
        if self._is_one_of_several(key):
            added.append(f"pg_catalog.count(*) OVER (PARTITION BY {keyed}) AS {_NUMBER}")
        elif not self.updates and refused is not None:
            within = f" ORDER BY {order[0]}" if order else ""
            added.append(
                f"pg_catalog.row_number() OVER (PARTITION BY {keyed}{within}) AS {_NUMBER}"
            )
        elif not self.updates:
            distinct = f"DISTINCT ON ({keyed}) "
            ordered = f" ORDER BY {', '.join([keyed, *order])}" if order else ""
        selected = ", ".join([listed, *added])
        return f"(SELECT {distinct}{selected} FROM {rows}{ordered}) AS {_EXCLUDED}"  # noqa: S608 - quoted

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
