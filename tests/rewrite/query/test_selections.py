"""Which queries need nothing of Spark, and that they yield Spark's rows without it, too.

`Oracle` evaluates each selection it meets both ways, in all tests of compiled statements.
"""

import pytest

from rewrite.results import SourcePart
from tests.support.rewrite_oracle import Oracle

pytestmark = [pytest.mark.catalog, pytest.mark.spark]

TABLES = """
create table t (id bigint primary key, a int, b smallint, n numeric(12,2), s text, f float8,
  d date, m timestamp, z timestamptz, y bool, u numeric, c char(3));
insert into t select i, nullif(i % 7, 3), (i % 5)::smallint, case when i % 6 <> 0 then i * 1.25 end,
  (array['fee', 'Order', '', 'x%y', null])[1 + i % 5], nullif(i, 4) / 3.0::float8,
  date '2024-02-27' + i::int, timestamp '2024-02-28 23:00' + i * interval '1 hour',
  timestamptz '2024-02-28 23:00+00' + i * interval '1 hour', nullif(i % 3, 2) = 1,
  i / 7.0, left('abc', (i % 4)::int)
from generate_series(1, 40) i;
insert into t (id, f) values (100, 'NaN'), (101, '-0'), (102, 'Infinity');
create table far (k bigint primary key, n numeric(38,10), i int);
insert into far values (9223372036854775807, 1, 2147483647),
  (-9223372036854775808, -1, -2147483648);
"""

SELECTIONS = [
    "select * from t",
    "select id, f, u, y from t where a = 2",
    "select id from t where a % 3 = 1 and not (b in (1, 2))",
    "select id from t where a % -3 = -1 or a is null",
    "select id from t where id between 5 and 9 or s = 'fee'",
    "select id from t where n > 12.5 and n <= 30",
    "select id, n + 1, n * 2, -n, a + b, a * id, id - a from t where n is not null",
    "select id from t where n * 2 > a",
    "select id from t where s in ('fee', 'x%y') and s <> 'fee'",
    "select id from t where not (s in (null, 'fee')) or a in (1, null)",
    "select id from t where (a not in (1, null)) is null or not (b in (null, null))",
    "select id from t where s is distinct from 'fee' and a is not distinct from null",
    "select id from t where s > 'Order' or s < 'F'",
    "select id from t where d >= '2024-03-01' and m < '2024-03-01 05:00'",
    "select id from t where z < '2024-03-01 09:00+00'",
    "select id from t where d = '2024-03-03' or m = '2024-02-29 11:00:00'",
    "select id from t where y",
    "select id from t where not y",
    "select id from t where y is null or (y = true and a > 1)",
    "select id, case when a > 4 then 'many' when a > 1 then s else 'few' end from t where id < 30",
    "select id, case a when 1 then b when 2 then 7::smallint end from t",
    "select id, coalesce(s, 'none'), coalesce(a, b, 0) from t",
    "select id, abs(a - 3) from t where abs(a) = 2",
    "select id::int, a::bigint, a::numeric(10,0) from t where id < 50",
    "select id from t where a = any('{1,2}') limit 100",
    "select q.x + 1 from (select a as x, id from t where id > 3) q where q.id < 20",
    # As programs write them; long chains are no deep trees.
    pytest.param(
        "select id from t where " + " or ".join(f"id = {n} and a = {n % 5}" for n in range(900)),
        id="or",
    ),
    pytest.param(
        "select id from t where " + " and ".join(f"(id <> {n} or a < 3)" for n in range(900)),
        id="and",
    ),
]

OTHERS = [
    "select count(*) from t",
    "select id from t order by id",
    "select distinct a from t",
    "select t.id from t join far on far.k = t.id",
    "select id from t where id in (select k from far)",
    "select id, row_number() over (order by id) from t",
    "select id from t union all select k from far",
    "select id from t where length(s) = 3",
]

