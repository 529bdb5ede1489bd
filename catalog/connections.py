"""One catalog connection per client session, logged in as the client's own role.

The methods of :class:`CatalogSession` are the whole surface the gateway uses; each delegates to the module
that knows its subject. A session belongs to one thread, except :meth:`CatalogSession.cancel`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from catalog.model import Segment
from catalog.results import (
    Analysis,
    CaptureReceipt,
    DrainedRows,
    LocalResult,
    Notification,
    Relation,
    Row,
    SnapshotRequest,
    SnapshotResult,
)


class CopyIn(Protocol):
    """A COPY FROM STDIN in progress on the catalog."""

    formats: tuple[int, ...]
    overall_format: int

    def write(self, data: bytes) -> None: ...
    def finish(self) -> str: ...
    def fail(self, message: str) -> None: ...


class CopyOut(Protocol):
    """A COPY TO STDOUT in progress; ``command_tag`` is set after the last chunk."""

    formats: tuple[int, ...]
    overall_format: int
    chunks: Iterator[bytes]
    command_tag: str | None


class CatalogSession:
    """The client's own PostgreSQL session."""

    on_notice: Callable[[Mapping[str, str]], None]
    on_notification: Callable[[Notification], None]

    @property
    def transaction_status(self) -> str:
        """'I' idle, 'T' in a transaction, 'E' in a failed one."""
        raise NotImplementedError

    @property
    def backend_pid(self) -> int:
        raise NotImplementedError

    def parameter_statuses(self) -> dict[str, str]:
        """All reported settings and their current values."""
        raise NotImplementedError

    # statements -----------------------------------------------------------------------------------
    def analyse(
        self, sql: str, parameter_oids: Sequence[int] = (), *, name: str = ""
    ) -> Analysis:
        """Prepare under `name` and describe; one round trip. The empty name is reused by other calls."""
        raise NotImplementedError

    def prepare(self, name: str, sql: str, parameter_oids: Sequence[int] = ()) -> None:
        raise NotImplementedError

    def deallocate(self, name: str) -> None:
        raise NotImplementedError

    def describe(self, name: str) -> Analysis:
        """Describe a prepared statement; `tree` is None."""
        raise NotImplementedError

    def execute(self, sql: str, *, result_formats: int = 0) -> LocalResult:
        """Run one statement without parameters."""
        raise NotImplementedError

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
        raise NotImplementedError

    def execute_prepared(
        self,
        name: str,
        values: Sequence[bytes | None],
        formats: Sequence[int] = (),
        result_format: int = 0,
    ) -> LocalResult:
        raise NotImplementedError

    def canonical_parameters(
        self,
        parameter_oids: Sequence[int],
        values: Sequence[bytes | None],
        formats: Sequence[int] = (),
    ) -> list[bytes | None]:
        """Binary form of each parameter, after PostgreSQL has validated it."""
        raise NotImplementedError

    def check_privileges(self, sql: str) -> None:
        """Raise 42501 (or what else PostgreSQL finds) unless the role may run the statement."""
        raise NotImplementedError

    def copy_in(self, sql: str) -> CopyIn:
        raise NotImplementedError

    def copy_out(self, sql: str) -> CopyOut:
        raise NotImplementedError

    # transactions ---------------------------------------------------------------------------------
    def begin(self, sql: str = "BEGIN") -> None:
        raise NotImplementedError

    def commit(self) -> None:
        """Commit; a connection lost meanwhile raises 40003 (outcome unknown)."""
        raise NotImplementedError

    def rollback(self) -> None:
        raise NotImplementedError

    # journals -------------------------------------------------------------------------------------
    def relations(self, relids: Iterable[int]) -> dict[int, Relation]:
        """Classify relations; cached until a definition changes."""
        raise NotImplementedError

    def definitions(self) -> int:
        """Fingerprint of all definitions, as in SnapshotResult."""
        raise NotImplementedError

    def snapshot(
        self, requests: Sequence[SnapshotRequest], *, check: str | None = None
    ) -> SnapshotResult:
        """Read what a statement sees; with `check`, that statement's privileges in the same round trip."""
        raise NotImplementedError

    def begin_write(
        self,
        relids: Sequence[int],
        requests: Sequence[SnapshotRequest] = (),
        *,
        check: str | None = None,
    ) -> tuple[dict[int, int], SnapshotResult]:
        """Lock tables for writing, begin a transaction when idle, and read snapshots after the lock.

        Returns the version number each table's writes of this statement carry, and the snapshots.
        """
        raise NotImplementedError

    def insert_small(
        self,
        relid: int,
        sql: str,
        values: Sequence[bytes | None] = (),
        *,
        parameter_oids: Sequence[int] = (),
        formats: Sequence[int] = (),
        result_format: int = 0,
        inline_rows: int,
        prepared: bool = False,
    ) -> tuple[list[Row], LocalResult, CaptureReceipt]:
        """Lock, run the client's INSERT and capture its rows, in one round trip (BEGIN first when idle).

        `sql` is the name of a prepared statement when `prepared` is set. The rows of RETURNING come fully
        fetched.
        """
        raise NotImplementedError

    def capture(self, relid: int, inline_rows: int) -> CaptureReceipt:
        """Move rows an INSERT or COPY left in the catalog table to the tail, if they are few."""
        raise NotImplementedError

    def drain(self, relid: int) -> DrainedRows:
        """Read the rows capture left in the catalog table; the caller then calls `clear_drained`."""
        raise NotImplementedError

    def clear_drained(self, relid: int) -> None:
        """Empty the catalog table after its rows have been written to a segment."""
        raise NotImplementedError

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

        Rows and tombstones list PostgreSQL's text of every live column in attribute-number order, then the
        row identity (None for keyed tables, or for new rows).
        """
        raise NotImplementedError

    def publish(self, relid: int, version: int, segments: Sequence[Segment]) -> tuple[Segment, ...]:
        """Add segments of a bulk write; returns them with their numbers."""
        raise NotImplementedError

    def replace(
        self,
        relid: int,
        segments: Sequence[Segment],
        retired: Sequence[int],
        clear_tail_to: int | None,
        *,
        expected_state: str,
    ) -> None:
        """Swap segments after a flush or compaction; 40001 when the table changed since `expected_state`."""
        raise NotImplementedError

    def truncate(self, relid: int) -> None:
        """Retire all segments and forget the tail."""
        raise NotImplementedError

    def has_rows(self, relid: int) -> bool:
        """True when the journal holds any row version at all."""
        raise NotImplementedError

    def pending_keys(self) -> tuple[int, ...]:
        """Tables to which this transaction added a primary key that their rows must still be checked for."""
        raise NotImplementedError

    def set_key(self, relid: int) -> None:
        """Complete a pending key after the rows were checked and re-keyed into a new base."""
        raise NotImplementedError

    # lifetime -------------------------------------------------------------------------------------
    def wait_notifications(self, timeout_s: float) -> None:
        """Deliver notifications that arrive within the time."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Ask PostgreSQL to cancel what runs; callable from any thread."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def internal(self, sql: str, *values: Any) -> Any:
        raise NotImplementedError


SessionContext = AbstractContextManager[CatalogSession]
