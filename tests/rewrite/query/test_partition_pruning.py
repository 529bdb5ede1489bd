"""Partitions are left out only where no row of theirs is asked for."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from catalog.divisions import Division, DivisionField, Partition, Transform
from catalog.model import Segment, SegmentKind
from rewrite.context import ParameterValue
from rewrite.partition_pruning import unread
from rewrite.pipeline import parse_tree
from tests.support.rewrite_oracle import Oracle

pytestmark = [pytest.mark.catalog, pytest.mark.spark]

SEED = 20261125
COLUMNS = {
    "id": (1, 23),
    "c": (2, 25),
    "d": (3, 1082),
    "t": (4, 1114),
    "z": (5, 1184),
    "n": (6, 20),
    "f": (7, 16),
    "w": (8, 1043),
}
TABLES = """
create table pr (id int primary key, c text, d date, t timestamp, z timestamptz, n bigint,
                 f boolean, w varchar(10));
create table other (id int, c text, d date);
create view pr_view as select c as country, d, id, n from pr where n is not null;
insert into pr select g, (array['DE', 'FR', 'de', '', 'it''s', null])[g % 6 + 1],
    case when g % 11 > 0 then date '2023-12-30' + g % 40 end,
    case when g % 13 > 0 then timestamp '1969-12-31 22:30' + g * interval '1 hour 7 minutes' end,
    case when g % 7 > 0 then timestamptz '2024-01-01 00:00+00' - g * interval '5 hours' end,
    case when g % 17 > 0 then (g - 150) * 3 end,
    (array[true, false, null])[g % 3 + 1],
    (array['alpha', 'alps', 'beta', null])[g % 4 + 1]
    from generate_series(1, 300) g;
