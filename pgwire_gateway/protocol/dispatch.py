"""Which function answers which message, and what a failure does to the session."""

from collections.abc import Callable, Mapping
from typing import Any

from catalog.errors import GatewayError
from catalog.pg.text_codecs import UNCONVERTED
from catalog.pg.types import TEXT
from pgwire_gateway.messages.base import Frame, FrontendMessage
from pgwire_gateway.messages.copy_data import CopyData, CopyDone, CopyFail
from pgwire_gateway.messages.errors import InvalidTextError
from pgwire_gateway.messages.extended_query import Bind, Describe, Parse, Sync
from pgwire_gateway.messages.simple_query import FunctionCall, Query
from pgwire_gateway.protocol import extended_query, relaying, simple_query
from pgwire_gateway.session.state import ClientSession
from rewrite.errors import UnsupportedError

_WHERE = "W"
"""Field of an error that tells what was going on."""

IGNORED = frozenset({CopyData, CopyDone, CopyFail})
"""Messages of a COPY that failed on our side before the client knew."""


def on_arrival(session: ClientSession) -> bool:
    """Answer what has arrived the short way, up to the end of its cycle.

    Waits until something has. False when the short way is not it, or messages are left; they are
    received one by one then.

    Raises:
        Exception: Only failures that end the connection.
    """
    if session.skip_until_sync or session.shortcuts.declined:
        return False
    data = session.frontend.peek()
    session.begin_reading()
    short_way = SHORT_WAYS.get(data[:1])
    if short_way is None:
        return False
    try:
        return short_way(session, data)
    except Exception as error:  # noqa: BLE001 - whatever fails is told to the client
        _fail(session, error, session.frontend.receive().message_class)
        return True


def on_frame(session: ClientSession, frame: Frame[FrontendMessage]) -> None:
    """Answer one message.

    Raises:
        Exception: Only failures that end the connection.
    """
    session.begin_reading()
    kind = frame.message_class
    if kind in IGNORED or (session.skip_until_sync and kind is not Sync):
        return
    try:
        HANDLERS[kind](session, frame.decode(session.frontend.encoding))
    except InvalidTextError as error:
        _fail(session, _told_by_postgresql(session, error), kind)
    except Exception as error:  # noqa: BLE001 - whatever fails is told to the client
        _fail(session, error, kind)


def _told_by_postgresql(session: ClientSession, error: InvalidTextError) -> Exception:
    """Return what PostgreSQL says of bytes that are no text, where it has to be asked for that.

    Which of them make up a character, and what is wrong with that, differs from one encoding of
    several bytes to the next.
    """
    if not error.text or session.encoding in UNCONVERTED or session.transaction.failed:
        return error
    try:
        session.catalog.canonical_parameters([TEXT], [error.text])
    except GatewayError as told:
        told.fields.pop(_WHERE, None)  # it was no parameter
        return told
    return error


def _fail(session: ClientSession, error: Exception, kind: type[FrontendMessage]) -> None:
    """Tell the client of a failure at a message of this class."""
    session.fail(error)
    if kind in CYCLES:
        session.skip_until_sync = False
        session.ready_for_query()
    else:
        # Clients that have sent Flush after this message, or that wait for it, send no Sync before.
        session.frontend.flush()


def on_function_call(_session: ClientSession, _message: FunctionCall) -> None:
    """Refuse the function call sub-protocol, which PostgreSQL's documentation calls obsolete."""
    raise UnsupportedError("the function call protocol is not supported")


CYCLES = frozenset({Query, FunctionCall, Sync})
"""Messages answered with ReadyForQuery, whatever happens."""

SHORT_WAYS: Mapping[bytes, Callable[[ClientSession, bytes], bool]] = {
    Query.type_byte: relaying.on_query,
    Parse.type_byte: relaying.on_series,
    Bind.type_byte: relaying.on_series,
    Describe.type_byte: relaying.on_series,
}
"""What answers messages that begin with one of this type, when PostgreSQL alone can."""

HANDLERS: Mapping[type[FrontendMessage], Callable[[ClientSession, Any], None]] = {
    Query: simple_query.on_query,
    FunctionCall: on_function_call,
    **extended_query.HANDLERS,
}
"""What answers each message."""
