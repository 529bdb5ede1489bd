"""Statements of clients that hung up are cancelled, whatever their connections do meanwhile."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from pgwire_gateway.listener.channel import ClientConnection
from pgwire_gateway.listener.server import GatewayServer, ServerState

PATIENCE_S = 30.0


class Session:
    """A session that only counts how often it was cancelled, when it may."""

    def __init__(self, running: object | None = "a statement", descriptor: int = -1) -> None:
        self.running = running
        self.cancelled = 0
        self.may_be_cancelled = threading.Event()
        self.may_be_cancelled.set()
        self.catalog = SimpleNamespace(fileno=lambda: descriptor)

    def cancel(self) -> None:
        self.cancelled += 1
        self.may_be_cancelled.wait(PATIENCE_S)


class ClosedMeanwhile:
    """A socket that its own thread closes as soon as anybody has looked at it."""

    def __init__(self, closed: socket.socket) -> None:
        self._socket = closed

    def fileno(self) -> int:
        descriptor = self._socket.fileno()
        self._socket.close()
        return descriptor


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The server's and the client's end of a connection."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def state_with(session: Session, ours: socket.socket) -> ServerState:
    state = ServerState(None)
    state._open = {session: ClientConnection(ours)}
    return state


def await_that(holds: Callable[[], bool]) -> None:
    """Wait until something holds that others see to."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_statement_is_cancelled_when_its_client_has_hung_up(ends) -> None:
    ours, theirs = ends
    session = Session()
    state = state_with(session, ours)
    state.cancel_abandoned()
    assert session.cancelled == 0
    theirs.close()
    state.cancel_abandoned()
    await_that(lambda: session.cancelled == 1)


def test_an_idle_session_is_left_to_its_own_thread(ends) -> None:
    ours, theirs = ends
    session = Session(running=None)
    theirs.close()
    state_with(session, ours).cancel_abandoned()
    assert session.cancelled == 0


def test_a_connection_may_be_closed_while_it_is_looked_at(ends) -> None:
    ours, _ = ends
    state_with(Session(), ClosedMeanwhile(ours)).cancel_abandoned()


def test_clients_are_accepted_whatever_becomes_of_that(ends, caplog) -> None:
    ours, theirs = ends
    session = Session()
    session.cancel = lambda: 1 // 0
    state = state_with(session, ours)
    theirs.close()
    GatewayServer.service_actions(SimpleNamespace(state=state))
    await_that(lambda: "ZeroDivisionError" in caplog.text)
    GatewayServer.service_actions(SimpleNamespace(state=None))
    assert "AttributeError" in caplog.text


def test_clients_are_accepted_while_nobody_answers_who_cancels(ends) -> None:
    ours, theirs = ends
    session = Session()
    session.may_be_cancelled.clear()
    state = state_with(session, ours)
    theirs.close()
    begun = time.monotonic()
    for _ in range(5):
        GatewayServer.service_actions(SimpleNamespace(state=state))
    assert time.monotonic() - begun < PATIENCE_S / 2
    # However often it is looked at, one cancels it.
    await_that(lambda: session.cancelled == 1)
    session.may_be_cancelled.set()
    await_that(lambda: not state._cancelling)
    state.cancel_abandoned()
    await_that(lambda: session.cancelled == 2)


def test_a_session_that_the_catalog_has_ended_ends_whatever_it_waits_for(ends) -> None:
    ours, theirs = ends
    for hangs_up in (False, True):
        catalog, server = socket.socketpair()
        with catalog, server:
            # It is known to the session itself, or only to who looks at its socket.
            session = Session(descriptor=catalog.fileno() if hangs_up else -1)
            state = state_with(session, ours)
            server.close()
            state.end_lost()
            await_that(lambda: session.cancelled == 1)  # noqa: B023
    (connection,) = state.sessions.values()
    with pytest.raises(EOFError):
        connection.receive()
    with pytest.raises(ConnectionAbortedError):
        connection.send_encoded(b"x" * (16 << 20))
    assert theirs.recv(1) == b"x"
