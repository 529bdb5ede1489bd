"""The rows of a tiered table that a query can see, for each place where it stands."""

from collections.abc import Iterator
from dataclasses import replace

from catalog.pg.nodes import MergeMatchKind, SubLinkType
from rewrite.command import Command, command
from rewrite.key_constants import SAME_TYPE
from rewrite.needs.alternatives import of_alternatives
from rewrite.needs.columns import compared_column
from rewrite.needs.constant_rows import known_rows
from rewrite.needs.definitions import Definitions, UniqueKey
from rewrite.needs.joined_keys import of_subquery, together
from rewrite.needs.levels import Level, is_plain, joined_query
from rewrite.needs.limits import enough, queue
from rewrite.needs.places import places
from rewrite.needs.results import Fixed, Need, Occurrence
from rewrite.needs.steady import is_constant, is_steady
from rewrite.query.predicates import conjuncts
from rewrite.query.range_table import RELATION
from rewrite.tree import Node, transform, walk

_ANY_SUBLINK, _EXPR_SUBLINK = SubLinkType.ANY, SubLinkType.EXPR

NOT_MATCHED_BY_SOURCE = MergeMatchKind.NOT_MATCHED_BY_SOURCE


def occurrences(level: Level, definitions: Definitions) -> Iterator[Occurrence]:
    """Yield the tiered tables of a query's FROM clause, and what is needed of each.

    The queries inside of it are levels of their own, also those of set operations. DISTINCT,
    aggregates and windows come after WHERE, and so does LIMIT, unless it is all there is. Row locks
    need what reading needs. Of what an INSERT writes to nothing is seen but what its constraints
    look at.
    """
    query = level.query
    for varno, conditions in counting(level, definitions).items():
        relid = tiered_table(level, varno, definitions)
        if relid:
            found = need(level, varno, conditions, definitions)
            asked = (level, found.conditions, conditions, definitions)
            yield Occurrence(relid, (replace(found, enough=enough(*asked), queue=queue(*asked)),))
    if command(query) in {Command.INSERT, Command.MERGE}:
        varno = query.integer("resultRelation")
        relid = tiered_table(level, varno, definitions)
        if relid:
            merged = command(query) is Command.MERGE
            yield Occurrence(relid, merged_needs(level, varno, definitions) if merged else ())


def counting(level: Level, definitions: Definitions) -> dict[int, tuple[Node, ...]]:
    """Return the conditions that count for each relation of a FROM clause, by varno.

    A plain subquery or view gets those on its output, too: they are as good as its own WHERE.
    """
    return places(level.query).limited(_of_output(level, definitions)).conditions


def _of_output(level: Level, definitions: Definitions) -> list[Node]:
    outer = level.outer
    if outer is None or not is_plain(level.query):
        return []
    entries = outer.query.nodes("rtable")
    found = (n for n, entry in enumerate(entries, 1) if entry.get("subquery") is level.query)
    varno = next(found, 0)
    return [
        _inside(condition, level.query)
        for condition in counting(outer, definitions).get(varno, ())
        if is_own(condition, varno, definitions)
    ]


def _inside(condition: Node, query: Node) -> Node:
    """Return a condition on a query's output as one on its FROM clause."""
    outputs = {target["resno"]: target.node("expr") for target in query.nodes("targetList")}
    changed = transform(
        condition, lambda node, _: outputs[node["varattno"]] if node.tag == "VAR" else None
    )
    return changed if isinstance(changed, Node) else condition


def tiered_table(level: Level, varno: int, definitions: Definitions) -> int:
    """Return the OID of a range table entry that is a tiered table, else 0."""
    entry = level.entry(varno)
    relid = entry.integer("relid") if entry["rtekind"] == RELATION else 0
    return relid if relid in definitions.tiered else 0


def merged_needs(level: Level, varno: int, definitions: Definitions) -> tuple[Need, ...]:
    """Return what MERGE needs of its target: what can match, and what can be left without match."""
    joined = level.query.node("mergeJoinCondition")
    left = (
        action.get("qual")
        for action in level.query.nodes("mergeActionList")
        if action["matchKind"] == NOT_MATCHED_BY_SOURCE
    )
    return tuple(
        need(level, varno, tuple(conjuncts(condition)), definitions)
        for condition in (joined, *left)
    )


def target_needs(level: Level, definitions: Definitions) -> tuple[Need, ...]:
    """Return what an UPDATE, DELETE or MERGE needs of the table it writes, tiered or not."""
    varno = level.query.integer("resultRelation")
    if command(level.query) is Command.MERGE:
        return merged_needs(level, varno, definitions)
    return (need(level, varno, counting(level, definitions)[varno], definitions),)


def need(level: Level, varno: int, conditions: tuple[Node, ...], definitions: Definitions) -> Need:
    """Return the rows of a relation for which those conditions can hold that count.

    Among them are those that name no column: they may keep others from being evaluated.
    """
    if any(is_own(condition, varno, definitions) for condition in conditions):
        own = tuple(
            condition
            for condition in conditions
            if is_own(condition, varno, definitions)
            or is_constant(condition, definitions.volatility)
        )
    else:
        own = ()
    found = [_fixed(level, varno, condition, definitions) for condition in conditions]
    found.insert(0, together(level, varno, conditions, definitions))
    return Need(own, varno, tuple(fixed for fixed in found if fixed is not None))


