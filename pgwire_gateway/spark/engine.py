"""The one Spark driver of a gateway, whatever its interface, and the sessions clients share."""

import logging
import threading
from dataclasses import dataclass

from catalog.pg import sqlstate
from pgwire_gateway.config import SparkApi
from pgwire_gateway.spark.api import Driver, Session
from pgwire_gateway.spark.errors import SparkError, translate
from pgwire_gateway.spark.internals.driver import JvmDriver
from pgwire_gateway.spark.settings import SessionKind, SparkSettings

__all__ = ["SessionKind", "Sessions", "SparkEngine", "SparkSettings"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sessions:
    """The Spark sessions all clients share."""

    small: Session
    """For statements that touch few rows: one task, interpreted expressions."""
    large: Session
    """For everything else: generated code, adaptive execution."""

    def of_kind(self, kind: SessionKind) -> Session:
        """Return the session for a kind of statement."""
        return self.small if kind is SessionKind.SMALL else self.large


class SparkEngine:
    """Starts the driver once, restarts it when it died, hands out sessions."""

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
        if driver is not None and driver.alive:
            return driver
        with self._lock:
            self.start()
            if self._driver is None:
                raise SparkError("Spark has been stopped", sqlstate=sqlstate.ADMIN_SHUTDOWN)
            return self._driver

    def start(self) -> None:
        """Start Spark, unless it runs.

        Raises:
            SparkError: 58000 when it cannot be started.
        """
        with self._lock:
            if self._stopped or (self._driver is not None and self._driver.alive):
                return
            if self._driver is not None:
                logger.warning("Spark was lost and is started again")
                self._driver.kill()
            self._driver = None
            self._sessions = None
            self._driver = _driver(self.settings)

    def stop(self) -> None:
        """Stop Spark."""
        with self._lock:
            self._stopped = True
            driver, self._driver = self._driver, None
            self._sessions = None
        if driver is not None:
            driver.stop()

    def failed(self, driver: Driver) -> None:
        """Take note that a driver does not answer; it is ended, and the next use starts another."""
        with self._lock:
            if self._driver is driver:
                driver.kill()

    def sessions(self) -> Sessions:
        """Return the sessions statements run in (restarts a dead driver).

        They keep to UTC: compiled statements name the time zone where they depend on it.

        Raises:
            SparkLostError: 57P02 when the driver ends just now; the next call starts another.
        """
        driver = self.driver
        with self._lock:
            found = self._sessions
            if found is None or found.small.driver is not driver:
                try:
                    found = Sessions(
                        driver.session(SessionKind.SMALL), driver.session(SessionKind.LARGE)
                    )
                except Exception as error:
                    driver.kill()
                    raise translate(error, driver.told(error)) from error
                self._sessions = found
            return found


def _driver(settings: SparkSettings) -> Driver:
    if settings.api is SparkApi.PUBLIC:
        # PySpark changes what Py4J does in the whole process.
        from pgwire_gateway.spark.public.driver import PublicDriver  # noqa: PLC0415

        return PublicDriver(settings)
    return JvmDriver(settings)
