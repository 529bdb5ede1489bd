"""Spark failures as PostgreSQL errors, by Spark's error class."""

import errno
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import pyarrow as pa

from catalog.errors import GatewayError
from catalog.pg import sqlstate
from pgwire_gateway.spark.api import Failure, Told

logger = logging.getLogger(__name__)

DISK_FULL: Final = "53100"
OUT_OF_MEMORY: Final = "53200"
INTERVAL_OVERFLOW: Final = "22015"
INVALID_REGULAR_EXPRESSION: Final = "2201B"
UNDEFINED_FILE: Final = "58P01"


class SparkError(GatewayError):
    """Spark could not run a statement."""


class SparkLostError(SparkError):
    """The JVM went away while it was needed (57P02); it is started again for the next statement."""

    sqlstate = sqlstate.CRASH_SHUTDOWN


class QueryCanceledError(GatewayError):
    """The statement was cancelled (57014)."""

    sqlstate = sqlstate.QUERY_CANCELED


_TYPE_NAMES: Final = {
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "INT": "integer",
    "BIGINT": "bigint",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp with time zone",
    "TIMESTAMP_NTZ": "timestamp without time zone",
}
_QUOTES: Final = "\"'`"


def _type_name(spark: str) -> str:
    name = spark.strip(_QUOTES)
    return "numeric" if name.startswith("DECIMAL") else _TYPE_NAMES.get(name, name.lower())


def _out_of_range(failure: Failure) -> str:
    if "targetType" in failure.parameters:
        target = _type_name(failure.parameters["targetType"])
        return "numeric field overflow" if target == "numeric" else f"{target} out of range"
    text = failure.parameters.get("message", failure.message).lower()
    for word, name in (("long", "bigint"), ("short", "smallint"), ("byte", "smallint")):
        if word in text:
            return f"{name} out of range"
    value = failure.parameters.get("value1", "")
    # Without a word it is BIGINT: arithmetic of the others is compiled to a cast that names them.
    return "smallint out of range" if value.endswith("S") else "bigint out of range"


def _invalid_input(failure: Failure) -> str:
    target = _type_name(failure.parameters.get("targetType", "unknown"))
    text = failure.parameters.get("expression", "").strip(_QUOTES)
    return f'invalid input syntax for type {target}: "{text}"'


_TOO_MANY_DIGITS: Final = "numeric values of more than 38 digits are not supported"
_CORRELATED: Final = "a correlated subquery in this place is not supported"
_TOO_DEEP: Final = (
    "an expression, or a regular expression for a text of this length, is too deep for Spark"
)

