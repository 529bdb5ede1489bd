"""Upkeep of tiered tables with hot rows: their tails are flushed, and rows nobody writes go cold.

All rows of a table go cold at once. Writers have to leave a gap for that: a lock is waited for as
shortly as one of them may be kept waiting, and longer when that has failed, after growing pauses.

It compares some hot rows with the journal now and then, and always before it lets rows go cold. A
table where they differ keeps what it has: its rows do not go cold, which would leave the journal's
word alone.
"""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from catalog.api import Catalog
from catalog.errors import CatalogUnavailableError, GatewayError
from catalog.failpoints import Failpoint, reach
from catalog.hot import resident_upkeep
from catalog.hot.resident_upkeep import HotTable, KeyTexts
from catalog.pg.sqlstate import DATA_CORRUPTED
from catalog.session.connections import CatalogSession
from catalog.session.names import qualified
from catalog.statements.splitting import RelationName
from catalog.upkeep import candidates as upkeep
from catalog.upkeep import work as upkeep_work
from catalog.upkeep.work import Work
from pgwire_gateway.config import Config
from pgwire_gateway.spark.conservation import require_equal
from pgwire_gateway.upkeep.failures import PASSING
from pgwire_gateway.upkeep.filed_rows import FiledRows
from pgwire_gateway.upkeep.lanes import Lane, Lanes

logger = logging.getLogger(__name__)

WAIT_MS: Final = 50
"""How long writers are kept waiting at first."""

LONGEST_WAIT_MS: Final = 1_000
LONGEST_PAUSE_S: Final = 300.0
PAUSE_S: Final = 1.0

SAMPLE: Final = 20
"""How many hot rows of a table are compared with the journal at a time."""

FILED_SAMPLE: Final = 5
"""How many of these that are in files; what is before a row there has to be decoded."""

COMPARE_S: Final = 10.0
"""Time between two comparisons of a table whose rows are not to go cold."""

HARD_FACTOR: Final = 10
"""When so many times more rows are hot than are to be, no more become hot."""

LONGEST_FULL_PAUSE_S: Final = 4.0
"""The longest pause then: others are waiting for this, or cool the table themselves."""


@dataclass(frozen=True, slots=True)
class _Pause:
    """When the rows of a table are to go cold, after attempts that failed."""

    failures: int
    since_s: float
    until_s: float
    """By the monotonic clock, as is when it began."""


