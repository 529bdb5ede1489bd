"""Bound parameters and constants of every type, as literals."""

import datetime as dt
import decimal
import uuid

import pytest

from rewrite.dialect.constants import decode
from rewrite.dialect.literals import literal
from rewrite.errors import UnsupportedError
from tests.rewrite.dialect.cases import answer, compare
from tests.support.rewrite_oracle import Oracle

PARAMETERS = [
    ("int", 5, "5"),
    ("int", -(2**31), "-2147483648"),
    ("smallint", -32768, "-32768"),
    ("bigint", -(2**63), "-9223372036854775808"),
    ("bigint", 2**63 - 1, "9223372036854775807"),
    ("boolean", True, "t"),
    ("float8", 0.1, "0.1"),
    ("float8", float("nan"), "NaN"),
    ("float8", float("-inf"), "-Infinity"),
    ("float8", 5e-324, "5e-324"),
    ("float8", -0.0, "-0"),
    ("real", 3.4028234663852886e38, "3.4028235e+38"),
    ("numeric", decimal.Decimal("1.50"), "1.50"),
    ("numeric", decimal.Decimal("-0.001"), "-0.001"),
    ("numeric", decimal.Decimal("1E+3"), "1000"),
    (
        "numeric",
        decimal.Decimal("12345678901234567890.123456789"),
        "12345678901234567890.123456789",
    ),
    ("text", "it's \\ a ${x} $${y}} \n\t\r \u00e9\U0001f600 -- /* */", None),
    ("text", "", ""),
    ("text", "${spark.master}", "${spark.master}"),
    ("text", "'; drop table edge; --", "'; drop table edge; --"),
    ("varchar", "abc", "abc"),
    ("bpchar", "ab ", "ab "),
    ("jsonb", '{"a": 1.50, "bb": [null, "x"]}', '{"a": 1.50, "bb": [null, "x"]}'),
    ("bytea", b"\x00\xff'\\", "\\x00ff275c"),
    ("date", dt.date(2024, 2, 29), "2024-02-29"),
    ("date", dt.date(1, 1, 1), "0001-01-01"),
    (
        "timestamp",
        dt.datetime.fromisoformat("2024-02-29 01:02:03.000004"),
        "2024-02-29 01:02:03.000004",
    ),
    (
        "timestamp",
        dt.datetime.fromisoformat("9999-12-31 23:59:59.999999"),
        "9999-12-31 23:59:59.999999",
    ),
    ("timestamptz", dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "2024-01-01 00:00:00+00"),
    (
        "timestamptz",
        dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        "2023-12-31 22:00:00+00",
    ),
    ("time", dt.time(23, 59, 59, 999999), "23:59:59.999999"),
    ("interval", (14, -3, 5_000_000), "1 year 2 mons -3 days +00:00:05"),
    ("uuid", uuid.UUID(int=255), "00000000-0000-0000-0000-0000000000ff"),
    ("int[]", [1, None, 3], "{1,NULL,3}"),
    ("int[]", [], "{}"),
    ("text[]", ["a,b", '"', "", "NULL", None], '{"a,b","\\"","","NULL",NULL}'),
    ("oid", 4294967295, "4294967295"),
]


@pytest.mark.spark
@pytest.mark.catalog
@pytest.mark.parametrize(("type_name", "value", "text"), PARAMETERS)
def test_parameter_is_returned_unchanged(
    edge: Oracle, type_name: str, value: object, text: str | None
):
    query = edge.compile(f"select $1::{type_name} from edge where id = 1", [value])
    assert answer(edge, query) == [(text if text is not None else value,)]


@pytest.mark.spark
@pytest.mark.catalog
@pytest.mark.parametrize("type_name", sorted({name for name, _, _ in PARAMETERS}))
def test_null_parameter(edge: Oracle, type_name: str):
    query = edge.compile(f"select $1::{type_name}, $1 is null from edge where id = 1", [None])
    assert answer(edge, query) == [(None, "t")]


