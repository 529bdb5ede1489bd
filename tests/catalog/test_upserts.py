"""INSERT with ON CONFLICT as MERGE: what it is rewritten to, and what it is not."""

import pytest

from catalog.session.upserts import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            (
                "INSERT INTO h.t AS x (a, b) SELECT a, b FROM s ON CONFLICT (a)"
                " DO UPDATE SET b = x.b + excluded.b RETURNING *, c"
            ),
            (
                "MERGE INTO h.t x USING (SELECT a, b FROM s) excluded(a, b)"
                " ON x.a OPERATOR(pg_catalog.=) excluded.a"
                " WHEN MATCHED AND excluded.b IS NULL THEN UPDATE SET b = NULL"
                " WHEN MATCHED THEN UPDATE SET b = x.b + excluded.b"
                " WHEN NOT MATCHED THEN INSERT (a, b) VALUES (excluded.a, excluded.b)"
                " RETURNING x.*, x.c"
            ),
        ),
        (
            "WITH q AS (SELECT 1) INSERT INTO t SELECT * FROM q ON CONFLICT DO NOTHING",
            (
                "WITH q AS (SELECT 1) MERGE INTO t USING (SELECT DISTINCT ON (a) *"
                " FROM (SELECT * FROM q) excluded(a, b)) excluded(a, b)"
                " ON t.a OPERATOR(pg_catalog.=) excluded.a"
                " WHEN MATCHED AND excluded.b IS NULL THEN UPDATE SET b = NULL"
                " WHEN NOT MATCHED THEN INSERT (a, b) VALUES (excluded.a, excluded.b)"
            ),
        ),
    ],
)
def test_a_merge_does_the_same(text: str, expected: str) -> None:
    upsert = parse(text)
    assert upsert is not None
    assert upsert.merge(["a", "b"], ["a"], ["b"]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t SELECT 1",
        "INSERT INTO t DEFAULT VALUES ON CONFLICT DO NOTHING",
        "INSERT INTO t SELECT 1 ON CONFLICT (a) DO UPDATE SET b = 1 WHERE t.b > 1",
        "INSERT INTO t SELECT 1 ON CONFLICT (a) WHERE a > 1 DO NOTHING",
        "INSERT INTO t SELECT 1 ON CONFLICT (lower(a)) DO NOTHING",
        'INSERT INTO t SELECT 1 ON CONFLICT (a COLLATE "C") DO NOTHING',
        "INSERT INTO t SELECT 1 ON CONFLICT (a) DO UPDATE SET b = (SELECT 1)",
        "INSERT INTO t SELECT 1 ON CONFLICT (a) DO NOTHING RETURNING (SELECT 1)",
        "INSERT INTO t SELECT 1 ORDER BY 1 ON CONFLICT (a) DO NOTHING",
        "INSERT INTO t OVERRIDING SYSTEM VALUE SELECT 1 ON CONFLICT (a) DO NOTHING",
        "INSERT INTO t (a.b) SELECT 1 ON CONFLICT (a) DO NOTHING",
        "INSERT INTO excluded SELECT 1 ON CONFLICT (a) DO NOTHING",
    ],
)
def test_what_a_merge_could_do_otherwise_is_left_alone(text: str) -> None:
    assert parse(text) is None
