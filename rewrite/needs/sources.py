"""Which columns of which tables the values of an expression come from, whatever is in between.

    MERGE INTO t USING (SELECT DISTINCT ON (id) id, v FROM s ORDER BY id, at DESC) x ON t.id = x.id

compares ``t.id`` with values of ``s.id`` and no others: neither joins nor conditions, sorting out,
grouping, numbering or limiting rows make new values of a column. Where the rows of ``s`` can be
looked at before the statement runs, they tell all keys it can ask for, and some more. NULL may come
in addition; no key is NULL.

Values that were computed from columns are not known, casts between integers and to a length apart.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from rewrite.command import Command, command
from rewrite.dialect import oids
from rewrite.key_constants import (
    LIMITING,
    NARROWING,
    RELABELLED,
    ROUNDING,
    VARHDRSZ,
    WIDENING,
    UnknownValueError,
    constant,
)
from rewrite.needs.definitions import Definitions
from rewrite.needs.levels import Level, common_table
from rewrite.needs.results import Need
from rewrite.needs.steady import is_constant
from rewrite.node_types import type_of
from rewrite.query.range_table import CTE, FUNCTION, GROUP, JOIN, RELATION, SUBQUERY, VALUES
from rewrite.tree import Item, Node

DRAWN: Final = "DRAWN"
"""Tag of a value that one row of a source has: `relid` (0 for arrays), `attno` or `array`, `place`,
equal for values of one row, `most` characters, where a cast limits them, and the modifier that a
cast `rounds` to."""

Row = tuple[Node | None, ...]
"""The value of each column, None where it is not known."""

_TEXTS = frozenset({oids.TEXT, oids.VARCHAR})
_UNNEST = 2331
_MOST_ROWS = 10_000
"""More rows of constants than these, joined with each other, are not written down."""


@dataclass(frozen=True, slots=True)
class Source:
    """Columns of a table whose rows are looked at before the statement runs."""

    relid: int
    columns: tuple[int, ...]
    """Attribute numbers, in their order."""


def sources(needs: Iterable[Need], keys: Collection[tuple[int, ...]]) -> frozenset[Source]:
    """Return what has to be looked at to know what needs tell of the columns of each key."""
    return frozenset(
        source
        for need in needs
        for fixed in need.fixed
        for key in keys
        for row in fixed.among(key).rows
        for source in places(row).values()
        if source.relid
    )


def places(row: Row) -> dict[str, Source]:
    """Return the columns of each source that the values of a row come from together."""
    found: dict[str, tuple[int, set[int]]] = {}
    for cell in row:
        if cell is not None and cell.tag == DRAWN:
            place, relid = str(cell["place"]), cell.integer("relid")
            found.setdefault(place, (relid, set()))[1].add(cell.integer("attno"))
    return {
        place: Source(relid, tuple(sorted(columns))) for place, (relid, columns) in found.items()
    }


def traced(
    level: Level, expressions: tuple[Node, ...], definitions: Definitions, place: str = ""
) -> tuple[Row, ...]:
    """Return rows that tell all values some expressions of a query can have together.

    Args:
        level: The query.
        expressions: Expressions in it.
        definitions: The tables whose rows can be looked at are `readable`.
        place: Where the query stands, different for each.
    """
    plain = [_plain(expression) for expression in expressions]
    wanted: dict[int, set[int]] = {}
    for node, _ in plain:
        if _is_column(node):
            wanted.setdefault(node.integer("varno"), set()).add(node.integer("varattno"))
    found = [
        [(varno, row) for row in _rows(level, varno, sorted(columns), definitions, place)]
        for varno, columns in wanted.items()
    ]
    number = 1
    for rows in found:
        number *= len(rows)
    if number > _MOST_ROWS and len(found) > 1:
        return ((None,) * len(expressions),)
    return tuple(
        tuple(
            _cell(node, limits, dict(chosen), definitions, f"{place}:{n}")
            for n, (node, limits) in enumerate(plain)
        )
        for chosen in product(*found)
    )


def traced_output(
    level: Level, numbers: Iterable[int], definitions: Definitions, place: str = ""
) -> tuple[Row, ...]:
    """Return the same of the output columns of a query, by their numbers from 1."""
    wanted = tuple(numbers)
    found = tuple(_output(level, wanted, definitions, place))
    return tuple(tuple(row.get(number) for number in wanted) for row in found)


def is_relabelled(node: Node) -> bool:
    """Return whether an expression is another, whose values have the same form in a column."""
    return node.tag == "RELABELTYPE" and node["resulttype"] in RELABELLED


def _is_column(node: Node) -> bool:
    return node.tag == "VAR" and not node["varlevelsup"] and node.integer("varattno") > 0


def _plain(node: Node) -> tuple[Node, dict[str, int]]:
    """Return an expression without casts that leave its values what they are, and their limits."""
    limits: dict[str, int] = {}
    while True:
        called = node["funcid"] if node.tag == "FUNCEXPR" else None
        if is_relabelled(node):
            node = node.node("arg")
        elif called in WIDENING | NARROWING.keys():
            node = node.nodes("args")[0]
        elif called in LIMITING or (called in ROUNDING and not limits):
            value, modifier, *_ = node.nodes("args")
            limit = _number(modifier)
            if limit is None:
                return node, limits
            if called in ROUNDING:
                limits["rounds"] = limit
            else:
                limits["most"] = min(limit - VARHDRSZ, limits.get("most", limit))
            node = value
        else:
            return node, limits


def _number(node: Node) -> int | None:
    try:
        value = constant(node, ())
    except (UnknownValueError, IndexError):
        return None
    return value if isinstance(value, int) else None


def _cell(
    node: Node,
    limits: dict[str, int],
    chosen: dict[int, dict[int, Node | None]],
    definitions: Definitions,
    place: str,
) -> Node | None:
    if _is_column(node):
        found = chosen[node.integer("varno")][node.integer("varattno")]
    elif node.tag == "FUNCEXPR" and node["funcid"] == _UNNEST:
        found = _element(node, definitions, place, 1)
    else:
        found = node if is_constant(node, definitions.volatility) else None
    if found is None or not limits:
        return found
    if found.tag != DRAWN or "rounds" in found.fields:
        return None
    before = found.get("most")
    if isinstance(before, int) and "most" in limits:
        return found.replace(most=min(before, limits["most"]))
    return found.replace(**limits)


def _element(node: Node, definitions: Definitions, place: str, attno: int) -> Node | None:
    (array,) = node.nodes("args")
    if not is_constant(array, definitions.volatility):
        return None
    return Node(DRAWN, {"relid": 0, "attno": attno, "array": array, "place": place})


def _rows(
    level: Level, varno: int, columns: list[int], definitions: Definitions, place: str
) -> Iterator[dict[int, Node | None]]:
    """Yield what rows of a relation have in some columns."""
    entry, inner = level.entry(varno), f"{place}.{varno}"
    kind = entry["rtekind"]
    if kind == RELATION:
        relid = entry.integer("relid")
        readable = relid in definitions.readable and entry.get("tablesample") is None
        yield {
            n: Node(DRAWN, {"relid": relid, "attno": n, "place": inner}) if readable else None
            for n in columns
        }
    elif kind == VALUES:
        for row in entry.items("values_lists"):
            listed = row if isinstance(row, list) else []
            yield {n: _constant(listed[n - 1], definitions) for n in columns}
    elif kind == SUBQUERY:
        yield from _output(Level(entry.node("subquery"), level), columns, definitions, inner)
    elif kind == CTE and (found := common_table(level, entry)) is not None:
        yield from _output(found, columns, definitions, inner)
    elif kind in {JOIN, GROUP}:
        shown = entry.nodes("joinaliasvars" if kind == JOIN else "groupexprs")
        for cells in traced(level, tuple(shown[n - 1] for n in columns), definitions, place):
            yield dict(zip(columns, cells, strict=True))
    elif kind == FUNCTION:
        yield _elements(entry, columns, definitions, inner)
    else:
        yield dict.fromkeys(columns)


def _constant(item: Item, definitions: Definitions) -> Node | None:
    known = isinstance(item, Node) and is_constant(item, definitions.volatility)
    return item if known and isinstance(item, Node) else None


def _elements(
    entry: Node, columns: list[int], definitions: Definitions, place: str
) -> dict[int, Node | None]:
    """Return the elements of arrays that a function in FROM makes rows of."""
    found: dict[int, Node | None] = dict.fromkeys(columns)
    number = 1
    for function in entry.nodes("functions"):
        called = function.node("funcexpr")
        if number in found and called.tag == "FUNCEXPR" and called["funcid"] == _UNNEST:
            found[number] = _element(called, definitions, place, number)
        number += function.integer("funccolcount")
    return found


def _output(
    level: Level, columns: Iterable[int], definitions: Definitions, place: str
) -> Iterator[dict[int, Node | None]]:
    """Yield what rows of a query's output have in some columns."""
    query, wanted = level.query, list(columns)
    kind = command(query)
    operation = query.optional("setOperations")
    if kind is Command.SELECT and operation is not None:
        types = dict(enumerate(operation.integers("colTypes"), 1))
        for varno in _branches(operation):
            branch = level.entry(varno).node("subquery")
            # What PostgreSQL casts is in no tree, as it does so when it plans the operation.
            same = {n for n in wanted if _is_taken(_output_type(branch, n), types[n])}
            for values in _rows(level, varno, wanted, definitions, place):
                yield {n: value if n in same else None for n, value in values.items()}
        return
    # What DELETE returns are rows of the table, or what others have made of them meanwhile.
    listed = {Command.SELECT: "targetList", Command.DELETE: "returningList"}.get(kind)
    shown = {
        target.integer("resno"): target.node("expr")
        for target in (query.nodes(listed) if listed else ())
        if not target["resjunk"]
    }
    if not set(wanted) <= shown.keys():
        yield dict.fromkeys(wanted)
        return
    for row in traced(level, tuple(shown[n] for n in wanted), definitions, place):
        yield dict(zip(wanted, row, strict=True))


def _output_type(query: Node, number: int) -> int:
    operation = query.optional("setOperations")
    if operation is not None:
        return operation.integers("colTypes")[number - 1]
    return type_of(query.nodes("targetList")[number - 1].node("expr"))


def _is_taken(given: int, wanted: int) -> bool:
    """Return whether values of a type are taken as those of another one without a change."""
    if given in oids.INTEGERS:
        return wanted in oids.INTEGERS or wanted == oids.NUMERIC
    return given == wanted or {given, wanted} <= _TEXTS


def _branches(operation: Node) -> Iterator[int]:
    if operation.tag == "RANGETBLREF":
        yield operation.integer("rtindex")
        return
    for side in ("larg", "rarg"):
        yield from _branches(operation.node(side))