class HotTables:
    """Upkeep of the hot rows of a database."""

    def __init__(
        self,
        database: str,
        config: Config,
        catalog: Catalog,
        filed: FiledRows,
        flush: Callable[[Lane, int], object],
    ) -> None:
        """Take what compares rows with files, and what writes a table's tail to its segments."""
        self._database = database
        self._config = config
        self._catalog = catalog
        self._filed = filed
        self._flush = flush
        self._pauses: dict[int, _Pause] = {}
        self._differing: set[int] = set()
        """Tables that were found to differ from their journals, and have not been found equal."""
        self._compared_s: dict[int, float] = {}
        """When tables were found equal to their journals, by the monotonic clock."""

    def visit(self, lanes: Lanes) -> None:
        """Look after the tables of the database."""
        for table in resident_upkeep.hot_tables(lanes.session()):
            lanes.attend(table.relid, partial(self._attend, table))

    def _attend(self, table: HotTable, lane: Lane) -> None:
        # What keeps a tail from being flushed is no reason for rows to stay hot.
        for step in (
            self._compare_if_due,
            self._flush_if_due,
            self._shed_if_due,
            self._cool_if_due,
        ):
            try:
                step(lane, table)
            except CatalogUnavailableError:
                raise
            except GatewayError as error:
                lane.session.transaction.rollback()
                if error.sqlstate == DATA_CORRUPTED:
                    logger.error("upkeep of table %d: %s", table.relid, error.message)  # noqa: TRY400
                elif error.sqlstate not in PASSING:
                    logger.warning("upkeep of table %d: %s", table.relid, error.message)
            except Exception:
                lane.session.transaction.rollback()
                logger.exception("upkeep of table %d", table.relid)
            if lane.running.cancelled:
                return

    def _compare_if_due(self, lane: Lane, table: HotTable) -> None:
        """Compare some hot rows with the journal.

        Raises:
            GatewayError: XX001 when they differ, which clients see in ``gateway.maintenance``.
        """
        session, place = lane.session, table.relid
        due = place in self._differing or self._is_to_cool(table)
        if not due and self._is_compared(place):
            return
        self._compared_s.pop(place, None)
        found = self._sampled(session, place)
        if found:
            self._differing.add(place)
        elif place in self._differing:
            # A sample that happens to be equal proves nothing: all rows have to be.
            found = self._compared(lane, table)
        if not found and place not in self._differing:
            self._compared_s[place] = time.monotonic()
            return
        name = session.observations.relations([place])[place]
        session.transaction.rollback()
        with Work(session, table.relid, upkeep_work.CHECKING) as work:
            work.begin("looking at rows that differ", len(found))
            require_equal(table.relid, qualified(RelationName(name.schema, name.name)), found)
        self._differing.discard(place)
        self._compared_s[place] = time.monotonic()

    def _sampled(self, session: CatalogSession, relid: int) -> list[KeyTexts]:
        """Return keys whose rows differ from the journal, of some that are chosen at random."""
        found = resident_upkeep.differing_keys(session, relid, SAMPLE)
        session.transaction.rollback()
        return found or self._filed.differing(session, relid, FILED_SAMPLE)

    def _compared(self, lane: Lane, table: HotTable) -> list[KeyTexts]:
        """Return keys whose rows differ from the journal, none only where no row does."""
        found = resident_upkeep.differing_keys(lane.session, table.relid, table.hot_rows + 1)
        lane.session.transaction.rollback()
        return found or self._filed.all_differing(
            lane.session, table.relid, table.hot_rows, lane.running.check
        )

    def _is_compared(self, place: int) -> bool:
        """Return whether a table has been found equal to its journal lately."""
        return time.monotonic() < self._compared_s.get(place, -math.inf) + COMPARE_S

    def _flush_if_due(self, lane: Lane, table: HotTable) -> None:
        rested = table.rest_s >= self._config.flush_age_s
        heavy = table.tail_bytes >= self._config.flush_bytes
        if table.tail_rows >= self._config.flush_rows or (table.tail_rows and (rested or heavy)):
            self._flush(lane, table.relid)

    def _shed_if_due(self, lane: Lane, table: HotTable) -> None:
        full = table.hot_rows > self._most_rows(table)
        if table.unkeyed and full and not self._is_to_cool(table):
            shed = resident_upkeep.shed(lane.session, table.relid)
            logger.info("rows of table %d left its catalog table: %d", table.relid, shed)

    def _cool_if_due(self, lane: Lane, table: HotTable) -> None:
        if not self._is_compared(table.relid):
            return
        full = table.hot_rows > self._most_rows(table) * HARD_FACTOR
        if full and not table.unkeyed:
            resident_upkeep.overheat(lane.session, table.relid)
        if self._is_to_cool(table):
            self._cool(lane, table, LONGEST_FULL_PAUSE_S if full else LONGEST_PAUSE_S)

    def _is_to_cool(self, table: HotTable) -> bool:
        age_s = self._config.hot_age_s if table.asked_age_s is None else table.asked_age_s
        full = table.hot_rows > self._most_rows(table) and not table.unkeyed
        return full or table.rest_s >= age_s

    def _most_rows(self, table: HotTable) -> int:
        return self._config.hot_rows if table.asked_rows is None else table.asked_rows

    def _cool(self, lane: Lane, table: HotTable, longest_s: float) -> None:
        session, place, now = lane.session, table.relid, time.monotonic()
        pause = self._pauses.get(place, _Pause(0, 0.0, 0.0))
        if now < min(pause.until_s, pause.since_s + longest_s):
            return
        upkeep.wait_at_most(session, min(WAIT_MS << pause.failures, LONGEST_WAIT_MS))
        wait_s = min(PAUSE_S * 2**pause.failures, longest_s)
        try:
            with Work(session, table.relid, upkeep_work.COOLING) as work:
                work.pause_s = wait_s
                work.begin("waiting for writers", table.hot_rows)
                resident_upkeep.cool(session, table.relid)
                reach(Failpoint.COOLED)
        except GatewayError:
            self._pauses[place] = _Pause(min(pause.failures + 1, 16), now, now + wait_s)
            raise
        finally:
            session.transaction.rollback()
            upkeep.wait_at_most(session, upkeep.LOCK_WAIT_MS)
        self._pauses.pop(place, None)
        self._catalog.thawing(self._database).note_cold(table.relid)
        logger.info("hot rows of table %d went cold: %d", table.relid, table.hot_rows)
