"""Spark's driver, by PySpark's public interface.

There is one JVM in the life of a process: PySpark starts no other when it was lost.
"""

import logging
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from catalog.pg import sqlstate
from pgwire_gateway.spark.api import JobProgress, Told
from pgwire_gateway.spark.errors import SparkError
from pgwire_gateway.spark.planning_threads import PlanningThreads
from pgwire_gateway.spark.public import failures, zones
from pgwire_gateway.spark.public.running import Groups
from pgwire_gateway.spark.public.session import PublicSession
from pgwire_gateway.spark.settings import SessionKind, SparkSettings, driver_conf, session_conf

_NO_ZONE: Final = "INVALID_TIMEZONE"
_NO_RULES: Final = "java.time.zone.ZoneRulesException"
"""Spark's complaints about names of time zones: with a condition, or where it computes early."""


class PublicDriver:
    """The Spark of this process; see `pgwire_gateway.spark.api.Driver`."""

    def __init__(self, settings: SparkSettings) -> None:
        """Start it.

        Raises:
            SparkError: 58000 when it cannot be started.
        """
        self._settings = settings
        self._is_lost = False
        # It writes down, with a trace, what is raised as well.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        shutil.rmtree(settings.runtime_directory / "scratch", ignore_errors=True)
        if settings.java_home is not None:
            os.environ["JAVA_HOME"] = str(settings.java_home)
        builder = SparkSession.builder
        for name, value in driver_conf(settings).items():
            builder = builder.config(name, value)
        try:
            self._root = builder.getOrCreate()
            self._context = self._root.sparkContext
            self._cores = int(self._context.defaultParallelism)
        except Exception as error:
            raise SparkError(
                "could not start Spark",
                sqlstate=sqlstate.SYSTEM_ERROR,
                detail=str(error) or type(error).__name__,
                hint="When Spark was lost, the gateway has to be started again.",
            ) from error
        self._groups = Groups(self._context)

    @property
    def cores(self) -> int:
        """How many tasks run at the same time."""
        return self._cores

    @property
    def alive(self) -> bool:
        """Whether it has not been found to be lost."""
        return not self._is_lost

    def session(self, kind: SessionKind, **extra: str) -> PublicSession:
        """Return a new session."""
        session = self._root.newSession()
        for name, value in (session_conf(self._settings, kind) | extra).items():
            # What cannot be changed any more has been set when the JVM was started.
            if name not in self._settings.conf or session.conf.isModifiable(name):
                session.conf.set(name, value)
        return PublicSession(self, self._groups, session, kind.value)

    @property
    def planning(self) -> PlanningThreads:
        """The threads that plan, and perhaps compute, what may be given up."""
        return self._groups.planning

    def cancel(self, group: str) -> None:
        """Cancel the running jobs of a group, and those it starts later."""
        self._groups.cancel(group)

    def progress(self, group: str) -> JobProgress:
        """Return how many tasks of a group are done; PySpark does not tell of rows."""
        tracker = self._context.statusTracker()
        done = total = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for number in () if info is None else info.stageIds:
                stage = tracker.getStageInfo(number)
                if stage is not None:
                    done, total = done + stage.numCompletedTasks, total + stage.numTasks
        return JobProgress(tasks_done=done, tasks_total=total)

    def told(self, error: BaseException) -> Told | None:
        """Return what an exception tells of Spark; None for what has another origin."""
        return failures.told(error)

    def zone_steps(self, name: str) -> Sequence[tuple[int, int]] | None:
        """Return when Spark's clocks of a time zone change."""
        try:
            return zones.steps(self._root, name)
        except PySparkException as error:
            if error.getCondition() != _NO_ZONE and _NO_RULES not in str(error):
                raise
            return None

    def kill(self) -> None:
        """Take it for lost."""
        self._is_lost = True

    def stop(self) -> None:
        """Stop Spark; the JVM ends with this process."""
        with suppress(Exception):
            self._root.stop()
