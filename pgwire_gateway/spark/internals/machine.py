"""The JVM of a driver with its Spark context, and what calls of its classes are made of."""

import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pgwire_gateway.spark.internals.driver_tasks import DriverTasks
from pgwire_gateway.spark.internals.process import DriverProcess
from pgwire_gateway.spark.internals.task_contexts import single
from pgwire_gateway.spark.planning_threads import PlanningThreads
from pgwire_gateway.spark.settings import SparkSettings, driver_conf

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entered:
    """What the work of a thread is part of."""

    properties: Any
    """Settings of its session, as Java properties."""
    group: str
    """Its job group."""
    again: Callable[[], None]
    """Makes the work of another thread part of the same."""


class Machine:
    """One life of the JVM."""

    def __init__(self, settings: SparkSettings) -> None:
        """Start it, and a Spark context in it."""
        directory = settings.runtime_directory
        self.scratch = directory / "scratch"
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.process = DriverProcess(driver_conf(settings), settings.java_home, directory)
        self.jvm = self.process.jvm
        self.local = threading.local()
        self._schemas: dict[str, str] = {}
        try:
            self._sessions = self.jvm.org.apache.spark.sql.classic.SparkSession
            self.root = self._sessions.builder().getOrCreate()
        except BaseException:
            self.process.kill()
            raise
        self.context = self.root.sparkContext()
        self.cores = int(self.context.defaultParallelism())
        # Each part of the name of a class is looked for in the JVM: that is not for each query.
        arrow = self.jvm.org.apache.spark.sql.execution.arrow
        self.converters = single(arrow, "ArrowConverters")
        self.operators = self.jvm.org.apache.spark.sql.execution
        self.conditions: dict[tuple[str, int], Any] = {}
        """Conditions on rows, by their columns and a bound, made by :mod:`.part_bounds`."""
        most = self.cores if settings.is_one_process else 0
        self.tasks = DriverTasks(self.process, self.context, most)
        self.planning = PlanningThreads()
        if settings.is_local:
            self._forget_hadoop_defaults()

    def planned(self, plan: Callable[[], T]) -> T:
        """Return what is planned for the work of this thread, unless it is cancelled meanwhile.

        Raises:
            QueryCanceledError: 57014 when it is; what Spark plans goes on as long as it takes.
        """
        entered: Entered | None = getattr(self.local, "entered", None)
        if entered is None:
            return plan()

        def part_of_it() -> T:
            entered.again()
            return plan()

        return self.planning.run(entered.group, part_of_it)

    def properties(self, values: dict[str, str]) -> Any:
        """Return Java properties."""
        result = self.jvm.java.util.Properties()
        for name, value in values.items():
            result.setProperty(name, value)
        return result

    def activate(self, java: Any) -> None:
        """Make a session the active one of this thread in the JVM."""
        if getattr(self.local, "active", None) is not java:
            self._sessions.setActiveSession(java)
            self.local.active = java

    def strings(self, values: Sequence[str]) -> Any:
        """Return a Java array of strings."""
        array = self.process.gateway.new_array(self.jvm.java.lang.String, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array

    def columns(self, names: Sequence[str]) -> Any:
        """Return a Java array of Spark's columns of these names."""
        array = self.process.gateway.new_array(self.jvm.org.apache.spark.sql.Column, len(names))
        for index, name in enumerate(names):
            array[index] = self.jvm.org.apache.spark.sql.functions.col(name)
        return array

    def schema(self, ddl: str) -> str:
        """Return columns as in CREATE TABLE in Spark's JSON."""
        found = self._schemas.get(ddl)
        if found is None:
            utils = self.jvm.org.apache.spark.sql.api.python.PythonSQLUtils
            found = self._schemas[ddl] = str(utils.ddlToJson(ddl))
        return found

    def structure(self, schema: str) -> Any:
        """Return columns in Spark's JSON as an object of the JVM."""
        return self.jvm.org.apache.spark.sql.types.DataType.fromJson(schema)

    def _forget_hadoop_defaults(self) -> None:
        """Drop a thousand Hadoop defaults that each scan would copy, serialise and send to tasks.

        Hadoop's code knows its own defaults; local files need no others. What the operator's files
        or ``spark.hadoop.*`` set is kept.
        """
        # Both load classes that have defaults of their own, which would undo what follows.
        self.jvm.org.apache.hadoop.mapred.JobConf(False)
        self.root.sharedState()
        conf = self.context.hadoopConfiguration()
        kept: dict[str, str] = {}
        entries = conf.iterator()
        while entries.hasNext():
            entry = entries.next()
            name = entry.getKey()
            sources = conf.getPropertySources(name) or []
            if not any(str(source).endswith("-default.xml") for source in sources):
                kept[name] = entry.getValue()
        conf.clear()
        for name, value in kept.items():
            conf.set(name, value)
