"""What each line does by which sources tell keys: without it, a wrong answer is found.

The random statements are those of `test_random_statements`, of the kind that asks sources.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from types import ModuleType

import pytest

from rewrite.command import Command, command
from rewrite.needs import constant_rows, joined_keys, reads, sources
from rewrite.needs.definitions import Definitions
from rewrite.needs.levels import Level
from rewrite.needs.results import Fixed
from rewrite.needs.sources import DRAWN, Row
from rewrite.query.range_table import CTE
from rewrite.tree import Node
from tests.support.left_out import Patch, changed, found_after
from tests.support.random_forms import Form
from tests.support.thawing import Thawing

pytestmark = pytest.mark.catalog

Cells = dict[int, Node | None]
_ANY, _ALL = 2, 1


class _Every:
    """Holds everything."""

    def __contains__(self, _: object) -> bool:
        return True


def _known(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return the rows of which all is known, where there are some."""
    return tuple(row for row in rows if None not in row) or rows


# -- sources.py ------------------------------------------------------------------------------------


def _any_table_tells(patch: pytest.MonkeyPatch) -> None:
    original = sources._rows

    def rows(
        level: Level, varno: int, columns: list[int], definitions: Definitions, place: str
    ) -> Iterator[Cells]:
        read = definitions.readable | definitions.tiered
        return original(level, varno, columns, replace(definitions, readable=read), place)

    patch.setattr(sources, "_rows", rows)


def _outer_columns_tell(patch: pytest.MonkeyPatch) -> None:
    """Take a column of the query around for one of the relation that has the same number."""
    original = sources._rows

    def rows(
        level: Level, varno: int, columns: list[int], definitions: Definitions, place: str
    ) -> Iterator[Cells]:
        try:
            yield from list(original(level, varno, columns, definitions, place))
        except IndexError:
            yield dict.fromkeys(columns)

    patch.setattr(sources, "_rows", rows)
    patch.setattr(
        sources, "_is_column", lambda node: node.tag == "VAR" and node.integer("varattno") > 0
    )


def _looked_through(tag: str) -> Patch:
    """Take what is computed from a column for the column."""
    original = sources._plain

    def plain(node: Node) -> tuple[Node, int | None]:
        while node.tag == tag:
            node = node.nodes("args")[0]
        return original(node)

    return lambda patch: patch.setattr(sources, "_plain", plain)


def _one_row_of_a_table(patch: pytest.MonkeyPatch) -> None:
    """Take all values of a table for those of one row, however often it is read."""
    original = sources._rows

    def once(cell: Node | None) -> Node | None:
        drawn = cell is not None and cell.tag == DRAWN and cell["relid"]
        return cell.replace(place=str(cell["relid"])) if cell is not None and drawn else cell

    def rows(
        level: Level, varno: int, columns: list[int], definitions: Definitions, place: str
    ) -> Iterator[Cells]:
        for row in original(level, varno, columns, definitions, place):
            yield {column: once(cell) for column, cell in row.items()}

    patch.setattr(sources, "_rows", rows)


def _places_begin_anew(patch: pytest.MonkeyPatch) -> None:
    """Forget where a subquery stands that is looked into."""
    original = constant_rows._output
    patch.setattr(constant_rows, "_output", lambda level, known, _: original(level, known, ""))


def _first_branch(patch: pytest.MonkeyPatch) -> None:
    original = sources._branches
    patch.setattr(sources, "_branches", lambda operation: [next(original(operation))])


def _returns_old_rows(changing: Command) -> Patch:
    """Take what a change returns for rows as they were."""

    def kind(query: Node) -> Command:
        found = command(query)
        return Command.DELETE if found is changing else found

    return lambda patch: patch.setattr(sources, "command", kind)


