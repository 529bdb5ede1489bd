"""How far the jobs of a statement are, by what Spark counts of its tasks."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError

from pgwire_gateway.spark.statements import RunningStatement


@dataclass(frozen=True, slots=True)
class JobProgress:
    """What the jobs of one group have done so far."""

    rows_read: int = 0
    """From files."""
    rows_written: int = 0
    """To files."""
    tasks_done: int = 0
    tasks_total: int = 0
    """Of the stages that have begun."""


def progress_of(statement: RunningStatement) -> JobProgress | None:
    """Return how far a statement's jobs are; None where it has none, or Spark does not tell."""
    job = statement.job
    if job is None:
        return None
    driver, group = job
    found = JobProgress()
    with suppress(Py4JError, OSError):
        tracker, store = driver.context.statusTracker(), driver.context.statusStore()
        for number in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(number)
            for stage in info.get().stageIds() if info.isDefined() else ():
                if tracker.getStageInfo(stage).isDefined():
                    found = _added(found, store.lastStageAttempt(stage))
        return found
    return None


def _added(found: JobProgress, stage: Any) -> JobProgress:
    return JobProgress(
        found.rows_read + int(stage.inputRecords()),
        found.rows_written + int(stage.outputRecords()),
        found.tasks_done + int(stage.numCompleteTasks()),
        found.tasks_total + int(stage.numTasks()),
    )
