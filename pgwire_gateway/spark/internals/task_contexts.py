"""What a thread of the driver needs to be a task of Spark: a context, and memory.

Spark's executors make these for the tasks of a job (``Task.run``); what they call is public in
bytecode, but some of it has signatures that Py4J cannot look up, or values that it would convert.
Those are reached by method handles. What executors do for cached rows is left out: none are cached.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError

from pgwire_gateway.spark.internals.process import DriverProcess

_SPARK: Final = "org.apache.spark"
_ENVIRONMENT: Final = f"{_SPARK}.SparkEnv"

_PARAMETERS: Final = (
    "stageId",
    "stageAttemptNumber",
    "partitionId",
    "taskAttemptId",
    "attemptNumber",
    "numPartitions",
    "taskMemoryManager",
    "localProperties",
    "metricsSystem",
    "taskMetrics",
    "cpus",
    "resources",
)
"""What ``TaskContextImpl`` is made of, in this order."""
_PROPERTIES: Final = _PARAMETERS.index("localProperties")
_CPUS: Final = _PARAMETERS.index("cpus")


class TaskContexts:
    """Makes the thread that uses it one task after another."""

    def __init__(self, process: DriverProcess, context: Any, attempt: int) -> None:
        """Prepare it.

        Args:
            process: The driver.
            context: Its Spark context.
            attempt: A number that no attempt of another task has, of those of jobs neither.

        Raises:
            Py4JError, TypeError, ValueError: Spark has no such internals.
        """
        jvm = process.jvm
        spark = jvm.org.apache.spark
        environment = _Environment(process, context)
        memory = environment.part("memoryManager", f"{_SPARK}.memory.MemoryManager")
        self._memory = spark.memory.TaskMemoryManager(memory, attempt)
        self._threads = single(spark, "TaskContext")
        self._option = jvm.scala.Option
        self._none = jvm.scala.Option.empty()
        given = {
            "stageId": 0,
            "stageAttemptNumber": 0,
            "partitionId": 0,
            "taskAttemptId": attempt,
            "attemptNumber": 0,
            "numPartitions": 1,
            "taskMemoryManager": self._memory,
            "metricsSystem": environment.part("metricsSystem", f"{_SPARK}.metrics.MetricsSystem"),
            "taskMetrics": spark.executor.TaskMetrics(),
            "cpus": Decimal(1),
            "resources": single(jvm.scala.collection.immutable, "Map").empty(),
        }
        before = [given[name] for name in _PARAMETERS[:_PROPERTIES]]
        after = [given[name] for name in _PARAMETERS[_PROPERTIES + 1 :]]
        bind = jvm.java.lang.invoke.MethodHandles.insertArguments
        bound = bind(_constructor(process), _PROPERTIES + 1, _array(process, "Object", after))
        self._new = bind(bound, 0, _array(process, "Object", before))
        # A task that reads a broadcast locks it until it is over; who does that has to be known.
        blocks = environment.part("blockManager", f"{_SPARK}.storage.BlockManager")
        blocks.registerTask(attempt)

    @contextmanager
    def task(self, properties: Any) -> Iterator[Any]:
        """Be a task with the settings of a session; gives its ``TaskContext``.

        What fails within is a failure of the task; it is completed however it ends.
        """
        context = self._new.invokeWithArguments([properties])
        self._threads.setTaskContext(context)
        try:
            yield context
        except BaseException as error:
            # What the failure causes in turn is not what has to be told.
            with suppress(Py4JError):
                self._complete(context, error)
            raise
        else:
            context.markTaskCompleted(self._none)
        finally:
            self._memory.cleanUpAllAllocatedMemory()
            self._threads.unset()

    def _complete(self, context: Any, error: BaseException) -> None:
        """Have a task that has failed, or is given up, release what it holds."""
        cause = self._none
        if isinstance(error, Py4JJavaError):
            cause = self._option.apply(error.java_exception)
            with suppress(Py4JJavaError):
                context.markTaskFailed(error.java_exception)
        context.markTaskCompleted(cause)


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
    kinds = _array(process, "Class", [lang.Class.forName("java.math.BigDecimal")])
    converted = lang.Class.forName("scala.math.BigDecimal").getConstructor(kinds)
    filters = _array(process, "invoke.MethodHandle", [lookup.unreflectConstructor(converted)])
    return handles.filterArguments(lookup.unreflectConstructor(made), _CPUS, filters)


def _array(process: DriverProcess, kind: str, values: list[Any]) -> Any:
    """Return a Java array of a class below ``java.lang``."""
    found = process.jvm.java.lang
    for name in kind.split("."):
        found = getattr(found, name)
    array = process.gateway.new_array(found, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array


def single(package: Any, name: str) -> Any:
    """Return the one instance of an object of Scala's."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
