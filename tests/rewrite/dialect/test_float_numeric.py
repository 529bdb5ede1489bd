"""Floats as numeric: fifteen digits, correctly rounded from the binary value."""

import random

import pytest

from tests.rewrite.dialect.cases import compare
from tests.support.rewrite_oracle import Oracle

pytestmark = [pytest.mark.spark, pytest.mark.catalog]


def doubles() -> list[float]:
    """Return doubles, many of them close to the middle between two numbers of fifteen digits."""
    source = random.Random(20)  # noqa: S311 - the same numbers each time
    found = [0.1 + 0.2, 1 / 3, 1e15 + 0.5, 1e14 + 0.5, 100000000000000.25, 1e17 + 16, 2.0**62]
    for _ in range(150):
        found.append(source.random() * 10 ** source.randint(-6, 15))
        found.append(round(source.random() * 1000, source.randint(0, 5)))
        digits = source.randint(10**14, 10**15 - 1)
        found.append(float(f"{digits}5e{source.randint(-21, 0)}"))
    return [value for value in found if value > 1e-6]


def test_doubles_as_numeric(edge: Oracle):
    edge.execute(
        "drop table if exists doubles; create table doubles (id int primary key, x float8)"
    )
    with edge.connection.cursor() as cursor:
        cursor.executemany(
            "insert into doubles values (%s, %s)",
            [(number, value * (-1) ** number) for number, value in enumerate(doubles())],
        )
    compare(edge, "select id, x::numeric, x::real::numeric, round(x::numeric, 2) from doubles")
