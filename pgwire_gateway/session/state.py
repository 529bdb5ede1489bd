"""One client's session: what it has prepared, its transaction, its settings."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from buenavista.core import Session

from catalog.bookkeeping.calls import OUTDATED
from catalog.bookkeeping.moments import TimeOuts
from catalog.connection import contexts
from catalog.errors import DEFERRED, PROPOSED, GatewayError
from catalog.model import JournalTable
from catalog.pg.sqlstate import (
    CANNOT_CONNECT_NOW,
    CONNECTION_FAILURE,
    SERIALIZATION_FAILURE,
    WARNING,
)
from catalog.results import Notification
from catalog.session import session_state
from catalog.session.connections import CatalogSession
from catalog.statements.splitting import Statement, StatementKind, split
from pgwire_gateway import errors
from pgwire_gateway.messages.base import BackendMessage, Frame, FrontendMessage
from pgwire_gateway.messages.buffer import encode_text
from pgwire_gateway.messages.errors import UntranslatableTextError
from pgwire_gateway.messages.responses import (
    NoticeResponse,
    NotificationResponse,
    ParameterStatus,
    ReadyForQuery,
    TransactionStatus,
)
from pgwire_gateway.planning.plans import Plan, RowRules
from pgwire_gateway.session import deadlines, refused_journals, uncommitted
from pgwire_gateway.session.attendance import Attendance
from pgwire_gateway.session.cursors import Cursor
from pgwire_gateway.session.deadlines import Deadline
from pgwire_gateway.session.occupied_tables import OccupiedTables
from pgwire_gateway.session.portals import Portal, PortalState, PreparedStatement
from pgwire_gateway.session.services import Services
from pgwire_gateway.session.shortcuts import Kept, Shortcuts
from pgwire_gateway.session.transactions import Transaction
from pgwire_gateway.session.volatility import Volatilities
from pgwire_gateway.spark.statements import RunningStatement
from rewrite.results import SparkQuery
from rewrite.tree import Node

UNNAMED_PREFIX = "pgwire_unnamed_"
"""Start of the names unnamed statements have in the catalog."""


READY = {status.value.decode(): ReadyForQuery(status).encode() for status in TransactionStatus}
"""ReadyForQuery by transaction status."""

LOST = frozenset({CANNOT_CONNECT_NOW, CONNECTION_FAILURE})
"""What is said of a connection to the catalog that ended without a word."""

ENDING_ACTIONS = frozenset({"commit", "rollback", "rollback_to", "prepare"})
"""Transaction commands that are accepted in a failed transaction."""


class Frontend(Protocol):
    """The client's end of the connection."""

    encoding: str
    """Python's name of the encoding of strings in messages."""

    def receive(self) -> Frame[FrontendMessage]:
        """Wait for the next message, undecoded."""

    def peek(self) -> bytes:
        """Wait for bytes; return those not received as messages, none if a message is before."""

    def peek_more(self) -> bytes:
        """Wait for more bytes, and return them with those of ``peek``."""

    def skip(self, count: int) -> None:
        """Take bytes of ``peek`` as received."""

    def next_received(self) -> type[FrontendMessage] | None:
        """Return the class of the message that has already arrived, without waiting."""

    def send(self, *messages: BackendMessage) -> None:
        """Append messages to the output."""

    def send_encoded(self, data: bytes | memoryview) -> None:
        """Append encoded messages to the output."""

    def flush(self) -> None:
        """Send all output."""


