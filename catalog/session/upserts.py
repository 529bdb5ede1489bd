"""INSERT … ON CONFLICT as a MERGE that does the same, where its rows come from a query.

Before: ``INSERT INTO t (a, b) SELECT x, y FROM s ON CONFLICT (a) DO UPDATE SET b = excluded.b``.
After: ``MERGE INTO t USING (SELECT x, y FROM s) AS excluded (a, b) ON t.a = excluded.a WHEN MATCHED
THEN UPDATE SET b = excluded.b WHEN NOT MATCHED THEN INSERT (a, b) VALUES (excluded.a,
excluded.b)``; DO NOTHING takes one row of each key.

Not handled: DO UPDATE … WHERE, as it depends on the order of rows that have one key; subqueries in
what is assigned or returned; arbiters that are no columns.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catalog.session.names import quoted
from catalog.session.statement_parts import UnfaithfulTextError, faithful_text, nodes
from catalog.statements.splitting import RelationName, parse_tree

_EXCLUDED = "excluded"
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
        self, columns: Sequence[str], key: Sequence[str], required: Sequence[str]
    ) -> str | None:
        """Return the statement as a MERGE; None where its text could not be trusted.

        Args:
            columns: The columns that rows are proposed for.
            key: Those of the primary key.
            required: Others that are not NULL, in rows that are only proposed as well.
        """
        alias = self._alias
        listed, keyed = (", ".join(map(quoted, some)) for some in (columns, key))
        given = ", ".join(f"{_EXCLUDED}.{quoted(column)}" for column in columns)
        same = " AND ".join(
            f"{quoted(alias)}.{column} OPERATOR(pg_catalog.=) {_EXCLUDED}.{column}"
            for column in map(quoted, key)
        )
        one_of_each = f"SELECT DISTINCT ON ({keyed}) * FROM (SELECT 1) x"  # noqa: S608 - quoted
        rows = "SELECT 1" if self.updates else one_of_each
        update = "".join(
            f"WHEN MATCHED AND {_EXCLUDED}.{column} IS NULL THEN UPDATE SET {column} = NULL "
            for column in map(quoted, required)
        )
        update += "WHEN MATCHED THEN UPDATE SET x = 1 " if self.updates else ""
        (tree,) = parse_tree(
            f"MERGE INTO t USING ({rows}) AS {_EXCLUDED} ({listed}) ON {same} {update}"  # noqa: S608 - quoted
            f"WHEN NOT MATCHED THEN INSERT ({listed}) VALUES ({given})"
        )
        merge = tree["MergeStmt"]
        merge["relation"] = self._fields["relation"]
        subselect = merge["sourceRelation"]["RangeSubselect"]
        if self.updates:
            subselect["subquery"] = self._fields["selectStmt"]
            assigned = self._fields["onConflictClause"]["targetList"]
            clause = merge["mergeWhenClauses"][-2]["MergeWhenClause"]
            clause["targetList"] = _qualified(assigned, alias)
        else:
            inner = subselect["subquery"]["SelectStmt"]["fromClause"][0]["RangeSubselect"]
            inner["subquery"] = self._fields["selectStmt"]
            inner["alias"] = copy.deepcopy(subselect["alias"])
        if "returningClause" in self._fields:
            merge["returningClause"] = _qualified(self._fields["returningClause"], alias)
        if "withClause" in self._fields:
            merge["withClause"] = self._fields["withClause"]
        try:
            return faithful_text(tree)
        except UnfaithfulTextError:
            return None

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
    if not fields or not conflict or "selectStmt" not in fields or "whereClause" in conflict:
        return None
    infer, columns = conflict.get("infer", {}), fields.get("cols", ())
    arbiter = [element["IndexElem"] for element in infer.get("indexElems", ())]
    plain = all(element.keys() <= _PLAIN and "name" in element for element in arbiter)
    written = [conflict.get("targetList"), fields.get("returningClause")]
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
