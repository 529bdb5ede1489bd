import socket
import threading

from pgwire_gateway.listener.flow_control import WRITE_BYTES, OutputBuffer


def test_nothing_is_sent_before_a_flush_or_a_large_amount():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        output = OutputBuffer(ours)
        output.write(b"a")
        output.write(memoryview(b"bc"))
        try:
            early = theirs.recv(10)
        except BlockingIOError:
            early = b""
        assert early == b""
        output.flush()
        assert theirs.recv(10) == b"abc"


def test_a_reader_that_does_not_read_blocks_the_writer_and_loses_nothing():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        output = OutputBuffer(ours)
        piece = b"x" * WRITE_BYTES
        done = threading.Event()

        def write():
            for _ in range(40):
                output.write(piece)
            output.flush()
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        assert not done.wait(0.2)
        received = 0
        while received < 40 * len(piece):
            received += len(theirs.recv(1 << 20))
        writer.join(60)
        assert done.is_set()
        assert received == 40 * len(piece)
