"""What limits the rows that a query reads of one relation: conditions, and a LIMIT.

They can be moved to a query of that relation alone, which stands in its place. Works on
PostgreSQL's raw trees; which columns the relation has is for others to know.
"""

from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from catalog.session.statement_parts import nodes

RawNode = dict[str, Any]

_TRUE: Final[RawNode] = {"A_Const": {"boolval": {"boolval": True}}}

_LIMITS: Final = ("limitCount", "limitOffset")

_NOT_OF_ROWS: Final = frozenset(
    {
        "distinctClause",
        "groupClause",
        "havingClause",
        "intoClause",
        "lockingClause",
        "valuesLists",
        "windowClause",
    }
)
"""Clauses of a query whose LIMIT is not one of the rows of its FROM."""

_IN_PLAIN: Final = frozenset({"ColumnRef", "FuncCall", "SQLValueFunction", "SubLink"})
"""Kinds of nodes whose value may depend on more than constants and parameters."""

_NOT_ALONE: Final = frozenset({"A_Star", "SubLink"})
"""Kinds of nodes in which more may be named than columns of one relation."""


@dataclass(frozen=True, slots=True)
class Named:
    """A relation in FROM, as expressions beside it name it."""

    item: RawNode
    alias: str
    columns: Collection[str]


@dataclass(frozen=True, slots=True)
class Kept:
    """Which restrictions a query of the relation alone has."""

    conditions: int = 0
    """How many conditions, the first ones."""
    limited: bool = False
    """Whether it has the LIMIT, too, where these are all."""


@dataclass(slots=True)
class Restrictions:
    """What is said of one relation alone where it stands."""

    conditions: list[RawNode] = field(default_factory=list)
    """Conditions that each row has to satisfy, in the order in which they are written."""
    limited: "Limited | None" = None
    """The query around it, where its LIMIT is one of this relation if the conditions are all."""

    def selection(self, kept: Kept) -> RawNode:
        """Return clauses of a query of the relation alone."""
        clauses: RawNode = {}
        taken = deepcopy(self.conditions[: kept.conditions])
        if len(taken) == 1:
            clauses["whereClause"] = taken[0]
        elif taken:
            clauses["whereClause"] = {"BoolExpr": {"boolop": "AND_EXPR", "args": taken}}
        limited = self._limited(kept)
        return clauses if limited is None else clauses | limited.clauses()

    def take(self, kept: Kept) -> None:
        """Remove from the statement what a query of the relation has got.

        What names no column stays: it is a condition of the other relations, too.
        """
        for condition in self.conditions[: kept.conditions]:
            if _is_plain(condition):
                continue
            condition.clear()
            condition.update(deepcopy(_TRUE))
        limited = self._limited(kept)
        if limited is not None:
            limited.take()

    def _limited(self, kept: Kept) -> "Limited | None":
        """Return the query whose LIMIT moves; not where a condition on its rows stays."""
        is_all = kept.conditions == len(self.conditions)
        return self.limited if kept.limited and is_all else None


@dataclass(frozen=True, slots=True)
class Limited:
    """A query that returns the first rows of one relation."""

    query: RawNode
    order: list[RawNode]
    """Its ORDER BY, over columns of the relation."""

    def clauses(self) -> RawNode:
        """Return ORDER BY, LIMIT and OFFSET."""
        kept: RawNode = {key: deepcopy(self.query[key]) for key in _LIMITS if key in self.query}
        kept["limitOption"] = self.query["limitOption"]
        return kept | ({"sortClause": deepcopy(self.order)} if self.order else {})

    def take(self) -> None:
        """Remove LIMIT and OFFSET; the order of the rows stays."""
        for key in _LIMITS:
            self.query.pop(key, None)
        self.query["limitOption"] = "LIMIT_OPTION_DEFAULT"


def restrictions(
    statement: RawNode, named: Named, result: Sequence[str] | None = None
) -> Restrictions:
    """Return what a statement says of a relation in the FROM of one of its queries.

    A condition can be moved to where PostgreSQL itself evaluates it: not past the side of an outer
    join that may be missing.

    Args:
        statement: The statement.
        named: The relation.
        result: The names of its columns, where the statement is a query that returns each row of
            its FROM once, and does nothing else: it has no aggregates, no window functions, none
            that return sets, and none that have effects.
    """
    found = Restrictions()
    for query in nodes(statement):
        holders = _holders(query, named.item) if "fromClause" in query else None
        if holders is None:
            continue
        bare = not any(map(_merges_columns, query["fromClause"]))
        conjuncts = [part for holder, key in holders for part in _conjuncts(holder.get(key))]
        if any(_is_gate(part, named) for part in conjuncts):
            return found
        found.conditions += [
            part for part in conjuncts if _is_plain(part) or _is_about(part, named, bare=bare)
        ]
        is_all = len(found.conditions) == len(conjuncts)
        if result is not None and is_all and query is statement.get("SelectStmt"):
            found.limited = _limited(query, named, result)
    return found


def is_counted(statement: RawNode, item: RawNode) -> bool:
    """Return whether a join around a relation names its columns anew, one after the other."""
    joins = (node["JoinExpr"] for node in nodes(statement) if "JoinExpr" in node)
    renaming = (join for join in joins if "colnames" in join.get("alias", {}))
    return any(node is item for join in renaming for node in nodes(join))


