"""Value by format by settings: every encoded field is what PostgreSQL itself sends."""

import pytest

from catalog.errors import GatewayError
from pgwire_gateway.wire_types import type_oids
from pgwire_gateway.wire_types.input_text import text_values
from tests.gateway.wire_types.oracle import Oracle, encoded
from tests.gateway.wire_types.samples import DATE_STYLES, GEOMETRIC, SAMPLES, ZONES

pytestmark = pytest.mark.catalog


def _require_same(oracle: Oracle, kind: str, format_code: int, **styles: object) -> None:
    settings = oracle.settings(**styles)
    texts = SAMPLES[kind] if kind in SAMPLES else GEOMETRIC[kind]
    stored = oracle.stored(kind, texts)
    oracle.apply(settings)
    expected = [field for (field,) in oracle.values(kind, texts, format_code)]
    how = (*oracle.type_of(kind), format_code, settings)
    assert encoded(stored, *how) == expected
    # A result of one row is written another way.
    alone = [encoded(stored.slice(place, 1), *how) for place in range(len(stored))]
    assert [field for (field,) in alone] == expected


@pytest.mark.parametrize("format_code", [0, 1], ids=["text", "binary"])
@pytest.mark.parametrize("kind", SAMPLES)
def test_field_is_that_of_postgresql(oracle: Oracle, kind: str, format_code: int):
    _require_same(oracle, kind, format_code)


@pytest.mark.parametrize("time_zone", ZONES)
def test_timestamptz_is_shown_in_the_time_zone(oracle: Oracle, time_zone: str):
    _require_same(oracle, "timestamptz", 0, time_zone=time_zone)


@pytest.mark.parametrize("time_zone", ZONES)
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "timestamptz[]"])
def test_what_is_shown_in_a_time_zone_is_read_as_what_it_is(
    oracle: Oracle, kind: str, time_zone: str
):
    stored = oracle.stored(kind, SAMPLES[kind])
    oracle.apply(oracle.settings(time_zone=time_zone))
    shown = [field and field.decode() for (field,) in oracle.values(kind, SAMPLES[kind])]
    assert text_values(shown, oracle.type_of(kind)[0]).equals(stored)


@pytest.mark.parametrize("date_style", DATE_STYLES)
@pytest.mark.parametrize("kind", ["date", "time", "timestamp", "timestamptz", "timestamptz[]"])
def test_dates_follow_the_date_style(oracle: Oracle, kind: str, date_style: str):
    for time_zone in ("Europe/Berlin", "<+05>-05", "America/St_Johns"):
        _require_same(oracle, kind, 0, date_style=date_style, time_zone=time_zone)


@pytest.mark.parametrize(
    "interval_style", ["postgres", "postgres_verbose", "sql_standard", "iso_8601"]
)
@pytest.mark.parametrize("kind", ["interval", "interval[]"])
def test_intervals_follow_the_interval_style(oracle: Oracle, kind: str, interval_style: str):
    _require_same(oracle, kind, 0, interval_style=interval_style)


@pytest.mark.parametrize("kind", ["bytea", "bytea[]"])
def test_bytea_follows_bytea_output(oracle: Oracle, kind: str):
    _require_same(oracle, kind, 0, bytea_output="escape")


@pytest.mark.parametrize("kind", ["float4", "float8", "float8[]", *GEOMETRIC])
@pytest.mark.parametrize("digits", [-15, -5, 0, 1, 3])
def test_floats_follow_extra_float_digits(oracle: Oracle, kind: str, digits: int):
    _require_same(oracle, kind, 0, extra_float_digits=digits)


def test_a_timestamp_without_time_zone_has_no_offset():
    with pytest.raises(GatewayError):
        text_values(["2024-01-01 12:00:00+05"], type_oids.TIMESTAMP)
