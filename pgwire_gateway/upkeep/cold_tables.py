"""Upkeep of tiered tables without hot rows: tails go to files, and what readers merge is compacted.

Writers go on meanwhile: when one of them, VACUUM or TRUNCATE comes first, what was written is
removed again.
"""

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa

from catalog.errors import CatalogUnavailableError, GatewayError
from catalog.failpoints import Failpoint, reach
from catalog.hot import resident_upkeep
from catalog.model import SegmentKind, TableSnapshot
from catalog.pg.sqlstate import SERIALIZATION_FAILURE
from catalog.session.connections import CatalogSession
from catalog.upkeep import candidates
from catalog.upkeep import work as upkeep_work
from catalog.upkeep.work import Work
from pgwire_gateway.config import Config
from pgwire_gateway.spark.compactor import Compaction, Compactor
from pgwire_gateway.spark.small_files import MAX_BYTES
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.upkeep.failures import PASSING, Failures
from pgwire_gateway.upkeep.lanes import Lane, Lanes
from pgwire_gateway.wire_types.settling import captured_pieces, settled_pieces
from pgwire_gateway.wire_types.versions import storage_schema

logger = logging.getLogger(__name__)

MOST_SEGMENTS: Final = 32
"""A table with more bases than this has those of like size joined, one with more deltas these."""

NAP_S = 10.0
"""Time between two looks at the segments of all tables."""


