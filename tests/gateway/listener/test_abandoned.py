"""Statements of clients that hung up are cancelled, whatever their connections do meanwhile."""

import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from pgwire_gateway.listener.channel import ClientConnection
from pgwire_gateway.listener.server import GatewayServer, ServerState


class Session:
    """A session that only counts how often it was cancelled."""

    def __init__(self, running: object | None = "a statement") -> None:
        self.running = running
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1


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


def test_a_statement_is_cancelled_when_its_client_has_hung_up(ends) -> None:
    ours, theirs = ends
    session = Session()
    state = state_with(session, ours)
    state.cancel_abandoned()
    assert session.cancelled == 0
    theirs.close()
    state.cancel_abandoned()
    assert session.cancelled == 1


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
    assert "ZeroDivisionError" in caplog.text
