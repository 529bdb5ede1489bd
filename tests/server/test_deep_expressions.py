"""Expressions as deep as programs make them are answered; deeper ones are refused as such."""

from collections.abc import Iterator

import psycopg
import pytest

pytestmark = pytest.mark.server


@pytest.fixture
def client(gateway, database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(gateway.conninfo(database), autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a integer PRIMARY KEY, b text)")
        connection.execute("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 1500) g")
        yield connection


def sums(n: int) -> str:
    return f"SELECT max({'+'.join(['a'] * n)}) FROM t WHERE a = 2"


def calls(n: int) -> str:
    return f"SELECT max({'abs(' * n}a{')' * n}) FROM t WHERE a = 2"


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (sums(150), 300),
        (calls(200), 2),
        (f"SELECT max({'||'.join(['b'] * 200)}) FROM t WHERE a = 2", "x" * 200),
        ("SELECT max(a) FROM " + "(SELECT * FROM " * 100 + "t" + ") s" * 100, 1500),
    ],
    ids=["additions", "calls", "concatenations", "subqueries"],
)
def test_they_are_answered(client: psycopg.Connection, query: str, answer: object) -> None:
    client.execute("SET gateway.executor = 'spark'")
    assert client.execute(query).fetchone() == (answer,)  # type: ignore[call-overload]


@pytest.mark.parametrize("query", [sums(1200), calls(1200)], ids=["additions", "calls"])
def test_deeper_ones_are_too_complex(client: psycopg.Connection, query: str) -> None:
    with pytest.raises(psycopg.errors.StatementTooComplex, match="stack depth limit exceeded"):
        client.execute(query)  # type: ignore[call-overload]
    assert client.execute("SELECT count(*) FROM t").fetchone() == (1500,)
