"""Run compiled queries on Spark and hand out their rows as Arrow batches, cancellably."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from pgwire_gateway.spark.arrow_schemas import arrow_schema
from pgwire_gateway.spark.batches import Batches, PartStream, collect
from pgwire_gateway.spark.engine import Driver, SessionKind, Sessions, SparkEngine
from pgwire_gateway.spark.errors import SparkLostError, translate
from pgwire_gateway.spark.relations import Relation, Relations, substitute
from pgwire_gateway.spark.statements import RunningStatement
from rewrite.results import SparkQuery

__all__ = ["Batches", "Executor", "RunningStatement", "failures"]

SMALL_INPUT_ROWS: Final = 50_000
"""Interpreting expressions over more rows than this costs more than generating code for them."""
SMALL_RESULT_ROWS: Final = 1_000
COLLECTED_ROWS: Final = 20_000
COLLECTED_BYTES: Final = 16 << 20
"""Results up to this size are collected in one job; larger ones are streamed."""
BATCH_BYTES: Final = 2 << 20
MAX_BATCH_ROWS: Final = 50_000

# Work over all rows, whatever the number of rows in the result. Finding the latest row versions
# takes an anti join and a window, which leave a key lookup what it is.
_WHOLE_INPUT: Final = re.compile(
    r"\bGROUP BY\b|\bORDER BY\b|\bDISTINCT\b|(?<!ANTI )\bJOIN\b|\b(?:INTERSECT|EXCEPT)\b"
    r"|\b(?:COUNT|SUM|MIN|MAX|AVG|ANY_VALUE|EVERY|SOME|BOOL_AND|BOOL_OR|BIT_AND|BIT_OR|BIT_XOR"
    r"|STDDEV\w*|VAR\w*|CORR|COVAR\w*|REGR_\w+|PERCENTILE\w*|MODE|FIRST|LAST|COLLECT_\w+"
    r"|ARRAY_AGG|LISTAGG|STRING_AGG|MAX_BY|MIN_BY)\s*\(",
    re.IGNORECASE,
)
_WINDOW: Final = re.compile(r"\bROW_NUMBER\(\) OVER \([^()]*\)", re.IGNORECASE)


class Executor:
    """Runs compiled queries."""

    def __init__(self, relations: Relations) -> None:
        self._relations = relations

    def run(
        self,
        query: SparkQuery,
        *,
        relations: Iterable[Relation],
        sessions: Sessions,
        statement: RunningStatement,
    ) -> Batches:
        """Start a query; results that are small are complete when this returns.

        Raises:
            GatewayError: 57014 when cancelled, 57P02 when Spark was lost, else what the query's
                evaluation met, also while iterating.
        """
        used = tuple(relations)
        engine = self._relations.engine
        driver = sessions.small.driver
        with failures(engine, driver, statement):
            width = max((self._relations.row_bytes(r, driver) for r in used), default=0)
            kind = session_kind(query, width)
            session = sessions.of_kind(kind)
            group = statement.begin(driver)
            session.enter(group)
            with self._relations.lease(used, session, kind) as names:
                frame = session.sql(substitute(query.sql, names))
            schema = arrow_schema(str(frame.schema().json()))
            rdd = frame.toArrowBatchRdd(_batch_rows(width), "UTC", False, False)  # noqa: FBT003
            statement.check()
            if _collects(query, width):
                batches = collect(driver, rdd, schema)
                statement.end(group)
                return Batches(schema, iter(batches))
            stream = PartStream(driver, rdd, schema)
        running = _Streaming(engine, driver, statement, group, stream)
        return Batches(schema, iter(running), running.close)


class _Streaming:
    """A result that is being computed while it is read."""

    def __init__(
        self,
        engine: SparkEngine,
        driver: Driver,
        statement: RunningStatement,
        group: str,
        stream: PartStream,
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._statement = statement
        self._group = group
        self._stream = stream
        self._complete = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        batches = iter(self._stream)
        while True:
            with failures(self._engine, self._driver, self._statement):
                self._statement.check()
                batch = next(batches, None)
            if batch is None:
                self._complete = True
                return
            yield batch

    def close(self) -> None:
        """End the work that is not done."""
        self._stream.close()
        if not self._complete:
            with failures(self._engine, self._driver, self._statement, silent=True):
                self._driver.cancel(self._group)
        self._statement.end(self._group)


@contextmanager
def failures(
    engine: SparkEngine,
    driver: Driver,
    statement: RunningStatement,
    *,
    silent: bool = False,
) -> Iterator[None]:
    """Turn failures of Spark into errors of the statement.

    Raises:
        GatewayError: See :func:`translate`; 57014 for whatever a cancelled statement meets.
    """
    try:
        yield
    except Exception as error:
        failure = translate(error)
        if isinstance(failure, SparkLostError):
            engine.failed(driver)
        if silent:
            return
        statement.check()
        if failure is error:
            raise
        raise failure from error


def session_kind(query: SparkQuery, row_bytes: int) -> SessionKind:
    """Choose how a query is executed, by what it reads and returns."""
    if query.input_rows <= SMALL_INPUT_ROWS and query.input_rows * row_bytes <= COLLECTED_BYTES:
        return SessionKind.SMALL
    bound = query.row_bound
    if bound is not None and bound <= SMALL_RESULT_ROWS and bound * row_bytes <= COLLECTED_BYTES:
        text = _WINDOW.sub("", query.sql)
        if _WHOLE_INPUT.search(text) is None:
            return SessionKind.SMALL
    return SessionKind.LARGE


def _collects(query: SparkQuery, row_bytes: int) -> bool:
    rows = query.input_rows if query.row_bound is None else query.row_bound
    return rows <= COLLECTED_ROWS and rows * row_bytes <= COLLECTED_BYTES


def _batch_rows(row_bytes: int) -> int:
    return min(max(BATCH_BYTES // max(row_bytes, 1), 16), MAX_BATCH_ROWS)
