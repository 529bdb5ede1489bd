"""How row versions get into a journal: few into the tail, many into a segment, keys checked."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import GatewayError
from catalog.failpoints import Failpoint, reach
from catalog.hot.hot_keys import Unsearched
from catalog.journal.layout import IDENTITY
from catalog.model import JournalTable, Segment, SegmentKind, UniqueKey
from catalog.pg import sqlstate as codes
from catalog.results import CaptureReceipt
from catalog.session import names, residency
from catalog.session.residency import Loading
from pgwire_gateway.rows import key_changes, merge_conflicts, text_rows, unique_keys
from pgwire_gateway.rows.key_changes import ChangedKeys
from pgwire_gateway.rows.row_constraints import RowConstraints
from pgwire_gateway.rows.row_search import look_up
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation
from pgwire_gateway.session.observer import Observer
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.conservation import require_all
from pgwire_gateway.spark.spools import Spool
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.spark.writer import SegmentWriter
from pgwire_gateway.wire_types.catalog_rows import (
    csv_batches,
    input_columns,
    key_texts,
    key_values,
    row_versions,
)
from pgwire_gateway.wire_types.changed_rows import ChangedRows
from rewrite import keys
from rewrite.command import Command
from rewrite.context import ParameterValue
from rewrite.errors import UnsupportedError
from rewrite.needs.results import Refusal
from rewrite.results import ACTION, RowChange, SparkQuery

LONGEST_S: Final = 10.0
"""How long code of others is waited for that keeps a new table from being tiered."""

PAUSE_S: Final = 0.05
"""How long between two looks whether it still runs."""

ASKED_AT_ONCE: Final = 10_000
"""Spark is asked for at most this many keys by one query."""


def begin_load(session: ClientSession, relid: int, command: str) -> bool:
    """Make an empty resident table tiered for a large load; False where it stays resident.

    What is copied into it from now on is settled by its JournalWriter.
    """
    return _begun(session, relid, command) is Loading.BEGUN


def begin_new(call: Invocation, relid: int, command: str) -> bool:
    """Make a table tiered that this transaction has made; False where it has to stay resident.

    Waits for code of others that may come to any table.

    Raises:
        GatewayError: 55P03 when that runs for long, 57014 when cancelled.
    """
    deadline = time.monotonic() + LONGEST_S
    while (begun := _begun(call.session, relid, command)) is Loading.BUSY:
        call.running.check()
        if time.monotonic() > deadline:
            raise GatewayError(
                "could not make a new table tiered: a function or a DO block has been running for"
                " long",
                sqlstate=codes.LOCK_NOT_AVAILABLE,
                hint="Run the statement again when it has ended.",
            )
        time.sleep(PAUSE_S)
    return begun is Loading.BEGUN


def _begun(session: ClientSession, relid: int, command: str) -> Loading:
    begun = residency.begin_load(session.catalog, relid)
    if begun is Loading.BEGUN:
        session.transaction.expect_implicit()
        session.catalog.writes.begin_write([relid], command=command)
        session.transaction.written.add(relid)
    return begun


class JournalWriter:
    """Writes of one statement to one journaled table, inside the session's transaction."""

    def __init__(self, session: ClientSession, relid: int, statement: RunningStatement) -> None:
        self._session = session
        self._services = session.services
        self._relid = relid
        self._statement = statement
        self._observer = Observer(session)
        session.transaction.written.add(relid)

    def settle(self, receipt: CaptureReceipt) -> tuple[Segment, ...]:
        """Finish an INSERT or COPY whose rows PostgreSQL evaluated.

        Returns the segments the rows went to; none when the tail has them.

        Raises:
            GatewayError: 23505 when a key exists already, XX001 when rows have got lost.
        """
        reach(Failpoint.CAPTURED)
        if receipt.captured:
            self.require_new_keys(receipt)
            self.require_new_values(receipt.values)
            return ()
        return self._store_drained(receipt.count)

    def require_new_values(self, values: Sequence[Sequence[Sequence[Any]]]) -> None:
        """Refuse values of unique keys, in transfer forms, that the table held before (23505)."""
        unique_keys.require_new(self._session, self._relid, self._statement, values)

    def require_new_keys(self, receipt: CaptureReceipt) -> None:
        """Refuse keys the table already held (23505) where the catalog could not tell.

        The rows being written are in the tail already. So only segments are asked, or, where they
        hold newer versions of rows than the tail, everything older than these rows.
        """
        unresolved = receipt.unresolved
        if not unresolved:
            return
        if receipt.tail_outdated:
            now = self._observer.observe([self._relid])
            observation = now.older_than(self._relid, receipt.version)
        else:
            observation = self._observer.observe_segments(self._relid)
        snapshot = observation.result.snapshots[self._relid]
        types = _key_types(snapshot.table)
        wanted = [tuple(map(ParameterValue, types, key_values(types, key))) for key in unresolved]
        self._refuse_found(keys.compile_key_lookup(snapshot, wanted), observation)

    def require_kept(self, written: Unsearched) -> None:
        """Refuse rows written beside hot ones whose keys and values the journal holds (23505)."""
        if not written.keys and not any(written.values):
            return
        now = self._observer.observe([self._relid])
        self._require_absent(written.keys, written.mark, now)
        unique_keys.require_new(self._session, self._relid, self._statement, written.values, now)

    def _require_absent(
        self, inserted: Sequence[tuple[Any, ...]], version: int, now: Observation
    ) -> None:
        before = now.older_than(self._relid, version)
        try:
            types = _key_types(before.result.snapshots[self._relid].table)
            wanted = [key_values(types, key) for key in inserted]
            found = look_up(self._services.lookups, before, self._relid, wanted)
        except Refusal:
            # The files are Spark's.
            for start in range(0, len(inserted), ASKED_AT_ONCE):
                some = tuple(inserted[start : start + ASKED_AT_ONCE])
                self.require_new_keys(
                    CaptureReceipt(
                        len(some),
                        captured=True,
                        version=version,
                        unresolved=some,
                        tail_outdated=True,
                    )
                )
            return
        table = before.result.snapshots[self._relid].table
        for row in found.present[:1]:
            values = text_rows.key_texts(table, row)
            raise unique_keys.duplicate(self._session, table, unique_keys.primary(table), values)

    def write_changes(
        self,
        table: JournalTable,
        change: RowChange,
        rows: ChangedRows,
        batches: Iterable[Any],
        version: int,
    ) -> None:
        """Write the new versions of many rows as one delta, after checking the constraints.

        Raises:
            GatewayError: 23502 or 23514 for a row that violates a constraint; 21000, 23505 or 0A000
                for conflicts of a MERGE; XX001 when rows have got lost.
        """
        if change.changes_key:
            self._write_moved(table, rows, batches, version)
            return

        def versions() -> Iterator[Any]:
            for batch in chain(rows.take(), _added(rows, batches)):
                rows.require_valid(batch)
                if change.kind == "merge":
                    merge_conflicts.require_none(self._session, table, batch)
                yield rows.storage(batch, version)

        self.publish(versions(), version, table, told=lambda: rows.versions)

    def _write_moved(
        self, table: JournalTable, rows: ChangedRows, batches: Iterable[Any], version: int
    ) -> None:
        """Write the new versions of many rows that may get other keys, and tombstones.

        Raises:
            GatewayError: 23502 or 23514 for a row that violates a constraint, 23505 for a key that
                another row has, XX001 when rows have got lost.
            UnsupportedError: 0A000 for keys whose equal values may look different.
        """
        if not ChangedKeys.applies(table):
            raise UnsupportedError(
                "changing the primary key of many rows at once, or of large ones, where equal"
                " values of it may look different, is not supported",
                hint="Change fewer rows per statement than the setting inline_rows, or 64 MB.",
            )
        names, held = ChangedKeys.columns(table), []
        with closing(Spool(self._services.warehouse, table)) as spool:
            for batch in chain(rows.take(), _added(rows, batches)):
                self._statement.check()
                rows.require_valid(batch)
                held.append(batch.select(names))
                spool.add(batch)
            changed = ChangedKeys.of(table, held)
            for place in (changed.shared(), changed.circled()):
                self._require_alone(table, held, place)
            comes, goes = changed.comes, changed.goes

            def parts() -> Iterator[tuple[list[Any], Any]]:
                place = 0
                for batch in spool.batches():
                    new, old = (mask.slice(place, batch.num_rows) for mask in (comes, goes))
                    place += batch.num_rows
                    kept = rows.storage(batch.filter(pc.invert(new)), version)
                    gone = rows.storage(batch.filter(old), version, old_keys=True)
                    yield [kept, gone], rows.storage(batch.filter(new), version)

            told = rows.versions + int(pc.sum(goes).as_py() or 0)
            self._publish_apart(table, parts(), version, told)

    def write_drawn(
        self, table: JournalTable, rows: ChangedRows, batches: Iterable[Any], version: int
    ) -> None:
        """Write the rows of a MERGE, whose new ones have keys that were drawn for them.

        Raises:
            GatewayError: As of `write_changes`.
            UnsupportedError: 0A000 for keys whose equal values may look different.
        """
        if not ChangedKeys.applies(table):
            raise UnsupportedError(
                "MERGE that draws keys, where equal values of these may look different, is not"
                " supported"
            )
        columns, held = [f"n{attnum}" for attnum in table.key], []
        with closing(Spool(self._services.warehouse, table)) as spool:
            for batch in chain(rows.take(), _added(rows, batches)):
                self._statement.check()
                rows.require_valid(batch)
                merge_conflicts.require_none(self._session, table, batch)
                held.append(batch.filter(_inserted(batch)).select(columns))
                spool.add(batch)
            keys_of_new = pa.Table.from_batches(held) if held else None
            if keys_of_new is not None:
                self._require_alone(table, held, key_changes.shared(keys_of_new.combine_chunks()))

            def parts() -> Iterator[tuple[list[Any], Any]]:
                for batch in spool.batches():
                    new = _inserted(batch)
                    kept = rows.storage(batch.filter(pc.invert(new)), version)
                    yield [kept], rows.storage(batch.filter(new), version)

            self._publish_apart(table, parts(), version, rows.versions)

    def _require_alone(self, table: JournalTable, held: Sequence[Any], place: int | None) -> None:
        """Refuse the new key of a row of some batches (23505), where there is such a row."""
        if place is not None:
            row = pa.Table.from_batches(held).slice(place, 1)
            columns = [(f"n{n}", table.column(n).type_oid) for n in table.key]
            values = [str(text) for (text,) in input_columns(row, columns)]
            key = unique_keys.primary(table)
            raise unique_keys.duplicate(self._session, table, key, values)

    def _publish_apart(
        self, table: JournalTable, parts: Iterable[tuple[list[Any], Any]], version: int, told: int
    ) -> None:
        """Write row versions, and apart from them new ones, whose keys no row may have before.

        So many have to be `told` together.
        """
        before = self._observer.observe([self._relid])
        writers = [SegmentWriter(self._services.engine, table) for _ in range(2)]
        try:
            for others, new in parts:
                self._statement.check()
                for batch in others:
                    writers[0].write(batch)
                writers[1].write(new)
            segments = [writer.finish(self._statement) for writer in writers]
            written = [*segments[0], *segments[1]]
            require_all(table, told, written)
            self._session.catalog.journals.publish(self._relid, version, written)
        except BaseException:
            for writer in writers:
                writer.abort()
            raise
        if segments[1]:
            self.require_disjoint(before, segments[1])

    def require_references(self, table: JournalTable, assigned: Iterable[int]) -> None:
        """Refuse an UPDATE or MERGE of many rows that writes columns of foreign keys (0A000)."""
        generated = {column.attnum for column in table.columns if column.generated}
        changed = {*assigned, *generated} if assigned else set()
        if not changed.isdisjoint(table.referencing):
            raise UnsupportedError(
                "changing the columns of a foreign key of many rows at once is not supported",
                hint="Change fewer rows per statement than the setting inline_rows.",
            )

    def require_unique_keys(self, table: JournalTable, assigned: Iterable[int]) -> None:
        """Refuse that rows share a value of the unique keys that were touched (23505)."""
        touched = unique_keys.touched(table, assigned) if assigned else ()
        unique_keys.require_all(self._session, self._relid, self._statement, touched)

    def publish(
        self,
        batches: Iterable[Any],
        version: int,
        table: JournalTable,
        kind: SegmentKind = SegmentKind.DELTA,
        *,
        told: Callable[[], int] | None = None,
    ) -> tuple[Segment, ...]:
        """Write row versions in storage layout as one segment of the journal.

        A base that is divided gets one for each partition.

        Args:
            batches: The row versions.
            version: Their version number.
            table: The table.
            kind: The part of the journal that they belong to.
            told: Returns, once all have come, how many there have to be.

        Raises:
            GatewayError: XX001 when other row versions are in files.
        """
        writer = SegmentWriter(self._services.engine, table, kind)
        try:
            for batch in batches:
                self._statement.check()
                writer.write(batch)
            segments = writer.finish(self._statement)
            if told is not None:
                require_all(table, told(), segments)
            if segments:
                self._session.catalog.journals.publish(self._relid, version, segments)
        except BaseException:
            writer.abort()
            raise
        return segments

    def _store_drained(self, count: int) -> tuple[Segment, ...]:
        requests = self._observer.requests([self._relid])
        versions, result = self._session.catalog.writes.begin_write([self._relid], requests)
        version = versions[self._relid]
        before = self._observer.complete(requests, result)
        snapshot = before.result.snapshots[self._relid]
        table = snapshot.table
        drained = self._session.catalog.journals.drain(self._relid)
        columns = [table.column(attnum) for attnum in drained.attnums]
        batches = csv_batches(columns, drained.chunks, trailing=(IDENTITY,))
        # New rows supersede nothing: where nothing is newer than the base, they extend it.
        recent = snapshot.tail_rows or snapshot.of_kind(SegmentKind.DELTA) or snapshot.outside
        segments = self.publish(
            (row_versions(batch, table, version) for batch in batches),
            version,
            table,
            SegmentKind.DELTA if recent else SegmentKind.BASE,
        )
        require_all(table, count, segments)
        held = snapshot.segments or snapshot.tail_rows or snapshot.outside
        if segments and table.key and held:
            self.require_disjoint(before, segments)
        if segments and held:
            unique_keys.require_all(self._session, self._relid, self._statement, table.unique_keys)
        ending = self._session.transaction.implicit
        self._session.catalog.journals.clear_drained(self._relid, ending=ending)
        return segments

    def require_disjoint(self, before: Observation, segments: tuple[Segment, ...]) -> None:
        """Refuse new segments with a key the table already has (23505)."""
        both = before.with_segments(self._relid, segments)
        query = keys.compile_duplicate_keys(
            before.result.snapshots[self._relid], both.added[self._relid]
        )
        self._refuse_found(query, both)

    def require_unique(self, key: Sequence[int]) -> None:
        """Refuse a key the current rows do not fit: NULL (23502) or shared (23505)."""
        RowConstraints(self._session, self._relid, self._statement).require_not_null(key)
        unique_keys.require_unique(
            self._session, self._relid, self._statement, self._primary_key(key)
        )

    def _primary_key(self, key: Sequence[int]) -> UniqueKey:
        name = names.primary_key(self._session.catalog, self._relid)
        return UniqueKey(name, tuple(key))

    def _found(self, query: SparkQuery, observation: Observation) -> Any:
        """Return the first batch with a row, None when there is none."""
        with self._observer.run(query, observation, self._statement) as batches:
            return next((batch for batch in batches if batch.num_rows), None)

    def _refuse_found(self, query: SparkQuery, observation: Observation) -> None:
        table = observation.result.snapshots[self._relid].table
        batch = self._found(query, observation)
        if batch is not None:
            values = key_texts(batch, _key_types(table))[0]
            raise unique_keys.duplicate(self._session, table, unique_keys.primary(table), values)


def _inserted(batch: Any) -> Any:
    """Tell of each row of a MERGE whether it is new."""
    return pc.equal(batch.column(ACTION), int(Command.INSERT))


def _added(rows: ChangedRows, batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        rows.add(batch)
        yield from rows.take()


def _key_types(table: JournalTable) -> list[int]:
    return [table.column(attnum).type_oid for attnum in table.key]
