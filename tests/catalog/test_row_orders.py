"""The order of a query as a column of its rows."""

from typing import Any

import pytest

from catalog.session.row_orders import is_ordered, numbered
from catalog.session.statement_parts import faithful_text
from catalog.statements.splitting import parse_tree


def tree(query: str) -> dict[str, Any]:
    (found,) = parse_tree(query)
    return found


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT a, b AS c FROM s ORDER BY 2, 1 DESC", "b, a DESC"),
        ("SELECT a, b AS c FROM s ORDER BY c USING <, d NULLS FIRST", "b USING <, d NULLS FIRST"),
        ("SELECT s.a, b AS c FROM s ORDER BY a + 1, a", "a + 1, s.a"),
        ("SELECT a, max(b) AS c FROM s GROUP BY a ORDER BY c", "max(b)"),
        ("SELECT *, 'x', a + 1 FROM s ORDER BY a", "a"),
    ],
)
def test_rows_are_numbered_by_what_they_are_sorted_by(query: str, keys: str) -> None:
    text = faithful_text(numbered(tree(query), 2))
    assert f'pg_catalog.row_number() OVER (ORDER BY {keys}) AS "row order" FROM' in text
    assert text.endswith(' ORDER BY "row order"')


def test_what_is_left_out_is_so_afterwards() -> None:
    text = faithful_text(numbered(tree("SELECT a FROM s ORDER BY b LIMIT 4 OFFSET 2"), 1))
    assert text == (
        'SELECT a, pg_catalog.row_number() OVER (ORDER BY b) AS "row order" FROM s'
        ' ORDER BY "row order" LIMIT 4 OFFSET 2'
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT lower(a) FROM s ORDER BY lower",
        "SELECT DISTINCT * FROM s ORDER BY a",
        "SELECT DISTINCT a, lower(b) FROM s ORDER BY a",
        "SELECT a FROM s ORDER BY a FETCH FIRST 2 ROWS WITH TIES",
        "SELECT a FROM s ORDER BY a FOR UPDATE",
        "SELECT *, a + 1 FROM s ORDER BY 2",
        "SELECT lower(a) FROM s ORDER BY lower",
        "SELECT a::numeric FROM s ORDER BY numeric",
    ],
)
def test_what_could_be_another_order_is_not_known(query: str) -> None:
    assert is_ordered(tree(query))
    assert numbered(tree(query), 2) is None


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT DISTINCT a, b AS c FROM s ORDER BY c DESC, a", '"column 2" DESC, "column 1"'),
        ("SELECT DISTINCT a, lower(b) FROM s ORDER BY lower(b)", '"column 2"'),
        ("SELECT a, 1 FROM s UNION ALL SELECT b, 2 FROM s ORDER BY 2, a", '"column 2", "column 1"'),
        ("VALUES (1, 2), (2, 1) ORDER BY 2", '"column 2"'),
    ],
)
def test_rows_that_are_told_apart_are_numbered_afterwards(query: str, keys: str) -> None:
    assert faithful_text(numbered(tree(query), 2)) == (
        'SELECT "column 1", "column 2", pg_catalog.row_number() OVER'
        f' (ORDER BY {keys}) AS "row order" FROM ({query}) x("column 1", "column 2")'
    )
