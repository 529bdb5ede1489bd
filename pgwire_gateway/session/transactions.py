"""Transaction status of a session: the catalog's transaction, and whether the client knows of it.

The client's transaction is the catalog's transaction. A transaction is *implicit* when the gateway
opened it around statements that PostgreSQL would run as one unit (a query string of several
statements, a pipeline up to Sync, a write outside a block): the client sees it as idle.
Follows "Multiple Statements in a Simple Query" and "Pipelining" of PostgreSQL's protocol chapter.
"""

from collections.abc import Callable, Mapping

from catalog.errors import GatewayError
from catalog.pg.sqlstate import IN_FAILED_SQL_TRANSACTION
from catalog.session import session_state
from catalog.session.connections import CatalogSession
from catalog.session.session_state import Isolation

IDLE = "I"
IN_TRANSACTION = "T"
FAILED = "E"

MOST_BEGINNINGS = 5
"""How often a transaction is begun whose first statement finds that its snapshot is too old."""

MOST_GUARDED = 50
"""How many statements of a transaction have savepoints of their own.

Of more than 64 subtransactions PostgreSQL loses sight, and then everybody's snapshots cost more.
"""


class Savepoints:
    """Names of the savepoints of a transaction, each with the number of its place among portals."""

    def __init__(self) -> None:
        """Begin without any."""
        self._stack: list[tuple[str, int]] = []

    @property
    def latest(self) -> int:
        """Number of the latest one; 0 while there is none."""
        return self._stack[-1][1] if self._stack else 0

    def add(self, name: str, number: int) -> None:
        """Add one."""
        self._stack.append((name, number))

    def release(self, name: str) -> None:
        """Forget the latest of this name and all after it."""
        del self._stack[self._place(name) :]

    def roll_back(self, name: str) -> int:
        """Forget all after the latest of this name; return its number."""
        del self._stack[self._place(name) + 1 :]
        return self.latest

    def clear(self) -> None:
        """Forget all."""
        self._stack.clear()

    def _place(self, name: str) -> int:
        return max(place for place, (found, _) in enumerate(self._stack) if found == name)


