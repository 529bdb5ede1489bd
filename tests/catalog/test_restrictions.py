"""What limits the rows of one relation in a query moves to a query of that relation alone."""

from collections.abc import Sequence

import pytest

from catalog.session.restrictions import Kept, Named, is_counted, restrictions
from catalog.session.statement_parts import StatementTree


def moved(
    statement: str, result: Sequence[str] = (), *, conditions: int | None = None
) -> tuple[str, str]:
    """Return the query of the relation x with columns a and b, and what is left of a statement."""
    tree = StatementTree(statement)
    (part,) = [part for part in tree.parts if part.relation and part.alias == "x"]
    named = Named(part.item, part.alias, frozenset({"a", "b"}))
    found = restrictions(tree.root, named, result)
    number = len(found.conditions) if conditions is None else conditions
    kept = Kept(number, limited=True)
    selection = part.selection(["a"], found.selection(kept))
    found.take(kept)
    return selection.removeprefix("SELECT a FROM "), tree.text


@pytest.mark.parametrize(
    ("statement", "selection", "left"),
    [
        ("SELECT a FROM x WHERE a = 1", "x WHERE a = 1", "SELECT a FROM x WHERE true"),
        (
            "SELECT a FROM t x WHERE x.a = $1 AND (b OR a < 2) AND c",
            "t x WHERE x.a = $1 AND (b OR a < 2)",
            "SELECT a FROM t x WHERE true AND true AND c",
        ),
        (
            "SELECT 1 FROM ONLY s.t AS x (a, b), y WHERE x.a = y.a AND b = 2 AND y.c = 3",
            "ONLY s.t x(a, b) WHERE b = 2",
            "SELECT 1 FROM ONLY s.t x(a, b), y WHERE x.a = y.a AND true AND y.c = 3",
        ),
        (
            "SELECT 1 FROM x JOIN y ON x.a = 1 AND y.c WHERE x.b = 2",
            "x WHERE x.a = 1 AND x.b = 2",
            "SELECT 1 FROM x JOIN y ON true AND y.c WHERE true",
        ),
        (
            "SELECT 1 FROM x LEFT JOIN y ON x.a = 1 WHERE x.b = 2",
            "x WHERE x.b = 2",
            "SELECT 1 FROM x LEFT JOIN y ON x.a = 1 WHERE true",
        ),
        (
            "SELECT 1 FROM y LEFT JOIN x ON x.a = 1 WHERE x.b = 2",
            "x WHERE x.a = 1",
            "SELECT 1 FROM y LEFT JOIN x ON true WHERE x.b = 2",
        ),
        (
            "SELECT 1 FROM x RIGHT JOIN y ON x.a = 1 WHERE x.b = 2",
            "x WHERE x.a = 1",
            "SELECT 1 FROM x RIGHT JOIN y ON true WHERE x.b = 2",
        ),
        (
            "SELECT 1 FROM x FULL JOIN y ON x.a = 1 WHERE x.b = 2",
            "x",
            "SELECT 1 FROM x FULL JOIN y ON x.a = 1 WHERE x.b = 2",
        ),
        (
            "SELECT 1 FROM (y LEFT JOIN x ON x.a = 1) JOIN z ON x.b = 2",
            "x WHERE x.a = 1",
            "SELECT 1 FROM y LEFT JOIN x ON true JOIN z ON x.b = 2",
        ),
        (
            "SELECT 1 FROM x JOIN y USING (a) WHERE a = 1 AND x.b = 2",
            "x WHERE x.b = 2",
            "SELECT 1 FROM x JOIN y USING (a) WHERE a = 1 AND true",
        ),
        (
            "SELECT 1 FROM (x CROSS JOIN y) AS j WHERE a = 1",
            "x",
            "SELECT 1 FROM (x CROSS JOIN y ) j WHERE a = 1",
        ),
        (
            "SELECT 1 FROM x WHERE a = 1 OR a = y.c",
            "x",
            "SELECT 1 FROM x WHERE a = 1 OR a = y.c",
        ),
        (
            "SELECT 1 FROM x WHERE a IN (SELECT 1) AND x = x AND s.x.a = 1 AND now() > b",
            "x WHERE now() > b",
            "SELECT 1 FROM x WHERE a IN (SELECT 1) AND x = x AND s.x.a = 1 AND true",
        ),
        (
            "SELECT 1 FROM x, y WHERE $1 AND x.a = 1",
            "x WHERE $1 AND x.a = 1",
            "SELECT 1 FROM x, y WHERE $1 AND true",
        ),
        (
            "SELECT 1 FROM x WHERE a = 1 AND now() > $1",
            "x",
            "SELECT 1 FROM x WHERE a = 1 AND now() > $1",
        ),
        (
            "SELECT 1 FROM x WHERE EXISTS (SELECT 1 FROM y WHERE c = 1) AND x.a = 1",
            "x",
            "SELECT 1 FROM x WHERE EXISTS (SELECT 1 FROM y WHERE c = 1) AND x.a = 1",
        ),
        (
            "UPDATE r SET c = x.a FROM x WHERE x.b = 1 AND r.id = x.a",
            "x WHERE x.b = 1",
            "UPDATE r SET c = x.a FROM x WHERE true AND r.id = x.a",
        ),
    ],
)
def test_conditions_move_to_where_they_choose_rows(
    statement: str, selection: str, left: str
) -> None:
    assert moved(statement) == (selection, left)


