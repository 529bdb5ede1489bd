"""INSERT … ON CONFLICT as a MERGE that does the same, where its rows come from a query.

Before: ``INSERT INTO t (a, b) SELECT x, y FROM s ON CONFLICT (a) DO UPDATE SET b = excluded.b``.
After: ``MERGE INTO t USING (SELECT a, b FROM (SELECT x, y FROM s) AS proposed (a, b)) AS excluded
ON t.a = excluded.a WHEN MATCHED THEN UPDATE SET b = excluded.b WHEN NOT MATCHED THEN INSERT (a, b)
VALUES (excluded.a, excluded.b)``; DO NOTHING takes one row of each key. Rows that constraints
refuse become of the row that they meet, which fails as they would.

Not handled: subqueries in what is assigned, compared or returned; arbiters that are no columns.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
    _fields: dict[str, Any]

    def merge(
        self, columns: Mapping[str, str], key: Sequence[str], refused: RefusedRows | None
    ) -> str | None:
        """Return the statement as a MERGE; None where its text could not be trusted.

        Where it has a condition, it deletes rows that one of several proposed rows changes: whether
        it may depends on which of these comes first.

        Args:
            columns: The columns that rows are proposed for, each with the type to which what is
                proposed has to be cast, as SQL, or nothing.
            key: Those of the primary key.
            refused: How rows are told that may not be proposed; None where any may.
        """
        (tree,) = parse_tree(self._outline(columns, key, refused))
        merge = tree["MergeStmt"]
        merge["relation"] = self._fields["relation"]
        for node in nodes(merge["sourceRelation"]):
            subselect = node.get("RangeSubselect", {})
            if subselect.get("alias", {}).get("aliasname") == _ROWS:
                subselect["subquery"] = self._fields["selectStmt"]
        conflict = self._fields["onConflictClause"]
        if self.updates:
            (clause,) = (
                one["MergeWhenClause"]
                for one in merge["mergeWhenClauses"]
                if _is_marked(one["MergeWhenClause"])
            )
            clause["targetList"] = _qualified(conflict["targetList"], self._alias)
        if "whereClause" in conflict:
            condition = _qualified(conflict["whereClause"], self._alias)
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
        self, columns: Mapping[str, str], key: Sequence[str], refused: RefusedRows | None
    ) -> str:
        """Return the MERGE as SQL, without what the statement itself has."""
        alias = quoted(self._alias)
        listed, keyed = (", ".join(map(quoted, some)) for some in (columns, key))
        given = ", ".join(f"{_EXCLUDED}.{quoted(column)}" for column in columns)
        same = " AND ".join(
            f"{alias}.{column} OPERATOR(pg_catalog.=) {_EXCLUDED}.{column}"
            for column in map(quoted, key)
        )
        rows = f"(SELECT 1) AS {_ROWS} ({listed})"
        if any(columns.values()):
            values = [
                f"{quoted(name)}::{kind} AS {quoted(name)}" if kind else quoted(name)
                for name, kind in columns.items()
            ]
            rows = f"(SELECT {', '.join(values)} FROM {rows}) AS x"  # noqa: S608 - quoted
        added = []
        distinct = "" if self.updates or refused is not None else f"DISTINCT ON ({keyed}) "
        if refused is not None:
            for level in (refused.defaults, refused.generated):
                more = "".join(f", {value} AS {quoted(name)}" for name, value in level.items())
                rows = f"(SELECT *{more} FROM {rows}) AS x" if level else rows  # noqa: S608
            added.append(f"({refused.condition}) AS {_REFUSED}")
        if self._has_condition:
            added.append(f"pg_catalog.count(*) OVER (PARTITION BY {keyed}) AS {_NUMBER}")
        elif not self.updates and refused is not None:
            added.append(f"pg_catalog.row_number() OVER (PARTITION BY {keyed}) AS {_NUMBER}")
        selected = ", ".join([listed, *added])
        source = f"(SELECT {distinct}{selected} FROM {rows}) AS {_EXCLUDED}"  # noqa: S608 - quoted
        clauses = []
        if refused is not None:
            assigned = [
                f"{quoted(column)} = {_EXCLUDED}.{quoted(column)}"
                for column in columns
                if column not in key
            ]
            assigned += [f"{quoted(column)} = DEFAULT" for column in refused.others]
            failing = f"UPDATE SET {', '.join(assigned)}" if assigned else "DO NOTHING"
            clauses.append(f"WHEN MATCHED AND {_EXCLUDED}.{_REFUSED} THEN {failing}")
        if self._has_condition:
            several = f"{_EXCLUDED}.{_NUMBER} OPERATOR(pg_catalog.>) 1"
            clauses.append(f"WHEN MATCHED AND {several} AND {_CONDITION} THEN DELETE")
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
    written.append(fields.get("returningClause"))
    if (
        not plain
        or "whereClause" in infer
        or any("indirection" in column["ResTarget"] for column in columns)
        or fields.get("override", _NO_OVERRIDE) != _NO_OVERRIDE
        or any("SubLink" in node for node in nodes(written))
        or _EXCLUDED in {fields["relation"]["relname"], *_aliases(fields["relation"])}
    ):
        return None
    updates = conflict["action"] == _UPDATE
    # Which of several rows is inserted depends on their order.
    if not updates and "sortClause" in next(iter(fields["selectStmt"].values())):
        return None
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
        fields,
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
    """Return expressions in which columns without a qualifier are those of a relation."""
    if isinstance(value, list):
        return [_qualified(item, alias) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _qualified(item, alias) for key, item in value.items()}
    reference = found.get("ColumnRef")
    if reference is not None and len(reference["fields"]) == 1:
        reference["fields"] = [{"String": {"sval": alias}}, *reference["fields"]]
    return found
