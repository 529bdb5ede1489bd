"""Columns of a table that conditions compare with values of other relations, all of a row together.

    UPDATE t SET v = s.v FROM s WHERE t.a = s.a AND t.b = s.b
    DELETE FROM t WHERE (a, b) IN (SELECT a, b FROM s)
    DELETE FROM t WHERE EXISTS (SELECT FROM s WHERE s.a = t.a AND s.b = t.b)

The values one row of ``s`` has belong together: a hundred rows tell a hundred keys, not ten
thousand.
"""

from collections.abc import Iterable, Iterator

from catalog.pg.nodes import SubLinkType
from rewrite.key_constants import SAME_TYPE
from rewrite.needs.columns import compared_column
from rewrite.needs.constant_rows import known_rows
from rewrite.needs.definitions import Definitions
from rewrite.needs.levels import Level
from rewrite.needs.results import Fixed
from rewrite.needs.sources import is_relabelled, places, traced, traced_output
from rewrite.query.predicates import conjuncts
from rewrite.tree import Node

_EXISTS, _ANY, _EXPR = SubLinkType.EXISTS, SubLinkType.ANY, SubLinkType.EXPR

_OF_NO_ROW = ("hasAggs", "havingQual", "groupingSets")
"""What may make a row of a query whose WHERE no row satisfies: GROUP BY ROLLUP (v) does."""


def together(
    level: Level, varno: int, conditions: Iterable[Node], definitions: Definitions
) -> Fixed | None:
    """Return the rows of values that several columns of a relation are compared with."""
    pairs = dict(
        pair
        for condition in conditions
        if condition.tag == "OPEXPR" and condition["opno"] in SAME_TYPE
        for pair in _pairs(condition, varno, 0)
    )
    if len(pairs) < 2:
        return None
    rows = known_rows(level, tuple(pairs.values()), definitions)
    if len(rows) == 1 and not places(rows[0]):  # constants need not be put together
        return None
    if all(all(value is not None for value in row) for row in rows):
        return _fixed(tuple(pairs), rows)
    # Those that are known are some of the columns.
    known = [n for n in range(len(pairs)) if all(row[n] is not None for row in rows)]
    columns = tuple(pairs)
    some = tuple(tuple(row[n] for n in known) for row in rows)
    return _fixed(tuple(columns[n] for n in known), some) if len(known) > 1 else None


def of_subquery(
    level: Level, varno: int, condition: Node, definitions: Definitions
) -> Fixed | None:
    """Return the rows of values that a subquery in a condition compares columns with."""
    if condition.tag == "SUBLINK" and condition["subLinkType"] == _EXISTS:
        return _of_exists(level, varno, condition.node("subselect"), definitions)
    found = _of_any(condition, varno) or _of_scalar(condition, varno)
    if found is None:
        return None
    query, outputs = found
    rows = traced_output(Level(query, level), outputs.values(), definitions)
    return _fixed(tuple(outputs), rows)


def _fixed(columns: tuple[int, ...], rows: tuple[tuple[Node | None, ...], ...]) -> Fixed | None:
    found = [tuple(value for value in row if value is not None) for row in rows]
    known = columns and all(len(row) == len(columns) for row in found)
    return Fixed(columns, tuple(found)) if known else None


def _pairs(condition: Node, varno: int, levels_up: int) -> Iterator[tuple[int, Node]]:
    left, right = condition.nodes("args")
    for one, other in ((left, right), (right, left)):
        column = compared_column(one, varno, condition, levels_up)
        if column:
            yield column, other


def _of_exists(level: Level, varno: int, query: Node, definitions: Definitions) -> Fixed | None:
    inner = Level(query, level)
    if any(query.get(name) for name in _OF_NO_ROW):
        return None
    pairs = dict(
        pair
        for condition in conjuncts(query.node("jointree").get("quals"))
        if condition.tag == "OPEXPR" and condition["opno"] in SAME_TYPE
        for pair in _pairs(condition, varno, 1)
    )
    return _fixed(tuple(pairs), traced(inner, tuple(pairs.values()), definitions))


def _of_any(condition: Node, varno: int) -> tuple[Node, dict[int, int]] | None:
    """Return the query of an IN, and which of its output columns each column is compared with."""
    if condition.tag != "SUBLINK" or condition["subLinkType"] != _ANY:
        return None
    outputs: dict[int, int] = {}
    for test in conjuncts(condition.get("testexpr")):
        if test.tag != "OPEXPR" or test["opno"] not in SAME_TYPE:
            continue
        left, right = test.nodes("args")
        while is_relabelled(right):
            right = right.node("arg")
        column = compared_column(left, varno, test)
        if column and right.tag == "PARAM":
            outputs[column] = right.integer("paramid")
    return (condition.node("subselect"), outputs) if outputs else None


def _of_scalar(condition: Node, varno: int) -> tuple[Node, dict[int, int]] | None:
    if condition.tag != "OPEXPR" or condition["opno"] not in SAME_TYPE:
        return None
    for column, other in _pairs(condition, varno, 0):
        if other.tag == "SUBLINK" and other["subLinkType"] == _EXPR:
            return other.node("subselect"), {column: 1}
    return None
