"""Conflicts of rows that a MERGE writes: with each other, and with rows that are there."""

from collections.abc import Mapping, Sequence

from sqlglot import exp

from catalog.journal.layout import IDENTITY
from catalog.model import LEAF, Column
from rewrite.command import Command
from rewrite.expressions import grouping_key, read_stored
from rewrite.journal.current_rows import CurrentRows
from rewrite.query.changed_rows import ChangedScope, Target
from rewrite.query.merge_clauses import Merge, case, is_command, may_change_key
from rewrite.query.merge_sources import matches_once
from rewrite.query.predicates import conjuncts
from rewrite.query.row_bounds import column_of, is_equality
from rewrite.query.sql import call, column, conjunction, disjunction, is_null, literal, negation
from rewrite.results import MergeConflict
from rewrite.tree import Node, same


def conflict(merge: Merge, changed: ChangedScope, result: exp.Select) -> exp.Expression:
    """Return the conflict that a row is in with others, 0 for none."""
    alias, target = changed.alias, changed.row
    inserted = is_command(alias, Command.INSERT)
    updated = is_command(alias, Command.UPDATE)
    cases = []
    old, new = (keys(merge, stored) for stored in (target.old, target.new))
    partition = [
        case([(inserted.copy(), after.copy())], before.copy())
        if merge.has(Command.INSERT)
        else before.copy()
        for before, after in zip(old, new, strict=True)
    ] or row_without_key(merge, target, alias)
    if not {one.attnum for one in merge.drawn}.isdisjoint(merge.key):
        # Else a window would have all rows without key in one place.
        alone = _row_of_its_own(merge, target, alias)
        partition.append(case([(inserted.copy(), alone)], exp.Null()))
    if merge.key and may_change_key(merge):
        moved = conjunction([updated.copy(), changes_key(merge, target)])
        if moved is not None:
            cases.append((moved, MergeConflict.KEY_CHANGED))
    once = matches_once(merge)
    several = exp.GT(this=counted(negation(inserted.copy()), partition), expression=literal(1))
    if merge.has(Command.UPDATE, Command.DELETE) and not once:
        second = conjunction([negation(inserted.copy()), several])
        if second is not None:
            cases.append((second, MergeConflict.SECOND_TIME))
    if merge.compilation.context.arbiter is not None and merge.has(Command.DELETE):
        cases.append((is_command(alias, Command.DELETE), MergeConflict.ORDER))
    again = proposed_twice(merge, target, inserted)
    if again is not None:
        cases.append((again, MergeConflict.SECOND_TIME))
    # Then each row of the source has a key of its own.
    if merge.key and merge.has(Command.INSERT) and not (once and _proves_new_keys(merge)):
        cases += _conflicts_of_inserted(merge, changed, result, partition)
    return case([(condition, literal(conflict)) for condition, conflict in cases], literal(0))


def arbitrates(merge: Merge) -> bool:
    """Return whether the rows of an INSERT are in conflict by the primary key."""
    arbiter = merge.compilation.context.arbiter
    return bool(arbiter) and set(arbiter or ()) == set(merge.key)


def proposed_twice(merge: Merge, target: Target, inserted: exp.Expression) -> exp.Expression | None:
    """Return whether the rows of an INSERT are in conflict with each other, by another unique key.

    None where they are by the primary key, or where it is no INSERT.
    """
    arbiter = merge.compilation.context.arbiter
    if not arbiter or arbitrates(merge) or not merge.has(Command.INSERT):
        return None
    forms = _forms(merge, target.new, arbiter)
    missing = disjunction([is_null(target.new[attno].copy()) for attno in arbiter]) or exp.false()
    # Rows with NULL are in no conflict; a window would have all of them in one place.
    hashed = call("xxhash64", *(target.new[one.attnum].copy() for one in merge.table.columns))
    alone = case([(missing.copy(), hashed)], exp.Null())
    several = exp.GT(this=counted(inserted.copy(), [*forms, alone]), expression=literal(1))
    return conjunction([inserted.copy(), negation(missing), several])


def row_without_key(merge: Merge, target: Target, alias: str) -> list[exp.Expression]:
    """Return what tells rows without key apart: of several leaves, too, identities are theirs."""
    leaf = [target.old[LEAF].copy()] if merge.rows.has_leaves else []
    return [_row_of_its_own(merge, target, alias), *leaf]


def _row_of_its_own(merge: Merge, target: Target, alias: str) -> exp.Expression:
    """Return what tells rows without key apart; of new ones, which have no identity, what is even.

    A window would have all of those in one place.
    """
    values = [target.new[one.attnum].copy() for one in merge.table.columns]
    hashed = call("xxhash64", *values)
    if merge.key:
        return hashed
    identity = column(IDENTITY, alias)
    if not merge.has(Command.INSERT):
        return identity
    return exp.Coalesce(this=identity, expressions=[hashed])


