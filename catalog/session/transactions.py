"""The transaction of a catalog session, and savepoints of the gateway's own in it.

What fails in a step of a statement is undone here, and said as what it means to whoever planned it.
Knows nothing of what the steps are for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from catalog.bookkeeping import calls as bookkeeping
from catalog.bookkeeping.calls import Bookkeeping
from catalog.bookkeeping.snapshots import StaleDefinitionError
from catalog.connection.backend import Backend
from catalog.connection.steps import COMMIT, Query, Step
from catalog.errors import (
    CatalogError,
    CatalogUnavailableError,
    HotRowsError,
    OutdatedPlanError,
    OutdatedTransactionError,
    UnknownOutcomeError,
)
from catalog.pg import sqlstate


class CatalogTransaction:
    """The one transaction of a catalog session, which is open or not."""

    def __init__(self, backend: Backend, calls: Bookkeeping) -> None:
        """Begin without any."""
        self._backend = backend
        self._calls = calls
        self._savepoints: list[str] = []

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open."""
        return self._backend.transaction_status == "I"

    def begin(self, sql: str = "BEGIN") -> None:
        """Begin a transaction block."""
        self._backend.run(Query(sql, is_clients=True))

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
        self._backend.require_connected()
        with doubting_commit():
            yield

    def rollback(self) -> None:
        """Roll back; nothing to do when idle."""
        self.end_guard()
        self._savepoints.clear()
        if not self.is_idle:
            self._backend.run(Query("ROLLBACK"))

    def begin_steps(self) -> list[Step]:
        """Return what begins one when idle."""
        return [Query("BEGIN")] if self.is_idle else []

    def undo(self, *, began: bool) -> None:
        """Roll back one that was begun on the client's behalf."""
        if began:
            self.rollback()

    @contextmanager
    def undoing(self, *, began: bool) -> Iterator[None]:
        """Roll back a transaction begun on the client's behalf when what is in it fails."""
        try:
            yield
        except StaleDefinitionError:
            self.undo(began=began)
            raise
        except CatalogError as error:
            self.undo(began=began)
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

    # savepoints of the gateway's own --------------------------------------------------------------

    def savepoint(self, name: str) -> None:
        """Make one in the open transaction, around a part of a statement."""
        self._calls.run_all(commands(f"SAVEPOINT {name}"))
        self._savepoints.append(name)

    def has_savepoint(self, name: str) -> bool:
        """Return whether one of this name has been made, and not been left."""
        return name in self._savepoints

    def roll_back_to(self, name: str) -> None:
        """Undo what has been done since it was made; it stays."""
        self._calls.run_all(commands(f"ROLLBACK TO {name}"))

    def release(self, name: str) -> None:
        """Let what has been done since stand."""
        self._calls.run_all(commands(f"RELEASE {name}"))
        self._forget_savepoint(name)

    def abandon(self, name: str) -> None:
        """Undo what has been done since, and release it."""
        self._calls.run_all(undoing_steps(name))
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
        if outermost is None or self.is_idle:
            return
        with suppress(CatalogError):
            self._calls.run_all(undoing_steps(outermost))

    @contextmanager
    def keeping_no_locks(self) -> Iterator[tuple[list[Step], list[Step]]]:
        """Tell what comes before and after the steps of an analysis of which no lock is kept.

        Where one of them fails the savepoint is left with those that a statement has failed in.
        """
        self._savepoints.append(_ANALYSED)
        yield commands(f"SAVEPOINT {_ANALYSED}"), undoing_steps(_ANALYSED)
        self._forget_savepoint(_ANALYSED)

    def note_failed_step(self) -> None:
        """Note that a step has failed after `STEP_GUARD` was made, which is still there."""
        self._savepoints.append(STEP_GUARD)

    @contextmanager
    def guarded_step(self) -> Iterator[None]:
        """Go back to `STEP_GUARD` where a statement was not run for reasons of ours."""
        try:
            yield
        except CatalogError as error:
            if error.sqlstate not in {bookkeeping.OUTDATED, bookkeeping.NOT_HOT}:
                self.note_failed_step()
                raise
            self._calls.run_all(undoing_steps(STEP_GUARD))
            if error.sqlstate == bookkeeping.OUTDATED:
                raise OutdatedPlanError(error.message) from error
            raise

    def _forget_savepoint(self, name: str) -> None:
        if name in self._savepoints:
            del self._savepoints[self._savepoints.index(name) :]


@contextmanager
def doubting_commit(is_at_commit: Callable[[], bool] = lambda: True) -> Iterator[None]:
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

_ANALYSED: Final = "pgwire_unlocked"
"""The savepoint to which the locks of an analysis are taken back."""

STEP_GUARD: Final = "pgwire_guard"
"""The savepoint to which a step of a statement is taken back that was not run for our reasons."""

_CHECK: Final = "pgwire_check"
"""The savepoint to which the locks of a check are taken back."""

_STATEMENT: Final = "pgwire_statement"
"""The savepoint to which a statement as a whole is taken back."""

_GUARDING: Final = Query(f"SAVEPOINT {_STATEMENT}", internal=True)
_RELEASING: Final = Query(f"RELEASE {_STATEMENT}", internal=True)


def unlocked(steps: list[Step]) -> list[Step]:
    """Return steps that keep none of the locks they take.

    A lock of a table taken before that of its gate is one that others wait for the other way round.
    """
    if not steps:
        return []
    return [*commands(f"SAVEPOINT {_CHECK}"), *steps, *undoing_steps(_CHECK)]


def undoing_steps(name: str) -> list[Step]:
    """Return what undoes all since a savepoint was made, and releases it."""
    return commands(f"ROLLBACK TO {name}", f"RELEASE {name}")


def commands(*texts: str) -> list[Step]:
    """Return steps of the gateway's own."""
    return [Query(text, internal=True) for text in texts]
