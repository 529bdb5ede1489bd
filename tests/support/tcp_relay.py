"""A TCP port for a server that listens on a Unix socket alone, as drivers of Java need one."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.servers import Address


@contextmanager
def tcp_relay(server: Address) -> Iterator[int]:
    """Relay connections to a server; yields the port on 127.0.0.1."""
    path = f"{server.host}/.s.PGSQL.{server.port}"

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as upstream:
                upstream.connect(path)
                back = threading.Thread(target=_copy, args=(upstream, self.request), daemon=True)
                back.start()
                _copy(self.request, upstream)
                back.join(5)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as relay:
        thread = threading.Thread(target=relay.serve_forever, daemon=True)
        thread.start()
        yield int(relay.server_address[1])
        relay.shutdown()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
