"""Functions of users, which PostgreSQL evaluates in the client's session.

None of them reaches a tiered table, so what it returns does not depend on which rows are hot; how
often it is called may. One that does something beside returning a value is let be where it is
called once for each row that is written or shown, all of which are hot:

    UPDATE t SET v = f(v) WHERE k = 5 RETURNING g(k)
    INSERT INTO t SELECT f(a) FROM s ON CONFLICT (k) DO UPDATE SET v = f(excluded.v)
    MERGE INTO t USING s ON t.k = s.a WHEN MATCHED AND f(s.b) THEN UPDATE SET v = f(t.v)

Not handled: such a function in a condition that tells rows apart, or in a subquery, which may be
called for rows of which some are hot and others are not: refused. Others may stand anywhere; no
condition with one of them counts (see `rewrite.needs.steady`).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from catalog.pg.nodes import MergeMatchKind
from rewrite.command import CALLED, Command, command
from rewrite.dialect.oids import FIRST_USER_OID
from rewrite.needs.definitions import Definitions
from rewrite.needs.levels import Level
from rewrite.needs.results import Refusal
from rewrite.query.range_table import VALUES
from rewrite.tree import Item, Node

_VOLATILE: Final = "v"
_COMPARING: Final = frozenset({"eqop", "sortop", "startInRangeFunc", "endInRangeFunc"})
"""Fields that hold the OID of what rows are ordered or told apart by."""


def refuse(level: Level, definitions: Definitions) -> None:
    """Look for functions of users that one query of a statement calls.

    Raises:
        Refusal: naming one that is volatile, and not called once for each row that is written.
    """
    for part, once in _parts(level):
        for node in _own(part, definitions):
            if any(node.get(name) and node.integer(name) >= FIRST_USER_OID for name in _COMPARING):
                raise Refusal("ordering by a user's own operator is not run on hot rows alone")
            for name in CALLED & node.fields.keys():
                _refuse_function(node.integer(name), definitions, once=once)


def _refuse_function(function: int, definitions: Definitions, *, once: bool) -> None:
    if once or function < FIRST_USER_OID or definitions.volatility(function) != _VOLATILE:
        return
    signature = definitions.signature(function)
    raise Refusal(f"the volatile function {signature} is called in a condition or a subquery")


def _parts(level: Level) -> Iterator[tuple[Item, bool]]:
    """Yield the parts of a query, and whether they are evaluated once for each of its rows."""
    query = level.query
    kind = command(query)
    writes = kind is not Command.SELECT
    shown = writes or _is_shown(level)
    alone = not writes and shown and _reads_one(query)
    for name, value in query.fields.items():
        if name == "mergeActionList":
            yield from _parts_of_actions(query.nodes(name))
        elif name == "rtable":
            for entry in query.nodes(name):
                listed = kind is Command.INSERT and entry["rtekind"] == VALUES
                yield entry.get("securityQuals"), False
                yield entry, listed or alone
        else:
            yield value, name in {"onConflict", "returningList"} or (name == "targetList" and shown)


def _parts_of_actions(actions: Iterable[Node]) -> Iterator[tuple[Item, bool]]:
    """Yield the parts of what a MERGE does; rows without match are told by conditions."""
    for action in actions:
        unmatched = action["matchKind"] == MergeMatchKind.NOT_MATCHED_BY_SOURCE
        yield action.get("qual"), not unmatched
        yield action.get("targetList"), True


def _is_shown(level: Level) -> bool:
    """Return whether all that a SELECT yields is shown, or inserted."""
    if level.outer is None:
        return True
    outer = level.outer.query
    entries = (entry.get("subquery") for entry in outer.nodes("rtable"))
    return command(outer) is Command.INSERT and any(one is level.query for one in entries)


def _reads_one(query: Node) -> bool:
    """Return whether a query reads one relation."""
    read = query.node("jointree").nodes("fromlist")
    return len(read) == 1 and read[0].tag == "RANGETBLREF"


def _own(part: Item, definitions: Definitions) -> Iterator[Node]:
    """Yield the nodes of a part of a query without the queries in it, those of domains with it."""
    pending: list[Item] = [part]
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, Node) and item.tag != "QUERY":
            yield item
            pending.extend(item.fields.values())
            if item.tag == "COERCETODOMAIN" and definitions.domain_checks is not None:
                pending.extend(definitions.domain_checks(item.integer("resulttype")))
