"""FROM items: what stands behind one range table entry."""

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from rewrite.errors import UnsupportedError
from rewrite.query.compilation import Block, Compilation
from rewrite.query.sql import aliased
from rewrite.values import Value


class Relation(Protocol):
    """A FROM item with numbered columns."""

    bound: int | None
    """Proven upper bound of its rows."""
    key: tuple[int, ...]
    """Attribute numbers that identify a row; empty when none do."""

    def column(self, attno: int) -> Value:
        """Return a column by attribute number."""

    def item(self) -> exp.Expression:
        """Return the FROM item; columns may still be added to it afterwards."""


class BlockRelation:
    """A subquery in FROM."""

    key: tuple[int, ...] = ()

    def __init__(self, compilation: Compilation, block: Block, *, lateral: bool = False) -> None:
        self._alias = compilation.name("t")
        self._block = block
        self._lateral = lateral
        self.bound = block.bound

    def column(self, attno: int) -> Value:
        """Return a column of the subquery."""
        return numbered(self._block.relation(self._alias), attno)

    def item(self) -> exp.Expression:
        """Return the subquery with its alias."""
        subquery = aliased(self._block.query, self._alias)
        if not self._lateral:
            return subquery
        alias = subquery.args["alias"]
        subquery.set("alias", None)
        return exp.Lateral(this=subquery, view=False, outer=False, alias=alias)


class TableRelation:
    """A named relation in FROM whose columns are known: a common table expression."""

    key: tuple[int, ...] = ()

    def __init__(self, item: exp.Expression, columns: Sequence[Value], bound: int | None) -> None:
        self._item = item
        self._columns = columns
        self.bound = bound

    def column(self, attno: int) -> Value:
        """Return a column by position."""
        return numbered(self._columns, attno)

    def item(self) -> exp.Expression:
        """Return the table reference."""
        return self._item


def numbered(columns: Sequence[Value], attno: int) -> Value:
    """Return column ``attno``, counted from 1, not shared with another tree."""
    if not 0 < attno <= len(columns):
        raise UnsupportedError("system column or whole-row reference is not supported")
    value = columns[attno - 1]
    return value.with_parts([part.copy() for part in value.parts])
