"""Reads the tables of expressions and compares the answers of PostgreSQL and Spark.

A file holds one case per line, over the table ``edge``: expressions, optionally ``;;`` and a
condition; ``! SQLSTATE expression`` where both sides fail; ``? expression`` where the compiler
refuses.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from pgwire_gateway.spark.errors import translate
from pgwire_gateway.spark.internals.failures import told
from pgwire_gateway.wire_types.row_encoder import ResultColumn, RowEncoder
from rewrite.results import SparkQuery
from tests.support.rewrite_oracle import Oracle

HERE = Path(__file__).parent
ROWS = HERE / "edge_rows.sql"
TABLES = sorted((HERE / "expressions").glob("*.sql"))

_FLOATS = {700: 1e-6, 701: 1e-14}


@dataclass(frozen=True)
class Case:
    """One line of a table."""

    kind: str
    """``=`` same answer, ``!`` same error, ``?`` refused."""
    sql: str
    sqlstate: str = ""


def read(path: Path) -> Iterator[Case]:
    """Yield the cases of a file."""
    for line in path.read_text().splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if text.startswith("! "):
            _, sqlstate, expression = text.split(None, 2)
            yield Case("!", _statement(expression), sqlstate)
        elif text.startswith("? "):
            yield Case("?", _statement(text[2:]))
        else:
            yield Case("=", _statement(text))


def _statement(text: str) -> str:
    if text.lower().startswith(("select ", "with ")):
        return text
    expression, _, condition = text.partition(";;")
    return f"select id, {expression} from edge" + (f" where {condition}" if condition else "")


def compare(oracle: Oracle, sql: str) -> None:
    """Assert that PostgreSQL and Spark return the same rows, as PostgreSQL's text."""
    types, expected = expect(oracle.connection, sql)
    query = oracle.compile(sql)
    assert [column.type_oid for column in query.columns] == types
    actual = answer(oracle, query)
    if "order by" not in sql.lower().rpartition(")")[2]:
        expected, actual = sorted(expected, key=repr), sorted(actual, key=repr)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        for number, (left, right, type_oid) in enumerate(zip(one, other, types, strict=True)):
            assert _same(left, right, type_oid), (
                f"column {number + 1}: {left!r}, PostgreSQL {right!r}"
            )


def expect(
    connection: psycopg.Connection, sql: str
) -> tuple[list[int], list[tuple[str | None, ...]]]:
    """Return PostgreSQL's column types and rows."""
    result = connection.pgconn.exec_params(sql.encode(), [])
    assert result.status == ExecStatus.TUPLES_OK, result.error_message.decode()
    columns = range(result.nfields)
    return [result.ftype(i) for i in columns], [
        tuple(None if (v := result.get_value(r, i)) is None else v.decode() for i in columns)
        for r in range(result.ntuples)
    ]


def expect_error(connection: psycopg.Connection, sql: str) -> str:
    """Return the SQLSTATE with which PostgreSQL fails."""
    result = connection.pgconn.exec_params(sql.encode(), [])
    assert result.status == ExecStatus.FATAL_ERROR, "PostgreSQL does not fail"
    sqlstate = result.error_field(DiagnosticField.SQLSTATE)
    assert sqlstate is not None
    return sqlstate.decode()


def answer(oracle: Oracle, query: SparkQuery) -> list[tuple[str | None, ...]]:
    """Run a compiled query and return its rows as the gateway would send them."""
    for source in query.sources:
        oracle.register(source)
    table = oracle.spark.sql(query.sql).toArrow()
    columns = [
        ResultColumn(column.type_oid, column.typmod, 0, column.column, column.scale)
        for column in query.columns
    ]
    encoder = RowEncoder(columns)
    return [row for batch in table.to_batches() for row in _data_rows(bytes(encoder.encode(batch)))]


def spark_error(oracle: Oracle, query: SparkQuery) -> str:
    """Run a compiled query that fails and return the SQLSTATE a client would see."""
    try:
        answer(oracle, query)
    except PySparkException as error:
        # pyspark wraps what the gateway, which calls the JVM itself, sees.
        raised = Py4JJavaError("failed", error._origin)
        return translate(raised, told(raised)).sqlstate
    raise AssertionError("Spark does not fail")


def _data_rows(data: bytes) -> Iterator[tuple[str | None, ...]]:
    position = 0
    while position < len(data):
        count = struct.unpack_from("!h", data, position + 5)[0]
        position += 7
        row: list[str | None] = []
        for _ in range(count):
            (length,) = struct.unpack_from("!i", data, position)
            position += 4
            row.append(None if length < 0 else data[position : position + length].decode())
            position += max(length, 0)
        yield tuple(row)


def _same(one: str | None, other: str | None, type_oid: int) -> bool:
    if one == other or one is None or other is None or type_oid not in _FLOATS:
        return one == other
    left, right = float(one), float(other)
    if left == 0 == right or math.isnan(left) or math.isnan(right):
        return False
    return math.isclose(left, right, rel_tol=_FLOATS[type_oid])