class Transaction:
    """The one transaction of a session."""

    def __init__(
        self,
        catalog: CatalogSession,
        on_written: Callable[[], None],
        on_made: Callable[[Mapping[int, str]], None],
    ) -> None:
        """Watch the transaction of a catalog session.

        Args:
            catalog: The session.
            on_written: Called after a transaction that wrote journals has ended.
            on_made: Called after one that made tables with files has, with these.
        """
        self._catalog = catalog
        self._on_written = on_written
        self._on_made = on_made
        self._implicit = False
        self.defers = False
        """Whether deferred foreign keys have left something to be looked at before COMMIT."""
        self.look_at_deferred: Callable[[], None] = _nothing
        """Looks at it."""
        self.written: set[int] = set()
        """Journaled tables with uncommitted changes of this transaction."""
        self.newly_hot: set[int] = set()
        """Those of them that have got hot rows since the snapshot of this transaction.

        It cannot write them as a whole, as its snapshot does not tell which rows are hot.
        """
        self.unkeyed: set[int] = set()
        """Those without a key that it has inserted rows into beside others."""
        self.runs_nothing_at_once = False
        """Whether no statement is run any more in the hope that all rows it needs are hot."""
        self.commits_apart = False
        """Whether no statement is committed any more in the trip that runs it.

        One has left something to be looked at before COMMIT.
        """
        self.is_seen = False
        """Whether others see already what it has written, to a journal of theirs."""
        self.guarded = 0
        """How many savepoints of ours statements of this transaction have had to go back to."""
        self.made: dict[int, str] = {}
        """Tables this transaction made with files: their directories by OID."""
        self.savepoints = Savepoints()
        """What the client can roll back to."""
        self._beginning: str | None = None
        self._beginnings = 0

    @property
    def status(self) -> str:
        """What ReadyForQuery tells: idle, in transaction or failed."""
        return IDLE if self._implicit else self._catalog.transaction_status

    @property
    def open(self) -> bool:
        """Return whether the catalog is inside a transaction, implicit or not."""
        return self._catalog.transaction_status != IDLE

    @property
    def failed(self) -> bool:
        """Return whether only the end of the transaction is accepted."""
        return self._catalog.transaction_status == FAILED

    def require_not_failed(self) -> None:
        """Refuse a statement in a failed transaction (25P02)."""
        if self.failed:
            raise GatewayError(
                "current transaction is aborted, commands ignored until end of transaction block",
                sqlstate=IN_FAILED_SQL_TRANSACTION,
            )

    @property
    def implicit(self) -> bool:
        """Return whether the open transaction is one the client did not begin."""
        return self._implicit

    def note_begun(self, command: str) -> None:
        """Note how the client has begun the transaction, in which nothing has been run yet."""
        self._beginning = command
        self._beginnings = 1

    def note_run(self) -> None:
        """Note that something is run in the transaction, whose snapshot may be seen by that."""
        self._beginning = None

    @property
    def beginning(self) -> str | None:
        """Return how the client has begun the transaction; None when something has been run."""
        return self._beginning

    def may_guard(self) -> bool:
        """Return whether one more statement may have a savepoint of its own, and count it.

        It may not where the client can roll back to a savepoint: what is locked in one of ours is
        locked by the whole transaction for those who begin to wait once it has been released
        (``XactLockTableWait``).
        """
        if self.savepoints.latest:
            return False
        self.guarded += 1
        return self.guarded <= MOST_GUARDED

    def begin_again(self, command: str | None, most: int = MOST_BEGINNINGS) -> bool:
        """Begin the client's transaction once more, as nothing has been run in it.

        It reads by another snapshot then.

        Args:
            command: How it was begun; None where something has been run.
            most: How often it may have been begun.

        Returns:
            Whether it has been begun; nothing is done where it cannot be, or was too often.
        """
        if command is None or self._beginnings >= most:
            return False
        self._catalog.transaction.leave_own_savepoints()
        self._catalog.transaction.rollback()
        self.settle()
        self._catalog.transaction.begin(command)
        self._beginning = command
        self._beginnings += 1
        return True

    def begin_implicit(self) -> None:
        """Open a transaction the client does not see, unless one is open."""
        if not self.open:
            self._catalog.transaction.begin_later()
            self._implicit = True

    def begin_steady(self) -> Isolation:
        """Open one whose statements all see one moment, and that may make temporary tables.

        The answer is what it would have been without that.
        """
        self._implicit = True
        return session_state.begin_steady(self._catalog)

    def expect_implicit(self) -> None:
        """Record that the next call to the catalog opens a transaction the client does not see."""
        if not self.open:
            self._implicit = True

    def begin_explicit(self) -> bool:
        """Make an implicit transaction the client's own; False when none was open."""
        was_implicit, self._implicit = self._implicit, False
        return was_implicit

    def end_implicit(self) -> None:
        """Commit an implicit transaction; roll it back when it failed."""
        if not self._implicit:
            return
        self.prepare_commit()
        failed, is_seen = self.failed, self.is_seen
        self._implicit = self.is_seen = False
        if failed:
            self._catalog.transaction.rollback()
        else:
            self._catalog.transaction.commit(is_seen=is_seen)
        self._ended()

    def prepare_commit(self) -> None:
        """Look at what is deferred to the end of the transaction; it is rolled back if that fails.

        Raises:
            GatewayError: 23503 and the like, as COMMIT would say it.
        """
        if not self.defers or self._catalog.transaction_status != IN_TRANSACTION:
            return
        try:
            self.look_at_deferred()
        except BaseException:
            self._catalog.transaction.rollback()
            self.settle()
            raise

    def fail(self) -> None:
        """Record a failed statement: an implicit transaction ends, the client's own is failed."""
        if self._implicit:
            self._implicit = False
            self._forget()
            if self.open:
                self._catalog.transaction.rollback()
            self.let_go_of_files()
            return
        self._catalog.transaction.leave_own_savepoints()
        if self._catalog.transaction_status == IN_TRANSACTION:
            session_state.fail_transaction(self._catalog)

    def settle(self) -> None:
        """Forget the changes of a transaction that ended by the client's own command."""
        if not self.open:
            self._implicit = False
            self._ended()

    def _ended(self) -> None:
        written = bool(self.written)
        self._forget()
        self.let_go_of_files()
        if written:
            self._on_written()

    def _forget(self) -> None:
        """Forget what is noted of the transaction, but for the tables it made."""
        self.defers = self.runs_nothing_at_once = self.is_seen = False
        self.guarded = 0
        self.written.clear()
        self.newly_hot.clear()
        self.unkeyed.clear()
        self.savepoints.clear()

    def let_go_of_files(self) -> None:
        """Let go of files that were not committed, after the transaction."""
        made, self.made = self.made, {}
        if made:
            self._on_made(made)


def _nothing() -> None:
    """Do nothing."""
