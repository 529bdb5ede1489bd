"""The order of the rows of a query, as a column of them.

Before: ``SELECT a, b AS c FROM s ORDER BY c, d DESC LIMIT 5``.
After: ``SELECT a, b AS c, pg_catalog.row_number() OVER (ORDER BY b, d DESC) AS "row order" FROM s
ORDER BY "row order" LIMIT 5``.

Rows that are told apart by their columns, those of SELECT DISTINCT and of set operations, are
numbered when that is done: ``SELECT "column 1", row_number() OVER (ORDER BY "column 1") AS "row
order" FROM (SELECT DISTINCT a FROM s ORDER BY a) AS x ("column 1")``.

Not handled: FETCH … WITH TIES, row locks, and names that results have only by what they are
computed with.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from catalog.session.names import quoted
from catalog.statements.splitting import parse_tree

ORDER: Final = "row order"
"""Name of the column."""

_SELECT: Final = "SelectStmt"
_OTHERS: Final = frozenset({"lockingClause", "intoClause"})
_SEVERAL: Final = frozenset({"distinctClause", "valuesLists"})
_NO_OPERATION: Final = "SETOP_NONE"
_WITH_TIES: Final = "LIMIT_OPTION_WITH_TIES"
_NAMELESS: Final = frozenset({"A_Const", "A_Expr"})
"""Expressions that give their results no name."""


def is_ordered(query: Mapping[str, Any]) -> bool:
    """Return whether a query has an ORDER BY of its own."""
    return "sortClause" in next(iter(query.values()))


def numbered(query: Mapping[str, Any], width: int) -> dict[str, Any] | None:
    """Return an ordered query with its order as its last column; None for one that is not known.

    Args:
        query: The query.
        width: How many columns it has.
    """
    fields = query.get(_SELECT)
    if fields is None or not _OTHERS.isdisjoint(fields) or fields.get("limitOption") == _WITH_TIES:
        return None
    sorts = [one["SortBy"] for one in fields["sortClause"]]
    if _is_plain(fields):
        keys = [_key(one["node"], _results(fields)) for one in sorts]
        added = _numbers(sorts, keys, f"ORDER BY {quoted(ORDER)}")
        if added is None:
            return None
        listed = [*fields["targetList"], *added["targetList"]]
        return {_SELECT: {**fields, "targetList": listed, "sortClause": added["sortClause"]}}
    results = _results(_first(fields))
    places = [_place(one["node"], results) for one in sorts]
    keys = [None if place is None else _column(place) for place in places]
    names = ", ".join(_name_of(place) for place in range(width))
    added = _numbers(sorts, keys, f"FROM (SELECT 1) AS x ({names})")
    if added is None:
        return None
    (source,) = added["fromClause"]
    source["RangeSubselect"]["subquery"] = dict(query)
    listed = [*map(_result, range(width)), *added["targetList"]]
    return {_SELECT: {**added, "targetList": listed}}


def _numbers(
    sorts: Sequence[Mapping[str, Any]], keys: Sequence[dict[str, Any] | None], rest: str
) -> dict[str, Any] | None:
    """Return a query that yields the order alone; None where it is not known."""
    (tree,) = parse_tree(
        f"SELECT pg_catalog.row_number() OVER (ORDER BY 1) AS {quoted(ORDER)} {rest}"
    )
    fields: dict[str, Any] = tree[_SELECT]
    (target,) = fields["targetList"]
    known = [
        {"SortBy": {**one, "node": key}}
        for one, key in zip(sorts, keys, strict=True)
        if key is not None
    ]
    target["ResTarget"]["val"]["FuncCall"]["over"]["orderClause"] = known
    return fields if len(known) == len(sorts) else None


def _is_plain(fields: Mapping[str, Any]) -> bool:
    """Return whether each row of what is read is one of the result, or left out."""
    return fields.get("op", _NO_OPERATION) == _NO_OPERATION and _SEVERAL.isdisjoint(fields)


def _first(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first one of queries that make up one: it gives their columns names."""
    while fields.get("op", _NO_OPERATION) != _NO_OPERATION:
        fields = fields["larg"]
    return fields


def _results(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one["ResTarget"] for one in fields.get("targetList", ())]


def _name_of(place: int) -> str:
    return quoted(f"column {place + 1}")


def _column(place: int) -> dict[str, Any]:
    return {"ColumnRef": {"fields": [{"String": {"sval": f"column {place + 1}"}}]}}


def _result(place: int) -> dict[str, Any]:
    return {"ResTarget": {"val": _column(place)}}


def _place(node: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> int | None:
    """Return which result something sorted by is; None where it is not known."""
    if "A_Const" in node:
        return int(node["A_Const"].get("ival", {}).get("ival", 0)) - 1
    if any(_is_star(one["val"]) for one in results):
        return None
    name = _plain_name(node)
    if name is not None:
        found = [place for place, one in enumerate(results) if _name(one) == name]
        found = found if len(found) == 1 and _tells_names(results) else []
    else:
        wanted = _without_places(node)
        found = [n for n, one in enumerate(results) if _without_places(one["val"]) == wanted]
    return found[0] if found else None


def _without_places(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_places(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_places(item) for key, item in value.items() if key != "location"}


def _key(node: dict[str, Any], results: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return what is sorted by, as what the query computes it from; None where it is not known."""
    if "A_Const" in node:
        return _numbered_result(node["A_Const"], results)
    name = _plain_name(node)
    if name is None:
        return node
    found = [one["val"] for one in results if _name(one) == name]
    if found:
        return found[0] if len(found) == 1 else None
    return node if _tells_names(results) else None


def _numbered_result(
    constant: Mapping[str, Any], results: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    place = constant.get("ival", {}).get("ival", 0)
    if not 0 < place <= len(results) or any(_is_star(one["val"]) for one in results[:place]):
        return None
    value: dict[str, Any] = results[place - 1]["val"]
    return value


def _tells_names(results: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether results have no names but those that are written."""
    return all(
        "name" in one or "ColumnRef" in one["val"] or not _NAMELESS.isdisjoint(one["val"])
        for one in results
    )


def _name(result: Mapping[str, Any]) -> str | None:
    if "name" in result:
        return str(result["name"])
    return _last_name(result["val"])


def _last_name(node: Mapping[str, Any]) -> str | None:
    fields = node.get("ColumnRef", {}).get("fields", ())
    return fields[-1].get("String", {}).get("sval") if fields else None


def _plain_name(node: Mapping[str, Any]) -> str | None:
    fields = node.get("ColumnRef", {}).get("fields", ())
    return _last_name(node) if len(fields) == 1 else None


def _is_star(node: Mapping[str, Any]) -> bool:
    fields = node.get("ColumnRef", {}).get("fields", ())
    return any("A_Star" in one for one in fields)
