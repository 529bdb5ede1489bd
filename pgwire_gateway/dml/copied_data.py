"""The data of a COPY FROM STDIN, on their way from the client to PostgreSQL.

Follows "COPY Operations" of PostgreSQL's protocol chapter.
"""

from contextlib import suppress

from catalog.connection.copying import CopyIn
from catalog.errors import CatalogError, GatewayError
from catalog.pg import sqlstate as codes
from pgwire_gateway.messages.base import Frame, FrontendMessage
from pgwire_gateway.messages.copy_data import CopyData, CopyDone, CopyFail, CopyInResponse
from pgwire_gateway.messages.extended_query import Flush, Sync
from pgwire_gateway.messages.simple_query import Terminate
from pgwire_gateway.session.state import ClientSession
from pgwire_gateway.spark.statements import RunningStatement

COPY_MESSAGES = frozenset({CopyData, CopyDone, CopyFail, Flush, Sync})
"""Messages a client may send while it copies; Flush and Sync mean nothing then."""


class Held:
    """Data of a COPY that are kept until it is known how much there is of them."""

    def __init__(self, most_rows: int, most_bytes: int) -> None:
        """Hold not much more than this; rows of the binary format are not counted."""
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._data: list[bytes] = []
        self._bytes = 0
        self._lines = 0
        self.ended = False
        """Whether the client has sent all."""
        self.failure: str | None = None
        """What it says has gone wrong then."""

    def fill(self, session: ClientSession, incoming: CopyIn, running: RunningStatement) -> None:
        """Take the client's data until they end or are too many.

        Args:
            session: The client.
            incoming: The COPY, which is ended where the client ends the session.
            running: What may be cancelled.
        """
        while self._bytes <= self._most_bytes and self._lines <= self._most_rows:
            frame = _next_frame(session, incoming, running)
            if frame.message_class is CopyData:
                self._data.append(frame.body)
                self._bytes += len(frame.body)
                self._lines += frame.body.count(b"\n") if not incoming.overall_format else 0
            elif frame.message_class is CopyDone:
                self.ended = True
                return
            elif frame.message_class is CopyFail:
                self.ended, self.failure = True, _failure(session, frame)
                return

    def take(self) -> list[bytes]:
        """Hand over what is held."""
        data, self._data = self._data, []
        return data


def begin(session: ClientSession, text: str) -> CopyIn:
    """Have PostgreSQL begin a COPY, and tell the client to send its data."""
    incoming = session.catalog.copy_in(text)
    session.send(CopyInResponse(incoming.overall_format, incoming.formats))
    session.frontend.flush()
    return incoming


def pass_on(session: ClientSession, incoming: CopyIn, held: Held, running: RunningStatement) -> str:
    """Pass on what is held, then what else the client sends; return the command tag."""
    for data in held.take():
        incoming.write(data)
    if held.failure is not None:
        incoming.fail(held.failure)
    return incoming.finish() if held.ended else receive(session, incoming, running)


def receive(session: ClientSession, incoming: CopyIn, running: RunningStatement) -> str:
    """Pass the client's data on until it says that there is no more; return the command tag."""
    while True:
        frame = _next_frame(session, incoming, running)
        if frame.message_class is CopyData:
            incoming.write(frame.body)
        elif frame.message_class is CopyDone:
            return incoming.finish()
        elif frame.message_class is CopyFail:
            incoming.fail(_failure(session, frame))


def _failure(session: ClientSession, frame: Frame[FrontendMessage]) -> str:
    return CopyFail.decode(frame.body, session.frontend.encoding).message


def _next_frame(
    session: ClientSession, incoming: CopyIn, running: RunningStatement
) -> Frame[FrontendMessage]:
    """Wait for a message that belongs to the COPY; any other way out ends the COPY first."""
    try:
        frame = session.frontend.receive()
        running.check()
        _require_copy_message(frame.message_class)
    except BaseException as error:
        with suppress(CatalogError):
            incoming.fail(str(error))
        raise
    return frame


def _require_copy_message(kind: type[FrontendMessage]) -> None:
    if kind is Terminate:
        raise EOFError
    if kind not in COPY_MESSAGES:
        raise GatewayError(
            f"unexpected message type 0x{kind.type_byte[0]:02X} during COPY from stdin",
            sqlstate=codes.PROTOCOL_VIOLATION,
        )