def _holders(query: RawNode, wanted: RawNode) -> list[tuple[RawNode, str]] | None:
    """Return where conditions on the rows of an item of FROM stand; None if it is not in there."""
    for item in query["fromClause"]:
        found = _within(item, wanted)
        if found is not None:
            holders, is_reached = found
            return [*holders, (query, "whereClause")] if is_reached else holders
    return None


_SIDES: Final = {
    "larg": ({"JOIN_INNER", "JOIN_RIGHT"}, {"JOIN_INNER", "JOIN_LEFT"}),
    "rarg": ({"JOIN_INNER", "JOIN_LEFT"}, {"JOIN_INNER", "JOIN_RIGHT"}),
}
"""Joins whose ON, and those outside of which conditions, choose among the rows of a side."""


def _within(item: RawNode, wanted: RawNode) -> tuple[list[tuple[RawNode, str]], bool] | None:
    """Return the conditions of joins on an item, and whether those outside concern it, too."""
    if item is wanted:
        return [], True
    join = item.get("JoinExpr", {})
    for side, (chosen_by_on, chosen_outside) in _SIDES.items():
        found = _within(join[side], wanted) if side in join else None
        if found is None:
            continue
        holders, is_reached = found
        if is_reached and join["jointype"] in chosen_by_on:
            holders.append((join, "quals"))
        # The alias of a join hides the names of what is in it.
        is_reached = is_reached and "alias" not in join
        return holders, is_reached and join["jointype"] in chosen_outside
    return None


def _merges_columns(item: RawNode) -> bool:
    """Return whether columns of two relations have become one: USING and NATURAL."""
    joins = (node["JoinExpr"] for node in nodes(item) if "JoinExpr" in node)
    return any("usingClause" in join or "isNatural" in join for join in joins)


def _conjuncts(condition: RawNode | None) -> list[RawNode]:
    if condition is None:
        return []
    expression = condition.get("BoolExpr", {})
    if expression.get("boolop") != "AND_EXPR":
        return [condition]
    return [part for argument in expression["args"] for part in _conjuncts(argument)]


def _is_plain(expression: RawNode) -> bool:
    """Return whether an expression is made of constants, parameters and operators alone."""
    return all(_IN_PLAIN.isdisjoint(node) for node in nodes(expression))


def _is_gate(condition: RawNode, named: Named) -> bool:
    """Return whether a condition may be evaluated once, before all others, and keep them from it.

    It names no column, or what a query in it yields; nothing in it can be one of the relation.
    """
    if _is_plain(condition):
        return False
    found = list(nodes(condition))
    references = [node["ColumnRef"] for node in found if "ColumnRef" in node]
    if any("SubLink" in node for node in found):
        return not any(_is_column(reference, named, bare=True) for reference in references)
    return not references


def _is_about(expression: RawNode, named: Named, *, bare: bool) -> bool:
    """Return whether an expression is one of columns of a relation alone.

    Args:
        expression: The expression, where no query inside it can have other names.
        named: The relation.
        bare: Whether a column that is named without a relation is of the one that has it.
    """
    references = 0
    for node in nodes(expression):
        if not _NOT_ALONE.isdisjoint(node):
            return False
        if "ColumnRef" in node:
            references += 1
            if not _is_column(node["ColumnRef"], named, bare=bare):
                return False
    return references > 0


def _is_column(reference: RawNode, named: Named, *, bare: bool) -> bool:
    *qualifiers, column = (item.get("String", {}).get("sval") for item in reference["fields"])
    return column in named.columns and (qualifiers == [named.alias] or (bare and not qualifiers))


def _limited(query: RawNode, named: Named, result: Sequence[str]) -> Limited | None:
    """Return a query that returns the first rows of one relation, in an order of its columns."""
    if not _NOT_OF_ROWS.isdisjoint(query) or len(query["fromClause"]) > 1:
        return None
    if query["fromClause"][0] is not named.item:
        return None
    limits = [query[key] for key in _LIMITS if key in query]
    if not limits or not all(map(_is_plain, limits)):
        return None
    order = []
    for item in query.get("sortClause", ()):
        key = _sorted_by(item["SortBy"]["node"], query.get("targetList", []), named, result)
        if key is None:
            return None
        order.append({"SortBy": {**item["SortBy"], "node": key}})
    return Limited(query, order)


def _sorted_by(
    key: RawNode, targets: list[RawNode], named: Named, result: Sequence[str]
) -> RawNode | None:
    """Return an item of ORDER BY over columns of the relation; None where it is another one.

    A number, or a name alone, means a column of the result, as far as there is one.
    """
    listed = [target["ResTarget"]["val"] for target in targets]
    has_star = any("A_Star" in node for node in nodes(listed))
    number = key.get("A_Const", {}).get("ival")
    fields = key.get("ColumnRef", {}).get("fields", ())
    name = fields[0].get("String", {}).get("sval") if len(fields) == 1 else None
    if number is not None:
        place = number.get("ival", 0)
        chosen = [] if has_star else listed[place - 1 : place]
    elif name in result and not has_star:
        chosen = [value for value, shown in zip(listed, result, strict=True) if shown == name]
    elif name in result and result.count(name) > 1:
        chosen = []
    else:
        # A star shows all columns by their names; another column of such a name is a second one.
        chosen = [key]
    if len(chosen) != 1 or not _is_about(chosen[0], named, bare=True):
        return None
    found: RawNode = chosen[0]
    return found
