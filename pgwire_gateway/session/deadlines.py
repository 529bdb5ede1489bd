"""What is done when its time has come, and most often called off before: one thread for all."""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

_FEW: Final = 64
"""Called off ones that are not worth making the queue anew."""


class Deadline:
    """Something that is going to be done, until it is called off."""

    def __init__(self, queue: "Deadlines", action: Callable[[], object]) -> None:
        self._queue = queue
        self.action: Callable[[], object] | None = action
        """What is done; None when it has been, or has been called off."""

    def cancel(self) -> None:
        """Call it off; harmless afterwards."""
        self._queue.call_off(self)


class Deadlines:
    """Actions in the order of their times, and the thread that waits for them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: list[tuple[float, int, Deadline]] = []
        self._numbers = itertools.count()
        self._called_off = 0
        self._thread: threading.Thread | None = None

    def after(self, seconds: float, action: Callable[[], object]) -> Deadline:
        """Do something so many seconds from now, in a thread of its own."""
        deadline = Deadline(self, action)
        entry = (time.monotonic() + seconds, next(self._numbers), deadline)
        with self._changed:
            heapq.heappush(self._queue, entry)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="deadlines", daemon=True)
                self._thread.start()
            elif self._queue[0] is entry:
                self._changed.notify()
        return deadline

    def call_off(self, deadline: Deadline) -> None:
        """Forget something that was to be done."""
        with self._changed:
            if deadline.action is None:
                return
            deadline.action = None
            self._called_off += 1
            if self._called_off > max(_FEW, len(self._queue) // 2):
                self._queue = [entry for entry in self._queue if entry[2].action is not None]
                heapq.heapify(self._queue)
                self._called_off = 0

    def _run(self) -> None:
        while True:
            action = self._next_due()
            try:
                # An action may take as long as it likes without delaying the next one.
                threading.Thread(target=action, daemon=True).start()
            except RuntimeError:  # there are too many threads
                self._act(action)

    @staticmethod
    def _act(action: Callable[[], object]) -> None:
        try:
            action()
        except Exception:
            logger.exception("could not do what was due")

    def _next_due(self) -> Callable[[], object]:
        with self._changed:
            while True:
                remaining = self._queue[0][0] - time.monotonic() if self._queue else None
                if remaining is None or remaining > 0:
                    self._changed.wait(remaining)
                    continue
                deadline = heapq.heappop(self._queue)[2]
                if deadline.action is None:
                    self._called_off -= 1
                    continue
                action, deadline.action = deadline.action, None
                return action


PROCESS: Final = Deadlines()
"""Those of this process."""
