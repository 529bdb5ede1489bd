"""First statements on a JVM that has just started, so that no client has to wait for them.

Spark loads and compiles thousands of classes with the first statements of each kind, which takes
seconds. Statements like those of clients, over rows made up here, do so while nobody waits.
"""

import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from catalog.errors import GatewayError
from catalog.journal.layout import VERSION, column_name
from catalog.model import Column, JournalTable, Segment, SegmentKind, TableSnapshot
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.executor import Executor
from pgwire_gateway.spark.relations import Relation
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.wire_types.versions import storage_schema
from rewrite.keys import compile_whole_rows
from rewrite.results import Source, SourcePart, SparkQuery

_VIEW: Final = "global_temp.warm_up"
_TABLE: Final = JournalTable(
    relid=0,
    schema="",
    name="",
    columns=(Column(1, "id", 23, -1, True, "id"), Column(2, "name", 25, -1, False, "name")),
    key=(1,),
    key_name="",
    definition_version=0,
    location="",
)
_BASE: Final = Segment(1, SegmentKind.BASE, "", 1, 0, (1, 2), 0, 0)
_FEW_ROWS: Final = """
SELECT t.c1 AS o1, t.c2 AS o2 FROM ({}) AS t WHERE t.c1 = 1
"""
_MANY_ROWS: Final = """
SELECT t.c2 AS o1, COUNT(1) AS o2, SUM(CAST(t.c1 AS DECIMAL(12, 2))) AS o3, MAX(t.c1) AS o4
FROM ({}) AS t WHERE t.c1 > 0 GROUP BY t.c2 ORDER BY t.c2 NULLS LAST
"""


STOP_S: Final = 10.0
"""How long the statements may take to end when they have been cancelled."""


class WarmUp:
    """The thread that runs the statements while clients are already served."""

    def __init__(self, engine: SparkEngine, executor: Executor) -> None:
        self._running = RunningStatement()
        self._thread = threading.Thread(
            target=self._run, args=(engine, executor), name="warm-up", daemon=True
        )
        self._thread.start()

    def cancel(self) -> None:
        """Let no more statements begin, and end the one that runs."""
        self._running.cancel()

    def join(self) -> None:
        """Wait until the thread has ended, for some seconds at most."""
        self._thread.join(STOP_S)

    def _run(self, engine: SparkEngine, executor: Executor) -> None:
        with suppress(GatewayError):  # the gateway stops, or clients will be told
            warm_up(engine, executor, self._running)


def warm_up(engine: SparkEngine, executor: Executor, running: RunningStatement) -> None:
    """Run some statements.

    Raises:
        GatewayError: 57014 when cancelled; Spark was stopped meanwhile, or cannot run statements.
    """
    snapshot = TableSnapshot(_TABLE, "warm_up", 0, (), 1)
    relation = Relation(Source(0, SourcePart.RECENT, _VIEW), snapshot, _rows)
    latest, current = _current_rows(), _current_rows(_BASE)
    statements = (
        # Interpreted, in one task.
        (_FEW_ROWS.format(current), 10),
        (_MANY_ROWS.format(latest), 10),
        # Generated code, adaptive execution.
        (_MANY_ROWS.format(current), 10_000_000),
    )
    for sql, input_rows in statements:
        running.check()
        executor.run(
            SparkQuery(sql, (), (), 10, input_rows),
            relations=[relation],
            sessions=engine.sessions(),
            statement=running,
        ).read_all()


def _current_rows(*segments: Segment) -> str:
    """Return the query for current rows of a table with these segments, all from one view."""
    compiled = compile_whole_rows(TableSnapshot(_TABLE, "", 0, segments, 1))
    text = compiled.sql
    for source in compiled.sources:
        text = text.replace(source.view, _VIEW)
    return text


def _rows() -> pa.Table:
    schema = storage_schema(_TABLE)
    values = dict.fromkeys(schema.names) | {
        column_name(1): 1,
        column_name(2): "a",
        VERSION: datetime(2000, 1, 1, tzinfo=UTC),
    }
    return pa.Table.from_pylist([values], schema)