def _recursion_adds_nothing(patch: pytest.MonkeyPatch) -> None:
    original = sources._rows

    def rows(
        level: Level, varno: int, columns: list[int], definitions: Definitions, place: str
    ) -> Iterator[Cells]:
        entry = level.entry(varno)
        if entry["rtekind"] == CTE and entry.get("self_reference"):
            return
        yield from original(level, varno, columns, definitions, place)

    def common_table(level: Level, entry: Node) -> Level | None:
        owner = level.up(entry.integer("ctelevelsup"))
        assert owner is not None
        for defined in owner.query.nodes("cteList"):
            if defined.text("ctename") == entry.text("ctename"):
                return Level(defined.node("ctequery"), owner)
        return None

    patch.setattr(sources, "_rows", rows)
    patch.setattr(sources, "common_table", common_table)


def _outermost_common_table(patch: pytest.MonkeyPatch) -> None:
    """Look a common table expression up where the statement begins, if there is one so named."""
    original = sources.common_table

    def common_table(level: Level, entry: Node) -> Level | None:
        around = [level]
        while (outer := around[-1].outer) is not None:
            around.append(outer)
        for one in around[-1].query.nodes("cteList"):
            itself = any(up.query is one.node("ctequery") for up in around)
            if one.text("ctename") == entry.text("ctename") and not itself:
                entry = entry.replace(ctelevelsup=len(around) - 1)
        return original(level, entry)

    patch.setattr(sources, "common_table", common_table)


def _first_array(patch: pytest.MonkeyPatch) -> None:
    original = sources._elements

    def elements(entry: Node, columns: list[int], definitions: Definitions, place: str) -> Cells:
        return dict.fromkeys(columns, original(entry, [1], definitions, place)[1])

    patch.setattr(sources, "_elements", elements)


# -- joined_keys.py --------------------------------------------------------------------------------


def _unknown_rows_left_out(patch: pytest.MonkeyPatch) -> None:
    original = joined_keys._fixed

    def fixed(columns: tuple[int, ...], rows: tuple[Row, ...]) -> Fixed | None:
        return original(columns, _known(rows))

    patch.setattr(joined_keys, "_fixed", fixed)


def _unknown_joined_left_out(patch: pytest.MonkeyPatch) -> None:
    original = joined_keys.known_rows
    patch.setattr(joined_keys, "known_rows", lambda *asked: _known(original(*asked)))


def _exists_with(name: str) -> Patch:
    """Take a query for one that is empty when no row satisfies its WHERE."""
    kept = tuple(one for one in joined_keys._OF_NO_ROW if one != name)
    assert kept != joined_keys._OF_NO_ROW
    return lambda patch: patch.setattr(joined_keys, "_OF_NO_ROW", kept)


def _inner_columns_are_outer(patch: pytest.MonkeyPatch) -> None:
    original = joined_keys.compared_column

    def compared(node: Node, varno: int, condition: Node, levels_up: int = 0) -> int:
        found = original(node, varno, condition, levels_up)
        return found or original(node, varno, condition)

    patch.setattr(joined_keys, "compared_column", compared)


def _not_is_nothing(patch: pytest.MonkeyPatch) -> None:
    original = reads.of_subquery

    def of_subquery(
        level: Level, varno: int, condition: Node, definitions: Definitions
    ) -> Fixed | None:
        while condition.tag == "BOOLEXPR" and condition["boolop"] == "not":
            (condition,) = condition.nodes("args")
        return original(level, varno, condition, definitions)

    patch.setattr(reads, "of_subquery", of_subquery)


def _all_is_any(patch: pytest.MonkeyPatch) -> None:
    original = joined_keys._of_any

    def of_any(condition: Node, varno: int) -> tuple[Node, dict[int, int]] | None:
        if condition.tag == "SUBLINK" and condition["subLinkType"] == _ALL:
            condition = condition.replace(subLinkType=_ANY)
        return original(condition, varno)

    patch.setattr(joined_keys, "_of_any", of_any)


def _outputs_the_other_way_round(patch: pytest.MonkeyPatch) -> None:
    original = joined_keys._of_any

    def of_any(condition: Node, varno: int) -> tuple[Node, dict[int, int]] | None:
        found = original(condition, varno)
        if found is None:
            return None
        query, outputs = found
        return query, dict(zip(outputs, reversed(outputs.values()), strict=True))

    patch.setattr(joined_keys, "_of_any", of_any)


