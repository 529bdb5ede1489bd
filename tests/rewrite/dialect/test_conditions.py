"""The order of conditions that can fail, and what it must not cost."""

import pytest

from tests.rewrite.dialect.cases import answer, compare
from tests.support.rewrite_oracle import Oracle

pytestmark = [pytest.mark.spark, pytest.mark.catalog]

QUERIES = [
    # several that others have to wait for
    (
        "SELECT t.id, u.id FROM edge t, edge u WHERE t.jb ->> 'b' = 'a' AND u.jb ->> 't' = 'null'"
        " AND t.id = 7 AND 10 / (t.id - u.id + 1) > 1 AND t.jb ->> 't' = 'null'"
    ),
    "SELECT a.id, b.id FROM edge a, edge b WHERE a.jb ->> 'b' = b.jb ->> 'b' AND a.id <= b.id",
    (
        "SELECT a.id, b.id, c.id FROM edge a, edge b, edge c WHERE a.jb ->> 'a' = b.jb ->> 'a'"
        " AND b.jb ->> 'big' = c.jb ->> 'big' AND a.id + 0 = c.id + 0"
    ),
    (
        "SELECT a.id, b.id FROM edge a LEFT JOIN edge b"
        " ON a.jb ->> 'a' = b.jb ->> 'a' AND b.jb ->> 't' = 'null' AND 10 / (b.id - 1) > 0"
    ),
    (
        "SELECT a.id, b.id FROM edge a FULL JOIN edge b"
        " ON a.jb ->> 'a' = b.jb ->> 'a' AND a.jb ->> 'b' = b.jb ->> 'b'"
    ),
    (
        "SELECT a.id, x.id FROM edge a, LATERAL (SELECT b.id FROM edge b"
        " WHERE b.jb ->> 'b' = a.jb ->> 'b' AND b.i4 / 1 = a.i4 / 1) x"
    ),
    (
        "SELECT jb ->> 'a', count(*) FROM edge GROUP BY 1"
        " HAVING jb ->> 'a' = '1.10' AND 10 / (count(*) - 1 + min(id)) > 1"
    ),
    "SELECT id FROM edge WHERE jb ->> 'b' IN (SELECT i.jb ->> 'b' FROM edge i WHERE i.id > 5)",
    (
        "SELECT id FROM edge o WHERE EXISTS (SELECT FROM edge i WHERE i.jb ->> 'b' = o.jb ->> 'b'"
        " AND i.jb ->> 'a' IS NULL AND i.id + 0 = o.id + 0)"
    ),
    (
        "SELECT id FROM edge o WHERE NOT EXISTS (SELECT FROM edge i WHERE i.jb ->> 'b' = 'a'"
        " AND 10 / i.id <= o.id)"
    ),
]
"""Where conditions stand."""


@pytest.mark.parametrize(
    "condition",
    [
        "a.jb ->> 't' = b.jb ->> 't' AND a.jb ->> 'a' = b.jb ->> 'a'",
        "a.s::integer = b.s::integer AND a.v::integer = b.v::integer AND a.i4 / b.i4 > 1",
    ],
)
@pytest.mark.parametrize("join", ["JOIN edge b ON", ", edge b WHERE"])
def test_rows_are_joined_by_equalities_that_can_fail(edge: Oracle, join: str, condition: str):
    query = edge.compile(f"SELECT a.id FROM edge a {join} {condition}")
    for source in query.sources:
        edge.register(source)
    plan = edge.spark.sql(query.sql)._jdf.queryExecution().executedPlan().toString()
    assert "Join" in plan
    assert "CartesianProduct" not in plan
    assert "NestedLoop" not in plan


@pytest.mark.parametrize("query", QUERIES)
def test_conditions_that_can_fail_mean_the_same_everywhere(edge: Oracle, query: str):
    compare(edge, query)


def test_many_conditions_that_can_fail_are_not_nested(edge: Oracle):
    conditions = " AND ".join(f"jb ->> 'key {number}' IS NULL" for number in range(200))
    query = edge.compile(f"SELECT id FROM edge WHERE {conditions} AND i4 = 2")
    assert answer(edge, query) == [("1",)]


def test_a_condition_is_not_computed_where_one_before_it_is_null(edge: Oracle):
    compare(edge, "SELECT id FROM edge WHERE jb ->> 'a' = '1.10' AND 10 / (id - 3) < 0")