WITH_PARAMETERS = [
    ("i4 + $1", [5], "i4 < 1000"),
    ("s like $1", ["h\\el%"], "true"),
    ("c = $1", ["ab"], "true"),
    ("i4 = any ($1)", [[1, 2, None]], "true"),
    ("i4 in ($1, $2)", [2, 100], "true"),
    ("s = any ($1::text[])", [["hello", ""]], "true"),
    ("n > $1", [decimal.Decimal("0.050")], "true"),
    ("n + $1", [decimal.Decimal("0.1234")], "true"),
    ("round(n, $1)", [1], "true"),
    ("d + $1::interval", [(1, 1, 0)], "true"),
    ("coalesce(s, $1)", ["x"], "true"),
    ("extract(year from $1::date) + i2", [dt.date(2024, 1, 1)], "true"),
]


@pytest.mark.spark
@pytest.mark.catalog
@pytest.mark.parametrize(("expression", "values", "condition"), WITH_PARAMETERS)
def test_parameters_in_expressions(
    edge: Oracle, expression: str, values: list[object], condition: str
):
    edge.check(f"select id, {expression} from edge where id <> 8 and {condition}", values)


CONSTANTS = [
    "1.5, -0.0000000000000000000000000001, 99999999999999999999999999999999999999, 0.0",
    "-12345.6789, 10000, 100000000.0, 0.00010001, 1e20, 0.0000, 123456789.000, -1::bigint",
    "7::smallint, '2000-01-01'::date, '1999-12-31'::date, 'a'::\"char\", 'name'::name, true, false",
    "'23:59'::time, '1970-01-01 00:00:00'::timestamp, '2000-01-01 00:00:00+05'::timestamptz",
    "'0044-03-15 BC'::date, '1.5'::real, '-1e300'::float8, '\\xdeadbeef'::bytea, ''::bytea",
    "'abc'::varchar(2), 'abc'::char(5), '{1,NULL,3}'::int[], '{}'::text[], '{1.5,2.5}'::float8[]",
    "'{a,NULL,\"b c\",\"\"}'::text[], '{t,f,NULL}'::bool[], '{2024-01-01}'::date[]",
    "'{1,2}'::smallint[], '{9223372036854775807}'::bigint[], '{x,yy,zzz}'::varchar[]",
    "'{abc,d}'::bpchar[], 'pg_class'::regclass::oid, '1 mon -1 day 1s'::interval",
    "'12345678-1234-1234-1234-123456789abc'::uuid, '{\"a\": 1}'::json, null::int, null::numeric",
    "'{12345678-1234-1234-1234-123456789abc,NULL}'::uuid[], '{ab,c}'::name[], '{1,2}'::oid[]",
]


@pytest.mark.spark
@pytest.mark.catalog
@pytest.mark.parametrize("constants", CONSTANTS)
def test_constants(edge: Oracle, constants: str):
    compare(edge, f"select {constants} from edge where id = 1")


def test_short_and_long_headers_of_variable_length_data():
    assert decode(25, bytes([5, 120])) == "x"
    assert decode(25, bytes([20, 0, 0, 0, 120])) == "x"
    with pytest.raises(UnsupportedError):
        decode(25, bytes([1, 18, 0, 0]))
    with pytest.raises(UnsupportedError):
        decode(25, bytes([18, 0, 0, 0, 1]))


@pytest.mark.parametrize("header", [0xC000, 0xD000, 0xF000])
def test_numerics_that_are_no_numbers_are_refused(header: int):
    datum = (6 << 2).to_bytes(4, "little") + header.to_bytes(2, "little")
    with pytest.raises(UnsupportedError):
        literal(decode(1700, datum), 1700)


def test_numeric_with_long_header():
    # PostgreSQL writes it for more than 63 decimal places.
    data = (70).to_bytes(2, "little") + (0).to_bytes(2, "little") + (5).to_bytes(2, "little")
    datum = ((len(data) + 4) << 2).to_bytes(4, "little") + data
    assert str(decode(1700, datum)) == "5." + "0" * 70


def test_types_without_literals_are_refused():
    with pytest.raises(UnsupportedError, match="not supported"):
        decode(600, b"\0" * 16)
