"""What the compiler says of a query that it has compiled, which nobody reads from its text."""

from collections.abc import Iterator

import pytest

from rewrite.results import Cut
from tests.support.plans import Case, Compiler, compiler

pytestmark = pytest.mark.catalog

SCHEMA = "CREATE TABLE t (k int PRIMARY KEY, v text, n int); CREATE TABLE u (k int PRIMARY KEY)"


@pytest.fixture(scope="module")
def compiled(oracle_uri: str) -> Iterator[Compiler]:
    with compiler(oracle_uri) as found:
        found.execute(SCHEMA)
        yield found


@pytest.mark.parametrize("rows", ["base", "recent", "both"])
@pytest.mark.parametrize(
    ("sql", "works_on_all"),
    [
        ("SELECT v FROM t WHERE k = 5", False),
        ("SELECT upper(v) FROM t WHERE n / 2 > 5", False),
        ("SELECT v FROM t WHERE v IS DISTINCT FROM 'GROUP BY count(1)'", False),
        ("SELECT v FROM t WHERE v = 'a' LIMIT 5", False),
        ("SELECT v FROM t UNION ALL SELECT v FROM t", False),
        ("SELECT row_number() OVER (ORDER BY k) FROM t WHERE k < 5", False),
        ("SELECT rank() OVER (ORDER BY k) FROM t WHERE k < 5", True),
        ("SELECT count(*) FROM t WHERE k > 5", True),
        ("SELECT min(v) FROM t WHERE k > 5", True),
        ("SELECT string_agg(v, ',' ORDER BY k) FROM t", True),
        ("SELECT n FROM t GROUP BY n", True),
        ("SELECT DISTINCT v FROM t", True),
        ("SELECT v FROM t ORDER BY v", True),
        ("SELECT v FROM t JOIN u ON t.k = u.k", True),
        ("SELECT v FROM t LEFT JOIN u ON t.k = u.k", True),
        ("SELECT v FROM t, u", True),
        ("SELECT v FROM t UNION SELECT v FROM t", True),
        ("SELECT v FROM t INTERSECT SELECT v FROM t", True),
        ("SELECT v FROM t WHERE n > (SELECT max(k) FROM u)", True),
    ],
)
def test_work_on_all_rows(compiled: Compiler, sql: str, rows: str, works_on_all: bool):
    compiled.case = Case((f"rows: {rows}",), "", "")
    compiled.snapshots.clear()
    assert compiled.compile(sql).works_on_all is works_on_all


@pytest.mark.parametrize(
    ("sql", "cut"),
    [
        ("SELECT v FROM t WHERE n > 5 LIMIT 10", (10, 0)),
        ("SELECT v FROM t ORDER BY v LIMIT 10 OFFSET 7", (10, 7)),
        ("SELECT v FROM t UNION ALL SELECT v FROM t LIMIT 3", (3, 0)),
        ("SELECT v FROM t OFFSET 7", None),
        ("SELECT v FROM (SELECT v FROM t ORDER BY v LIMIT 3) AS s WHERE v > 'a'", None),
        ("SELECT v FROM t WHERE v = ' LIMIT 3'", None),
    ],
)
def test_the_limit_of_the_whole_query(compiled: Compiler, sql: str, cut: tuple[int, int] | None):
    query = compiled.compile(sql)
    if cut is None:
        assert query.cut is None
        return
    rows, offset = cut
    assert query.cut == Cut(query.cut.sql, rows, offset)
    text = f" LIMIT {rows}" + (f" OFFSET {offset}" if offset else "")
    assert query.sql == query.cut.sql + text


def test_sorts(compiled: Compiler):
    compiled.case = Case(("rows: base",), "", "")
    compiled.snapshots.clear()
    assert compiled.compile("SELECT v FROM t ORDER BY v").sorts
    assert compiled.compile("SELECT sum(n) OVER (ORDER BY k) FROM t").sorts
    assert not compiled.compile("SELECT v FROM t WHERE v = 'ORDER BY'").sorts
    assert not compiled.compile("SELECT count(*) FROM t GROUP BY v").sorts


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ("v ~ 'a+b'", True),
        ("v LIKE 'a%b%'", True),
        ("regexp_replace(v, 'a+', 'b') = v", True),
        ("regexp_split_to_array(v, 'a+') IS NULL", True),
        ("v = 'a' AND v > 'RLIKE'", False),
    ],
)
def test_matching_of_patterns(compiled: Compiler, *, condition: str, matches: bool):
    compiled.case = Case(("rows: base",), "", "")
    compiled.snapshots.clear()
    query = compiled.compile(f"SELECT count(*) FROM t WHERE {condition}")
    assert query.matches_patterns is matches, query.sql
