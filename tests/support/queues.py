"""Rows that statements lock in turn, in an order, until they have enough of them."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from rewrite.needs.results import Need
from rewrite.tree import Node
from tests.support.expression_text import ExpressionText
from tests.support.outcomes import Row

_LOCKING = re.compile(r" for (update|share|no key update) of [t0-9, ]+( skip locked)?")
_FIRST = 2
"""How many rows are made hot before it is known whether these do."""


def locks_are_told(sql: str) -> bool:
    """Return whether the rows that a statement locks are those of its answer, or of constraints.

    What a condition locks depends on which rows PostgreSQL asks it for, and in which order.
    """
    found = list(_LOCKING.finditer(sql))
    shown = sql.startswith("select") and [one.end() for one in found] == [len(sql)]
    return shown or not found


def order(need: Need, text: ExpressionText, column: Callable[[int], str]) -> str:
    """Return the ORDER BY of the rows that a queue begins with."""
    assert need.queue is not None
    values = {value["ressortgroupref"]: value.node("expr") for value in need.queue.values}
    keys = [
        _sorted(clause, text.expression(values[clause["tleSortGroupRef"]], column), text)
        for clause in need.queue.sort
    ]
    return f" order by {', '.join(keys)}" if keys else ""


def _sorted(clause: Node, value: str, text: ExpressionText) -> str:
    operator = text.operator(clause.integer("sortop"))
    return f"{value} using {operator} nulls {'first' if clause['nulls_first'] else 'last'}"


@dataclass
class Begun:
    """The first rows of a queue, which may do."""

    table: str
    rows: list[Row]
    """All that satisfy its conditions, in their order."""
    number: int = _FIRST
    """How many of them have been made hot."""

    @property
    def first(self) -> Counter[Row]:
        """The rows that have been made hot."""
        return Counter(self.rows[: self.number])

    def more(self, hot: Counter[Row], untouched: Counter[Row]) -> Counter[Row]:
        """Return further rows that are needed when a statement has run; none where it has not
        got beyond the first ones, or there are no others.

        Args:
            hot: The rows that were hot.
            untouched: Those of them that it has neither written nor locked.
        """
        passed = all(untouched[row] < hot[row] for row in self.first)
        if not passed or self.number >= len(self.rows):
            return Counter()
        before = self.first
        self.number *= 2
        return self.first - before
