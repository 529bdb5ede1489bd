"""Random cursors of a history, opened, read and left open while other sessions go on.

Their rows have an order, so that two servers which are right are at the same row after each FETCH.
"""

import random
from collections.abc import Sequence
from typing import Final

NAMES: Final = ("c1", "c2", "C 3")

_QUERIES: Final = (
    "SELECT id, n, label, at, f, doc FROM h WHERE n IS NULL OR n > {} ORDER BY id",
    "SELECT * FROM h WHERE id BETWEEN {} AND 150 ORDER BY id DESC",
    "SELECT h.id, p.b, h.day FROM h JOIN pairs p ON p.c = h.id ORDER BY h.id, p.a, p.b",
    "SELECT * FROM pairs ORDER BY a, b",
    "SELECT k, v FROM child WHERE v <> {} ORDER BY k",
    "SELECT k, small, c, clock, moment, span FROM kinds ORDER BY k",
    "SELECT * FROM parts ORDER BY k, region",
    "SELECT label, count(*) FROM bare GROUP BY label ORDER BY label",
    "SELECT flag, count(*), sum(amount), max(at) FROM h GROUP BY flag ORDER BY flag",
)

_FORWARD: Final = ("NEXT", "1", "3", "FORWARD 40", "ALL", "FORWARD 0")

_ANYWHERE: Final = ("PRIOR", "FIRST", "LAST", "ABSOLUTE 5", "ABSOLUTE -2", "RELATIVE -1", "-3")
"""For these a cursor has to be one that scrolls."""


class CursorStatements:
    """A source of such statements."""

    def __init__(self, chance: random.Random) -> None:
        """Draw from a source of chance."""
        self._chance = chance

    def next(self, opened: Sequence[str], *, in_transaction: bool) -> str:
        """Return a statement on a cursor.

        Args:
            opened: Names of the session's cursors.
            in_transaction: Whether the session has a transaction block open; outside of one
                PostgreSQL opens only cursors that stay.
        """
        unused = [name for name in NAMES if name not in opened]
        if unused and (not opened or self._chance.random() < 0.2):
            return self._declare(self._chance.choice(unused), in_transaction=in_transaction)
        name = self._chance.choice(list(opened))
        what = self._chance.choices(("FETCH", "MOVE", "CLOSE"), (8, 2, 1))[0]
        if what == "CLOSE":
            return f'CLOSE "{name}"'
        # One that does not scroll fails, and with it the transaction.
        ways = _ANYWHERE if self._chance.random() < 0.25 else _FORWARD
        return f'{what} {self._chance.choice(ways)} FROM "{name}"'

    def _declare(self, name: str, *, in_transaction: bool) -> str:
        scrolls = self._chance.choice(("SCROLL", "SCROLL", "NO SCROLL"))
        stays = not in_transaction or self._chance.random() < 0.3
        holds = "WITH HOLD" if stays else "WITHOUT HOLD"
        query = self._chance.choice(_QUERIES).format(self._chance.randrange(100))
        return f'DECLARE "{name}" {scrolls} CURSOR {holds} FOR {query}'
