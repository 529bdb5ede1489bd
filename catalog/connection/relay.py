"""Protocol messages passed through as bytes, over the socket that libpq opened.

Writes frontend messages and walks the headers of what comes back; rows are never looked into. Knows
which answers are the client's and which are not, and nothing of what statements mean. libpq must be
idle meanwhile, and what it has to know of an exchange is handed to it afterwards.
"""

import os
import re
import select
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, NamedTuple

from psycopg.pq.abc import PGconn

from catalog.connection import contexts, sockets
from catalog.connection.sockets import Buffer
from catalog.errors import (
    DATA_TYPE_NAME,
    DEFERRED,
    PROPOSED,
    CatalogUnavailableError,
    lost_with,
    told_code,
)
from catalog.failpoints import Failpoint, reach
from catalog.pg import sqlstate

HELD_BYTES: Final = 1 << 20
"""Answers that wait for the end of the exchange; past that they are sent as they come."""

SYNC: Final = b"S\0\0\0\4"

_RECEIVED_BYTES: Final = 1 << 16

_LENGTH: Final = Struct("!i")

_CODE: Final = ord("C")
_CONTEXT: Final = ord("W")
_SEVERITY: Final = ord("V")
_ROUTINE: Final = ord("R")
_MESSAGE: Final = ord("M")
_DATA_TYPE: Final = ord(DATA_TYPE_NAME)

_ENDS: Final = b"123nTCIs"
"""Types of the messages that end the answer to one frontend message."""

_COMPLETIONS: Final = b"CIs"

_DATA_ROW: Final = ord("D")

_ERROR: Final = ord("E")

_HARD: Final = re.compile(rb"\0V(?:ERROR|FATAL|PANIC)\0C")
"""What is in an ErrorResponse, whatever language it is in: where else would it follow an E?"""

_ROW_DESCRIPTION: Final = ord("T")

_NO_DATA: Final = ord("n")

_READY: Final = b"Z\0\0\0\5"

_EXPECTED: Final = b"12nTDCt3I"
"""Types of messages nothing has to be noted of."""

_FOLLOWING: Final = b"12DC"
"""Types of messages that answer what follows the client's messages."""

Sink = Callable[[bytes], None]


def message(kind: bytes, body: bytes) -> bytes:
    """Return a message of this type."""
    return kind + _LENGTH.pack(len(body) + 4) + body


class Batch(NamedTuple):
    """Frontend messages sent at once, of which the last is Sync."""

    data: bytes
    leading: int
    """Messages of our own before those of the client."""
    answers: int
    """Messages of the client."""
    expected: bytes
    """The answer to what follows the client's messages when all is well, up to ReadyForQuery."""
    simple: bool = False
    """Whether the client sent a Query, which has fewer answers than what we made of it."""


@dataclass(slots=True)
class Reply:
    """What came back."""

    data: list[bytes] = field(default_factory=list)
    """Messages for the client up to an error or the completion, unless sent already."""
    completion: bytes = b""
    """The end of a simple query, which follows when nothing failed before ReadyForQuery."""
    notifications: list[bytes] = field(default_factory=list)
    """NotificationResponse messages that come after all that."""
    status: str = "I"
    """Transaction status."""
    led: int = 0
    """Leading messages that were answered."""
    answered: int = 0
    """Messages of the client that were answered."""
    following: list[bytes] = field(default_factory=list)
    """Answers to what follows the client's messages."""
    confirmed: bool = False
    """Whether these are those expected."""
    error: bytes | None = None
    """The ErrorResponse."""
    settings: list[bytes] = field(default_factory=list)
    """ParameterStatus messages."""
    sent: bool = False
    """Whether messages went to the client before the end was known."""
    defers: bool = False
    """Whether something is left to be looked at when the transaction ends."""

    @property
    def code(self) -> str:
        """SQLSTATE of the error; empty when there is none."""
        return error_code(self.error) if self.error is not None else ""


def error_code(error: bytes) -> str:
    """Return the SQLSTATE of an ErrorResponse or a NoticeResponse."""
    return next((text.decode() for code, text in _fields(error) if code == ord("C")), "")


