"""What exceptions of PySpark tell of Spark."""

import re
from typing import Final

from pyspark.errors import PySparkException

from pgwire_gateway.spark.api import Failure, Told

_CONNECTION: Final = "py4j"
"""PySpark lets through what its connection to the JVM raises; its errors are of this package."""
_CAUSE: Final = re.compile(r"^(?:Caused by|): [\w.$]+: \[([A-Z0-9_.]+)\] .*$", re.MULTILINE)
"""A cause with a condition, in a trace of the JVM."""
_TRACE: Final = "\n\tat "


def told(error: BaseException) -> Told | None:
    """Return what an exception tells of Spark; None for what has another origin."""
    text = str(error)
    if isinstance(error, PySparkException):
        parameters = error.getMessageParameters() or {}
        return Told((Failure(error.getCondition() or "", text, parameters),))
    if type(error).__module__.partition(".")[0] != _CONNECTION:
        return None
    # A failed call has a trace of the JVM; a broken connection has none.
    if _TRACE not in text:
        return Told(is_lost=True)
    causes = [Failure(found[1], found[0], {}) for found in _CAUSE.finditer(text)]
    return Told((*causes, Failure("", text, {})))
