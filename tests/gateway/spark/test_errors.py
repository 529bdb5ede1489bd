"""Failures of Spark, of its connection and of storage as PostgreSQL's errors."""

import errno

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from catalog.errors import GatewayError
from pgwire_gateway.spark.api import Failure, Told
from pgwire_gateway.spark.errors import SparkLostError, translate
from pgwire_gateway.spark.internals.failures import told
from tests.support.fix_spark import Journal


@pytest.mark.parametrize(
    ("sql", "sqlstate", "message"),
    [
        ("SELECT 1 / 0", "22012", "division by zero"),
        ("SELECT id % 0 FROM range(1)", "22012", "division by zero"),
        ("SELECT CAST('x' AS INT)", "22P02", 'invalid input syntax for type integer: "x"'),
        ("SELECT CAST('x' AS DATE)", "22P02", 'invalid input syntax for type date: "x"'),
        ("SELECT CAST(70000 AS SMALLINT)", "22003", "smallint out of range"),
        ("SELECT CAST(1e10 AS INT)", "22003", "integer out of range"),
        ("SELECT CAST(2147483647L + 1 AS INT)", "22003", "integer out of range"),
        ("SELECT CAST(id AS BIGINT) + 9223372036854775807L FROM range(2)", "22003", None),
        (
            "SELECT CAST(12345 AS DECIMAL(4, 2))",
            "0A000",
            "numeric values of more than 38 digits are not supported",
        ),
        (
            "SELECT (SELECT id FROM range(2))",
            "21000",
            "more than one row returned by a subquery used as an expression",
        ),
        (
            """SELECT raise_error('{"sqlstate": "22008", "message": "no such day"}')""",
            "22008",
            "no such day",
        ),
        ("SELECT raise_error('plain words')", "XX000", "plain words"),
        ("SELECT no_such_column", "XX000", "Spark could not run the statement"),
        ("SELEC", "XX000", "Spark could not run the statement"),
    ],
)
@pytest.mark.parametrize("input_rows", [1, 10_000_000])
@pytest.mark.spark
def test_failures_of_evaluation(
    journal: Journal, sql: str, sqlstate: str, message: str | None, input_rows: int
) -> None:
    with pytest.raises(GatewayError) as caught:
        journal.run(sql, input_rows=input_rows).read_all()
    assert caught.value.sqlstate == sqlstate
    assert message is None or caught.value.message == message
    assert journal.fetch("SELECT 1 AS o1") == [(1,)]


@pytest.mark.spark
def test_a_call_the_jvm_refuses_does_not_cost_the_jvm(journal: Journal) -> None:
    driver = journal.engine.driver
    with pytest.raises(Py4JError) as caught:
        driver.machine.context.noSuchMethod(1)
    failure = translate(caught.value, driver.told(caught.value))
    assert failure.sqlstate == "XX000"
    assert not isinstance(failure, SparkLostError)


@pytest.mark.parametrize(
    "error",
    [Py4JNetworkError("gone"), Py4JError("An error occurred while calling o1.x"), EOFError()],
)
def test_a_broken_connection_is_a_lost_jvm(error: Exception) -> None:
    assert translate(error, told(error)).sqlstate == "57P02"


@pytest.mark.parametrize(
    ("number", "sqlstate"), [(errno.ENOSPC, "53100"), (errno.EIO, "58030"), (errno.ENOENT, "58P01")]
)
def test_failures_of_storage(number: int, sqlstate: str) -> None:
    assert translate(OSError(number, "failed")).sqlstate == sqlstate


def test_an_error_that_is_one_already_is_kept() -> None:
    error = GatewayError("message", sqlstate="12345")
    assert translate(error) is error


@pytest.mark.parametrize(
    ("cause", "sqlstate"),
    [
        ("java.lang.StackOverflowError", "0A000"),
        ("java.io.IOException: No space left on device", "53100"),
        ("java.lang.OutOfMemoryError: Java heap space", "53200"),
        ("java.io.IOException: Input/output error", "58030"),
        ("java.io.IOException: file:/orders_cancelled/1.parquet is not a Parquet file", "58030"),
    ],
)
@pytest.mark.parametrize("around", ["TASK_WRITE_FAILED", "FAILED_READ_FILE.NO_HINT"])
def test_what_failed_while_files_are_read_or_written_tells_more_than_that(
    around: str, cause: str, sqlstate: str
) -> None:
    failures = (Failure(around, "somewhere", {}), Failure("", cause, {}))
    error = translate(RuntimeError(), Told(is_lost=False, failures=failures))
    assert error.sqlstate == sqlstate


@pytest.mark.parametrize(
    "message",
    [
        "[INTERNAL_ERROR] Cannot evaluate expression: outer(t.a#1) SQLSTATE: XX000",
        "[INTERNAL_ERROR] Unable to rewrite domain join with conditions: ArrayBuffer((d#2 = d#1)).",
    ],
)
def test_a_correlated_subquery_that_spark_cannot_plan_is_not_supported(message: str) -> None:
    failures = (Failure("INTERNAL_ERROR", message, {}),)
    error = translate(RuntimeError(), Told(is_lost=False, failures=failures))
    assert error.sqlstate == "0A000"
    assert error.message == "a correlated subquery in this place is not supported"
