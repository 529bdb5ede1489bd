"""INSERT with ON CONFLICT as MERGE: what it is rewritten to, and what it is not."""

import pytest

from catalog.session.proposed_rows import ProposedColumn, RefusedRows, RowRules, UnknownRuleError
from catalog.session.upserts import ArbiterKeys, Cast, parse, too_long
from catalog.statements.splitting import RelationName

TABLE = RelationName("h", "t")
PRIMARY = ArbiterKeys((("a",),), is_primary=True, table=TABLE)


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
            (
                "INSERT INTO t SELECT a, b FROM s ON CONFLICT (a) DO UPDATE SET b = (SELECT b FROM"
                " o WHERE c = excluded.a) WHERE t.a IN (SELECT a FROM o) RETURNING (SELECT c) + b"
            ),
            (
                "MERGE INTO t USING (SELECT a, b, pg_catalog.count(*) OVER (PARTITION BY a)"
                ' AS "row number" FROM (SELECT a, b FROM s) proposed(a, b)) excluded'
                " ON t.a OPERATOR(pg_catalog.=) excluded.a"
                ' WHEN MATCHED AND excluded."row number" OPERATOR(pg_catalog.>) 1 AND t.a IN'
                " (SELECT a FROM o) THEN DELETE WHEN MATCHED AND t.a IN (SELECT a FROM o)"
                " THEN UPDATE SET b = (SELECT b FROM o WHERE c = excluded.a)"
                " WHEN NOT MATCHED THEN INSERT (a, b) VALUES (excluded.a, excluded.b)"
                " RETURNING (SELECT c) + t.b"
            ),
        ),
        (
            "INSERT INTO t SELECT a, b FROM s ON CONFLICT (a) DO UPDATE SET a = t.a + 1",
            (
                "MERGE INTO t USING (SELECT a, b, pg_catalog.count(*) OVER (PARTITION BY a)"
                ' AS "row number" FROM (SELECT a, b FROM s) proposed(a, b)) excluded'
                " ON t.a OPERATOR(pg_catalog.=) excluded.a"
                ' WHEN MATCHED AND excluded."row number" OPERATOR(pg_catalog.>) 1 THEN DELETE'
                " WHEN MATCHED THEN UPDATE SET a = t.a + 1"
                " WHEN NOT MATCHED THEN INSERT (a, b) VALUES (excluded.a, excluded.b)"
            ),
        ),
        (
            "INSERT INTO t SELECT a, b AS c FROM s ORDER BY c DESC, d ON CONFLICT DO NOTHING",
            (
                "MERGE INTO t USING (SELECT DISTINCT ON (a) a, b FROM (SELECT a, b AS c,"
                ' pg_catalog.row_number() OVER (ORDER BY b DESC, d) AS "row order" FROM s'
                ' ORDER BY "row order") proposed(a, b, "row order") ORDER BY a, "row order")'
                " excluded ON t.a OPERATOR(pg_catalog.=) excluded.a"
                " WHEN NOT MATCHED THEN INSERT (a, b) VALUES (excluded.a, excluded.b)"
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
    assert upsert.merge({"a": Cast(), "b": Cast()}, PRIMARY, None, {}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t SELECT 1",
        "INSERT INTO t DEFAULT VALUES ON CONFLICT DO NOTHING",
        "INSERT INTO t SELECT 1 ON CONFLICT (a) DO UPDATE SET b = row_to_json(excluded)",
        "INSERT INTO t SELECT 1 ON CONFLICT (a) DO UPDATE SET b = 1 WHERE excluded.* IS NULL",
        "INSERT INTO t SELECT 1 ON CONFLICT (a) WHERE a > 1 DO NOTHING",
        "INSERT INTO t SELECT 1 ON CONFLICT (lower(a)) DO NOTHING",
        'INSERT INTO t SELECT 1 ON CONFLICT (a COLLATE "C") DO NOTHING',
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
                " WHERE t.e <> 'x' OR excluded.a = 1"
            ),
            (
                'MERGE INTO t USING (SELECT a, "B", "B" IS NULL OR NOT d::numeric > c'
                ' OR pg_catalog.length(d::pg_catalog.text) < 0 AS "row refused",'
                ' pg_catalog.count(*) OVER (PARTITION BY a) AS "row number"'
                ' FROM (SELECT *, "B" * 2 AS d FROM'
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
                ' OR pg_catalog.length(d::pg_catalog.text) < 0 AS "row refused",'
                ' pg_catalog.row_number() OVER (PARTITION BY a) AS "row number"'
                ' FROM (SELECT *, "B" * 2 AS d FROM'
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
    columns = {"a": Cast(), "B": Cast()}
    assert upsert.merge(columns, PRIMARY, RULES.refused(["a", "B"], ["a"]), {}) == expected


def test_what_no_constraint_is_about_is_not_looked_at() -> None:
    assert RowRules(RULES.columns[:3], ()).refused(["a", "c"], ["a"]) is None


@pytest.mark.parametrize("check", ["(t.* IS NOT NULL)", "(tableoid > 1)"])
def test_rules_about_something_else_than_columns_are_not_known(check: str) -> None:
    with pytest.raises(UnknownRuleError):
        RowRules(RULES.columns, (check,)).refused(["a", "B"], ["a"])


def test_what_is_of_another_type_is_cast() -> None:
    upsert = parse("INSERT INTO t SELECT 1, 2 ON CONFLICT (a) DO UPDATE SET b = 1")
    assert upsert is not None
    merge = upsert.merge({"a": Cast("numeric(4,1)"), "b": Cast()}, PRIMARY, None, {}) or ""
    assert merge.startswith(
        "MERGE INTO t USING (SELECT a, b FROM (SELECT a::numeric(4, 1) AS a, b FROM (SELECT 1, 2)"
        " proposed(a, b)) x) excluded ON"
    )


def test_what_is_longer_than_the_column_is_told_and_kept() -> None:
    upsert = parse("INSERT INTO t SELECT 1, 2 ON CONFLICT (a) DO UPDATE SET b = excluded.b")
    assert upsert is not None
    columns = {"a": Cast(), "b": Cast("character(3)", "bpchar", 3)}
    refused = RowRules(RULES.columns[:2], ()).refused(["a", "b"], ["a"], too_long(columns))
    assert upsert.merge(columns, PRIMARY, refused, {}) == (
        'MERGE INTO t USING (SELECT a, b, "given b", pg_catalog.length(pg_catalog.rtrim("given b"'
        '::text)) OPERATOR(pg_catalog.>) 3 AS "row refused" FROM (SELECT a, b::char(3) AS b,'
        ' b::bpchar AS "given b" FROM (SELECT 1, 2) proposed(a, b)) x) excluded'
        " ON t.a OPERATOR(pg_catalog.=) excluded.a"
        ' WHEN MATCHED AND excluded."row refused" THEN UPDATE SET b = excluded."given b",'
        ' "B" = DEFAULT'
        " WHEN MATCHED THEN UPDATE SET b = excluded.b"
        ' WHEN NOT MATCHED THEN INSERT (a, b) VALUES (excluded.a, excluded."given b")'
    )


def test_what_may_not_be_proposed_has_no_match_by_other_keys() -> None:
    upsert = parse("INSERT INTO t SELECT 1, 2 ON CONFLICT (b) DO UPDATE SET c = excluded.a")
    assert upsert is not None
    columns = {"a": Cast(), "b": Cast()}
    unique = ArbiterKeys((("b",),), is_primary=False, table=TABLE)
    refused = RefusedRows({}, {}, "a IS NULL", ())
    assert upsert.merge(columns, unique, refused, {}) == (
        'MERGE INTO t USING (SELECT a, b, a IS NULL AS "row refused" FROM (SELECT 1, 2)'
        " proposed(a, b)) excluded ON t.b OPERATOR(pg_catalog.=) excluded.b"
        ' AND NOT excluded."row refused" WHEN MATCHED THEN UPDATE SET c = excluded.a'
        " WHEN NOT MATCHED THEN INSERT (a, b) VALUES (excluded.a, excluded.b)"
    )


def test_rows_with_null_in_a_unique_key_are_all_inserted() -> None:
    upsert = parse("INSERT INTO t SELECT 1, 2 ON CONFLICT (b) DO NOTHING")
    assert upsert is not None
    unique = ArbiterKeys((("b",),), is_primary=False, table=TABLE)
    merge = upsert.merge({"a": Cast(), "b": Cast()}, unique, None, {}) or ""
    assert merge.startswith(
        "MERGE INTO t USING (SELECT a, b, CASE WHEN b IS NULL THEN 1 ELSE pg_catalog.row_number()"
        ' OVER (PARTITION BY b) END AS "row number" FROM'
    )


def test_by_any_key_what_the_table_has_is_left_out() -> None:
    upsert = parse("INSERT INTO t SELECT 1, 2 ON CONFLICT DO NOTHING")
    assert upsert is not None
    keys = ArbiterKeys((("a",), ("b",)), is_primary=False, table=TABLE)
    merge = upsert.merge({"a": Cast(), "b": Cast()}, keys, None, {}) or ""
    for name in ("a", "b"):
        assert (
            'NOT EXISTS (SELECT FROM h.t "row there" WHERE "row there"'
            f'.{name} OPERATOR(pg_catalog.=) "rows seen".{name})'
        ) in merge
    assert merge.endswith(
        'WHEN NOT MATCHED AND excluded."row number" OPERATOR(pg_catalog.=) 1'
        " THEN INSERT (a, b) VALUES (excluded.a, excluded.b)"
    )


def test_excluded_has_the_defaults_of_other_columns() -> None:
    upsert = parse("INSERT INTO t SELECT 1 ON CONFLICT (a) DO UPDATE SET c = excluded.c")
    assert upsert is not None
    defaults = RULES.unproposed(upsert.named, ["a"])
    merge = upsert.merge({"a": Cast()}, PRIMARY, None, defaults) or ""
    assert merge.startswith(
        "MERGE INTO t USING (SELECT a, c FROM (SELECT *, (1.25)::numeric(4, 1) AS c"
        " FROM (SELECT 1) proposed(a)) x) excluded ON"
    )
    with pytest.raises(UnknownRuleError):
        RULES.unproposed(["n"], ["a"])


@pytest.mark.parametrize(
    "assigned", ["a = excluded.a", "(b, a) = (1, t.a)", "b = 2", "(a, b) = ROW (excluded.a, 1)"]
)
def test_rows_that_keep_their_keys_are_not_moved(assigned: str) -> None:
    upsert = parse(f"INSERT INTO t SELECT 1, 2 ON CONFLICT (a) DO UPDATE SET {assigned}")
    assert upsert is not None
    assert not upsert.moves(["a"])


@pytest.mark.parametrize(
    "assigned", ["a = excluded.b", "(a, b) = (SELECT 1, 2)", "(b, a) = (excluded.a, excluded.b)"]
)
def test_rows_that_others_give_keys_are(assigned: str) -> None:
    upsert = parse(f"INSERT INTO t SELECT 1, 2 ON CONFLICT (a) DO UPDATE SET {assigned}")
    assert upsert is not None
    assert upsert.moves(["a"])
