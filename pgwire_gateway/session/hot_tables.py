"""Upkeep of tiered tables with hot rows: their tails are flushed, and rows nobody writes go cold.

All rows of a table go cold at once. Writers have to leave a gap for that: a lock is waited for as
shortly as one of them may be kept waiting, and longer when that has failed, after growing pauses.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from catalog import resident_upkeep, upkeep
from catalog.api import Catalog
from catalog.connections import CatalogSession
from catalog.errors import GatewayError
from catalog.resident_upkeep import HotTable
from pgwire_gateway.config import Config
from pgwire_gateway.session.residency import PASSING

logger = logging.getLogger(__name__)

WAIT_MS: Final = 50
"""How long writers are kept waiting at first."""

LONGEST_WAIT_MS: Final = 1_000
LONGEST_PAUSE_S: Final = 300.0
PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Pause:
    """When the rows of a table are to go cold, after attempts that failed."""

    failures: int
    until_s: float
    """By the monotonic clock."""


class HotTables:
    """Upkeep of the hot rows of all databases."""

    def __init__(
        self, config: Config, catalog: Catalog, flush: Callable[[CatalogSession, int], None]
    ) -> None:
        """Take what writes the tail of a table to its segments."""
        self._config = config
        self._catalog = catalog
        self._flush = flush
        self._pauses: dict[tuple[str, int], _Pause] = {}

    def visit(self, database: str, session: CatalogSession, stopping: Callable[[], bool]) -> None:
        """Look after the tables of one database."""
        for table in resident_upkeep.hot_tables(session):
            if stopping():
                return
            try:
                self._look_after(database, session, table)
            except GatewayError as error:
                session.rollback()
                if error.sqlstate not in PASSING:
                    logger.warning("upkeep of table %d: %s", table.relid, error.message)

    def _look_after(self, database: str, session: CatalogSession, table: HotTable) -> None:
        rested = table.rest_s >= self._config.flush_age_s
        if table.tail_rows >= self._config.flush_rows or (rested and table.tail_rows):
            self._flush(session, table.relid)
        many = table.hot_rows > self._config.hot_rows
        if many or table.rest_s >= self._config.hot_age_s:
            self._cool(database, session, table)

    def _cool(self, database: str, session: CatalogSession, table: HotTable) -> None:
        place, now = (database, table.relid), time.monotonic()
        pause = self._pauses.get(place, _Pause(0, 0.0))
        if now < pause.until_s:
            return
        upkeep.wait_at_most(session, min(WAIT_MS << pause.failures, LONGEST_WAIT_MS))
        try:
            resident_upkeep.cool(session, table.relid)
        except GatewayError:
            wait_s = min(PAUSE_S * 2**pause.failures, LONGEST_PAUSE_S)
            self._pauses[place] = _Pause(min(pause.failures + 1, 16), now + wait_s)
            raise
        finally:
            session.rollback()
            upkeep.wait_at_most(session, upkeep.LOCK_WAIT_MS)
        self._pauses.pop(place, None)
        self._catalog.thawing(database).note_cold(table.relid)
        logger.info("%d rows of table %d went cold", table.hot_rows, table.relid)
