"""Spark's driver, by calls of its own classes."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError

from pgwire_gateway.spark.api import JobProgress, Told
from pgwire_gateway.spark.errors import translate
from pgwire_gateway.spark.internals import failures, zones
from pgwire_gateway.spark.internals.machine import Machine
from pgwire_gateway.spark.internals.session import JvmSession
from pgwire_gateway.spark.settings import SessionKind, SparkSettings, session_conf


class JvmDriver:
    """One life of the JVM; see `pgwire_gateway.spark.api.Driver`."""

    def __init__(self, settings: SparkSettings) -> None:
        """Start the JVM.

        Raises:
            SparkError: 58000 when it cannot be started.
        """
        self._settings = settings
        try:
            self.machine = Machine(settings)
        except (Py4JError, OSError) as error:
            raise translate(error, failures.told(error)) from error

    @property
    def cores(self) -> int:
        """How many tasks run at the same time."""
        return self.machine.cores

    @property
    def alive(self) -> bool:
        """Whether the process runs, and has not begun to end."""
        return self.machine.process.alive

    def session(self, kind: SessionKind, **extra: str) -> JvmSession:
        """Return a new session."""
        conf = session_conf(self._settings, kind) | extra
        java = self.machine.root.newSession()
        settings = java.conf()
        fixed = self.machine.jvm.org.apache.spark.sql.internal.SQLConf
        for name, value in conf.items():
            # What cannot be changed any more has been set when the JVM was started.
            if name not in self._settings.conf or not fixed.isStaticConfigKey(name):
                settings.set(name, value)
        return JvmSession(self, self.machine, java, conf, kind.value)

    def cancel(self, group: str) -> None:
        """Cancel what runs for a group, and the jobs it starts later."""
        self.machine.tasks.cancel(group)
        self.machine.planning.cancel(group)
        self.machine.context.cancelJobGroupAndFutureJobs(group)

    def progress(self, group: str) -> JobProgress | None:
        """Return how far the jobs of a group are; None where Spark does not tell."""
        context = self.machine.context
        found = JobProgress()
        with suppress(Py4JError, OSError):
            tracker, store = context.statusTracker(), context.statusStore()
            for number in tracker.getJobIdsForGroup(group):
                info = tracker.getJobInfo(number)
                for stage in info.get().stageIds() if info.isDefined() else ():
                    if tracker.getStageInfo(stage).isDefined():
                        found = _added(found, store.lastStageAttempt(stage))
            return found
        return None

    def told(self, error: BaseException) -> Told | None:
        """Return what an exception tells of Spark; None for what has another origin."""
        return failures.told(error)

    def zone_steps(self, name: str) -> Sequence[tuple[int, int]] | None:
        """Return when the JVM's clocks of a time zone change."""
        return zones.steps(self.machine, name)

    def kill(self) -> None:
        """End the process at once."""
        self.machine.tasks.close()
        self.machine.planning.close()
        self.machine.process.kill()

    def stop(self) -> None:
        """Stop Spark and end the JVM."""
        self.machine.tasks.close()
        self.machine.planning.close()
        with suppress(Exception):
            self.machine.context.stop()
        self.machine.process.close()


def _added(found: JobProgress, stage: Any) -> JobProgress:
    return JobProgress(
        found.rows_read + int(stage.inputRecords()),
        found.rows_written + int(stage.outputRecords()),
        found.tasks_done + int(stage.numCompleteTasks()),
        found.tasks_total + int(stage.numTasks()),
    )
