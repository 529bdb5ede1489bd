"""The clauses of a MERGE: what is done to which rows, and which join yields these."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from sqlglot import exp

from catalog.model import LEAF, JournalTable
from rewrite.command import Command, Matching, MergeAction, merge_actions
from rewrite.errors import UnsupportedError
from rewrite.journal.current_rows import CurrentRows
from rewrite.query.compilation import Compilation
from rewrite.query.sql import column, literal
from rewrite.query.subquery_rows import multiple_sublinks
from rewrite.results import ACTION, DrawnColumn
from rewrite.tree import Node


class Join(IntEnum):
    """Which rows without match have actions."""

    INNER = 0
    SOURCE = 1
    TARGET = 2
    FULL = 3


@dataclass(slots=True)
class Merge:
    """A MERGE being compiled."""

    compilation: Compilation
    query: Node
    actions: tuple[MergeAction, ...]
    rows: CurrentRows
    table: JournalTable
    drawn: tuple[DrawnColumn, ...] = ()
    """What rows draw."""

    def draws(self, attno: int, place: int) -> bool:
        """Return whether the rows of a clause draw a column."""
        return any((one.attnum, one.place) == (attno, place) for one in self.drawn)

    @property
    def varno(self) -> int:
        """Number of the target in the range table."""
        return self.query.integer("resultRelation")

    @property
    def key(self) -> tuple[int, ...]:
        """The key; of leaves that are read as one table that of the partitioned one.

        It has the columns that tell the leaf.
        """
        return tuple(attnum for attnum in self.table.key if attnum != LEAF)

    @property
    def placed_by(self) -> tuple[int, ...]:
        """The columns that tell where a row is: the key, or what tells its leaf."""
        return self.key or tuple(sorted(self.compilation.context.placed_by))

    def has(self, *commands: Command) -> bool:
        """Return whether an action is one of some commands."""
        return any(action.command in commands for action in self.actions)

    def acts(self, matching: Matching) -> bool:
        """Return whether something is done to rows of a kind."""
        return any(
            action.matching is matching and action.command is not None for action in self.actions
        )

    @property
    def join(self) -> Join:
        """The join that yields all rows to which something is done."""
        alone = Join.SOURCE if self.acts(Matching.NOT_BY_TARGET) else Join.INNER
        if not self.acts(Matching.NOT_BY_SOURCE):
            return alone
        return Join.FULL if alone is Join.SOURCE else Join.TARGET


def understood(compilation: Compilation, query: Node) -> Merge:
    """Refuse what has no exact counterpart."""
    if query.items("withCheckOptions"):
        raise UnsupportedError("row-level security and views with check option are not supported")
    varno = query.integer("resultRelation")
    if query.integer("mergeTargetRelation", varno) != varno:
        raise UnsupportedError("MERGE into this view is not supported")
    entry = query.nodes("rtable")[varno - 1]
    if entry.items("securityQuals"):
        raise UnsupportedError("row-level security is not supported")
    snapshot = compilation.context.snapshots.get(entry.integer("relid"))
    if snapshot is None:
        raise UnsupportedError("MERGE into this relation is not supported")
    actions = merge_actions(query)
    if sum(bool(multiple_sublinks(action.entries)) for action in actions) > 1:
        # PostgreSQL's own plans of such a statement take the columns of the wrong one.
        raise UnsupportedError(
            "SET of several columns from a subquery in more than one clause of a large MERGE is"
            " not supported"
        )
    rows = CurrentRows(compilation, snapshot)
    return Merge(compilation, query, actions, rows, snapshot.table)


def may_change_key(merge: Merge) -> bool:
    """Return whether an UPDATE may give rows another key; generated columns may be of it.

    Of rows without key it is what tells their leaf.
    """
    generated = merge.compilation.context.generated.get(merge.table.relid, {})
    is_generated = not generated.keys().isdisjoint(merge.placed_by)
    return any(
        action.command is Command.UPDATE
        and (is_generated or not action.assigned.keys().isdisjoint(merge.placed_by))
        for action in merge.actions
    )


def is_command(alias: str, command: Command) -> exp.Expression:
    """Return the condition that something is done to a row."""
    return exp.EQ(this=column(ACTION, alias), expression=literal(command))


def case(
    cases: Sequence[tuple[exp.Expression, exp.Expression]], default: exp.Expression | None = None
) -> exp.Expression:
    """Return ``CASE WHEN … THEN … ELSE … END``; the default alone where there are no cases."""
    if not cases and default is not None:
        return default
    branches = [exp.If(this=condition, true=value) for condition, value in cases]
    return exp.Case(ifs=branches, default=default)
