"""Row groups that stay decoded, as single rows of them are asked for again and again.

Whoever changes rows one after the other often finds them next to each other; decoding what is
before a row in its group takes milliseconds each time.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa

MOST_BYTES: Final = 128 << 20
"""Bytes of all groups that are kept."""

MOST_PLACES: Final = 256
"""Groups of which it is remembered that they were asked for: more than those that may be kept.

What is asked for more seldom would be gone before it is asked for again.
"""

Place = tuple[Path, int]
"""A file, which never changes, and the number of a row group in it."""


class DecodedGroups:
    """Those that were asked for last, as many as fit; a group is kept from the second time on."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """Keep none yet."""
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[Place, pa.Table] = OrderedDict()
        self._asked: OrderedDict[Place, None] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, place: Place, decode: Callable[[], pa.Table]) -> pa.Table | None:
        """Return a whole group; None where it is asked for the first time.

        Args:
            place: The group.
            decode: Reads it, always with the same columns.
        """
        with self._lock:
            if place in self._kept:
                self._kept.move_to_end(place)
                return self._kept[place]
            if place not in self._asked:
                self._asked[place] = None
                if len(self._asked) > MOST_PLACES:
                    self._asked.popitem(last=False)
                return None
        group = decode()
        with self._lock:
            if group.nbytes > self._most_bytes:
                return group
            if place not in self._kept:
                self._kept[place] = group
                self._bytes += group.nbytes
            while self._bytes > self._most_bytes:
                gone, rows = self._kept.popitem(last=False)
                self._bytes -= rows.nbytes
                self._asked.pop(gone, None)
        return group