_MESSAGES: Final[dict[str, tuple[str, str | Callable[[Failure], str]]]] = {
    "DIVIDE_BY_ZERO": (sqlstate.DIVISION_BY_ZERO, "division by zero"),
    "REMAINDER_BY_ZERO": (sqlstate.DIVISION_BY_ZERO, "division by zero"),
    "INTERVAL_DIVIDED_BY_ZERO": (sqlstate.DIVISION_BY_ZERO, "division by zero"),
    "ARITHMETIC_OVERFLOW": (sqlstate.NUMERIC_VALUE_OUT_OF_RANGE, _out_of_range),
    "BINARY_ARITHMETIC_OVERFLOW": (sqlstate.NUMERIC_VALUE_OUT_OF_RANGE, _out_of_range),
    "CAST_OVERFLOW": (sqlstate.NUMERIC_VALUE_OUT_OF_RANGE, _out_of_range),
    "NUMERIC_VALUE_OUT_OF_RANGE": (
        sqlstate.FEATURE_NOT_SUPPORTED,
        _TOO_MANY_DIGITS,
    ),
    "NUMERIC_OUT_OF_SUPPORTED_RANGE": (
        sqlstate.FEATURE_NOT_SUPPORTED,
        _TOO_MANY_DIGITS,
    ),
    "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION": (
        sqlstate.FEATURE_NOT_SUPPORTED,
        _TOO_MANY_DIGITS,
    ),
    "SUM_OF_DECIMAL_OVERFLOW": (
        sqlstate.FEATURE_NOT_SUPPORTED,
        _TOO_MANY_DIGITS,
    ),
    "INTERVAL_ARITHMETIC_OVERFLOW": (INTERVAL_OVERFLOW, "interval out of range"),
    "DATETIME_OVERFLOW": (sqlstate.DATETIME_FIELD_OVERFLOW, "timestamp out of range"),
    "DATETIME_FIELD_OUT_OF_BOUNDS": (
        sqlstate.DATETIME_FIELD_OVERFLOW,
        "date/time field value out of range",
    ),
    "CAST_INVALID_INPUT": (sqlstate.INVALID_TEXT_REPRESENTATION, _invalid_input),
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": (
        sqlstate.CARDINALITY_VIOLATION,
        "more than one row returned by a subquery used as an expression",
    ),
    "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY": (
        sqlstate.FEATURE_NOT_SUPPORTED,
        _CORRELATED,
    ),
    "INVALID_REGEXP_REPLACE": (INVALID_REGULAR_EXPRESSION, "invalid regular expression"),
    "INVALID_PARAMETER_VALUE.PATTERN": (
        INVALID_REGULAR_EXPRESSION,
        "invalid regular expression",
    ),
    "FAILED_READ_FILE.FILE_NOT_EXIST": (UNDEFINED_FILE, "a data file of the table is missing"),
    "FAILED_READ_FILE": (sqlstate.IO_ERROR, "could not read a data file of the table"),
    "PATH_NOT_FOUND": (UNDEFINED_FILE, "a data file of the table is missing"),
    "TASK_WRITE_FAILED": (sqlstate.IO_ERROR, "could not write a data file"),
    "SPARK_JOB_CANCELLED": (
        sqlstate.QUERY_CANCELED,
        "canceling statement due to user request",
    ),
    "FAILED_TO_PARSE_TOO_COMPLEX": (sqlstate.FEATURE_NOT_SUPPORTED, _TOO_DEEP),
    "CANNOT_BROADCAST_TABLE_OVER_MAX_TABLE_BYTES": (OUT_OF_MEMORY, "out of memory"),
    "UNABLE_TO_ACQUIRE_MEMORY": (OUT_OF_MEMORY, "out of memory"),
}
_TEXTS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "SparkContext was shut down",
        sqlstate.ADMIN_SHUTDOWN,
        "terminating the statement because Spark was stopped",
    ),
    (
        "java.lang.ArithmeticException: long overflow",
        sqlstate.DATETIME_FIELD_OVERFLOW,
        "timestamp out of range",
    ),
    (
        "java.lang.StackOverflowError",
        sqlstate.FEATURE_NOT_SUPPORTED,
        _TOO_DEEP,
    ),
    ("Max iterations (", sqlstate.FEATURE_NOT_SUPPORTED, _TOO_DEEP),
    ("Cannot evaluate expression: outer(", sqlstate.FEATURE_NOT_SUPPORTED, _CORRELATED),
    ("Unable to rewrite domain join", sqlstate.FEATURE_NOT_SUPPORTED, _CORRELATED),
    ("No space left on device", DISK_FULL, "could not write: no space left on device"),
    ("Disk quota exceeded", DISK_FULL, "could not write: disk quota exceeded"),
    ("org.apache.arrow.memory.OutOfMemoryException", OUT_OF_MEMORY, "out of memory"),
    ("java.lang.OutOfMemoryError", OUT_OF_MEMORY, "out of memory"),
    ("spark.driver.maxResultSize", OUT_OF_MEMORY, "a part of the result exceeds the memory for it"),
    ("cancelled", sqlstate.QUERY_CANCELED, "canceling statement due to user request"),
)
"""Failures Spark gives no class, found by their words."""

_AROUND_OTHERS: Final = frozenset({"TASK_WRITE_FAILED", "FAILED_READ_FILE"})
"""What tells where something failed, whose own words tell more, if they are known."""

_MAIMED = (
    "stopped SparkContext",
    "java.lang.NoClassDefFoundError: Could not initialize class",
)
"""What is said where the JVM has to be started again.

A class that could not be initialised once, as when the stack was exhausted, never can be. One that
is missing is missing afterwards, too.
"""

_RAISED = "USER_RAISED_EXCEPTION"
_JSON = re.compile(r"\{.*\}", re.DOTALL)


@contextmanager
def storage_failures() -> Iterator[None]:
    """Turn failures of storage into errors of the statement; a file nobody can decode is one.

    Raises:
        GatewayError: 58P01 for a missing file, 53100 for a full disk, else 58030.
    """
    try:
        yield
    except pa.ArrowInvalid as error:
        raise translate(OSError(errno.EIO, os.strerror(errno.EIO), str(error))) from error
    except OSError as error:
        raise translate(error) from error


def translate(error: BaseException, told: Told | None = None) -> GatewayError:
    """Return the PostgreSQL error a failure stands for; the detail is in Spark's words.

    Args:
        error: What has been raised.
        told: What it tells of Spark, if that is where it comes from.
    """
    if isinstance(error, GatewayError):
        return error
    if told is not None:
        return _lost(error) if told.is_lost else _of_spark(error, told.failures)
    if isinstance(error, (ConnectionError, EOFError, TimeoutError)):
        return _lost(error)
    if isinstance(error, OSError):
        return _storage_error(error)
    return SparkError("Spark failed", sqlstate=sqlstate.INTERNAL_ERROR, detail=repr(error))


