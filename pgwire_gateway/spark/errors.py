"""Spark failures as PostgreSQL errors, by Spark's error class."""

from catalog import sqlstate
from catalog.errors import GatewayError


class SparkError(GatewayError):
    """Spark could not run a statement."""


class QueryCanceledError(GatewayError):
    """The statement was cancelled (57014)."""

    sqlstate = sqlstate.QUERY_CANCELED


def translate(error: BaseException) -> GatewayError:
    """Return the PostgreSQL error a failure of pyspark or py4j stands for."""
    raise NotImplementedError
