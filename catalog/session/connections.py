"""One catalog connection per client session, logged in as the client's own role.

A :class:`CatalogSession` runs statements, and holds the parts that know the other things a session
is asked for. It belongs to one thread, except for its ``cancel``.
"""

from collections.abc import Callable, Mapping, Sequence

from catalog.bookkeeping.call_codes import CallCodes
from catalog.bookkeeping.calls import Bookkeeping, Function
from catalog.bookkeeping.snapshots import KnownState
from catalog.connection.backend import Backend
from catalog.connection.copying import CopyIn, CopyOut
from catalog.connection.steps import Execute, Query
from catalog.errors import CatalogError
from catalog.results import LocalResult, Notification
from catalog.session.analyses import Analyses
from catalog.session.journal_writes import JournalWrites
from catalog.session.journals import Journals
from catalog.session.message_relay import MessageRelay
from catalog.session.observations import Observations
from catalog.session.transactions import CatalogTransaction

_MOST_COLUMNS = 1600
"""Fewer than the columns a result of PostgreSQL may have."""

_FORGETTING_TAGS = frozenset({"DEALLOCATE ALL", "DISCARD ALL"})


class CatalogSession:
    """The client's own PostgreSQL session.

    The unnamed prepared statement is used by all its parts: it only lives until the next call.
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
        self.has_resident_tables = has_resident_tables
        """Whether new tables are resident, and code of users is offered."""
        self.has_other_cursors = False
        """Whether cursors were declared over another query than was sent."""
        self.may_show_journals: bool | None = None
        """Whether ``gateway.show_journals`` may be on; None while nobody has looked."""
        self._backend = backend
        self._calls = calls = Bookkeeping(backend, codes)
        self.transaction = CatalogTransaction(backend, calls)
        """The transaction, and savepoints of the gateway's own."""
        self.analyses = Analyses(backend, calls, self.transaction)
        """What PostgreSQL finds out about statements, and what is prepared."""
        self.observations = Observations(backend, calls, known, self.transaction, self.analyses)
        """What is asked before statements are planned and run."""
        self.writes = JournalWrites(
            backend, calls, self.transaction, self.analyses, self.observations, is_unseen=is_unseen
        )
        """Statements that write journals."""
        self.journals = Journals(backend, calls)
        """What is written into journals."""
        self.relay = MessageRelay(backend, calls)
        """Messages of the client, passed through."""

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

    def execute(
        self,
        sql: str,
        *,
        result_format: int = 0,
        chunk_rows: int | None = None,
        is_own: bool = False,
    ) -> LocalResult:
        """Run one statement without parameters; its rows are taken so many at a time.

        They are in the client's encoding, those of a statement of our own in UTF-8.
        """
        query = Query(
            sql, result_format=result_format, chunk_rows=chunk_rows, is_clients=not is_own
        )
        return self._stream(query)

    def execute_parameters(  # noqa: PLR0913 - as many as Bind has
        self,
        sql: str,
        values: Sequence[bytes | None],
        *,
        parameter_oids: Sequence[int] = (),
        formats: Sequence[int] = (),
        result_format: int = 0,
        is_own: bool = False,
    ) -> LocalResult:
        """Run one statement with parameters without naming it.

        Values and rows are in the client's encoding, those of a statement of our own in UTF-8.
        """
        query = Query(sql, values, parameter_oids, formats, result_format, is_clients=not is_own)
        return self._stream(query)

    def execute_prepared(
        self,
        name: str,
        values: Sequence[bytes | None],
        formats: Sequence[int] = (),
        result_format: int = 0,
    ) -> LocalResult:
        """Run a prepared statement, in the client's encoding."""
        return self._stream(Execute(name, values, formats, result_format, is_clients=True))

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
            oids = parameter_oids[part]
            query = Query(f"SELECT {marks}", values[part], oids, codes, 1, is_clients=True)
            result = self._backend.run(query)
            canonical += [result.get_value(0, i) for i in range(result.nfields)]
        return canonical

    def copy_in(self, sql: str, *, is_own: bool = False) -> CopyIn:
        """Start a COPY FROM STDIN; errors and notices do not tell about one that is ours."""
        return CopyIn(self._backend, self._backend.start_copy(sql, is_own=is_own))

    def copy_out(self, sql: str) -> CopyOut:
        """Start a COPY TO STDOUT."""
        return CopyOut(self._backend, self._backend.start_copy(sql))

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
            self.analyses.forget()
        return result