class Relay:
    """The raw end of one libpq connection."""

    def __init__(self, connection: PGconn) -> None:
        self._connection = connection
        # libpq's socket does not block, nor does its duplicate: waiting is done by poll.
        self._socket = socket.socket(fileno=os.dup(connection.socket))
        self._descriptor = self._socket.fileno()
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._buffer = Buffer(_RECEIVED_BYTES)

    def close(self) -> None:
        """Give up the duplicate of the socket."""
        self._poll.unregister(self._socket)
        self._socket.close()

    def exchange(self, batch: Batch, sink: Sink) -> Reply:
        """Send messages and read up to ReadyForQuery; answers past a limit go to the sink.

        Raises:
            CatalogUnavailableError: the connection was lost.
            Exception: whatever the sink raises, after which the connection is of no use.
        """
        reply = Reply()
        try:
            self._send(batch.data)
        except OSError as error:
            with suppress(OSError, CatalogUnavailableError):
                self._read(batch, reply, sink)
            raise _lost(reply) from error
        reach(Failpoint.PASSED_ON)
        try:
            self._read(batch, reply, sink)
        finally:
            if reply.settings:
                self._hand_over(b"".join(reply.settings))
        return reply

    def has_error(self) -> bool:
        """Return whether an error is among the messages that have arrived; it is left to libpq.

        Where libpq has part of a message already, that is not told, nor where the server has hung
        up without a word.
        """
        try:
            data = self._buffer.peek(self._descriptor) or b""
        except OSError:
            return False
        at = 0
        while at + 5 <= len(data):
            after = at + 1 + _LENGTH.unpack_from(data, at + 1)[0]
            if data[at] == _ERROR and _HARD.search(data, at, after):
                return True
            if after <= at:
                return False
            at = after
        return False

    # sending and receiving ------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        sent = sockets.send(self._descriptor, data)
        if sent == len(data):
            return
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        rest = memoryview(data)[sent:]
        while rest:
            poll.poll()
            with suppress(BlockingIOError):
                rest = rest[self._socket.send(rest) :]

    def _receive(self, reply: Reply) -> bytes:
        while True:
            self._poll.poll()
            try:
                data = self._buffer.receive(self._descriptor)
            except OSError as error:
                raise _lost(reply) from error
            if data:
                return data
            if data is not None:
                raise _lost(reply)

    def _read(self, batch: Batch, reply: Reply, sink: Sink) -> None:
        rest = self._receive(reply)
        if _is_whole(batch, reply, rest):
            return
        walk = _Walk(batch, reply)
        held = 0
        first = True
        while True:
            data = rest if first else rest + self._receive(reply)
            first = False
            before = len(reply.data)
            end = walk.messages(data)
            rest = data[end:]
            if walk.ready:
                if not rest:
                    reply.confirmed = b"".join(reply.following) == batch.expected
                    return
                continue
            held += sum(map(len, reply.data[before:]))
            if held > HELD_BYTES:
                reply.sent = True
                pieces, reply.data = reply.data, []
                for piece in pieces:
                    sink(piece)

    def _hand_over(self, data: bytes) -> None:
        """Let libpq, which is idle, read messages that do not come from the server any more."""
        number = self._connection.socket
        ours, theirs = socket.socketpair()
        kept = os.dup(number)
        try:
            ours.sendall(data)
            theirs.setblocking(False)
            os.dup2(theirs.fileno(), number, inheritable=False)
            self._connection.consume_input()
            self._connection.is_busy()
        finally:
            os.dup2(kept, number, inheritable=False)
            os.close(kept)
            ours.close()
            theirs.close()


def _is_whole(batch: Batch, reply: Reply, data: bytes) -> bool:
    """Take an answer that came at once and holds nothing unexpected, which is most often so."""
    expected = batch.expected
    status = len(data) - 1
    border = status - len(expected) - len(_READY)
    if border < 0 or not data.startswith(expected + _READY, border):
        return False
    at = 0
    unpack = _LENGTH.unpack_from
    while at < border:
        if data[at] not in _EXPECTED:
            return False
        at += 1 + unpack(data, at + 1)[0]
    if at != border:
        return False
    start = 5 * batch.leading
    if batch.simple:
        start += 15 if data[start + 10] == _NO_DATA else 10
    reply.led = batch.leading
    reply.answered = batch.answers
    reply.confirmed = True
    reply.status = chr(data[status])
    if start < border:
        reply.data.append(data[start:border] if start else data[:border])
    return True