def test_the_first_conditions_move_alone() -> None:
    assert moved("SELECT 1 FROM x WHERE a = 1 AND b = 2 LIMIT 3", conditions=0) == (
        "x",
        "SELECT 1 FROM x WHERE a = 1 AND b = 2 LIMIT 3",
    )


@pytest.mark.parametrize(
    ("statement", "result", "selection", "left"),
    [
        ("SELECT a FROM x LIMIT 3", "a", "x LIMIT 3", "SELECT a FROM x"),
        (
            "SELECT a, f(b) FROM x WHERE a = 1 ORDER BY b DESC, 1 LIMIT $1 OFFSET 2",
            "a f",
            "x WHERE a = 1 ORDER BY b DESC, a LIMIT $1 OFFSET 2",
            "SELECT a, f(b) FROM x WHERE true ORDER BY b DESC, 1",
        ),
        (
            "SELECT f(a) AS b FROM x ORDER BY b FETCH FIRST 2 ROWS WITH TIES",
            "b",
            "x ORDER BY f(a) FETCH FIRST 2 ROWS WITH TIES",
            "SELECT f(a) AS b FROM x ORDER BY b",
        ),
        (
            "SELECT a::text FROM x ORDER BY a LIMIT 3",
            "a",
            "x ORDER BY a::text LIMIT 3",
            "SELECT a::text FROM x ORDER BY a",
        ),
        (
            "SELECT FROM x ORDER BY a LIMIT 3",
            "",
            "x ORDER BY a LIMIT 3",
            "SELECT FROM x ORDER BY a",
        ),
        (
            "SELECT *, 1 FROM x ORDER BY a LIMIT 3",
            "a b ?column?",
            "x ORDER BY a LIMIT 3",
            "SELECT *, 1 FROM x ORDER BY a",
        ),
    ],
)
def test_limits_move_where_rows_stay_rows(
    statement: str, result: str, selection: str, left: str
) -> None:
    assert moved(statement, result.split()) == (selection, left)


@pytest.mark.parametrize(
    ("statement", "result"),
    [
        ("SELECT *, f(a) FROM x ORDER BY 1 LIMIT 3", "a b f"),
        ("SELECT *, f(a) FROM x ORDER BY f LIMIT 3", "a b f"),
        ("SELECT (f(a)).* FROM x ORDER BY c LIMIT 3", "c d"),
        ("SELECT a FROM x ORDER BY random() LIMIT 3", "a"),
        ("SELECT c AS a FROM x ORDER BY a LIMIT 3", "a"),
        ("SELECT a FROM x, y LIMIT 3", "a"),
        ("SELECT a FROM x WHERE a = c LIMIT 3", "a"),
        ("SELECT a FROM x LIMIT (SELECT 3)", "a"),
        ("SELECT a FROM x LIMIT f(3)", "a"),
        ("SELECT DISTINCT a FROM x LIMIT 3", "a"),
        ("SELECT a FROM x GROUP BY a LIMIT 3", "a"),
        ("SELECT a FROM x LIMIT 3 FOR UPDATE", "a"),
    ],
)
def test_other_limits_stay(statement: str, result: str) -> None:
    selection, left = moved(statement, result.split())
    assert selection == "x"
    assert "LIMIT" in left


def test_the_limit_of_a_query_with_effects_stays() -> None:
    tree = StatementTree("SELECT a FROM x LIMIT 3")
    (part,) = tree.parts
    named = Named(part.item, part.alias, frozenset({"a", "b"}))
    assert restrictions(tree.root, named).limited is None


@pytest.mark.parametrize(
    ("statement", "counted"),
    [
        ("SELECT 1 FROM (x CROSS JOIN y) AS j (c, d)", True),
        ("SELECT 1 FROM (z JOIN (x CROSS JOIN y) ON true) AS j (c, d)", True),
        ("SELECT 1 FROM (x CROSS JOIN y) AS j", False),
        ("SELECT 1 FROM x AS x (c), (y CROSS JOIN z) AS j (d)", False),
    ],
)
def test_joins_that_name_columns_anew_are_told(statement: str, counted: bool) -> None:
    tree = StatementTree(statement)
    (part,) = [part for part in tree.parts if part.alias == "x"]
    assert is_counted(tree.root, part.item) is counted


def test_the_limit_of_a_query_inside_stays() -> None:
    statement = "SELECT 1 FROM y WHERE c = (SELECT a FROM x LIMIT 1)"
    tree = StatementTree(statement)
    (part,) = [inner for part in tree.parts for inner in part.inner]
    named = Named(part.item, part.alias, frozenset({"a", "b"}))
    assert restrictions(tree.root, named, ["a"]).limited is None
