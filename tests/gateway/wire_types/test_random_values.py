"""Random values against PostgreSQL, where a table of cases could miss a rule."""

import random

import numpy as np
import pyarrow as pa
import pytest

from tests.gateway.wire_types.oracle import Oracle, encoded

pytestmark = pytest.mark.catalog

SEED = 20_240_229
UNLISTED_ZONES = (
    *("EST5EDT4,M3.2.0/-1,M11.1.0/26", "foo3bar", "<-01>1<+00>,M3.5.0/0,M10.5.0/1"),
    *("AAA+5BBB,J60/2,J300/3", "AAA+5BBB,59/2,300/3", "CCC3DDD,M10.1.0/0,M2.5.0/0"),
)
"""POSIX rules: behind midnight, without dates, by day of the year, in the southern half."""


def _floats(kind: str) -> np.ndarray:
    """Numbers of any bits, whole numbers up to far beyond exactness, and short decimals."""
    generator = np.random.default_rng(SEED)
    width = np.uint32 if kind == "f4" else np.uint64
    bits = generator.integers(0, np.iinfo(width).max, 3000, dtype=width, endpoint=True)
    powers = [float(factor * 2**power) for power in range(100) for factor in (1, 3)]
    whole = generator.integers(2**50, 2**53, 2000) * 2.0 ** generator.integers(-10, 60, 2000)
    short = generator.integers(1, 10**6, 2000) * 10.0 ** generator.integers(-12, 25, 2000)
    numbers = np.concatenate([powers, whole, short, -short]).astype(kind)
    everything = np.concatenate([bits.view(kind), numbers])
    return everything[np.isfinite(everything)]


@pytest.mark.parametrize(
    ("kind", "name", "type_oid"), [("f4", "float4", 700), ("f8", "float8", 701)]
)
def test_floats(oracle: Oracle, kind: str, name: str, type_oid: int):
    oracle.apply(oracle.settings())
    numbers = _floats(kind)
    literal = "{" + ",".join(repr(float(number)) for number in numbers) + "}"
    expected = oracle.fetch(
        f"SELECT v FROM unnest($1::{name}[]) WITH ORDINALITY AS t (v, n) ORDER BY n", [literal]
    )
    assert encoded(pa.array(numbers), type_oid) == [field for (field,) in expected]


def _seconds() -> list[int]:
    """Instants of recorded history, of the near and of the far future, and of antiquity."""
    chosen = random.Random(SEED)  # noqa: S311
    recorded = [chosen.randrange(-4 * 10**9, 5 * 10**9) for _ in range(60)]
    return recorded + [chosen.randrange(-6 * 10**10, 25 * 10**10) for _ in range(20)]


def _require_local_times(oracle: Oracle, time_zone: str, date_style: str) -> None:
    seconds = _seconds()
    settings = oracle.settings(time_zone=time_zone, date_style=date_style)
    oracle.apply(settings)
    literal = "{" + ",".join(map(str, seconds)) + "}"
    expected = oracle.fetch(
        "SELECT timestamptz '1970-01-01 00:00:00+00' + make_interval(secs => v) "
        "FROM unnest($1::int8[]) WITH ORDINALITY AS t (v, n) ORDER BY n",
        [literal],
    )
    instants = pa.array([second * 1_000_000 for second in seconds]).cast(pa.timestamp("us", "UTC"))
    shown = encoded(instants, 1184, settings=settings)
    assert shown == [field for (field,) in expected], time_zone


@pytest.mark.parametrize("date_style", ["ISO, MDY", "SQL, DMY"])
def test_local_times_of_all_zones(oracle: Oracle, date_style: str):
    names = oracle.connection.execute(
        "SELECT name FROM pg_timezone_names WHERE name !~ '^(posix/|Factory|localtime)'"
    ).fetchall()
    assert len(names) > 400
    for (name,) in names:
        _require_local_times(oracle, name, date_style)


@pytest.mark.parametrize("time_zone", UNLISTED_ZONES)
@pytest.mark.parametrize("date_style", ["ISO, MDY", "Postgres, DMY"])
def test_local_times_of_posix_rules(oracle: Oracle, time_zone: str, date_style: str):
    _require_local_times(oracle, time_zone, date_style)
