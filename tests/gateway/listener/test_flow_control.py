import socket
import threading
from concurrent.futures import ThreadPoolExecutor, wait

from pgwire_gateway.listener import flow_control
from pgwire_gateway.listener.flow_control import WRITE_BYTES, OutputBuffer

PATIENCE_S = 30.0


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


def test_who_is_told_to_end_gives_up_a_reader_that_does_not_read(monkeypatch):
    monkeypatch.setattr(flow_control, "LAST_WORDS_S", 0.1)
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor() as others:
        output = OutputBuffer(ours)
        sent = others.submit(output.write, b"x" * (16 << 20))
        assert not wait([sent], 0.2).done
        output.end_soon()
        assert isinstance(sent.exception(PATIENCE_S), ConnectionError)


def test_who_is_told_to_end_still_says_so_to_who_reads(monkeypatch):
    monkeypatch.setattr(flow_control, "LAST_WORDS_S", 0.0)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        output = OutputBuffer(ours)
        output.end_soon()
        for size in (10, 20_000):
            output.write(b"x" * size)
            output.flush()
            assert len(theirs.recv(size, socket.MSG_WAITALL)) == size
