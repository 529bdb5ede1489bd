"""Results that the JVM serves at a socket."""

import socket
import statistics
import struct
import threading
import time

import pytest

from pgwire_gateway.spark.internals.streams import _Service

PARTS = 50

DELAY_S = 0.04
"""How long a system waits before it acknowledges a small piece, where it thinks it can."""


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="a setting of Linux")
def test_small_pieces_are_not_waited_for() -> None:
    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            length = struct.unpack(">i", connection.recv(4))[0]
            connection.recv(length)
            connection.sendall(struct.pack(">i", 2) + b"ok")
            while connection.recv(4):
                # As the JVM does: number by number, each of which waits until the last has come.
                for number in (1, 7, -1):
                    connection.sendall(struct.pack(">i", number))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        service = _Service(listener.getsockname()[1], "secret", None)
        took_s = []
        for _ in range(PARTS):
            start = time.perf_counter()
            service.send(struct.pack(">i", 1))
            assert [service.number() for _ in range(3)] == [1, 7, -1]
            took_s.append(time.perf_counter() - start)
        service.close()
        server.join()
    # A machine that stands still in between delays few of them.
    assert statistics.median(took_s) < DELAY_S / 2
