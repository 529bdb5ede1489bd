"""The order of conditions that can fail, and what it must not cost."""

import pytest

from tests.rewrite.dialect.cases import answer, compare
from tests.support.rewrite_oracle import Oracle

pytestmark = [pytest.mark.spark, pytest.mark.catalog]


@pytest.mark.parametrize(
    "condition",
    [
        "a.jb ->> 't' = b.jb ->> 't' AND a.jb ->> 'a' = b.jb ->> 'a'",
        "a.s::integer = b.s::integer AND a.v::integer = b.v::integer AND a.i4 / b.i4 > 1",
    ],
)
def test_rows_are_joined_by_equalities_that_can_fail(edge: Oracle, condition: str):
    query = edge.compile(f"SELECT a.id FROM edge a JOIN edge b ON {condition}")
    for source in query.sources:
        edge.register(source)
    plan = edge.spark.sql(query.sql)._jdf.queryExecution().executedPlan().toString()
    assert "Join" in plan
    assert "CartesianProduct" not in plan
    assert "NestedLoop" not in plan


def test_many_conditions_that_can_fail_are_not_nested(edge: Oracle):
    conditions = " AND ".join(f"jb ->> 'key {number}' IS NULL" for number in range(200))
    query = edge.compile(f"SELECT id FROM edge WHERE {conditions} AND i4 = 2")
    assert answer(edge, query) == [("1",)]


def test_a_condition_is_not_computed_where_one_before_it_is_null(edge: Oracle):
    compare(edge, "SELECT id FROM edge WHERE jb ->> 'a' = '1.10' AND 10 / (id - 3) < 0")
