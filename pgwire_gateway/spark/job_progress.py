"""How far the jobs of a statement are, by what Spark counts of its tasks."""

from pgwire_gateway.spark.api import JobProgress
from pgwire_gateway.spark.statements import RunningStatement

__all__ = ["JobProgress", "progress_of"]


def progress_of(statement: RunningStatement) -> JobProgress | None:
    """Return how far a statement's jobs are; None where it has none, or Spark does not tell."""
    job = statement.job
    if job is None:
        return None
    driver, group = job
    return driver.progress(group)
