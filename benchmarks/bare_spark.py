"""Spark without the gateway, in a process of its own with Spark's default settings.

Run as a program it obeys one JSON request per line of its standard input; :class:`BareSpark` is the
handle on such a process.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from pyspark.sql import SparkSession

from pgwire_gateway.spark.java_runtime import find_java_home
from tests.support.repository import ROOT

STOP_TIMEOUT_S = 60.0


class BareSpark:
    """A running Spark that measures itself, so that the way to it costs nothing."""

    def __init__(self, directory: Path) -> None:
        """Start the process; it keeps its scratch files in ``directory``."""
        directory.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "JAVA_HOME": str(find_java_home(directory)),
        }
        self._log = directory / "spark.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.bare_spark"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                text=True,
                env=environment,
            )

    @property
    def process_id(self) -> int:
        """Process id of its Python process."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        # The end of its requests ends it.
        self._process.communicate(timeout=STOP_TIMEOUT_S)

    def show(self, view: str, directory: Path, columns: Mapping[str, str]) -> None:
        """Make Parquet files a view; ``columns`` maps names in the files to names in the view."""
        self._request(action="show", view=view, path=str(directory), columns=dict(columns))

    def store(self, view: str, directory: Path) -> None:
        """Write the rows of a view to plain Parquet files and let the view read those."""
        self._request(action="store", view=view, path=str(directory))

    def time(self, sql: str) -> float:
        """Return the seconds ``spark.sql(…).toArrow()`` takes."""
        return float(self._request(action="time", sql=sql)["seconds"])

    def query(self, sql: str) -> list[tuple[str, ...]]:
        """Return the rows of a query, each value as text."""
        return [tuple(row) for row in self._request(action="query", sql=sql)["rows"]]

    def time_rewrite(self, sql: str, directory: Path) -> float:
        """Return the seconds it takes to write the rows of a query to plain Parquet files."""
        return float(self._request(action="rewrite", sql=sql, path=str(directory))["seconds"])

    def _request(self, **request: Any) -> dict[str, Any]:
        requests, answers = self._process.stdin, self._process.stdout
        if requests is None or answers is None:
            raise RuntimeError("bare Spark has no pipes")
        requests.write(json.dumps(request) + "\n")
        requests.flush()
        line = answers.readline()
        if not line:
            log = self._log.read_text(errors="replace")
            raise RuntimeError(f"bare Spark ended:\n{log[-4000:]}")
        return dict(json.loads(line))


def _obey() -> None:
    spark = SparkSession.builder.master("local[*]").getOrCreate()
    for line in sys.stdin:
        request = json.loads(line)
        answer = _ACTIONS[request.pop("action")](spark, **request)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    spark.stop()


def _show(spark: SparkSession, view: str, path: str, columns: Mapping[str, str]) -> dict[str, Any]:
    files = spark.read.parquet(path)
    files.select(*(files[f"`{old}`"].alias(new) for old, new in columns.items())).createTempView(
        view
    )
    return {}


def _store(spark: SparkSession, view: str, path: str) -> dict[str, Any]:
    spark.table(view).write.parquet(path)
    spark.catalog.dropTempView(view)
    spark.read.parquet(path).createTempView(view)
    return {}


def _query(spark: SparkSession, sql: str) -> dict[str, Any]:
    return {"rows": [[str(value) for value in row] for row in spark.sql(sql).collect()]}


def _rewrite(spark: SparkSession, sql: str, path: str) -> dict[str, Any]:
    start = time.perf_counter()
    spark.sql(sql).write.parquet(path)
    return {"seconds": time.perf_counter() - start}


def _time(spark: SparkSession, sql: str) -> dict[str, Any]:
    start = time.perf_counter()
    rows = spark.sql(sql).toArrow().num_rows
    return {"seconds": time.perf_counter() - start, "rows": rows}


_ACTIONS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "show": _show,
    "store": _store,
    "query": _query,
    "rewrite": _rewrite,
    "time": _time,
}


if __name__ == "__main__":
    _obey()
