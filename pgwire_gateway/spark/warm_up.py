"""First statements on a JVM that has just started, so that no client has to wait for them.

Spark loads and compiles thousands of classes with the first statements of each kind, which takes
seconds. Statements like those of clients, over rows made up here, do so while nobody waits.
"""

from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from catalog.model import Column, JournalTable, TableSnapshot
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.executor import Executor
from pgwire_gateway.spark.relations import Relation
from pgwire_gateway.spark.statements import RunningStatement
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
_LATEST: Final = """
SELECT j2.c1, j2.c2 FROM (SELECT j1.c1, j1.c2, j1.subsequent_version_number,
  ROW_NUMBER() OVER (PARTITION BY j1.c1 ORDER BY j1.version_number DESC NULLS LAST) AS age
  FROM global_temp.warm_up AS j1) AS j2
WHERE j2.age = 1 AND j2.subsequent_version_number IS NULL
"""
_CURRENT: Final = """
SELECT /*+ BROADCAST(j4) */ j3.c1, j3.c2 FROM global_temp.warm_up AS j3
LEFT ANTI JOIN global_temp.warm_up AS j4 ON j3.c1 = j4.c1 UNION ALL
"""
_FEW_ROWS: Final = """
SELECT t.c1 AS o1, t.c2 AS o2 FROM ({}) AS t WHERE t.c1 = 1
"""
_MANY_ROWS: Final = """
SELECT t.c2 AS o1, COUNT(1) AS o2, SUM(CAST(t.c1 AS DECIMAL(12, 2))) AS o3, MAX(t.c1) AS o4
FROM ({}) AS t WHERE t.c1 > 0 GROUP BY t.c2 ORDER BY t.c2 NULLS LAST
"""
_STATEMENTS: Final = (
    # Interpreted, in one task.
    (_FEW_ROWS.format(_CURRENT + _LATEST), 10),
    (_MANY_ROWS.format(_LATEST), 10),
    # Generated code, adaptive execution.
    (_MANY_ROWS.format(_CURRENT + _LATEST), 10_000_000),
)


def warm_up(engine: SparkEngine, executor: Executor) -> None:
    """Run some statements.

    Raises:
        GatewayError: Spark was stopped meanwhile, or cannot run statements.
    """
    snapshot = TableSnapshot(_TABLE, "warm_up", 0, (), 1)
    relation = Relation(Source(0, SourcePart.RECENT, _VIEW), snapshot, _rows)
    for sql, input_rows in _STATEMENTS:
        executor.run(
            SparkQuery(sql, (), (), 10, input_rows),
            relations=[relation],
            sessions=engine.sessions(),
            statement=RunningStatement(),
        ).read_all()


def _rows() -> pa.Table:
    instant = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "c1": pa.array([1], pa.int32()),
            "c2": pa.array(["a"]),
            "version_number": pa.array([datetime(2000, 1, 1, tzinfo=UTC)], instant),
            "subsequent_version_number": pa.nulls(1, instant),
        }
    )
