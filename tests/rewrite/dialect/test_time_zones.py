"""Timestamps in sessions whose time zone is not UTC."""

from dataclasses import replace

import pytest

from rewrite.context import ALWAYS
from rewrite.errors import UnsupportedError
from rewrite.pipeline import compile_query, parse_tree
from rewrite.results import SparkQuery
from tests.rewrite.dialect.cases import answer, expect, expect_error, spark_error
from tests.support.rewrite_oracle import Oracle
from tests.support.sampling import crossed

pytestmark = [pytest.mark.spark, pytest.mark.catalog]

ZONES = [
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "<-03:30>+03:30",
    "<+05>-05",
]

EXPRESSIONS = [
    "tz::date, tz::timestamp, ts::timestamptz = tz, d::timestamptz > tz, tz::time, tz::text",
    "tz + iv = tz - iv, (tz + '1 day'::interval)::text, (tz - '1 month'::interval)::text",
    "(tz + iv)::text, (tz - iv)::text",
    "(tz + '1 month 1 day 1 hour'::interval)::text, (tz + '12 hours'::interval)::text",
    "date_trunc('day', tz)::text, date_trunc('hour', tz)::text, date_trunc('month', tz)::text",
    "date_trunc('week', tz)::text, date_trunc('minute', tz)::text",
    "date_trunc('day', tz, 'Asia/Tokyo')::text",
    "extract(hour from tz), extract(day from tz), extract(epoch from tz), date_part('dow', tz)",
    "d = tz, d < tz, ts <= tz, tz > ts, tz = d",
    "ts::timestamptz::text, d::timestamptz::text",
    "(ts at time zone 'UTC')::text, tz at time zone 'UTC'",
    "current_date, now()::date, localtimestamp(0)",
    "tz at local, (ts at local)::text, date_trunc('month', d)::text, tz::timestamptz(0)::text",
]

CLOCK_CHANGES = [
    "2024-11-03 01:30:00",
    "2024-11-03 00:59:59.999999",
    "2024-11-03 02:00:00",
    "2024-03-10 02:30:00",
    "2024-03-10 03:00:00",
    "2024-10-27 02:30:00",
    "2024-03-31 02:30:00",
    "2024-04-07 01:45:00",
    "2024-10-06 02:15:00",
    "2006-10-29 00:00:30",
    "2006-04-02 00:00:30",
]


def compile_in(oracle: Oracle, sql: str, zone: str) -> SparkQuery:
    """Compile a statement for a session with this time zone, at PostgreSQL's transaction time."""
    text, _ = oracle.analyse(sql)
    queries = parse_tree(text)
    context = oracle.context(queries)
    (now,) = oracle.connection.execute("select now()").fetchone()
    constants = replace(context.constants, time_zone=zone, transaction_timestamp=now)
    return compile_query(queries[0], replace(context, constants=constants))


def check(oracle: Oracle, sql: str, zone: str) -> None:
    """Compare both sides in one time zone and one transaction."""
    oracle.snapshot(oracle.relid("edge"))
    with oracle.connection.transaction():
        oracle.connection.execute(f"set local timezone = '{zone}'")
        _, expected = expect(oracle.connection, sql)
        query = compile_in(oracle, sql, zone)
        for source in query.sources:
            oracle.register(source)
    assert answer(oracle, query) == expected


@pytest.mark.parametrize(("expressions", "zone"), crossed(EXPRESSIONS, ZONES))
def test_session_time_zone(edge: Oracle, zone: str, expressions: str):
    # Before 1900 clocks showed local mean time, which the time zone databases do not agree on.
    check(edge, f"select id, {expressions} from edge where id not in (5, 8) order by id", zone)


@pytest.mark.parametrize("zone", ZONES)
def test_times_shown_twice_and_skipped(edge: Oracle, zone: str):
    instants = ", ".join(
        f"('{text}'::timestamp at time zone '{zone}')::text" for text in CLOCK_CHANGES
    )
    check(edge, f"select {instants} from edge where id = 1", zone)


@pytest.mark.parametrize("zone", ["EST5EDT", "<X>5", "Etc/GMT+5", "+02", "nonsense"])
def test_other_notations_of_time_zones_are_refused(edge: Oracle, zone: str):
    with pytest.raises(UnsupportedError, match="time zone"):
        compile_in(edge, "select tz::date from edge", zone)


class Differing:
    """Time zones of which Spark has other rules since 2024, or none."""

    def is_missing(self, name: str) -> bool:
        return name.startswith("Nowhere")

    def difference(self, name: str) -> tuple[int, int] | None:
        since_2024 = (1_704_067_200_000_000, ALWAYS[1])
        return {"Asia/Tokyo": since_2024, "Asia/Seoul": ALWAYS}.get(name)


def compile_differing(oracle: Oracle, expression: str) -> SparkQuery:
    """Compile an expression over ``edge`` where Spark's rules of some zones are others."""
    sql = f"select id, {expression} from edge"
    text, _ = oracle.analyse(sql)
    queries = parse_tree(text)
    context = oracle.context(queries)
    constants = replace(context.constants, time_zones=Differing())
    return compile_query(queries[0], replace(context, constants=constants))


@pytest.mark.parametrize(
    "expression",
    [
        *("tz at time zone 'Asia/Tokyo'", "ts at time zone 'Asia/Tokyo'"),
        *("date_trunc('day', tz, 'Asia/Tokyo')", "date_trunc('day', tz + iv, 'Asia/Tokyo')"),
    ],
)
def test_times_for_which_spark_has_other_rules_are_refused(edge: Oracle, expression: str):
    assert spark_error(edge, compile_differing(edge, expression)) == "0A000"


def test_times_for_which_spark_has_the_same_rules(edge: Oracle):
    before = "from edge where tz < '2023-12-01' and ts < '2023-12-01' and id not in (5, 8)"
    sql = f"select id, (tz at time zone 'Asia/Tokyo')::text, ts at time zone 'Asia/Tokyo' {before}"
    text, _ = edge.analyse(sql)
    queries = parse_tree(text)
    context = edge.context(queries)
    constants = replace(context.constants, time_zones=Differing())
    query = compile_query(queries[0], replace(context, constants=constants))
    assert sorted(answer(edge, query)) == sorted(expect(edge.connection, sql)[1])


def test_a_zone_spark_does_not_know_is_refused(edge: Oracle):
    with pytest.raises(UnsupportedError, match="Asia/Seoul"):
        compile_differing(edge, "tz at time zone 'Asia/Seoul'")


@pytest.mark.parametrize(
    "expression",
    [
        *("tz at time zone 'Nowhere/City'", "ts at time zone 'Nowhere'"),
        "date_trunc('day', tz, 'Nowhere/City')",
    ],
)
def test_a_zone_that_does_not_exist_is_an_error_where_it_is_used(edge: Oracle, expression: str):
    assert expect_error(edge.connection, f"select {expression} from edge") == "22023"
    assert spark_error(edge, compile_differing(edge, expression)) == "22023"
