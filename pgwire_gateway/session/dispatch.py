"""Which function answers which message, and what a failure does to the session."""

from collections.abc import Callable, Mapping
from typing import Any

from pgwire_gateway.errors import UnsupportedError
from pgwire_gateway.messages.base import Frame, FrontendMessage
from pgwire_gateway.messages.copy_data import CopyData, CopyDone, CopyFail
from pgwire_gateway.messages.extended_query import Bind, Describe, Parse, Sync
from pgwire_gateway.messages.simple_query import FunctionCall, Query
from pgwire_gateway.session import extended_query, relaying, simple_query
from pgwire_gateway.session.state import ClientSession

IGNORED = frozenset({CopyData, CopyDone, CopyFail})
"""Messages of a COPY that failed on our side before the client knew."""


def on_frame(session: ClientSession, frame: Frame[FrontendMessage]) -> None:
    """Answer one message.

    Raises:
        Exception: Only failures that end the connection.
    """
    kind = frame.message_class
    if kind in IGNORED or (session.skip_until_sync and kind is not Sync):
        return
    try:
        short_way = SHORT_WAYS.get(kind)
        if short_way is not None and short_way(session, frame):
            return
        HANDLERS[kind](session, frame.decode(session.frontend.encoding))
    except Exception as error:  # noqa: BLE001 - whatever fails is told to the client
        session.fail(error)
        if kind in CYCLES:
            session.skip_until_sync = False
            session.ready_for_query()


def on_function_call(_session: ClientSession, _message: FunctionCall) -> None:
    """Refuse the function call sub-protocol, which PostgreSQL's documentation calls obsolete."""
    raise UnsupportedError("the function call protocol is not supported")


CYCLES = frozenset({Query, FunctionCall, Sync})
"""Messages answered with ReadyForQuery, whatever happens."""

SHORT_WAYS: Mapping[
    type[FrontendMessage], Callable[[ClientSession, Frame[FrontendMessage]], bool]
] = {
    Query: relaying.on_query,
    Parse: relaying.on_series,
    Bind: relaying.on_series,
    Describe: relaying.on_series,
}
"""What answers a message, and those up to Sync, when PostgreSQL alone can."""

HANDLERS: Mapping[type[FrontendMessage], Callable[[ClientSession, Any], None]] = {
    Query: simple_query.on_query,
    FunctionCall: on_function_call,
    **extended_query.HANDLERS,
}
"""What answers each message."""
