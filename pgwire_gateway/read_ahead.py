"""An iterator that is a few items ahead of its consumer, in a thread of its own."""

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, Generic, TypeVar

ITEMS: Final = 2
"""Items that wait at most: work on one, while another is being taken."""
_POLL_S: Final = 0.2

T = TypeVar("T")


class ReadAhead(Generic[T]):
    """Takes items from a source before they are asked for, at most ``ITEMS`` of them.

    What the source raises is raised again where the item would have been taken. The source is only
    touched by the thread, which has ended when the last item was taken, or by :meth:`close`.
    """

    def __init__(self, source: Iterable[T], name: str) -> None:
        self._source = source
        self._ahead: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(ITEMS)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        """Yield the items of the source, once."""
        while (item := self._ahead.get()) is not None:
            if isinstance(item, BaseException):
                self._thread.join()
                raise item
            yield item[0]
        self._thread.join()

    def close(self) -> None:
        """Stop, and wait for an item that is being made."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            for item in self._source:
                if not self._hand_over((item,)):
                    return
            self._hand_over(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the items are taken
            self._hand_over(error)

    def _hand_over(self, item: tuple[T] | BaseException | None) -> bool:
        """Wait for room for an item; False when nobody wants it any more."""
        while not self._stopped.is_set():
            with suppress(queue.Full):
                self._ahead.put(item, timeout=_POLL_S)
                return True
        return False
