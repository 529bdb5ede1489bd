"""A client on a raw socket: it times answers and throws rows away without looking at them.

A driver would spend more time on its own rows than the servers spend on sending them.
"""

import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from pgwire_gateway.messages import (
    Bind,
    Execute,
    FrontendMessage,
    Parse,
    ProtocolVersion,
    Query,
    StartupMessage,
    Sync,
    Terminate,
)
from tests.support.servers import Address

READY_FOR_QUERY = b"Z\x00\x00\x00\x05"
"""All of the message but the transaction status."""

RECEIVE_BYTES = 1 << 20

TIMEOUT_S = 900.0

Frame = tuple[bytes, bytes]
"""Type byte and body of a message."""


class AnswerError(Exception):
    """The server answered with an error, or not as expected."""


@dataclass(frozen=True, slots=True)
class Answer:
    """All a server said to one request, and how long it took to say it."""

    seconds: float
    frames: tuple[Frame, ...]

    @property
    def results(self) -> tuple[Frame, ...]:
        """Rows and command tags: what any server that holds the same rows says."""
        return tuple(frame for frame in self.frames if frame[0] in {b"D", b"C"})

    @property
    def rows(self) -> list[tuple[str | None, ...]]:
        """Rows in text format."""
        return [_values(body) for kind, body in self.frames if kind == b"D"]


class Client:
    """One connection to a server that asks for no password."""

    def __init__(self, address: Address, database: str = "postgres") -> None:
        self._socket = socket.create_connection((address.host, address.port), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(RECEIVE_BYTES)
        parameters = (("user", "postgres"), ("database", database))
        self._exchange(StartupMessage(ProtocolVersion(3, 0), parameters).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.sendall(Terminate().encode())
        self._socket.close()

    def query(self, query_string: str) -> list[tuple[str | None, ...]]:
        """Run a query string and return its rows as text.

        Raises:
            AnswerError: The server reports an error.
        """
        return self.ask(query_string).rows

    def ask(self, query_string: str) -> Answer:
        """Run a query string by the simple query protocol."""
        return self._exchange(Query(query_string).encode())

    def ask_unprepared(self, statement: str, parameter_oids: Sequence[int], *values: str) -> Answer:
        """Parse, bind and execute a statement with text parameters, nothing of it kept."""
        parse = Parse("", statement, tuple(parameter_oids))
        return self._exchange(_join(parse, *_execution("", values)))

    def ask_prepared(self, name: str, *values: str) -> Answer:
        """Bind text parameters to a prepared statement and execute it."""
        return self._exchange(_join(*_execution(name, values)))

    def time(self, query_string: str) -> float:
        """Run a query string and return the seconds until the server is ready again."""
        return self.ask(query_string).seconds

    def prepare(self, name: str, statement: str, parameter_oids: Sequence[int]) -> None:
        """Make a prepared statement."""
        self._exchange(_join(Parse(name, statement, tuple(parameter_oids)), Sync()))

    def time_prepared(self, name: str, *values: str) -> float:
        """Run a prepared statement with text parameters and return the seconds it took."""
        return self.ask_prepared(name, *values).seconds

    def discard(self, query_string: str, rows: int) -> tuple[float, int]:
        """Run a SELECT and drop its rows; returns seconds and bytes.

        Raises:
            AnswerError: The answer does not end with this number of rows.
        """
        tag = b"SELECT %d\x00" % rows
        complete = b"C" + (len(tag) + 4).to_bytes(4, "big") + tag
        start = time.perf_counter()
        self._socket.sendall(Query(query_string).encode())
        received, end = 0, b""
        while not (end[-6:-1] == READY_FOR_QUERY and end[:-6].endswith(complete)):
            count = self._socket.recv_into(self._buffer)
            received += count
            end = (end + self._buffer[max(0, count - 64) : count])[-64:]
            if count == 0 or (received == count and self._buffer[:1] == b"E"):
                raise AnswerError(f"{query_string}: answer ends with {bytes(end)!r}")
        return time.perf_counter() - start, received

    def _exchange(self, request: bytes) -> Answer:
        start = time.perf_counter()
        self._socket.sendall(request)
        answer = bytearray()
        while answer[-6:-1] != READY_FOR_QUERY:
            count = self._socket.recv_into(self._buffer)
            if count == 0:
                raise AnswerError(f"the server hung up after {bytes(answer)!r}")
            answer += self._buffer[:count]
        seconds = time.perf_counter() - start
        frames = tuple(_frames(answer))
        for kind, body in frames:
            if kind == b"E":
                raise AnswerError(body.replace(b"\x00", b" ").decode("utf-8", "replace"))
        return Answer(seconds, frames)


def _execution(name: str, values: Sequence[str]) -> tuple[FrontendMessage, ...]:
    parameters = tuple(value.encode() for value in values)
    return Bind("", name, parameter_values=parameters), Execute(""), Sync()


def _join(*messages: FrontendMessage) -> bytes:
    return b"".join(message.encode() for message in messages)


def _frames(answer: bytes | bytearray) -> Iterator[Frame]:
    position = 0
    while position < len(answer):
        size = int.from_bytes(answer[position + 1 : position + 5], "big")
        yield (
            bytes(answer[position : position + 1]),
            bytes(answer[position + 5 : position + 1 + size]),
        )
        position += size + 1


def _values(body: bytes) -> tuple[str | None, ...]:
    count, position = int.from_bytes(body[:2], "big"), 2
    values: list[str | None] = []
    for _ in range(count):
        size = int.from_bytes(body[position : position + 4], "big", signed=True)
        position += 4
        values.append(None if size < 0 else body[position : position + size].decode())
        position += max(size, 0)
    return tuple(values)
