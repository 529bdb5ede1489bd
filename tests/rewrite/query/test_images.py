"""What is computed of a column and compared with what is known: as conditions on the column.

The answers are PostgreSQL's for any value, in any zone, and so are the errors; scans get filters.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from rewrite.pipeline import compile_query, parse_tree
from rewrite.results import Source, SourcePart, SparkQuery
from tests.rewrite.dialect.cases import expect_error, spark_error
from tests.support.rewrite_oracle import Oracle, assert_rows

pytestmark = [pytest.mark.catalog, pytest.mark.spark]

SEED = 1998
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "America/Sao_Paulo"]
OPERATORS = ["=", "<>", "<", "<=", ">", ">="]
DAYS = [
    *("0001-01-01", "1969-12-31", "1970-01-01", "1999-12-31", "2000-01-01", "2001-01-01"),
    *("2006-10-28", "2006-10-29", "2006-10-30", "2011-12-29", "2011-12-31", "2018-11-04"),
    *("2023-12-31", "2024-01-01", "2024-02-28", "2024-02-29", "2024-03-01", "2024-03-31"),
    *("2024-04-01", "2024-10-27", "2024-12-31", "9999-12-31", "0100-03-01 BC", "1582-10-10"),
]
CLOCKS = ["00:00:00", "00:00:00.000001", "00:30:00", "12:34:56.789", "23:59:59.999999"]
UNITS = [
    *("microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month"),
    *("quarter", "year", "decade", "century", "millennium"),
]
NUMBERS = [
    *("0", "-1", "5.0", "5.5", "-5.5", "32767", "32768.0", "-32768", "-32769", "2147483647.5"),
    *("2147483648", "-2147483648", "-2147483649", "9007199254740993", "9223372036854775807"),
    *("9223372036854775807.5", "9223372036854775808", "-9223372036854775808"),
    *("-9223372036854775808.5", "99999999999999999999999999999999999999", "0.0000001"),
]
WHOLES = [0, 1, -1, 5, 6, -5, -6, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**53, 2**53 + 1]
WHOLES += [-(2**53) - 1, 2**63 - 1, -(2**63), 2**63 - 512, 2**63 - 513, None]

SCHEMA = """
create table m (id int primary key, at timestamp, tz timestamptz, day date);
create table n (id int primary key, small smallint, whole int, big bigint);
create table m_versions (like m);
"""


@pytest.fixture(scope="module", autouse=True)
def _tables(oracle: Oracle) -> Iterator[None]:
    moments = ["{} {}".format(*pair) for pair in product(DAYS, CLOCKS)]
    moments = [f"{text.replace(' BC', '')} BC" if " BC" in text else text for text in moments]
    rows = ", ".join(
        f"({number}, '{text}', '{text}', '{text}')" for number, text in enumerate(moments)
    )
    numbers = ", ".join(
        f"({number}, {_fitting(value, 15)}, {_fitting(value, 31)}, {_fitting(value, 63)})"
        for number, value in enumerate(WHOLES)
    )
    oracle.execute(SCHEMA)
    oracle.execute(f"insert into m values {rows}, (-1, null, null, null)")
    oracle.execute(f"insert into n values {numbers}")
    yield
    oracle.parts = {}
    oracle.execute("drop table m, n, m_versions")


def _fitting(value: int | None, bits: int) -> str:
    return "null" if value is None or not -(2**bits) <= value < 2**bits else f"'{value}'"


def compile_in(oracle: Oracle, sql: str, zone: str) -> SparkQuery:
    """Compile a statement for a session of a zone."""
    text, _ = oracle.analyse(sql)
    queries = parse_tree(text)
    context = oracle.context(queries)
    (now,) = oracle.connection.execute("select now()").fetchone()
    constants = replace(context.constants, time_zone=zone, transaction_timestamp=now)
    return compile_query(queries[0], replace(context, constants=constants))


def check_in(oracle: Oracle, sql: str, zone: str = "UTC") -> None:
    """Compare the answers."""
    with oracle.connection.transaction():
        oracle.connection.execute(f"set local timezone = '{zone}'")
        query = compile_in(oracle, sql, zone)
        register(oracle, query)
        assert_rows(oracle.run(query).rows, oracle.expect(sql).rows)


_EPOCH = "timestamp_ntz '1970-01-01 00:00:00'"
_READ = {
    "at": (
        "(extract(epoch from at) * 1000000)::bigint",
        f"timestampadd(MICROSECOND, at, {_EPOCH})",
    ),
    "tz": ("(extract(epoch from tz) * 1000000)::bigint", "timestamp_micros(tz)"),
    "day": ("(day - date '1970-01-01')::bigint", "date_from_unix_date(cast(day as int))"),
}


def register(oracle: Oracle, query: SparkQuery) -> None:
    """Create the views of a query; of dates of all times, which Python's are not."""
    for source in query.sources:
        columns = oracle.snapshot(source.relid).table.columns
        names = [column.name for column in columns]
        if source.view in oracle.registered or "at" not in names:
            continue
        layout = oracle.parts.get(source.relid)
        origin = f"({layout[source.part]})" if layout else f"(table {_table(oracle, source)})"
        reads = [_READ.get(name, (f"{name}::bigint", f"cast({name} as int)")) for name in names]
        items = [one for one, _ in reads]
        shown = [
            f"{one} as c{column.attnum}" for (_, one), column in zip(reads, columns, strict=True)
        ]
        if layout:
            versions = ("version_number", "subsequent_version_number")
            items += [f"(extract(epoch from {one}) * 1000000)::bigint as {one}" for one in versions]
            shown += [f"timestamp_micros({one}) as {one}" for one in versions]
            names += versions
        rows = oracle.connection.execute(f"select {', '.join(items)} from {origin} q").fetchall()
        schema = ", ".join(f"{name} bigint" for name in names)
        frame = oracle.spark.createDataFrame(rows, schema=schema).localCheckpoint()
        frame.selectExpr(*shown).createOrReplaceGlobalTempView(source.view.split(".")[1])
        oracle.registered.add(source.view)


