"""A key counts as fixed only where the statement can concern no other row of the table."""

from collections.abc import Sequence

import pytest

from rewrite.context import ParameterValue
from rewrite.pinned_keys import pinned_keys, plain_columns
from rewrite.pipeline import parse_tree
from tests.support.rewrite_oracle import Oracle

pytestmark = [pytest.mark.catalog, pytest.mark.spark]

TABLES = """
create table pin (k int primary key, v int);
create table pin_text (k varchar(20) primary key, v int);
create table pin_two (a bigint, b text, v int, primary key (a, b));
create table pin_numeric (k numeric primary key);
create table pin_char (k char(5) primary key);
create table pin_none (k int);
create view pin_view as select * from pin;
"""


@pytest.fixture(scope="module", autouse=True)
def _tables(oracle: Oracle) -> None:
    oracle.execute(TABLES)


def columns(oracle: Oracle, sql: str, name: str = "pin") -> list[int] | None:
    text, _ = oracle.analyse(sql)
    found = oracle.snapshot(oracle.relid(name))
    assert found is not None
    return plain_columns(parse_tree(text)[0], found.table)


def keys(oracle: Oracle, sql: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
    text, types = oracle.analyse(sql)
    names = ("pin", "pin_text", "pin_two", "pin_numeric", "pin_char", "pin_none")
    snapshots = [oracle.snapshot(oracle.relid(name)) for name in names]
    tables = {found.table.relid: found.table for found in snapshots if found is not None}
    parameters = tuple(ParameterValue(oid, v) for oid, v in zip(types, values, strict=True))
    found = pinned_keys(parse_tree(text)[0], tables, parameters)
    return [found[relid] for relid in tables if relid in found]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select v from pin where k = 5", [(5,)]),
        ("select v from pin where 5 = k and v > 3", [(5,)]),
        ("select v from pin where k = 5::bigint", [(5,)]),
        ("select count(*) from pin where k = -7", [(-7,)]),
        ("select v from pin_text where k = 'a'", [("a",)]),
        ("select v from pin_two where b = 'x' and a = 4", [(4, "x")]),
        ("select * from pin, pin_two where pin.k = 1 and a = 2 and b = 'y'", [(1,), (2, "y")]),
        ("select * from pin left join pin_none n on n.k = v where pin.k = 1", [(1,)]),
        ("select * from pin_none n left join pin on pin.k = n.k where pin.k = 1", [(1,)]),
        ("select v, (select count(*) from pin_none) from pin where k = 1", [(1,)]),
        ("update pin set v = v + 1 where k = 9", [(9,)]),
        ("delete from pin_two where a = 1 and b = 'z'", [(1, "z")]),
        ("select * from pin_char where k = 'a'", [("a    ",)]),
        ("update pin set v = n.k from pin_none n where pin.k = 3", [(3,)]),
    ],
)
def test_a_fixed_key_is_found(oracle: Oracle, sql: str, found: list[tuple[object, ...]]) -> None:
    assert keys(oracle, sql) == found


@pytest.mark.parametrize(
    "sql",
    [
        "select v from pin where k = 5 or v = 1",
        "select v from pin where k > 5",
        "select v from pin where k in (5, 6)",
        "select v from pin where k = v",
        "select v from pin where k = null",
        "select v from pin where k = 5.0",
        "select v from pin_two where a = 1",
        "select a.v from pin a, pin b where a.k = 1",
        "select v from pin where k = 1 and v = (select max(v) from pin)",
        "select * from pin_none n left join pin on pin.k = 1",
        "select * from (select * from pin where k = 1) q",
        "select * from pin_view where k = 1",
        "select v from pin where k = 1 union all select v from pin_none, pin where pin.k = 2",
        "select * from pin_numeric where k = 1",
        "select * from pin_none where k = 1",
    ],
)
def test_any_other_condition_fixes_nothing(oracle: Oracle, sql: str) -> None:
    assert keys(oracle, sql) == []


@pytest.mark.parametrize(("value", "found"), [(5, [(5,)]), (None, [])])
def test_a_parameter_fixes_a_key_unless_it_is_null(
    oracle: Oracle, value: object, found: list[tuple[object, ...]]
) -> None:
    assert keys(oracle, "select v from pin where k = $1", [value]) == found


@pytest.mark.parametrize(
    ("sql", "table", "found"),
    [
        ("select v from pin where k = 5", "pin", [2]),
        ("select * from pin where 5 = k", "pin", [1, 2]),
        ("select v, k, v from pin p where p.k = $1", "pin", [2, 1, 2]),
        ("select v as x from pin_two where b = 'x' and a = 4", "pin_two", [3]),
    ],
)
def test_columns_as_they_are_make_a_plain_read(
    oracle: Oracle, sql: str, table: str, found: list[int]
) -> None:
    assert columns(oracle, sql, table) == found


@pytest.mark.parametrize(
    "sql",
    [
        "select v + 1 from pin where k = 5",
        "select v::bigint from pin where k = 5",
        "select count(*) from pin where k = 5",
        "select v from pin where k = 5 and v = 1",
        "select v from pin where k = 5 and k = 6",
        "select v from pin where k = 5 limit 0",
        "select v from pin where k = 5 offset 1",
        "select v from pin where k = 5 order by v",
        "select distinct v from pin where k = 5",
        "select v from pin where k = 5 group by v",
        "select v from pin where k = 5 for update",
        "select v, generate_series(1, 2) from pin where k = 5",
        "select v, row_number() over () from pin where k = 5",
        "select v, (select 1) from pin where k = 5",
        "with x as (select 1) select v from pin where k = 5",
        "select v from pin, pin_none where pin.k = 5",
        "select v from pin tablesample system (1) where k = 5",
        "select v from pin where k = 5 union all select 1",
        "select pin from pin where k = 5",
        "select tableoid from pin where k = 5",
        "update pin set v = 1 where k = 5",
        "delete from pin where k = 5 returning v",
    ],
)
def test_whatever_asks_for_more_is_no_plain_read(oracle: Oracle, sql: str) -> None:
    assert columns(oracle, sql) is None
