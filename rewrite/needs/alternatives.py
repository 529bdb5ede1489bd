"""Columns of a relation that each alternative of a condition compares with constants.

    WHERE (a = 1 AND b = 2) OR (a = 3 AND b = 4)
    WHERE (a, b) IN ((1, 2), (3, 4))

are the same to PostgreSQL's analysis. A row that satisfies the condition has the values of one of
the alternatives together, in those columns that all of them tell.
"""

from collections.abc import Iterator

from rewrite.key_constants import SAME_TYPE
from rewrite.needs.columns import compared_column
from rewrite.needs.definitions import Definitions
from rewrite.needs.results import Fixed
from rewrite.needs.steady import is_constant
from rewrite.query.predicates import conjuncts
from rewrite.tree import Node


def of_alternatives(varno: int, condition: Node, definitions: Definitions) -> Fixed | None:
    """Return the rows of values that the alternatives of a condition compare columns with."""
    rows = [
        dict(_pairs(alternative, varno, definitions)) for alternative in _alternatives(condition)
    ]
    if len(rows) < 2:
        return None
    columns = tuple(sorted(set.intersection(*map(set, rows))))
    if not columns:
        return None
    return Fixed(columns, tuple(tuple(row[column] for column in columns) for row in rows))


def _alternatives(condition: Node) -> Iterator[Node]:
    if condition.tag == "BOOLEXPR" and condition["boolop"] == "or":
        for one in condition.nodes("args"):
            yield from _alternatives(one)
    else:
        yield condition


def _pairs(alternative: Node, varno: int, definitions: Definitions) -> Iterator[tuple[int, Node]]:
    """Yield the columns that have to be equal to a constant, and these."""
    for condition in conjuncts(alternative):
        if condition.tag != "OPEXPR" or condition["opno"] not in SAME_TYPE:
            continue
        left, right = condition.nodes("args")
        for one, other in ((left, right), (right, left)):
            column = compared_column(one, varno, condition)
            if column and is_constant(other, definitions.volatility):
                yield column, other
