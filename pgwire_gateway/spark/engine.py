"""The one Spark driver of a gateway, whatever its interface, and the sessions clients share."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from catalog.pg import sqlstate
from pgwire_gateway.config import SparkApi
from pgwire_gateway.spark.api import Driver, Session
from pgwire_gateway.spark.errors import SparkError, translate
from pgwire_gateway.spark.internals.driver import JvmDriver
from pgwire_gateway.spark.settings import SessionKind, SparkSettings
from pgwire_gateway.spark.warehouse import Warehouse

__all__ = ["SessionKind", "Sessions", "SparkEngine", "SparkSettings"]

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.1
"""How often who waits for Spark to start looks whether that is still wanted."""


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
        self.warehouse = Warehouse(settings.warehouse, settings.lenders)
        """The one of this process, which knows what is being written."""
        self._lock = threading.RLock()
        self._driver: Driver | None = None
        self._starting: Future[None] | None = None
        """What whoever needs a driver that is being started waits for."""
        self._sessions: Sessions | None = None
        self._stopped = False

    @property
    def driver(self) -> Driver:
        """The living driver; a dead one is replaced.

        Raises:
            SparkError: 58000 when Spark cannot be started, 57P01 after stop().
        """
        return self._living()

    def _living(self, check: Callable[[], None] | None = None) -> Driver:
        driver = self._driver
        if driver is None or not driver.alive:
            self.start(check)
            driver = self._driver
            if driver is None:
                raise SparkError("Spark has been stopped", sqlstate=sqlstate.ADMIN_SHUTDOWN)
        return driver

    def start(self, check: Callable[[], None] | None = None) -> None:
        """Start Spark, unless it runs.

        Args:
            check: Called time and again meanwhile; what it raises ends the wait. Spark starts on.

        Raises:
            SparkError: 58000 when it cannot be started.
        """
        with self._lock:
            if self._stopped or (self._driver is not None and self._driver.alive):
                return
            starting = self._starting
            if starting is None:
                starting = Future()
                threading.Thread(
                    target=self._start, args=(starting,), name="spark start", daemon=True
                ).start()
                self._starting = starting
        while not starting.done():
            if check is not None:
                check()
            with suppress(NotYetError):
                starting.exception(_LOOK_S)
        starting.result()

    def _start(self, starting: "Future[None]") -> None:
        try:
            lost = self._driver
            if lost is not None:
                logger.warning("Spark was lost and is started again")
                lost.kill()
            driver = _driver(self.settings)
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._started(None)
            starting.set_exception(error)
        else:
            self._started(driver)
            starting.set_result(None)

    def _started(self, driver: Driver | None) -> None:
        with self._lock:
            self._driver, self._sessions, self._starting = driver, None, None

    def stop(self) -> None:
        """Stop Spark; one that is being started, as soon as it can be."""
        with self._lock:
            self._stopped = True
            starting = self._starting
        if starting is not None:
            starting.exception()
        with self._lock:
            driver, self._driver = self._driver, None
            self._sessions = None
        if driver is not None:
            driver.stop()

    def failed(self, driver: Driver) -> None:
        """Take note that a driver does not answer; it is ended, and the next use starts another."""
        with self._lock:
            if self._driver is driver:
                driver.kill()

    def sessions(self, check: Callable[[], None] | None = None) -> Sessions:
        """Return the sessions statements run in (restarts a dead driver).

        They keep to UTC: compiled statements name the time zone where they depend on it.

        Args:
            check: Called time and again while Spark starts; what it raises ends the wait.

        Raises:
            SparkLostError: 57P02 when the driver ends just now; the next call starts another.
        """
        driver = self._living(check)
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
