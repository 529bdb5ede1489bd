"""MERGE with Spark's stars: which statements are taken for one, and what becomes of them."""

import pytest

from catalog.extensions.merge import parse
from catalog.statements.splitting import StatementKind, split

ON = "MERGE INTO t USING s ON t.a = s.a "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            ON + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            ON + 'WHEN MATCHED THEN UPDATE SET "a" = s."a", b = s.b'
            ' WHEN NOT MATCHED THEN INSERT ("a", b) VALUES (s."a", s.b)',
        ),
        (
            (
                'merge into only h.t as x using (select * from "S" s) AS "My S" (c, d) on x.a = 1'
                " when not matched and (true) then insert * returning *"
            ),
            (
                'merge into only h.t as x using (select * from "S" s) AS "My S" (c, d) on x.a = 1'
                ' when not matched and (true) then INSERT ("a", b) VALUES ("My S"."a", "My S".b)'
                " returning *"
            ),
        ),
        (
            (
                "WITH q AS (SELECT 1) MERGE INTO t USING h.s ON true WHEN MATCHED /* é */ THEN"
                " UPDATE SET * -- x"
            ),
            (
                "WITH q AS (SELECT 1) MERGE INTO t USING h.s ON true WHEN MATCHED /* é */ THEN"
                ' UPDATE SET "a" = s."a", b = s.b -- x'
            ),
        ),
    ],
)
def test_stars_stand_for_the_columns_of_the_target(text: str, expected: str) -> None:
    merge = parse(text)
    assert merge is not None
    assert merge.with_columns([['"a"', "b"]]).text == expected
    (statement,) = split(text)
    assert (statement.kind, statement.text) == (StatementKind.MERGE, text)


@pytest.mark.parametrize(
    "text",
    [
        ON + "WHEN MATCHED THEN UPDATE SET a = 1",
        ON + "WHEN MATCHED THEN UPDATE SET * , a = 1",
        ON + "WHEN NOT MATCHED THEN INSERT * VALUES (1)",
        "MERGE INTO t USING s JOIN u ON s.a = u.a ON t.a = s.a WHEN MATCHED THEN UPDATE SET *",
        "MERGE INTO t USING (SELECT 1) ON true WHEN MATCHED THEN UPDATE SET *",
        "INSERT INTO t SELECT a * b FROM s",
        "UPDATE t SET *",
    ],
)
def test_what_is_none_of_these_is_postgresqls(text: str) -> None:
    assert parse(text) is None
    assert all("stars" not in statement.details for statement in split(text))


def test_each_merge_of_a_statement_has_columns_of_its_own() -> None:
    text = (
        "WITH x AS (MERGE INTO t USING (s) AS q ON true WHEN MATCHED THEN UPDATE SET *"
        " RETURNING a),"
        " y AS (MERGE INTO u USING s ON true WHEN MATCHED THEN DELETE)"
        " MERGE INTO h.v USING x ON (true) WHEN NOT MATCHED THEN INSERT *"
    )
    merge = parse(text)
    assert merge is not None
    assert [part.target for part in merge.parts] == [(None, "t"), ("h", "v")]
    assert merge.with_columns([["a"], ["b", "c"]]).text == (
        "WITH x AS (MERGE INTO t USING (s) AS q ON true WHEN MATCHED THEN UPDATE SET a = q.a"
        " RETURNING a), y AS (MERGE INTO u USING s ON true WHEN MATCHED THEN DELETE)"
        " MERGE INTO h.v USING x ON (true) WHEN NOT MATCHED THEN INSERT (b, c) VALUES (x.b, x.c)"
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"WITH x AS ({ON} WHEN MATCHED THEN UPDATE SET *) SELECT 1", StatementKind.SELECT),
        (
            f"WITH x AS ({ON} WHEN MATCHED THEN UPDATE SET * RETURNING 1) INSERT INTO u TABLE x",
            StatementKind.INSERT,
        ),
        (f"EXPLAIN WITH x AS ({ON} WHEN MATCHED THEN UPDATE SET *) SELECT", StatementKind.EXPLAIN),
    ],
)
def test_it_may_be_a_part_of_with(text: str, kind: StatementKind) -> None:
    (statement,) = split(text)
    assert (statement.kind, statement.text) == (kind, text)
    assert "stars" in statement.details


def test_errors_point_to_what_was_sent() -> None:
    text = ON + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND nope THEN INSERT *"
    merge = parse(text)
    assert merge is not None
    translation = merge.with_columns([["a", "b"]])
    for word, place in (("s.b", text.index("*")), ("nope", text.index("nope"))):
        assert translation.place(translation.text.index(word) + 1) == place + 1
    last = translation.text.rindex("s.b")
    assert translation.place(last + 1) == text.rindex("*") + 1


def test_the_rest_is_read_by_postgresql() -> None:
    (statement,) = split(ON + "WHEN MATCHED THEN UPDATE SET * WHEN SOMETIMES THEN INSERT *")
    assert statement.kind is StatementKind.UNKNOWN
    several = split(f"SELECT 1; {ON}WHEN MATCHED THEN UPDATE SET *; SELECT 2")
    assert [statement.kind for statement in several] == [
        StatementKind.SELECT,
        StatementKind.MERGE,
        StatementKind.SELECT,
    ]
    assert several[1].offset == 10
