"""numeric with a display scale beside it is what PostgreSQL shows for the rounded value."""

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from pgwire_gateway.wire_types.row_encoder import ResultColumn, RowEncoder
from tests.gateway.wire_types.oracle import Oracle, data_rows

pytestmark = pytest.mark.catalog

NUMERIC = 1700


def _random_rows(seed: int, digits: int, decimals: int) -> list[tuple[Decimal | None, int]]:
    """Values of at most so many digits, each already rounded to a scale of its own."""
    chosen = random.Random(seed)  # noqa: S311
    rows: list[tuple[Decimal | None, int]] = [(None, 3), (Decimal(0), 0), (Decimal(0), 20)]
    for _ in range(300):
        scale = chosen.randrange(decimals + 1)
        size = chosen.randrange(digits - decimals + scale + 1)
        value = Decimal(chosen.randrange(1 - 10**size, 10**size)).scaleb(-scale)
        rows.append((value, chosen.choice([scale, scale + chosen.randrange(5)])))
    return rows


@pytest.mark.parametrize("format_code", [0, 1], ids=["text", "binary"])
@pytest.mark.parametrize(
    ("digits", "decimals"), [(38, 10), (38, 38), (38, 0), (18, 6), (15, 2), (38, 19), (9, 9)]
)
def test_scale_may_vary_by_row(oracle: Oracle, digits: int, decimals: int, format_code: int):
    rows = _random_rows(digits * 100 + decimals, digits, decimals)
    batch = pa.record_batch(
        {
            "n": pa.array([value for value, _ in rows], pa.decimal128(digits, decimals)),
            "s": pa.array([scale for _, scale in rows], pa.int32()),
        }
    )
    expected = oracle.fetch(
        "SELECT round(v, s) FROM unnest($1::numeric[], $2::int[]) WITH ORDINALITY AS t (v, s, n) "
        "ORDER BY n",
        [_array(value for value, _ in rows), _array(scale for _, scale in rows)],
        format_code,
    )
    encoder = RowEncoder([ResultColumn(NUMERIC, -1, format_code, "n", "s")])
    assert data_rows(encoder.encode(batch)) == expected


@pytest.mark.parametrize("format_code", [0, 1], ids=["text", "binary"])
@pytest.mark.parametrize("scale", [0, 1, 4, 10, 20])
def test_scale_may_be_fixed(oracle: Oracle, scale: int, format_code: int):
    values = [Decimal(12345), Decimal(-1), None, Decimal(0), Decimal(10) ** 20]
    batch = pa.record_batch({"n": pa.array(values, pa.decimal128(38, 10))})
    expected = oracle.fetch(
        f"SELECT round(v, {scale}) FROM unnest($1::numeric[]) WITH ORDINALITY t (v, n) ORDER BY n",
        [_array(values)],
        format_code,
    )
    encoder = RowEncoder([ResultColumn(NUMERIC, -1, format_code, "n", scale)])
    assert data_rows(encoder.encode(batch)) == expected


def _array(values) -> str:
    return "{" + ",".join("NULL" if value is None else str(value) for value in values) + "}"
