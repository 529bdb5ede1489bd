"""What a thread of the driver needs to be a task of Spark: a context, memory, and its locks.

Spark's executors make these for the tasks of a job (``Task.run``); what they call is public in
bytecode, but some of it has signatures that Py4J cannot look up or values that it would convert.
Those are reached by method handles.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final

from pgwire_gateway.spark.internals.process import DriverProcess

_SPARK: Final = "org.apache.spark"
_ENVIRONMENT: Final = f"{_SPARK}.SparkEnv"
_PROPERTIES: Final = 7
_CPUS: Final = 10
"""Positions among what ``TaskContextImpl`` is made of."""


class TaskContexts:
    """Makes the thread that uses it one task after another, all of one number."""

    def __init__(self, process: DriverProcess, context: Any, number: int) -> None:
        """Prepare it.

        Args:
            process: The driver.
            context: Its Spark context.
            number: What no other task has, of jobs neither, while it runs.
        """
        jvm = process.jvm
        spark = jvm.org.apache.spark
        environment = _Environment(process, context)
        blocks = environment.part("blockManager", f"{_SPARK}.storage.BlockManager")
        # Broadcasts are locked by the task that reads them, until that is over.
        blocks.registerTask(number)
        memory = environment.part("memoryManager", f"{_SPARK}.memory.MemoryManager")
        self._memory = spark.memory.TaskMemoryManager(memory, number)
        self._threads = _single(spark, "TaskContext")
        self._none = jvm.scala.Option.empty()
        given = {
            "stage": 0,
            "stage attempt": 0,
            "partition": 0,
            "number": number,
            "attempt": 0,
            "partitions": 1,
            "memory": self._memory,
        }
        further = {
            "metrics system": environment.part("metricsSystem", f"{_SPARK}.metrics.MetricsSystem"),
            "metrics": spark.executor.TaskMetrics(),
            "cpus": Decimal(1),
            "resources": _single(jvm.scala.collection.immutable, "Map").empty(),
        }
        made = _constructor(process)
        handles = jvm.java.lang.invoke.MethodHandles
        bound = handles.insertArguments(
            made, _PROPERTIES + 1, _array(process, "Object", *further.values())
        )
        self._new = handles.insertArguments(bound, 0, _array(process, "Object", *given.values()))

    @contextmanager
    def task(self, properties: Any) -> Iterator[Any]:
        """Be a task with the settings of a session; gives its ``TaskContext``."""
        context = self._new.invokeWithArguments([properties])
        self._threads.setTaskContext(context)
        try:
            yield context
        finally:
            try:
                context.markTaskCompleted(self._none)
            finally:
                self._memory.cleanUpAllAllocatedMemory()


class _Environment:
    """Spark's environment of the driver.

    Its class has methods with types that are not there, so that its methods cannot be listed.
    """

    def __init__(self, process: DriverProcess, context: Any) -> None:
        self._lang = process.jvm.java.lang
        self._java = context.env()

    def part(self, method: str, kind: str) -> Any:
        """Return a part of it."""
        lang = self._lang
        signature = lang.invoke.MethodType.methodType(lang.Class.forName(kind))
        lookup = lang.invoke.MethodHandles.publicLookup()
        found = lookup.findVirtual(lang.Class.forName(_ENVIRONMENT), method, signature)
        return found.invokeWithArguments([self._java])


def _constructor(process: DriverProcess) -> Any:
    """Return what makes a context, taking the number of CPUs as a decimal of Java.

    Py4J makes a number of Python's of Scala's decimals.
    """
    lang = process.jvm.java.lang
    lookup, handles = lang.invoke.MethodHandles.publicLookup(), lang.invoke.MethodHandles
    (made,) = lang.Class.forName(f"{_SPARK}.TaskContextImpl").getConstructors()
    kind = _array(process, "Class", lang.Class.forName("java.math.BigDecimal"))
    converted = lookup.unreflectConstructor(
        lang.Class.forName("scala.math.BigDecimal").getConstructor(kind)
    )
    filters = process.gateway.new_array(lang.invoke.MethodHandle, 1)
    filters[0] = converted
    return handles.filterArguments(lookup.unreflectConstructor(made), _CPUS, filters)


def _array(process: DriverProcess, kind: str, *values: object) -> Any:
    array = process.gateway.new_array(getattr(process.jvm.java.lang, kind), len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array


def _single(package: Any, name: str) -> Any:
    """Return the one instance of an object of Scala's."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