def _or_is_and(patch: pytest.MonkeyPatch) -> None:
    original = joined_keys.conjuncts

    def conjuncts(condition: Node | None) -> list[Node]:
        parts = original(condition)
        return [
            inner
            for part in parts
            for inner in (part.nodes("args") if part.get("boolop") == "or" else [part])
        ]

    patch.setattr(joined_keys, "conjuncts", conjuncts)


def _compared_anyhow(module: ModuleType, name: str) -> Patch:
    """Take any operator for ``=`` where one function asks."""
    original = getattr(module, name)

    def asked(*given: object) -> object:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(joined_keys, "SAME_TYPE", _Every())
            return original(*given)

    return lambda patch: patch.setattr(module, name, asked)


LINES: dict[str, tuple[Patch, Collection[Form]]] = {
    "tables that are looked at": (_any_table_tells, (Form.TIERED,)),
    "columns of the query around": (_outer_columns_tell, (Form.IN, Form.OUTER)),
    "computed values": (_looked_through("OPEXPR"), (Form.COMPUTED,)),
    "columns that USING merges": (_looked_through("COALESCEEXPR"), (Form.USING,)),
    "a table that is read twice": (_one_row_of_a_table, (Form.JOINED, Form.TWICE, Form.SEVERAL)),
    "a table beside a subquery on it": (
        _places_begin_anew,
        (Form.JOINED, Form.TWICE, Form.SEVERAL),
    ),
    "each query of a set operation": (_first_branch, (Form.SUBQUERY, Form.SET)),
    "what UPDATE returns": (_returns_old_rows(Command.UPDATE), (Form.UPDATED,)),
    "what INSERT returns": (_returns_old_rows(Command.INSERT), (Form.INSERTED,)),
    "what MERGE returns": (_returns_old_rows(Command.MERGE), (Form.MERGED,)),
    "recursion": (_recursion_adds_nothing, (Form.RECURSIVE,)),
    "common table expressions of one name": (
        _outermost_common_table,
        (Form.QUERIED, Form.DELETED, Form.SUBQUERY, Form.SAME_NAME),
    ),
    "elements of several arrays": (_first_array, (Form.ARRAYS,)),
    "rows of a subquery that are not known": (
        _unknown_rows_left_out,
        (Form.IN, Form.SUBQUERY, Form.SET, Form.UNKNOWN),
    ),
    "rows of a join that are not known": (
        _unknown_joined_left_out,
        (Form.JOINED, Form.SUBQUERY, Form.SET, Form.UNKNOWN, Form.SEVERAL),
    ),
    "EXISTS: aggregates": (_exists_with("hasAggs"), (Form.EXISTS, Form.AGGREGATE)),
    "EXISTS: HAVING": (_exists_with("havingQual"), (Form.EXISTS, Form.HAVING)),
    "EXISTS: grouping sets": (_exists_with("groupingSets"), (Form.EXISTS, Form.ROLLUP)),
    "EXISTS: columns of its own": (_inner_columns_are_outer, (Form.EXISTS, Form.OWN)),
    "EXISTS: OR": (_or_is_and, (Form.EXISTS, Form.OR)),
    "EXISTS: other operators": (
        _compared_anyhow(joined_keys, "_of_exists"),
        (Form.EXISTS, Form.OPERATOR),
    ),
    "NOT EXISTS and NOT IN": (_not_is_nothing, (Form.NEGATED,)),
    "ALL": (_all_is_any, (Form.IN, Form.ALL)),
    "IN: which column": (_outputs_the_other_way_round, (Form.IN, Form.SEVERAL)),
    "IN: other operators": (_compared_anyhow(joined_keys, "_of_any"), (Form.IN, Form.OPERATOR)),
    "a scalar subquery: other operators": (
        _compared_anyhow(joined_keys, "_of_scalar"),
        (Form.SCALAR, Form.OPERATOR),
    ),
    "joins: other operators": (_compared_anyhow(reads, "together"), (Form.JOINED, Form.OPERATOR)),
}
"""What is left out, and the forms that it is about."""


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_a_line_left_out_is_found(thawing: Thawing, line: str) -> None:
    change, forms = LINES[line]
    assert found_after(thawing, changed(thawing, change), ("sourced",), forms)
