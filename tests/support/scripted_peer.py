"""A peer that plays a script of expect and send steps, so that a test reads as a dialogue.

It can be either side: as the backend it stands in for the server, as the frontend for a client.

    script = [Expect(Query("SELECT 1")), Send(CommandComplete("SELECT 1"), ready)]
    with played(Backend(), script) as transport:
        ...  # talk to the peer over transport

Leaving the block fails the test if the script was not played to its end.
"""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pgwire_gateway.messages import (
    AuthenticationResponse,
    BackendFrameReader,
    FrontendFrameReader,
    Message,
    StartupMessage,
)

_CHUNK_BYTES = 65_536
_TIMEOUT_S = 60.0


class ScriptError(AssertionError):
    """The other side did not say what the script has."""


@dataclass(frozen=True, init=False)
class Send:
    """Say messages, or any bytes, in one go."""

    messages: tuple[Message | bytes, ...]

    def __init__(self, *messages: Message | bytes) -> None:
        """Keep what to say."""
        object.__setattr__(self, "messages", messages)


@dataclass(frozen=True, init=False)
class Expect:
    """Hear these messages; a class stands for any message of it."""

    messages: tuple[Message | type[Message], ...]

    def __init__(self, *messages: Message | type[Message]) -> None:
        """Keep what to hear."""
        object.__setattr__(self, "messages", messages)


@dataclass(frozen=True)
class ExpectClose:
    """Hear that the other side closes the connection, and nothing before."""


@dataclass(frozen=True)
class HangUp:
    """Close the connection."""


Step = Send | Expect | ExpectClose | HangUp


class Frontend:
    """The peer is a client: it hears what a server says."""

    def __init__(self) -> None:
        """Hear nothing yet."""
        self._reader = BackendFrameReader()

    def feed(self, data: bytes) -> None:
        """Hear bytes."""
        self._reader.feed(data)

    def next_message(self, expected: type[Message]) -> Message | None:  # noqa: ARG002
        """Return the next message heard in full."""
        return self._reader.next_message()


class Backend:
    """The peer is a server: it hears what a client says.

    Which phase the conversation is in follows from what the script expects next.
    """

    def __init__(self, *, session: bool = False) -> None:
        """Begin with the start-up phase, or with an open session."""
        self._reader = FrontendFrameReader()
        self._started = session

    def feed(self, data: bytes) -> None:
        """Hear bytes."""
        self._reader.feed(data)

    def next_message(self, expected: type[Message]) -> Message | None:
        """Return the next message heard in full."""
        if issubclass(expected, AuthenticationResponse):
            self._reader.expect_authentication(expected)
        elif self._started:
            self._reader.expect_session()
        message = self._reader.next_message()
        self._started = self._started or isinstance(message, StartupMessage)
        return message


class ScriptedPeer:
    """Plays a script over a socket."""

    def __init__(self, transport: socket.socket, side: Frontend | Backend) -> None:
        """Speak over a connected socket."""
        self._transport = transport
        self._side = side

    def play(self, script: Sequence[Step]) -> None:
        """Play the steps in order.

        Raises:
            ScriptError: the other side said something else, or left.
        """
        for number, step in enumerate(script, start=1):
            try:
                self._play_step(step)
            except (ScriptError, OSError) as error:
                raise ScriptError(f"step {number}, {step}: {error}") from error

    def _play_step(self, step: Step) -> None:
        match step:
            case Send(messages):
                self._transport.sendall(
                    b"".join(m if isinstance(m, bytes) else m.encode() for m in messages)
                )
            case Expect(messages):
                for message in messages:
                    self._expect(message)
            case ExpectClose():
                self._expect_close()
            case HangUp():
                self._transport.close()

    def _expect(self, expected: Message | type[Message]) -> None:
        message_class = expected if isinstance(expected, type) else type(expected)
        while (message := self._side.next_message(message_class)) is None:
            data = self._transport.recv(_CHUNK_BYTES)
            if not data:
                raise ScriptError(f"connection closed instead of {expected}")
            self._side.feed(data)
        matches = (
            isinstance(message, message_class)
            if expected is message_class
            else (message == expected)
        )
        if not matches:
            raise ScriptError(f"heard {message} instead of {expected}")

    def _expect_close(self) -> None:
        try:
            data = self._transport.recv(_CHUNK_BYTES)
        except ConnectionResetError:
            return
        if data:
            raise ScriptError(f"heard {data!r} instead of the end")


@contextmanager
def played(side: Frontend | Backend, script: Sequence[Step]) -> Iterator[socket.socket]:
    """Play a script in a thread; give the socket of the other side.

    Raises:
        ScriptError: on leaving, when the script was not played to its end.
    """
    ours, theirs = socket.socketpair()
    ours.settimeout(_TIMEOUT_S)
    theirs.settimeout(_TIMEOUT_S)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            ScriptedPeer(theirs, side).play(script)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)
            # Otherwise the other side would wait for an answer that never comes.
            theirs.close()

    thread = threading.Thread(target=run, name="scripted peer", daemon=True)
    thread.start()
    try:
        with ours:
            yield ours
    finally:
        thread.join(_TIMEOUT_S)
        theirs.close()
        if failures:
            raise failures[0]