def _storage_error(error: OSError) -> SparkError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return SparkError(
            "could not write: no space left on device", sqlstate=DISK_FULL, detail=str(error)
        )
    if isinstance(error, FileNotFoundError):
        return SparkError(
            "a data file of the table is missing", sqlstate=UNDEFINED_FILE, detail=str(error)
        )
    return SparkError("could not access a data file", sqlstate=sqlstate.IO_ERROR, detail=str(error))


def _lost(error: BaseException) -> SparkLostError:
    return SparkLostError(
        "terminating the statement because Spark was lost",
        detail=str(error) or type(error).__name__,
        hint="Spark is being restarted; repeat the statement in a moment.",
    )


def _of_spark(error: BaseException, failures: Sequence[Failure]) -> GatewayError:
    for failure in failures:
        if _RAISED in failure.condition:
            return _raised(failure)
    known = [(failure, told) for failure in failures if (told := _known(failure)) is not None]
    for failure, told in known:
        if failure.condition.partition(".")[0] not in _AROUND_OTHERS:
            return told
    text = "\n".join(failure.message for failure in failures)
    if any(words in text for words in _MAIMED):
        return _lost(error)
    # Paths of files may hold any words, and what was cancelled Spark tells by a class of its own.
    words = [entry for entry in _TEXTS if not known or entry[1] != sqlstate.QUERY_CANCELED]
    found = _of_database(text) or _of_words(text, words) or next((told for _, told in known), None)
    if found is not None:
        return found
    condition = next((failure.condition for failure in failures if failure.condition), "")
    return SparkError(
        "Spark could not run the statement",
        sqlstate=sqlstate.INTERNAL_ERROR,
        detail=f"{condition} {text}".strip()[:_DETAIL],
    )


def _of_words(text: str, known: Iterable[tuple[str, str, str]]) -> GatewayError | None:
    """Return the failure that has no class of Spark's, but words that are known."""
    for words, code, message in known:
        if words in text:
            kind = QueryCanceledError if code == sqlstate.QUERY_CANCELED else SparkError
            said = code.startswith(_SAID_BY_POSTGRESQL)
            return kind(message, sqlstate=code, detail=None if said else text[:_DETAIL])
    return None


def _of_database(text: str) -> SparkError | None:
    """Return what another database, or its driver, has found wrong; None for all else."""
    told = _OF_DATABASE.search(text)
    if told:
        message = f"the other database refuses: {told[1].strip()}"
        return SparkError(message, sqlstate=sqlstate.FDW_ERROR)
    missing = _NO_CLASS.search(text)
    if missing is None:
        return None
    return SparkError(
        f'there is no Java class "{missing[1]}"',
        sqlstate=sqlstate.FDW_ERROR,
        hint="The operator gives the drivers of other databases with --jars.",
    )


_DETAIL: Final = 2000

_OF_DATABASE: Final = re.compile(r"(?<![\w.])(?!org\.apache\.)[\w.]+SQL\w*Exception: (.*)")
_NO_CLASS: Final = re.compile(r"ClassNotFoundException: ([\w.$]+)")
"""What JDBC's drivers report, and what there is no driver for."""

_SAID_BY_POSTGRESQL: Final = ("0A", "21", "22")
"""Classes of errors of the statement itself: the message is PostgreSQL's and says it all."""


def _known(failure: Failure) -> GatewayError | None:
    condition = failure.condition
    entry = _MESSAGES.get(condition) or _MESSAGES.get(condition.partition(".")[0])
    if entry is None:
        return None
    code, message = entry
    if "sum of decimals" in failure.message:
        code, message = sqlstate.FEATURE_NOT_SUPPORTED, _TOO_MANY_DIGITS
    text = message if isinstance(message, str) else message(failure)
    kind = QueryCanceledError if code == sqlstate.QUERY_CANCELED else SparkError
    if code.startswith(_SAID_BY_POSTGRESQL):
        logger.debug("%s: %s", condition, failure.message)
        return kind(text, sqlstate=code)
    return kind(text, sqlstate=code, detail=f"{condition}: {failure.message}"[:_DETAIL])


def _raised(failure: Failure) -> GatewayError:
    """Return the error that compiled SQL raised itself, as JSON with a SQLSTATE and a message."""
    text = failure.parameters.get("errorMessage", failure.message)
    found = _JSON.search(text)
    if found:
        with suppress(ValueError, KeyError, TypeError):
            fields = json.loads(found[0])
            return SparkError(
                str(fields["message"]),
                sqlstate=str(fields["sqlstate"]),
                detail=fields.get("detail"),
                hint=fields.get("hint"),
                fields=fields.get("fields"),
            )
    return SparkError(text, sqlstate=sqlstate.INTERNAL_ERROR)
