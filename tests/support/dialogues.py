"""Dialogues of messages with a server, and their traces in regress mode."""

import io
import re

from pgwire_gateway.listener.message_trace import MessageTrace
from pgwire_gateway.messages import (
    BackendMessage,
    Bind,
    CopyDone,
    CopyFail,
    FrontendMessage,
    ParameterStatus,
    Query,
    Sync,
)
from tests.support.servers import Address
from tests.support.wire_client import WireClient

# Where in the server's source an error was raised: no client depends on it.
SOURCE = re.compile(r' [FLR] "SSSS"')
LENGTH = re.compile(r"^B\t\d+\t(ErrorResponse|NoticeResponse)", re.MULTILINE)


def wire(server: Address, database: str) -> WireClient:
    address = f"{server.host}/.s.PGSQL.{server.port}" if server.host[0] == "/" else None
    return WireClient.connect(
        address or (server.host, server.port),
        {"user": "postgres", "database": database, "TimeZone": "UTC"},
        timeout_s=120.0,
    )


def trace(messages: list[BackendMessage]) -> str:
    stream = io.StringIO()
    tracer = MessageTrace(stream, regress=True, timestamps=False)
    for message in messages:
        tracer.backend(message)
    return LENGTH.sub(r"B\tNN\t\1", SOURCE.sub("", stream.getvalue()))


def bind(*values: str | None, portal: str = "", statement: str = "", results=()) -> Bind:
    encoded = tuple(None if value is None else value.encode() for value in values)
    return Bind(portal, statement, (), encoded, tuple(results))


def play(client: WireClient, messages: list[FrontendMessage | bytes]) -> str:
    """Send messages one after the other, waiting for ReadyForQuery where one is due."""
    text = []
    held: list[FrontendMessage | bytes] = []
    for message in messages:
        held.append(message)
        starts_copy = isinstance(message, Query) and "FROM STDIN" in message.query_string
        ends_copy = isinstance(message, CopyDone | CopyFail) and isinstance(held[0], Query)
        if (
            ends_copy
            or isinstance(message, Sync)
            or (isinstance(message, Query) and not starts_copy)
        ):
            client.send(*held)
            held.clear()
            answers = client.receive_until_ready()
            # Reported when they change: at once by some servers, before ReadyForQuery by others.
            reported = [a for a in answers if isinstance(a, ParameterStatus)]
            others = [a for a in answers if not isinstance(a, ParameterStatus)]
            text.append(trace([*others[:-1], *sorted(reported, key=str), others[-1]]))
    assert not held
    return "\n".join(text)