def is_own(condition: Node, varno: int, definitions: Definitions) -> bool:
    """Return whether a condition is about a relation of its query alone, whenever it is asked."""
    return is_steady(condition, definitions.volatility) and mentions_alone(condition, varno)


def mentions_alone(condition: Node, varno: int) -> bool:
    """Return whether the columns in a condition without queries are those of one relation."""
    found = [part for part, _ in walk(condition) if part.tag == "VAR"]
    return bool(found) and all(
        part["varno"] == varno and part["varlevelsup"] == 0 and part.integer("varattno") > 0
        for part in found
    )


def _fixed(level: Level, varno: int, condition: Node, definitions: Definitions) -> Fixed | None:
    """Return the values a condition compares a column with.

    Columns of other relations count where these are constant, or can be looked at.
    """
    if condition.tag == "OPEXPR" and condition["opno"] in SAME_TYPE:
        left, right = condition.nodes("args")
        for one, other in ((left, right), (right, left)):
            column = compared_column(one, varno, condition)
            rows = known_rows(level, (other,), definitions) if column else ()
            values = tuple((value,) for (value,) in rows if value is not None)
            if column and len(values) == len(rows):
                return Fixed((column,), values)
    if condition.tag == "SCALARARRAYOPEXPR" and condition["opno"] in SAME_TYPE:
        return _any_of(varno, condition, definitions)
    return (
        of_alternatives(varno, condition, definitions)
        or _of_same_table(level, varno, condition, definitions)
        or of_subquery(level, varno, condition, definitions)
    )


def _of_same_table(
    level: Level, varno: int, condition: Node, definitions: Definitions
) -> Fixed | None:
    """Return no values for a key that is compared with what a subquery says of the same table.

    ``k = (SELECT k FROM t WHERE …)`` asks for rows that the subquery has found, which are hot as it
    could not have found them else; so does a join with such a subquery. What the subquery needs is
    its own matter.
    """
    relid = tiered_table(level, varno, definitions)
    for one, query, place, equality in _compared_with_queries(level, condition):
        column, shown = compared_column(one, varno, equality), _shown(query, place)
        if not column or shown is None:
            continue
        own = _is_of(shown, query, relid) and _is_same(shown, column)
        if own and _is_unique(column, definitions.relation(relid).unique):
            return Fixed((column,), (), found=True)
    return None


def _shown(query: Node, place: int) -> Node | None:
    """Return a column that a query shows, as it comes from its FROM clause; None for others."""
    if query.get("setOperations"):
        return None
    shown = query.nodes("targetList")[place - 1].node("expr")
    return shown if shown.tag == "VAR" and not shown["varlevelsup"] else None


def _is_of(shown: Node, query: Node, relid: int) -> bool:
    """Return whether a column that a query shows is one of a table."""
    entry = query.nodes("rtable")[shown.integer("varno") - 1]
    return entry["rtekind"] == RELATION and entry["relid"] == relid


def _is_same(shown: Node, column: int) -> bool:
    """Return whether a column that a query shows is the one it is compared with."""
    return shown["varattno"] == column


def _is_unique(column: int, keys: tuple[UniqueKey, ...]) -> bool:
    """Return whether no two rows have the same value of a column."""
    return any(
        key.columns == (column,) and key.irregular is None and not key.computed for key in keys
    )


def _compared_with_queries(level: Level, condition: Node) -> Iterator[tuple[Node, Node, int, Node]]:
    """Yield what is compared with a query's values, the query, the column, and the equality."""
    if condition.tag == "SUBLINK" and condition["subLinkType"] == _ANY_SUBLINK:
        test = condition.optional("testexpr")
        if test is not None and test.tag == "OPEXPR" and test["opno"] in SAME_TYPE:
            yield test.nodes("args")[0], condition.node("subselect"), 1, test
    if condition.tag == "OPEXPR" and condition["opno"] in SAME_TYPE:
        left, right = condition.nodes("args")
        for one, other in ((left, right), (right, left)):
            if other.tag == "SUBLINK" and other["subLinkType"] == _EXPR_SUBLINK:
                yield one, other.node("subselect"), 1, condition
            elif other.tag == "VAR" and other["varlevelsup"] == 0:
                query = joined_query(level, other.integer("varno"))
                if query is not None:
                    yield one, query, other.integer("varattno"), condition


def _any_of(varno: int, condition: Node, definitions: Definitions) -> Fixed | None:
    one, array = condition.nodes("args")
    column = compared_column(one, varno, condition)
    if not column or not condition["useOr"] or not is_constant(array, definitions.volatility):
        return None
    if array.tag == "ARRAYEXPR" and not array.get("multidims"):
        return Fixed((column,), tuple((element,) for element in array.nodes("elements")))
    return Fixed((column,), ((array,),), arrays=True)
