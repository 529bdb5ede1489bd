"""A thin, blocking layer over libpq: pipelines, streamed rows, COPY, notices, cancellation.

Knows PostgreSQL's protocol flow and nothing of journals. libpq itself never blocks here: this
module waits on the socket, so that other threads run meanwhile.
"""

import select
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar

from psycopg import OperationalError, pq
from psycopg.pq.abc import PGconn, PGresult

from catalog.connection import contexts, presence
from catalog.connection.held_steps import HeldStep
from catalog.connection.relay import Batch, Relay, Reply, Sink
from catalog.connection.steps import (
    COMMIT,
    Close,
    Describe,
    DescribePortal,
    Execute,
    Prepare,
    Query,
    Step,
)
from catalog.connection.tuple_stores import TupleStore
from catalog.errors import CatalogError, CatalogUnavailableError, error_of, lost_with
from catalog.failpoints import Failpoint, reach
from catalog.pg import sqlstate
from catalog.results import LocalResult, Notification, ResultColumn, Row
from catalog.server.closing import finish

_FIELD_CODES: Final = tuple((field, chr(field)) for field in pq.DiagnosticField)

_LAST_WORDS: Final = frozenset({"FATAL", "PANIC"})
"""Severities after which the server hangs up."""

_HUNG_UP: Final = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)

_FINITE: Final = "pgwire_finite_"
"""Beginning of the names of the tails' constraints."""

_REPORTED: Final = (
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "scram_iterations",
    "search_path",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
)
"""Settings PostgreSQL 18 reports by ParameterStatus."""

_REPORTED_BYTES: Final = tuple(name.encode() for name in _REPORTED)

_CODECS: Final = {
    "UTF8": "utf-8",
    "SQL_ASCII": "utf-8",
    "LATIN1": "iso8859-1",
    "LATIN2": "iso8859-2",
    "LATIN9": "iso8859-15",
    "WIN1250": "cp1250",
    "WIN1251": "cp1251",
    "WIN1252": "cp1252",
    "EUC_JP": "euc_jp",
    "SJIS": "shift_jis",
    "EUC_KR": "euc_kr",
    "GBK": "gbk",
    "BIG5": "big5",
}

_BEGIN: Final = Query("BEGIN")

CHUNK_ROWS: Final = 100
"""Rows libpq collects before it hands them over; few, as each may be long."""

_CHUNK_BYTES: Final = 4 << 20

_MOST_BYTES: Final = 1_000_000_000
"""Values of a message; PostgreSQL ends the session where one is longer than 1 GB."""

_COPY_FLUSH_BYTES: Final = 1 << 20

_MOST_DUE: Final = 100
"""Statements that wait for being closed."""

_STATUS_LETTERS: Final[dict[int, str]] = {
    pq.TransactionStatus.IDLE: "I",
    pq.TransactionStatus.ACTIVE: "T",
    pq.TransactionStatus.INTRANS: "T",
    pq.TransactionStatus.INERROR: "E",
}

_OK: Final = frozenset(
    {
        pq.ExecStatus.COMMAND_OK,
        pq.ExecStatus.TUPLES_OK,
        pq.ExecStatus.EMPTY_QUERY,
        pq.ExecStatus.TUPLES_CHUNK,
    }
)


_P = ParamSpec("_P")
_T = TypeVar("_T")