def _table(oracle: Oracle, source: Source) -> str:
    table = oracle.snapshot(source.relid).table
    return f"{table.schema}.{table.name}"


def _images(units: list[str]) -> list[str]:
    truncated = [
        f"date_trunc('{unit}', {column})" for unit in units for column in ("at", "tz", "day")
    ]
    zoned = ["date_trunc('day', tz, 'Asia/Tokyo')", "date_trunc('month', at::timestamptz)"]
    return [
        *("at::date", "tz::date", "day::timestamp", "day::timestamptz", "tz::timestamp"),
        *("at::timestamptz", "tz", "day", "at::date::timestamp", *zoned, *truncated),
    ]


def _moments(chance: random.Random) -> list[str]:
    text = f"{chance.choice(DAYS)} {chance.choice(CLOCKS)}"
    if " BC" in text:
        text = f"{text.replace(' BC', '')} BC"
    known = ["date '{}'", "timestamp '{}'", "timestamptz '{}'"]
    moved = [
        "timestamptz '{}' - interval '1 month'",
        "timestamptz '{}' + interval '3 days 2 hours'",
        "date '{}' + interval '1 year'",
        "date '{}' - 30",
        "date_trunc('month', timestamptz '{}')",
        "(timestamptz '{}')::date",
        "timestamp '{}' - interval '1 mon 3 days'",
    ]
    start = chance.choice(["2024-02-29 00:00:00", "2024-03-31 12:00:00", "2011-12-31 00:00:00"])
    return [
        *(one.format(text) for one in known),
        chance.choice(moved).format(start),
        "now() - interval '2 months'",
        "current_date",
    ]


@pytest.mark.parametrize("zone", ZONES)
def test_dates_and_moments_compare_as_in_postgresql(oracle: Oracle, zone: str) -> None:
    chance = random.Random(f"{SEED} {zone}")  # noqa: S311 - the same each time
    for _ in range(6):
        conditions = [
            _maybe_exchanged(chance, image, chance.choice(OPERATORS), known)
            for image in chance.sample(_images(UNITS), 12)
            for known in chance.sample(_moments(chance), 2)
        ]
        # Before 1900 clocks showed local mean time, on which databases of zones do not agree.
        rows = "true" if zone == "UTC" else "id < 0 or day > '1900-01-01'"
        check_in(oracle, f"select id, {', '.join(conditions)} from m where {rows}", zone)


def _maybe_exchanged(chance: random.Random, left: str, operator: str, right: str) -> str:
    if chance.random() < 0.2:
        left, right = right, left
    return f"{left} {operator} {right}"


