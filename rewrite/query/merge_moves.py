"""Rows to which a MERGE gives other keys: each is two, one that goes and one that comes.

Before: ``SELECT v.action AS action, v.w1 AS n1, … FROM (SELECT …) AS v``, where an UPDATE assigns
column 1, which is of the key.
After: ``SELECT CASE v.part WHEN 1 THEN 4 WHEN 2 THEN 3 ELSE v.action END AS action,
CASE WHEN v.part = 1 THEN v.b1 ELSE v.w1 END AS n1, …, v.part > 0 AS moved FROM (SELECT *,
EXPLODE(CASE WHEN v.action = 2 AND NOT v.b1 <=> v.w1 THEN ARRAY(1, 2) ELSE ARRAY(0) END) AS part
FROM (SELECT …) AS v) AS v``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from rewrite.command import Command
from rewrite.query.changed_rows import Target
from rewrite.query.merge_clauses import Merge, case, is_command, may_change_key
from rewrite.query.merge_conflicts import (
    arbitrates,
    changes_key,
    counted,
    keys,
    proposed_twice,
    row_without_key,
    taken,
)
from rewrite.query.sql import (
    aliased,
    call,
    column,
    conjunction,
    disjunction,
    is_null,
    literal,
    named,
    negation,
    select,
)
from rewrite.results import ACTION, MergeConflict

_PART = "part"
_WHOLE, _GOING, _COMING = 0, 1, 2


@dataclass(frozen=True, slots=True)
class MovedRows:
    """The rows that a MERGE writes, where those with another key are two."""

    merge: Merge
    alias: str
    """What they are selected from."""
    target: Target

    @staticmethod
    def applies(merge: Merge) -> bool:
        """Return whether rows may get other keys, and whoever writes them can have that."""
        moves = merge.compilation.context.moves
        return moves and may_change_key(merge)

    def parted(self, rows: exp.Select) -> exp.Select:
        """Return the rows with those that move as two each."""
        moves = conjunction(
            [is_command(self.alias, Command.UPDATE), changes_key(self.merge, self.target)]
        )
        both, one = (
            call("array", *map(literal, parts)) for parts in ((_GOING, _COMING), (_WHOLE,))
        )
        parts = case([(moves or exp.false(), both)], one)
        exploded = named(call("explode", parts), _PART)
        return select([exp.Star(), exploded], aliased(rows, self.alias))

    def action(self) -> exp.Expression:
        """Return what is done to a row: one that goes is deleted, one that comes is inserted."""
        cases = [
            (self._is(_GOING), literal(Command.DELETE)),
            (self._is(_COMING), literal(Command.INSERT)),
        ]
        return case(cases, column(ACTION, self.alias))

    def written(self, attno: int) -> exp.Expression:
        """Return a column of what is written: of a row that goes what was there."""
        old, new = self.target.old[attno], self.target.new[attno]
        return case([(self._is(_GOING), old.copy())], new.copy())

    def moved(self) -> exp.Expression:
        """Return whether a row is one of two."""
        return exp.GT(this=column(_PART, self.alias), expression=literal(_WHOLE))

    def conflict(self, result: exp.Select) -> exp.Expression:
        """Return the conflict that a row is in with others, 0 for none.

        Of rows that go to whatever leaf that one knows whether it has their keys.
        """
        if not self.merge.key:
            return self._changed_twice()
        inserted = is_command(self.alias, Command.INSERT)
        coming = _any([inserted, self._is(_COMING)])
        going = _any([is_command(self.alias, Command.DELETE), self._is(_GOING)])
        kept = _all([is_command(self.alias, Command.UPDATE), self._is(_WHOLE)])
        old, new = (keys(self.merge, stored) for stored in (self.target.old, self.target.new))
        partition = [
            case([(coming.copy(), after)], before) for before, after in zip(old, new, strict=True)
        ]
        given = [negation(is_null(self.target.new[attno].copy())) for attno in self.merge.key]
        there = negation(coming.copy())
        second = _all([there, _more(counted(there.copy(), partition), 1)])
        orders = []
        if self.merge.compilation.context.arbiter is not None:
            deleted = is_command(self.alias, Command.DELETE)
            orders.append((deleted, literal(MergeConflict.ORDER)))
        again = proposed_twice(self.merge, self.target, inserted)
        if again is not None:
            second = _any([second, again])
        if arbitrates(self.merge):
            twice = _all([inserted.copy(), *given, _more(counted(inserted.copy(), partition), 1)])
            second = _any([second, twice])
        left = _all([coming, *given, _more(counted(going, partition), 0)])
        others = [_more(counted(coming.copy(), partition), 1), _more(counted(kept, partition), 0)]
        if not self.merge.compilation.context.routed:
            others.append(taken(self.merge, self.target, result, coming))
        shared = _any(others)
        exists = _all([coming.copy(), *(one.copy() for one in given), shared])
        return case(
            [
                *orders,
                (second, literal(MergeConflict.SECOND_TIME)),
                (left, literal(MergeConflict.KEY_LEFT)),
                (exists, literal(MergeConflict.KEY_EXISTS)),
            ],
            literal(0),
        )

    def _changed_twice(self) -> exp.Expression:
        """Return the conflict of rows without key: several rows of the source change one."""
        coming = _any([is_command(self.alias, Command.INSERT), self._is(_COMING)])
        there = negation(coming)
        rows = counted(there.copy(), row_without_key(self.merge, self.target, self.alias))
        second = _all([there.copy(), _more(rows, 1)])
        return case([(second, literal(MergeConflict.SECOND_TIME))], literal(0))

    def _is(self, part: int) -> exp.Expression:
        return exp.EQ(this=column(_PART, self.alias), expression=literal(part))


def _all(conditions: Sequence[exp.Expression]) -> exp.Expression:
    return conjunction(conditions) or exp.true()


def _any(conditions: Sequence[exp.Expression]) -> exp.Expression:
    return disjunction(conditions) or exp.false()


def _more(number: exp.Expression, bound: int) -> exp.Expression:
    return exp.GT(this=number, expression=literal(bound))
