"""One catalog connection per client session, logged in as the client's own role.

The methods of :class:`CatalogSession` are the whole surface the gateway uses; each delegates to the
module that knows its subject. A session belongs to one thread, except for its ``cancel``.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Final

from psycopg.pq.abc import PGresult

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping import moments, proofs, tail
from catalog.bookkeeping.call_codes import CallCodes
from catalog.bookkeeping.calls import Bookkeeping, Function, array, basis_of, value_of, values_of
from catalog.bookkeeping.moments import Moment, Seen, TimeOuts
from catalog.bookkeeping.proofs import NO_CHECKS, Checks, Proof
from catalog.bookkeeping.snapshots import KnownState, StaleDefinitionError, encode_segments
from catalog.connection import describe
from catalog.connection.backend import Backend
from catalog.connection.copying import CopyIn, CopyOut
from catalog.connection.held_steps import HeldStep
from catalog.connection.relay import Batch, Reply, Sink
from catalog.connection.steps import COMMIT, Close, Execute, Query, Step
from catalog.errors import (
    CatalogError,
    CatalogUnavailableError,
    HotRowsError,
    OutdatedPlanError,
    OutdatedTransactionError,
    UnknownOutcomeError,
)
from catalog.failpoints import Failpoint, reach
from catalog.model import Segment, TableSnapshot, UniqueKey
from catalog.pg import sqlstate
from catalog.results import (
    Analysis,
    Basis,
    CaptureReceipt,
    DrainedRows,
    LocalResult,
    Notification,
    PendingCheck,
    PendingConstraints,
    Relation,
    ResultColumn,
    SnapshotRequest,
    SnapshotResult,
)

Call = tuple[Function, Sequence[bytes | None]]
"""A function of the bookkeeping and its arguments, without the code."""

_MOST_COLUMNS = 1600
"""Fewer than the columns a result of PostgreSQL may have."""

_FORGETTING_TAGS = frozenset({"DEALLOCATE ALL", "DISCARD ALL"})


class CatalogSession:
    """The client's own PostgreSQL session.

    The unnamed prepared statement is used by other methods too: it only lives until the next call.
    """

    def __init__(
        self,
        backend: Backend,
        codes: CallCodes,
        known: KnownState,
        *,
        has_resident_tables: bool = False,
        is_unseen: Callable[[int, str], bool] | None = None,
    ) -> None:
        self._is_unseen = is_unseen
        self.has_resident_tables = has_resident_tables
        """Whether new tables are resident, and code of users is offered."""
        self.may_show_journals: bool | None = None
        """Whether ``gateway.show_journals`` may be on; None while nobody has looked."""
        self._backend = backend
        self._calls = Bookkeeping(backend, codes)
        self._known = known
        self._parameter_counts: dict[str, int] = {}
        self._savepoints: list[str] = []

    # state ----------------------------------------------------------------------------------------

    @property
    def on_notice(self) -> Callable[[Mapping[str, str]], None]:
        """Receiver of NoticeResponse fields, keyed by their one-letter codes."""
        return self._backend.on_notice

    @on_notice.setter
    def on_notice(self, receiver: Callable[[Mapping[str, str]], None]) -> None:
        self._backend.on_notice = receiver

    @property
    def on_notification(self) -> Callable[[Notification], None]:
        """Receiver of notifications, which arrive with the results of statements."""
        return self._backend.on_notification

    @on_notification.setter
    def on_notification(self, receiver: Callable[[Notification], None]) -> None:
        self._backend.on_notification = receiver

    @property
    def transaction_status(self) -> str:
        """'I' idle, 'T' in a transaction, 'E' in a failed one."""
        return self._backend.transaction_status

    @property
    def backend_pid(self) -> int:
        """Process id of the PostgreSQL backend."""
        return self._backend.process_id

    def parameter_statuses(self) -> dict[str, str]:
        """Return all reported settings and their current values."""
        return self._backend.parameter_statuses()

    @property
    def codec(self) -> str:
        """Python's name of the client encoding."""
        return self._backend.codec

    # statements -----------------------------------------------------------------------------------

    def analyse(
        self,
        sql: str,
        parameter_oids: Sequence[int] = (),
        *,
        name: str = "",
        tree: bool = True,
        keeps_locks: bool = True,
    ) -> Analysis:
        """Prepare under `name` and describe, in one round trip; with the tree if it is wanted.

        In a transaction block what this locks can be let go of at once.
        """
        guards = () if keeps_locks else (f"SAVEPOINT {_ANALYSED}",)
        ends = () if keeps_locks else (f"ROLLBACK TO {_ANALYSED}", f"RELEASE {_ANALYSED}")
        self._savepoints += [_ANALYSED] * len(guards)
        analysis, _ = describe.analyse(
            self._backend,
            name,
            sql,
            parameter_oids,
            tree=tree,
            before=_commands(*guards),
            after=_commands(*ends),
        )
        if guards:
            self._forget_savepoint(_ANALYSED)
        self._parameter_counts[name] = len(analysis.parameter_oids)
        return analysis

    def analyse_named(
        self, names: Iterable[str], sql: str, parameter_oids: Sequence[int], *, name: str
    ) -> tuple[Basis, TimeOuts, Analysis]:
        """Prepare as `analyse` does; return what this rests on, too, as it was just before.

        The statement names these relations, as SQL. What limits the session is told besides.
        """
        before = self._calls.basis_steps(self._encoded(names))
        analysis, results = describe.analyse(
            self._backend, name, sql, parameter_oids, tree=True, before=before
        )
        self._parameter_counts[name] = len(analysis.parameter_oids)
        return *moments.grounds_of(results[-1]), analysis

    def analyse_seeing(
        self, names: Sequence[str], sql: str, requests: Sequence[SnapshotRequest]
    ) -> tuple[Basis, TimeOuts, Analysis, Seen]:
        """Analyse as `analyse_named` does, and observe these tables, as `observe` does, after it.

        For a statement that is its own transaction, of which it is likely that it reads them.

        Raises:
            CatalogError: What PostgreSQL finds wrong with the statement, or with these tables.
            StaleDefinitionError: Something that was assumed known has been replaced meanwhile.
        """
        encoded = self._encoded(names)
        before = self._calls.basis_steps(encoded)
        after = [moments.step(encoded), *self._check_steps(sql, None)]
        after += self._calls.steps(bookkeeping.SNAPSHOT, self._known.request(requests))
        analysis, results = describe.analyse(
            self._backend, "", sql, (), tree=True, before=before, after=after
        )
        basis, limits = moments.grounds_of(results[len(before) - 1])
        moment = moments.moment_of(results[len(before)])
        result = self._known.decode(values_of(results[-1]))
        return basis, limits, analysis, Seen(requests, moment, result)

    def describe(self, name: str) -> Analysis:
        """Describe a prepared statement; `tree` is None."""
        analysis = describe.describe(self._backend, name)
        self._parameter_counts[name] = len(analysis.parameter_oids)
        return analysis

    def describe_portal(self, name: str) -> tuple[tuple[ResultColumn, ...], int]:
        """Describe a cursor SQL has declared: its columns, and the format code of its rows.

        Raises:
            CatalogError: 34000 when there is none.
        """
        return describe.describe_portal(self._backend, name)

    def deallocate(self, name: str) -> None:
        """Close a prepared statement, also in a failed transaction; a missing one is no error."""
        self._parameter_counts.pop(name, None)
        self._backend.run(Close(name))

    def deallocate_later(self, name: str) -> None:
        """Close a prepared statement with what is asked next, which may prepare it anew."""
        self._parameter_counts.pop(name, None)
        self._backend.close_later(name)

    def execute(
        self, sql: str, *, result_format: int = 0, chunk_rows: int | None = None
    ) -> LocalResult:
        """Run one statement without parameters; its rows are taken so many at a time."""
        return self._stream(Query(sql, result_format=result_format, chunk_rows=chunk_rows))

    def execute_parameters(
        self,
        sql: str,
        values: Sequence[bytes | None],
        *,
        parameter_oids: Sequence[int] = (),
        formats: Sequence[int] = (),
        result_format: int = 0,
    ) -> LocalResult:
        """Run one statement with parameters without naming it."""
        return self._stream(Query(sql, values, parameter_oids, formats, result_format))

    def execute_prepared(
        self,
        name: str,
        values: Sequence[bytes | None],
        formats: Sequence[int] = (),
        result_format: int = 0,
    ) -> LocalResult:
        """Run a prepared statement."""
        return self._stream(Execute(name, values, formats, result_format))

    def canonical_parameters(
        self,
        parameter_oids: Sequence[int],
        values: Sequence[bytes | None],
        formats: Sequence[int] = (),
    ) -> list[bytes | None]:
        """Return the binary form of each parameter, after PostgreSQL has validated it."""
        if not values:
            return []
        canonical: list[bytes | None] = []
        for start in range(0, len(values), _MOST_COLUMNS):
            part = slice(start, start + _MOST_COLUMNS)
            marks = ", ".join(f"${i + 1}" for i in range(len(values[part])))
            codes = formats[part] if len(formats) > 1 else formats
            query = Query(f"SELECT {marks}", values[part], parameter_oids[part], codes, 1)
            result = self._backend.run(query)
            canonical += [result.get_value(0, i) for i in range(result.nfields)]
        return canonical

    def copy_in(self, sql: str, *, is_own: bool = False) -> CopyIn:
        """Start a COPY FROM STDIN; errors and notices do not tell about one that is ours."""
        return CopyIn(self._backend, self._backend.start_copy(sql, is_own=is_own))

    def copy_out(self, sql: str) -> CopyOut:
        """Start a COPY TO STDOUT."""
        return CopyOut(self._backend, self._backend.start_copy(sql))

    def explain(
        self,
        sql: str,
        values: Sequence[bytes | None] = (),
        *,
        parameter_oids: Sequence[int] = (),
        formats: Sequence[int] = (),
    ) -> bytes:
        """Return PostgreSQL's plan of one statement as JSON; no lock is kept.

        Raises:
            CatalogError: What PostgreSQL finds wrong with the statement.
        """
        command = "EXPLAIN (FORMAT JSON) "
        steps: list[Step] = [Query(command + sql, values, parameter_oids, formats)]
        place = 0
        if self._backend.transaction_status == "T":
            steps, place = _unlocked(steps), 1
        try:
            return value_of(self._calls.run_all(steps)[place])
        except CatalogError as error:
            if error.position is not None:
                error.position = max(error.position - len(command), 1)
            raise

    # statements passed through --------------------------------------------------------------------

    @property
    def relays(self) -> bool:
        """Whether the backend's socket can be used beside libpq."""
        return self._backend.relays

    def proof(self, basis: Basis, names: Iterable[str], *, lasting: bool = False) -> Proof | None:
        """Return what proves this basis of a statement that names these relations, as SQL."""
        return proofs.proof_of(basis, list(names), self.codec, lasting=lasting)

    def exchange(  # noqa: PLR0913 - a batch has this many parts
        self,
        messages: bytes,
        answers: int,
        checks: Checks = NO_CHECKS,
        *,
        before: bytes = b"",
        simple: bool = False,
        sink: Sink,
    ) -> Reply:
        """Pass a client's messages to PostgreSQL, checks after them, all up to one Sync.

        Args:
            messages: The client's messages.
            answers: Their number.
            checks: What follows them.
            before: One message of our own that has to come before, or nothing.
            simple: Whether the client sent a Query.
            sink: What takes answers that are too many to wait for the checks.
        """
        calls = self._calls
        leading = 1 if before else 0
        data = before + messages + checks.execute
        missing = checks.names - calls.prepared
        parses = {}
        if missing:
            parses = {check.name: check.parse for check in checks.each if check.name in missing}
            leading += len(parses)
            data = b"".join(parses.values()) + data
        batch = Batch(data, leading, answers, checks.expected, simple)
        reply = self._backend.exchange(batch, sink)
        for name in list(parses)[: reply.led]:
            calls.note_prepared(name)
        if reply.error is not None and checks.names and not reply.confirmed:
            self._note_dropped(reply, checks, leading=leading, answers=answers)
        return reply

    def _note_dropped(self, reply: Reply, checks: Checks, *, leading: int, answers: int) -> None:
        """Note what the client has dropped, or made, of the statements that are ours."""
        code = reply.code
        if reply.led < leading and code == sqlstate.DUPLICATE_PSTATEMENT:
            for name in checks.names:
                self._calls.note_prepared(name)
        elif reply.answered == answers and code == sqlstate.INVALID_SQL_STATEMENT_NAME:
            for name in checks.names:
                self._calls.note_dropped(name)

    # transactions ---------------------------------------------------------------------------------

    def begin(self, sql: str = "BEGIN") -> None:
        """Begin a transaction block."""
        self._backend.run(Query(sql))

    def begin_later(self) -> None:
        """Begin one with what is asked next; until then it is open in name only."""
        self._backend.begin_later()

    def commit(self, *, is_seen: bool = False) -> str:
        """Commit; return the command tag, which is ROLLBACK after an error.

        Args:
            is_seen: As of `doubting`.

        Raises:
            UnknownOutcomeError: when the connection was lost meanwhile.
        """
        self.end_guard()
        with self.doubting(is_seen=is_seen):
            result = self._backend.run(COMMIT)
        return self._backend.decode(result.command_status or b"")

    @contextmanager
    def doubting(self, *, is_seen: bool = False) -> Iterator[None]:
        """Say of a connection that is lost while it commits that the outcome is unknown.

        Args:
            is_seen: Whether rows have been appended to an external journal, where they are seen
                whatever becomes of the transaction.

        Raises:
            CatalogUnavailableError: It has been lost before, and nothing is committed.
            UnknownOutcomeError: It was lost meanwhile, or rows have been appended before.
        """
        if is_seen:
            with _doubting_appended():
                yield
            return
        self.require_connected()
        with _doubting():
            yield

    def rollback(self) -> None:
        """Roll back; nothing to do when idle."""
        self.end_guard()
        if self._backend.transaction_status != "I":
            self._backend.run(Query("ROLLBACK"))

    # savepoints of the gateway's own --------------------------------------------------------------

    def savepoint(self, name: str) -> None:
        """Make one in the open transaction, around a part of a statement."""
        self._calls.run_all(_commands(f"SAVEPOINT {name}"))
        self._savepoints.append(name)

    def roll_back_to(self, name: str) -> None:
        """Undo what has been done since it was made; it stays."""
        self._calls.run_all(_commands(f"ROLLBACK TO {name}"))

    def release(self, name: str) -> None:
        """Let what has been done since stand."""
        self._calls.run_all(_commands(f"RELEASE {name}"))
        self._forget_savepoint(name)

    def abandon(self, name: str) -> None:
        """Undo what has been done since, and release it."""
        self._calls.run_all(_commands(f"ROLLBACK TO {name}", f"RELEASE {name}"))
        self._forget_savepoint(name)

    def guard(self) -> None:
        """Make a savepoint with what is asked next, to which a statement can be taken back."""
        self._backend.run_later(_GUARDING)
        self._savepoints.append(_STATEMENT)

    def take_back(self) -> None:
        """Undo what has been done since the guard, which is there no more."""
        self.abandon(_STATEMENT)

    def let_stand(self) -> None:
        """Release the guard with what is asked next."""
        if _STATEMENT in self._savepoints:
            self._forget_savepoint(_STATEMENT)
            if not self._backend.leave_out(_GUARDING):
                self._backend.run_later(_RELEASING)

    def end_guard(self) -> None:
        """Release it with the transaction, which ends next."""
        self._backend.leave_out(_RELEASING)

    def leave_own_savepoints(self) -> None:
        """Leave those that a statement of a client's transaction block has failed in.

        A failure in one of them aborts this alone. What the transaction has locked before is free,
        as after any error of PostgreSQL's, when it fails outside of them.
        """
        outermost = self._savepoints[0] if self._savepoints else None
        self._savepoints.clear()
        if outermost is None or self._backend.transaction_status == "I":
            return
        with suppress(CatalogError):
            self._calls.run_all(_commands(f"ROLLBACK TO {outermost}", f"RELEASE {outermost}"))

    def _forget_savepoint(self, name: str) -> None:
        if name in self._savepoints:
            del self._savepoints[self._savepoints.index(name) :]

    # what is there --------------------------------------------------------------------------------

    def relations(
        self, relids: Iterable[int], *, definitions: int | None = None
    ) -> dict[int, Relation]:
        """Classify relations; without a round trip when all are known for these `definitions`."""
        wanted = sorted(set(relids))
        if definitions is not None:
            known = self._known.relations(definitions, wanted)
            if known is not None:
                return known
        answer = self._calls.call(bookkeeping.RELATIONS, array(wanted))
        return self._known.decode_relations(answer, wanted)

    def definitions(self) -> int:
        """Return the fingerprint of all definitions this transaction sees."""
        return int(self._calls.call(bookkeeping.DEFINITIONS))

    def basis(self, names: Iterable[str] = ()) -> Basis:
        """Return what the analysis of a statement rests on that names these relations, as SQL.

        The fingerprint of definitions alone would not do: search paths change by SET, temporary
        tables go at the end of transactions.
        """
        return self.grounds(names)[0]

    def grounds(self, names: Iterable[str]) -> tuple[Basis, TimeOuts]:
        """Return the same, and what limits the session."""
        results = self._calls.run_all(self._calls.basis_steps(self._encoded(names)))
        return moments.grounds_of(results[-1])

    def snapshot(
        self,
        requests: Sequence[SnapshotRequest],
        *,
        check: str | None = None,
        check_prepared: str | None = None,
        writes: bool = False,
    ) -> SnapshotResult:
        """Read what a statement sees, and check its privileges in the same round trip.

        `check` is the statement's text, `check_prepared` the name it was prepared under. Of one
        that `writes` no lock is kept.

        Raises:
            CatalogError: What the statement's check raises; 40001 in a transaction where a table is
                there no more.
            OutdatedPlanError: The same outside of transactions.
        """
        steps = self._check_steps(check, check_prepared)
        if writes and self._backend.transaction_status == "T":
            steps = _unlocked(steps)
        with self._undoing(began=self._backend.transaction_status == "I"):
            return self._snapshot(steps, requests)[1]

    def observe(
        self,
        requests: Sequence[SnapshotRequest],
        basis: Basis,
        names: Iterable[str],
        *,
        check: str | None = None,
        check_prepared: str | None = None,
    ) -> tuple[Moment, SnapshotResult]:
        """Read what a statement that only reads depends on, all in one round trip.

        That is what `snapshot` reads, besides the session's settings, and whether the `basis` of
        its plan still holds, of which these `names` are a part. What a transaction block has done
        before is left as it is where the basis does not hold.

        Raises:
            OutdatedPlanError: The plan rests on another basis than this one.
            CatalogError: As for `snapshot`.
        """
        encoded = self._encoded(names)
        began = self._backend.transaction_status == "I"
        guard = [] if began else _commands(f"SAVEPOINT {_GUARD}")
        before = [*guard, moments.step(encoded), *self._check_steps(check, check_prepared)]
        after = [] if began else _commands(f"RELEASE {_GUARD}")
        try:
            with self._undoing(began=began):
                results, snapshot = self._snapshot(before, requests, after)
        except CatalogError as error:
            self._require_same_basis(error, basis, encoded, guarded=not began)
            raise
        moment = moments.moment_of(results[len(guard)])
        if snapshot.definitions != basis.definitions or not moment.agrees(basis):
            raise OutdatedPlanError("definitions have changed")
        return moment, snapshot

    def _require_same_basis(
        self, error: CatalogError, basis: Basis, names: Sequence[bytes], *, guarded: bool
    ) -> None:
        """Say of a statement that failed on another basis than that of its plan that this is why.

        Raises:
            OutdatedPlanError: The basis is another one now.
        """
        if error.sqlstate == sqlstate.QUERY_CANCELED:
            if guarded:
                self._savepoints.append(_GUARD)
            return
        undo = _commands(f"ROLLBACK TO {_GUARD}", f"RELEASE {_GUARD}") if guarded else []
        results = self._calls.run_all([*undo, *self._calls.basis_steps(names)])
        if basis_of(results[-1]) != basis:
            raise OutdatedPlanError("definitions have changed") from error

    # writes ---------------------------------------------------------------------------------------

    def begin_write(  # noqa: PLR0913 - what is locked, read and checked
        self,
        relids: Sequence[int],
        requests: Sequence[SnapshotRequest] = (),
        *,
        command: str = "UPDATE",
        check: str | None = None,
        check_prepared: str | None = None,
        cools: bool = True,
    ) -> tuple[dict[int, int], SnapshotResult]:
        """Lock tables for writing, beginning a transaction when idle, then read snapshots.

        `command` is named when the transaction is read-only (25006). Returns the version number
        each table's writes of this statement carry, and the snapshots. Hot rows go cold, unless
        the table is not to be cooled.

        Raises:
            HotRowsError: A table has hot rows, and is not to be cooled.
        """
        began = self._backend.transaction_status == "I"
        before: list[Step] = [Query("BEGIN")] if began else []
        before += _unlocked(self._check_steps(check, check_prepared))
        checked: list[int] = []
        while True:
            when_hot = b"cool" if cools else b"tell"
            steps = [*before, *self._lock_steps(relids, command, checked, when_hot)]
            with self._undoing(began=began):
                results, snapshot = self._snapshot(steps, requests)
            answer = json.loads(value_of(results[len(steps) - 1]))
            if "hot" in answer:
                self._undo(began=began)
                raise HotRowsError("the table has hot rows")
            if "unchecked" not in answer:
                return {int(relid): version for relid, version in answer.items()}, snapshot
            relid, seen = answer["unchecked"]
            self._require_seen(relid, seen, began=began)
            checked.append(relid)
            before = []

    def _require_seen(self, relid: int, snapshot: str, *, began: bool) -> None:
        """Refuse to write by a snapshot older than what others wrote to hot rows (40001)."""
        if self._is_unseen is None or self._is_unseen(relid, snapshot):
            self._undo(began=began)
            raise CatalogError(
                "could not serialize access due to concurrent update",
                sqlstate=sqlstate.SERIALIZATION_FAILURE,
            )

    def hold(
        self, relids: Sequence[int], *, hot_only: bool = False, keeps_cold: bool = False
    ) -> None:
        """Let nobody else write tiered tables among these until the transaction ends.

        Hot rows go cold. With `hot_only` others may go on to write tables without any; with
        `keeps_cold` they cannot make rows of these hot.

        Raises:
            CatalogError: 40001 when the transaction's snapshot is older than what others wrote.
        """
        checked: list[int] = []
        while True:
            how = (b"t" if asked else b"f" for asked in (hot_only, keeps_cold))
            held = (array(relids), array(checked), *how)
            answer = json.loads(self._calls.call(bookkeeping.HOLD, *held))
            if "unchecked" not in answer:
                return
            relid, seen = answer["unchecked"]
            self._require_seen(relid, seen, began=False)
            checked.append(relid)

    def insert_small(  # noqa: PLR0913 — as many as Bind has
        self,
        relid: int,
        sql: str,
        values: Sequence[bytes | None] = (),
        *,
        parameter_oids: Sequence[int] = (),
        formats: Sequence[int] = (),
        result_format: int = 0,
        inline_rows: int,
        inline_bytes: int,
        prepared: bool = False,
        named: Iterable[str] = (),
        basis: Basis | None = None,
        cools: bool = True,
    ) -> tuple[LocalResult, CaptureReceipt]:
        """Lock, run the client's INSERT and capture its rows, in one round trip.

        `sql` is the name of a prepared statement when `prepared` is set. The rows of RETURNING
        are held. Begins a transaction when idle, which the caller commits; after an
        error it is rolled back here.

        Raises:
            OutdatedPlanError: The INSERT was planned on another `basis` than this one, and has
                been rolled back.
            CatalogError: 40001 when so, but the transaction was there before.
            HotRowsError: The table has hot rows, and is not to be cooled; not in a transaction that
                was there before.
        """
        insert = (
            Execute(sql, values, formats, result_format)
            if prepared
            else Query(sql, values, parameter_oids, formats, result_format)
        )
        began = self._backend.transaction_status == "I"
        before: list[Step] = [Query("BEGIN")] if began else []
        # Before anything is locked, and again when the INSERT has locked what it names.
        expect = self._expect_steps(basis, named)
        before += expect
        before += self._lock_steps(
            [relid], "INSERT", (), b"fail" if began and not cools else b"cool"
        )
        after = expect[-1:]
        after += tail.capture_steps(self._calls, relid, inline_rows, inline_bytes)
        with self._undoing(began=began):
            held = HeldStep(insert)
            results = self._calls.run_all([*before, insert, *after], held=held)
        answer = tail.answer_of(self._backend, results[len(before)], held.rows)
        return answer, tail.receipt(value_of(results[-1]))

    def capture(self, relid: int, inline_rows: int, inline_bytes: int) -> CaptureReceipt:
        """Move rows an INSERT or COPY left in the catalog table to the tail, if they are few."""
        steps = tail.capture_steps(self._calls, relid, inline_rows, inline_bytes)
        return tail.receipt(value_of(self._calls.run_all(steps)[-1]))

    def drain(self, relid: int) -> DrainedRows:
        """Read the rows capture left in the catalog table; then call `clear_drained`."""
        return tail.drain(self._backend, self._calls, relid)

    def clear_drained(self, relid: int, *, ending: bool) -> None:
        """Empty the catalog table after its rows have been written to a segment.

        With `ending` the transaction is about to end: readers wait until it has.
        """
        self._calls.call(bookkeeping.CLEAR_DRAINED, _number(relid), b"t" if ending else b"f")

    def append(
        self,
        relid: int,
        version: int,
        rows: Sequence[Sequence[str | None]],
        tombstones: Sequence[Sequence[str | None]] = (),
        *,
        check_keys: bool = False,
    ) -> CaptureReceipt:
        """Write row versions to the tail through PostgreSQL's own constraint checks.

        Rows and tombstones list PostgreSQL's text of every live column in attribute-number order,
        then the row identity (None for keyed tables, or for new rows). All of a statement goes in
        one call.
        """
        answer = self._calls.call(
            bookkeeping.APPEND,
            _number(relid),
            _number(version),
            tail.encode_rows(rows),
            tail.encode_rows(tombstones),
            b"t" if check_keys else b"f",
        )
        return tail.receipt(answer)

    def thaw(self, relid: int, rows: Sequence[Sequence[str | None]]) -> bytes:
        """Put rows, told as in `append`, into a tiered table's catalog table; return their places.

        They are for one statement of this transaction, which has begun to write the table. Nothing
        is returned, and none is there, when one of them violates a constraint already.
        """
        encoded = tail.encode_rows(rows)
        return self._calls.call(bookkeeping.THAW, _number(relid), encoded) if encoded else b"{}"

    def run_between(  # noqa: PLR0913 - what comes before, and after
        self,
        step: Query | Execute | None,
        named: Iterable[str],
        basis: Basis | None,
        *,
        began: bool,
        before: Sequence[Call] = (),
        after: Sequence[Call] = (),
        commits: bool = False,
        guarded: bool = False,
    ) -> tuple[LocalResult | None, list[bytes]]:
        """Run a client's statement between calls of the bookkeeping, in one round trip.

        Begins a transaction when idle, which the caller commits unless this `commits` it. Its rows
        are held.

        Args:
            step: The statement, if any.
            named: The relations it names, as SQL.
            basis: What it was planned on.
            began: Whether the transaction is for this statement; after an error it is rolled back.
            before: Calls to be made before, with their arguments.
            after: Calls to be made afterwards.
            commits: Whether the transaction is committed then.
            guarded: Whether an open transaction is what it was where rows are not hot (``NOT_HOT``)
                or the basis is another one.

        Returns:
            The statement's result, and the last answer of each call.

        Raises:
            OutdatedPlanError: The statement was planned on another basis than this one.
            CatalogError: PostgreSQL's own errors.
        """
        steps: list[Step] = [Query("BEGIN")] if self._backend.transaction_status == "I" else []
        steps += _commands(f"SAVEPOINT {_GUARD}") if guarded else []
        expect = self._expect_steps(basis, named)
        steps += expect
        places, place = [], 0
        for function, values in before:
            steps += self._calls.steps(function, *values)
            places.append(len(steps) - 1)
        if step is not None:
            joined = _JOINS if isinstance(step, Query) and not step.nested_loops else ()
            steps += joined[:1]
            place = len(steps)
            steps += [step, *joined[1:], *expect[-1:]]
        for function, values in after:
            steps += self._calls.steps(function, *values)
            places.append(len(steps) - 1)
        steps += _commands(f"RELEASE {_GUARD}") if guarded else []
        if commits:
            steps.append(COMMIT)
            self.require_connected()
        undoing = self._guarded() if guarded else self._undoing(began=began)
        done: list[Step] = []
        doubting = _doubting(lambda: len(done) >= len(steps) - 1) if commits else nullcontext()
        with undoing, doubting:
            held = None if step is None else HeldStep(step)
            results = self._calls.run_all(steps, lambda step, _: done.append(step), held=held)
        answers = [value_of(results[number]) for number in places]
        if held is None:
            return None, answers
        return tail.answer_of(self._backend, results[place], held.rows), answers

    def announce(  # noqa: PLR0913 - what is announced and read, and on what ground
        self,
        call: Call,
        named: Iterable[str],
        basis: Basis | None,
        requests: Sequence[SnapshotRequest],
        *,
        began: bool,
        meanwhile: Callable[[], None] | None = None,
    ) -> tuple[bytes, TimeOuts, SnapshotResult]:
        """Announce a write, then read what it sees, in one round trip.

        Whether the role may write the table is looked at; PostgreSQL sees to the rest when the
        statement runs.

        Args:
            call: The call that announces it.
            named: The relations the statement names, as SQL.
            basis: What it was planned on.
            requests: What is read.
            began: Whether the transaction is for this statement; after an error it is rolled back.
            meanwhile: What is done while PostgreSQL works; it must not raise.

        Returns:
            The answer of the call, what limits the session, and the snapshots.

        Raises:
            OutdatedPlanError: The statement was planned on another basis than this one.
            CatalogError: PostgreSQL's own errors.
        """
        steps: list[Step] = [Query("BEGIN")] if self._backend.transaction_status == "I" else []
        steps += self._expect_steps(basis, named)
        steps += self._calls.steps(call[0], *call[1])
        place = len(steps) - 1
        steps.append(moments.LIMITS)
        with self._undoing(began=began):
            results, snapshot = self._snapshot(
                steps, requests, unwritten=began, meanwhile=meanwhile
            )
        limits = moments.limits_of(results[len(steps) - 1])
        return value_of(results[place]), limits, snapshot

    def last_seen(self, request: SnapshotRequest) -> TableSnapshot | None:
        """Return the snapshot of the state that a request names, if it is known; asks nothing."""
        return self._known.snapshot(request)

    def publish(self, relid: int, version: int, segments: Sequence[Segment]) -> dict[str, int]:
        """Add the segments of a bulk write; return their numbers by path."""
        answer: dict[str, int] = json.loads(
            self._calls.call(
                bookkeeping.PUBLISH, _number(relid), _number(version), encode_segments(segments)
            )
        )
        reach(Failpoint.PUBLISHED)
        return answer

    def replace(  # noqa: PLR0913 - all that one swap is about
        self,
        relid: int,
        segments: Sequence[Segment],
        retired: Sequence[int],
        clear_tail_to: int | None,
        *,
        expected_state: str,
        seen: str | None = None,
        tail_read: int = 0,
    ) -> dict[str, int]:
        """Swap segments after a flush or compaction that read `expected_state`.

        Row versions written meanwhile are kept: only the tail up to `clear_tail_to` goes; of a
        resident table what the snapshot `seen` showed, whose newest version is `clear_tail_to`.
        These are to be `tail_read` row versions, which were read for the segments.

        Raises:
            CatalogError: 40001 when another flush or compaction, TRUNCATE or DDL came first, XX001
                when other row versions would go than were read.
        """
        epoch = int(expected_state.partition("_")[0])
        answer: dict[str, int] = json.loads(
            self._calls.call(
                bookkeeping.REPLACE,
                _number(relid),
                _number(epoch),
                encode_segments(segments),
                array(retired),
                _number(clear_tail_to) if clear_tail_to is not None else None,
                seen.encode() if seen is not None else None,
                _number(tail_read),
            )
        )
        return answer

    def emptied(
        self, named: Sequence[int], whole: Sequence[int], *, cascades: bool, locks: bool
    ) -> list[int] | None:
        """Return the relations that TRUNCATE empties; None where the role may not.

        Args:
            named: Those it names.
            whole: Those of them that are emptied with what is below them.
            cascades: Whether what references them is emptied, too.
            locks: Whether they are locked, in PostgreSQL's order; no others join them then.
        """
        how = (b"t" if asked else b"f" for asked in (cascades, locks))
        said = (array(named), array(whole), *how)
        relids: list[int] | None = json.loads(self._calls.call(bookkeeping.EMPTIED, *said))
        return relids

    def truncate(self, relid: int, version: int, ended: Sequence[Segment]) -> None:
        """Leave a table without current rows; what it had becomes history.

        Args:
            relid: The table, locked by begin_write().
            version: What begin_write() returned for it.
            ended: The row versions of the tail, and tombstones of all current rows.
        """
        self._calls.call(
            bookkeeping.TRUNCATE, _number(relid), _number(version), encode_segments(ended)
        )
        reach(Failpoint.PUBLISHED)

    def pending_constraints(self) -> list[PendingConstraints]:
        """Return the constraints that the rows of tables must still be checked for."""
        return [
            PendingConstraints(
                relid,
                tuple(key or ()),
                tuple(UniqueKey.told(*index) for index in unique or ()),
                tuple(PendingCheck(*check) for check in checks or ()),
                tuple(not_null or ()),
            )
            for relid, key, unique, checks, not_null in json.loads(
                self._calls.call(bookkeeping.PENDING_CONSTRAINTS)
            )
        ]

    def set_key(self, relid: int) -> None:
        """Complete a pending key after the rows were checked and re-keyed into a new base."""
        self._calls.call(bookkeeping.SET_KEY, _number(relid))

    def set_satisfied(self, relid: int) -> None:
        """Note that the rows of a table were checked for all its constraints but a pending key."""
        self._calls.call(bookkeeping.SET_SATISFIED, _number(relid))

    # bookkeeping ----------------------------------------------------------------------------------

    def call(self, function: Function, *values: bytes | None) -> bytes:
        """Call a bookkeeping function and return its answer."""
        return self._calls.call(function, *values)

    # others' work ---------------------------------------------------------------------------------

    @property
    def uses(self) -> int:
        """How often something was asked of PostgreSQL."""
        return self._backend.uses

    def stand_in(self, text: str, wanted: Callable[[], bool]) -> bool:
        """Let PostgreSQL wait under a client's text; see `Backend.stand_in`."""
        return self._backend.stand_in(text, wanted)

    def stand_down(self) -> None:
        """Have PostgreSQL wait no more."""
        self._backend.stand_down()

    def interruption(self, timeout_s: float) -> CatalogError | None:
        """Return how somebody has ended that; see `Backend.interruption`."""
        return self._backend.interruption(timeout_s)

    # lifetime -------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """Return the connection's socket; readable when a notification may have come."""
        return self._backend.fileno()

    def wait_notifications(self, timeout_s: float) -> None:
        """Deliver notifications that arrive within the time."""
        self._backend.wait_notifications(timeout_s)

    def require_connected(self) -> None:
        """Raise what PostgreSQL said when it has ended the session.

        Raises:
            CatalogUnavailableError: 57P01, 57P02, 57P05 … as PostgreSQL says them.
        """
        self._backend.require_connected()

    def cancel(self) -> None:
        """Ask PostgreSQL to cancel what runs; callable from any thread."""
        self._backend.cancel()

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        self._backend.close()

    # ----------------------------------------------------------------------------------------------

    def _stream(self, step: Query | Execute) -> LocalResult:
        result = self._backend.stream(step)
        if result.command_tag in _FORGETTING_TAGS:
            self._calls.forget_prepared()
            self._parameter_counts.clear()
        return result

    def _check_steps(self, sql: str | None, prepared: str | None) -> list[Step]:
        if prepared is not None:
            count = self._parameter_counts.get(prepared)
            if count is None:
                count = len(self.describe(prepared).parameter_oids)
            arguments = f"({', '.join(['NULL'] * count)})" if count else ""
            return [Query(f"EXPLAIN (COSTS OFF) EXECUTE {_quoted(prepared)}{arguments}")]
        if sql is not None:
            return [Query(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {sql}")]
        return []

    def _encoded(self, names: Iterable[str]) -> list[bytes]:
        return [self._backend.encode(name) for name in names]

    def _expect_steps(self, basis: Basis | None, names: Iterable[str]) -> list[Step]:
        return self._calls.expect_steps(basis, self._encoded(names)) if basis else []

    def _lock_steps(
        self, relids: Sequence[int], command: str, checked: Sequence[int], when_hot: bytes
    ) -> list[Step]:
        return self._calls.steps(
            bookkeeping.BEGIN_WRITE, array(relids), command.encode(), array(checked), when_hot
        )

    def _snapshot(
        self,
        before: list[Step],
        requests: Sequence[SnapshotRequest],
        after: Sequence[Step] = (),
        *,
        unwritten: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> tuple[list[PGresult], SnapshotResult]:
        steps = self._calls.steps(bookkeeping.SNAPSHOT, self._known.request(requests))
        results = self._calls.run_all([*before, *steps, *after], meanwhile=meanwhile)
        answer = results[len(before) + len(steps) - 1]
        for _ in range(100):
            try:
                return results, self._known.decode(values_of(answer), unwritten=unwritten)
            except StaleDefinitionError as stale:
                self._known.forget(stale.relid)
                (answer,) = self._calls.run_all(
                    self._calls.steps(bookkeeping.SNAPSHOT, self._known.request(requests))
                )
        raise CatalogError(
            "definitions change faster than they can be read",
            sqlstate=sqlstate.SERIALIZATION_FAILURE,
        )

    @contextmanager
    def _undoing(self, *, began: bool) -> Iterator[None]:
        """Roll back a transaction begun on the client's behalf when what is in it fails."""
        try:
            yield
        except StaleDefinitionError:
            self._undo(began=began)
            raise
        except CatalogError as error:
            self._undo(began=began)
            if error.sqlstate == bookkeeping.HAS_HOT_ROWS:
                raise HotRowsError(error.message) from error
            if error.sqlstate != bookkeeping.OUTDATED:
                raise
            if began:
                raise OutdatedPlanError(error.message) from error
            raise OutdatedTransactionError(
                error.message,
                sqlstate=sqlstate.SERIALIZATION_FAILURE,
                detail=error.detail,
                hint=error.hint,
                position=error.position,
                fields=error.fields,
            ) from error

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Go back to the guard where a statement was not run for reasons of ours."""
        try:
            yield
        except CatalogError as error:
            if error.sqlstate not in {bookkeeping.OUTDATED, bookkeeping.NOT_HOT}:
                self._savepoints.append(_GUARD)
                raise
            self._calls.run_all(_commands(f"ROLLBACK TO {_GUARD}", f"RELEASE {_GUARD}"))
            if error.sqlstate == bookkeeping.OUTDATED:
                raise OutdatedPlanError(error.message) from error
            raise

    def _undo(self, *, began: bool) -> None:
        if began and self._backend.transaction_status != "I":
            self._backend.run(Query("ROLLBACK"))


@contextmanager
def _doubting(is_at_commit: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Say of a connection that is lost while it commits that the outcome is unknown (40003).

    PostgreSQL says that it ends a session between two of its steps: then it is known which were
    done.
    """
    try:
        yield
    except CatalogUnavailableError as error:
        if error.sqlstate in _ENDINGS and not is_at_commit():
            raise
        raise UnknownOutcomeError(
            "the connection to the catalog was lost during COMMIT; its outcome is unknown",
            detail=error.detail or error.message,
        ) from error


@contextmanager
def _doubting_appended() -> Iterator[None]:
    """Say of a connection that is lost that rows are in an external journal already (40003).

    Whether it was committing makes no difference to them.
    """
    try:
        yield
    except CatalogUnavailableError as error:
        raise UnknownOutcomeError(
            "the connection to the catalog was lost after rows were appended to an external"
            " journal",
            detail=error.detail or error.message,
            hint="The rows stay there, whatever became of the transaction: look before repeating"
            " it.",
        ) from error


_ENDINGS: Final = frozenset({sqlstate.ADMIN_SHUTDOWN, sqlstate.CRASH_SHUTDOWN})

# Local to the transaction, and undone at once.
_JOINS: Final = (
    Query(
        "SELECT set_config('pg_journal.nested_loops', current_setting('enable_nestloop'), true),"
        " set_config('enable_nestloop', 'off', true)",
        internal=True,
    ),
    Query(
        "SELECT set_config('enable_nestloop', current_setting('pg_journal.nested_loops'), true)",
        internal=True,
    ),
)
"""What is run before and after a statement that is planned without nested loops."""

_ANALYSED: Final = "pgwire_unlocked"
"""The savepoint to which the locks of an analysis are taken back."""

_GUARD: Final = "pgwire_guard"
"""The savepoint to which a step of a statement is taken back that was not run for our reasons."""

_STATEMENT: Final = "pgwire_statement"
"""The savepoint to which a statement as a whole is taken back."""

_GUARDING: Final = Query(f"SAVEPOINT {_STATEMENT}", internal=True)
_RELEASING: Final = Query(f"RELEASE {_STATEMENT}", internal=True)


def _unlocked(steps: list[Step]) -> list[Step]:
    """Return steps that keep none of the locks they take.

    A lock of a table taken before that of its gate is one that others wait for the other way round.
    """
    if not steps:
        return []
    end = _commands("ROLLBACK TO pgwire_check", "RELEASE pgwire_check")
    return [*_commands("SAVEPOINT pgwire_check"), *steps, *end]


def _commands(*texts: str) -> list[Step]:
    return [Query(text, internal=True) for text in texts]


def _number(value: int) -> bytes:
    return str(value).encode()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