@pytest.mark.parametrize("zone", ZONES[:2])
@pytest.mark.parametrize("layout", ["base", "both"])
def test_filters_leave_the_rows_of_postgresql(oracle: Oracle, layout: str, zone: str) -> None:
    """Also where newer row versions hide some of the base, which fail."""
    ancient = "select {}, timestamp '4714-11-25 BC', null, null"
    at = "timestamptz '2024-01-01 00:00:00Z'"
    versioned = "select q.*, {} as version_number, {} as subsequent_version_number from ({}) q"
    oracle.execute("select 1")
    hidden = versioned.format(
        at, "null::timestamptz", "select * from m where id > 9 union all " + ancient.format(3)
    )
    newer = versioned.format(
        f"{at} + interval '1 h'", "null::timestamptz", "select * from m where id <= 9"
    )
    base = versioned.format(at, "null::timestamptz", "table m")
    parts = {SourcePart.BASE: base}
    if layout == "both":
        parts = {SourcePart.BASE: hidden, SourcePart.RECENT: newer}
    oracle.parts = {oracle.relid("m"): parts}
    chance = random.Random(f"{SEED} {layout} {zone}")  # noqa: S311 - the same each time
    try:
        for image in ["at::date", "date_trunc('month', at)", "tz::date", "day::timestamp"]:
            known = chance.choice(_moments(chance)[:3])
            operator = chance.choice(OPERATORS)
            check_in(oracle, f"select id from m where {image} {operator} {known}", zone)
    finally:
        oracle.parts = {}
        oracle.execute("select 1")


def test_numbers_compare_as_in_postgresql(oracle: Oracle) -> None:
    """Integers with numerics and floats beyond their range, between them, and exactly."""
    chance = random.Random(SEED)  # noqa: S311 - the same each time
    floats = ["'NaN'", "'Infinity'", "'-Infinity'", "-0.0", "1e300", "2.5", "9007199254740992"]
    floats += ["9223372036854775807", "-9223372036854775808", "5"]
    for _ in range(8):
        conditions = [
            _maybe_exchanged(chance, column, chance.choice(OPERATORS), known)
            for column in ("small", "whole", "big")
            for known in (
                *(f"{number}::numeric" for number in chance.sample(NUMBERS, 6)),
                *(f"float8 '{number.strip(chr(39))}'" for number in chance.sample(floats, 4)),
            )
        ]
        oracle.check(f"select id, {', '.join(conditions)} from n")


@pytest.mark.parametrize(
    "condition",
    [
        "at::date in ('2024-02-29', '1999-12-31')",
        "at::date in ('2024-02-29', null)",
        "at::date not in ('2024-02-29', '1999-12-31')",
        "date_trunc('month', tz) in ('2024-02-01', '2000-01-01')",
        "date_trunc('month', at) in ('2024-02-01', '2000-01-02')",
        "not (at::date = '2024-02-29' or tz::date > '2001-01-01')",
        "at::date between '2000-01-01' and date '2000-01-01' + 366",
        "at::date is not distinct from '2024-02-29'",
        "(at::date = '2024-02-29') is null",
    ],
)
def test_conditions_hold_for_the_rows_of_postgresql(oracle: Oracle, condition: str) -> None:
    check_in(oracle, f"select id from m where {condition}")


def test_lists_of_mixed_numbers(oracle: Oracle) -> None:
    oracle.check("select id from n where whole in (5.0, -6.0, 5.5, 3000000000.0)")
    oracle.check("select id from n where big in (5.0, null, 9223372036854775808)")


@pytest.mark.parametrize(
    ("row", "condition"),
    [
        ("'4714-11-25 BC', null, null", "date_trunc('month', at) = '2024-02-01'"),
        ("'4714-11-25 BC', null, null", "date_trunc('month', at) > '2024-02-01'"),
        ("'4714-11-25 BC', null, null", "date_trunc('quarter', at) <= '2024-02-01'"),
        ("null, '4714-11-25 BC', null", "date_trunc('century', tz) in ('2001-01-01')"),
        ("null, null, '5874897-12-31'", "day::timestamp = '2024-02-01'"),
        ("null, null, '5874897-12-31'", "day::timestamp < '2024-02-01'"),
        ("null, null, '5874897-12-31'", "date_trunc('month', day) = '2024-02-01'"),
    ],
)
def test_errors_stay(oracle: Oracle, row: str, condition: str) -> None:
    """A row of which what is computed fails is not left out by the condition on its column."""
    oracle.execute(f"insert into m_versions values (1, {row}), (2, now(), now(), now())")
    try:
        sql = f"select id from m_versions where {condition}"
        assert expect_error(oracle.connection, sql) == "22008"
        query = oracle.compile(sql)
        register(oracle, query)
        assert spark_error(oracle, query) == "22008"
    finally:
        oracle.execute("truncate m_versions")


