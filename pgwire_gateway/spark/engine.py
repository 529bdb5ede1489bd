"""The one Spark driver of a gateway: its JVM, its settings and the sessions clients share."""

import logging
import shutil
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError

from catalog.pg import sqlstate
from pgwire_gateway.spark.errors import SparkError, translate
from pgwire_gateway.spark.jvm import DriverProcess
from pgwire_gateway.spark.settings import SessionKind, SparkSettings, driver_conf, session_conf

__all__ = ["SessionKind", "Sessions", "SparkEngine", "SparkSession", "SparkSettings"]

logger = logging.getLogger(__name__)

_KEPT_INDICES = 1000
_JOB_GROUP = "spark.jobGroup.id"
_POOL = "spark.scheduler.pool"
# Naming the call site spares Spark a walk over the stack for every RDD it makes.
_CALL_SITE = {"callSite.short": "statement", "callSite.long": "statement"}


class SparkSession:
    """A session of the JVM with the settings tasks run under."""

    def __init__(self, driver: "Driver", java: Any, conf: dict[str, str], pool: str) -> None:
        self.driver = driver
        self.java = java
        """The JVM's SparkSession."""
        self.conf = conf
        self._properties = driver.properties({**conf, **_CALL_SITE, _POOL: pool})

    def enter(self, job_group: str) -> None:
        """Make this thread's jobs run under the session's settings and in a group to cancel."""
        local = self.driver.local
        context = self.driver.context
        if getattr(local, "session", None) is not self:
            context.setLocalProperties(self._properties.clone())
            self.driver.activate(self)
            local.session = self
        context.setLocalProperty(_JOB_GROUP, job_group)

    def activate(self) -> None:
        """Make this the session whose settings the JVM uses for work of this thread."""
        self.driver.activate(self)

    @contextmanager
    def views(self, frames: Mapping[str, Any]) -> Iterator[dict[str, str]]:
        """Give frames names queries can use while the context lasts; yields them by given name."""
        names = {name: f"frame_{uuid.uuid4().hex}" for name in frames}
        for name, frame in frames.items():
            frame.createOrReplaceGlobalTempView(names[name])
        try:
            yield {name: f"global_temp.{view}" for name, view in names.items()}
        finally:
            for view in names.values():
                self.java.catalog().dropGlobalTempView(view)

    def sql(self, text: str) -> Any:
        """Return the analysed DataFrame of a query."""
        return self.java.sql(text)


@dataclass(frozen=True, slots=True)
class Sessions:
    """The Spark sessions all clients share."""

    small: SparkSession
    """For statements that touch few rows: one task, interpreted expressions."""
    large: SparkSession
    """For everything else: generated code, adaptive execution."""

    def of_kind(self, kind: SessionKind) -> SparkSession:
        """Return the session for a kind of statement."""
        return self.small if kind is SessionKind.SMALL else self.large


