"""What exceptions of Py4J tell of Spark."""

from collections.abc import Iterator
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from pgwire_gateway.spark.api import Failure, Told

_MAX_CAUSES: Final = 20
_LOST: Final = Told(is_lost=True)


def told(error: BaseException) -> Told | None:
    """Return what an exception tells of Spark; None for what has another origin."""
    if isinstance(error, Py4JJavaError):
        try:
            return Told(tuple(_failures(error)))
        except (Py4JError, OSError):
            return _LOST
    # Py4J reports a broken connection like a failed call, only without a trace of the JVM.
    if isinstance(error, Py4JError) and "Trace:" not in str(error):
        return _LOST
    return None


def _failures(error: Py4JJavaError) -> Iterator[Failure]:
    """Yield the exception and its causes, outermost first."""
    throwable: Any = error.java_exception
    for _ in range(_MAX_CAUSES):
        if throwable is None:
            return
        condition, parameters = _error_class(throwable)
        yield Failure(condition, throwable.toString() or "", parameters)
        throwable = throwable.getCause()


def _error_class(throwable: Any) -> tuple[str, dict[str, str]]:
    try:
        return throwable.getCondition() or "", dict(throwable.getMessageParameters() or {})
    except Py4JNetworkError:
        raise
    except Py4JError:  # no SparkThrowable: it has no such methods
        return "", {}
