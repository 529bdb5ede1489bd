"""Reading what a statement sees for a session, and running queries against that."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from catalog.bookkeeping.calls import Call
from catalog.bookkeeping.moments import Names
from catalog.errors import OutdatedPlanError
from catalog.model import Domain, JournalTable, SegmentKind, TableSnapshot
from catalog.results import SnapshotRequest, SnapshotResult
from catalog.session import names, session_state
from catalog.statements.splitting import StatementKind
from pgwire_gateway.files import external_files
from pgwire_gateway.planning import forced, router
from pgwire_gateway.planning.plans import Plan, Route, RowRules
from pgwire_gateway.session.invocation import Invocation
from pgwire_gateway.session.observation import Observation, own_states, without_tail
from pgwire_gateway.session.old_snapshots import before_running
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.session.united_leaves import MOST_ROWS, relids, unite, united
from pgwire_gateway.spark.batches import Batches
from pgwire_gateway.spark.executor import SparkPlan
from pgwire_gateway.spark.lookups import Key
from pgwire_gateway.spark.statements import RunningStatement
from pgwire_gateway.wire_types import type_oids
from rewrite.context import (
    CheckConstraint,
    Leaves,
    ParameterValue,
    RewriteContext,
    SessionConstants,
)
from rewrite.partition_pruning import unread
from rewrite.pinned_keys import pinned_keys, plain_columns
from rewrite.results import SparkQuery
from rewrite.tree import Node, walk

LARGE_TAIL_BYTES: Final = 32 << 20
"""Tails of more bytes are written to files before they are read."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

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
SELECT c.conname, c.conbin::pg_catalog.text FROM pg_catalog.pg_constraint c
WHERE c.contype = 'c' AND c.conrelid = $1
AND pg_catalog.to_jsonb(c) ->> 'conenforced' IS DISTINCT FROM 'false' ORDER BY c.conname
"""
_GENERATED = """
SELECT d.adnum::pg_catalog.text, d.adbin::pg_catalog.text
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attgenerated = 's' AND NOT a.attisdropped
"""


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
        result = self._session.catalog.observations.snapshot(
            requests, check=check, check_prepared=check_prepared, writes=writes
        )
        return self._completed(requests, result, plan)

    def announce(
        self, call: Invocation, relid: int, announced: Call, keys: Sequence[Key], *, began: bool
    ) -> tuple[bytes, Callable[[], Observation]]:
        """Announce a write of hot rows, and ask for what is seen of their table then, at once.

        The statement is looked after from then on.

        Args:
            call: The statement.
            relid: The table.
            announced: The call that announces it.
            keys: Those of rows that are probably cold. A single one is looked for meanwhile, as
                files do not change.
            began: Whether the transaction is for this statement.

        Returns:
            The answer of the call; and what yields what is seen, which can raise as `observe` does.

        Raises:
            CatalogError: 42501 when the role may not write the table.
            OutdatedPlanError: It was planned on other definitions.
        """
        plan, catalog = call.plan, self._session.catalog
        requests = self.requests([relid])
        seen = catalog.observations.last_seen(requests[0]) if len(keys) == 1 else None
        answer, limits, result = catalog.writes.announce(
            announced,
            router.named(plan.statement),
            plan.basis,
            requests,
            began=began,
            meanwhile=partial(self._services.lookups.read_ahead, seen, keys[0]) if seen else None,
        )
        self._session.watch(call.running, call.statement.text, limits)
        return answer, partial(self._completed, requests, result, plan, unwritten=began)

    def _completed(
        self,
        requests: Sequence[SnapshotRequest],
        result: SnapshotResult,
        plan: Plan | None,
        *,
        unwritten: bool = False,
    ) -> Observation:
        _require_same_definitions(plan, result)
        observation = self.complete(requests, result, unwritten=unwritten)
        observation = self._without_large_tails(plan, observation)
        return observation if plan is None else self.united(observation, plan.partitioned)

    def observe_at_once(self, call: Invocation) -> Observation:
        """Return what a statement that only reads sees, and the session's settings; watch it.

        All is asked in one round trip: tables, privileges, settings, and whether the plan holds.

        Raises:
            CatalogError: 42501 when the role may not run the statement.
            OutdatedPlanError: Definitions, or what names stand for, are others than the plan's.
        """
        plan, session = call.plan, self._session
        if plan.basis is None:
            raise TypeError(plan.route)
        seen = plan.seen
        if seen is not None and {request.relid for request in seen.requests} == plan.tables:
            requests, moment, result = seen.requests, seen.moment, seen.result
            _require_same_definitions(plan, result)
            if not moment.agrees(plan.basis):
                raise OutdatedPlanError("definitions have changed")
        else:
            requests = self.requests(plan.tables)
            check, check_prepared = _check(plan)
            moment, result = session.catalog.observations.observe(
                requests,
                plan.basis,
                router.named(plan.statement),
                check=check,
                check_prepared=check_prepared,
            )
        session.watch(call.running, call.statement.text, moment.time_outs)
        observation = replace(self.complete(requests, result), moment=moment)
        return self.united(self._without_large_tails(plan, observation), plan.partitioned)

    def _without_large_tails(self, plan: Plan | None, observation: Observation) -> Observation:
        """Have large tails written to files, and look again: Spark cannot be given them.

        Not where that would change nothing that the transaction sees.
        """
        large = [
            relid
            for relid, tail in observation.tails.items()
            if tail.nbytes > LARGE_TAIL_BYTES and relid not in self._session.transaction.written
        ]
        if not large or self._keeps_snapshot(observation):
            return observation
        running = self._session.running or RunningStatement()
        for relid in large:
            self._services.flusher.flush_large(self._session.database, relid, running)
        requests = self.requests(observation.tails)
        result = self._session.catalog.observations.snapshot(requests)
        _require_same_definitions(plan, result)
        return replace(self.complete(requests, result), moment=observation.moment)

    def _keeps_snapshot(self, observation: Observation) -> bool:
        """Return whether all statements of the transaction see the same moment."""
        if observation.moment is not None:
            return observation.moment.keeps_snapshot
        return session_state.keeps_snapshot(self._session.catalog)

    def united(self, observation: Observation, partitioned: Mapping[int, Leaves]) -> Observation:
        """Return the same moment, where leaves of partitioned tables are read as one table."""
        if not partitioned:
            return observation
        return unite(observation, partitioned, self._services.recent_rows.latest)

    def united_for_write(
        self,
        observation: Observation,
        tree: int,
        leaves: Iterable[int],
        *,
        most_rows: float = MOST_ROWS,
    ) -> Observation:
        """Return the same moment, where some leaves of a partitioned table are written as one."""
        latest = self._services.recent_rows.latest
        return united(observation, tree, leaves, latest, most_rows=most_rows)

    def observe_segments(self, relid: int) -> Observation:
        """Return what the segments of a table hold now, whatever its tail says of it."""
        request = self._services.tails.request(self._session.database, relid)
        result = self._session.catalog.observations.snapshot([request])
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
        with before_running():
            versions, observation = self._locked(
                plan, [plan.target], command, writes=True, cools=cools
            )
        return versions[plan.target], observation

    def observe_leaves(
        self, plan: Plan, relids: Sequence[int], read: Iterable[int], *, checked: bool = False
    ) -> tuple[dict[int, int], Observation]:
        """Lock leaves of a partitioned table as `observe_for_write` locks a table.

        What is seen then is that of all the tables `read`. Privileges may have been `checked`.
        """
        command, reading = plan.statement.kind.name, replace(plan, tables=frozenset(read))
        return self._locked(reading, relids, command, writes=True, checked=checked)

    def observe_held(self, plan: Plan, read: Iterable[int]) -> Observation:
        """Return what is seen of tables in a transaction that has locked those that it writes.

        Raises:
            OutdatedPlanError: What is seen has other definitions than the plan.
        """
        requests = self.requests(read)
        result = self._session.catalog.observations.snapshot(requests)
        _require_same_definitions(plan, result)
        return self.complete(requests, result)

    def observe_locked(self, plan: Plan) -> Observation:
        """Keep others from writing the tables a query locks rows of; return what is seen then.

        Begins a transaction when none is open.

        Raises:
            CatalogError: As for writes.
            OutdatedPlanError: What is seen has other definitions than the plan.
        """
        if plan.locks is None:
            raise TypeError(plan.route)
        with before_running():
            _, observation = self._locked(
                plan, sorted(plan.locks.relids), f"SELECT {plan.locks.strength}"
            )
        return observation

    def _locked(  # noqa: PLR0913 - what is locked, read and checked
        self,
        plan: Plan,
        relids: Sequence[int],
        command: str,
        *,
        writes: bool = False,
        cools: bool = True,
        checked: bool = False,
    ) -> tuple[dict[int, int], Observation]:
        requests = self.requests(plan.tables)
        check, check_prepared = _check(None if checked else plan)
        self._session.transaction.expect_implicit()
        if writes:
            self._session.transaction.written.update(relids)
        versions, result = self._session.catalog.writes.begin_write(
            relids,
            requests,
            command=command,
            check=check,
            check_prepared=check_prepared,
            cools=cools,
        )
        if writes and plan.statement.kind is not StatementKind.INSERT:
            self._note_changed(relids, result)
        _require_same_definitions(plan, result)
        return versions, self.complete(requests, result)

    def _note_changed(self, relids: Iterable[int], seen: SnapshotResult) -> None:
        thawing = self._services.catalog.thawing(self._session.database)
        for relid in relids:
            if relid in seen.snapshots and not seen.snapshots[relid].table.key:
                thawing.note_changed(relid)

    def requests(self, relids: Iterable[int]) -> list[SnapshotRequest]:
        """Ask for tables, naming the tails that are held already."""
        written, database = self._session.transaction.written, self._session.database
        tails, thawing = self._services.tails, self._services.catalog.thawing(database)
        # Of hot rows a transaction's own versions come like those of others, by their writer.
        unknown = {relid for relid in written if not thawing.is_warm(relid)}
        return [
            SnapshotRequest(relid) if relid in unknown else tails.request(database, relid)
            for relid in sorted(relids)
        ]

    def complete(
        self,
        requests: Sequence[SnapshotRequest],
        result: SnapshotResult,
        *,
        unwritten: bool = False,
    ) -> Observation:
        """Join fetched tails with those held.

        Of a transaction that has written nothing, announced or not, others see the same.
        """
        tails = self._tails(requests, result, unwritten=unwritten)
        result = own_states(result, self._session.transaction.written)
        # What came is held once, as a table.
        return Observation(self._with_outside(replace(result, tails={})), tails)

    def _with_outside(self, result: SnapshotResult) -> SnapshotResult:
        """Add what there is in journals of others, which is looked at anew for each statement."""
        found = {
            relid: replace(
                snapshot,
                outside=external_files.contents(
                    self._services.config, external, self._session.running
                ),
            )
            for relid, snapshot in result.snapshots.items()
            if (external := snapshot.table.external) is not None
        }
        return replace(result, snapshots=result.snapshots | found) if found else result

    def _tails(
        self,
        requests: Sequence[SnapshotRequest],
        result: SnapshotResult,
        *,
        unwritten: bool = False,
    ) -> dict[int, Any]:
        return {
            request.relid: self._services.tails.complete(
                self._session.database,
                result.snapshots[request.relid],
                request,
                result.tails.get(request.relid),
                committed=unwritten or request.relid not in self._session.transaction.written,
                stored=self._stored(result.snapshots[request.relid]),
            )
            for request in requests
        }

    def _stored(self, snapshot: TableSnapshot) -> Callable[[], Any]:
        """Return what reads the current rows of a table's segments."""
        running = self._session.running or RunningStatement()
        return lambda: self._services.compactor.live_rows(without_tail(snapshot), running)

    def context(
        self, plan: Plan, observation: Observation, parameters: tuple[ParameterValue, ...]
    ) -> RewriteContext:
        """Return what a plan is compiled against."""
        checks: Mapping[int, tuple[CheckConstraint, ...]] = {}
        generated: Mapping[int, Mapping[int, str]] = {}
        if plan.route in {Route.CHANGE, Route.MERGE} and plan.target is not None:
            table = observation.result.snapshots[plan.target].table
            rules = self._rules(observation.like(table))
            checks, generated = {table.relid: rules.checks}, {table.relid: rules.generated}
        return RewriteContext(
            snapshots=observation.result.snapshots,
            constants=self.constants(plan.analysis.tree if plan.analysis else None, observation),
            journals=plan.journals,
            partitioned={
                relid: replace(leaves, relids=relids(leaves, observation.united.get(relid, ())))
                for relid, leaves in plan.partitioned.items()
            },
            parameters=parameters,
            checks=checks,
            domains=self._domains(plan),
            generated=generated,
            latest_only=observation.latest_only,
            key_ranges={relid: bitmap.range for relid, bitmap in observation.bitmaps.items()},
            reads_files=not forced.is_forced(plan),
            arbiter=plan.arbiter,
        )

    def narrowed(
        self, plan: Plan, observation: Observation, parameters: tuple[ParameterValue, ...]
    ) -> Observation:
        """Leave out what cannot matter to a plan.

        That is what concerns other rows, when it reads single rows by their keys, and superseded
        row versions, where those that are newer than the base are few.
        """
        tables = {
            relid: snapshot.table
            for relid, snapshot in observation.result.snapshots.items()
            if relid not in plan.journals.values()
        }
        if plan.query is None:
            return observation
        keys = pinned_keys(plan.query, tables, parameters)
        only_spark = plan.basis is not None and plan.basis.executor == "spark"
        plain = not only_spark and any(plain_columns(plan.query, tables[relid]) for relid in keys)
        observation = observation.of_keys(keys, self._services.lookups if plain else None)
        latest, bitmaps = {}, {}
        done = {one for some in observation.united.values() for u in some for one in u.leaves}
        for relid in tables.keys() - keys.keys() - done - observation.latest_only:
            snapshot = observation.result.snapshots[relid]
            if snapshot.tail_rows or snapshot.of_kind(SegmentKind.DELTA):
                recent = self._services.recent_rows.latest(snapshot, observation.tails.get(relid))
                if recent is not None:
                    latest[relid] = recent
                    bitmap = self._services.recent_rows.bitmap(snapshot)
                    if bitmap is not None:
                        bitmaps[relid] = bitmap
        observation = observation.of_latest(latest, bitmaps) if latest else observation
        return self._pruned(plan.query, observation, tables.keys(), parameters)

    def _pruned(
        self,
        query: Node,
        observation: Observation,
        relids: Iterable[int],
        parameters: tuple[ParameterValue, ...],
    ) -> Observation:
        """Leave out partitions of which conditions tell that no row is asked for."""
        snapshots = observation.result.snapshots
        divided = {
            relid: snapshots[relid].table
            for relid in relids
            if snapshots[relid].table.division is not None and snapshots[relid].segments
        }
        if not divided:
            return observation
        volatility = self._session.volatilities.of
        left_out = unread(query, divided, parameters, volatility)
        return observation.without_partitions(left_out) if left_out else observation

    def run(
        self, query: SparkQuery, observation: Observation, statement: RunningStatement
    ) -> Batches:
        """Start a compiled query on Spark."""
        return self._services.executor.run(
            query,
            relations=observation.relations(query),
            sessions=self._services.engine.sessions(statement.check),
            statement=statement,
        )

    def explain(
        self, query: SparkQuery, observation: Observation, statement: RunningStatement
    ) -> SparkPlan:
        """Return how Spark would run a compiled query."""
        return self._services.executor.explain(
            query,
            relations=observation.relations(query),
            sessions=self._services.engine.sessions(statement.check),
            statement=statement,
        )

    def constants(self, tree: str | None, observation: Observation) -> SessionConstants:
        """Return what a query, or an expression, can depend on besides rows.

        Args:
            tree: What is compiled, as PostgreSQL writes it; what it does not mention is not asked.
            observation: What it sees.
        """
        timestamp, settings = observation.result.transaction_timestamp, self._session.settings
        names = self._names(tree or "", observation)
        return SessionConstants(
            EPOCH + timedelta(microseconds=timestamp),
            settings.get("TimeZone", "UTC"),
            names.current_user,
            names.session_user,
            names.current_database,
            names.current_schema,
            settings.get("DateStyle", "ISO, MDY"),
            settings.get("IntervalStyle", "postgres"),
            self._bytea_output(tree or "", observation),
            self._services.zone_rules,
        )

    def _names(self, tree: str, observation: Observation) -> Names:
        """Return whom and what a statement can name; PostgreSQL does not report all of it."""
        if observation.moment is not None:
            return observation.moment.names
        if not any(call in tree for call in _NAMING_CALLS):
            return Names("", "", "", None)
        user, session, database, schema = (
            value.decode() if value is not None else None
            for value in next(iter(self._query(_CONSTANTS)))
        )
        return Names(user or "", session or "", database or "", schema)

    def _bytea_output(self, tree: str, observation: Observation) -> str:
        """Return bytea_output where a statement can depend on it; PostgreSQL does not report it."""
        if observation.moment is not None:
            return observation.moment.bytea_output
        if f"type {type_oids.BYTEA} " not in tree:
            return "hex"
        ((value,),) = self._query("SELECT current_setting('bytea_output')")
        return (value or b"hex").decode()

    def _domains(self, plan: Plan) -> dict[int, Domain]:
        """Return the domains that a statement casts to; asked only where there are any."""
        tree = (plan.analysis.tree if plan.analysis else None) or ""
        if "{COERCETODOMAIN " not in tree or plan.query is None:
            return {}
        cast = (node for node, _ in walk(plan.query) if node.tag == "COERCETODOMAIN")
        return names.domains(self._session.catalog, {node.integer("resulttype") for node in cast})

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
            sql, texts, parameter_oids=[26] * len(texts), is_own=True
        )
        return list(result.rows)


def _require_same_definitions(plan: Plan | None, result: SnapshotResult) -> None:
    if plan is not None and plan.basis and plan.basis.definitions != result.definitions:
        raise OutdatedPlanError("definitions have changed")


def _check(plan: Plan | None) -> tuple[str | None, str | None]:
    """Return text or prepared name of the statement whose privileges are to be checked."""
    if plan is None or plan.checked:
        return None, None
    return (None, plan.prepared) if plan.prepared else (plan.statement.text, None)
