"""Resident tables that a session has found not to be empty, so that it need not look again."""

import time
from typing import Final

from pgwire_gateway.session.shortcuts import Kept

OCCUPIED_S: Final = 1.0
"""How long a table that was found with rows is taken for one that has some."""


class OccupiedTables:
    """Tables with rows, or that have to stay resident; a table may lose both at any time."""

    def __init__(self) -> None:
        """None has been looked at."""
        self._found_s = Kept[int, float]()
        """When each was found so, by the monotonic clock."""

    def may_lack(self, relid: int) -> bool:
        """Return whether a table has to be looked at."""
        return time.monotonic() - self._found_s.get(relid, -OCCUPIED_S) >= OCCUPIED_S

    def add(self, relid: int) -> None:
        """Note that a table has rows, or has to stay resident."""
        self._found_s.keep(relid, time.monotonic())
