"""What is asked before a statement is planned or run: relations, definitions, snapshots of tables.

All that is known of the state of tables is kept here. Nothing is written.
"""

from collections.abc import Callable, Iterable, Sequence

from psycopg.pq.abc import PGresult

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping import moments
from catalog.bookkeeping.calls import Bookkeeping, array, basis_of, values_of
from catalog.bookkeeping.moments import Moment, Seen, TimeOuts
from catalog.bookkeeping.snapshots import KnownState, StaleDefinitionError
from catalog.connection import describe
from catalog.connection.backend import Backend
from catalog.connection.steps import Step
from catalog.errors import CatalogError, OutdatedPlanError
from catalog.model import TableSnapshot
from catalog.pg import sqlstate
from catalog.results import Analysis, Basis, Relation, SnapshotRequest, SnapshotResult
from catalog.session.analyses import Analyses
from catalog.session.transactions import (
    STEP_GUARD,
    CatalogTransaction,
    commands,
    undoing_steps,
    unlocked,
)


class Observations:
    """What one session sees of relations and tables."""

    def __init__(
        self,
        backend: Backend,
        calls: Bookkeeping,
        known: KnownState,
        transaction: CatalogTransaction,
        analyses: Analyses,
    ) -> None:
        """Begin with what other sessions know already."""
        self._backend = backend
        self._calls = calls
        self._known = known
        self._transaction = transaction
        self._analyses = analyses

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
        results = self._calls.run_all(self._calls.basis_steps(self._calls.encoded(names)))
        return moments.grounds_of(results[-1])

    def analyse_seeing(
        self, names: Sequence[str], sql: str, requests: Sequence[SnapshotRequest]
    ) -> tuple[Basis, TimeOuts, Analysis, Seen]:
        """Analyse as `analyse_named` does, and observe these tables, as `observe` does, after it.

        For a statement that is its own transaction, of which it is likely that it reads them.

        Raises:
            CatalogError: What PostgreSQL finds wrong with the statement, or with these tables.
            StaleDefinitionError: Something that was assumed known has been replaced meanwhile.
        """
        encoded = self._calls.encoded(names)
        before = self._calls.basis_steps(encoded)
        after = [moments.step(encoded), *self._analyses.check_steps(sql, None)]
        after += self._calls.steps(bookkeeping.SNAPSHOT, self._known.request(requests))
        analysis, results = describe.analyse(
            self._backend, "", sql, (), tree=True, before=before, after=after
        )
        basis, limits = moments.grounds_of(results[len(before) - 1])
        moment = moments.moment_of(results[len(before)])
        result = self._known.decode(values_of(results[-1]))
        return basis, limits, analysis, Seen(requests, moment, result)

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
        steps = self._analyses.check_steps(check, check_prepared)
        if writes and self._backend.transaction_status == "T":
            steps = unlocked(steps)
        with self._transaction.undoing(began=self._transaction.is_idle):
            return self.read(steps, requests)[1]

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
        encoded = self._calls.encoded(names)
        began = self._transaction.is_idle
        guard = [] if began else commands(f"SAVEPOINT {STEP_GUARD}")
        before = [*guard, moments.step(encoded), *self._analyses.check_steps(check, check_prepared)]
        after = [] if began else commands(f"RELEASE {STEP_GUARD}")
        try:
            with self._transaction.undoing(began=began):
                results, snapshot = self.read(before, requests, after)
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
                self._transaction.note_failed_step()
            return
        undo = undoing_steps(STEP_GUARD) if guarded else []
        results = self._calls.run_all([*undo, *self._calls.basis_steps(names)])
        if basis_of(results[-1]) != basis:
            raise OutdatedPlanError("definitions have changed") from error

    def last_seen(self, request: SnapshotRequest) -> TableSnapshot | None:
        """Return the snapshot of the state that a request names, if it is known; asks nothing."""
        return self._known.snapshot(request)

    def read(
        self,
        before: list[Step],
        requests: Sequence[SnapshotRequest],
        after: Sequence[Step] = (),
        *,
        unwritten: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> tuple[list[PGresult], SnapshotResult]:
        """Run steps and read snapshots, in one round trip unless definitions have been replaced.

        Args:
            before: Steps that are run before.
            requests: What is read.
            after: Steps that are run afterwards.
            unwritten: As of `KnownState.decode`.
            meanwhile: What is done while PostgreSQL works; it must not raise.

        Returns:
            The results of all steps, beginning with those before, and the snapshots.
        """
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
