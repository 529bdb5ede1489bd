"""libpq's connection: messages sent, results fetched, and waiting for both.

libpq itself never blocks here: this module waits on the socket, so that other threads run
meanwhile. Knows nothing of what is asked for which purpose.
"""

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar

from psycopg import OperationalError, pq
from psycopg.pq.abc import PGconn, PGresult

from catalog.connection.client_encoding import ClientEncoding
from catalog.connection.server_messages import ServerMessages
from catalog.connection.steps import (
    Close,
    Describe,
    DescribePortal,
    Execute,
    Prepare,
    Query,
    Step,
)
from catalog.errors import CatalogUnavailableError

_HUNG_UP: Final = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)

_STATUS_LETTERS: Final[dict[int, str]] = {
    pq.TransactionStatus.IDLE: "I",
    pq.TransactionStatus.ACTIVE: "T",
    pq.TransactionStatus.INTRANS: "T",
    pq.TransactionStatus.INERROR: "E",
}

_SENT_AT_ONCE: Final = 4 << 20
"""Bytes that the socket is asked to take; the system may have it take fewer."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Link:
    """One connection of libpq's, and the socket below it."""

    def __init__(self, connection: PGconn) -> None:
        self.connection = connection
        """What is called of it, and can fail as the connection does, is called by `guard`."""
        self.connection.nonblocking = 1
        self.encoding = ClientEncoding(connection)
        self.messages = ServerMessages(connection, self.encoding)
        self.process_id = connection.backend_pid
        self.lock = threading.RLock()
        """Held by whoever asks something of the server."""
        self.relayed_status = ""
        """The transaction's status while libpq does not know it, as messages have passed it by."""
        self.is_used = True
        """Whether libpq has been used since messages passed it by, or was told of some of them."""
        self._cancel = connection.get_cancel()
        self._poll = select.poll()
        self._socket = connection.socket
        _widen(self._socket)
        self._poll.register(self._socket, select.POLLIN)

    # state ----------------------------------------------------------------------------------------

    @property
    def transaction_status(self) -> str:
        """'I', 'T' or 'E', as in ReadyForQuery.

        Raises:
            CatalogUnavailableError: when the connection is gone.
        """
        if self.relayed_status:
            return self.relayed_status
        try:
            return _STATUS_LETTERS[self.connection.transaction_status]
        except KeyError:
            raise self.messages.lost() from None

    def note_relayed(self, status: str, *, is_used: bool) -> None:
        """Note that messages pass libpq by, after which the transaction has this status."""
        self.relayed_status = status
        self.is_used = is_used

    def note_use(self) -> None:
        """Note that libpq knows the transaction's status from here on."""
        self.relayed_status = ""
        self.is_used = True

    # sending --------------------------------------------------------------------------------------

    def send(self, step: Step) -> None:
        """Send a step by the extended query sub-protocol, as far as it can be sent at once."""
        connection, encode = self.connection, self.encoding.encode
        match step:
            case Query():
                self.guard(
                    connection.send_query_params,
                    encode(step.sql),
                    step.sent_values(),
                    list(step.parameter_oids) or None,
                    step.value_formats(),
                    step.result_format,
                )
            case Execute():
                self.guard(
                    connection.send_query_prepared,
                    encode(step.name),
                    list(step.values),
                    step.value_formats(),
                    step.result_format,
                )
            case Prepare():
                self.guard(
                    connection.send_prepare,
                    encode(step.name),
                    encode(step.sql),
                    list(step.parameter_oids) or None,
                )
            case Close():
                self.guard(connection.send_close_prepared, encode(step.name))
            case Describe():
                self.guard(connection.send_describe_prepared, encode(step.name))
            case DescribePortal():
                self.guard(connection.send_describe_portal, encode(step.name))
        self.note_use()

    def send_text(self, sql: str) -> None:
        """Send a text by the simple query sub-protocol, as far as it can be sent at once."""
        self.guard(self.connection.send_query, self.encoding.encode(sql))
        self.note_use()

    def flush(self) -> None:
        """Send what is left to be sent; what arrives meanwhile is read."""
        while self.guard(self.connection.flush):
            self._poll.modify(self._socket, select.POLLIN | select.POLLOUT)
            try:
                ((_, events),) = self._poll.poll()
            finally:
                self._poll.modify(self._socket, select.POLLIN)
            if events & ~select.POLLOUT:
                self.consume()

    def cancel(self) -> None:
        """Ask the server to cancel what runs; callable from any thread."""
        # A server that does not take the request, as it ends, runs nothing for long.
        with suppress(OperationalError):
            self._cancel.cancel()

    # results --------------------------------------------------------------------------------------

    def fetch(self) -> PGresult | None:
        """Return the next result, None after the last one of a step."""
        self.flush()
        while self.connection.is_busy():
            self.wait_readable()
            self.consume()
        result = self.connection.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            self.messages.note_failure(result)
        return result

    def fetch_only(self) -> PGresult:
        """Return the result of one step, and pass the end of the step."""
        result = self.fetch()
        if result is None:
            raise self.messages.lost()
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            raise self.messages.lost()
        self.drain()
        return result

    def drain(self) -> None:
        """Drop the results up to the end of a step."""
        while self.fetch() is not None:
            pass

    def consume(self) -> None:
        """Have libpq read what has arrived."""
        self.guard(self.connection.consume_input)

    def wait_readable(self, timeout_ms: float | None = None) -> bool:
        """Wait until something arrives, and return whether it has; without a time-out for ever.

        For the thread to which the connection belongs.
        """
        return bool(self._poll.poll(timeout_ms))

    def wait_beside(self, timeout_s: float) -> bool:
        """Do the same for another thread."""
        poll = select.poll()  # of its own: none can be in two threads
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def guard(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function of libpq.

        Raises:
            CatalogUnavailableError: the connection is gone.
        """
        try:
            return function(*args, **kwargs)
        except OperationalError as error:
            raise self.messages.lost() from error

    # the end --------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """Return the socket, to wait together with other sockets; -1 when the session has ended.

        libpq has closed it then, and another connection may have its number.
        """
        return -1 if self.connection.status == pq.ConnStatus.BAD else self._socket

    def has_hung_up(self) -> bool:
        """Return whether the server has ended the session."""
        number = self.fileno()
        if number < 0:
            return True
        poll = select.poll()
        poll.register(number, _HUNG_UP)
        return bool(poll.poll(0))

    def hear_out(self) -> None:
        """Read what a server has said before it hung up."""
        with suppress(OperationalError):
            # The last words may have come in parts.
            while self._poll.poll(0):
                self.connection.consume_input()
                self.connection.is_busy()
        with suppress(CatalogUnavailableError):
            self.fetch()


def _widen(number: int) -> None:
    """Have a local socket take much at once.

    Each time that it has taken a part libpq moves all that is left to the front of its memory: in
    the small parts of before a message of some hundred megabytes took minutes.
    """
    opened = socket.socket(fileno=number)
    try:
        if opened.family == socket.AF_UNIX:  # others find their size themselves
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENT_AT_ONCE)
    finally:
        opened.detach()
