"""Statements are taken apart into what reads relations, and put together again."""

import pytest

from catalog.session.statement_parts import Part, StatementTree, UnfaithfulTextError, Yielded


def outline(part: Part) -> object:
    """Return what a part reads and whether it stands by itself, with the parts in it."""
    shown = part.named if part.relation else f"{'' if part.closed else 'open '}query"
    return (shown, [outline(inner) for inner in part.inner]) if part.inner else shown


@pytest.mark.parametrize(
    ("statement", "parts"),
    [
        ("UPDATE r SET a = 1", []),
        ("UPDATE r SET a = 1 FROM t, s.u JOIN v USING (a)", ['"t"', '"s"."u"', '"v"']),
        ("DELETE FROM r USING t WHERE b IN (SELECT 1)", ['"t"']),
        ("DELETE FROM r WHERE a IN (SELECT a FROM t)", [("query", ['"t"'])]),
        ("MERGE INTO r USING t ON true WHEN MATCHED THEN DELETE", ['"t"']),
        ("DELETE FROM r WHERE a IN (SELECT a FROM t TABLESAMPLE SYSTEM (1))", ["query"]),
        ("INSERT INTO r SELECT 1", []),
        ("INSERT INTO r VALUES (1, (SELECT a FROM t))", [("query", ['"t"'])]),
        (
            "INSERT INTO r SELECT * FROM t UNION SELECT * FROM u",
            [("query", ['"t"', '"u"'])],
        ),
        (
            "WITH c AS (SELECT * FROM c), d AS (SELECT * FROM c, t) UPDATE r SET a = 1 FROM d",
            [("query", ['"c"']), ("open query", ['"t"'])],
        ),
        (
            "WITH RECURSIVE c AS (SELECT 1 FROM t UNION SELECT 2 FROM c) DELETE FROM r USING c",
            [("open query", ['"t"'])],
        ),
        (
            "WITH d AS (DELETE FROM r USING t RETURNING *) INSERT INTO s SELECT * FROM d, u",
            ['"t"', ("open query", ['"u"'])],
        ),
    ],
)
def test_parts(statement: str, parts: list[object]) -> None:
    assert [outline(part) for part in StatementTree(statement).parts] == parts


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "UPDATE r SET a = t.a FROM t WHERE t.b",
            'UPDATE r SET a = t.a FROM (SELECT c1 AS "A" FROM pg_temp.x) t WHERE t.b',
        ),
        (
            "UPDATE r SET (a, b) = (SELECT a, b FROM t) RETURNING *",
            'UPDATE r SET (a, b) = (SELECT c1 AS "A" FROM pg_temp.x) RETURNING *',
        ),
        (
            "DELETE FROM r USING s.t WHERE s.t.a = r.a AND t.b",
            'DELETE FROM r USING (SELECT c1 AS "A" FROM pg_temp.x) t WHERE t.a = r.a AND t.b',
        ),
        (
            "DELETE FROM s.t USING u.t WHERE u.t.a = s.t.a",
            (
                'DELETE FROM s.t USING (SELECT c1 AS "A" FROM pg_temp.x) "pgwire u.t"'
                ' WHERE "pgwire u.t".a = s.t.a'
            ),
        ),
        (
            "INSERT INTO r TABLE t ON CONFLICT DO NOTHING",
            'INSERT INTO r SELECT c1 AS "A" FROM pg_temp.x ON CONFLICT DO NOTHING',
        ),
    ],
)
def test_a_part_is_replaced(statement: str, expected: str) -> None:
    tree = StatementTree(statement)
    (part,) = tree.parts
    part.replace("pg_temp.x", [Yielded("A", "c1")])
    assert tree.text == expected


def test_what_reads_in_its_source_only() -> None:
    assert StatementTree("INSERT INTO r SELECT * FROM t RETURNING *").reads_source_only
    returning = "INSERT INTO r SELECT * FROM t RETURNING (SELECT count(*) FROM r)"
    assert not StatementTree(returning).reads_source_only
    assert not StatementTree("DELETE FROM r USING t").reads_source_only


def test_deep_statements_are_written_as_well() -> None:
    statement = f"UPDATE r SET a = {' + '.join(['t.a'] * 150)} FROM t"
    written = StatementTree(statement).text.replace("(", "").replace(")", "")
    assert written.split() == statement.split()


def test_what_cannot_be_taken_apart_is_told() -> None:
    with pytest.raises(UnfaithfulTextError):
        StatementTree(f"DELETE FROM r WHERE {'(' * 5000}a{')' * 5000} = 1 + {'-' * 9}(")
    with pytest.raises(UnfaithfulTextError):
        StatementTree(f"DELETE FROM r WHERE a = {' + '.join(['a'] * 20000)}")
