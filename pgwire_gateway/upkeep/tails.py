"""Tails of resident and hot tables: written to files, and merged with what is there.

Runs on administrators' sessions, for upkeep and for VACUUM. No writer waits for it longer than it
takes to find that somebody else has the table.
"""

import logging
import time
from dataclasses import replace

import pyarrow as pa

from catalog.errors import GatewayError
from catalog.failpoints import Failpoint, reach
from catalog.hot import resident_upkeep
from catalog.model import SegmentKind, TableSnapshot
from catalog.pg import sqlstate
from catalog.results import SnapshotRequest, TailRows
from catalog.session.connections import CatalogSession
from catalog.upkeep import work as upkeep_work
from catalog.upkeep.work import Work
from pgwire_gateway.spark.compactor import Compaction, Compactor
from pgwire_gateway.spark.small_files import MAX_BYTES
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.upkeep.failures import OVERTAKEN, UNSTORABLE
from pgwire_gateway.wire_types.settling import (
    captured_lines,
    captured_pieces,
    settle,
    settled_pieces,
)

logger = logging.getLogger(__name__)

MOST_FLUSHES = 3
"""How often a large tail is written to files before what is left of it is merged."""

MOST_COMPACTIONS = 3
"""How often a compaction is begun that a flush, or whoever swaps segments, overtakes."""

OVERTAKEN_S = 0.1
"""How long it waits before."""

MOST_DELTAS = 4
"""Deltas of a resident table that are merged instead of getting another one."""


