"""INSERT with ON CONFLICT as MERGE: what it is rewritten to, and what it is not."""

import pytest

from catalog.session.proposed_rows import ProposedColumn, RowRules, UnknownRuleError
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
                "MERGE INTO h.t x USING (SELECT a, b FROM (SELECT a, b FROM s) proposed(a, b))"
                " excluded ON x.a OPERATOR(pg_catalog.=) excluded.a"
                " WHEN MATCHED THEN UPDATE SET b = x.b + excluded.b"
                " WHEN NOT MATCHED THEN INSERT (a, b) VALUES (excluded.a, excluded.b)"
                " RETURNING x.*, x.c"
            ),
        ),
        (
            "WITH q AS (SELECT 1) INSERT INTO t SELECT * FROM q ON CONFLICT DO NOTHING",
            (
                "WITH q AS (SELECT 1) MERGE INTO t USING (SELECT DISTINCT ON (a) a, b"
                " FROM (SELECT * FROM q) proposed(a, b)) excluded"
                " ON t.a OPERATOR(pg_catalog.=) excluded.a"
                " WHEN NOT MATCHED THEN INSERT (a, b) VALUES (excluded.a, excluded.b)"
            ),
        ),
    ],
)
def test_a_merge_does_the_same(text: str, expected: str) -> None:
    upsert = parse(text)
    assert upsert is not None
    assert upsert.merge({"a": "", "b": ""}, ["a"], None) == expected


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t SELECT 1",
        "INSERT INTO t DEFAULT VALUES ON CONFLICT DO NOTHING",
        "INSERT INTO t SELECT 1 ON CONFLICT (a) DO UPDATE SET b = 1 WHERE EXISTS (SELECT)",
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


RULES = RowRules(
    (
        ProposedColumn(
            "a", "integer", not_null=True, generated="", is_drawn=False, expression=None
        ),
        ProposedColumn(
            "B", "integer", not_null=True, generated="", is_drawn=False, expression=None
        ),
        ProposedColumn(
            "c", "numeric(4,1)", not_null=False, generated="", is_drawn=False, expression="1.25"
        ),
        ProposedColumn(
            "d", "integer", not_null=False, generated="s", is_drawn=False, expression='("B" * 2)'
        ),
        ProposedColumn("n", "integer", not_null=True, generated="", is_drawn=True, expression=None),
        ProposedColumn(
            "e", "text", not_null=False, generated="", is_drawn=False, expression="'new'"
        ),
    ),
    ("((d)::numeric > c)",),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            (
                'INSERT INTO t SELECT 1, 2 ON CONFLICT (a) DO UPDATE SET e = excluded."B"'
                " WHERE e <> 'x' OR excluded.a = 1"
            ),
            (
                'MERGE INTO t USING (SELECT a, "B", "B" IS NULL OR NOT d::numeric > c'
                ' OR pg_catalog.length(d::text) < 0 AS "row refused", pg_catalog.count(*)'
                ' OVER (PARTITION BY a) AS "row number" FROM (SELECT *, "B" * 2 AS d FROM'
                ' (SELECT *, (1.25)::numeric(4, 1) AS c FROM (SELECT 1, 2) proposed(a, "B")) x) x)'
                " excluded ON t.a OPERATOR(pg_catalog.=) excluded.a"
                ' WHEN MATCHED AND excluded."row refused" THEN UPDATE SET "B" = excluded."B",'
                " c = DEFAULT, e = DEFAULT"
                ' WHEN MATCHED AND excluded."row number" OPERATOR(pg_catalog.>) 1 AND'
                " (t.e <> 'x' OR excluded.a = 1) THEN DELETE"
                " WHEN MATCHED AND t.e <> 'x' OR excluded.a = 1 THEN UPDATE SET"
                ' e = excluded."B"'
                ' WHEN NOT MATCHED THEN INSERT (a, "B") VALUES (excluded.a, excluded."B")'
            ),
        ),
        (
            "INSERT INTO t SELECT 1, 2 ON CONFLICT (a) DO NOTHING",
            (
                'MERGE INTO t USING (SELECT a, "B", "B" IS NULL OR NOT d::numeric > c'
                ' OR pg_catalog.length(d::text) < 0 AS "row refused", pg_catalog.row_number()'
                ' OVER (PARTITION BY a) AS "row number" FROM (SELECT *, "B" * 2 AS d FROM'
                ' (SELECT *, (1.25)::numeric(4, 1) AS c FROM (SELECT 1, 2) proposed(a, "B")) x) x)'
                " excluded ON t.a OPERATOR(pg_catalog.=) excluded.a"
                ' WHEN MATCHED AND excluded."row refused" THEN UPDATE SET "B" = excluded."B",'
                " c = DEFAULT, e = DEFAULT"
                ' WHEN NOT MATCHED AND excluded."row refused" OR excluded."row number"'
                ' OPERATOR(pg_catalog.=) 1 THEN INSERT (a, "B") VALUES (excluded.a, excluded."B")'
            ),
        ),
    ],
)
def test_rows_that_constraints_refuse_are_told(text: str, expected: str) -> None:
    upsert = parse(text)
    assert upsert is not None
    assert upsert.merge({"a": "", "B": ""}, ["a"], RULES.refused(["a", "B"], ["a"])) == expected


def test_what_no_constraint_is_about_is_not_looked_at() -> None:
    assert RowRules(RULES.columns[:3], ()).refused(["a", "c"], ["a"]) is None


@pytest.mark.parametrize("check", ["(t.* IS NOT NULL)", "(tableoid > 1)"])
def test_rules_about_something_else_than_columns_are_not_known(check: str) -> None:
    with pytest.raises(UnknownRuleError):
        RowRules(RULES.columns, (check,)).refused(["a", "B"], ["a"])


def test_what_is_of_another_type_is_cast() -> None:
    upsert = parse("INSERT INTO t SELECT 1, 2 ON CONFLICT (a) DO UPDATE SET b = 1")
    assert upsert is not None
    merge = upsert.merge({"a": "numeric(4,1)", "b": ""}, ["a"], None) or ""
    assert merge.startswith(
        "MERGE INTO t USING (SELECT a, b FROM (SELECT a::numeric(4, 1) AS a, b FROM (SELECT 1, 2)"
        " proposed(a, b)) x) excluded ON"
    )
