"""What an analysed query does: read, or write which relation, from which others."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from catalog.pg.functions import PROCEDURES
from catalog.pg.nodes import CmdType, MergeMatchKind, RTEKind
from rewrite.tree import Node, walk

# Bit of attribute 0 in a bitmapset of columns (sysattr.h, FirstLowInvalidHeapAttributeNumber).
FIRST_ATTRIBUTE = 7


CALLED: Final = frozenset({"aggfnoid", "funcid", "opfuncid", "winfnoid"})
"""Fields of nodes that hold the OID of a function which they call."""

_VALUES, _RESULT = RTEKind.VALUES, RTEKind.RESULT


class Command(IntEnum):
    """CmdType of PostgreSQL's nodes, of queries."""

    SELECT = CmdType.SELECT
    UPDATE = CmdType.UPDATE
    INSERT = CmdType.INSERT
    DELETE = CmdType.DELETE
    MERGE = CmdType.MERGE


class Matching(IntEnum):
    """MergeMatchKind of PostgreSQL's nodes."""

    MATCHED = MergeMatchKind.MATCHED
    NOT_BY_SOURCE = MergeMatchKind.NOT_MATCHED_BY_SOURCE
    NOT_BY_TARGET = MergeMatchKind.NOT_MATCHED_BY_TARGET


@dataclass(frozen=True, slots=True)
class MergeAction:
    """A WHEN clause of a MERGE."""

    matching: Matching
    command: Command | None
    """None for DO NOTHING."""
    qual: Node | None
    assigned: Mapping[int, Node]
    """What columns get, by attribute number."""
    entries: tuple[Node, ...]
    """The same, with the subqueries of which it takes several columns."""


_NOTHING = CmdType.NOTHING


def command(query: Node) -> Command:
    """Return what kind of query this is."""
    return Command(query.integer("commandType"))


def functions_named(name: str) -> frozenset[int]:
    """Return the OIDs of PostgreSQL's own functions of a name."""
    start = f"{name}("
    return frozenset(oid for oid, (_, told) in PROCEDURES.items() if told.startswith(start))


def called_functions(query: Node) -> frozenset[int]:
    """Return the OIDs of the functions that a query calls, those behind operators among them."""
    return frozenset(
        node.integer(name) for node, _ in walk(query) for name in CALLED if node.get(name)
    )


def target_relation(query: Node) -> int:
    """Return the OID of the relation a query writes."""
    return query.nodes("rtable")[query.integer("resultRelation") - 1].integer("relid")


def inserted_rows(query: Node) -> int | None:
    """Return how many rows an INSERT has that lists them; None for one that reads them."""
    number = 1
    for position, entry in enumerate(query.nodes("rtable"), 1):
        if entry["rtekind"] == _VALUES:
            number = len(entry.items("values_lists"))
        elif position != query.integer("resultRelation") and entry["rtekind"] != _RESULT:
            return None
    return number


def assigned_columns(query: Node) -> list[int]:
    """Return the attribute numbers of the columns that an INSERT or UPDATE gives values."""
    return [e.integer("resno") for e in query.nodes("targetList") if not e["resjunk"]]


def written_columns(query: Node) -> frozenset[int]:
    """Return the attribute numbers of the columns that a query asks for the right to write."""
    target = query.nodes("rtable")[query.integer("resultRelation") - 1]
    permissions = query.nodes("rteperminfos")[target.integer("perminfoindex") - 1]
    asked = (*permissions.integers("insertedCols"), *permissions.integers("updatedCols"))
    return frozenset(bit - FIRST_ATTRIBUTE for bit in asked)


def merge_actions(query: Node) -> tuple[MergeAction, ...]:
    """Return the WHEN clauses of a MERGE in their order."""
    return tuple(
        MergeAction(
            Matching(action.integer("matchKind")),
            None if action["commandType"] == _NOTHING else Command(action.integer("commandType")),
            action.optional("qual"),
            {
                entry.integer("resno"): entry.node("expr")
                for entry in action.nodes("targetList")
                if not entry["resjunk"]
            },
            tuple(action.nodes("targetList")),
        )
        for action in query.nodes("mergeActionList")
    )


def inserts(query: Node) -> bool:
    """Return whether a query may insert rows into its target."""
    if command(query) is Command.MERGE:
        return any(action.command is Command.INSERT for action in merge_actions(query))
    return command(query) is Command.INSERT


def changes_columns(query: Node, columns: Collection[int], *, deletes: bool = True) -> bool:
    """Return whether a query deletes rows of its target, or gives such columns of them values.

    Args:
        query: The query.
        columns: Attribute numbers.
        deletes: Whether deleting rows counts.
    """
    actions = [(command(query), query.nodes("targetList"))]
    actions += [
        (Command(action.integer("commandType")), action.nodes("targetList"))
        for action in query.nodes("mergeActionList")
        if action.integer("commandType") in {Command.UPDATE, Command.DELETE}
    ]
    conflict = query.optional("onConflict")
    if conflict is not None:
        actions.append((Command.UPDATE, conflict.nodes("onConflictSet")))
    return any(
        (deletes and kind is Command.DELETE)
        or (
            kind is Command.UPDATE
            and any(entry["resno"] in columns and not entry["resjunk"] for entry in entries)
        )
        for kind, entries in actions
    )


def written_relations(query: Node) -> frozenset[int]:
    """Return the OIDs of all relations a query writes, those of its WITH queries among them."""
    return frozenset(entry.integer("relid") for entry in _targets(query))


def source_relations(query: Node) -> frozenset[int]:
    """Return the OIDs of the relations a query reads besides the rows it writes."""
    targets = {id(entry) for entry in _targets(query)}
    found = (
        node.get("relid")
        for node, _ in walk(query)
        if node.tag == "RANGETBLENTRY" and id(node) not in targets
    )
    return frozenset(relid for relid in found if isinstance(relid, int) and relid)


WHOLE_ROW: Final = 0
"""Stands for a row as a whole where attributes are numbered."""


def selected_attributes(query: Node) -> Mapping[int, frozenset[int]]:
    """Return the attributes a query reads of relations, by OID.

    `WHOLE_ROW` is among them, and negative numbers are system columns.
    """
    found: dict[int, frozenset[int]] = {}
    for node, _ in walk(query):
        if node.tag == "RTEPERMISSIONINFO":
            relid = node.integer("relid")
            selected = {bit - FIRST_ATTRIBUTE for bit in node.integers("selectedCols")}
            found[relid] = found.get(relid, frozenset()) | selected
    return found


def _targets(query: Node) -> list[Node]:
    return [
        node.nodes("rtable")[node.integer("resultRelation") - 1]
        for node, _ in walk(query)
        if node.tag == "QUERY" and node["resultRelation"]
    ]
