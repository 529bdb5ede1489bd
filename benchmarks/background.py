"""A session that goes on beside what is measured."""

import threading
import time
from collections.abc import Callable
from typing import Self

from benchmarks.client import Client
from tests.support.servers import Address

CONNECT_TIMEOUT_S = 30.0


class Background:
    """Does the same over and over on a connection of its own, while the context lasts."""

    def __init__(
        self, address: Address, turn: Callable[[Client], object], pause_s: float = 0.0
    ) -> None:
        """Name the server, what to do there, and how long to rest after each turn."""
        self.turns = 0
        """How often it has been done, in all contexts."""
        self.seconds = 0.0
        """How long the contexts lasted."""
        self._address = address
        self._turn = turn
        self._pause_s = pause_s
        self._connected = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        self._connected.clear()
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._connected.wait(CONNECT_TIMEOUT_S)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        start = time.perf_counter()
        try:
            with Client(self._address) as client:
                self._connected.set()
                while not self._stopping.is_set():
                    self._turn(client)
                    self.turns += 1
                    self._stopping.wait(self._pause_s)
        except Exception as error:  # noqa: BLE001 - raised when the context ends
            self._error = error
        self.seconds += time.perf_counter() - start