class Driver:
    """One life of the JVM: everything that dies with it."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        directory = settings.runtime_directory
        shutil.rmtree(directory / "scratch", ignore_errors=True)
        self.process = DriverProcess(driver_conf(settings), settings.java_home, directory)
        self.jvm = self.process.jvm
        self.local = threading.local()
        self._indices: dict[int, Any] = {}
        try:
            self._sessions = self.jvm.org.apache.spark.sql.classic.SparkSession
            self._root = self._sessions.builder().getOrCreate()
        except BaseException:
            self.process.kill()
            raise
        self.context = self._root.sparkContext()
        self.cores = int(self.context.defaultParallelism())
        if settings.is_local:
            self._forget_hadoop_defaults()

    def properties(self, values: dict[str, str]) -> Any:
        """Return Java properties."""
        result = self.jvm.java.util.Properties()
        for name, value in values.items():
            result.setProperty(name, value)
        return result

    def session(self, kind: SessionKind, **extra: str) -> SparkSession:
        """Return a new session."""
        conf = session_conf(self._settings, kind) | extra
        java = self._root.newSession()
        settings = java.conf()
        fixed = self.jvm.org.apache.spark.sql.internal.SQLConf
        for name, value in conf.items():
            # What cannot be changed any more has been set when the JVM was started.
            if name not in self._settings.conf or not fixed.isStaticConfigKey(name):
                settings.set(name, value)
        return SparkSession(self, java, conf, kind.value)

    def activate(self, session: SparkSession) -> None:
        """Make a session the active one of this thread in the JVM."""
        if getattr(self.local, "active", None) is not session:
            self._sessions.setActiveSession(session.java)
            self.local.active = session

    def strings(self, values: Sequence[str]) -> Any:
        """Return a Java array of strings."""
        array = self.process.gateway.new_array(self.jvm.java.lang.String, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array

    def indices(self, count: int) -> Any:
        """Return a Java array of the integers below a number; do not change it."""
        found = self._indices.get(count)
        if found is None:
            found = self.process.gateway.new_array(self.jvm.int, count)
            for index in range(1, count):
                found[index] = index
            if count < _KEPT_INDICES:
                self._indices[count] = found
        return found

    def cancel(self, job_group: str) -> None:
        """Cancel the running jobs of a group, and those it starts later."""
        self.context.cancelJobGroupAndFutureJobs(job_group)

    def _forget_hadoop_defaults(self) -> None:
        """Drop a thousand Hadoop defaults that each scan would copy, serialise and send to tasks.

        Hadoop's code knows its own defaults; local files need no others. What the operator's files
        or ``spark.hadoop.*`` set is kept.
        """
        # Loading this class adds mapred-default.xml, which would undo what follows.
        self.jvm.org.apache.hadoop.mapred.JobConf(False)
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


class SparkEngine:
    """Starts the JVM once, restarts it when it died, hands out sessions."""

    def __init__(self, settings: SparkSettings) -> None:
        self.settings = settings
        self._lock = threading.RLock()
        self._driver: Driver | None = None
        self._sessions: Sessions | None = None
        self._stopped = False

    @property
    def driver(self) -> Driver:
        """The living driver; a dead one is replaced.

        Raises:
            SparkError: 58000 when Spark cannot be started, 57P01 after stop().
        """
        driver = self._driver
        if driver is not None and driver.process.alive:
            return driver
        with self._lock:
            self.start()
            if self._driver is None:
                raise SparkError("Spark has been stopped", sqlstate=sqlstate.ADMIN_SHUTDOWN)
            return self._driver

    def start(self) -> None:
        """Start the JVM and the Spark context, unless they run."""
        with self._lock:
            if self._stopped or (self._driver is not None and self._driver.process.alive):
                return
            if self._driver is not None:
                logger.warning("Spark was lost and is started again")
                self._driver.process.kill()
            self._driver = None
            self._sessions = None
            try:
                self._driver = Driver(self.settings)
            except (Py4JError, OSError) as error:
                raise translate(error) from error

    def stop(self) -> None:
        """Stop Spark and end the JVM."""
        with self._lock:
            self._stopped = True
            driver, self._driver = self._driver, None
            self._sessions = None
        if driver is not None:
            with suppress(Exception):
                driver.context.stop()
            driver.process.close()

    def failed(self, driver: Driver) -> None:
        """Take note that a driver does not answer; it is ended, and the next use starts another."""
        with self._lock:
            if self._driver is driver:
                driver.process.kill()

    def sessions(self) -> Sessions:
        """Return the sessions statements run in (restarts a dead JVM).

        They keep to UTC: compiled statements name the time zone where they depend on it.

        Raises:
            SparkLostError: 57P02 when the JVM ends just now; the next call starts another.
        """
        driver = self.driver
        with self._lock:
            found = self._sessions
            if found is None or found.small.driver is not driver:
                try:
                    found = Sessions(
                        driver.session(SessionKind.SMALL), driver.session(SessionKind.LARGE)
                    )
                except (Py4JError, OSError) as error:
                    driver.process.kill()
                    raise translate(error) from error
                self._sessions = found
            return found
