"""Makes the archive of Spark's classes that the JVMs of tests map instead of loading each class.

``python -m tests.support.class_archive`` runs statements of many kinds on a Spark that writes down,
when it ends, the classes it has loaded. Without such an archive tests are slower and nothing else,
so that a Java that cannot make one is no failure.
"""

import tempfile
from pathlib import Path

from catalog.model import SegmentKind
from pgwire_gateway.spark import compactor
from pgwire_gateway.spark.engine import SparkEngine
from pgwire_gateway.spark.executor import Executor, RunningStatement
from pgwire_gateway.spark.relations import Relations
from pgwire_gateway.spark.warm_up import warm_up
from tests.support.fix_spark import Journal, settings
from tests.support.java import CLASS_ARCHIVE, QUICK_COMPILER

DUMP_TIMEOUT_S = 120.0
"""How long the JVM may take to write its classes down."""

FEW_ROWS = 10
MANY_ROWS = 10_000_000
"""Input of a statement that runs with generated code."""

QUERIES = """
SELECT c2, count(1), count(DISTINCT c1), sum(CAST(c1 AS DECIMAL(38, 2))), avg(c1), max(c2)
FROM $ GROUP BY c2 HAVING count(1) > 0 ORDER BY 1 NULLS LAST;
SELECT c1, sum(c1) OVER (PARTITION BY c2 ORDER BY c1 ROWS BETWEEN 1 PRECEDING AND CURRENT ROW),
  rank() OVER (ORDER BY c2), lag(c1) OVER (ORDER BY c1) FROM $;
SELECT a.c1, b.c2 FROM $ a LEFT JOIN $ b ON a.c1 = b.c1 + 1 WHERE a.c1 IN (SELECT c1 FROM $);
SELECT a.c1 FROM $ a FULL JOIN $ b ON a.c1 = b.c1 AND a.c2 < b.c2 ORDER BY 1;
SELECT c1 FROM $ WHERE EXISTS (SELECT 1 FROM $ AS b WHERE b.c2 LIKE 'n%')
UNION SELECT c1 + 1 FROM $ EXCEPT SELECT 3 INTERSECT SELECT 4;
WITH w AS (SELECT explode(sequence(1, c1)) AS n, c2 FROM $)
SELECT n, upper(substring(c2, 1, 2)), CASE WHEN n > 1 THEN concat(c2, 'x') ELSE NULL END,
  coalesce(nullif(n, 2), 0) FROM w LIMIT 5;
SELECT (SELECT max(b.c1) FROM $ b WHERE b.c1 < a.c1), CAST(c1 AS STRING), CAST(c1 AS DOUBLE) / 3
FROM $ a;
SELECT transform(array(c1, 2), x -> x + 1), named_struct('a', c1),
  date_add(DATE'2020-01-01', c1), date_trunc('month', TIMESTAMP'2020-01-02 03:04:05'),
  regexp_replace(c2, 'n', 'm') FROM $
"""
"""Queries of a journal, which ``$`` stands for."""


def run_statements(engine: SparkEngine) -> None:
    """Write, read and compact a journal."""
    relations = Relations(engine)
    warm_up(engine, Executor(relations), RunningStatement())
    journal = Journal(engine, relations)
    for version in range(1, 4):
        rows = [(key, f"n{key}") for key in range(version, version + 3)]
        journal.write(journal.rows(*rows, version=version))
    journal.append(journal.rows((2, "tail"), version=5))
    for statement in QUERIES.split(";"):
        for input_rows in (FEW_ROWS, MANY_ROWS):
            journal.fetch(statement, input_rows=input_rows)
    # Few rows would not be Spark's to compact.
    compactor.MAX_BYTES = 0  # type: ignore[misc]
    compacted = journal.compactor().compact(journal.snapshot(), journal.tail, RunningStatement())
    assert any(segment.kind is SegmentKind.BASE for segment in compacted.added)


def make(archive: Path) -> bool:
    """Make the archive; return whether there is one now."""
    archive.unlink(missing_ok=True)
    options = f"{QUICK_COMPILER} -XX:ArchiveClassesAtExit={archive}"
    with tempfile.TemporaryDirectory() as directory:
        conf = {"spark.driver.extraJavaOptions": options}
        engine = SparkEngine(settings(Path(directory), **conf))
        engine.start()
        run_statements(engine)
        machine = engine.driver.machine
        machine.context.stop()
        machine.process.close(DUMP_TIMEOUT_S)
    return archive.exists()


if __name__ == "__main__":
    print("made" if make(CLASS_ARCHIVE) else "this Java makes no archive of classes")  # noqa: T201
