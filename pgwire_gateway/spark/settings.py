"""Spark settings: what every driver gets, and what tells small sessions from large ones."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from pgwire_gateway.config import SparkApi


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """What an operator decides about Spark."""

    warehouse: str
    """Directory or URI under which all segments live."""
    runtime_directory: Path
    """Local directory for logs, scratch files and the Java launcher."""
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    """Spark settings that override ours."""
    java_home: Path | None = None
    jars: tuple[Path, ...] = ()
    """Java archives besides Spark's own."""
    lenders: tuple[Path, ...] = ()
    """Directories whose files may be part of tables as they are."""
    api: SparkApi = SparkApi.INTERNALS
    """By which of its interfaces Spark is used."""

    @property
    def is_one_process(self) -> bool:
        """Tell whether tasks run in the driver's process."""
        return self.master == "local" or self.master.startswith("local[")

    @property
    def is_local(self) -> bool:
        """Tell whether Spark and the warehouse are on this machine."""
        return self.master.startswith("local") and "://" not in self.warehouse


class SessionKind(Enum):
    """How a statement is executed."""

    SMALL = "small"
    """Few rows are touched: one task, interpreted expressions, no adaptive execution."""
    LARGE = "large"
    """Generated code, adaptive execution, tasks for all cores."""


_DRIVER: Final = {
    "spark.app.name": "pgwire-gateway",
    "spark.driver.memory": "2g",
    # A part of a result that exceeds this fails with an error instead of exhausting the JVM.
    "spark.driver.maxResultSize": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.catalogImplementation": "in-memory",
    # Broadcasts are closures and settings of a few kilobytes: packing costs more than it saves.
    "spark.broadcast.compress": "false",
    "spark.broadcast.checksum": "false",
    # A regular expression that exhausts the stack fails, and does not end the JVM; memory does.
    "spark.executor.killOnFatalError.depth": "0",
    "spark.locality.wait": "0",
    # Small and large statements have a pool each, so that small ones need not queue behind large.
    "spark.scheduler.mode": "FAIR",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "1",
}

# Parallel collection has the cheapest write barriers; point reads and streams both gain by it.
_COLLECTOR: Final = "-XX:+UseParallelGC"
# Stacks are large, as Spark walks expressions by calls within calls; memory is taken as they grow.
_JAVA_OPTIONS: Final = "-XX:+ExitOnOutOfMemoryError -XX:-UsePerfData -Xss8m"
_ANY_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC\b")

_EXCLUDED: Final = "spark.sql.optimizer.excludedRules"
_OPTIMIZER: Final = "org.apache.spark.sql.catalyst.optimizer."
# Loses the columns of subqueries in a projection over a union (Spark 4.3), which is what current
# rows are; columns are pruned through unions by another rule.
_LOSES_COLUMNS: Final = "PushProjectionThroughUnion"
# Moves an anti join below the point where Spark knows that there is one task.
_MOVES_ANTI_JOINS: Final = "PushDownLeftSemiAntiJoin"

# Puts a constant in the place of an aggregate whose FILTER is false, of which there is no window.
_EMPTIES_WINDOWS: Final = "EliminateAggregateFilter"


def _excluded(*rules: str) -> str:
    return ",".join(_OPTIMIZER + rule for rule in rules)


_SQL: Final = {
    _EXCLUDED: _excluded(_LOSES_COLUMNS, _EMPTIES_WINDOWS),
    "spark.sql.ansi.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Many directories, as of partitions, are listed by a job, with a task for each unless told.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
    # Names and constants may look like variables; those would be filled from our environment.
    "spark.sql.variable.substitute": "false",
}

_FIXED: Final = ("spark.sql.session.timeZone", "spark.sql.variable.substitute")
"""Settings that are nobody's to change: what values mean depends on them."""

_KINDS: Final[Mapping[SessionKind, Mapping[str, str]]] = {
    SessionKind.SMALL: {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
        _EXCLUDED: _excluded(_LOSES_COLUMNS, _EMPTIES_WINDOWS, _MOVES_ANTI_JOINS),
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.leafNodeDefaultParallelism": "1",
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.files.maxPartitionBytes": str(2 << 30),
    },
    SessionKind.LARGE: {
        "spark.sql.adaptive.enabled": "true",
        # Parts of a result pass through the driver one by one, so none may be big.
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "4m",
        "spark.sql.shuffle.partitions": "64",
    },
}


def driver_conf(settings: SparkSettings) -> dict[str, str]:
    """Return the settings the JVM starts with."""
    scratch = settings.runtime_directory / "scratch"
    options = f"{_JAVA_OPTIONS} {settings.conf.get('spark.driver.extraJavaOptions', '')}".strip()
    if not _ANY_COLLECTOR.search(options):
        options = f"{_COLLECTOR} {options}"
    jars = [settings.conf["spark.jars"]] if "spark.jars" in settings.conf else []
    jars += [str(jar) for jar in settings.jars]
    return {
        **_DRIVER,
        **_SQL,
        "spark.master": settings.master,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(settings.runtime_directory / "spark-warehouse"),
        **settings.conf,
        **({"spark.jars": ",".join(jars)} if jars else {}),
        "spark.driver.extraJavaOptions": options,
    }


def session_conf(settings: SparkSettings, kind: SessionKind) -> dict[str, str]:
    """Return the SQL settings of one session; tasks need them too."""
    own = {name: value for name, value in settings.conf.items() if name.startswith("spark.sql.")}
    fixed = {name: _SQL[name] for name in _FIXED}
    return {**_SQL, **_KINDS[kind], **own, **fixed}
