"""Statements that write journals: tables are locked or announced, and the client's statement runs.

What they leave in journals, :mod:`catalog.session.journals` puts there.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Final

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping import moments, tail
from catalog.bookkeeping.calls import Bookkeeping, Call, array, value_of
from catalog.bookkeeping.moments import TimeOuts
from catalog.connection.backend import Backend
from catalog.connection.held_steps import HeldStep
from catalog.connection.steps import COMMIT, Execute, Query, Step
from catalog.errors import CatalogError, HotRowsError
from catalog.pg import sqlstate
from catalog.results import Basis, CaptureReceipt, LocalResult, SnapshotRequest, SnapshotResult
from catalog.session.analyses import Analyses
from catalog.session.observations import Observations
from catalog.session.transactions import (
    STEP_GUARD,
    CatalogTransaction,
    commands,
    doubting_commit,
    unlocked,
)

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


class JournalWrites:
    """Writes of journaled tables in one session."""

    def __init__(  # noqa: PLR0913 - the other parts of a session that these are made of
        self,
        backend: Backend,
        calls: Bookkeeping,
        transaction: CatalogTransaction,
        analyses: Analyses,
        observations: Observations,
        *,
        is_unseen: Callable[[int, str], bool] | None,
    ) -> None:
        """Begin with none.

        Args:
            backend: The connection.
            calls: Calls of the bookkeeping on it.
            transaction: Its transaction.
            analyses: What checks privileges.
            observations: What reads snapshots.
            is_unseen: Whether a snapshot is older than what others wrote to hot rows of a table;
                without it all are.
        """
        self._backend = backend
        self._calls = calls
        self._transaction = transaction
        self._analyses = analyses
        self._observations = observations
        self._is_unseen = is_unseen
        self.on_lock: Callable[[Sequence[int]], None] = lambda _: None
        """Receiver of the tables that are going to be locked as a whole, before they are."""

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
        began = self._transaction.is_idle
        before = self._transaction.begin_steps()
        before += unlocked(self._analyses.check_steps(check, check_prepared))
        checked: list[int] = []
        while True:
            when_hot = b"cool" if cools else b"tell"
            steps = [*before, *self._lock_steps(relids, command, checked, when_hot)]
            with self._transaction.undoing(began=began):
                results, snapshot = self._observations.read(steps, requests)
            answer = json.loads(value_of(results[len(steps) - 1]))
            if "hot" in answer:
                self._transaction.undo(began=began)
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
            self._transaction.undo(began=began)
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
            Execute(sql, values, formats, result_format, is_clients=True)
            if prepared
            else Query(sql, values, parameter_oids, formats, result_format, is_clients=True)
        )
        began = self._transaction.is_idle
        before = self._transaction.begin_steps()
        # Before anything is locked, and again when the INSERT has locked what it names.
        expect = self._expect_steps(basis, named)
        before += expect
        before += self._lock_steps(
            [relid], "INSERT", (), b"fail" if began and not cools else b"cool"
        )
        after = expect[-1:]
        after += tail.capture_steps(self._calls, relid, inline_rows, inline_bytes)
        with self._transaction.undoing(began=began):
            held = HeldStep(insert)
            results = self._calls.run_all([*before, insert, *after], held=held)
        answer = tail.answer_of(self._backend, results[len(before)], held.rows)
        return answer, tail.receipt(value_of(results[-1]))

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
        steps = self._transaction.begin_steps()
        steps += self._expect_steps(basis, named, call)
        place = len(steps) - 1
        steps.append(moments.LIMITS)
        with self._transaction.undoing(began=began):
            results, snapshot = self._observations.read(
                steps, requests, unwritten=began, meanwhile=meanwhile
            )
        limits = moments.limits_of(results[len(steps) - 1])
        return value_of(results[place]), limits, snapshot

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
        steps = self._transaction.begin_steps()
        steps += commands(f"SAVEPOINT {STEP_GUARD}") if guarded else []
        places, place, named = [], 0, tuple(named)
        for number, call in enumerate(before or [None]):
            steps += self._expect_steps(None if number else basis, named, call)
            places += [] if call is None else [len(steps) - 1]
        if step is not None:
            joined = _JOINS if isinstance(step, Query) and not step.nested_loops else ()
            steps += joined[:1]
            place = len(steps)
            steps += [step, *joined[1:], *self._expect_steps(basis, named)]
        for function, values in after:
            steps += self._calls.steps(function, *values)
            places.append(len(steps) - 1)
        steps += commands(f"RELEASE {STEP_GUARD}") if guarded else []
        if commits:
            steps.append(COMMIT)
            self._backend.require_connected()
        undoing = (
            self._transaction.guarded_step() if guarded else self._transaction.undoing(began=began)
        )
        done: list[Step] = []
        at_commit = doubting_commit(lambda: len(done) >= len(steps) - 1)
        with undoing, at_commit if commits else nullcontext():
            held = None if step is None else HeldStep(step)
            results = self._calls.run_all(steps, lambda step, _: done.append(step), held=held)
        answers = [value_of(results[number]) for number in places]
        if held is None:
            return None, answers
        return tail.answer_of(self._backend, results[place], held.rows), answers

    def _expect_steps(
        self, basis: Basis | None, named: Iterable[str], then: Call | None = None
    ) -> list[Step]:
        """Return the steps that fail unless names have a basis, if any, and make a call."""
        if basis is None:
            return self._calls.steps(then[0], *then[1]) if then else []
        return self._calls.expect_steps(basis, self._calls.encoded(named), then)

    def _lock_steps(
        self, relids: Sequence[int], command: str, checked: Sequence[int], when_hot: bytes
    ) -> list[Step]:
        self.on_lock(relids)
        return self._calls.steps(
            bookkeeping.BEGIN_WRITE, array(relids), command.encode(), array(checked), when_hot
        )