class _Walk:
    """The way through the answers of one exchange, header by header."""

    def __init__(self, batch: Batch, reply: Reply) -> None:
        self.ready = False
        self._reply = reply
        self._leading = batch.leading
        self._last = batch.leading + batch.answers
        self._simple = batch.simple
        self._ended = 0

    def messages(self, data: bytes) -> int:
        """Walk all complete messages; return where the rest begins."""
        size = len(data)
        at = start = 0
        unpack = _LENGTH.unpack_from
        while at + 5 <= size:
            after: int = at + 1 + unpack(data, at + 1)[0]
            if after > size:
                break
            kind = data[at]
            if kind == _DATA_ROW and self._ended < self._last:
                at = after
                continue
            ends = kind in _ENDS
            if ends and self._is_passed_on(kind):
                at = after
                continue
            if start < at:
                self._reply.data.append(data[start:at])
            if self._ended + (not ends) > self._last and kind in _FOLLOWING:
                self._reply.following.append(data[at:after])
            elif not ends:
                self._note(kind, data[at:after])
            elif self._simple and kind in _COMPLETIONS and self._ended == self._last:
                self._reply.completion = data[at:after]
            at = start = after
        if start < at:
            self._reply.data.append(data[start:at])
        return at

    def _is_passed_on(self, kind: int) -> bool:
        """Count the end of an answer; return whether the client gets it at once."""
        reply = self._reply
        number = self._ended
        self._ended = number + 1
        if number < self._leading:
            reply.led += 1
            return False
        if number >= self._last:
            return False
        reply.answered += 1
        return not self._simple or kind == _ROW_DESCRIPTION

    def _note(self, kind: int, found: bytes) -> None:
        """Take note of a message that ends no answer."""
        reply = self._reply
        match chr(kind):
            case "Z":
                self.ready = True
                reply.status = chr(found[5])
            case "E":
                reply.error = _without_own(found)
            case "S":
                reply.settings.append(found)
            case "A" if self._ended >= self._last or reply.error is not None:
                reply.notifications.append(found)
            case "N" if error_code(found) == DEFERRED:
                reply.defers = True
            case "N" if error_code(found) == PROPOSED:
                pass
            case "N":
                self._note_notice(found)
            case "A" | "t":
                reply.data.append(found)
            case letter:
                raise _lost(reply, f"unexpected message of type {letter}")

    def _note_notice(self, found: bytes) -> None:
        """Take a notice as what it is: for the client, for nobody, or the last that is said."""
        if _routine(found) == contexts.CRASH_ROUTINE:
            self._reply.error = found
        elif _is_for_clients(found):
            self._reply.data.append(_without_own(found))


def _fields(found: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the fields of an ErrorResponse or a NoticeResponse."""
    return ((part[0], part[1:]) for part in found[5:].split(b"\0") if part)


def _routine(notice: bytes) -> str:
    return dict(_fields(notice)).get(_ROUTINE, b"").decode()


def _is_for_clients(notice: bytes) -> bool:
    fields = dict(_fields(notice))
    told = (fields.get(code, b"") for code in (_SEVERITY, _ROUTINE, _MESSAGE))
    return contexts.is_for_clients(*(text.decode("utf-8", "surrogateescape") for text in told))


def _without_own(found: bytes) -> bytes:
    """Leave out of an error or a notice what tells about our functions."""
    fields = dict(_fields(found))
    sealed = contexts.is_sealed(fields.get(_DATA_TYPE, b"").decode("utf-8", "surrogateescape"))
    if sealed:
        code = fields.get(_CODE, b"").decode()
        told = fields.pop(_DATA_TYPE).decode("utf-8", "surrogateescape")
        fields[_CODE] = told_code(code, told).encode()
    context = fields.get(_CONTEXT, b"").decode("utf-8", "surrogateescape")
    if not contexts.is_own(context):
        return _of_fields(found, fields) if sealed else found
    kept = contexts.clients_part(context)
    if kept is None:
        fields = {c: text for c, text in fields.items() if chr(c) not in contexts.OWN_FIELDS}
    else:
        fields[_CONTEXT] = kept.encode("utf-8", "surrogateescape")
    return _of_fields(found, fields)


def _of_fields(found: bytes, fields: Mapping[int, bytes]) -> bytes:
    """Return the same message with other fields."""
    return message(found[:1], b"".join(b"%c%b\0" % field for field in fields.items()) + b"\0")


def _lost(reply: Reply, detail: str = "") -> CatalogUnavailableError:
    if reply.error is not None:
        texts = {chr(code): text.decode("utf-8", "replace") for code, text in _fields(reply.error)}
        return lost_with(texts)
    return CatalogUnavailableError(
        "the connection to the catalog was lost",
        sqlstate=sqlstate.CONNECTION_FAILURE,
        detail=detail or None,
    )
