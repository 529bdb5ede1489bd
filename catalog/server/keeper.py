"""A thread that starts the embedded server again whenever it has ended by itself."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from catalog.errors import CatalogUnavailableError
from catalog.server.embedded import EmbeddedServer

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 4.0
"""Pauses between attempts that follow each other closely, each twice as long as the one before."""

_STEADY_S: Final = 5.0
"""How long a server runs that has not failed at once."""


class Keeper:
    """Looks after one embedded server that has been started, until it is to end."""

    def __init__(self, server: EmbeddedServer, on_restart: Callable[[], None]) -> None:
        """Begin; `on_restart` is called when the server has ended, and again when it runs."""
        self._server = server
        self._on_restart = on_restart
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="catalog-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the server, and end the thread."""
        self._stopping.set()
        self._server.stop()
        self._thread.join()

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            self._server.wait()
            if self._stopping.is_set():
                return
            logger.error("the catalog server has ended by itself, and is started again")
            self._on_restart()
            if time.monotonic() - began > _STEADY_S:
                pause_s = _FIRST_PAUSE_S
            elif self._stopping.wait(pause_s):
                return
            else:
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            if self._start():
                logger.info("the catalog server runs again")
                self._on_restart()

    def _start(self) -> bool:
        try:
            return self._server.start_again()
        except (CatalogUnavailableError, OSError) as error:
            detail = getattr(error, "detail", None) or ""
            logger.error("the catalog server does not start: %s %s", error, detail)  # noqa: TRY400
            return False