@pytest.mark.parametrize(
    "condition",
    [
        "at > date '5874897-12-31' - 2147483647 + 2147483647 + 1",
        "at > date '2024-01-01' - interval '7000 years'",
        "at > date '5874897-12-31' - interval '1 day'",
    ],
)
def test_errors_of_known_values_stay(oracle: Oracle, condition: str) -> None:
    sql = f"select id from m where {condition}"
    assert expect_error(oracle.connection, sql) == "22008"
    query = oracle.compile(sql)
    register(oracle, query)
    assert spark_error(oracle, query) == "22008"


PUSHED = [
    ("day <= date '1998-12-01' - interval '90' day", "LessThan(c4,1998-09-03)"),
    ("day < date '1994-01-01' + interval '1' year", "LessThan(c4,1995-01-01)"),
    ("day < date '1994-01-01' + 31", "LessThan(c4,1994-02-01)"),
    ("at::date = '2024-02-29'", "GreaterThanOrEqual(c2,2024-02-29T00:00)"),
    ("at::date = '2024-02-29'", "LessThan(c2,2024-03-01T00:00)"),
    ("tz::date <= '2024-02-29'", "LessThan(c3,2024-03-01 00:00:00.0)"),
    ("date_trunc('month', at) = '2024-02-01'", "LessThan(c2,2024-03-01T00:00)"),
    (
        "date_trunc('month', at) = '2024-02-01'",
        "Or(GreaterThanOrEqual(c2,2024-02-01T00:00),LessThan(c2,-4713-12-01T00:00))",
    ),
    ("date_trunc('year', tz) < '2024-01-01'", "LessThan(c3,2024-01-01 00:00:00.0)"),
    ("date_trunc('month', day) = '2024-02-01'", "GreaterThanOrEqual(c4,2024-02-01)"),
    ("tz > now() - interval '7 days'", "GreaterThan(c3,2024-02-22 12:30:15.123456)"),
]
PUSHED_NUMBERS = [
    ("whole = 5.0", "EqualTo(c3,5)"),
    ("big > 5.5", "GreaterThanOrEqual(c4,6)"),
    ("big < 3", "LessThan(c4,3)"),
    ("small = 7", "EqualTo(c2,7)"),
    ("big <= float8 '2.5'", "LessThan(c4,3)"),
    ("whole in (1.0, 2.0)", "Or(EqualTo(c3,1),EqualTo(c3,2))"),
]


@pytest.mark.parametrize(("condition", "filters"), [*PUSHED, *PUSHED_NUMBERS])
def test_scans_are_filtered(oracle: Oracle, tmp_path: Path, condition: str, filters: str) -> None:
    table = "n" if (condition, filters) in PUSHED_NUMBERS else "m"
    query = oracle.compile(f"select id from {table} where {condition}")
    assert filters in _plan(oracle, query, tmp_path)


def test_scans_are_filtered_in_any_zone(oracle: Oracle, tmp_path: Path) -> None:
    """By as much as any clocks may differ."""
    query = compile_in(oracle, "select id from m where tz::date = '2024-02-29'", "Europe/Berlin")
    plan = _plan(oracle, query, tmp_path)
    assert "GreaterThanOrEqual(c3,2024-02-28 06:00:00.0)" in plan
    assert "LessThan(c3,2024-03-01 18:00:00.0)" in plan


def _plan(oracle: Oracle, query: SparkQuery, directory: Path) -> str:
    """Return Spark's plan for a query of files."""
    (source,) = query.sources
    register(oracle, query)
    oracle.register(source)
    path = str(directory / "files")
    oracle.spark.table(source.view).write.parquet(path)
    oracle.spark.read.parquet(path).createOrReplaceTempView("files")
    text = query.sql.replace(source.view, "files")
    # Longer lists of filters are cut.
    oracle.spark.conf.set("spark.sql.maxMetadataStringLength", "1000")
    return oracle.spark.sql(text)._jdf.queryExecution().executedPlan().toString()
