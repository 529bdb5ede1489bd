"""What a statement sees: snapshots and tails of the journaled tables it touches, of one moment."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import OutdatedPlanError
from catalog.model import JournalTable, Segment, SegmentKind, TableSnapshot
from catalog.results import SnapshotRequest, SnapshotResult
from pgwire_gateway.session.plans import Plan, Route, RowRules
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.batches import Batches
from pgwire_gateway.spark.executor import SparkPlan
from pgwire_gateway.spark.lookups import Key, Lookups
from pgwire_gateway.spark.relations import Relation
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.wire_types import type_oids
from pgwire_gateway.wire_types.tails import (
    StaleTailError,
    indices_of_keys,
    latest_per_key,
    newer_than,
    newest_version,
    older_than,
    only_key,
    only_version,
    plain_identity,
)
from pgwire_gateway.wire_types.versions import SUBSEQUENT, storage_schema
from rewrite import sources
from rewrite.context import CheckConstraint, ParameterValue, RewriteContext, SessionConstants
from rewrite.pinned_keys import pinned_keys, plain_columns
from rewrite.results import Source, SparkQuery

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


_OWN_STATES = count(1)
"""Numbers for states no other statement may take for its own."""

_CONSTANTS = "SELECT current_user, session_user, current_database(), current_schema()"

_NAMING_CALLS = (
    "SQLVALUEFUNCTION",
    ":funcid 745 ",
    ":funcid 746 ",
    ":funcid 861 ",
    ":funcid 1402 ",
)
"""What a tree holds that asks for one of them: also current_user(), session_user(),
current_database() and current_schema() written as functions."""

# PostgreSQL 17 has no constraints that are not enforced.
_CHECKS = """
SELECT c.conname, c.conbin::text FROM pg_catalog.pg_constraint c
WHERE c.contype = 'c' AND c.conrelid = $1
AND pg_catalog.to_jsonb(c) ->> 'conenforced' IS DISTINCT FROM 'false' ORDER BY c.conname
"""
_GENERATED = """
SELECT d.adnum::text, d.adbin::text
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attgenerated = 's' AND NOT a.attisdropped
"""


@dataclass(frozen=True, slots=True)
class Observation:
    """Snapshots with their tails."""

    result: SnapshotResult
    tails: dict[int, Any]
    """Arrow tables of inlined row versions by OID of the table."""
    added: dict[int, TableSnapshot] = field(default_factory=dict)
    """Segments not yet part of a table, each as a table of its own."""
    latest_only: frozenset[int] = frozenset()
    """Tables of whose tails only the newest version of each row is left."""
    single_rows: frozenset[int] = frozenset()
    """Tables with the versions of one row, which are in the tail whatever holds them."""

    def relations(self, query: SparkQuery) -> list[Relation]:
        """Return what must be registered before a compiled query runs."""
        return [self._relation(source) for source in query.sources]

    def segments_only(self, relid: int) -> "Observation":
        """Return the same moment without the tail of a table."""
        stripped = _without_tail(self.result.snapshots[relid])
        snapshots = self.result.snapshots | {relid: stripped}
        return Observation(replace(self.result, snapshots=snapshots), {})

    def of_keys(self, keys: Mapping[int, Key], lookups: Lookups | None) -> "Observation":
        """Return the same moment with what can matter of tables of which one row is read.

        A row with a version in the tail that is newer than the segments needs nothing else, and
        a row without one there needs no tail. The tail may hold older ones: large writes become
        segments although there is a tail. With ``lookups`` a row in segments is looked up at once.
        """
        snapshots, tails = dict(self.result.snapshots), dict(self.tails)
        single = set(self.single_rows)
        for relid, key in keys.items():
            snapshot, tail = snapshots[relid], tails.get(relid)
            if tail is None or not snapshot.tail_rows:
                if lookups is None:
                    continue
                tail = storage_schema(snapshot.table).empty_table()
            found = only_key(tail, snapshot.table.key, key)
            if not _is_newest(found, snapshot):
                stored = lookups.versions(snapshot, [key]) if lookups else None
                if stored is None:
                    if snapshot.tail_rows and not found.num_rows:
                        snapshots[relid] = _without_tail(snapshot)
                    continue
                found = pa.concat_tables([stored, found])
            tails[relid] = rows = found.combine_chunks()
            state = f"{snapshot.state}_{next(_OWN_STATES)}"
            snapshots[relid] = replace(snapshot, segments=(), tail_rows=rows.num_rows, state=state)
            single.add(relid)
        return replace(
            self,
            result=replace(self.result, snapshots=snapshots),
            tails=tails,
            single_rows=frozenset(single),
        )

    def current_row(self, relid: int) -> pa.Table:
        """Return the current row of a table of which one row is read; none where it has gone."""
        names = plain_identity(self.result.snapshots[relid].table)
        latest = latest_per_key(self.tails[relid], names or ())
        return latest.filter(pc.is_null(latest.column(SUBSEQUENT)))

    def current_rows(self, relid: int, keys: Sequence[Key], lookups: Lookups) -> pa.Table | None:
        """Return the current rows of some keys, in storage layout, in no order.

        None where the files of the table are Spark's to read.
        """
        snapshot, tail = self.result.snapshots[relid], self.tails.get(relid)
        table = snapshot.table
        names = [f"c{attnum}" for attnum in table.key]
        if tail is None:
            tail = storage_schema(table).empty_table()
        found = tail.take(indices_of_keys(tail, names, keys)).combine_chunks()
        stored = max((segment.max_version for segment in snapshot.segments), default=0)
        newest = newer_than(found, stored)
        done = set(zip(*(newest.column(name).to_pylist() for name in names), strict=True))
        rest = [key for key in keys if key not in done]
        versions = lookups.versions(snapshot, rest) if rest else None
        if rest and versions is None:
            return None
        rows = found if versions is None else pa.concat_tables([versions, found])
        latest = latest_per_key(rows.combine_chunks(), plain_identity(table) or ())
        return latest.filter(pc.is_null(latest.column(SUBSEQUENT)))

    def of_latest(self, tails: Mapping[int, Any]) -> "Observation":
        """Return the same moment with tails that hold the newest version of each row only."""
        snapshots = dict(self.result.snapshots)
        for relid, tail in tails.items():
            snapshot = snapshots[relid]
            snapshots[relid] = replace(
                snapshot, tail_rows=tail.num_rows, state=f"{snapshot.state}_latest"
            )
        result = replace(self.result, snapshots=snapshots)
        return replace(
            self,
            result=result,
            tails=self.tails | dict(tails),
            latest_only=self.latest_only | tails.keys(),
        )

    def older_than(self, relid: int, version: int) -> "Observation":
        """Return the same moment without the row versions of a table from one version on.

        Only those of the tail are looked at.
        """
        snapshot, tail = self.result.snapshots[relid], older_than(self.tails[relid], version)
        state = f"{snapshot.state}_{next(_OWN_STATES)}"
        before = replace(snapshot, tail_rows=tail.num_rows, state=state)
        snapshots = self.result.snapshots | {relid: before}
        return Observation(replace(self.result, snapshots=snapshots), {relid: tail})

    def with_segment(self, relid: int, segment: Segment) -> "Observation":
        """Return the same moment with a segment that is not part of the table beside it."""
        snapshot = self.result.snapshots[relid]
        state = f"{snapshot.state}_{next(_OWN_STATES)}"
        alone = replace(snapshot, segments=(segment,), tail_rows=0, state=state)
        return replace(self, added=self.added | {relid: alone})

    def of_rows(self, relid: int, rows: pa.Table) -> "Observation":
        """Return the same moment with nothing in a table but these rows, in storage layout."""
        snapshot = self.result.snapshots[relid]
        state = f"{snapshot.state}_{next(_OWN_STATES)}"
        alone = replace(snapshot, segments=(), tail_rows=rows.num_rows, state=state)
        return replace(
            self,
            result=replace(self.result, snapshots=self.result.snapshots | {relid: alone}),
            tails=self.tails | {relid: rows.combine_chunks()},
            latest_only=self.latest_only | {relid},
        )

    def only_written(self, relid: int, version: int, segment: Segment | None) -> "Observation":
        """Return the same moment with nothing in a table but the rows of one write.

        They are the tail's rows of this version number, or the rows of a segment.
        """
        snapshot = self.result.snapshots[relid]
        tail = only_version(self.tails[relid], version) if segment is None else None
        written = replace(
            snapshot,
            segments=(segment,) if segment else (),
            tail_rows=0 if tail is None else tail.num_rows,
            state=f"{snapshot.state}_{next(_OWN_STATES)}",
        )
        snapshots = self.result.snapshots | {relid: written}
        return Observation(replace(self.result, snapshots=snapshots), {relid: tail})

    def _relation(self, source: Source) -> Relation:
        alone = self.added.get(source.relid)
        if alone is not None and source == sources.source(alone, source.part):
            return Relation(source, alone, lambda: None)
        return Relation(source, self.result.snapshots[source.relid], self._tail(source.relid))

    def _tail(self, relid: int) -> Callable[[], Any]:
        return lambda: self.tails.get(relid)


def _is_newest(found: pa.Table, snapshot: TableSnapshot) -> bool:
    """Return whether no segment can have a newer version of the rows found in the tail."""
    stored = max((segment.max_version for segment in snapshot.segments), default=0)
    return bool(found.num_rows) and newest_version(found) > stored


def _without_tail(snapshot: TableSnapshot) -> TableSnapshot:
    return replace(snapshot, tail_rows=0, state=f"{snapshot.state}_segments")


class Observer:
    """Reads snapshots for one session and runs queries against them."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._services = session.services

    def observe(self, relids: Iterable[int], plan: Plan | None = None) -> Observation:
        """Return what a statement beginning now sees, checking its privileges on the way.

        Raises:
            CatalogError: 42501 when the role may not run the planned statement.
            OutdatedPlanError: What is seen has other definitions than the plan.
        """
        requests = self.requests(relids)
        check, check_prepared = _check(plan)
        writes = plan is not None and (plan.target is not None or plan.locks is not None)
        result = self._session.catalog.snapshot(
            requests, check=check, check_prepared=check_prepared, writes=writes
        )
        _require_same_definitions(plan, result)
        return self.complete(requests, result)

    def observe_segments(self, relid: int) -> Observation:
        """Return what the segments of a table hold now, whatever its tail says of it."""
        known = self._services.tails.known_state(self._session.database, relid)
        result = self._session.catalog.snapshot([SnapshotRequest(relid, known_state=known)])
        return Observation(result, {}).segments_only(relid)

    def observe_for_write(self, plan: Plan, *, cools: bool = True) -> tuple[int, Observation]:
        """Lock the table a plan writes; return the version number to write and what is seen then.

        Begins a transaction when none is open. Hot rows of the table go cold.

        Raises:
            CatalogError: 42501 when the role may not run the statement, 25006 in a read-only
                transaction, 40001 when the table changed since a REPEATABLE READ snapshot.
            OutdatedPlanError: What is seen has other definitions than the plan.
            HotRowsError: The table has hot rows, and is not to be cooled.
        """
        if plan.target is None:
            raise TypeError(plan.route)
        command = plan.statement.kind.name
        versions, observation = self._locked(plan, [plan.target], command, writes=True, cools=cools)
        return versions[plan.target], observation

    def observe_locked(self, plan: Plan) -> Observation:
        """Keep others from writing the tables a query locks rows of; return what is seen then.

        Begins a transaction when none is open.

        Raises:
            CatalogError: As for writes.
            OutdatedPlanError: What is seen has other definitions than the plan.
        """
        if plan.locks is None:
            raise TypeError(plan.route)
        return self._locked(plan, sorted(plan.locks.relids), f"SELECT {plan.locks.strength}")[1]

    def _locked(
        self,
        plan: Plan,
        relids: Sequence[int],
        command: str,
        *,
        writes: bool = False,
        cools: bool = True,
    ) -> tuple[dict[int, int], Observation]:
        requests = self.requests(plan.tables)
        check, check_prepared = _check(plan)
        self._session.transaction.expect_implicit()
        if writes:
            self._session.transaction.written.update(relids)
        versions, result = self._session.catalog.begin_write(
            relids,
            requests,
            command=command,
            check=check,
            check_prepared=check_prepared,
            cools=cools,
        )
        _require_same_definitions(plan, result)
        return versions, self.complete(requests, result)

    def requests(self, relids: Iterable[int], *, full: bool = False) -> list[SnapshotRequest]:
        """Ask for tables, naming the tails that are held already."""
        written, database = self._session.transaction.written, self._session.database
        tails, thawing = self._services.tails, self._services.catalog.thawing(database)
        # Of hot rows a transaction's own versions come like those of others, by their writer.
        unknown = {relid for relid in written if full or not thawing.is_warm(relid)}
        return [
            SnapshotRequest(
                relid,
                known_state=None
                if full or relid in unknown
                else tails.known_state(database, relid),
            )
            for relid in sorted(relids)
        ]

    def complete(self, requests: list[SnapshotRequest], result: SnapshotResult) -> Observation:
        """Join fetched tails with those held."""
        try:
            tails = self._tails(requests, result)
        except StaleTailError:
            relids = [request.relid for request in requests]
            full = self.requests(relids, full=True)
            result = self._session.catalog.snapshot(full)
            tails = self._tails(full, result)
        return Observation(self._own_states(result), tails)

    def _own_states(self, result: SnapshotResult) -> SnapshotResult:
        """Give tables this transaction writes a state of their own.

        Such a state is seen by nobody else and may be rolled back: nothing kept under it may be
        taken for the contents of another one.
        """
        written = self._session.transaction.written & set(result.snapshots)
        if not written:
            return result
        own = {
            relid: replace(
                result.snapshots[relid],
                state=f"{result.snapshots[relid].state}_{next(_OWN_STATES)}",
            )
            for relid in written
        }
        return replace(result, snapshots=result.snapshots | own)

    def _tails(self, requests: list[SnapshotRequest], result: SnapshotResult) -> dict[int, Any]:
        return {
            request.relid: self._services.tails.complete(
                self._session.database,
                result.snapshots[request.relid],
                request.known_state,
                result.tails.get(request.relid),
                committed=request.relid not in self._session.transaction.written,
                stored=self._stored(result.snapshots[request.relid]),
            )
            for request in requests
        }

    def _stored(self, snapshot: TableSnapshot) -> Callable[[], Any]:
        """Return what reads the current rows of a table's segments."""
        running = self._session.running or RunningStatement()
        return lambda: self._services.compactor.live_rows(_without_tail(snapshot), running)

    def context(
        self, plan: Plan, observation: Observation, parameters: tuple[ParameterValue, ...]
    ) -> RewriteContext:
        """Return what a plan is compiled against."""
        checks: Mapping[int, tuple[CheckConstraint, ...]] = {}
        generated: Mapping[int, Mapping[int, str]] = {}
        if plan.route is Route.CHANGE and plan.target is not None:
            table = observation.result.snapshots[plan.target].table
            rules = self._rules(table)
            checks, generated = {table.relid: rules.checks}, {table.relid: rules.generated}
        return RewriteContext(
            snapshots=observation.result.snapshots,
            constants=self._constants(plan, observation.result.transaction_timestamp),
            journals=plan.journals,
            parameters=parameters,
            checks=checks,
            generated=generated,
            latest_only=observation.latest_only,
        )

    def narrowed(
        self, plan: Plan, observation: Observation, parameters: tuple[ParameterValue, ...]
    ) -> Observation:
        """Leave out what cannot matter to a plan.

        That is what concerns other rows, when it reads single rows by their keys, and superseded
        row versions in tails, where these are all that is newer than the base.
        """
        tables = {
            relid: snapshot.table
            for relid, snapshot in observation.result.snapshots.items()
            if relid not in plan.journals.values()
        }
        if plan.query is None:
            return observation
        keys = pinned_keys(plan.query, tables, parameters)
        forced = plan.basis is not None and plan.basis.executor == "spark"
        plain = not forced and any(plain_columns(plan.query, tables[relid]) for relid in keys)
        observation = observation.of_keys(keys, self._services.lookups if plain else None)
        latest = {}
        for relid in tables.keys() - keys.keys():
            snapshot = observation.result.snapshots[relid]
            if snapshot.tail_rows and not snapshot.of_kind(SegmentKind.DELTA):
                tail = self._services.tails.latest(
                    self._session.database, snapshot, observation.tails[relid]
                )
                if tail is not None:
                    latest[relid] = tail
        return observation.of_latest(latest) if latest else observation

    def run(
        self, query: SparkQuery, observation: Observation, statement: RunningStatement
    ) -> Batches:
        """Start a compiled query on Spark."""
        return self._services.executor.run(
            query,
            relations=observation.relations(query),
            sessions=self._services.engine.sessions(),
            statement=statement,
        )

    def explain(
        self, query: SparkQuery, observation: Observation, statement: RunningStatement
    ) -> SparkPlan:
        """Return how Spark would run a compiled query."""
        return self._services.executor.explain(
            query,
            relations=observation.relations(query),
            sessions=self._services.engine.sessions(),
            statement=statement,
        )

    def _constants(self, plan: Plan, timestamp: int) -> SessionConstants:
        names: list[str | None] = ["", "", "", None]
        tree = (plan.analysis.tree if plan.analysis else None) or ""
        if any(call in tree for call in _NAMING_CALLS):
            row = next(iter(self._query(_CONSTANTS)))
            names = [value.decode() if value is not None else None for value in row]
        return SessionConstants(
            EPOCH + timedelta(microseconds=timestamp),
            self._session.settings.get("TimeZone", "UTC"),
            names[0] or "",
            names[1] or "",
            names[2] or "",
            names[3],
            self._session.settings.get("DateStyle", "ISO, MDY"),
            self._session.settings.get("IntervalStyle", "postgres"),
            self._bytea_output(plan),
            self._services.zone_rules,
        )

    def _bytea_output(self, plan: Plan) -> str:
        """Return bytea_output where a statement can depend on it; PostgreSQL does not report it."""
        tree = plan.analysis.tree if plan.analysis else None
        if not tree or f"type {type_oids.BYTEA} " not in tree:
            return "hex"
        ((value,),) = self._query("SELECT current_setting('bytea_output')")
        return (value or b"hex").decode()

    def _rules(self, table: JournalTable) -> RowRules:
        """Return what new row versions of a table have to obey; asked once for each definition."""
        key = (table.relid, table.definition_version)
        rules = self._session.row_rules.get(key)
        if rules is None:
            rules = RowRules(self._checks(table.relid), self._generated(table.relid))
            self._session.row_rules[key] = rules
        return rules

    def _checks(self, relid: int) -> tuple[CheckConstraint, ...]:
        rows = self._query(_CHECKS, relid)
        return tuple(
            CheckConstraint((name or b"").decode(), (tree or b"").decode()) for name, tree in rows
        )

    def _generated(self, relid: int) -> dict[int, str]:
        rows = self._query(_GENERATED, relid)
        return {int(number or b"0"): (tree or b"").decode() for number, tree in rows}

    def _query(self, sql: str, *values: int) -> list[list[bytes | None]]:
        texts = [str(value).encode() for value in values]
        result = self._session.catalog.execute_parameters(
            sql, texts, parameter_oids=[26] * len(texts)
        )
        return list(result.rows)


def _require_same_definitions(plan: Plan | None, result: SnapshotResult) -> None:
    if plan is not None and plan.basis and plan.basis.definitions != result.definitions:
        raise OutdatedPlanError("definitions have changed")


def _check(plan: Plan | None) -> tuple[str | None, str | None]:
    """Return text or prepared name of the statement whose privileges are to be checked."""
    if plan is None:
        return None, None
    return (None, plan.prepared) if plan.prepared else (plan.statement.text, None)
