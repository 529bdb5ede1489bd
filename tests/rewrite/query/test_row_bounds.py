"""Row bounds are proven: by keys, limits and aggregates, never guessed."""

import pytest

from tests.support.rewrite_oracle import Oracle

pytestmark = [pytest.mark.catalog, pytest.mark.spark]

TABLES = """
create table p (k int primary key, name text, parent int);
insert into p select i, 'n' || i, i / 2 from generate_series(1, 40) i;
create table d (a int, b text, v int, primary key (a, b));
insert into d select i % 10, 'b' || i, i from generate_series(1, 30) i;
create table f (x int);
insert into f select i % 3 from generate_series(1, 7) i;
"""


@pytest.fixture(scope="module", autouse=True)
def _tables(oracle: Oracle) -> None:
    oracle.execute(TABLES)


@pytest.mark.parametrize(
    ("sql", "bound"),
    [
        ("select * from p where k = 5", 1),
        ("select * from p where 5 = k and name <> ''", 1),
        ("select * from p where k in (1, 2, 3)", 3),
        ("select * from p where k = any('{1,2,3,4}')", 4),
        ("select * from p where k in (1, parent)", 40),
        ("select * from p where k = 5 or k = 6", 40),
        ("select * from p where k > 5", 40),
        ("select * from p where k = k", 40),
        ("select * from d where a = 1 and b = 'b1'", 1),
        ("select * from d where a in (1, 2) and b in ('b1', 'b2', 'b3')", 6),
        ("select * from d where a = 1", 30),
        ("select * from f where x = 1", 7),
        ("select count(*) from p", 1),
        ("select count(*) from p group by parent", 40),
        ("select parent, count(*) from p group by rollup (parent)", 41),
        ("select * from p limit 3", 3),
        ("select * from p limit 3 offset 39", 1),
        ("select * from p offset 30", 10),
        ("select * from p limit 1000", 40),
        ("select distinct parent from p", 40),
        ("values (1), (2)", 2),
        ("select 1", 1),
        ("select 1 union all select 2 union all select k from p where k = 3", 3),
        ("select k from p except select x from f", 40),
        ("select * from f, f f2", 49),
        ("select * from d join p on p.k = d.a", 30),
        ("select * from d join p on p.k = d.a join p q on q.k = p.parent where d.b = 'b1'", 30),
        ("select * from p a, p b where a.k = b.parent and b.k = a.parent", 40),
        ("select * from d left join p on p.k = d.a", 30),
        ("select * from d right join p on p.k = d.a", 1200),
        ("select * from f full join f f2 on f.x = f2.x", 63),
        ("select * from (select * from p where k = 1) q, f", 7),
        ("with w as (select * from p limit 2) select * from w, w w2", 4),
        ("select * from p where k = 1 and exists (select 1 from f)", 1),
        ("select * from generate_series(1, 3)", 3),
    ],
)
def test_bound(oracle: Oracle, sql: str, bound: int | None) -> None:
    assert oracle.check(sql).row_bound == bound


def test_parameters_count_as_constants(oracle: Oracle) -> None:
    assert oracle.check("select * from p where k = $1", [7]).row_bound == 1
    assert oracle.check("select * from p where k = any($1)", [[7, 8, 99]]).row_bound == 3
    assert oracle.check("select * from p limit $1 offset $2", [5, 2]).row_bound == 5


def test_input_rows_are_those_of_the_sources_once(oracle: Oracle) -> None:
    assert oracle.check("select count(*) from p a, p b, f").input_rows == 47


def test_changes_are_bounded_by_the_target(oracle: Oracle) -> None:
    assert oracle.check_change("update p set name = '' where k = 3").row_bound == 1
    assert oracle.check_change("update p set name = '' from f where f.x = p.k").row_bound == 7
    assert oracle.check_change("update p set name = '' from f where f.x > p.k").row_bound == 40
    assert oracle.check_change("delete from f where x = 1").row_bound == 7
