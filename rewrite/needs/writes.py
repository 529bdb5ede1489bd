"""The rows that constraints look at: unique keys, and foreign keys with all that they set off."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from rewrite.command import Command, command, target_relation
from rewrite.needs.constant_rows import proposed
from rewrite.needs.definitions import Action, Definitions, ForeignKey
from rewrite.needs.levels import Level
from rewrite.needs.reads import target_needs
from rewrite.needs.results import Fixed, Image, Need, Occurrence, Recorded, Refusal
from rewrite.needs.sources import Row
from rewrite.tree import Node

_NULL = Node("CONST", {"constisnull": True})


@dataclass(frozen=True, slots=True)
class Change:
    """What a statement, or an action of a foreign key, does to some rows of a table."""

    relid: int
    command: Command
    """INSERT, UPDATE or DELETE."""
    affected: tuple[Need, ...] = ()
    """The rows before the change: any of these."""
    columns: tuple[int, ...] = ()
    """The columns assigned. Of an inserted row the others are NULL, or generated."""
    rows: tuple[Row, ...] = ()
    """The values they may get together."""
    cause: ForeignKey | None = None
    """The foreign key that carries new keys over to the rows that reference them."""
    arbitrates: bool = False
    """Whether rows that have its unique values already decide what is done: ON CONFLICT."""

    def known(self, columns: tuple[int, ...]) -> tuple[tuple[Node, ...], ...] | None:
        """Return the rows of values without NULL some columns may get; None if not known."""
        if not set(columns) <= set(self.columns):
            return None
        found = [tuple(row[self.columns.index(column)] for column in columns) for row in self.rows]
        rows = [tuple(value for value in row if value is not None) for row in found]
        if any(len(row) != len(columns) for row in rows):
            return None
        return tuple(row for row in rows if not any(value.get("constisnull") for value in row))


@dataclass(slots=True)
class Searches:
    """What is found to be searched."""

    occurrences: list[Occurrence] = field(default_factory=list)
    recorded: set[Recorded] = field(default_factory=set)
    written: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)
    arbitrates: bool = False
    """Whether rows that have a computed value decide what is done."""


def changes(level: Level, definitions: Definitions) -> Iterator[Change]:
    """Yield the changes one query of a statement makes itself."""
    query = level.query
    kind = command(query)
    if kind is Command.SELECT:
        return
    relid = target_relation(query)
    targets = query.nodes("targetList")
    if kind is Command.INSERT:
        conflict = query.optional("onConflict")
        inserted = Change(relid, kind, (), *proposed(level, targets, definitions))
        yield replace(inserted, arbitrates=conflict is not None)
        if conflict is not None:
            # The rows in conflict have a unique key that is searched, but are not told apart here.
            updated = conflict.nodes("onConflictSet")
            assigned = proposed(level, updated, definitions)
            yield Change(relid, Command.UPDATE, (Need(),), *assigned)
        return
    affected = target_needs(level, definitions)
    if kind is not Command.MERGE:
        yield Change(relid, kind, affected, *proposed(level, targets, definitions))
    for action in query.nodes("mergeActionList"):
        done = action.integer("commandType")
        if done in {Command.INSERT, Command.UPDATE, Command.DELETE}:
            assigned = proposed(level, action.nodes("targetList"), definitions)
            yield Change(relid, Command(done), affected, *assigned)


def search(first: list[Change], definitions: Definitions) -> Searches:
    """Return what some changes, and those that foreign keys make in turn, have to find.

    Raises:
        Refusal: when a table is written whose rules cannot be kept by hot rows alone.
    """
    found = Searches()
    pending = list(first)
    seen: set[Change] = set()
    while pending:
        change = pending.pop()
        if change in seen:
            continue
        seen.add(change)
        _refuse(change, definitions)
        if change.command is not Command.DELETE:
            search_unique_keys(change, definitions, found)
            search_parents(change, definitions, found)
        if change.command is not Command.INSERT:
            pending += search_children(change, definitions, found)
    return found


def _refuse(change: Change, definitions: Definitions) -> None:
    relation = definitions.relation(change.relid)
    reason = relation.unfit or relation.code
    if reason:
        raise Refusal(f"a table with {reason} is not written on hot rows alone")


def search_unique_keys(change: Change, definitions: Definitions, found: Searches) -> None:
    """Search the rows whose unique keys those written may meet."""
    if change.relid not in definitions.tiered:
        return
    relation = definitions.relation(change.relid)
    for key in relation.unique:
        touched = _is_set(change, key.columns, definitions)
        if key.irregular and (touched or change.command is Command.INSERT):
            raise Refusal(f"{key.irregular} cannot be kept by hot rows alone")
        if key.computed and (touched or change.command is Command.INSERT):
            # A row has such a value, too, where the columns are NULL.
            found.written.add((change.relid, key.columns))
            found.arbitrates |= change.arbitrates
        if key.irregular or key.computed or not touched:
            continue
        if key.kept_afterwards:
            found.written.add((change.relid, key.columns))
            if not change.arbitrates:
                continue
        needs = _new_values(change, key.columns, relation.generated)
        if needs is not None and _are_known(needs, definitions):
            found.occurrences.append(Occurrence(change.relid, needs))
        else:
            found.recorded.add(
                Recorded(change.relid, key.columns, Image.NEW, change.relid, key.columns)
            )


def _are_known(needs: tuple[Need, ...], definitions: Definitions) -> bool:
    """Return whether the values that a change writes can be told before it is made."""
    return all(
        definitions.is_known(value)
        for need in needs
        for fixed in need.fixed
        for row in fixed.rows
        for value in row
    )


def _new_values(
    change: Change, columns: tuple[int, ...], generated: Collection[int]
) -> tuple[Need, ...] | None:
    """Return the rows that have values some columns may get together; None if not known.

    Of an UPDATE, columns that are not assigned keep the values that its conditions compare them
    with. Those of a unique key that a subquery has found in hot rows no other row has.
    """
    rows = change.known(columns)
    if rows is not None:
        return (Need(fixed=(Fixed(columns, rows),)),)
    given = tuple(column for column in columns if column in change.columns)
    kept = tuple(column for column in columns if column not in given)
    assigned = change.known(given) if given else None
    if assigned is None or not set(kept).isdisjoint(generated):
        return None
    found = []
    for need in change.affected:
        fixed = tuple(one for one in (f.among(kept) for f in need.fixed) if one.columns)
        if {column for one in fixed for column in one.columns} != set(kept):
            return None
        found.append(Need(fixed=(Fixed(given, assigned), *fixed)))
    return tuple(found)


def _is_set(change: Change, columns: tuple[int, ...], definitions: Definitions) -> bool:
    """Return whether a change may give some columns values, none of them NULL, together."""
    given = set(change.columns) | definitions.relation(change.relid).generated
    if change.command is Command.INSERT:
        return given >= set(columns)
    return not given.isdisjoint(columns)


def search_parents(change: Change, definitions: Definitions, found: Searches) -> None:
    """Search the rows those written may reference; all where the values are not known."""
    for key in definitions.foreign_keys:
        if key.child != change.relid or key.parent not in definitions.tiered:
            continue
        # A parent that was given a new key has just been written: it is hot.
        if key is change.cause or not _is_set(change, key.columns, definitions):
            continue
        known = tuple(column for column in key.columns if change.known((column,)) is not None)
        rows = change.known(known) if known else None
        need = Need(fixed=(Fixed(_counterparts(key, known), rows),)) if rows is not None else Need()
        found.occurrences.append(Occurrence(key.parent, (need,)))


def _counterparts(key: ForeignKey, columns: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(key.referenced[key.columns.index(column)] for column in columns)


def search_children(change: Change, definitions: Definitions, found: Searches) -> list[Change]:
    """Search the rows that reference what a change takes away; return what becomes of them."""
    pending = []
    for key in definitions.foreign_keys:
        if key.parent != change.relid:
            continue
        deleted = change.command is Command.DELETE
        if not deleted and not _is_set(change, key.referenced, definitions):
            continue
        affected = _referencing(key, change.affected)
        if key.child in definitions.tiered:
            if affected is not None:
                found.occurrences.append(Occurrence(key.child, affected))
            else:
                found.recorded.add(
                    Recorded(change.relid, key.referenced, Image.OLD, key.child, key.columns)
                )
        pending += set_off(key, change, affected or (Need(),))
    return pending


def _referencing(key: ForeignKey, parents: tuple[Need, ...]) -> tuple[Need, ...] | None:
    """Return the rows that reference some rows, if the key of these is compared with values."""
    if not all(need.fixes(key.referenced) for need in parents):
        return None
    return tuple(
        Need(
            fixed=tuple(
                replace(fixed, columns=(column,))
                for column, referenced in zip(key.columns, key.referenced, strict=True)
                for fixed in need.known
                if fixed.columns == (referenced,)
            )
        )
        for need in parents
    )


def set_off(key: ForeignKey, change: Change, affected: tuple[Need, ...]) -> list[Change]:
    """Return the changes a foreign key makes to the rows that reference changed ones."""
    deleted = change.command is Command.DELETE
    action = key.on_delete if deleted else key.on_update
    if action is Action.CASCADE and deleted:
        return [Change(key.child, Command.DELETE, affected)]
    named = (key.nulled if deleted else ()) or key.columns
    values: dict[Action, Node | None] = {
        Action.CASCADE: None,
        Action.SET_NULL: _NULL,
        Action.SET_DEFAULT: None,
    }
    if action not in values:
        return []
    row = tuple(values[action] for _ in named)
    cause = key if action is Action.CASCADE else None
    return [Change(key.child, Command.UPDATE, affected, named, (row,), cause)]