class ClientSession(Session):  # type: ignore[misc]
    """A session, driven by one message after the other; only ``cancel`` may come from elsewhere."""

    def __init__(
        self, frontend: Frontend, services: Services, catalog: CatalogSession, database: str
    ) -> None:
        super().__init__()
        self.frontend = frontend
        self.services = services
        self.catalog = catalog
        self.database = database
        self.transaction = Transaction(
            catalog,
            lambda: services.flusher.notice(database),
            lambda made: uncommitted.remove(services, database, made),
        )
        self.statements: dict[str, PreparedStatement] = {}
        self.portals: dict[str, Portal] = {}
        self.failed_portals: set[str] = set()
        """Names of those that are there for PostgreSQL until their failed transaction ends."""
        self.row_rules: dict[tuple[int, int], RowRules] = {}
        self.needed_rows = Kept[object, Any]()
        """What statements on single rows of tiered tables need, or why there is no telling."""
        self.tables = Kept[tuple[int, int], JournalTable]()
        """Tables as they have been defined, by fingerprint of all definitions and OID."""
        self.templates = Kept[tuple[int, int], Node]()
        """Queries of all their rows, by the same."""
        self.likely_tables = Kept[bytes, frozenset[int]]()
        """What query strings of one shape have read."""
        self.row_queries = Kept[int, tuple[Plan, int, SparkQuery]]()
        """Of what the rows consist that plans read by key, by what identifies the plan, with the
        plan, and the definition of the table that holds for."""
        self.occupied = OccupiedTables()
        self.volatilities = Volatilities(catalog)
        self.shortcuts = Shortcuts(self.volatilities)
        self.passages = Kept[object, object]()
        """How what was sent has passed: by the form of a series, or the shortcut of a query."""
        self.last_decision = ""
        """Who evaluated the latest statement that was planned, and why."""
        self.skip_until_sync = False
        self.running: RunningStatement | None = None
        self._watched: RunningStatement | None = None
        self._timer: Deadline | None = None
        self._attendance: Attendance | None = None
        self._prepared = 0
        self._settings = self._reported = catalog.parameter_statuses()
        frontend.encoding = catalog.codec
        self._listeners: list[Callable[[Mapping[str, str]], None]] = []
        self._proposed: list[str] = []
        catalog.on_notice = self._on_notice
        catalog.on_notification = self._on_notification
        catalog.writes.on_lock = self._note_locked

    # buenavista's contract ------------------------------------------------------------------------

    def cursor(self) -> "ClientSession":
        """Return what executes statements: the session itself."""
        return self

    def close(self) -> None:
        """End the session; whatever is not committed is rolled back."""
        self.cancel()
        for portal in self.portals.values():
            with suppress(Exception):  # the rest has to be released, too
                portal.close()
        with suppress(GatewayError):
            self._finish_attendance()
        self.services.flusher.readers.end(self)
        self.catalog.close()
        self.transaction.let_go_of_files()

    # what the sub-protocols need ------------------------------------------------------------------

    def cancel(self) -> None:
        """Stop the running statement; callable from any thread."""
        running = self.running
        if running is not None:
            running.cancel()
            self.catalog.cancel()

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Let the analysis of a statement be cancelled, which may wait for locks of its tables.

        Raises:
            QueryCanceledError: 57014 when it was cancelled while PostgreSQL had nothing to do.
        """
        running = RunningStatement()
        before, self.running = self.running, running
        try:
            yield
            running.check()
        finally:
            self.running = before

    def watch(self, running: RunningStatement, text: str, limits: TimeOuts | None = None) -> None:
        """Look after a statement that others than PostgreSQL work on.

        It is cancelled when it runs longer than statement_timeout allows, counted from when it has
        begun, and PostgreSQL stands in for it. One that is looked after already goes on as it is.

        Args:
            running: The statement.
            text: The client's text of it.
            limits: What limits the session, if that is known.
        """
        if self._watched is running:
            return
        limits = limits or session_state.time_outs(self.catalog)
        self._watched = running
        if limits.statement_s > 0:
            message = "canceling statement due to statement timeout"
            left_s = running.begun_s + limits.statement_s - time.monotonic()
            self._stop_timer()
            self._timer = deadlines.PROCESS.after(left_s, lambda: running.cancel(message))
        self._finish_attendance()
        self._attendance = Attendance(self.catalog, text, limits.idle_s, self._interrupt)

    def resume(self, portal: Portal) -> None:
        """Look after the execution of a portal that goes on, with a time-out of its own.

        Raises:
            QueryCanceledError: 57014 when it was cancelled since it was suspended.
        """
        self.running = running = portal.running
        if running is None or portal.result is None or portal.state is PortalState.DONE:
            return
        running.check()
        plan = portal.statement.plan
        # Also of rows that are at hand: who reads them slowly is not idle.
        if plan is not None:
            self._go_on(running, plan.statement.text)

    def resume_cursor(self, cursor: Cursor, text: str) -> None:
        """Look after a statement that takes rows of a cursor.

        Raises:
            QueryCanceledError: 57014 when the cursor was cancelled.
        """
        if cursor.running is not None:
            self.running = cursor.running
            cursor.running.check()
            self.finish_watch()
            self._go_on(cursor.running, text)

    def _go_on(self, running: RunningStatement, text: str) -> None:
        if self._watched is not running:
            running.begun_s = time.monotonic()
            self.watch(running, text)

    def take(self, portal: Portal, limit: int) -> Iterator[bytes | memoryview]:
        """Yield rows of a portal that has been begun, and note where it stands after them.

        Args:
            portal: The portal.
            limit: How many rows; all where it is not positive.
        """
        result, plan = portal.result, portal.statement.plan
        if result is None or plan is None or portal.state is PortalState.DONE:
            return
        before = portal.taken
        for data, rows in result.stream.take(max(limit, 0)):
            if plan.only_reads and portal.running is not None:
                portal.running.check()  # also of rows that are at hand
            yield data
            portal.taken += rows
        if 0 < limit <= portal.taken - before and result.columns is not None:
            self.suspend(portal)
        else:
            result.prove()
            portal.state = PortalState.DONE

    def suspend(self, portal: Portal) -> None:
        """Note that a portal has rows left that nobody takes for now.

        Raises:
            QueryCanceledError: 57014 when it was cancelled meanwhile: who computes more of them has
                ended.
        """
        portal.state = PortalState.SUSPENDED
        if portal.running is not None:
            portal.running.check()
        self.running = None

    def watch_from_now(self, running: RunningStatement, text: str) -> None:
        """Look after a statement on which PostgreSQL has worked so far, unless somebody does."""
        if self._attendance is None:
            self.watch(running, text)

    def _interrupt(self, message: str) -> None:
        running = self.running
        if running is not None:
            running.cancel(message)

    def finish(self) -> None:
        """Note that no statement is running any more."""
        self.running = None
        self.finish_watch()
        if self._attendance is not None:
            self._finish_attendance()

    def _finish_attendance(self) -> None:
        attendance, self._attendance = self._attendance, None
        if attendance is not None:
            attendance.end()

    def finish_watch(self) -> None:
        """Let the statement run as long as it takes."""
        self._watched = None
        self._stop_timer()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def split(self, query_string: str) -> list[Statement]:
        """Return the statements of a query string."""
        return split(query_string)

    def prepared_name(self, name: str) -> str:
        """Return a name for a client's prepared statement in the catalog, never used before."""
        self._prepared += 1
        return name or f"{UNNAMED_PREFIX}{self._prepared}"

    @contextmanager
    def unnamed(self) -> Iterator[str]:
        """Give a name that the catalog has for a statement while it is executed."""
        name = self.prepared_name("")
        try:
            yield name
        finally:
            self.catalog.analyses.deallocate_later(name)

    def send(self, *messages: BackendMessage) -> None:
        """Append messages to the output."""
        self.frontend.send(*messages)

    def fail(self, error: BaseException) -> None:
        """Tell the client of a failed statement and put the transaction into its failed state.

        Raises:
            FatalError: The failure ends the connection.
        """
        if errors.is_fatal(error):
            if isinstance(error, GatewayError) and error.sqlstate in LOST:
                # A connection of the gateway's own may have been meant. PostgreSQL may have said
                # more to this session, or nothing yet: 57P03 is what those are told who come anew.
                self.catalog.require_connected()
                error.sqlstate = CONNECTION_FAILURE
            raise error
        # What ends the session may be why the statement failed.
        self.catalog.require_connected()
        if isinstance(error, GatewayError) and error.sqlstate == OUTDATED:
            # A guard's word: the table has become tiered since the transaction's snapshot.
            error.sqlstate = SERIALIZATION_FAILURE
        self.skip_until_sync = True
        self.transaction.fail()
        if self.transaction.open:
            self.fail_portals()
        else:
            self.drop_portals()
        if isinstance(error, GatewayError):
            error = refused_journals.named(self.services, self.database, error)
        try:
            self.send(errors.error_response(error))
        except UntranslatableTextError as other:
            self.send(errors.error_response(other))

    def warn(self, message: str, sqlstate: str = WARNING) -> None:
        """Send a warning, 01000 where it has no code of its own."""
        fields = {"S": "WARNING", "V": "WARNING", "C": sqlstate, "M": message}
        with suppress(UntranslatableTextError):
            self.send(NoticeResponse.of(fields))

    def ready_for_query(self) -> None:
        """End a query cycle: drop portals whose transaction is over, tell the status, send all."""
        self._report_settings()
        self.finish()
        self.shortcuts.declined = False
        status = self.transaction.status
        if self.portals or self.failed_portals:
            self._release_portals(status)
        if not self.holds_rows:
            self.services.flusher.readers.end(self)
        self.frontend.send_encoded(READY[status])
        self.frontend.flush()

    def _release_portals(self, status: str) -> None:
        """Close portals whose transaction is over; end what computes for those cancelled."""
        if status == "I":
            self.outlast_cursors()
            self.drop_portals()
        for portal in self.portals.values():
            if portal.running is not None and portal.running.cancelled:
                portal.close()

    def begin_reading(self) -> None:
        """Note that from here on files may be read that only this session knows to be needed."""
        self.services.flusher.readers.begin(self, self.database)

    @property
    def holds_rows(self) -> bool:
        """Whether rows of a result are left that have not been sent."""
        return any(portal.holds_files for portal in self.portals.values())

    @property
    def cursors(self) -> Mapping[str, Cursor]:
        """The portals that SQL has declared, by name."""
        return {name: portal for name, portal in self.portals.items() if isinstance(portal, Cursor)}

    def fetched(self, plan: Plan | None) -> Cursor | None:
        """Return the cursor whose rows a statement fetches; None for other statements."""
        if plan is None or plan.statement.kind is not StatementKind.FETCH:
            return None
        details = plan.statement.details
        return None if details["is_move"] else self.declared(details["name"])

    def declared(self, name: str) -> Cursor | None:
        """Return the cursor that SQL has declared by a name, if it is one of ours."""
        portal = self.portals.get(name)
        return portal if isinstance(portal, Cursor) else None

    @property
    def keeps_cursors(self) -> bool:
        """Whether cursors are to outlast the transaction."""
        return any(cursor.is_pending for cursor in self.cursors.values())

    def keep_cursors(self, command: str) -> None:
        """Compute the rows of cursors WITH HOLD; the transaction is rolled back if that fails.

        Raises:
            GatewayError: What computing the rows raises.
        """
        if not self.keeps_cursors or self.transaction.failed:
            return
        try:
            for cursor in self.cursors.values():
                if cursor.is_pending and not cursor.rows.is_kept:
                    self.resume_cursor(cursor, command)
                    cursor.keep()
        except BaseException:
            self.catalog.transaction.rollback()
            self.transaction.settle()
            raise

    def note_settings(self) -> None:
        """Look at the reported settings after a statement that may have changed them."""
        settings = self.catalog.parameter_statuses()
        if settings is not self._settings:
            before, self._settings = self.encoding, settings
            if before != self.encoding:
                self._change_encoding(before)

    def _change_encoding(self, before: str) -> None:
        """Follow the client to another encoding: what is left to be sent is sent in that."""
        self.frontend.encoding = self.catalog.codec
        self.shortcuts.clear()
        self.passages.clear()
        for portal in self.portals.values():
            portal.encode_in(before, self.encoding)

    @property
    def encoding(self) -> str:
        """PostgreSQL's name of the client's encoding."""
        return self._settings.get("client_encoding", "UTF8")

    def encoded(self, text: str) -> bytes:
        """Return text in the client's encoding.

        Raises:
            UntranslatableTextError: A character has no equivalent there.
        """
        return encode_text(text, self.frontend.encoding)

    def _report_settings(self) -> None:
        # Only before ReadyForQuery: what was changed and changed back is not reported.
        self.note_settings()
        if self._settings is self._reported:
            return
        for name, value in self._settings.items():
            if self._reported.get(name) != value:
                with suppress(UntranslatableTextError):
                    self.send(ParameterStatus(name, value))
        self._reported = self._settings

    @property
    def settings(self) -> Mapping[str, str]:
        """The reported settings and their current values."""
        return self._settings

    def outlast_cursors(self) -> None:
        """Have cursors stay that were kept, as their transaction was committed."""
        for cursor in self.cursors.values():
            cursor.outlast()

    def drop_portals(self, since: int = 0) -> None:
        """Close all portals, or those of larger numbers, and forget which have failed."""
        self.failed_portals.clear()
        for name, portal in list(self.portals.items()):
            if portal.number > since:
                self.forget_portal(name)

    def fail_portals(self) -> None:
        """Close the portals that a failed transaction has nothing to give to any more.

        Those that were there before the latest savepoint can be used when it is rolled back to.
        """
        failed = self.failed_portals | set(self.portals)
        self.drop_portals(self.transaction.savepoints.latest)
        self.failed_portals = failed.difference(self.portals)

    def forget_portal(self, name: str) -> None:
        """Close a portal, if there is one of this name."""
        self.failed_portals.discard(name)
        portal = self.portals.pop(name, None)
        if portal is not None:
            portal.close()

    def replace_plan(self, old: Plan, new: Plan) -> None:
        """Give prepared statements with an outdated plan the new one."""
        for name, statement in self.statements.items():
            if statement.plan is old:
                self.statements[name] = PreparedStatement(name, new)

    def forget_statement(self, name: str) -> None:
        """Close a prepared statement, if there is one of this name."""
        statement = self.statements.pop(name, None)
        prepared = statement.plan.prepared if statement and statement.plan else ""
        if prepared.startswith(UNNAMED_PREFIX):
            self.catalog.analyses.deallocate_later(prepared)
        elif prepared:
            self.catalog.analyses.deallocate(prepared)

    @contextmanager
    def notices(self) -> Iterator[Sequence[Mapping[str, str]]]:
        """Yield a list of the notices sent while the context lasts."""
        seen: list[Mapping[str, str]] = []
        self._listeners.append(seen.append)
        try:
            yield seen
        finally:
            self._listeners.pop()

    @contextmanager
    def proposed(self) -> Iterator[Sequence[str]]:
        """Yield a list of what is told of rows that are proposed while the context lasts."""
        seen: list[str] = []
        self._proposed = seen
        try:
            yield seen
        finally:
            self._proposed = []

    def _on_notice(self, fields: Mapping[str, str]) -> None:
        if fields.get("C") == DEFERRED:
            self.transaction.defers = True
            return
        if fields.get("C") == PROPOSED:
            self._proposed.append(fields.get("M", ""))
            return
        if not contexts.is_for_clients(*(fields.get(code, "") for code in "VRM")):
            return
        for listener in self._listeners:
            listener(fields)
        with suppress(UntranslatableTextError):
            self.send(NoticeResponse.of(fields))

    def _on_notification(self, notification: Notification) -> None:
        self.send(
            NotificationResponse(
                notification.process_id, notification.channel, notification.payload
            )
        )

    def _note_locked(self, relids: Sequence[int]) -> None:
        for relid in self.transaction.unkeyed.intersection(relids):
            self.services.catalog.thawing(self.database).note_locked_later(relid)


def require_not_failed(session: ClientSession, statement: Statement) -> None:
    """Refuse a statement in a failed transaction, unless it ends it.

    Raises:
        GatewayError: 25P02; 42601 for one that is none of PostgreSQL's grammar, which comes first.
    """
    if not session.transaction.failed or ends_transaction(statement):
        return
    if statement.kind is StatementKind.UNKNOWN:
        for _ in session.catalog.execute(statement.text).rows:
            pass
    session.transaction.require_not_failed()


def ends_transaction(statement: Statement) -> bool:
    """Return whether a statement is accepted in a failed transaction."""
    return (
        statement.kind is StatementKind.TRANSACTION
        and statement.details["action"] in ENDING_ACTIONS
    )


def position_error(error: GatewayError, statement: Statement) -> GatewayError:
    """Count an error's position from the start of the query string instead of the statement."""
    if statement.is_translated:
        error.position = None
    elif error.position is not None:
        error.position += statement.offset
    return error
