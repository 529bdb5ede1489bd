"""Values that are known before a statement runs: constants, and columns of VALUES lists.

A relation counts as constant when it is a VALUES list or a plain subquery or common table
expression over one: then the rows written here are a superset of those it yields. Columns that are
compared as they are may come from further away, and from tables (`rewrite.needs.sources`).
"""

from collections.abc import Callable

from rewrite.needs.definitions import Definitions
from rewrite.needs.levels import Level, common_table, is_plain
from rewrite.needs.places import places
from rewrite.needs.sources import Row, traced
from rewrite.needs.steady import is_constant, is_steady
from rewrite.query.range_table import CTE, RELATION, SUBQUERY, VALUES
from rewrite.tree import Item, Node, transform, walk


def known_rows(
    level: Level, expressions: tuple[Node, ...], definitions: Definitions, place: str = ""
) -> tuple[Row, ...]:
    """Return the rows of values that some expressions can have together.

    Args:
        level: The query.
        expressions: Expressions in it.
        definitions: The tables whose rows can be looked at are `readable`.
        place: Where the query stands, different for each.
    """
    rows = _constant_rows(level, expressions, definitions, place)
    missing = _unknown(rows)
    if not missing:
        return rows
    found = traced(level, expressions, definitions, place)
    if len(rows) == 1:
        (known,) = rows
        found = tuple(
            tuple(one or other for one, other in zip(known, row, strict=True)) for row in found
        )
    return found if _unknown(found) < missing else rows


def _unknown(rows: tuple[Row, ...]) -> set[int]:
    """Return the places that some row tells nothing of."""
    return {place for row in rows for place, value in enumerate(row) if value is None}


def _constant_rows(
    level: Level, expressions: tuple[Node, ...], definitions: Definitions, place: str
) -> tuple[Row, ...]:
    used = {
        part.integer("varno")
        for expression in expressions
        for part, depth in walk(expression)
        if part.tag == "VAR" and part["varlevelsup"] == depth == 0
    }
    nullable = places(level.query).nullable
    sources = {varno: _source(level, varno, definitions, place) for varno in used - nullable}
    known = {varno: rows for varno, rows in sources.items() if rows is not None}
    if len(known) != 1:
        return (tuple(_constant(expression, definitions) for expression in expressions),)
    ((varno, rows),) = known.items()
    values = [_values(expression, varno, definitions) for expression in expressions]
    return tuple(tuple(value(row) for value in values) for row in rows)


def _constant(expression: Item | None, definitions: Definitions) -> Node | None:
    if isinstance(expression, Node) and is_constant(expression, definitions.volatility):
        return expression
    return None


def _values(expression: Node, varno: int, definitions: Definitions) -> Callable[[Row], Node | None]:
    """Return what tells an expression's value for each row of a relation, None where it is unknown.

    The expression is looked at once, however many rows there are.
    """

    def own(node: Node) -> bool:
        return node["varno"] == varno and not node["varlevelsup"]

    def held(row: Row, node: Node) -> Node | None:
        attno = node.integer("varattno")
        return row[attno - 1] if 0 < attno <= len(row) else None

    def unknown(_: Row) -> None:
        return None

    def value(row: Row) -> Node | None:
        found = {id(column): _constant(held(row, column), definitions) for column in columns}
        if None in found.values():
            return None
        changed = transform(expression, lambda node, _: found.get(id(node)))
        return changed if isinstance(changed, Node) else None

    if expression.tag == "VAR":
        # What a row holds has been looked at already.
        return (lambda row: held(row, expression)) if own(expression) else unknown
    columns = [part for part, _ in walk(expression) if part.tag == "VAR"]
    if not all(map(own, columns)) or not is_steady(expression, definitions.volatility):
        return unknown
    return value


def _source(
    level: Level, varno: int, definitions: Definitions, place: str
) -> tuple[Row, ...] | None:
    """Return the rows of a constant relation; None for any other."""
    entry, inner = level.entry(varno), f"{place}.{varno}"
    kind = entry["rtekind"]
    if kind == VALUES:
        return tuple(
            tuple(_constant(cell, definitions) for cell in row)
            for row in entry.items("values_lists")
            if isinstance(row, list)
        )
    if kind == SUBQUERY:
        return _output(Level(entry.node("subquery"), level), definitions, inner)
    if kind == CTE:
        found = common_table(level, entry)
        return _output(found, definitions, inner) if found else None
    if kind == RELATION:
        return _excluded(level, varno, definitions, inner)
    return None


def _output(level: Level, definitions: Definitions, place: str) -> tuple[Row, ...] | None:
    query = level.query
    if not is_plain(query):
        return None
    targets = [target for target in query.nodes("targetList") if not target["resjunk"]]
    rows = known_rows(level, tuple(target.node("expr") for target in targets), definitions, place)
    return rows if any(value is not None for row in rows for value in row) else None


def _excluded(
    level: Level, varno: int, definitions: Definitions, place: str
) -> tuple[Row, ...] | None:
    """Return the rows an INSERT with ON CONFLICT proposes, where SET names them."""
    conflict = level.query.optional("onConflict")
    if conflict is None or conflict["exclRelIndex"] != varno:
        return None
    columns, rows = proposed(level, level.query.nodes("targetList"), definitions, place)
    width = range(1, max(columns, default=0) + 1)
    return tuple(
        tuple(row[columns.index(attno)] if attno in columns else None for attno in width)
        for row in rows
    )


def proposed(
    level: Level, targets: list[Node], definitions: Definitions, place: str = ""
) -> tuple[tuple[int, ...], tuple[Row, ...]]:
    """Return the columns a target list assigns, and the rows of values they may get."""
    assigned = [target for target in targets if not target["resjunk"]]
    expressions = tuple(target.node("expr") for target in assigned)
    columns = tuple(target.integer("resno") for target in assigned)
    return columns, known_rows(level, expressions, definitions, place)