LEFT_TO_SPARK = [
    "select id from t where d = '2024-02-29'::text::date",
    "select id from t where n > '10.0'::text::numeric",
    "select id from t where m > '2024-03-01'::text::timestamp",
    "select id from t where f = 'NaN'",
    "select id from t where f > 2",
    "select f + 1 from t",
    "select id from t where u > 3",
    "select id, upper(s) from t",
]
"""What no kernel of Arrow does as Spark does."""


@pytest.fixture(scope="module", autouse=True)
def _tables(oracle: Oracle) -> None:
    oracle.execute(TABLES)


@pytest.mark.parametrize("sql", SELECTIONS)
def test_a_selection_is_evaluated_without_spark_as_by_it(oracle: Oracle, sql: str) -> None:
    before = oracle.selections
    oracle.check(sql)
    assert oracle.selections == before + 1


@pytest.mark.parametrize("sql", OTHERS)
def test_what_is_more_than_a_selection_is_none(oracle: Oracle, sql: str) -> None:
    query = oracle.check(sql)
    assert query.selection is None


@pytest.mark.parametrize("sql", LEFT_TO_SPARK)
def test_what_arrow_does_otherwise_is_left_to_spark(oracle: Oracle, sql: str) -> None:
    before = oracle.selections
    oracle.check(sql)
    assert oracle.selections == before


@pytest.mark.parametrize(
    "sql",
    [
        "select k + 1 from far where i > 0",
        "select k from far where i * 2 > 5",
        "select n * n from far",
        "select k % (i - 2147483647) from far",
        "select -k from far",
        "select abs(k) from far",
        "select k::int from far",
        "select i::smallint from far where k > 0",
    ],
)
def test_a_row_that_is_an_error_is_left_to_spark(oracle: Oracle, sql: str) -> None:
    query = oracle.compile(sql)
    assert query.selection is not None
    for source in query.sources:
        oracle.register(source)
    assert oracle.selected(query.selection) is None


@pytest.mark.parametrize(
    "sql",
    [
        "update t set n = n + 1, a = a % 5 where a % 3 = 1 returning id, n",
        "update t set s = case when y then s else 'none' end where id > 7",
        "delete from t where n > 20 returning *",
    ],
)
def test_changes_are_selections(oracle: Oracle, sql: str) -> None:
    before = oracle.selections
    oracle.check_change(sql)
    assert oracle.selections == before + 1


def test_rows_that_are_newer_take_the_place_of_those_of_the_base(oracle: Oracle) -> None:
    oracle.execute(
        "create table s (k int primary key, v int);insert into s values (1, 10), (2, 21), (4, 41)"
    )
    stamps = (
        "timestamptz '2024-01-0{} 00:00+00' as version_number,"
        " {}::timestamptz as subsequent_version_number"
    )
    old = "(values (1, 10), (2, 20), (3, 30)) q (k, v)"
    base = f"select *, {stamps.format(1, 'null')} from {old}"
    newer = (
        "select *, " + stamps.format(2, "null") + " from (values (2, 21), (4, 41)) q (k, v)"
        " union all select 3, 30, " + stamps.format(2, "'2024-01-02 00:00+00'")
    )
    relid = oracle.relid("s")
    oracle.parts = {relid: {SourcePart.BASE: base, SourcePart.RECENT: newer}}
    try:
        before = oracle.selections
        oracle.check_change(
            "update s set v = v + 1 where v % 10 = 1", latest_only=frozenset({relid})
        )
        oracle.check_change("delete from s where v > 15", latest_only=frozenset({relid}))
        assert oracle.selections == before + 2
        oracle.check_change("delete from s where v > 15")
        assert oracle.selections == before + 2
    finally:
        oracle.parts = {}
        oracle.execute("select 1")


def test_nothing_is_a_selection_where_spark_is_asked_for(oracle: Oracle) -> None:
    sql = "delete from t where a = 2"
    assert oracle.compile_change(sql).query.selection is not None
    assert oracle.compile_change(sql, reads_files=False).query.selection is None