class Tails:
    """What is done with the tails of resident and hot tables for one statement, or one lane."""

    def __init__(self, compactor: Compactor, running: RunningStatement) -> None:
        """Whatever is done is cancelled with the statement."""
        self._compactor = compactor
        self._running = running

    def flush(self, session: CatalogSession, relid: int) -> bool:
        """Write the tail of a resident or hot table to its segments; writers go on meanwhile.

        False, and nothing is done, for a table that is neither.
        """
        with Work(session, relid, upkeep_work.FLUSH) as work:
            work.begin("reading the tail")
            snapshot, rows = _read_whole(session, relid, MAX_BYTES)
            if snapshot.seen is None:
                return False
            if rows is None:
                work.begin("writing files", snapshot.tail_rows)
                snapshot, written = self._written_in_pieces(session, snapshot)
            elif rows.num_rows:
                tail = self.settled(session, snapshot, rows)
                written = self._merged(work, snapshot, tail) or self.written(work, snapshot, tail)
                written = replace(written, tail_read=rows.num_rows)
            else:
                return True
            reach(Failpoint.FLUSH_WRITTEN)
            work.begin("publishing", snapshot.tail_rows)
            with self._compactor.publishing(written):
                session.transaction.begin()
                resident_upkeep.seize(session, relid)
                self.publish(session, snapshot, written)
                reach(Failpoint.FLUSH_PUBLISHED)
                session.transaction.commit()
        logger.info('flushed %d row versions of "%s"', snapshot.tail_rows, snapshot.table.name)
        return True

    def compact(self, session: CatalogSession, relid: int, *, is_full: bool) -> bool:
        """Merge tail and segments of a resident or hot table into a base and an archive.

        False, and nothing is done, for one that is neither.

        Raises:
            GatewayError: 57014 when cancelled, 55P03 when others keep the table.
        """
        overtaken: GatewayError | None = None
        for _ in range(MOST_COMPACTIONS):
            try:
                return self._compacted_once(session, relid, is_full=is_full)
            except GatewayError as error:
                if error.sqlstate in UNSTORABLE:
                    logger.info("table %d is not compacted: %s", relid, error.message)
                    return True
                if error.sqlstate not in OVERTAKEN:
                    raise
                session.transaction.rollback()
                self._running.check()
                overtaken = error
                time.sleep(OVERTAKEN_S)
        if overtaken is not None and overtaken.sqlstate == sqlstate.LOCK_NOT_AVAILABLE:
            raise overtaken
        return True

    def _compacted_once(self, session: CatalogSession, relid: int, *, is_full: bool) -> bool:
        for _ in range(MOST_FLUSHES):
            if resident_upkeep.tail_bytes(session, relid) <= MAX_BYTES:
                break
            self.flush(session, relid)
        with Work(session, relid, upkeep_work.COMPACTION) as work:
            return self._compacted(session, relid, work, is_full=is_full)

    def _compacted(self, session: CatalogSession, relid: int, work: Work, *, is_full: bool) -> bool:
        work.begin("reading the tail")
        snapshot, rows = _read_whole(session, relid)
        if snapshot.seen is None or rows is None:
            return False
        merged: Compaction | None
        if (
            rows.num_rows
            or snapshot.of_kind(SegmentKind.DELTA)
            or (is_full and snapshot.is_borrowed)
            or snapshot.table.division is not None
        ):
            tail = self.settled(session, snapshot, rows)
            work.begin("merging", snapshot.stored_rows + tail.num_rows)
            merged = self._compactor.compact(
                replace(snapshot, tail_rows=tail.num_rows), tail, self._running
            )
        else:
            work.begin("merging", snapshot.stored_rows)
            merged = self._compactor.join_bases(snapshot, self._running)
        if merged is None or not (rows.num_rows or merged.retired):
            return True
        work.begin("publishing", snapshot.stored_rows + rows.num_rows)
        with self._compactor.publishing(merged):
            session.transaction.begin()
            resident_upkeep.seize(session, relid)
            self.publish(session, snapshot, replace(merged, tail_read=rows.num_rows))
            reach(Failpoint.COMPACTION_PUBLISHED)
            session.transaction.commit()
        return True

    def _merged(self, work: Work, snapshot: TableSnapshot, tail: pa.Table) -> Compaction | None:
        """Merge the tail with the deltas when there are many."""
        if len(snapshot.of_kind(SegmentKind.DELTA)) < MOST_DELTAS:
            return None
        work.begin("merging deltas", tail.num_rows)
        return self._compactor.join(snapshot, tail, self._running) or self._compactor.compact(
            replace(snapshot, tail_rows=tail.num_rows), tail, self._running
        )

    def written(self, work: Work | None, snapshot: TableSnapshot, tail: pa.Table) -> Compaction:
        """Write a settled tail to a segment that is not published yet."""
        if not tail.num_rows:
            return Compaction((), (), snapshot.version, 0)
        if work is not None:
            work.begin("writing files", tail.num_rows)
        return self._compactor.flush(snapshot, tail, self._running)

    def _written_in_pieces(
        self, session: CatalogSession, snapshot: TableSnapshot
    ) -> tuple[TableSnapshot, Compaction]:
        """Write a large tail, as it is now; only what depends on older rows is held as a whole."""
        relid, keyed = snapshot.table.relid, bool(snapshot.table.key)
        first = 0 if keyed else resident_upkeep.identity_block(session, relid)
        with resident_upkeep.tail_read(session, relid) as reading:
            snapshot = reading.snapshot
            if snapshot.seen is None or bool(snapshot.table.key) != keyed:
                raise GatewayError(
                    "the table has become another one", sqlstate=sqlstate.SERIALIZATION_FAILURE
                )
            if resident_upkeep.stands_alone(session, relid):
                # Where they are all there are nothing is left to be merged with them.
                is_first = not snapshot.segments and snapshot.table.division is None
                is_base = is_first and resident_upkeep.has_each_row_once(
                    session, relid, snapshot.tail_rows
                )
                pieces = captured_pieces(snapshot.table, reading.lines, MAX_BYTES)
                return snapshot, self._compactor.flush_pieces(
                    snapshot,
                    settled_pieces(snapshot, pieces, first),
                    self._running,
                    SegmentKind.BASE if is_base else SegmentKind.DELTA,
                )
            rows = captured_lines(snapshot.table, reading.lines)
        written = self.written(None, snapshot, self.settled(session, snapshot, rows))
        return snapshot, replace(written, tail_read=rows.num_rows)

    def settled(
        self,
        session: CatalogSession,
        snapshot: TableSnapshot,
        rows: pa.Table,
    ) -> pa.Table:
        """Return captured rows as versions of rows."""
        first = (
            0
            if snapshot.table.key
            else resident_upkeep.identity_block(session, snapshot.table.relid)
        )
        return settle(
            snapshot,
            rows,
            lambda: self.stored(snapshot),
            first,
        )

    def stored(self, snapshot: TableSnapshot) -> pa.Table:
        """Return the current rows of a table's segments."""
        return self._compactor.live_rows(replace(snapshot, tail_rows=0), self._running)

    def publish(
        self, session: CatalogSession, snapshot: TableSnapshot, written: Compaction
    ) -> None:
        """Publish what holds a tail; `tail_read` is of what was captured."""
        session.journals.replace(
            snapshot.table.relid,
            written.added,
            written.retired,
            snapshot.version,
            expected_state=snapshot.state,
            seen=snapshot.seen,
            tail_read=written.tail_read,
        )


def _read_whole(
    session: CatalogSession, relid: int, most_bytes: int | None = None
) -> tuple[TableSnapshot, pa.Table | None]:
    """Return a table's snapshot and all of its tail, None where it is more bytes than that."""
    with resident_upkeep.tail_read(session, relid) as reading:
        if most_bytes is not None and reading.size_bytes > most_bytes:
            return reading.snapshot, None
        return reading.snapshot, captured_lines(reading.snapshot.table, reading.lines)


def read(session: CatalogSession, relid: int) -> tuple[TableSnapshot, TailRows]:
    """Return a table's snapshot and its tail."""
    result = session.observations.snapshot([SnapshotRequest(relid)])
    return result.snapshots[relid], result.tails[relid]