class ColdTables:
    """Upkeep of the tiered tables of a database that have no hot rows."""

    def __init__(self, config: Config, compactor: Compactor) -> None:
        """Nothing has been looked at yet."""
        self._config = config
        self._compactor = compactor
        self._written: set[int] = set()
        """Tables that somebody was writing when their tails were to be flushed."""
        self._failures = Failures()
        """Tables that could not be compacted, or had nothing that can be."""
        self._looked_s = -math.inf
        """When the segments of all tables were looked at, by the monotonic clock."""

    def flush_all(self, lanes: Lanes) -> list[int]:
        """Write large tails to files; return the tables that are to come last."""
        large = candidates.large_tails(
            lanes.session(), self._config.flush_rows, self._config.flush_bytes
        )
        written = self._written.intersection(large)
        self.flush_each([relid for relid in large if relid not in written], lanes)
        return sorted(written)

    def flush_each(self, relids: list[int], lanes: Lanes) -> None:
        """Write the tails of tables to files."""
        for relid in relids:
            lanes.attend(relid, partial(self._flush_noting, relid))

    def compact_all(self, lanes: Lanes) -> None:
        """Compact tables whose readers have much to merge."""
        if not self._config.autovacuum or time.monotonic() < self._looked_s + NAP_S:
            return
        self._looked_s = time.monotonic()
        worn = candidates.worn_tables(
            lanes.session(),
            self._config.autovacuum_threshold,
            self._config.autovacuum_scale_factor,
            MOST_SEGMENTS,
        )
        self._failures.retain(worn)
        for relid, is_outworn in worn.items():
            if not self._failures.keep_away(relid, is_outworn):
                lanes.attend(
                    relid, partial(self._compact_noting, relid, is_outworn), is_heavy=is_outworn
                )

    def flush(self, session: CatalogSession, relid: int, running: RunningStatement) -> None:
        """Write the tail of a table to files.

        Raises:
            GatewayError: 57014 when cancelled, 55P03 when somebody writes the table as a whole.
        """
        started = time.monotonic()
        with Work(session, relid, upkeep_work.FLUSH) as work:
            work.begin("reading the tail")
            # What is written for nothing would be written again at each visit.
            candidates.await_writer(session, relid)
            with resident_upkeep.tail_read(session, relid) as reading:
                snapshot = reading.snapshot
                if snapshot.seen is not None:
                    return  # which is another road from now on
                pieces = captured_pieces(snapshot.table, reading.lines, MAX_BYTES)
                flushed = self._compactor.flush_pieces(
                    snapshot, settled_pieces(snapshot, pieces, 0), running
                )
            reach(Failpoint.FLUSH_WRITTEN)
            work.begin("publishing", snapshot.tail_rows)
            try:
                with self._swapped(session, snapshot, flushed):
                    reach(Failpoint.FLUSH_PUBLISHED)
            except GatewayError as error:
                # Another flush, VACUUM or TRUNCATE came first.
                if error.sqlstate != SERIALIZATION_FAILURE:
                    raise
                return
        logger.info(
            'flushed %d row versions of "%s" in %.1f s',
            snapshot.tail_rows,
            snapshot.table.name,
            time.monotonic() - started,
        )

    def _flush_noting(self, relid: int, lane: Lane) -> None:
        """Write a table's tail to files; note who is to come last as others are writing it."""
        self._written.discard(relid)
        try:
            self.flush(lane.session, relid, lane.running)
        except CatalogUnavailableError:
            raise
        except GatewayError as error:
            lane.session.transaction.rollback()
            if error.sqlstate in PASSING:
                self._written.add(relid)
            else:
                logger.warning("upkeep of table %d: %s", relid, error.message)

    def _compact_noting(self, relid: int, is_outworn: bool, lane: Lane) -> None:
        """Compact a table; one that could not be is left alone for some time."""
        try:
            if self._compact(lane, relid, is_outworn=is_outworn):
                self._failures.forget(relid)
            else:
                self._failures.note(relid, is_outworn)
        except CatalogUnavailableError:
            raise
        except GatewayError as error:
            lane.session.transaction.rollback()
            self._failures.note(relid, is_outworn)
            if error.sqlstate not in PASSING:
                logger.warning("compaction of table %d: %s", relid, error.message)

    def _compact(self, lane: Lane, relid: int, *, is_outworn: bool) -> bool:
        """Merge what a table has into a new base, or small segments; False where there are none."""
        session = lane.session
        started = time.monotonic()
        if resident_upkeep.tail_bytes(session, relid) > MAX_BYTES:
            self.flush(session, relid, lane.running)
        with Work(session, relid, upkeep_work.COMPACTION) as work:
            work.begin("reading the tail")
            candidates.await_writer(session, relid)
            with resident_upkeep.tail_read(session, relid) as reading:
                snapshot = reading.snapshot
                if snapshot.seen is not None or reading.size_bytes > MAX_BYTES:
                    return True  # hot rows, or more of a tail, came first
                pieces = captured_pieces(snapshot.table, reading.lines, 2 * MAX_BYTES)
                empty = storage_schema(snapshot.table).empty_table()
                tail = pa.concat_tables([empty, *settled_pieces(snapshot, pieces, 0)])
            work.begin("merging", snapshot.stored_rows + tail.num_rows)
            compacted = self._merged(
                replace(snapshot, tail_rows=tail.num_rows), tail, lane, is_outworn=is_outworn
            )
            if compacted is None or not compacted.retired:
                return False
            work.begin("publishing", snapshot.stored_rows)
            with self._swapped(session, snapshot, compacted):
                reach(Failpoint.COMPACTION_PUBLISHED)
        taken_s = time.monotonic() - started
        logger.info('compacted "%s" in %.1f s', snapshot.table.name, taken_s)
        return True

    def _merged(
        self, snapshot: TableSnapshot, tail: pa.Table, lane: Lane, *, is_outworn: bool
    ) -> Compaction | None:
        """Write what is to take the place of segments; None where nothing is worth it."""
        if is_outworn:
            return self._compactor.compact(snapshot, tail, lane.running)
        if len(snapshot.of_kind(SegmentKind.DELTA)) > MOST_SEGMENTS:
            return self._compactor.join(snapshot, tail, lane.running)
        return self._compactor.join_bases(snapshot, lane.running)

    @contextmanager
    def _swapped(
        self, session: CatalogSession, snapshot: TableSnapshot, written: Compaction
    ) -> Iterator[None]:
        """Swap segments for what holds their rows, and commit when the context is left.

        Raises:
            GatewayError: 40001 when others came first; nothing has been changed.
        """
        relid = snapshot.table.relid
        try:
            with self._compactor.publishing(written):
                session.transaction.begin()
                resident_upkeep.seize(session, relid)
                session.journals.replace(
                    relid,
                    written.added,
                    written.retired,
                    written.tail_version if written.tail_read else None,
                    expected_state=snapshot.state,
                    tail_read=written.tail_read,
                )
                yield
                session.transaction.commit()
        except GatewayError:
            session.transaction.rollback()
            raise