def changes_key(merge: Merge, target: Target) -> exp.Expression:
    """Return whether the new values of a row are another key than the old ones.

    Of rows without key it is what tells their leaf.
    """
    old, new = (_forms(merge, stored, merge.placed_by) for stored in (target.old, target.new))
    kept = conjunction(
        [
            exp.NullSafeEQ(this=before, expression=after)
            for before, after in zip(old, new, strict=True)
        ]
    )
    return exp.false() if kept is None else negation(kept)


def keys(merge: Merge, stored: Mapping[int, exp.Expression]) -> list[exp.Expression]:
    """Return the key of a row in a form that is equal where PostgreSQL's values are."""
    return _forms(merge, stored, merge.key)


def _forms(
    merge: Merge, stored: Mapping[int, exp.Expression], columns: Sequence[int]
) -> list[exp.Expression]:
    return [_grouped(merge.table.column(attno), stored[attno]) for attno in columns]


def _conflicts_of_inserted(
    merge: Merge,
    changed: ChangedScope,
    result: exp.Select,
    partition: Sequence[exp.Expression],
) -> list[tuple[exp.Expression, MergeConflict]]:
    """Return the conditions under which a new row has the key of another one."""
    inserted = is_command(changed.alias, Command.INSERT)
    given = [negation(is_null(changed.row.new[attno].copy())) for attno in merge.key]
    deleted = counted(is_command(changed.alias, Command.DELETE), partition)
    updated = counted(is_command(changed.alias, Command.UPDATE), partition)
    twice = exp.GT(this=counted(inserted.copy(), partition), expression=literal(1))
    shared: list[exp.Expression] = []
    found: list[tuple[exp.Expression, MergeConflict]] = []
    if arbitrates(merge):
        found.append((twice, MergeConflict.SECOND_TIME))
    else:
        shared.append(twice)
    if merge.has(Command.UPDATE):
        shared.append(exp.GT(this=updated, expression=literal(0)))
    if merge.has(Command.DELETE):
        found.append((exp.GT(this=deleted, expression=literal(0)), MergeConflict.KEY_DELETED))
    if not _proves_new_keys(merge):
        shared.append(taken(merge, changed.row, result, inserted))
    both = disjunction(shared)
    if both is not None:
        found.append((both, MergeConflict.KEY_EXISTS))
    pairs = [
        (conjunction([inserted.copy(), *(one.copy() for one in given), condition]), conflict)
        for condition, conflict in found
    ]
    return [(condition, conflict) for condition, conflict in pairs if condition is not None]


def taken(merge: Merge, row: Target, result: exp.Select, comes: exp.Expression) -> exp.Expression:
    """Return whether the key of a row that comes is one that the table has, by joining these.

    Args:
        merge: The statement.
        row: What is written.
        result: What that is selected by.
        comes: The condition that a row comes.
    """
    snapshot = merge.compilation.context.snapshots[merge.table.relid]
    others = CurrentRows(merge.compilation, snapshot)
    equal = [
        exp.EQ(this=mine, expression=other)
        for mine, other in zip(
            keys(merge, row.new),
            [grouping_key(others.column(attno)) for attno in merge.key],
            strict=True,
        )
    ]
    condition = conjunction([comes.copy(), *equal])
    result.append("joins", exp.Join(this=others.item(), side="LEFT", on=condition))
    return negation(is_null(others.column(merge.key[0]).sql))


def _proves_new_keys(merge: Merge) -> bool:
    """Return whether what is without match cannot have a key that the table has.

    It cannot where ON compares the key, and nothing else, with what is inserted as the key.
    """
    if conjuncts(merge.query.node("jointree")["quals"]):
        return False
    compared: dict[int, Node] = {}
    for qual in conjuncts(merge.query["mergeJoinCondition"]):
        if not is_equality(qual):
            return False
        left, right = qual.nodes("args")
        for one, other in ((left, right), (right, left)):
            place = column_of(one)
            if place is not None and place[0] == merge.varno and place[1] in merge.key:
                if place[1] in compared:
                    # Then there may be no match because of the other one.
                    return False
                compared[place[1]] = other
                break
        else:
            return False
    inserts = [action for action in merge.actions if action.command is Command.INSERT]
    # What is computed twice may be two values.
    if not all(column_of(value) or value.tag == "CONST" for value in compared.values()):
        return False
    return compared.keys() == set(merge.key) and all(
        same(action.assigned.get(attno), value)
        for action in inserts
        for attno, value in compared.items()
    )


def _grouped(definition: Column, stored: exp.Expression) -> exp.Expression:
    return grouping_key(read_stored(stored.copy(), definition.type_oid, definition.typmod))


def counted(condition: exp.Expression, partition: Sequence[exp.Expression]) -> exp.Expression:
    """Return how many rows of a partition satisfy a condition."""
    return exp.Window(
        this=call("count_if", condition),
        partition_by=[part.copy() for part in partition],
        over="OVER",
    )