def chunk_rows(row_bytes: int) -> int:
    """Return how many rows of at most so many bytes are to be taken at a time."""
    return min(max(_CHUNK_BYTES // max(row_bytes, 1), 1), CHUNK_ROWS)


class Backend:
    """One libpq connection.

    It belongs to one thread; only ``cancel`` and ``stand_in`` are called from others, the latter
    while that thread asks nothing of it.
    """

    def __init__(self, connection: PGconn) -> None:
        self._connection = connection
        self._connection.nonblocking = 1
        self._connection.notice_handler = self._on_notice
        self._cancel = connection.get_cancel()
        self._poll = select.poll()
        self._socket = connection.socket
        self._poll.register(self._socket, select.POLLIN)
        self.process_id = connection.backend_pid
        self._streamed: LocalResult | None = None
        self._status_values: list[bytes | None] = []
        self._statuses: dict[str, str] = {}
        # TLS and GSSAPI have a layer of their own between libpq and the socket.
        plain = not connection.ssl_in_use and not connection.used_gssapi
        self._relay = Relay(connection) if plain else None
        self._relayed_status = ""
        self._used = True
        self._copies_own = False
        self._last_words: dict[str, str] | None = None
        """What the server said when it ended the session."""
        self._lock = threading.RLock()
        """Held by whoever asks something of the server."""
        self._present_in = ""
        """The transaction's status while the server only stands in for others' work."""
        self._due: list[Step] = []
        """What goes with the next steps that are run together; nothing of it can fail."""
        self._begins = False
        """Whether BEGIN is among that."""
        self.uses = 0
        """How often something was asked of the server."""
        self.on_notice: Callable[[Mapping[str, str]], None] = _ignore
        self.on_notification: Callable[[Notification], None] = _ignore

    # state ----------------------------------------------------------------------------------------

    @property
    def transaction_status(self) -> str:
        """'I', 'T' or 'E', as in ReadyForQuery.

        Raises:
            CatalogUnavailableError: when the connection is gone.
        """
        with self._lock:
            if self._begins:
                return "T"
            known = self._present_in or self._relayed_status
            if known:
                return known
            try:
                return _STATUS_LETTERS[self._connection.transaction_status]
            except KeyError:
                raise self._lost() from None

    @property
    def codec(self) -> str:
        """Python's name of the client encoding."""
        name = self._connection.parameter_status(b"client_encoding") or b"UTF8"
        return _CODECS.get(name.decode(), "utf-8")

    def parameter_statuses(self) -> dict[str, str]:
        """Return every reported setting; the same mapping again until one changes."""
        if not self._used:
            return self._statuses
        values = [self._connection.parameter_status(name) for name in _REPORTED_BYTES]
        if values != self._status_values:
            codec = self.codec
            self._status_values = values
            self._statuses = {
                name: value.decode(codec, "surrogateescape")
                for name, value in zip(_REPORTED, values, strict=True)
                if value is not None
            }
        return self._statuses

    def encode(self, text: str) -> bytes:
        """Encode text for the server in the client encoding."""
        return text.encode(self.codec, "surrogateescape")

    def decode(self, data: bytes) -> str:
        """Decode text of the server from the client encoding."""
        return data.decode(self.codec, "surrogateescape")

    # requests -------------------------------------------------------------------------------------

    @property
    def relays(self) -> bool:
        """Whether messages can be passed through."""
        return self._relay is not None

    def exchange(self, batch: Batch, sink: Sink) -> Reply:
        """Pass messages through up to ReadyForQuery; see `Relay.exchange`."""
        if self._relay is None:
            raise self._lost()
        with self._lock:
            self._settle()
            if self._used:
                # What came unasked must not be left half read.
                self._guard(self._connection.consume_input)
                self._deliver_notifications()
                self.parameter_statuses()
            self._relayed_status = "T"
            reply = self._relay.exchange(batch, sink)
            self._relayed_status = reply.status
            self._used = bool(reply.settings)
            return reply

    def run(self, step: Step) -> PGresult:
        """Run one step and return its result; raise what the server reports."""
        self._require_sendable([step])
        if self._presses:
            return self.run_all([step])[-1]
        with self._lock:
            self._settle()
            self._send(step)
            if step is COMMIT:
                self._flush()
                reach(Failpoint.COMMIT_SENT)
            result = self._only_result()
            self._deliver_notifications()
            self._check(result, internal=step.internal)
            return result

    def run_all(
        self,
        steps: Sequence[Step],
        on_success: Callable[[Step, PGresult], None] | None = None,
        meanwhile: Callable[[], None] | None = None,
        held: HeldStep | None = None,
    ) -> list[PGresult]:
        """Run steps in one round trip; the first error is raised after the server has recovered.

        Outside a transaction block the steps form one implicit transaction. `on_success` hears of
        each step that succeeded, and what it answered, also before an error. What is done
        `meanwhile`, while the server works, must not raise. The rows of the step that is
        `held` are left there; its result tells its columns and tag.
        """
        self._require_sendable(steps)
        with self._lock:
            self._settle(sends=False)
            due = self._taken()
            return self._run_all([*due, *steps], on_success, meanwhile, held)[len(due) :]

    @property
    def _presses(self) -> bool:
        """Whether what is due has to come before whatever is run next."""
        return any(not isinstance(step, Close) for step in self._due)

    def _taken(self) -> list[Step]:
        """Return what is due, which is sent now."""
        due, self._due, self._begins = self._due, [], False
        return due

    def begin_later(self) -> None:
        """Begin a transaction block with what is run next; `transaction_status` tells it at once.

        Only outside of one.
        """
        with self._lock:
            self.run_later(_BEGIN)
            self._begins = True

    def run_later(self, step: Step) -> None:
        """Run a step, which cannot fail, together with what is run next, and before it."""
        with self._lock:
            self._due.append(step)

    def leave_out(self, step: Step) -> bool:
        """Do not run it after all; False when it has been."""
        with self._lock:
            if step not in self._due:
                return False
            self._due.remove(step)
            return True

    def close_later(self, name: str) -> None:
        """Close a prepared statement, which nobody asks for any more, with what is run next."""
        with self._lock:
            self._due.append(Close(name))
            if len(self._due) > _MOST_DUE:
                self.run_all([])

    def _run_all(
        self,
        steps: Sequence[Step],
        on_success: Callable[[Step, PGresult], None] | None = None,
        meanwhile: Callable[[], None] | None = None,
        held: HeldStep | None = None,
    ) -> list[PGresult]:
        connection = self._connection
        self._guard(connection.enter_pipeline_mode)
        results: list[PGresult] = []
        failed: tuple[PGresult, bool] | None = None
        try:
            for step in steps:
                self._send(step)
            connection.pipeline_sync()
            if steps and steps[-1] is COMMIT:
                self._flush()
                reach(Failpoint.COMMIT_SENT)
            if meanwhile is not None:
                self._flush()
                meanwhile()
            for step in steps:
                result = self._result_of(step, held)
                if failed is None and result.status not in _OK:
                    failed = (result, step.internal)
                if failed is None and on_success is not None:
                    on_success(step, result)
                results.append(result)
            self._fetch()  # the end of the pipeline
        finally:
            if connection.status == pq.ConnStatus.OK:
                connection.exit_pipeline_mode()
        self._deliver_notifications()
        if held is not None:
            held.settle(results[-1], is_done=failed is None)
        if failed is not None:
            self._check(failed[0], internal=failed[1])
        return results

    def _result_of(self, step: Step, held: HeldStep | None) -> PGresult:
        """Return the result of the next step; of one that is `held` what tells its end."""
        if held is None or step is not held.step:
            return self._only_result()
        # After an error the step is not run.
        if self._connection.pipeline_status != pq.PipelineStatus.ABORTED:
            self._connection.set_chunked_rows_mode(CHUNK_ROWS)
        last: list[PGresult] = []
        rows = self._chunked(last)
        try:
            held.rows = TupleStore(rows)
        except CatalogError as error:
            held.unheld = error
            self._cancel_quietly()
            for _ in rows:
                pass
        return last[0]

    def _chunked(self, last: list[PGresult]) -> Iterator[Row]:
        """Yield the rows of one step of a pipeline; the result that tells its end is noted."""
        while (result := self._fetch()) is not None:
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                break
            # As where rows are streamed, the last result need not be the one with the tag.
            if not last or result.command_status or result.status not in _OK:
                last[:] = [result]
            if result.status in _OK:
                yield from rows_of(result)
        if not last:
            raise self._lost()

    def stream(self, step: Query | Execute) -> LocalResult:
        """Run one step whose rows are fetched while the caller iterates them.

        Rows not fetched before the next request are dropped.
        """
        self._require_sendable([step])
        with self._lock:
            self._settle()
            return self._stream(step)

    def _stream(self, step: Query | Execute) -> LocalResult:
        if isinstance(step, Query) and step.is_plain:
            # The simple query protocol spares PostgreSQL the messages of the extended one.
            self._guard(self._connection.send_query, self.encode(step.sql))
            self._note_use()
        else:
            self._send(step)
        wanted = step.chunk_rows if isinstance(step, Query) else None
        self._connection.set_chunked_rows_mode(wanted or CHUNK_ROWS)
        first = self._fetch()
        if first is None:
            raise self._lost()
        if first.status not in _OK:
            self._drain()
            self._deliver_notifications()
            self._check(first, internal=step.internal)
        has_rows = first.status in {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.TUPLES_CHUNK}
        answer = LocalResult(
            columns=self.columns(first) if has_rows else None,
            rows=iter(()),
            format_code=first.fformat(0) if has_rows and first.nfields else 0,
        )
        if first.status != pq.ExecStatus.TUPLES_CHUNK:
            self._drain()
            self._deliver_notifications()
            answer.command_tag = self.decode(first.command_status or b"")
            answer.rows = iter(rows_of(first))
        else:
            self._streamed = answer
            answer.rows = self._rows(first, answer, step)
        return answer

    def _settle(self, *, sends: bool = True) -> None:
        """Drop what is left of an earlier result, and have the server for the asking.

        What has to come before is run, if nothing else sends that.
        """
        self.uses += 1
        if self._present_in:
            self._stand_down()
        if self._streamed is not None:
            self._streamed = None
            self._drain()
        if self._presses and sends:
            self._run_all(self._taken())

    def _rows(self, result: PGresult | None, answer: LocalResult, step: Step) -> Iterator[Row]:
        try:
            while result is not None and self._streamed is answer:
                if result.status not in _OK:
                    self._settle()
                    self._check(result, internal=step.internal)
                # libpq puts the tag on the last chunk, or on the empty result after a full one.
                if result.command_status:
                    answer.command_tag = self.decode(result.command_status)
                yield from rows_of(result)
                with self._lock:
                    if self._streamed is answer:
                        result = self._fetch()
        finally:
            with self._lock:
                if self._streamed is answer:
                    self._settle()
                    self._deliver_notifications()

    def columns(self, result: PGresult) -> tuple[ResultColumn, ...] | None:
        """Return the row description of a result, None when it has no columns to return."""
        codec = self.codec
        return tuple(
            ResultColumn(
                name=(result.fname(i) or b"").decode(codec, "surrogateescape"),
                table_oid=result.ftable(i),
                attnum=result.ftablecol(i),
                type_oid=result.ftype(i),
                type_size=result.fsize(i),
                typmod=result.fmod(i),
            )
            for i in range(result.nfields)
        )

    # COPY -----------------------------------------------------------------------------------------

    def start_copy(self, sql: str, *, is_own: bool = False) -> PGresult:
        """Run a COPY statement up to the point where data flow.

        Args:
            sql: The statement.
            is_own: Whether errors and notices are not to tell that there is a COPY.
        """
        with self._lock:
            self._settle()
            self._copies_own = is_own
            self._connection.send_query(self.encode(sql))
            self._note_use()
            self._flush()
            result = self._fetch()
            if result is None:
                raise self._lost()
            if result.status not in {pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT}:
                self._drain()
                self._check(result, internal=False)
                raise CatalogError("COPY did not start", sqlstate=sqlstate.PROTOCOL_VIOLATION)
            return result

    def put_copy_data(self, data: bytes) -> None:
        """Send data of a COPY FROM STDIN."""
        for start in range(0, len(data), _COPY_FLUSH_BYTES):
            piece = (
                data if len(data) <= _COPY_FLUSH_BYTES else data[start : start + _COPY_FLUSH_BYTES]
            )
            while self._guard(self._connection.put_copy_data, piece) == 0:
                self._flush()
            self._flush()

    def refuses_copy(self) -> bool:
        """Return whether the server is known to take no more data of a COPY FROM STDIN.

        libpq looks at what it has said only after the last data.
        """
        return self._relay is not None and self._relay.has_error()

    def end_copy(self, error: str | None = None) -> str:
        """End a COPY FROM STDIN, or make it fail, and return the command tag."""
        message = None if error is None else self.encode(error)
        while self._guard(self._connection.put_copy_end, message) == 0:
            self._flush()
        self._flush()
        return self._finish_copy()

    def copied_data(self) -> Iterator[bytes]:
        """Return the data of a COPY TO STDOUT message by message."""
        finished = False
        try:
            while True:
                count, data = self._guard(self._connection.get_copy_data, 1)
                if count == 0:
                    self._wait_readable()
                    self._guard(self._connection.consume_input)
                elif count < 0:
                    break
                else:
                    yield bytes(data)
            finished = True
        finally:
            if not finished:
                self.cancel()
                with self._lock:
                    while self._connection.get_copy_data(0)[0] > 0:
                        pass
                    self._drain()

    def _finish_copy(self) -> str:
        with self._lock:
            return self._copied()

    def _copied(self) -> str:
        try:
            result = self._fetch()
            if result is None:
                raise self._lost()
            self._drain()
            self._deliver_notifications()
            self._check(result, internal=False)
        finally:
            self._copies_own = False
        return self.decode(result.command_status or b"")

    def finish_copy_out(self) -> str:
        """Return the command tag after the last data of a COPY TO STDOUT."""
        return self._finish_copy()

    # others' work ---------------------------------------------------------------------------------

    def stand_in(self, text: str, wanted: Callable[[], bool]) -> bool:
        """Let the server sleep under a client's text, unless it is at work, or others ask first.

        It is woken by whatever is asked of it next. For another thread than that which asks.

        Args:
            text: What `pg_stat_activity` shows.
            wanted: Whether that is still to be, asked when nobody can come in between.

        Returns:
            Whether it sleeps.
        """
        with self._lock:
            idle = (pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS)
            if self._present_in or self._streamed is not None or not wanted():
                return bool(self._present_in)
            if self._presses:
                self._run_all(self._taken())
            if not self._relayed_status and self._connection.transaction_status not in idle:
                return False
            status = self.transaction_status
            if status == "E":
                return False
            try:
                self._run_all(presence.entering(status))
            except CatalogError:
                self._run_all(presence.leaving(status))
                return False
            self._guard(self._connection.send_query, self.encode(presence.sleeping(text)))
            self._note_use()
            self._present_in = status
            self._flush()
            return True

    def stand_down(self) -> None:
        """Wake the server if it stands in for others' work."""
        with self._lock:
            if self._present_in:
                self._stand_down()

    def interruption(self, timeout_s: float) -> CatalogError | None:
        """Wait until somebody ends what stands in for others' work, and return how; None if nobody.

        For the thread that has called `stand_in`.
        """
        poll = select.poll()  # of its own: none can be in two threads
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            return None
        with self._lock:
            if not self._present_in:
                return None
            try:
                self._guard(self._connection.consume_input)
                if self._connection.is_busy():
                    return None
                return self._woken()
            except CatalogError as error:
                return error

    def _stand_down(self) -> None:
        self._cancel_quietly()
        while self._connection.is_busy():
            if self._poll.poll(presence.RETRY_MS):
                self._guard(self._connection.consume_input)
            else:
                self._cancel_quietly()
        self._woken()

    def _woken(self) -> CatalogError | None:
        """Take the answer of the server that slept, and leave the transaction as it was."""
        status, self._present_in = self._present_in, ""
        result = self._fetch()
        self._drain()
        self._run_all(presence.leaving(status))
        if result is None or result.status in _OK:
            return None
        return error_of(self._fields(result))

    # lifetime -------------------------------------------------------------------------------------

    def wait_notifications(self, timeout_s: float) -> None:
        """Deliver notifications that arrive within the time."""
        self._deliver_notifications()
        if self._poll.poll(timeout_s * 1000):
            self._guard(self._connection.consume_input)
            self._deliver_notifications()

    def fileno(self) -> int:
        """Return the socket, to wait together with other sockets; -1 when the session has ended.

        libpq has closed it then, and another connection may have its number.
        """
        return -1 if self._connection.status == pq.ConnStatus.BAD else self._socket

    def require_connected(self) -> None:
        """Raise what the server said when it has ended the session.

        Raises:
            CatalogUnavailableError: 57P01, 57P02, 57P05 … as PostgreSQL says them.
        """
        socket = self.fileno()
        if socket >= 0:
            poll = select.poll()
            poll.register(socket, _HUNG_UP)
            if not poll.poll(0):
                return
        with self._lock:
            self.stand_down()
            with suppress(OperationalError):
                # The last words may have come in parts.
                while self._poll.poll(0):
                    self._connection.consume_input()
                    self._connection.is_busy()
            with suppress(CatalogUnavailableError):
                self._fetch()
            raise self._lost()

    def cancel(self) -> None:
        """Ask the server to cancel what runs; callable from any thread."""
        self._cancel_quietly()

    def _cancel_quietly(self) -> None:
        # A server that does not take the request, as it ends, runs nothing for long.
        with suppress(OperationalError):
            self._cancel.cancel()

    def close(self) -> None:
        """Close the connection; returns when the server's process has ended."""
        with suppress(CatalogUnavailableError):
            self.stand_down()
        if self._relay is not None:
            self._relay.close()
            self._relay = None
        finish(self._connection)

    # flow -----------------------------------------------------------------------------------------

    def _note_use(self) -> None:
        """Note that libpq knows the transaction's status from here on."""
        self._relayed_status = ""
        self._used = True

    def _send(self, step: Step) -> None:
        connection = self._connection
        match step:
            case Query():
                self._guard(
                    connection.send_query_params,
                    self.encode(step.sql),
                    step.sent_values(),
                    list(step.parameter_oids) or None,
                    step.value_formats(),
                    step.result_format,
                )
            case Execute():
                self._guard(
                    connection.send_query_prepared,
                    self.encode(step.name),
                    list(step.values),
                    step.value_formats(),
                    step.result_format,
                )
            case Prepare():
                self._guard(
                    connection.send_prepare,
                    self.encode(step.name),
                    self.encode(step.sql),
                    list(step.parameter_oids) or None,
                )
            case Close():
                self._guard(connection.send_close_prepared, self.encode(step.name))
            case Describe():
                self._guard(connection.send_describe_prepared, self.encode(step.name))
            case DescribePortal():
                self._guard(connection.send_describe_portal, self.encode(step.name))
        self._note_use()

    @staticmethod
    def _require_sendable(steps: Iterable[Step]) -> None:
        """Refuse messages that PostgreSQL would end the session for."""
        for step in steps:
            if isinstance(step, Query | Execute) and step.values:
                size = sum(len(value) for value in step.values if value is not None)
                if size > _MOST_BYTES:
                    raise CatalogError(
                        "the values of a statement are too many bytes",
                        sqlstate=sqlstate.PROGRAM_LIMIT_EXCEEDED,
                        detail=f"They take up {size} bytes; {_MOST_BYTES} are the most.",
                    )

    def _only_result(self) -> PGresult:
        """Return the result of one step, and pass the end of the step."""
        result = self._fetch()
        if result is None:
            raise self._lost()
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            raise self._lost()
        self._drain()
        return result

    def _fetch(self) -> PGresult | None:
        self._flush()
        while self._connection.is_busy():
            self._wait_readable()
            self._guard(self._connection.consume_input)
        result = self._connection.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            self._note_last_words(self._fields(result))
        return result

    def _note_last_words(self, fields: dict[str, str]) -> bool:
        """Keep what the server says before it hangs up."""
        is_last = fields.get("V") in _LAST_WORDS or fields.get("R") == contexts.CRASH_ROUTINE
        if is_last:
            self._last_words = fields
        return is_last

    def _drain(self) -> None:
        while self._fetch() is not None:
            pass

    def _flush(self) -> None:
        while self._guard(self._connection.flush):
            self._poll.modify(self._socket, select.POLLIN | select.POLLOUT)
            try:
                ((_, events),) = self._poll.poll()
            finally:
                self._poll.modify(self._socket, select.POLLIN)
            if events & ~select.POLLOUT:
                self._guard(self._connection.consume_input)

    def _wait_readable(self) -> None:
        self._poll.poll()

    def _guard(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except OperationalError as error:
            raise self._lost() from error

    def _lost(self) -> CatalogUnavailableError:
        if self._last_words is not None:
            return lost_with(self._last_words)
        return CatalogUnavailableError(
            "the connection to the catalog was lost",
            sqlstate=sqlstate.CONNECTION_FAILURE,
            detail=self._connection.get_error_message().strip() or None,
        )

    # messages -------------------------------------------------------------------------------------

    def _on_notice(self, result: PGresult) -> None:
        # The result is only valid in here.
        fields = self._fields(result)
        if not self._note_last_words(fields):
            self.on_notice(fields)

    def _deliver_notifications(self) -> None:
        while (found := self._connection.notifies()) is not None:
            self.on_notification(
                Notification(found.be_pid, self.decode(found.relname), self.decode(found.extra))
            )

    def _fields(self, result: PGresult) -> dict[str, str]:
        fields = {}
        for field, code in _FIELD_CODES:
            value = result.error_field(field)
            if value is not None:
                fields[code] = self.decode(value)
        if self._copies_own and "W" in fields:
            fields["W"] = contexts.without_copy(fields["W"])
            if not fields["W"]:
                del fields["W"]
        return _without_own(fields)

    def _check(self, result: PGresult, *, internal: bool) -> None:
        if result.status in _OK:
            return
        fields = self._fields(result)
        if fields.get("V") in _LAST_WORDS:
            raise self._lost()
        if "C" not in fields:
            if result.status in {pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT}:
                raise CatalogError("unexpected COPY", sqlstate=sqlstate.PROTOCOL_VIOLATION)
            raise self._lost()
        if fields.get("n", "").startswith(_FINITE) and fields.get("s") == "pg_journal":
            raise CatalogError(
                "infinite dates, timestamps after 294247-01-10, NaN in numeric(p,s) and arrays "
                "that are not of one dimension counted from 1 are not supported on journaled "
                "tables",
                sqlstate=sqlstate.FEATURE_NOT_SUPPORTED,
            )
        if internal:
            fields = {
                code: text for code, text in fields.items() if code not in contexts.OWN_FIELDS
            }
        raise error_of(fields)


def _without_own(fields: dict[str, str]) -> dict[str, str]:
    """Leave out of an error or notice what tells about functions of the bookkeeping."""
    context = fields.get("W", "")
    if not contexts.is_own(context):
        return fields
    kept = contexts.clients_part(context)
    if kept is None:
        return {code: text for code, text in fields.items() if code not in contexts.OWN_FIELDS}
    return fields | {"W": kept}


def rows_of(result: PGresult) -> Iterator[Row]:
    """Return the rows of a result one by one."""
    get_value = result.get_value
    width = range(result.nfields)
    for i in range(result.ntuples):
        yield [get_value(i, j) for j in width]


def _ignore(_: object) -> None:
    """Drop a notice or notification nobody asked for."""
