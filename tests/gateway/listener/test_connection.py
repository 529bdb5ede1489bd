"""How a client's socket is set."""

import socket
from types import SimpleNamespace

from pgwire_gateway.listener.connection import ClientHandler


def test_clients_that_vanish_are_noticed_and_answers_are_not_held_back():
    found = {}

    def open_session(connection):
        found["alive"] = connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        found["at once"] = connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    listening = socket.create_server(("127.0.0.1", 0))
    with listening, socket.create_connection(listening.getsockname()):
        handler = ClientHandler.__new__(ClientHandler)
        handler.request, _ = listening.accept()
        handler.server = SimpleNamespace(state=SimpleNamespace(open_session=open_session))
        handler.handle()
    assert found == {"alive": 1, "at once": 1}