"""
PLAIN = (
    "id, c, d - date '1970-01-01', (extract(epoch from t) * 1000000)::bigint,"
    " (extract(epoch from z) * 1000000)::bigint, n, f, w"
)


def field(transform: str, column: str, argument: int = 0) -> DivisionField:
    return DivisionField(Transform(transform), *COLUMNS[column], argument)


FIELDS = (
    field("identity", "c"),
    field("identity", "d"),
    field("month", "d"),
    field("day", "t"),
    field("hour", "t"),
    field("year", "t"),
    field("month", "z"),
    field("truncate", "n", 100),
    field("bucket", "n", 7),
    field("bucket", "c", 5),
    field("identity", "f"),
    field("truncate", "w", 3),
    field("bucket", "id", 9),
)


@pytest.fixture(scope="module", autouse=True)
def _tables(oracle: Oracle) -> None:
    oracle.execute(TABLES)


def left_out(oracle: Oracle, division: Division, sql: str, values: Sequence[object] = ()):
    """Return what tells partitions that a statement does not read; None where it reads all."""
    text, types = oracle.analyse(sql)
    snapshot = oracle.snapshot(oracle.relid("pr"))
    assert snapshot is not None
    table = replace(snapshot.table, division=division)
    parameters = tuple(ParameterValue(oid, v) for oid, v in zip(types, values, strict=True))
    found = unread(parse_tree(text)[0], {table.relid: table}, parameters, lambda _: "i")
    return found.get(table.relid)


def segment(division: Division, values: tuple) -> Segment:
    partition = Partition(division.number, 1, values)
    return Segment(1, SegmentKind.BASE, "1/2/x", 1, 1, (1,), 1, 1, partition=partition)


def read(oracle: Oracle, fields: Sequence[DivisionField], sql: str, values: Sequence[object] = ()):
    """Return the values of the partitions that a statement reads, by their first field."""
    division = Division(1, tuple(fields))
    told = left_out(oracle, division, sql, values)
    rows = oracle.connection.execute(f"select {PLAIN} from pr").fetchall()
    partitions = {division.values([row[one.attnum - 1] for one in fields]): row[0] for row in rows}
    kept = [p for p in partitions if told is None or not told(segment(division, p))]
    return sorted({fields[0].text(p[0]) for p in kept}, key=str), len(kept) == len(partitions)


@pytest.mark.parametrize(
    ("column", "where", "values", "expected"),
    [
        (0, "c = 'DE'", (), ["DE"]),
        (0, "'DE' = c", (), ["DE"]),
        (0, "c in ('DE', 'FR', 'none')", (), ["DE", "FR"]),
        (0, "c = any($1)", (["FR"],), ["FR"]),
        (0, "c = $1", ("de",), ["de"]),
        (0, "c = $1", (None,), []),
        (0, "c is null", (), ["__HIVE_DEFAULT_PARTITION__"]),
        (0, "c = 'DE' or c = 'FR' and id > 5", (), ["DE", "FR"]),
        (2, "d between '2024-01-05' and '2024-01-20'", (), ["2024-01"]),
        (2, "d > '2024-01-31'", (), ["2024-02"]),
        (2, "d >= '2024-01-31'", (), ["2024-01", "2024-02"]),
        (2, "d < date '2024-01-01' and c = 'DE'", (), ["2023-12"]),
        (2, "d < timestamp '2024-01-01 00:00:00.000001'", (), ["2023-12", "2024-01"]),
        (2, "d < timestamp '2024-01-01'", (), ["2023-12"]),
        (3, "t >= date '1970-01-02' and t < date '1970-01-04'", (), ["1970-01-02", "1970-01-03"]),
        (2, "d >= timestamp '2024-02-01 10:00'", (), ["2024-02"]),
        (5, "t < '1970-01-01'", (), ["1969"]),
        (5, "t < date '1968-06-01'", (), []),
        (6, "z >= '2023-12-05 00:00+00'", (), ["2023-12"]),
        (7, "n = 120", (), ["100"]),
        (7, "n = 120::smallint", (), ["100"]),
        (7, "n > 350 and n < 1000000000000", (), ["300", "400"]),
        (10, "f = true", (), ["true"]),
        (11, "w = 'alpha'", (), ["alp"]),
    ],
)
def test_partitions_that_can_have_rows_are_read(oracle, column, where, values, expected):
    found, _ = read(oracle, [FIELDS[column]], f"select count(*) from pr where {where}", values)
    assert found == expected


@pytest.mark.parametrize(
    "sql",
    [
        "select * from pr",
        "select * from pr where id = 5",
        "select * from pr where c <> 'DE'",
        "select * from pr where lower(c) = 'de'",
        "select * from pr where c > 'DE'",
        "select * from pr where c = 'DE' or id = 4",
        "select * from pr where c not in ('DE')",
        "select * from pr where not c = 'DE'",
        "select * from pr where c collate \"en_US\" = 'DE'",
        "select * from pr where c = d::text",
        "select c, count(*) from pr group by c having c = 'DE'",
        "select * from other o left join pr on pr.id = o.id where pr.c is null",
        "select * from pr left join other o on pr.c = 'DE'",
        "select * from pr p, pr q where p.c = 'DE' and q.id = p.id",
        "select * from pr where c = 'DE' union all select * from pr",
        "select * from (select * from pr limit 5) x where c = 'DE'",
        "select * from pr where exists (select from other o where pr.c = o.c and o.c = 'DE')",
        "select * from pr full join other o on pr.c = 'DE' and o.id = pr.id",
        (
            "merge into pr using other o on pr.c = 'DE' and pr.id = o.id"
            " when not matched then insert values (1)"
        ),
    ],
)
def test_all_partitions_are_read(oracle, sql):
    if "en_US" in sql:
        oracle.connection.execute('create collation if not exists "en_US" from "C"')
    assert read(oracle, [FIELDS[0]], sql)[1]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select * from pr_view where country = 'DE'", ["DE"]),
        ("select * from other o left join pr on pr.id = o.id and pr.c = 'DE'", ["DE"]),
        ("select * from pr left join other o on o.id = pr.id where pr.c = 'DE'", ["DE"]),
        ("select * from pr p, pr q where p.c = 'DE' and q.c = 'FR'", ["DE", "FR"]),
        ("select * from other where exists (select from pr where pr.c = 'DE')", ["DE"]),
        ("with x as (select * from pr where c = 'FR') select count(*) from x", ["FR"]),
        ("update pr set n = 1 where c = 'DE'", ["DE"]),
        ("delete from pr using other o where pr.c = 'DE' and o.id = pr.id", ["DE"]),
        ("insert into other select id from pr where c = 'DE'", ["DE"]),
    ],
)
def test_conditions_count_where_the_table_stands(oracle, sql, expected):
    assert read(oracle, [FIELDS[0]], sql)[0] == expected


def condition(chosen: random.Random, depth: int = 0) -> str:
    if depth < 2 and chosen.random() < 0.4:
        word = chosen.choice([" and ", " or "])
        parts = [condition(chosen, depth + 1) for _ in range(2)]
        return f"({word.join(parts)})"
    column = chosen.choice(["c", "d", "t", "z", "n", "f", "w", "id"])
    if chosen.random() < 0.15:
        return f"{column} is {chosen.choice(['', 'not '])}null"
    value = {
        "c": lambda: chosen.choice(["'DE'", "'FR'", "''", "'it''s'", "'x'", "'DE'::varchar"]),
        "w": lambda: chosen.choice(["'alpha'", "'al'", "'beta'::text", "''"]),
        "d": lambda: chosen.choice(
            [f"date '2024-01-{chosen.randint(1, 31):02}'", "timestamp '2024-01-04 12:00'"]
        ),
        "t": lambda: chosen.choice(
            [f"timestamp '1970-01-{chosen.randint(1, 14):02} 23:59:59.5'", "date '1970-01-03'"]
        ),
        "z": lambda: f"timestamptz '2023-1{chosen.randint(0, 2)}-15 03:04+05'",
        "n": lambda: chosen.choice([str(chosen.randint(-500, 500)), "7::smallint", "8.5"]),
        "f": lambda: chosen.choice(["true", "false"]),
        "id": lambda: str(chosen.randint(1, 300)),
    }[column]
    if chosen.random() < 0.2:
        return f"{column} in ({value()}, {value()}, null)"
    sign = chosen.choice(["=", "=", "<", "<=", ">", ">=", "<>"])
    one, other = column, value()
    return f"{one} {sign} {other}" if chosen.random() < 0.7 else f"{other} {sign} {one}"


def test_no_row_that_postgresql_finds_is_left_out(oracle):
    chosen = random.Random(SEED)  # noqa: S311 - the same each time
    pruned = 0
    for _ in range(250):
        fields = chosen.sample(FIELDS, chosen.randint(1, 3))
        division = Division(3, tuple(fields))
        where = condition(chosen)
        told = left_out(oracle, division, f"select count(*) from pr where {where}")
        if told is None:
            continue
        rows = oracle.connection.execute(f"select {PLAIN}, ({where}) from pr").fetchall()
        for row in rows:
            values = division.values([row[one.attnum - 1] for one in fields])
            gone = told(segment(division, values))
            pruned += gone
            assert not (gone and row[-1]), (where, division, row)
    assert pruned > 5000


def test_partitions_of_an_earlier_division_are_read(oracle):
    told = left_out(oracle, Division(2, (FIELDS[0],)), "select from pr where c = 'DE'")
    assert told is not None
    assert told(segment(Division(2, ()), ("FR",)))
    assert not told(segment(Division(1, ()), ("FR",)))
    assert not told(replace(segment(Division(2, ()), ("FR",)), partition=None))
